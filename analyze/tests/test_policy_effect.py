# SPDX-License-Identifier: Apache-2.0
"""What a policy decided in a replay, in its own words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape import _replay
from pagetape.asking import policy_effect
from pagetape.replaying.playback import Run as Rules
from pagetape.replaying.playback import Source, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape

DEMO = Path(__file__).parents[1] / "demo/pressure.tape"

Run = Callable[..., Any]

# Settings of the demo's own machine and kernel: nothing is left to decide.
AS_RECORDED = (
    "fake_numa:nodes=1",
    "fallback:kernel=6.1.192",
    "pcp",
    "reserve:mode=none",
    "split_zone:parts=1",
    "watermarks",
    "watermarks:watermark_scale_factor=10",
    "zone_reclaim_mode:mode=0",
    "zonelist:order=node",
)


@pytest.fixture(scope="module")
def demo() -> Source:
    tape = Tape(DEMO)
    return Source(tape, inferred(tape), preferences(tape))


@pytest.fixture(scope="module")
def played(demo: Source) -> Callable[..., dict[str, Any]]:
    """The result of a replay of the demo under one policy."""
    return lambda spec, reclaim="R0": play(demo, Rules("auto", (spec,), reclaim))


def _values(result: dict[str, Any]) -> dict[str, int]:
    return {name: total["value"] for name, total in result["totals"].items()}


@pytest.mark.parametrize("reclaim", ["R0", "R1"])
def test_every_policy_of_the_tree_says_what_it_decided(
    played: Callable[..., dict[str, Any]], reclaim: str
) -> None:
    for name in (policy["name"] for policy in _replay.policies()):
        effects = {e["policy"]: e for e in played(name, reclaim)["policies_effect"]}
        assert effects.keys() == {"mainline", name}
        effect = effects[name]
        assert effect["text"].startswith("never had a choice here: ") == (not effect["choices"])
        assert effect["changed"] is None or effect["changed"] <= effect["choices"]


def test_a_policy_without_a_choice_changes_nothing(
    played: Callable[..., dict[str, Any]],
) -> None:
    own = played("mainline")
    for spec in AS_RECORDED:
        result = played(spec)
        (line,) = policy_effect.without_choice(result["policies_effect"])
        assert line.startswith(f"{spec} never had a choice here: ")
        assert _values(result) == _values(own), spec


def test_a_policy_that_decides_changes_what_it_says(
    played: Callable[..., dict[str, Any]],
) -> None:
    """At each fallback of the record, mainline boosts and factor=0 does not."""
    result = played("watermark_boost:factor=0")
    (effect,) = [e for e in result["policies_effect"] if e["policy"] != "mainline"]
    assert effect["changed"] > 0
    assert _values(played("mainline"))["boost_asks"] > 0 == _values(result)["boost_asks"]


def test_commands_mark_a_policy_without_a_choice(tmp_path: Path, pagetape: Run) -> None:
    out, page, said = tmp_path / "w.tape", tmp_path / "w.html", "never had a choice here: no node"
    text = pagetape("replay", DEMO, "--policy", "nofragment:mode=lowzone", "-o", out).out
    line = next(line for line in text.splitlines() if said in line)
    assert line.startswith("nofragment:mode=lowzone ")
    assert f"w: {line}" in pagetape("compare", DEMO, out).out.splitlines()
    (_, whatif) = pagetape("compare", DEMO, out, "--json").json["tapes"]
    assert [e["policy"] for e in whatif["policies_effect"]] == ["mainline", line.split()[0]]
    pagetape("html", DEMO, out, "-o", page)
    assert f"<dt>policy</dt><dd class=bad>{line}</dd>" in page.read_text()
    matrix = pagetape(
        "sweep", "--policy", "nofragment:mode={lowzone,always}", DEMO, "-o", tmp_path / "m"
    ).out.splitlines()
    assert [row for row in matrix if "(no choice)" in row] == [
        row for row in matrix if row.startswith("nofragment:mode=lowzone (no choice) ")
    ]
    assert line in matrix
