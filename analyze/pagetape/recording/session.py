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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from pagetape import procfs
from pagetape._collector import Recorder
from pagetape.numa_maps import Processes
from pagetape.recording import capture
from pagetape.recording.capture import Snapshot
from pagetape.recording.exact import Exact, ExactSnapshots
from pagetape.recording.sampling import Placed, Sampling
from pagetape.recording.stacks import Frames
from pagetape.recording.triggers import NOTHING, Firing, Watch
from pagetape.recording.workload import Workload
from pagetape.sampler import Sample
from pagetape.schemas.tape import TapeError, Writer
from pagetape.tapes.spool import Spool, default_bound

NICE = 10  # of what writes the tape

# Of the time between two snapshots, what reading kpageflags may take. Each machine
# reads about 10 million pages per second.
_BLOCKS_SHARE = 0.02

_NEVER = 1 << 63  # a time on the trace clock


@dataclass(frozen=True)
class Boundary:
    """Where a segment begins or ends: a moment, the machine's state then, and all facts."""

    state: Snapshot
    at: datetime
    facts: dict[str, Any]
    firing: Firing | None = None  # of a trigger, in the segment that ends here

    @property
    def ts(self) -> int:
        """The moment on the trace clock."""
        return self.state.ts


class Sink(capture.Sink, Protocol):
    """What the segments of a session become."""

    @property
    def tape(self) -> Writer | None:
        """The tape that the segment is written to, if it is."""

    def home(self) -> Spool | None:
        """Where the recording is kept until it is in a tape; None: it need not outlive this."""

    def begin(self, start: Boundary) -> None:
        """A segment begins; its rows follow."""

    def end(self, end: Boundary) -> None:
        """It has all its rows."""

    def close(self) -> None:
        """The session is over; maybe in the middle of a segment, where it failed."""


@dataclass(frozen=True)
class Spooling:
    """How what is recorded waits until it is decoded."""

    max_bytes: int | None = None  # of disk; None: default_bound
    defer: bool = False  # it is not decoded here
    ring_kb: int = 0  # of each CPU, in the kernel; 0: by the machine's memory


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

    def first(self, recorder: Recorder, facts: dict[str, Any], spool: Spool | None) -> Boundary:
        """Start the recorder; what /proc has is read before, as it takes long."""
        self._facts = capture.known(recorder.facts, self._proc.facts, facts)
        began = time.monotonic()
        state = Snapshot.take(self._proc, self._stage, 0, time.monotonic_ns())
        self._blocks_s = time.monotonic() - began
        if spool is not None:
            spool.make(self._facts)
        recorder.start()
        return self._boundary(state, self._wanted.take(self._exact, 0))

    def cut(self, recorder: Recorder) -> Boundary:
        """End the segment here, and begin the next."""
        recorder.hold()
        ts = time.monotonic_ns()
        exact = self._wanted.take(self._exact, 1)
        if exact is not None and exact.how != "proc":
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


class Requests:
    """What others want of a session. For any thread, and for signal handlers."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._cut = False
        self._firing: Firing | None = None

    def cut(self) -> None:
        """End the segment soon."""
        self._cut = True
        self._workload.nudge()

    def fire(self, firing: Firing) -> None:
        """End the segment soon, because of this; the first of several counts."""
        self._firing = self._firing or firing
        self._workload.nudge()

    @property
    def pending(self) -> bool:
        """Whether there is any."""
        return self._cut or self._firing is not None

    def done(self, ts: int) -> Firing | None:
        """The segment up to `ts` has ended; what fired in it, if anything did.

        What fired later has to wait for another cut.
        """
        self._cut = False
        firing = self._firing
        if firing is None or firing.ts > ts:
            return None
        self._firing = None
        return firing


class _Pump(threading.Thread):
    """Moves rows from the recorder to the sink while the load runs; yields to it."""

    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        sink: Sink,
        spool: Spool | None,
        start: Boundary,
        nice: int,
    ) -> None:
        super().__init__(name="pump")
        self._nice = nice
        self._session, self._recorder, self._sink = session, recorder, sink
        self._spool = spool
        self._placed = Placed(sink, session.sampling)
        self._frames = Frames(recorder)
        self._next = start
        self._ends: queue.SimpleQueue[Boundary | None] = queue.SimpleQueue()
        self._last = False
        self.behind = False  # a cut is on its way
        self._error: BaseException | None = None

    def cut(self, end: Boundary) -> None:
        """The segment that is being read ends there."""
        self.behind = True
        self._ends.put(end)

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        try:
            while self._segment():
                self.behind = False
                self._session.workload.nudge()
        except BaseException as e:  # raised again where the session ends
            self._error = e
            self._session.workload.stop()

    def _segment(self) -> bool:
        """One segment; whether there are more."""
        if self._spool is not None:
            self._spool.begun = True
        self._sink.begin(self._next)
        if self._spool is not None:
            self._spool.writer = self._sink.tape
        self._session.sampling.restart()
        if self._session.spooling.defer:
            self._recorder.read()  # until the end; there is nothing else
            self._session.workload.stop()
        else:
            capture.write_events(self._recorder, self, frames=self._frames)
        end = self._ends.get()
        if end is None:
            return False
        # The last goes on for a moment after its end snapshot.
        ts = _NEVER if self._last else end.ts
        self._placed.end(ts)
        self._sink.end(replace(end, firing=self._session.requests.done(ts)))
        self._next = end
        return self._recorder.next()

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Rows from the recorder."""
        firing = self._session.watch.see(name, batch)
        if firing is not None:
            self._session.requests.fire(firing)
        self._placed.write(name, batch)

    def rows(self, name: str, rows: list[capture.Row]) -> None:
        """Rows that tell of the whole segment."""
        self._placed.rows(name, rows)

    def finish(self, end: Boundary | None) -> None:
        """The last segment ends there; None: the session failed, and it has no end."""
        self._last = True
        self._ends.put(end)
        self.join()
        if self._error:
            raise self._error


