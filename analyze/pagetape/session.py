# SPDX-License-Identifier: Apache-2.0
"""A recording session: one recorder that runs on, its stream cut into segments.

A segment begins and ends with a snapshot and holds the events between, so that each
can be a tape of its own. The end of one is the start of the next: no event falls
between two, and none is in two.

    main thread   waits for the load; takes the snapshots, says where to cut
    pump thread   moves batches from the recorder to the sink
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pagetape import capture, procfs
from pagetape._collector import Recorder
from pagetape.capture import Snapshot
from pagetape.exact import Exact, ExactSnapshots
from pagetape.load import Load
from pagetape.schemas.tape import TapeError

NICE = 10  # of what writes the tape

# Of the time between two snapshots, what reading kpageflags may take. Each machine
# reads about 10 million pages per second.
_BLOCKS_SHARE = 0.02


@dataclass(frozen=True)
class Boundary:
    """Where a segment begins or ends: a moment, the machine's state then, and all facts."""

    state: Snapshot
    at: datetime
    facts: dict[str, Any]

    @property
    def ts(self) -> int:
        """The moment on the trace clock."""
        return self.state.ts


class Sink(capture.Sink, Protocol):
    """What the segments of a session become."""

    def begin(self, start: Boundary) -> None:
        """A segment begins; its rows follow."""

    def end(self, end: Boundary) -> None:
        """It has all its rows."""

    def close(self) -> None:
        """The session is over; maybe in the middle of a segment, where it failed."""


@dataclass(frozen=True)
class Wanted:
    """What kind of snapshots segments are to begin and end with."""

    kind: str  # exact, proc, or auto: exact where it can be
    max_ms: int = 20  # that one may hold a lock or the CPUs
    blocks: bool = True  # between segments, also what only kpageflags tells

    def take(self, snapshots: ExactSnapshots | None, number: int) -> Exact | None:
        """An exact snapshot, if one is wanted; TapeError if it is a must, at the start."""
        if snapshots is None:
            return None
        found = snapshots.take(number)
        if found.why and self.kind == "exact" and number == 0:
            raise TapeError(errno.ENOTSUP, f"no exact snapshot: {found.why}")
        return found


class _Snapshots:
    """Takes the snapshots of a session; what that needs is loaded when this is made."""

    def __init__(self, wanted: Wanted, every: float) -> None:
        self._wanted = wanted
        self._every = every
        self._proc = procfs.live()
        (self._stage,) = self._proc.stages
        self._blocks_s = 0.0  # what reading kpageflags took
        self._facts: dict[str, Any] = {}
        self._exact = None if wanted.kind == "proc" else ExactSnapshots(wanted.max_ms)

    @property
    def migratetypes(self) -> Sequence[str]:
        names: Sequence[str] = self._proc.facts.get("migratetypes", ())
        return names

    def _boundary(self, state: Snapshot, exact: Exact | None) -> Boundary:
        state = state.made_exact(exact)
        at = datetime.now(UTC)
        now = {
            "recorded_at": at.isoformat(timespec="seconds"),
            "snapshot": state.facts,
            "sysctls": self._proc.sysctls(),
        }
        return Boundary(state, at, capture.known(self._facts, now))

    def first(self, recorder: Recorder, facts: dict[str, Any]) -> Boundary:
        """Start the recorder; what /proc has is read before, as it takes long."""
        self._facts = capture.known(recorder.facts, self._proc.facts, facts)
        began = time.monotonic()
        state = Snapshot.take(self._proc, self._stage, 0, time.monotonic_ns())
        self._blocks_s = time.monotonic() - began
        recorder.start()
        return self._boundary(state, self._wanted.take(self._exact, 0))

    def cut(self, recorder: Recorder) -> Boundary:
        """End the segment here, and begin the next."""
        recorder.hold()
        ts = time.monotonic_ns()
        exact = self._wanted.take(self._exact, 1)
        if exact is not None and exact.why is None:
            ts = exact.facts["ts"]
        recorder.cut(ts)
        blocks = self._wanted.blocks and self._blocks_s < _BLOCKS_SHARE * self._every
        state = Snapshot.take(self._proc, self._stage, 1, ts, blocks=blocks)
        return self._boundary(state, exact)

    def last(self, recorder: Recorder) -> Boundary:
        """Stop the recorder; what /proc has is read after, as it takes long."""
        exact = self._wanted.take(self._exact, 1)
        recorder.stop()
        blocks = exact is None or exact.why is not None
        state = Snapshot.take(self._proc, self._stage, 1, time.monotonic_ns(), blocks=blocks)
        return self._boundary(state, exact)

    def close(self) -> None:
        if self._exact is not None:
            self._exact.close()


