# SPDX-License-Identifier: Apache-2.0
"""The parts of a sweep: tapes with the runs that they lack, which one worker plays.

A worker is this process or one of a Dask cluster. It plans and plays the runs in a process of its
own: no tape ends a worker. Tapes at a path leave their results in the sweep's directory
(replaying/sweep.py), which the workers of a cluster share with this machine. Tapes of an archive
are fetched into a temporary directory, and the worker puts one file of results (results.py): one
that is killed leaves nothing. The worker returns the runs that failed. A tape that cannot be
fetched or played has failed; the others go on.
"""

import errno
import math
import socket
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from pagetape import answer
from pagetape.archive import names
from pagetape.archive.store import StoreError, open_store
from pagetape.fleet import results
from pagetape.fleet.results import Result, SweepTape
from pagetape.indexing.question import Fleet
from pagetape.replaying import isolated, sweep
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import Run
from pagetape.replaying.sweep import Asked, Failed, Planned
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cache, temporary

# Most tapes of a part that is fetched. The workers of a cluster share the parts, one worker plays
# its own in turn.
PART, PART_OF_CLUSTER = 16, 4
_PART_BYTES = 1_000_000_000  # of the tapes of a part: they are on disk together
_CONNECT_S = 10

Part = list[tuple[SweepTape, list[Run]]]  # each tape with the runs that it lacks


class Request(NamedTuple):
    """What all parts of a sweep have in common."""

    archive: str | None  # URL; None: every tape has its path
    out: str  # directory of the results; of an archive also an URL
    members: int
    jobs: int
    models: int | None
    cluster: str | None  # address of a Dask scheduler; None: this machine
    build: str  # of pagetape


def picked(fleet: Fleet) -> tuple[list[SweepTape], list[str]]:
    """The recordings of a question that can be replayed, by name, and lines about the others."""
    sql = """
        SELECT
            was_recorded(recorded, 'kmem:mm_page_alloc_zone_locked') AS plays,
            identity, object, machine, host, kernel, began, coalesce(bytes, 0)
        FROM fleet_tape
        WHERE replayed IS NOT true
        ORDER BY object
    """
    with fleet.database(["tape"]) as db:
        rows = db.ask(sql).rows
    found = [SweepTape(*row) for plays, *row in rows if plays]
    lines = fleet.lines()
    if others := len(rows) - len(found):
        why = "without allocations and refills, so not to be replayed"
        lines.append(f"{answer.amount(others, 'tape')} recorded {why}")
    return found, lines


def shard(tapes: Sequence[SweepTape], number: int, of: int) -> list[SweepTape]:
    """The `number`-th of `of` parts, counted from 1: a tape is in the same part whatever the other
    tapes are."""
    return [tape for tape in tapes if int(tape.identity[:16], 16) % of == number - 1]


def _cut(todo: Part, most_tapes: int, most_runs: int) -> list[Part]:
    """Parts of at most so many tapes, with at most so many runs on a tape."""
    found: list[Part] = []
    size = 0
    for tape, runs in todo:
        for i in range(0, len(runs), most_runs):
            size += tape.bytes
            if not found or len(found[-1]) >= most_tapes or size > _PART_BYTES:
                found.append([])
                size = tape.bytes
            found[-1].append((tape, runs[i : i + most_runs]))
    return found


def _check(path: Path, tape: SweepTape) -> None:
    """Raise TapeError unless the tape at the path is that of the sweep."""
    its = names.identity(Tape(path))
    if its != tape.identity:
        where = f"{path}: on {socket.gethostname()}"
        raise TapeError(errno.EINVAL, f"{where} another recording: {its}")


