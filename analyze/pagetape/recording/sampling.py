# SPDX-License-Identifier: Apache-2.0
"""Samples of /proc during a recording, placed among its events."""

import contextlib
import os
import pickle
import resource
import threading
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import NamedTuple

import pyarrow as pa

from pagetape.numa_maps import Processes
from pagetape.recording.capture import Pieces, Row, Sink
from pagetape.sampler import Reading, Sample, Sampler

# Largest share of a CPU: if samples cost more, some are left out, and `sample_gap` says so. A
# sample takes about 0.5 ms, some 20 ms on a machine of hundreds of CPUs, and 45 ms in a guest that
# QEMU emulates: all of them have one a second.
SHARE = 0.1
NICE = 10
_ROWS = 512  # rows written together
_SLOTS_SHARE = 8  # of the samples that may wait, so many parts


class _Packed(NamedTuple):
    """A reading that waits for the events before it: 2 kB instead of 30.

    While the decoder is behind, that may take many minutes.
    """

    ts: int
    data: bytes

    @classmethod
    def of(cls, reading: Reading) -> "_Packed":
        return cls(reading.ts, pickle.dumps(reading))

    def reading(self) -> Reading:
        found: Reading = pickle.loads(self.data)
        return found


def _worked() -> float:
    """CPU time (s) of this thread, without the kernel's: under pressure that is reclaim."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_utime


class Sampling(threading.Thread):
    """Takes a sample every `every` seconds and one at the end; none if `every` is 0.

    A segment ends with a sample, too. until() returns the readings of all samples. Another thread
    reads the texts; this one makes rows of those that until() leaves waiting: several together,
    unless a trigger (`awaited`) or the memory policies need each sample at once.
    """

    def __init__(
        self,
        every: float,
        seen: Callable[[Sample], None],
        processes: Processes | None = None,
        *,
        awaited: bool = False,
    ) -> None:
        super().__init__(name="samples", daemon=True)
        self._processes = processes  # reads the memory policies of processes
        self._policies: SimpleQueue[list[Row]] = SimpleQueue()
        self._every = every
        self._awaited = awaited or processes is not None
        self._seen = seen  # called with each regular sample
        self._sampler = Sampler() if every else None
        self._ask_again = False
        self._collecting = threading.Lock()
        self._over = threading.Event()
        self._readings: deque[_Packed] = deque()
        self._missing: Counter[str] = Counter()  # samples, by the reason

    @property
    def facts(self) -> dict[str, object]:
        """How the samples are taken, for the tape; empty without samples."""
        if self._sampler is None:
            return {}
        return {"sampling": {"every_s": self._every, "guards": self._sampler.guards}}

    def start(self) -> None:
        """Start, if `every` is not 0."""
        if self._sampler is not None:
            self._sampler.restart()
            self._sampler.start(self._every, SHARE)
            super().start()

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        assert self._sampler is not None  # start()
        while not self._over.is_set():
            self._look()
            if self._awaited:
                self._sampler.wait(self._every)
            else:
                self._over.wait(self._every * self._sampler.slots / _SLOTS_SHARE)
            self._collect()

    def _collect(self) -> None:
        """Make rows of the regular samples that were read."""
        if self._sampler is None:
            return
        with self._collecting:
            began = _worked()
            for sample in self._sampler.samples():
                self._keep(sample)
                if sample.whole:
                    self._seen(sample)
            self._sampler.charge(int(1e9 * (_worked() - began)))

    def _ask(self) -> None:
        """Take a sample now, which no trigger sees."""
        self._collect()
        if self._sampler is not None:
            with self._collecting:
                for sample in self._sampler.ask():
                    self._keep(sample)

    def _keep(self, sample: Sample) -> None:
        self._readings += map(_Packed.of, sample.readings)
        for row in sample.rows("sample_gap"):
            self._missing[row["why"]] += row["samples"] if row["file"] is None else 0

    @property
    def missing(self) -> str | None:
        """The samples that are missing, in words; None if there are all."""
        missing = +self._missing
        if not missing or self._sampler is None:
            return None
        why = ", ".join(f"{why} {nr}" for why, nr in missing.items())
        words = f"{missing.total()} samples of /proc are missing ({why}): see table sample_gap"
        rights = {"locked": "CAP_IPC_LOCK", "realtime": "CAP_SYS_NICE"}
        lacking = [right for guard, right in rights.items() if guard not in self._sampler.guards]
        return f"{words}; fewer with {' and '.join(lacking)}" if lacking else words

    def _look(self) -> None:
        """Read the memory policies of new processes; may take long."""
        if self._processes is None:
            return
        if self._ask_again:
            self._ask_again = False
            self._processes.restart()
        with contextlib.suppress(OSError):  # the kernel has no memory for the text now
            self._policies.put(self._processes.take())

    def policies(self) -> list[Row]:
        """Rows of memory_policy not yet returned."""
        rows: list[Row] = []
        while not self._policies.empty():
            rows += self._policies.get()
        return rows

    def rebase(self) -> None:
        """Let the next sample hold the changes from now on. Call it before start()."""
        if self._sampler is not None:
            self._sampler.ask()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """End a segment with a sample, let the caller cut, then begin the next segment.

        The first sample of a segment has all counters and all processes' policies.
        """
        with contextlib.ExitStack() as stack:
            if self._sampler is not None:
                stack.enter_context(self._sampler.held())
            self._ask()
            yield
            if self._sampler is not None:
                self._sampler.restart()
            self._ask_again = True

    def until(self, ts: int) -> list[Reading]:
        """Readings up to `ts` not yet returned, in order; waits for one in progress."""
        if self._sampler is not None:
            self._sampler.wait_until_read(ts)
        self._collect()
        found = []
        while self._readings and self._readings[0].ts <= ts:
            found.append(self._readings.popleft().reading())
        return found

    def stop(self) -> None:
        """End with a sample of the machine as it is now; until() still returns the last ones."""
        if self._over.is_set():
            return
        self._over.set()
        if self._sampler is not None and self.ident is not None:
            self._sampler.nudge()
            self.join()
            self._ask()

    def close(self) -> None:
        """Stop, and close the files."""
        self.stop()
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None


class Placed:
    """Passes rows to a sink, and inserts the samples with their `at`."""

    def __init__(self, sink: Sink, sampling: Sampling) -> None:
        self._sink = sink
        self._sampling = sampling
        self._events = 0
        self._samples = Pieces(sink, _ROWS)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        if name == "event":
            ts = batch.column("ts")
            for reading in self._sampling.until(ts[-1].as_py()):
                before = bisect_right(range(len(ts)), reading.ts, key=lambda i: ts[i].as_py())
                self._samples.place(reading, self._events + before)
            self._events += batch.num_rows
            self._write_policies()
        self._sink.write(name, batch)

    def rows(self, name: str, rows: list[Row]) -> None:
        self._sink.rows(name, rows)

    def _write_policies(self) -> None:
        if rows := self._sampling.policies():
            self._sink.rows("memory_policy", rows)

    def end(self, ts: int) -> None:
        """End the segment at `ts`; the next one counts its events from 0."""
        self._write_policies()
        for reading in self._sampling.until(ts):
            self._samples.place(reading, self._events)
        self._samples.flush()
        self._events = 0
