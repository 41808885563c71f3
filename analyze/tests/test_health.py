# SPDX-License-Identifier: Apache-2.0
"""Frees of unknown pages, by class, on a trace small enough to count by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pagetape.schemas.tape import Writer

Run = Callable[..., Any]

BLOCK = 512  # pages
TARGET, OTHER = 8 * BLOCK, 9 * BLOCK  # pageblocks: compaction isolates in the first


def _health(path: Path, pagetape: Run, events: list[tuple[str, int, int]]) -> dict[str, Any]:
    """The report about (kind, pfn, order) rows, of which the tenth and later follow compaction."""
    with Writer(path, {"pageblock_order": 9}) as tape:
        row = {"cpu": 0, "pid": 1, "flags": 0, "gfp_flags": 0}
        tape.rows(
            "event",
            [
                row
                | {"ts": 100 * i, "kind": kind, "pfn": pfn, "page_order": order}
                | ({"migratetype": "MOVABLE"} if kind == "alloc" else {})
                for i, (kind, pfn, order) in enumerate(events)
            ],
        )
        taken = {"start_pfn": TARGET, "end_pfn": TARGET + BLOCK, "nr_scanned": 9, "nr_taken": 4}
        in_vain = {"start_pfn": OTHER, "end_pfn": OTHER + BLOCK, "nr_scanned": 9, "nr_taken": 0}
        place = {"ts": 950, "cpu": 0, "pid": 2, "flags": 0, "at": 10}
        scan = place | {"kind": "isolate_freepages"}
        tape.rows("compaction", [scan | taken, scan | in_vain])
    rows = pagetape("report", "trace.health", path, "--json").json["rows"]
    return {row["what"]: row for row in rows}


def test_an_orphan_is_a_target_of_compaction_or_older_than_the_tape_or_without_event(
    tmp_path: Path, pagetape: Run
) -> None:
    known = [("alloc", 100 + i, 0) for i in range(4)] + [("free", 100 + i, 0) for i in range(4)]
    found = _health(
        tmp_path / "t.tape",
        pagetape,
        [
            *known,
            ("alloc", 64, 2),  # freed in parts below: both are known by their head
            ("free", TARGET + 1, 0),  # before compaction came: preexisting
            ("free", TARGET + 2, 0),  # compact_target
            ("free", TARGET + 3, 0),  # compact_target
            ("free", OTHER + 1, 0),  # a scan that took nothing: preexisting
            ("free", 101, 0),  # freed before and not allocated since: without_event
            ("free", 64, 1),
            ("free", 66, 1),
        ],
    )
    nr = {what.removeprefix("orphan frees, "): row["nr"] for what, row in found.items()}
    assert (nr["all classes"], nr["compact_target"]) == (5, 2)
    assert (nr["preexisting"], nr["without_event"]) == (2, 1)
    whole = found["orphan frees, all classes"]
    assert whole["share"] == round(5 / 11, 6)
    assert whole["warning"] == "more than 5 % of the frees are of unknown pages"


def test_up_to_a_twentieth_of_orphans_is_no_warning(tmp_path: Path, pagetape: Run) -> None:
    known = [("alloc", 100 + i, 0) for i in range(19)] + [("free", 100 + i, 0) for i in range(19)]
    found = _health(tmp_path / "t.tape", pagetape, [*known, ("free", OTHER, 0)])
    whole = found["orphan frees, all classes"]
    assert (whole["nr"], whole["share"], whole["warning"]) == (1, 0.05, None)
    assert found["lost events"]["nr"] == 0
