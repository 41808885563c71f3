# SPDX-License-Identifier: Apache-2.0
"""A recording session: one recorder whose stream is cut into segments.

A segment begins and ends with a snapshot and holds the events between them, so it can be
a tape of its own. The end of a segment is the start of the next: every event is in exactly
one.

    main thread   waits for the workload, takes the snapshots, cuts the stream
    pump thread   moves batches from the recorder to the sink
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from pagetape import procfs
from pagetape.numa_maps import Processes
from pagetape.recording import capture, latency, printed
from pagetape.recording.capture import Snapshot, read_flags
from pagetape.recording.disturbance import LOOK_S, Disturbances
from pagetape.recording.eventsets import Contents, Plan
from pagetape.recording.exact import NO_FLAGS, Exact, ExactSnapshots
from pagetape.recording.sampling import Placed, Sampling
from pagetape.recording.stacks import Frames
from pagetape.recording.status import SILENT, Look, Status
from pagetape.recording.tape_dir import SPOOLS
from pagetape.recording.watch import NOTHING, Firing, Watch
from pagetape.recording.workload import Workload
from pagetape.sampler import Sample
from pagetape.schemas.tape import TapeError, Writer
from pagetape.tapes import temporary
from pagetape.tapes.spool import Spool, default_bound

if TYPE_CHECKING:
    from pagetape._collector import Recorder

NICE = 10  # of the thread that writes the tape

# Largest share of the time between two snapshots for reading kpageflags.
_BLOCKS_SHARE = 0.02

# kpageflags is read during the recording if that takes less than so many seconds.
_AGAIN_S = 1

# A machine reads about so many pages of kpageflags per second. The size of the machine decides, not
# the time of a reading: on a busy machine, most of that time is the time of others.
_PAGES_PER_S = 10_000_000

_NEVER = 1 << 63  # a time on the trace clock

# So long after a start or a cut, the recorder only waits and decodes, s.
_SETTLED_S = 10


@dataclass(frozen=True)
class Boundary:
    """The begin or end of a segment: a time, the machine's state at that time, and all facts."""

    state: Snapshot
    at: datetime
    facts: dict[str, Any]
    firing: Firing | None = None  # of a trigger, in the segment that ends here

    @property
    def ts(self) -> int:
        """The time on the trace clock (ns)."""
        return self.state.ts

    @property
    def how(self) -> str:
        """How the state was read: exact, or proc."""
        return str(self.state.facts["how"])

    @property
    def why(self) -> str | None:
        """Why an exact snapshot is missing; None if it is not, or if none was wanted."""
        return self.state.facts.get("why")


class Sink(capture.Sink, Protocol):
    """The destination of a session's segments."""

    @property
    def tape(self) -> Writer | None:
        """The tape on disk that receives the segment, if there is one."""

    def home(self) -> Spool | None:
        """The spool of the recording; None if the recording is in memory only."""

    def begin(self, start: Boundary) -> None:
        """A segment begins; its rows follow."""

    def end(self, end: Boundary) -> None:
        """The segment has all its rows."""

    def close(self) -> None:
        """The session is over; after a failure, a segment may be incomplete."""


@dataclass(frozen=True)
class Spooling:
    """The spool of recorded data that waits for decoding."""

    max_bytes: int | None = None  # limit on disk, bytes; None: default_bound
    defer: bool = False  # record only: `pagetape import` decodes later
    memory: int = 0  # limit in memory, bytes; 0: by the machine's memory
    ring_kb: int = 0  # kernel memory of each CPU's ring, kB; 0: by the machine's memory


@dataclass(frozen=True)
class Wanted:
    """The kind of snapshots at the begin and end of segments."""

    kind: str  # exact, proc, or auto: exact if the machine allows it
    max_ms: float | None = None  # longest hold of a lock or a CPU; None: the default
    blocks: bool = True  # read kpageflags, which only a replay needs
    why_proc: str | None = None  # reason for kind "proc", if the user did not ask for it

    def load(self) -> ExactSnapshots | None:
        """The programs of exact snapshots, if such are wanted."""
        if self.kind == "proc":
            return None
        return ExactSnapshots(self.max_ms)

    def take(self, snapshots: ExactSnapshots | None, number: int) -> Exact | None:
        """Take an exact snapshot, if wanted; raises TapeError if a required one failed."""
        if snapshots is None:
            return Exact({}, {}, self.why_proc) if self.why_proc else None
        found = snapshots.take(number)
        if found.why and self.kind == "exact" and number == 0:
            raise self.refusal(f"no exact snapshot: {found.why}")
        return found

    def refusal(self, what: str) -> TapeError:
        """The end of a recording whose exact snapshot is required."""
        longer = "" if self.max_ms else "; --snapshot-max-ms 50 allows more time"
        return TapeError(errno.ENOTSUP, f"{what}{longer}; --snapshot auto records without one")


