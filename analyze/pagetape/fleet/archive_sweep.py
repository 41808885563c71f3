# SPDX-License-Identifier: Apache-2.0
"""A sweep over an archive: fetches the tapes that lack a result, plays them, puts the results.

Tapes come from the index, and only those to play are fetched. They are played in parts: a worker
fetches the tapes of a part into a temporary directory, plays all runs on them, and puts one file of
results. A worker that is killed leaves nothing, and the next sweep makes its part. A tape that
cannot be fetched or played has failed; the others go on.
"""

import errno
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pagetape import answer
from pagetape.archive import names
from pagetape.archive.store import Store, StoreError, open_store
from pagetape.fleet import results
from pagetape.fleet.effect import Asked
from pagetape.fleet.results import Key, Result
from pagetape.indexing.question import Fleet
from pagetape.replaying import cluster, isolated, sweep
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import Run
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cache, temporary

# Most tapes of a part. The workers of a cluster share the parts, one worker plays its own in turn.
PART, PART_OF_CLUSTER = 16, 4
_PART_BYTES = 1_000_000_000  # of the tapes of a part: they are on disk together

Picked = Mapping[str, Any]  # a row of the index (view fleet_tape)


class Request(NamedTuple):
    """What all parts of a sweep have in common; a worker of a cluster gets it, too."""

    archive: str  # URL
    out: str  # URL of the results
    members: int
    models: int | None
    build: str  # of pagetape


class Part(NamedTuple):
    """Tapes that a worker fetches together, each with the runs that it lacks."""

    tapes: list[Picked]
    runs: list[list[Run]]


def picked(fleet: Fleet) -> tuple[list[Picked], list[str]]:
    """The recordings of a question that can be replayed, by name, and lines about the others."""
    refills = "was_recorded(recorded, 'kmem:mm_page_alloc_zone_locked')"
    sql = f"""
        SELECT identity, object, machine, host, kernel, began, bytes, {refills} AS plays
        FROM fleet_tape
        WHERE replayed IS NOT true
        ORDER BY object
    """
    with fleet.database(["tape"]) as db:
        asked = db.ask(sql)
    rows = [dict(zip(asked.columns, row, strict=True)) for row in asked.rows]
    found: list[Picked] = [row for row in rows if row["plays"]]
    lines = fleet.lines()
    if others := len(rows) - len(found):
        why = "without allocations and refills, so not to be replayed"
        lines.append(f"{answer.amount(others, 'tape')} recorded {why}")
    return found, lines


def shard(tapes: Sequence[Picked], number: int, of: int) -> list[Picked]:
    """The `number`-th of `of` parts, counted from 1: a tape is in the same part whatever the other
    tapes are."""
    return [tape for tape in tapes if int(tape["identity"][:16], 16) % of == number - 1]


def parts(
    tapes: Sequence[Picked], runs: Sequence[Run], made: set[Key], members: int, most: int
) -> list[Part]:
    """The tapes that lack results, cut to parts of at most `most`."""
    found: list[Part] = []
    size = 0
    for tape in tapes:
        keys = {run: Key(tape["identity"], Asked.of(run), members) for run in runs}
        lacks = [run for run in runs if keys[run] not in made]
        if not lacks:
            continue
        size += tape["bytes"] or 0
        if not found or len(found[-1].tapes) >= most or size > _PART_BYTES:
            found.append(Part([], []))
            size = tape["bytes"] or 0
        found[-1].tapes.append(tape)
        found[-1].runs.append(lacks)
    return found


def _check(path: Path, name: str) -> None:
    """Raise TapeError unless the tape of that object is fetched."""
    its = names.object_name(Tape(path))
    if its != name:
        raise TapeError(errno.EINVAL, f"{name}: has the tape of {its.rpartition('/')[2]}")


def play_part(part: Part, request: Request, jobs: int, progress: Progress = silent) -> None:
    """Fetch and play the tapes of a part, and put its results."""
    if cache.build() != request.build:
        where = f"worker on {socket.gethostname()}"
        raise TapeError(errno.EPROTO, f"{where}: its pagetape is another version or build")
    archive = open_store(request.archive)
    with (
        temporary.scratch("sweep") as directory,
        isolated.Process() as process,
    ):
        player = sweep.Player(process, directory, jobs)
        plans = [
            _planned(archive, tape, runs, directory, player, request.members)
            for tape, runs in zip(part.tapes, part.runs, strict=True)
        ]
        cases = [case for plan in plans for case in plan.cases]
        failed = player.play(cases, request.models, progress)
        found = [
            result
            for tape, runs, plan in zip(part.tapes, part.runs, plans, strict=True)
            for result in _results(tape, runs, plan, failed, directory, request.members)
        ]
    results.put(open_store(request.out), found, request.build)


def _planned(
    archive: Store,
    tape: Picked,
    runs: Sequence[Run],
    directory: Path,
    player: sweep.Player,
    members: int,
) -> sweep.Plan:
    """The plan for a tape that is fetched now; all its runs have failed if it cannot be read."""
    name, path = tape["object"], directory / f"{tape['identity']}.fetched"
    try:
        archive.fetch(name, path)
        player.call(_check, path, name)
    except StoreError as e:
        if e.errno != errno.ENOENT:  # the archive is out of reach, not this tape
            raise
        return sweep.Plan([], [sweep.Failed(name, None, isolated.reason(e))], None, [])
    except (OSError, isolated.Crash, isolated.Failure) as e:
        return sweep.Plan([], [sweep.Failed(name, None, isolated.reason(e))], None, [])
    return player.plan(path, name, runs, members)


def _results(
    tape: Picked,
    runs: Sequence[Run],
    plan: sweep.Plan,
    failed: Sequence[sweep.Failed],
    directory: Path,
    members: int,
) -> Iterator[Result]:
    cases = {case.name: case for case in plan.cases}
    names_of = dict(plan.asked)
    why = {one.run: _why(one, directory) for one in plan.failed}
    why |= {one.run: _why(one, directory) for one in failed if one.tape == tape["object"]}
    for run in runs:
        case = cases.get(names_of.get(run, ""))
        made = case.result(directory) if case else None
        problem = None
        if made is None:
            problem = why.get(run) or (why.get(case.run) if case else None) or why.get(None)
            problem = problem or "the run has no result"
        yield Result(tape, Asked.of(run), members, made, problem)


def _why(failed: sweep.Failed, directory: Path) -> str:
    """The reason, without the place of the fetched tape."""
    return failed.reason.replace(f"{directory}/", "")


def play(
    todo: Sequence[Part],
    request: Request,
    jobs: int,
    address: str | None = None,
    progress: Progress = silent,
) -> list[Result]:
    """Make the results of the parts, here or on the workers of a Dask scheduler; returns those of
    parts whose worker was lost."""
    if address is None:
        for nr, part in enumerate(todo):

            def share(done: float, nr: int = nr) -> None:
                progress((nr + done) / len(todo))

            play_part(part, request, jobs, share)
        return []
    lost: list[Result] = []
    with closing(cluster.client(address)) as client:
        work = {client.submit(play_part, part, request, 1, pure=False): part for part in todo}
        for nr, future in enumerate(cluster.dask().as_completed(work), 1):
            try:
                future.result()
            except OSError:  # the archive, or another pagetape: not of one part
                raise
            except Exception as e:
                lost += _lost(work[future], request.members, isolated.reason(e))
            progress(nr / len(work))
    return lost


def _lost(part: Part, members: int, why: str) -> list[Result]:
    return [
        Result(tape, Asked.of(run), members, None, why)
        for tape, runs in zip(part.tapes, part.runs, strict=True)
        for run in runs
    ]
