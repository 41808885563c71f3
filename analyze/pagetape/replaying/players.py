# SPDX-License-Identifier: Apache-2.0
"""Plays many runs at once: members of ensembles, cases of a sweep, runs under the own rules.

A *part* is one run. A *task* makes a result of its parts: a table, or a case of a sweep. It may
need other tasks. The parts on one tape read its events together, so that each batch is decoded
once for all of them. If their models do not fit into memory together, the parts are played in
several passes over the tape.
"""

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import pyarrow as pa

from pagetape._replay import give_back_memory
from pagetape.replaying import engine_run, fanout, model_memory
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import (
    NewRows,
    NewTape,
    Playback,
    Run,
    Source,
    in_memory,
    new_writer,
)
from pagetape.schemas.memory_tape import MemoryTape
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache


class _Unfinished(Exception):
    """Discards a tape that is not wanted."""


class Part:
    """A run in progress, as a reader of the tape's events. It starts with the first batch.

    finish() ends the run and frees its model. The tape stays open for further tables until
    whole(). Without `new`, it is in memory, and counted. `variation` is that of Playback.
    """

    task: "Task"

    def __init__(
        self,
        source: Source,
        run: Run,
        new: NewTape | None = None,
        variation: Mapping[str, Any] | None = None,
    ) -> None:
        self.source = source
        self.run = run
        self.new = new
        self.variation = variation or {}
        self._open = contextlib.ExitStack()
        self._writer: NewRows | None = None
        self._playback: Playback | None = None
        self.result: dict[str, Any] = {}  # of the finished run
        self.drawn: dict[str, int] = {}
        self.counted: dict[str, pa.Table] = {}  # Playback.counted

    def _started(self) -> Playback:
        if self._playback is None:
            of = self.source, self.run
            if self.new is None:
                self._writer = in_memory(*of)
            else:
                self._writer = self._open.enter_context(new_writer(*of, self.new))
            counted = self.new is None or self.new.counted
            about: dict[str, Any] = {"counted": counted, "variation": self.variation}
            self._playback = Playback(self.source, self.run, self._writer, **about)
        return self._playback

    def feed(self, batch: pa.RecordBatch) -> None:
        if not self.task.attempt(lambda: self._started().feed(batch)):
            self.discard()

    def finish(self) -> None:
        if not self.task.attempt(self._finish):
            self.discard()
        self.task.ended()

    def _finish(self) -> None:
        playback = self._started()  # also of a tape without events
        self.result, self.drawn = playback.finish(), playback.drawn
        self.counted = playback.counted
        self.close()
        self.task.take(self)

    def close(self) -> None:
        """End the run."""
        if self._playback is not None:
            self._playback.close()
            self._playback = None  # and with it the memory of the model

    def whole(self, tables: Mapping[str, pa.Table] | None = None) -> Tape:
        """The complete tape, with these further tables. The part keeps no rows of it in memory."""
        writer, self._writer = self._writer, None
        assert writer is not None
        for name, rows in (tables or {}).items():
            for batch in rows.to_batches():
                writer.write(name, batch)
        self._open.close()
        if isinstance(writer, MemoryTape):
            return writer
        assert self.new is not None
        return Tape(self.new.path)

    def discard(self) -> None:
        """Leave no tape, unless it is complete."""
        self.close()
        self._writer = None
        with contextlib.suppress(_Unfinished, OSError):
            self._open.__exit__(_Unfinished, _Unfinished(), None)


