# SPDX-License-Identifier: Apache-2.0
"""A tape in memory answers as the same rows on disk do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagetape.schemas import TABLES
from pagetape.schemas.memory_tape import MemoryTape
from pagetape.schemas.tape import Tape, Writer

EVENTS: list[dict[str, Any]] = [
    {"ts": ts, "cpu": 0, "pid": 7, "kind": "alloc", "flags": 0, "pfn": ts, "page_order": 0}
    for ts in range(10, 50)
]
TASKS = [{"pid": 7, "tgid": 7, "comm": "a", "args": None}]


def test_the_rows_are_those_of_a_tape_on_disk(tmp_path: Path) -> None:
    facts = {"kernel": "6.12.1"}
    memory = MemoryTape(tmp_path / "m.tape", facts)
    with Writer(tmp_path / "d.tape", facts) as disk:
        for rows in (EVENTS[:30], [], EVENTS[30:]):
            for tape in (memory, disk):
                tape.write("event", TABLES["event"].batch(rows))
        for tape in (memory, disk):
            tape.write("task", TABLES["task"].batch(TASKS))
    stored = Tape(tmp_path / "d.tape")
    for name in ("event", "task", "zone"):
        assert memory.table(name).equals(stored.table(name))
        assert memory.rows(name) == stored.rows(name)
        assert memory.num_rows(name) == stored.num_rows(name)
    assert memory.facts == stored.facts and memory.clock == stored.clock == (10, 49)
    assert memory.span("reclaim") is stored.span("reclaim") is None
    columns = [batch.schema.names for batch in memory.batches("event", {"pfn", "ts"})]
    assert columns == [["ts", "pfn"]] * 2
    assert memory.complete and memory.cut_off == () and not memory.files


def test_a_batch_is_copied(tmp_path: Path) -> None:
    """An engine takes its batches back, and they are larger than their rows."""
    memory = MemoryTape(tmp_path / "m.tape", {})
    whole = TABLES["event"].batch(EVENTS)
    memory.write("event", whole.slice(3, 2))
    (kept,) = memory.batches("event")
    assert kept.equals(whole.slice(3, 2))
    assert kept.column(0).buffers()[1].size < whole.column(0).buffers()[1].size