@contextlib.contextmanager
def _directory(spool: Spool | None, above: Path) -> Iterator[str]:
    """Where the recorder makes its spool: a spool without a home has files without names."""
    if spool is not None:
        yield str(spool.path)
        return
    with tempfile.TemporaryDirectory(prefix=".pagetape.", dir=above) as directory:
        yield directory


def _how(error: BaseException | None) -> str | None:
    """How a recording ended, where it did not end well."""
    if error is None:
        return None
    return "disk full" if isinstance(error, OSError) and error.errno == errno.ENOSPC else "failed"


class Session:
    """Records while a load runs, and cuts when it is time or somebody asks."""

    def __init__(
        self,
        workload: Workload,
        events: Sequence[str],
        wanted: Wanted,
        sample_s: float,
        *,
        stacks: bool = False,
        numa_maps: bool = False,
        watch: Watch = NOTHING,
        spooling: Spooling = Spooling(),
    ) -> None:
        self.workload = workload
        self.spooling = spooling
        self.ended = "stopped"  # or why the recorder did not go on
        self._events = events
        self._wanted = wanted
        self._stacks = stacks  # of fallbacks
        self.watch = watch
        self.requests = Requests(workload)
        processes = Processes() if numa_maps else None
        self.sampling = Sampling(sample_s, self._sampled, processes)

    def _sampled(self, sample: Sample) -> None:
        firing = self.watch.sampled(sample)
        if firing is not None:
            self.requests.fire(firing)

    def run(
        self, sink: Sink, spool_dir: Path, every: float = float("inf"), *, prompt: bool = False
    ) -> int:
        """Record, with a cut `every` so many seconds; the load's exit status.

        With `prompt`, rows come within seconds, even if that takes CPU time from the load.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self.sampling.close)
            spool = sink.home()
            if spool is not None:
                stack.enter_context(spool)
            stack.callback(sink.close)
            snapshots = stack.enter_context(contextlib.closing(_Snapshots(self._wanted, every)))
            with _directory(spool, spool_dir) as directory:
                recorder = Recorder(
                    self._events,
                    directory,
                    snapshots.migratetypes,
                    ring_kb=self.spooling.ring_kb,
                    stacks=self._stacks,
                    prompt=prompt,
                    spool_max=self.spooling.max_bytes or default_bound(spool_dir),
                    checkpoint=spool.checkpoint if spool else None,
                    defer=self.spooling.defer,
                )
                stack.push(lambda _kind, error, _trace: recorder.close(_how(error)))
                stack.enter_context(self.workload.signals())
                facts: dict[str, Any] = {"events": list(self._events)}
                if self.spooling.defer:
                    facts["deferred"] = True
                start = snapshots.first(recorder, facts, spool)
            pump = _Pump(self, recorder, sink, spool, start, os.nice(0) if prompt else NICE)
            pump.start()
            self.sampling.start()
            end = None
            try:
                self.workload.start()
                self._cut_until_over(recorder, snapshots, pump, every)
                end = snapshots.last(recorder)
            finally:
                recorder.stop()
                self.sampling.stop()
                status = self.workload.finish()
                pump.finish(end)
            self.ended = recorder.ended
        return status

    def _cut_until_over(
        self, recorder: Recorder, snapshots: _Snapshots, pump: _Pump, every: float
    ) -> None:
        due = time.monotonic() + every
        # While the pump is behind there is nothing to be done: it will give a nudge.
        while not self.workload.wait(float("inf") if pump.behind else due - time.monotonic()):
            if not pump.behind and (self.requests.pending or time.monotonic() >= due):
                due = time.monotonic() + every
                pump.cut(snapshots.cut(recorder))
