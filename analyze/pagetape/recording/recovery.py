# SPDX-License-Identifier: Apache-2.0
"""Makes a complete tape from an unfinished tape and its spool."""

import errno
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import answer, console
from pagetape.recording.capture import Row, Sink
from pagetape.recording.private import Veil
from pagetape.recording.stacks import Frames
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import output
from pagetape.tapes.spool import DECODED, Found

if TYPE_CHECKING:
    from pagetape._collector import Spooled

# Tables that the source gives once, for the whole recording.
_CLOSING = ("tracepoint", "ring", "spool", "lost", "task", "frame")
_BATCH_ROWS = 1 << 16

# Tables sampled during the recording, placed among its events by `at`.
_PLACED = ("parameter", "sample", "free_count")


class _Placing:
    """Passes decoded rows to a tape, and finds the event row of given times."""

    def __init__(self, tape: Sink, times: list[int], frames: Frames | None) -> None:
        self._tape = tape
        self._frames = frames
        self._events = 0
        self.times = times  # ascending
        self.at: list[int] = []  # rows of `event` up to each of the times

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        if name == "event" and batch.num_rows:
            ts = batch.column("ts")
            while len(self.at) < len(self.times) and self.times[len(self.at)] < ts[-1].as_py():
                time = self.times[len(self.at)]
                before = bisect_right(range(len(ts)), time, key=lambda i: ts[i].as_py())
                self.at.append(self._events + before)
            self._events += batch.num_rows
        self._tape.write(name, batch)
        if name == "stack" and self._frames:
            self._tape.write("frame", self._frames.of(batch))

    def rows(self, name: str, rows: list[Row]) -> None:
        self._tape.rows(name, rows)

    def end(self) -> None:
        self.at += [self._events] * (len(self.times) - len(self.at))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of some ten thousand: each batch of a tape has a cost of its own."""
    small: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        small.append(batch)
        rows += batch.num_rows
        if rows >= _BATCH_ROWS:
            yield from pa.Table.from_batches(small).combine_chunks().to_batches()
            small, rows = [], 0
    if rows:
        yield from pa.Table.from_batches(small).combine_chunks().to_batches()


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The first `rows` of the batches; raises EOFError if there are fewer."""
    while rows:
        batch = next(batches, None)
        if batch is None:
            raise EOFError
        yield batch.slice(0, rows)
        rows -= min(rows, batch.num_rows)


def _ring(row: Row, instances: list[str]) -> Row:
    """A ring with its instance's name, which the spool does not contain."""
    return row | {"instance": instances[0] if instances else ""}


def _write_rest(tape: Sink, placing: _Placing, old: Tape) -> None:
    """Copy the tables that do not come from the spool."""
    placing.end()
    places = pa.array(placing.at, pa.uint64())
    times = pa.array(placing.times, pa.uint64())
    for name in old.tables - {*DECODED, *_CLOSING}:
        for batch in _gathered(old.batches(name)):
            if name in _PLACED:
                at = places.take(pc.index_in(batch.column("ts"), value_set=times))
                column = batch.schema.get_field_index("at")
                batch = batch.set_column(column, batch.schema.field(column), at)
            tape.write(name, batch)


def recover(path: Path, out: Path, *, private: str | None = None, replace: bool = False) -> None:
    """Make the tape `out` from the tape `path` and its spool; neither is changed.

    `private` makes a private tape. A recording that was private from the start has no spool.
    """
    output.check_free(out, replace=replace, inputs=[path])
    old = Tape(path)
    found = Found.of(path)
    if old.complete:
        raise TapeError(errno.EINVAL, f"{path}: is a finished tape; nothing to import")
    if found is not None and found.in_use:
        raise TapeError(errno.EBUSY, f"{path}: is still being recorded")
    # Without a spool, the tables are all that a killed recorder left.
    found = found and found.fitting(old.facts)
    source = _open(old, found) if found else None
    facts = {name: value for name, value in old.facts.items() if name != "deferred"}
    facts["ended"] = source.ended if source else "killed"
    veil = Veil(private) if private else None
    times = {ts for name in _PLACED for ts in old.table(name).column("ts").to_pylist()}
    try:
        with (
            output.whole_tape(
                out, veil.facts(facts) if veil else facts, replace=replace, inputs=[path]
            ) as made,
            console.progress("import") as bar,
        ):
            tape = veil.over(made) if veil else made
            placing = _Placing(tape, sorted(times), Frames(source) if source else None)
            for name in DECODED:
                rows = found.rows.get(name, 0) if found else old.num_rows(name)
                for batch in _gathered(_first(old.batches(name), rows)):
                    placing.write(name, batch)
            if source:
                _decode(source, placing, facts, bar)
                _say_damage(source, path)
            _write_rest(tape, placing, old)
    except EOFError as e:
        words = f"{path}: has fewer rows than its last checkpoint counted"
        raise TapeError(errno.EBADMSG, words) from e
    finally:
        if source:
            source.close()


def _open(old: Tape, found: Found) -> "Spooled | None":
    if not found.begun:
        return None
    from pagetape._collector import Spooled

    migratetypes = old.facts.get("migratetypes") or ()
    return Spooled(str(found.path), migratetypes, found.state)


def _say_damage(source: "Spooled", path: Path) -> None:
    """Say that parts of the spool hold nothing; raises TapeError if all of it does."""
    bad = source.bad_records
    if not bad:
        return
    parts = answer.amount(bad, "part")
    why = "they are damaged, or never reached the disk because the machine stopped"
    if not sum(row["events"] for row in source.tracepoints()):
        raise TapeError(
            errno.EBADMSG, f"{path}: has no event: {parts} of its spool hold none; {why}"
        )
    console.report(f"{path}: lost the events in {parts} of its spool: {why}")


def _decode(
    source: "Spooled", placing: _Placing, facts: dict[str, Any], bar: Callable[[float], None]
) -> None:
    while (batch := source.read()) is not None:
        placing.write(batch[0], pa.record_batch(batch[1]))
        bar(source.progress)
    placing.rows("tracepoint", source.tracepoints())
    instances = facts.get("instances") or []
    placing.rows("ring", [_ring(row, instances) for row in source.rings()])
    placing.rows("spool", source.spools())
    placing.rows("lost", source.lost())
    placing.rows("task", source.tasks())
