# SPDX-License-Identifier: Apache-2.0
"""A sweep's runs on the workers of a Dask cluster, which share a filesystem with this machine.

One worker prepares each tape, once. The tape's runs then go to the workers in groups. A worker
plays a group on one thread and decodes the tape once for the group. It does so in a process of its
own: no tape ends a worker. The files are the same as after a sweep on one machine.
"""

import errno
import socket
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from pagetape.replaying import sweep
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.isolated import Process, reason
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cache, origin

_CONNECT_S = 10


class _Sent(NamedTuple):
    """What a worker must have, too."""

    build: str  # of pagetape
    recording: str | None  # id of the recording at the tape's path


def _prepare(tape: Tape, directory: Path, sent: _Sent) -> sweep.Prepared | str:
    """On a worker: what the runs on a tape share, or why it cannot be made."""
    _same(tape, sent)
    with Process() as process:
        return sweep.Player(process, directory, 1).prepare(tape)


def _play(
    cases: Sequence[sweep.Case],
    prepared: sweep.Prepared | str,
    directory: Path,
    models: int | None,
    sent: _Sent,
) -> list[sweep.Failed]:
    """On a worker: play some runs on one tape; returns those that failed."""
    _same(cases[0].tape, sent)
    if isinstance(prepared, str):
        return [sweep.Failed(case.label, case.run, prepared) for case in cases]
    with Process() as process:
        return sweep.Player(process, directory, 1).play(cases, models, prepared=prepared)


def _same(tape: Tape, sent: _Sent) -> None:
    """Raise TapeError unless this worker has the same pagetape and the same tape as the sweep."""
    where = f"worker on {socket.gethostname()}"
    if cache.build() != sent.build:
        raise TapeError(errno.EPROTO, f"{where}: its pagetape is another version or build")
    if origin.recording_id(Tape(tape.path)) != sent.recording:
        raise TapeError(errno.EPROTO, f"{where}: its {tape.path} is another recording")


def dask() -> Any:
    """The optional module `distributed`, which only --cluster needs."""
    try:
        import distributed
    except ImportError:
        raise TapeError(
            errno.ENOPKG, "--cluster needs Dask: pip install 'pagetape[fleet]'"
        ) from None
    return distributed


def client(address: str) -> Any:
    """A client of the scheduler at this address."""
    module = dask()
    try:
        return module.Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError) as e:
        raise TapeError(errno.EHOSTUNREACH, f"{address}: no Dask scheduler at this address") from e


def play(
    address: str,
    cases: Sequence[sweep.Case],
    directory: Path,
    *,
    models: int | None,
    progress: Progress = silent,
) -> list[sweep.Failed]:
    """Make the results of the cases, on each thread with up to `models` models at once; returns
    those that failed."""
    with closing(client(address)) as connected:
        threads = sum(connected.nthreads().values()) or 1
        build = cache.build()
        work = {}
        for _, same in groupby(cases, key=lambda case: case.label):
            runs = list(same)
            sent = _Sent(build, origin.recording_id(runs[0].tape))
            prepared = connected.submit(_prepare, runs[0].tape, directory, sent, pure=False)
            size = ceil(len(runs) / threads)
            size = min(size, models or size)
            for i in range(0, len(runs), size):
                part = runs[i : i + size]
                about = directory, models, sent
                work[connected.submit(_play, part, prepared, *about, pure=False)] = part
        done, failed = 0, []
        for future in dask().as_completed(work):
            failed += _result(future, work[future])
            done += len(work[future])
            progress(done / len(cases))
    return failed


def _result(future: Any, cases: Sequence[sweep.Case]) -> list[sweep.Failed]:
    """The failed runs of a finished future; all of them if its worker was lost."""
    try:
        found: list[sweep.Failed] = future.result()
    except TapeError:  # of _same()
        raise
    except Exception as e:
        return [sweep.Failed(case.label, case.run, reason(e)) for case in cases]
    return found