def _play(
    part: Part, request: Request, process: isolated.Process, progress: Progress = silent
) -> list[Failed]:
    """Play a part; returns the runs without a result."""
    with ExitStack() as stack:
        directory = Path(request.out)
        if request.archive is not None:
            directory = stack.enter_context(temporary.scratch("sweep"))
        player = sweep.Player(process, directory, request.jobs)
        archive = open_store(request.archive) if request.archive is not None else None
        plans: list[Planned] = []
        for tape, runs in part:
            try:
                path = archive.local(tape.object, directory) if archive else tape.path
                player.call(_check, path, tape)
                plans.append(player.plan(path, tape.object, runs, request.members))
            except (OSError, isolated.Crash, isolated.Failure) as e:
                if isinstance(e, StoreError) and e.errno not in (errno.ENOENT, errno.EINVAL):
                    raise  # the archive is out of reach, not this tape
                plans.append([Failed(tape.object, None, isolated.reason(e))])
        cases, failed = sweep.cases_of(plans), sweep.failed_of(plans)
        failed += player.play(cases, request.models, progress)
        known = {(one.tape, one.run) for one in failed}
        failed += [
            Failed(case.label, case.run, "the run has no result")
            for case in cases
            if (case.label, case.run) not in known and case.result(directory) is None
        ]
        if request.archive is not None:
            failed = [replace(f, reason=f.reason.replace(f"{directory}/", "")) for f in failed]
            _put(part, plans, failed, directory, request)
    return failed


def _put(
    part: Part, plans: list[Planned], failed: list[Failed], directory: Path, request: Request
) -> None:
    """Put the results in a directory, and the runs without one."""
    found = [
        Result(tape, Asked.of(run), request.members, made)
        for (tape, runs), planned in zip(part, plans, strict=True)
        for run, one in zip(runs, planned, strict=False)
        if isinstance(one, sweep.Case) and (made := one.result(directory))
    ]
    tapes = {tape.object: tape for tape, _ in part}
    lost = [(tapes[one.tape], one) for one in failed]
    results.put(open_store(request.out), found, lost, request.members, request.build)


def _play_there(part: Part, request: Request) -> list[Failed]:
    """On a worker of a cluster: play a part."""
    if cache.build() != request.build:
        where = f"worker on {socket.gethostname()}"
        raise TapeError(errno.EPROTO, f"{where}: its pagetape is another version or build")
    with isolated.Process() as process:
        return _play(part, request, process)


def play(
    todo: Part, request: Request, process: isolated.Process, progress: Progress
) -> list[Failed]:
    """Make the results of runs, here or on a cluster; returns those that failed."""
    if request.cluster is not None:
        return _play_on_cluster(request.cluster, todo, request, progress)
    most = len(todo) if request.archive is None else PART
    parts = _cut(todo, most, sweep.MOST_RUNS)
    failed = []
    for nr, part in enumerate(parts):

        def share(done: float, nr: int = nr) -> None:
            progress((nr + done) / len(parts))

        failed += _play(part, request, process, share)
    return failed


def _play_on_cluster(
    address: str, todo: Part, request: Request, progress: Progress
) -> list[Failed]:
    """Each part is played on one thread of a worker. All runs of a part whose worker was lost have
    failed."""
    try:
        dask = import_module("distributed")
    except ImportError:
        step = "--cluster needs Dask: pip install 'pagetape[fleet]'"
        raise TapeError(errno.ENOPKG, step) from None
    try:
        connected = dask.Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError) as e:
        raise TapeError(errno.EHOSTUNREACH, f"{address}: no Dask scheduler at this address") from e
    failed = []
    with closing(connected) as client:
        threads = sum(client.nthreads().values()) or 1
        most = PART_OF_CLUSTER, sweep.MOST_RUNS
        if request.archive is None:
            most = 1, math.ceil(sum(len(runs) for _, runs in todo) / threads)
        parts = _cut(todo, *most)
        request = request._replace(jobs=1)
        work = {client.submit(_play_there, part, request, pure=False): part for part in parts}
        for nr, future in enumerate(dask.as_completed(work), 1):
            try:
                failed += future.result()
            except OSError:  # the archive, or another pagetape: not of one part
                raise
            except Exception as e:
                why, lost = isolated.reason(e), work[future]
                failed += [Failed(tape.object, run, why) for tape, runs in lost for run in runs]
            progress(nr / len(work))
    return failed