class _Snapshots:
    """Takes the snapshots of a session; the constructor loads the snapshot programs."""

    def __init__(self, wanted: Wanted, every: float) -> None:
        self._wanted = wanted
        self._every = every
        self._proc = procfs.live()
        (self._stage,) = self._proc.stages
        # Time that reading kpageflags takes, on an idle machine.
        self._blocks_s = os.sysconf("SC_PHYS_PAGES") / _PAGES_PER_S
        self._facts: dict[str, Any] = {}
        self._exact = wanted.load()

    def prepare(self, contents: Contents) -> Plan:
        """How to record the events of an event set, from now on."""
        order = self._proc.facts.get("pageblock_order", 0)
        return printed.prepare(contents, self._exact, order)

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

    def first(
        self,
        recorder: Recorder,
        facts: dict[str, Any],
        spool: Spool | None,
        started: Callable[[], None],
    ) -> Boundary:
        """Start the recorder, call `started`, and read the state of the machine.

        Reading kpageflags takes long. A start from /proc reads it while events are recorded: they
        show which pages come and go meanwhile, those of this program among them. So does an exact
        start; on a machine where it takes too long, it reads kpageflags before.
        """
        self._facts = capture.known(recorder.facts, self._proc.facts, facts)
        quick = self._blocks_s < _AGAIN_S
        if self._exact is not None:
            ts = time.monotonic_ns()
            flags = NO_FLAGS
            if self._wanted.blocks and not quick:
                flags = read_flags(self._proc, self._stage, 0, ts, after=False)
            state = Snapshot.take(self._proc, self._stage, 0, ts, flags=flags)
        if spool is not None:
            spool.begin(self._facts)
        recorder.start()
        started()
        exact = self._wanted.take(self._exact, 0)
        if exact is None or exact.how == "proc":
            ts = time.monotonic_ns()
            state = Snapshot.take(self._proc, self._stage, 0, ts)
        if self._wanted.blocks and (quick or exact is None or exact.why is not None):
            state = state.showing(read_flags(self._proc, self._stage, 0, ts, after=True))
        return self._boundary(state, exact)

    def cut(self, recorder: Recorder) -> Boundary:
        """End the segment here, and begin the next."""
        recorder.hold()
        ts = time.monotonic_ns()
        exact = self._wanted.take(self._exact, 1)
        if exact is not None and exact.how != "proc":
            ts = exact.facts["ts"]
        recorder.cut(ts)
        state = Snapshot.take(self._proc, self._stage, 1, ts)  # soon: kpageflags takes long
        if self._wanted.blocks and self._blocks_s < _BLOCKS_SHARE * self._every:
            state = state.showing(read_flags(self._proc, self._stage, 1, ts, after=True))
        return self._boundary(state, exact)

    def last(self, recorder: Recorder) -> Boundary:
        """Stop the recorder, then read /proc."""
        flags = NO_FLAGS
        if self._exact is not None and self._wanted.blocks and self._blocks_s < _AGAIN_S:
            flags = read_flags(self._proc, self._stage, 1, time.monotonic_ns(), after=False)
        exact = self._wanted.take(self._exact, 1)
        recorder.stop()
        ts = time.monotonic_ns()
        state = Snapshot.take(self._proc, self._stage, 1, ts, flags=flags)
        if self._wanted.blocks and (exact is None or exact.why is not None):
            state = state.showing(read_flags(self._proc, self._stage, 1, ts, after=True))
        return self._boundary(state, exact)

    def close(self) -> None:
        if self._exact is not None:
            self._exact.close()


