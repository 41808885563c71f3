# SPDX-License-Identifier: Apache-2.0
"""One run of an engine over a tape: load the tables, feed the events, pass on the rows.

Every run of the engine uses this module: a free run (playback.py), the run of validate
(validate_run.py), and the runs that explain a divergence (divergence.py). players.py feeds
several runs from one stream of batches.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from pagetape._replay import ArrowBatch, EngineError
from pagetape.replaying import recorded_reclaim
from pagetape.replaying.new_limits import new_limits
from pagetape.replaying.prefetch import prefetch
from pagetape.schemas import TABLES
from pagetape.schemas._grouped import keep_freed_memory
from pagetape.schemas.form import BATCH_ROWS
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes.machine import SNAPSHOT, snapshot_rows

Sink = Callable[[str, pa.RecordBatch], None]  # takes a table's name and rows of that table
Progress = Callable[[float], None]  # takes the share done, 0 to 1
Tables = Iterable[tuple[str, pa.RecordBatch]]  # a table's name, and rows of that table


def discard(_name: str, _batch: pa.RecordBatch) -> None:
    """A sink that drops the rows."""


def silent(_share: float) -> None:
    """A progress callback that does nothing."""


class Engine(Protocol):
    """The common interface of _replay.Replay and _replay.Validate."""

    def load(self, table: str, batch: object) -> None: ...
    def feed(self, batch: object) -> None: ...
    def finish(self) -> None: ...
    def read(self) -> tuple[str, ArrowBatch] | None: ...


E = TypeVar("E", bound=Engine)


# The columns of `event` that no preview reads. Half of a tape's bytes are the times.
_UNREAD = ("ts", "percpu_refill", "fallback_order", "fallback_migratetype", "change_ownership")

_FEW = 1 << 20  # rows of event that stay in memory: 40 MB
_JOINED = 1 << 15  # rows of a batch of these, at least


def is_small(tape: Tape) -> bool:
    """Whether what was read of the tape's events stays in memory for the next reader."""
    return tape.num_rows("event") <= _FEW


@cache
def _settle_memory() -> None:
    """Arrow shares the heap of the engine, which keeps freed memory: its own pool gives it back to
    the kernel between two batches."""
    keep_freed_memory()
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:  # by the user
        pa.set_memory_pool(pa.system_memory_pool())


@lru_cache(maxsize=1)
def _all_events(tape: Tape) -> list[pa.RecordBatch]:
    """The batches of a small tape, joined up to a size for which a call costs little."""
    groups: list[list[pa.RecordBatch]] = []
    rows = _JOINED
    for batch in tape.batches("event"):
        if rows >= _JOINED:
            groups.append([])
            rows = 0
        groups[-1].append(batch)
        rows += batch.num_rows
    return [b for group in groups for b in _joined(group)]


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(pa.Table.from_batches(batches).combine_chunks().to_batches())


def events(tape: Tape) -> Iterator[pa.RecordBatch]:
    """The batches of `event`. A small tape is decoded once: several runs read it in turn."""
    return iter(_all_events(tape)) if is_small(tape) else tape.batches("event")


def start_tables(tape: Tape, *others: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The tables to load: the snapshot at the start, then the rows of `others`."""
    for name in SNAPSHOT:
        yield from ((name, batch) for batch in snapshot_rows(tape, name, 0))
    yield from whole_tables(tape, *others)


def whole_tables(tape: Tape, *names: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of these tables, from the start to the end.

    `new_limit` is not on the tape, but made from it. Of `reclaim` only the rows that are played.
    """
    for name in names:
        yield from ((name, batch) for batch in _rows(tape, name))


def _rows(tape: Tape, name: str) -> Iterator[pa.RecordBatch]:
    if name == "new_limit":
        return iter(new_limits(tape).to_batches())
    return recorded_reclaim.batches(tape) if name == "reclaim" else tape.batches(name)


def event_batches(tape: Tape, rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """The batches of `event`, or those with the first `rows` rows; reads one batch ahead."""
    return _first(prefetch(events(tape)), rows)


def _first(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """The batches with the first `rows` rows, or all."""
    read = 0
    for batch in batches:
        yield batch
        read += batch.num_rows
        if rows is not None and read >= rows:
            return


@lru_cache(maxsize=1)
def _nothing(rows: int) -> dict[str, pa.Array]:
    columns = [TABLES["event"].column(name) for name in _UNREAD]
    return {c.name: c.array([None if c.null else 0]).take(pa.repeat(0, rows)) for c in columns}


def _unread(rows: int) -> dict[str, pa.Array]:
    """The columns of `event` that a preview does not read: null, or zeros. Slices of the same
    arrays: a recorder's batches have all lengths."""
    most = _nothing(-(-rows // BATCH_ROWS) * BATCH_ROWS)
    return {name: array.slice(0, rows) for name, array in most.items()}


def preview_batches(tape: Tape, rows: int) -> Iterator[pa.RecordBatch]:
    """event_batches() for a preview. Of a large tape, it has the columns _UNREAD without values."""
    if is_small(tape):
        yield from event_batches(tape, rows)
        return
    schema = TABLES["event"].arrow
    read = [name for name in schema.names if name not in _UNREAD]
    for batch in _first(prefetch(tape.batches("event", read)), rows):
        columns = dict(zip(read, batch.columns, strict=True)) | _unread(batch.num_rows)
        yield pa.RecordBatch.from_arrays([columns[n] for n in schema.names], schema=schema)


@contextmanager
def naming(tape: Tape) -> Iterator[None]:
    """Name the tape in errors of the engine, which does not know it."""
    try:
        yield
    except EngineError as e:
        raise TapeError(e.errno, f"{tape.path}: {e.strerror}") from e


class EngineRun(Generic[E]):
    """An engine with its tables loaded: feed() every batch of `event`, then finish().

    Output rows go to `sink`, in the engine's order, after each batch. An error of the engine is a
    TapeError about `tape`.
    """

    def __init__(self, engine: E, tape: Tape, tables: Tables, sink: Sink = discard) -> None:
        _settle_memory()
        self.engine = engine
        self._tape = tape
        self._sink = sink
        for name, batch in tables:
            with naming(tape):
                engine.load(name, batch)

    def feed(self, batch: pa.RecordBatch) -> None:
        with naming(self._tape):
            self.engine.feed(batch)
        self._drain()

    def finish(self) -> None:
        with naming(self._tape):
            self.engine.finish()
        self._drain()

    def play(
        self, batches: Iterable[pa.RecordBatch], rows: int = 0, progress: Progress = silent
    ) -> None:
        """Feed all batches and finish; `rows` is their total number of rows, for `progress`."""
        fed = 0
        for batch in batches:
            self.feed(batch)
            fed += batch.num_rows
            progress(fed / rows if rows else 1.0)
        self.finish()

    def _drain(self) -> None:
        while (found := self.engine.read()) is not None:
            self._sink(found[0], pa.record_batch(found[1]))
