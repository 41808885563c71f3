# SPDX-License-Identifier: Apache-2.0
"""Samples of /proc during a recording, placed among its events."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pyarrow as pa

from pagetape.numa_maps import Processes
from pagetape.recording.capture import Row, Sink
from pagetape.sampler import Sample, Sampler

SHARE = 0.001  # largest share of a CPU: if samples cost more, they become rarer
NICE = 10
_ROWS = 512  # rows written together


class Sampling(threading.Thread):
    """Takes a sample every `every` seconds and one at the end; none if `every` is 0.

    A segment ends with a sample, too. until() returns the samples.
    """

    def __init__(
        self, every: float, seen: Callable[[Sample], None], processes: Processes | None = None
    ) -> None:
        super().__init__(name="samples", daemon=True)
        self._processes = processes  # reads the memory policies of processes
        self._policies: SimpleQueue[list[Row]] = SimpleQueue()
        self._every = every
        self._seen = seen  # called with each sample
        self._sampler = Sampler()
        self._restart, self._ask_again = True, False
        self._taking = threading.Lock()
        self._over = threading.Event()
        self._samples: deque[Sample] = deque()

    def start(self) -> None:
        """Start, if `every` is not 0."""
        if self._every:
            super().start()

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        due = time.monotonic() + self._every
        self._look()
        while not self._over.wait(self._every if self._processes else due - time.monotonic()):
            self._look()
            if time.monotonic() < due:
                continue
            began = time.thread_time()
            sample = self._take()
            if sample is not None:
                self._seen(sample)
            pause = max(self._every, (time.thread_time() - began) / SHARE)
            due = time.monotonic() + pause
        self._take()  # the machine at the end of the recording

    def _take(self) -> Sample | None:
        with self._taking:
            return self._append()

    def _append(self) -> Sample | None:
        if self._restart:
            self._restart = False
            self._sampler.restart()
        try:
            sample = self._sampler.take()
        except OSError:  # the kernel has no memory for the text now
            return None
        self._samples.append(sample)
        return sample

    def _look(self) -> None:
        """Read the memory policies of new processes; may take long."""
        if self._processes is None:
            return
        if self._ask_again:
            self._ask_again = False
            self._processes.restart()
        with contextlib.suppress(OSError):  # as in _take()
            self._policies.put(self._processes.take())

    def policies(self) -> list[Row]:
        """Rows of memory_policy not yet returned."""
        rows: list[Row] = []
        while not self._policies.empty():
            rows += self._policies.get()
        return rows

    def rebase(self) -> None:
        """Let the next sample hold the changes from now on. Call it before start()."""
        self._sampler.take()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """End a segment with a sample, let the caller cut, then begin the next segment.

        The first sample of a segment has all counters and all processes' policies.
        """
        with self._taking:
            if self._every:
                self._append()
            yield
            self._restart = self._ask_again = True

    def until(self, ts: int) -> list[Sample]:
        """Samples up to `ts` not yet returned."""
        found = []
        while self._samples and self._samples[0].ts <= ts:
            found.append(self._samples.popleft())
        return found

    def stop(self) -> None:
        """Take no more samples; until() still returns the last ones."""
        self._over.set()
        if self.ident is not None:
            self.join()

    def close(self) -> None:
        """Stop, and close the files."""
        self.stop()
        self._sampler.close()


class Placed:
    """Passes rows to a sink, and inserts the samples with their `at`."""

    def __init__(self, sink: Sink, sampling: Sampling) -> None:
        self._sink = sink
        self._sampling = sampling
        self._events = 0
        self._waiting: dict[str, list[Row]] = {"parameter": [], "sample": [], "free_count": []}

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        if name == "event":
            ts = batch.column("ts")
            for sample in self._sampling.until(ts[-1].as_py()):
                before = bisect_right(range(len(ts)), sample.ts, key=lambda i: ts[i].as_py())
                self._place(sample, self._events + before)
            self._events += batch.num_rows
            self._write_policies()
        self._sink.write(name, batch)

    def rows(self, name: str, rows: list[Row]) -> None:
        self._sink.rows(name, rows)

    def _place(self, sample: Sample, at: int) -> None:
        for name, rows in (
            ("parameter", sample.parameters),
            ("sample", sample.counters),
            ("free_count", sample.free),
        ):
            self._waiting[name] += [row | {"at": at} for row in rows]
            if len(self._waiting[name]) >= _ROWS:
                self._write(name)

    def _write(self, name: str) -> None:
        if self._waiting[name]:
            self._sink.rows(name, self._waiting[name])
            self._waiting[name] = []

    def _write_policies(self) -> None:
        if rows := self._sampling.policies():
            self._sink.rows("memory_policy", rows)

    def end(self, ts: int) -> None:
        """End the segment at `ts`; the next one counts its events from 0."""
        self._write_policies()
        for sample in self._sampling.until(ts):
            self._place(sample, self._events)
        for name in self._waiting:
            self._write(name)
        self._events = 0
