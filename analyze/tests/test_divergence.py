# SPDX-License-Identifier: Apache-2.0
"""pagetape replay --explain: the first wrong page of a free run, with both states around it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.replaying.divergence import PARTS, explain
from pagetape.replaying.playback import Run as PlayedRun
from pagetape.replaying.playback import Source
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]


def without(source: Path, path: Path, rows: set[int]) -> Path:
    """The same tape as a recording, without some events."""
    tape = Tape(source)
    with Writer(path, {k: v for k, v in tape.facts.items() if k != "replay"}) as out:
        # Without counts of the events, pagetape infers neither the start nor lost requests.
        for name in tape.tables - {"counter", "anomaly", "tracepoint"}:
            remaining = [
                row
                for at, row in enumerate(tape.table(name).to_pylist())
                if name != "event" or at not in rows
            ]
            out.rows(name, remaining)
    return path


def test_a_run_that_is_exact_has_no_wrong_page(played: Path, tmp_path: Path, pagetape: Run) -> None:
    recorded = without(played, tmp_path / "recorded.tape", set())
    assert pagetape("replay", recorded, "--explain", "--json").json["first_divergence"] is None
    assert "no wrong page" in pagetape("replay", recorded, "--explain").out
    assert "first_divergence" not in pagetape("replay", recorded, "--json").json


def test_the_first_wrong_page_is_shown_with_both_states(
    played: Path, tmp_path: Path, pagetape: Run
) -> None:
    events = Tape(played).table("event").to_pylist()
    removed = [
        at
        for at, row in enumerate(events)
        if row["kind"] == "alloc" and events[at - 1]["kind"] != "alloc_zone_locked"
    ][2000]
    gone = events[removed]
    recorded = without(played, tmp_path / "recorded.tape", {removed})
    first = pagetape("replay", recorded, "--explain", "--json").json["first_divergence"]
    # The page without an alloc event is still on its list: the next request to that list gets it.
    assert first["expected"] == gone["pfn"]
    assert (first["cpu"], first["migratetype"]) == (gone["cpu"], gone["migratetype"])
    rows = Tape(recorded).table("event").to_pylist()
    assert rows[first["at"]]["pfn"] == first["got"]
    assert list(first["same_until"]) == list(PARTS)
    assert removed <= first["same_until"]["per-CPU lists"] <= first["at"]
    explanation = "\n".join(first["explanation"])
    for words in ("the kernel before", "the model before", "the kernel after", "the model after"):
        assert explanation.count(words) == 1
    assert f"page {gone['pfn']}: " in explanation and "what differs before row" in explanation
    said = pagetape("replay", recorded, "--explain").out
    assert f"first wrong page: event {first['at']:,} " in said and first["explanation"][-1] in said


def test_the_tables_of_accuracy_have_it(played: Path, tmp_path: Path) -> None:
    events = Tape(played).table("event").to_pylist()
    removed = [at for at, row in enumerate(events) if row["kind"] == "alloc"][3000]
    recorded = without(played, tmp_path / "recorded.tape", {removed})
    script, work = Path(__file__).parents[1] / "lab/fidelity.py", tmp_path / "work"
    argv = [sys.executable, script, "--only", "none", "--work", work, recorded]
    found = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    ((name, first, until, differences),) = found["partings"]["rows"]
    assert name == "recorded" and first > 0
    assert "free lists " in until and "node 0" in differences


@pytest.mark.parametrize("other", [("--policy", "nofragment"), ("--reclaim", "R1")])
def test_only_a_run_of_the_tapes_own_is_held_against_it(
    other: tuple[str, str], played: Path, pagetape: Run
) -> None:
    said = pagetape("replay", played, "--explain", *other)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert "--explain" in said.err


def test_the_zone_counters_are_the_kernels_while_the_lists_are() -> None:
    """Every page that enters or leaves a free list counts on the CPU that moved it."""
    tape = Tape(Path(__file__).parents[1] / "demo/pressure.tape")
    source = Source(tape, inferred(tape), preferences(tape))
    first = explain(source, PlayedRun("auto", (), assisted=True))
    assert first is not None
    assert first["same_until"]["counters of free pages"] >= first["same_until"]["free lists"]
    assert first["same_until"]["free lists"] > 30_000