class _Pump(threading.Thread):
    """Moves rows from the recorder to the sink while the load runs; yields to it."""

    def __init__(self, recorder: Recorder, sink: Sink, start: Boundary, load: Load) -> None:
        super().__init__(name="pump")
        self._recorder, self._sink, self._load = recorder, sink, load
        self._next = start
        self._ends: queue.SimpleQueue[Boundary | None] = queue.SimpleQueue()
        self.behind = False  # a cut is on its way
        self._error: BaseException | None = None

    def cut(self, end: Boundary) -> None:
        """The segment that is being read ends there."""
        self.behind = True
        self._ends.put(end)

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            while self._segment():
                self.behind = False
                self._load.nudge()
        except BaseException as e:  # raised again where the session ends
            self._error = e
            self._load.stop()

    def _segment(self) -> bool:
        """One segment; whether there are more."""
        self._sink.begin(self._next)
        capture.write_events(self._recorder, self._sink)
        end = self._ends.get()
        if end is None:
            return False
        self._sink.end(end)
        self._next = end
        return self._recorder.next()

    def finish(self, end: Boundary | None) -> None:
        """The last segment ends there; None: the session failed, and it has no end."""
        self._ends.put(end)
        self.join()
        if self._error:
            raise self._error


class Session:
    """Records while a load runs, and cuts when it is time or somebody asks."""

    def __init__(
        self, load: Load, events: Sequence[str], wanted: Wanted, *, stacks: bool = False
    ) -> None:
        self._load = load
        self._events = events
        self._wanted = wanted
        self._stacks = stacks  # of fallbacks
        self._asked = False

    def ask_cut(self) -> None:
        """End the segment soon. For any thread, and for signal handlers."""
        self._asked = True
        self._load.nudge()

    def run(self, sink: Sink, spool_dir: Path, every: float = float("inf")) -> int:
        """Record, with a cut `every` so many seconds; the load's exit status."""
        with contextlib.ExitStack() as stack:
            stack.callback(sink.close)
            snapshots = stack.enter_context(contextlib.closing(_Snapshots(self._wanted, every)))
            # The spool's files have no names: their directory is needed only to make them.
            with tempfile.TemporaryDirectory(prefix=".pagetape.", dir=spool_dir) as spool:
                names = snapshots.migratetypes
                recorder = Recorder(self._events, spool, names, stacks=self._stacks)
                stack.callback(recorder.close)
                stack.enter_context(self._load.signals())
                start = snapshots.first(recorder, {"events": list(self._events)})
            pump = _Pump(recorder, sink, start, self._load)
            pump.start()
            end = None
            try:
                self._load.start()
                self._cut_until_over(recorder, snapshots, pump, every)
                end = snapshots.last(recorder)
            finally:
                recorder.stop()
                status = self._load.finish()
                pump.finish(end)
        return status

    def _cut_until_over(
        self, recorder: Recorder, snapshots: _Snapshots, pump: _Pump, every: float
    ) -> None:
        due = time.monotonic() + every
        # While the pump is behind there is nothing to be done: it will give a nudge.
        while not self._load.wait(float("inf") if pump.behind else due - time.monotonic()):
            if not pump.behind and (self._asked or time.monotonic() >= due):
                self._asked = False
                due = time.monotonic() + every
                pump.cut(snapshots.cut(recorder))