class Task:
    """What some parts are played for.

    complete() is called when the parts and the tasks in `needs` have ended. An error of one of
    them ends the task.
    """

    def __init__(self, parts: Sequence[Part], needs: "Sequence[Task]" = ()) -> None:
        self.parts = parts
        self.needs = needs
        self.error: Exception | None = None  # the first
        self._needed_by: list[Task] = []
        self._lock = Lock()
        self._left = len(parts)
        for part in parts:
            part.task = self
        for need in needs:
            if need.parts:
                need._needed_by.append(self)
                self._left += 1

    def take(self, part: Part) -> None:
        """A part has finished."""

    def complete(self) -> None:
        """All has ended without an error."""

    def fail(self, error: Exception) -> None:
        self.error = self.error or error

    def attempt(self, work: Callable[[], None]) -> bool:
        """Do some work and note its error, or do nothing after an error; whether all is well."""
        if self.error is None:
            try:
                work()
            except Exception as e:
                self.fail(e)
        return self.error is None

    def ended(self) -> None:
        """One of the parts or of the needed tasks has ended."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
        if not self.attempt(self.complete):
            for part in self.parts:
                part.discard()
        for task in self._needed_by:
            if self.error is not None:
                task.fail(self.error)
            task.ended()


class CachedTable(Task):
    """A table about a tape: from the cache, or made of parts."""

    def __init__(
        self,
        tape: Tape,
        what: str | None,
        schema: pa.Schema,
        make_parts: Callable[[], Sequence[Part]],
    ) -> None:
        """`what` is its name in the cache; None: it is not cached."""
        found = cache.stored(tape, what, schema) if what else None
        super().__init__(() if found is not None else make_parts())
        self._tape = tape
        self._what = what
        self.table = schema.empty_table() if found is None else found

    def make(self) -> pa.Table:
        """The table, when all parts have finished."""
        raise NotImplementedError

    def complete(self) -> None:
        self.table = self.make()
        if self._what:
            cache.store(self._tape, self._what, self.table)


def _all(tasks: Sequence[Task]) -> list[Task]:
    """The tasks and those that they need, which come first."""
    found = [one for task in tasks for one in (*_all(task.needs), task)]
    return list(dict.fromkeys(found))


def play(
    tasks: Sequence[Task],
    threads: int | None = None,
    models: int | None = None,
    progress: Progress = silent,
    *,
    goes_on: bool = False,
) -> None:
    """Play the tasks and those that they need, with up to `models` models at once.

    The first error is raised. If the player `goes_on`, an error stays with its task instead.
    """
    give_back_memory()  # of the run of validate
    tasks = _all(tasks)
    by_tape: dict[Tape, list[Part]] = defaultdict(list)
    for task in tasks:
        for part in task.parts:
            by_tape[part.source.tape].append(part)
    rows = sum(tape.num_rows("event") * len(parts) for tape, parts in by_tape.items())
    lock, read = Lock(), 0

    def check() -> None:
        for error in (task.error for task in tasks if not goes_on):
            if error is not None:
                raise error

    def batches(tape: Tape, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        nonlocal read
        try:
            for batch in engine_run.events(tape):
                check()
                yield batch
                with lock:
                    read += batch.num_rows * len(parts)
                progress(read / max(rows, 1))
        except Exception as e:
            for part in parts:
                part.task.fail(e)

    def group(tape: Tape, parts: Sequence[Part]) -> fanout.Group:
        return fanout.Group(len(parts), lambda: (batches(tape, parts), parts))

    models = models or min((_most_models(*of_tape) for of_tape in by_tape.items()), default=1)
    groups = [group(tape, p) for tape, parts in by_tape.items() for p in _passes(parts, models)]
    try:
        fanout.read_all(groups, threads or len(os.sched_getaffinity(0)), models)
        check()
    finally:
        for parts in by_tape.values():
            for part in parts:
                part.discard()


def _most_models(tape: Tape, parts: Sequence[Part]) -> int:
    size = model_memory.model_bytes(tape, (part.run.reclaim for part in parts))
    return model_memory.most_models(size)


def _passes(parts: Sequence[Part], models: int) -> list[Sequence[Part]]:
    """The parts in passes of about the same size."""
    nr, passes = len(parts), -(-len(parts) // models)
    return [parts[nr * i // passes : nr * (i + 1) // passes] for i in range(passes)]
