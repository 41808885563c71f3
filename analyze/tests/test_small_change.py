# SPDX-License-Identifier: Apache-2.0
"""analyze/lab/small_change.py: the same tape without two of its pages."""

from pathlib import Path

import pyarrow as pa
import small_change

from pagetape.replaying.validation import inferred
from pagetape.schemas.tape import Tape


def test_the_copy_lacks_the_events_of_the_pages_and_nothing_else(
    small: Path, tmp_path: Path
) -> None:
    tape = Tape(small)
    pages = small_change.lives(tape)[:2]
    rows = sorted(row for page in pages for row in page)
    small_change.without(tape, tmp_path / "changed.tape", rows)
    changed = Tape(tmp_path / "changed.tape")
    events = tape.table("event").to_pylist()
    gone = [events.pop(row) for row in reversed(rows)]
    assert changed.table("event").to_pylist() == events
    assert sorted(row["kind"] for row in gone) == ["alloc", "alloc", "free", "free"]
    for alloc, free in pages:
        assert tape.table("event")["pfn"][alloc] == tape.table("event")["pfn"][free]
    for name in changed.tables - {"event", "tracepoint"}:
        assert changed.num_rows(name) == tape.num_rows(name)
    assert inferred(changed) is not None


def test_rows_that_name_an_event_name_the_same_event() -> None:
    batch = pa.record_batch({"at": pa.array([5, 11, 20, 30, None], pa.uint64())})
    assert small_change._moved(batch, [10, 21])["at"].to_pylist() == [5, 10, 19, 28, None]


def test_both_ensembles_of_a_tape_are_compared(small: Path) -> None:
    found = small_change.fallbacks(small, "nofragment:mode=always", 2)
    assert found.low <= found.median <= found.high
