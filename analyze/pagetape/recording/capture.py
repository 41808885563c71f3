# SPDX-License-Identifier: Apache-2.0
"""Writes a source of events to a tape: code that recording and importing share."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from pagetape.procfs import Proc
from pagetape.recording.exact import NO_FLAGS, Exact, Flags
from pagetape.recording.stacks import Frames

if TYPE_CHECKING:
    from pagetape._collector import Source
    from pagetape.sampler import Reading

Row = dict[str, Any]


class Sink(Protocol):
    """The destination of rows: a tape, or batches that become a tape."""

    def write(self, name: str, batch: pa.RecordBatch) -> None: ...
    def rows(self, name: str, rows: list[Row]) -> None: ...


class Pieces:
    """Rows on their way to a sink, each table in pieces of `most` rows; flush() at the end."""

    def __init__(self, sink: Sink, most: int) -> None:
        self._sink, self._most = sink, most
        self._waiting: dict[str, list[Row]] = defaultdict(list)

    def take(self, name: str, rows: list[Row]) -> None:
        self._waiting[name] += rows
        if len(self._waiting[name]) >= self._most:
            self._sink.rows(name, self._waiting.pop(name))

    def place(self, reading: Reading, at: int) -> None:
        """The rows of a sample, after `at` rows of `event`."""
        for name, rows in reading.rows.items():
            placed = {} if name == "sample_gap" else {"at": at}
            self.take(name, [row | placed for row in rows])

    def flush(self) -> None:
        for name in list(self._waiting):
            if rows := self._waiting.pop(name):
                self._sink.rows(name, rows)


def read_flags(proc: Proc, stage: str, number: int, ts: int = 0, *, after: bool) -> Flags:
    """Read kpageflags, which is slow: `after` the instant of the lists, or before it."""
    begin = time.monotonic_ns()
    blocks = proc.blocks(stage, number, ts)
    order = proc.facts.get("pageblock_order", 0)
    return Flags(blocks, order, time.monotonic_ns() if after else begin)


@dataclass(frozen=True)
class Snapshot:
    """The machine's state at one time, as rows and batches by table."""

    rows: dict[str, list[Row]]
    blocks: dict[str, pa.RecordBatch]
    facts: dict[str, Any]
    flags: Flags = NO_FLAGS

    @classmethod
    def take(
        cls, proc: Proc, stage: str, number: int, ts: int = 0, *, flags: Flags = NO_FLAGS
    ) -> Snapshot:
        """Read /proc now; `flags` was read before."""
        how = {"snapshot": number, "ts": ts, "how": "proc"}
        rows = {"snapshot": [how], **proc.rows(stage, number, ts)}
        return cls(rows, flags.blocks, {"how": "proc"}, flags)

    def showing(self, flags: Flags) -> Snapshot:
        """This snapshot, with the pages as `flags` shows them."""
        return replace(self, blocks=flags.blocks, flags=flags)

    def made_exact(self, exact: Exact | None) -> Snapshot:
        """The exact snapshot instead of this one, if it is exact."""
        if exact is None:
            return self
        (how,) = self.rows["snapshot"]
        why = {} if exact.why is None else {"why": exact.why}
        read = exact.rows(how["snapshot"])
        if exact.how == "proc":
            rows = self.rows | {"snapshot": [how | why]} | read
            return replace(self, rows=rows, facts=self.facts | why | exact.facts)
        facts = exact.facts
        mark = ("pfn", "cpu", "pid") if facts["pfn"] is not None else ()
        how = {
            "snapshot": how["snapshot"],
            "how": exact.how,
            **{name: facts[name] for name in ("ts", *mark, "held_ns")},
            "page_order": facts["order"],
            "lock_ns": max(zone["lock_ns"] for zone in facts["zones"]),
            "checks": sum(nr for name, nr in facts["checks"].items() if name != "pcp_types"),
            "mismatches": sum(facts["mismatches"].values()),
        }
        rows = {"snapshot": [how], "vmstat": self.rows["vmstat"]} | read
        tables = exact.joined(self.flags)
        return replace(self, rows=rows, blocks=tables, facts={"how": exact.how} | facts)

    @property
    def ts(self) -> int:
        """The time of the state, on the trace clock (ns)."""
        return int(self.rows["snapshot"][0]["ts"])

    def numbered(self, number: int) -> Snapshot:
        """The same snapshot under another number."""

        def changed(batch: pa.RecordBatch) -> pa.RecordBatch:
            column = batch.schema.get_field_index("snapshot")
            numbers = pa.repeat(pa.scalar(number, pa.uint16()), batch.num_rows)
            return batch.set_column(column, batch.schema.field(column), numbers)

        return replace(
            self,
            rows={
                name: [row | {"snapshot": number} for row in rows]
                for name, rows in self.rows.items()
            },
            blocks={name: changed(batch) for name, batch in self.blocks.items()},
        )

    def write(self, tape: Sink) -> None:
        for name, rows in self.rows.items():
            tape.rows(name, rows)
        for name, batch in self.blocks.items():
            tape.write(name, batch)


