# SPDX-License-Identifier: Apache-2.0
"""A sweep's runs on the workers of a Dask cluster, which share a filesystem with this machine.

One worker prepares each tape, once. The tape's runs then go to the workers in groups. A worker
plays a group on one thread and decodes the tape once for the group. The files are the same as
after a sweep on one machine.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape.replaying import sweep
from pagetape.replaying.engine_run import Progress, silent
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cache

_CONNECT_S = 10


def _prepare(tape: Tape, directory: Path, build: str) -> tuple[pa.Table, pa.Table]:
    """On a worker: sweep.prepare()."""
    _same(build)
    return sweep.prepare(tape, directory)


def _play(
    cases: Sequence[sweep.Case], prepared: tuple[pa.Table, pa.Table], directory: Path, build: str
) -> int:
    """On a worker: play some runs on one tape; the number of runs."""
    _same(build)
    sweep.play(cases, directory, jobs=1, models=len(cases), prepared=prepared)
    return len(cases)


def _same(build: str) -> None:
    """Raise TapeError unless this worker has the same pagetape as the sweep."""
    if cache.build() != build:
        raise TapeError(
            errno.EPROTO,
            f"worker on {socket.gethostname()}: its pagetape is another version or build",
        )


def _dask() -> Any:
    """The optional module `distributed`, which only --cluster needs."""
    try:
        import distributed
    except ImportError:
        raise TapeError(
            errno.ENOPKG, "--cluster needs Dask: pip install 'pagetape[fleet]'"
        ) from None
    return distributed


def _client(address: str) -> Any:
    dask = _dask()
    try:
        return dask.Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError) as e:
        raise TapeError(errno.EHOSTUNREACH, f"{address}: no Dask scheduler at this address") from e


def play(
    address: str,
    cases: Sequence[sweep.Case],
    directory: Path,
    *,
    models: int,
    progress: Progress = silent,
) -> None:
    """Make the results of the cases, in groups of up to `models` cases."""
    with closing(_client(address)) as client:
        threads = sum(client.nthreads().values()) or 1
        build = cache.build()
        work = []
        for _, same in groupby(cases, key=lambda case: case.label):
            runs = list(same)
            prepared = client.submit(_prepare, runs[0].tape, directory, build, pure=False)
            size = min(models, ceil(len(runs) / threads))
            work += [
                client.submit(_play, runs[i : i + size], prepared, directory, build, pure=False)
                for i in range(0, len(runs), size)
            ]
        done = 0
        for future in _dask().as_completed(work):
            done += future.result()
            progress(done / len(cases))
