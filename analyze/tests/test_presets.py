# SPDX-License-Identifier: Apache-2.0
"""The presets of fragmentation avoidance v5, as data and as runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

# By patches: 1 tries lower zones, 4 boosts at every fallback, 5 stalls from order 4 on; 2 and
# 3 decide nothing. Patches 1 to 3 are of 4.20, which never boosts.
V5 = {
    "v5:1": ["nofragment:mode=lowzone", "watermark_boost:factor=0"],
    "v5:1-4": ["nofragment:mode=lowzone", "watermark_boost:trigger=every_fallback"],
    "v5:1-5": [
        "nofragment:mode=lowzone",
        "watermark_boost:trigger=every_fallback",
        "stall:order=4",
    ],
}


@pytest.mark.parametrize("preset", V5)
def test_a_preset_runs_as_the_policies_it_stands_for(
    preset: str, small: Path, pagetape: Run
) -> None:
    on = ("--kernel", "4.20", "--json")
    run = pagetape("replay", small, "--policy", preset, *on).json
    assert run["policies"] == V5[preset]
    one_by_one = [word for policy in V5[preset] for word in ("--policy", policy)]
    assert pagetape("replay", small, *one_by_one, *on).json["totals"] == run["totals"]


def test_every_preset_is_listed_with_its_policies(pagetape: Run) -> None:
    assert set(pagetape("policies", "--json").json["presets"]) == set(V5)
    text = pagetape("policies").out
    for preset, policies in V5.items():
        assert any(
            line.split() == [preset, *" + ".join(policies).split()] for line in text.splitlines()
        )
