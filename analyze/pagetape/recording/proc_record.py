# SPDX-License-Identifier: Apache-2.0
"""Records /proc over time, without events: no tracing, and no right but that to read the files.

With --rotate, the last moment of a tape is the first one of the next.
"""

from __future__ import annotations

import errno
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pagetape import procfs
from pagetape.recording import latency
from pagetape.recording.capture import known
from pagetape.recording.proc_tape import Moments, facts_of
from pagetape.recording.request import Request
from pagetape.recording.sampling import NICE, SHARE
from pagetape.recording.status import Status
from pagetape.recording.tape_dir import TapeDir
from pagetape.recording.workload import Workload
from pagetape.sampler import Sample, Sampler
from pagetape.schemas.tape import Tape, TapeError, Writer
from pagetape.tapes import output

_FLUSH_S = 30  # a killed recorder loses so much
_TYPES = "pagetypeinfo"
_NO_TYPES = (
    "only root may read /proc/pagetypeinfo: free blocks and pageblocks by migratetype are unknown"
)


class _Recording:
    """The tape that is being recorded; cut() begins the next one of a series."""

    def __init__(self, request: Request, status: Status, sampler: Sampler) -> None:
        from pagetape.recording.private import Veil

        self._request, self._status, self._sampler = request, status, sampler
        self._veil = Veil(request.private) if request.private else None
        self._limits: list[str] = []
        if _TYPES not in sampler.files and Path("/proc", _TYPES).exists():
            status.warn(_NO_TYPES)
            self._limits.append(_NO_TYPES)
        self._dir: TapeDir | None = None
        if request.rotate is not None:
            host = "private" if request.private else None
            self._dir = TapeDir(request.out, request.keep, host, status.say)
        self._tape: Writer | None = None
        self._held: Sample | None = None  # the last moment, which is written as the end
        if not (first := self._all()):
            raise TapeError(errno.ENOMEM, "no memory for the texts of /proc")
        self._begin(first)

    def _begin(self, samples: list[Sample]) -> None:
        """Begin a tape with these moments; the first one has every counter."""
        out = self._dir.place(datetime.now(UTC)) if self._dir else self._request.out
        facts = self._facts(samples[0])
        own = self._veil.facts(facts) if self._veil else facts
        self._tape = Writer(out, own, replace=self._request.force)
        self._sink = self._veil.over(self._tape) if self._veil else self._tape
        self._moments = Moments(self._sink)
        self._held = None
        self._flushed = time.monotonic()
        for sample in samples:
            self.take(sample)

    def _all(self) -> list[Sample]:
        """Moments from now on, the first one with every counter; none if memory is short."""
        for sample in self._sampler.samples():
            self.take(sample)
        self._sampler.restart()
        found = self._sampler.ask()
        while found and not found[0].whole:  # sysctls alone
            self.take(found.pop(0))
        return found

    def _facts(self, first: Sample) -> dict[str, Any]:
        found = {
            "cpus": os.cpu_count(),
            "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "recorder_pid": os.getpid(),
            "sampling": {"every_s": self._request.sample, "guards": self._sampler.guards},
            "limits": self._limits or None,
        }
        mark = self._dir.mark() if self._dir else {}
        return known(procfs.live().facts, facts_of(first.texts), found) | mark

    def take(self, sample: Sample) -> None:
        if self._held is not None:
            self._write(self._held)
        self._held = sample
        if time.monotonic() - self._flushed > _FLUSH_S:
            self._moments.flush()
            self._flushed = time.monotonic()

    def _write(self, sample: Sample, *, last: bool = False) -> None:
        ts = min((ended for _, ended, _ in sample.texts.values()), default=sample.ts)
        self._moments.add(ts, sample.texts, sample.readings, last=last)

    def end(self, last: list[Sample], workload: Workload | None = None) -> None:
        """End the tape with these moments, and the samples of a finished command."""
        assert self._tape is not None
        for sample in last:
            self.take(sample)
        if self._held is not None:
            self._write(self._held, last=True)
        self._moments.flush()
        if workload is not None:
            latency.write(workload, self._sink, self._status.warn)
        path = self._tape.where() or self._request.out
        self._tape.close()
        self._tape = None
        output.put_in_one_file(path)
        self._status.say(_saved(Tape(path)))
        if self._dir:
            self._dir.tidy()

    def cut(self) -> None:
        """End the tape, and begin the next one at the same moment."""
        if found := self._all():
            self.end(found[:1])
            self._begin(found)

    def close(self) -> None:
        if self._tape is not None:
            self._tape.close()
        if self._dir:
            self._dir.close()


def record(request: Request, status: Status) -> int:
    """Record until the workload is over; returns its exit status. Raises TapeError."""
    if request.rotate is None:
        output.check_free(request.out, replace=request.force)
    workload = Workload(request.argv, request.duration)
    with workload.signals():
        sampler = Sampler(whole=True)
        try:
            recording = _Recording(request, status, sampler)
            try:
                code = _run(request, workload, sampler, recording, status)
            finally:
                recording.close()
        finally:
            sampler.close()
    return code


def _run(
    request: Request,
    workload: Workload,
    sampler: Sampler,
    recording: _Recording,
    status: Status,
) -> int:
    workload.start()
    sampler.start(request.sample, SHARE)
    status.recording(workload.until)
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    rotate = request.rotate or float("inf")
    due = time.monotonic() + rotate
    over = False
    while not over:
        over = workload.wait(min(request.sample, max(due - time.monotonic(), 0)))
        for sample in sampler.samples():
            recording.take(sample)
        if not over and time.monotonic() >= due:
            recording.cut()
            due += rotate
    code = workload.finish()
    recording.end(sampler.ask(), workload)
    return code


def _saved(tape: Tape) -> str:
    from pagetape import answer
    from pagetape.tapes.info import moments, summary  # not before: it loads the engine

    info = summary(tape)
    return f"{tape.path}: {moments(info)}, {answer.size(info['bytes'])}"