def known(*facts: dict[str, Any]) -> dict[str, Any]:
    """All facts in one dict; a later one replaces an earlier one unless it is None."""
    return {key: value for some in facts for key, value in some.items() if value is not None}


def complete_rings(rings: list[Row], stats: Sequence[Row]) -> list[Row]:
    """Rows of `ring`; `stats` fills in the counts of the top instance that the trace lacks."""
    known_of = {row["cpu"]: row for row in stats}

    def more(row: Row) -> Row:
        said = {} if row["instance"] else known_of.get(row["cpu"], {})
        return {key: value for key, value in said.items() if row.get(key) is None}

    return [row | more(row) for row in rings]


def complete_lost(lost: list[Row], rings: Sequence[Row]) -> list[Row]:
    """Rows of `lost`, completed by the overrun count of each CPU.

    The kernel stores a gap's size in the sub-buffer after it only if there is room. The count sizes
    a single gap without a size. For several it gives their sum, as a row without times.
    """
    rest: Counter[int] = Counter()  # by CPU: overrun events that no gap accounts for
    unsized: Counter[int] = Counter()
    for ring in rings:
        rest[ring["cpu"]] += ring.get("overrun") or 0
    for row in lost:
        rest[row["cpu"]] -= row["events"] or 0
        unsized[row["cpu"]] += row["events"] is None

    def sized(row: Row) -> Row:
        cpu = row["cpu"]
        guess = row["events"] is None and unsized[cpu] == 1 and rest[cpu] > 0
        return row | {"events": rest[cpu]} if guess else row

    sums = [
        {"cpu": cpu, "from_ts": None, "to_ts": None, "events": rest[cpu]}
        for cpu, nr in unsized.items()
        if nr > 1 and rest[cpu] > 0
    ]
    return [sized(row) for row in lost] + sums


def write_events(
    source: Source,
    tape: Sink,
    progress: Callable[[float], None] = lambda _share: None,
    ring_stats: Sequence[Row] = (),
    frames: Frames | None = None,
) -> None:
    """Write one segment of the source: first its rows, then the tables known only at its end.

    Segments of one source can share the `frames`.
    """
    frames = frames or Frames(source)
    frames.restart()
    while (found := source.read()) is not None:
        name, batch = found[0], pa.record_batch(found[1])
        tape.write(name, batch)
        if name == "stack":
            tape.write("frame", frames.of(batch))
        progress(source.progress)
    tape.rows("tracepoint", source.tracepoints())
    rings = complete_rings(source.rings(), ring_stats)
    tape.rows("ring", rings)
    if spools := source.spools():
        tape.rows("spool", spools)
    tape.rows("lost", complete_lost(source.lost(), rings))
    tape.rows("task", source.tasks())