class Requests:
    """Requests to a session, from any thread and from signal handlers."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._cut = False
        self._firing: Firing | None = None

    def cut(self) -> None:
        """End the segment soon."""
        self._cut = True
        self._workload.nudge()

    def fire(self, firing: Firing) -> None:
        """End the segment soon because of this firing; only a segment's first firing counts."""
        self._firing = self._firing or firing
        self._workload.nudge()

    @property
    def firing(self) -> Firing | None:
        """The pending firing."""
        return self._firing

    @property
    def pending(self) -> bool:
        """Whether a request is pending."""
        return self._cut or self._firing is not None

    def done(self, ts: int) -> Firing | None:
        """The segment up to `ts` has ended; returns the firing in it, if any.

        A later firing waits for the next cut.
        """
        self._cut = False
        firing = self._firing
        if firing is None or firing.ts > ts:
            return None
        self._firing = None
        return firing


class _Pump(threading.Thread):
    """Moves rows from the recorder to the sink at low priority, while the load runs."""

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
        self.behind = False  # a cut is not processed yet
        self._error: BaseException | None = None

    def cut(self, end: Boundary) -> None:
        """End the segment that is being read at `end`."""
        self.behind = True
        self._ends.put(end)

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        try:
            while self._segment():
                self.behind = False
                self._session.workload.nudge()
        except BaseException as e:  # raised again when the session ends
            self._error = e
            self._session.workload.stop()

    def _segment(self) -> bool:
        """Move one segment; returns whether there are more."""
        if self._spool is not None:
            self._spool.begun = True
        self._sink.begin(self._next)
        if self._spool is not None:
            self._spool.writer = self._sink.tape
        if self._session.spooling.defer:
            self._recorder.read()  # until the end: no more data will come
            self._session.workload.stop()
        else:
            capture.write_events(self._recorder, self, frames=self._frames)
        end = self._ends.get()
        cpus = [ring["cpu"] for ring in self._recorder.rings()]
        for name, rows in self._session.disturbances.take(cpus).items():
            self._sink.rows(name, rows)
        if end is None:
            return False
        if self._last:
            latency.write(self._session.workload, self._placed, self._session.status.warn)
        # The last segment goes on for a moment after its end snapshot.
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
        """Rows that describe the whole segment."""
        self._placed.rows(name, rows)

    def finish(self, end: Boundary | None) -> None:
        """End the last segment at `end`; None after a failure: the segment then has no end."""
        self._last = True
        self._ends.put(end)
        self.join()
        if self._error:
            raise self._error


@contextlib.contextmanager
def _directory(spool: Spool | None, above: Path) -> Iterator[str]:
    """The directory of the recorder's spool; a temporary one if `spool` is None."""
    if spool is not None:
        yield str(spool.path)
        return
    with temporary.temporary(above, SPOOLS) as directory:
        yield str(directory)


def _how(error: BaseException | None) -> str | None:
    """The value of `ended` for a failed recording; None if the recording did not fail."""
    if error is None:
        return None
    return "disk full" if isinstance(error, OSError) and error.errno == errno.ENOSPC else "failed"


