# SPDX-License-Identifier: Apache-2.0
"""The last lines of `make demo`: this machine's fallbacks, and what is normal; its findings."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.diagnosing.thresholds import MIXING

DEMO = Path(__file__).parents[1] / "demo"


def lines(info: dict[str, Any], diagnosis: dict[str, Any]) -> list[str]:
    spec = importlib.util.spec_from_file_location("demo_answer", DEMO / "answer.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = module.live(info, diagnosis)
    return found


def test_a_tape_with_a_disease_is_named_with_its_baseline(pagetape: Callable[..., Any]) -> None:
    tape = DEMO / "server.tape"
    info = pagetape("info", tape, "--json").json
    diagnosis = pagetape("diagnose", tape, "--json").json
    machine, many, ill = lines(info, diagnosis)
    (mixing,) = [one for one in diagnosis["findings"] if one["id"] == "mixing"]
    nr = info["events"]["mm_page_alloc_extfrag"]
    assert f"{info['events']['mm_page_alloc']:,} allocations" in machine
    assert f"{nr:,}, {nr / info['duration_s']:.1f} per second" in many
    assert "normal is 0" in many and f"many ({mixing['severity']})" in many
    assert all(one["title"] in ill for one in diagnosis["findings"])


def mixing(**evidence: Any) -> dict[str, Any]:
    """A diagnosis without a finding."""
    asked = {"id": "mixing", "severity": "none", "reason": "no alloc_extfrag", "evidence": evidence}
    return {"findings": [], "not_shown": [asked], "summary": "No disease."}


@pytest.mark.parametrize(
    ("lasting", "words"),
    [(0, "0.00 %; normal is 0"), (1, "they are few"), (5, "many (low)"), (50, "many (medium)")],
)
def test_whether_fallbacks_are_many_follows_the_threshold(lasting: int, words: str) -> None:
    info = {
        "events": {"mm_page_alloc": 2_000_000, "mm_page_alloc_extfrag": 18},
        "duration_s": 8.0,
        "lost": None,
    }
    evidence = {"harmful": 7, "lasting_blocks": lasting, "movable_blocks": 5000}
    machine, said, ill = lines(info, mixing(**evidence, share_percent=lasting / 50))
    assert "an unknown number of events lost" in machine
    assert "18, 2.2 per second, 9.0 per million allocations; 7 put a page" in said
    assert words in said and f"begins at {MIXING.low:g} %" in said
    assert ill.endswith("No disease.")


def test_what_the_recording_does_not_show_is_not_called_few() -> None:
    info = {"events": {"mm_page_alloc_extfrag": 18}, "duration_s": 8.0, "lost": 0}
    assert "is unknown: no alloc_extfrag" in lines(info, mixing())[1]
    unknown = mixing(harmful=7, lasting_blocks=0, movable_blocks=None, share_percent=None)
    assert "is unknown: so is the number" in lines(info, unknown)[1]
    none = {"events": {"mm_page_alloc": 5}, "duration_s": 8.0, "lost": 0}
    assert lines(none, mixing())[1] == "Its fallbacks: none, which is normal."
