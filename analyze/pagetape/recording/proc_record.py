# SPDX-License-Identifier: Apache-2.0
"""Records /proc over time, without events: no tracing, and no right but that to read the files."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pagetape import procfs
from pagetape.recording.capture import known
from pagetape.recording.proc_tape import Moments, facts_of
from pagetape.recording.sampling import NICE, SHARE
from pagetape.recording.status import Status
from pagetape.recording.workload import Workload
from pagetape.sampler import Sample, Sampler
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import output


@dataclass(frozen=True)
class Request:
    """What to record: for how long, and how often, in seconds."""

    out: Path
    argv: tuple[str, ...]
    duration: float | None
    every: float
    private: str | None
    replace: bool


_FLUSH_S = 30  # a killed recorder loses so much
_TYPES = "pagetypeinfo"
_NO_TYPES = (
    "only root may read /proc/pagetypeinfo: free blocks and pageblocks by migratetype are unknown"
)


class _Recording:
    """A tape that is being recorded."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self._held: Sample | None = None  # the last one is written as the end
        self._flushed = time.monotonic()

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

    def end(self) -> None:
        if self._held is not None:
            self._write(self._held, last=True)
        self._moments.flush()


def record(request: Request, status: Status) -> int:
    """Record until the workload is over; returns its exit status. Raises TapeError."""
    from pagetape.recording.private import Veil

    output.check_free(request.out, replace=request.replace)
    workload = Workload(request.argv, request.duration)
    with workload.signals():
        sampler = Sampler(whole=True)
        try:
            sampler.restart()
            first, *later = sampler.ask()
            limits = []
            if _TYPES not in sampler.files and Path("/proc", _TYPES).exists():
                status.warn(_NO_TYPES)
                limits.append(_NO_TYPES)
            facts = known(
                procfs.live().facts,
                facts_of(first.texts),
                {
                    "cpus": os.cpu_count(),
                    "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "recorder_pid": os.getpid(),
                    "sampling": {"every_s": request.every, "guards": sampler.guards},
                    "limits": limits or None,
                },
            )
            veil = Veil(request.private) if request.private else None
            own = veil.facts(facts) if veil else facts
            with Writer(request.out, own, replace=request.replace) as tape:
                recording = _Recording(Moments(veil.over(tape) if veil else tape))
                for sample in (first, *later):
                    recording.take(sample)
                code = _run(request, workload, sampler, recording, status)
                path = tape.where() or request.out
        finally:
            sampler.close()
    output.put_in_one_file(path)
    status.say(_saved(Tape(path)))
    return code


def _run(
    request: Request,
    workload: Workload,
    sampler: Sampler,
    recording: _Recording,
    status: Status,
) -> int:
    workload.start()
    sampler.start(request.every, SHARE)
    status.recording(workload.until)
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    over = False
    while not over:
        over = workload.wait(request.every)
        for sample in sampler.samples():
            recording.take(sample)
    for sample in sampler.ask():
        recording.take(sample)
    code = workload.finish()
    recording.end()
    return code


def _saved(tape: Tape) -> str:
    from pagetape import answer
    from pagetape.tapes.info import moments, summary  # not before: it loads the engine

    info = summary(tape)
    return f"{tape.path}: {moments(info)}, {answer.size(info['bytes'])}"
