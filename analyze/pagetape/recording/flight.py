# SPDX-License-Identifier: Apache-2.0
"""A flight recorder: holds the last seconds in memory, and writes a tape on a trigger.

The memory holds whole segments, each with its start snapshot, compressed batch by batch.
The recorder drops the oldest segment when the later ones span the wanted time, so the memory
holds between that time and twice that time. If the memory limit is reached, the recorder drops
segments earlier. If one segment exceeds the limit, the recorder drops the segment's start
snapshot and its oldest batches.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.recording.capture import Row, Sink
from pagetape.recording.private import Veil
from pagetape.recording.session import Boundary
from pagetape.recording.tape_dir import TapeDir
from pagetape.recording.watch import SECOND, Firing
from pagetape.schemas import TABLES
from pagetape.tapes import output

# Tables whose rows are merged when several segments become one tape.
_MERGED = ("tracepoint", "ring", "spool", "lost", "disturbance", "task", "frame")

_ZSTD = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))


@dataclass(frozen=True)
class _Packed:
    """A batch in memory, compressed."""

    name: str
    rows: int
    data: pa.Buffer

    @classmethod
    def of(cls, name: str, batch: pa.RecordBatch) -> "_Packed":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema.remove_metadata(), options=_ZSTD) as stream:
            stream.write_batch(batch)
        return cls(name, batch.num_rows, sink.getvalue())

    def batch(self) -> pa.RecordBatch:
        with pa.ipc.open_stream(self.data) as stream:
            return stream.read_next_batch()


class _Box:
    """Batches in memory, in order of arrival: a sink like a tape."""

    def __init__(self) -> None:
        self.batches: deque[_Packed] = deque()
        self.bytes = 0

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        packed = _Packed.of(name, batch)
        self.batches.append(packed)
        self.bytes += packed.data.size

    def rows(self, name: str, rows: list[Row]) -> None:
        self.write(name, TABLES[name].batch(rows))

    def drop_oldest(self) -> _Packed:
        packed = self.batches.popleft()
        self.bytes -= packed.data.size
        return packed

    def take(self, name: str) -> list[Row]:
        """All rows of a small table."""
        return [
            row
            for packed in self.batches
            if packed.name == name
            for row in packed.batch().to_pylist()
        ]


class _Segment:
    """One segment in memory: its start snapshot and the rows after it."""

    def __init__(self, start: Boundary) -> None:
        self.ts = start.ts
        self.facts = start.facts
        self.whole = True  # the start snapshot is still in memory
        self.state = _Box()
        self.body = _Box()
        self.merged = _Box()
        self.events = 0  # rows of `event` in memory
        self.dropped = 0  # rows of `event` dropped before them
        start.state.numbered(0).write(self.state)

    @property
    def bytes(self) -> int:
        return self.state.bytes + self.body.bytes + self.merged.bytes

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        (self.merged if name in _MERGED else self.body).write(name, batch)
        if name == "event":
            self.events += batch.num_rows

    def shrink(self) -> bool:
        """Drop the oldest part; returns False if the segment is empty."""
        if self.whole:
            self.whole = False
            self.state = _Box()
            return True
        if not self.body.batches:
            return False
        packed = self.body.drop_oldest()
        if packed.name == "event":
            self.events -= packed.rows
            self.dropped += packed.rows
        return True

    def began(self) -> int:
        """The time (ns) from which the segment is complete."""
        if self.whole:
            return self.ts
        first = next((p for p in self.body.batches if p.name == "event"), None)
        return self.ts if first is None else first.batch().column("ts")[0].as_py()

    def write_to(self, tape: Sink, number: int, before: int) -> None:
        """Write the snapshot as `number`, and the rows, after `before` rows of `event`."""
        for packed in self.state.batches:
            batch = packed.batch()
            column = batch.schema.get_field_index("snapshot")
            numbers = pa.repeat(pa.scalar(number, pa.uint16()), batch.num_rows)
            tape.write(packed.name, batch.set_column(column, batch.schema.field(column), numbers))
        for packed in self.body.batches:
            batch = packed.batch()
            column = batch.schema.get_field_index("at")
            if column >= 0:
                gone = pa.scalar(self.dropped, pa.uint64())
                batch = batch.filter(pc.greater_equal(batch.column(column), gone))
                at = pc.subtract(batch.column(column), gone)
                at = pc.add(at, pa.scalar(before, pa.uint64()))
                batch = batch.set_column(column, batch.schema.field(column), at)
            tape.write(packed.name, batch)


@dataclass(frozen=True)
class Callbacks:
    """Calls from a flight recorder to its owner."""

    full: Callable[[], None]  # asks to end the segment soon
    done: Callable[[Path], None]  # for each tape
    failed: Callable[[OSError], None]  # for each tape that cannot be written; recording continues


class Flight:
    """The segments of a session; a segment that ends with a firing becomes a tape."""

    def __init__(
        self,
        tape_dir: TapeDir,
        seconds: float,
        memory: float,
        callbacks: Callbacks,
        *,
        private: str | None = None,
    ) -> None:
        self._tape_dir = tape_dir
        self._seconds = seconds
        self._memory = memory
        self._callbacks = callbacks
        # For the tapes, which are one machine; the memory holds the unredacted rows.
        self._veil = Veil(private) if private else None
        self._segments: deque[_Segment] = deque()
        self._asked = False

    tape = None  # the recording is in memory only

    def home(self) -> None:
        """No spool: the recording is in memory only."""

    @property
    def bytes(self) -> int:
        """Bytes of all segments in memory."""
        return sum(segment.bytes for segment in self._segments)

    def begin(self, start: Boundary) -> None:
        self._segments.append(_Segment(start))
        while len(self._segments) > 1 and self._spans(self._segments[1].ts, start.ts):
            self._segments.popleft()
        self._asked = False

    def _spans(self, begin: int, end: int) -> bool:
        return end - begin >= self._seconds * SECOND

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        self._segments[-1].write(name, batch)
        self._bound()

    def rows(self, name: str, rows: list[Row]) -> None:
        self.write(name, TABLES[name].batch(rows))

    def _bound(self) -> None:
        """Drop the oldest parts beyond the memory limit; a segment may use at most half of it."""
        over = self.bytes - self._memory
        while over > 0 and len(self._segments) > 1:
            over -= self._segments.popleft().bytes
        while self.bytes > self._memory and self._segments[0].shrink():
            pass
        if not self._asked and self._segments[-1].bytes > self._memory / 2:
            self._asked = True
            self._callbacks.full()

    def end(self, end: Boundary) -> None:
        if end.firing is not None:
            try:
                path = self._tape_dir.place(end.at)
                self._make_tape(path, end, end.firing)
            except OSError as e:
                self._callbacks.failed(e)
                return
            self._callbacks.done(path)
            self._tape_dir.tidy()

    def _make_tape(self, path: Path, end: Boundary, firing: Firing) -> None:
        first = self._segments[0]
        began = first.began()
        flight = {
            **asdict(firing),
            "at": end.at.isoformat(timespec="seconds"),
            "wanted_s": self._seconds,
            "holds_s": (end.ts - began) / SECOND,
            "after_s": (end.ts - firing.ts) / SECOND,
            "memory": int(self._memory),
        }
        facts = first.facts | self._tape_dir.mark() | {"flight": flight}
        veil = self._veil
        public = veil.facts(facts) if veil else facts
        with output.whole_tape(path, public, replace=False, inputs=()) as written:
            tape = veil.over(written) if veil else written
            number, events = 0 if first.whole else 1, 0
            for segment in self._segments:
                segment.write_to(tape, number, events)
                number += segment.whole
                events += segment.events
            end.state.numbered(number).write(tape)
            for name, rows in self._merged(began).items():
                if rows or TABLES[name].required:
                    tape.rows(name, rows)

    def _merged(self, began: int) -> dict[str, list[Row]]:
        """Rows that describe whole segments, merged over all segments."""
        found = {
            name: [row for segment in self._segments for row in segment.merged.take(name)]
            for name in _MERGED
        }
        # After a drop these counts would include dropped events: leave them out.
        points = found["tracepoint"] if self._segments[0].whole else []
        return {
            "tracepoint": _summed(points, ("name", "system", "stored"), ("events",)),
            "ring": _rings(found["ring"]),
            "spool": _summed(found["spool"], ("cpu",), ("full",)),
            "lost": [row for row in found["lost"] if row["to_ts"] is None or row["to_ts"] > began],
            "disturbance": [row for row in found["disturbance"] if row["ts"] > began],
            "task": list({row["pid"]: row for row in found["task"]}.values()),
            "frame": list({(row["stack"], row["depth"]): row for row in found["frame"]}.values()),
        }

    def close(self) -> None:
        self._segments.clear()
        self._tape_dir.close()


def _summed(rows: list[Row], keys: Sequence[str], sums: Sequence[str]) -> list[Row]:
    """Merge rows with equal keys: sum their numbers; a sum with an unknown number is None."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        group[-1] | {name: _sum(row[name] for row in group) for name in sums}
        for group in groups.values()
    ]


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


def _rings(rows: list[Row]) -> list[Row]:
    """The ring of each CPU, over several segments."""
    counts = ("read", "overrun", "commit_overrun", "dropped", "bytes")
    found = _summed(rows, ("cpu", "instance"), counts)
    for ring in found:
        own = [row for row in rows if all(row[key] == ring[key] for key in ("cpu", "instance"))]
        times = [row[name] for row in own for name in ("first_ts", "last_ts")]
        seen = [ts for ts in times if ts is not None]
        ring["first_ts"], ring["last_ts"] = min(seen, default=None), max(seen, default=None)
    return found