class Session:
    """Records while a workload runs; cuts at intervals and on request."""

    def __init__(
        self,
        workload: Workload,
        contents: Contents,
        wanted: Wanted,
        *,
        watch: Watch = NOTHING,
        spooling: Spooling = Spooling(),
        status: Status = SILENT,
    ) -> None:
        self.workload = workload
        self.spooling = spooling
        self.status = status
        self.disturbances = Disturbances(status)
        self.ended = "stopped"  # or the reason for an early end
        self.inexact: str | None = None  # why a later snapshot is not exact, though one is required
        self._contents = contents
        self._wanted = wanted
        self.watch = watch
        self.requests = Requests(workload)
        processes = Processes() if contents.numa_maps else None
        self.sampling = Sampling(
            contents.sample_s, self._sampled, processes, awaited=bool(watch.specs)
        )

    def _sampled(self, sample: Sample) -> None:
        firing = self.watch.sampled(sample)
        if firing is not None:
            self.requests.fire(firing)

    def run(
        self,
        sink: Sink,
        spool_dir: Path,
        every: float = float("inf"),
        *,
        prompt: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> int:
        """Record, with a cut every `every` seconds; returns the workload's exit status.

        `prepare` is called when all is ready for the first snapshot.

        With `prompt`, rows arrive within seconds, even if that takes CPU time from the workload.
        """
        from pagetape._collector import Recorder, SpoolConfig, allow_files, small_heap

        small_heap()
        allow_files(0)  # before the first table is made
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.workload.signals())
            stack.callback(self.status.close)
            stack.callback(self.sampling.close)
            spool = sink.home()
            if spool is not None:
                # Before anything that takes long: a kill from now on leaves a tape.
                stack.enter_context(spool).make({})
            stack.callback(sink.close)
            snapshots = stack.enter_context(contextlib.closing(_Snapshots(self._wanted, every)))
            how = snapshots.prepare(self._contents)
            if how.undo:
                stack.callback(how.undo)
            with _directory(spool, spool_dir) as directory:
                recorder = Recorder(
                    how.events,
                    SpoolConfig(
                        directory,
                        self.spooling.max_bytes or default_bound(spool_dir),
                        checkpoint=spool.checkpoint if spool else None,
                        defer=self.spooling.defer,
                        lock=spool.lock if spool else -1,
                        memory=self.spooling.memory,
                    ),
                    snapshots.migratetypes,
                    ring_kb=self.spooling.ring_kb,
                    stacks=bool(self._contents.stacks),
                    prompt=prompt,
                    filters=how.filters,
                    zone_locks=how.zone_locks,
                )
                stack.push(lambda _kind, error, _trace: recorder.close(_how(error)))
                for one in self._contents.stacks:
                    recorder.add_stacks(one.event, one.filter(recorder.facts["gfp_bits"]))
                if prepare is not None:
                    prepare()
                    self.sampling.rebase()
                start = snapshots.first(recorder, self._facts(how), spool, self._started)
                self.status.started(start.how, start.why)
                if how.note and how.note != printed.NO_STAMPS.format(start.why):  # just said
                    self.status.warn(how.note)
            pump = _Pump(self, recorder, sink, spool, start, os.nice(0) if prompt else NICE)
            pump.start()
            end = None
            try:
                self.workload.start()
                self._cut_until_over(recorder, sink, snapshots, pump, every)
                self._look(recorder, sink)
                self.status.ending(recorder.look().waiting)
                end = snapshots.last(recorder)
                self._check(end)
            finally:
                recorder.stop()
                self.sampling.stop()
                if self.sampling.missing:
                    self.status.warn(self.sampling.missing)
                status = self.workload.finish()
                pump.finish(end)
            self.ended = self.disturbances.ended or recorder.ended
        return status

    def _facts(self, how: Plan) -> dict[str, Any]:
        """The facts of a tape about its recording."""
        stacks = [one.spec for one in self._contents.stacks]
        return {
            "events": list(self._contents.events),
            "event_set": self._contents.event_set,
            **({"stacks": stacks} if stacks else {}),
            **self.sampling.facts,
            **how.facts,
            **({"deferred": True} if self.spooling.defer else {}),
        }

    def _check(self, end: Boundary) -> None:
        """Notice a snapshot that is not as required; the recording goes on."""
        if self._wanted.kind == "exact":
            self.inexact = self.inexact or end.why

    def _started(self) -> None:
        self.sampling.start()  # the start snapshot may take seconds
        self.disturbances.start()
        self.status.recording(self.workload.until)

    def _look(self, recorder: Recorder, sink: Sink) -> None:
        """Notice what happened to the recording since the last look; end it if it must end."""
        look = recorder.look()
        self.status.look(Look(time.monotonic(), look.events, look.lost, look.waiting))
        self.disturbances.see(look, sink.tape)
        if self.disturbances.ended:
            self.workload.stop()

    def _cut_until_over(
        self, recorder: Recorder, sink: Sink, snapshots: _Snapshots, pump: _Pump, every: float
    ) -> None:
        from pagetape._collector import give_back

        due, look = time.monotonic() + every, time.monotonic()
        settled = look + _SETTLED_S
        # While the pump is behind, no cut is possible: wait for its nudge.
        while not self.workload.wait((look if pump.behind else min(due, look)) - time.monotonic()):
            now = time.monotonic()
            if now >= look:
                look = now + LOOK_S
                self._look(recorder, sink)
            if now >= settled:
                settled = float("inf")
                give_back()
            if not pump.behind and (self.requests.pending or now >= due):
                self.disturbances.late(now - due)
                if self.requests.firing:
                    self.status.fired(self.requests.firing)
                due = now + every
                with self.sampling.cut():
                    end = snapshots.cut(recorder)
                self._check(end)
                pump.cut(end)
                settled = time.monotonic() + _SETTLED_S
        self.disturbances.late(time.monotonic() - due)  # a cut that was never possible
