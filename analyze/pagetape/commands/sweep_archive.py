# SPDX-License-Identifier: Apache-2.0
"""pagetape sweep over an archive, and the fleet table of a sweep."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pagetape import answer, console, terminal
from pagetape.commands import archive_report
from pagetape.replaying import RECLAIM_AUTO

if TYPE_CHECKING:
    from pagetape.fleet.results import Result
    from pagetape.replaying.playback import Run

_LISTED = 1000  # runs of an archive that --json and the page have one by one
_FAILED = 20  # failed runs that the text lists
_LEAST = 4  # hosts of an interval


class Swept(NamedTuple):
    """What a sweep has: its runs, and the fleet's rows."""

    runs: list[dict[str, Any]]
    failed: list[dict[str, Any]]
    fleet: list[dict[str, Any]]
    lines: list[str]  # about the tapes
    counts: dict[str, int]  # made, reused, ...

    @property
    def json(self) -> dict[str, Any]:
        about = {"note": "; ".join(self.lines)} if self.lines else {}
        return {
            "runs": self.runs,
            **self.counts,
            "failed": self.failed,
            "fleet": self.fleet,
            **about,
        }


class How(NamedTuple):
    """How and where a sweep plays."""

    shard: tuple[int, int]
    jobs: int | None
    models: int | None
    cluster: str | None
    ensemble_size: int

    @property
    def threads(self) -> int:
        return self.jobs or len(os.sched_getaffinity(0))


def play(
    url: str,
    choice: archive_report.Choice,
    runs: Sequence[Run],
    out: str,
    metrics: Sequence[str],
    how: How,
) -> Swept:
    """Sweep the tapes of an archive that are chosen, as far as results lack."""
    from pagetape.archive.store import open_store
    from pagetape.fleet import archive_sweep, effect, results
    from pagetape.tapes import cache

    with archive_report.opened(url, choice) as fleet:
        tapes, lines = archive_sweep.picked(fleet)
    tapes = archive_sweep.shard(tapes, *how.shard)
    build, members = cache.build(), how.ensemble_size
    store = open_store(out, create=True)
    keys = [
        results.Key(tape["identity"], effect.Asked.of(run), members)
        for tape in tapes
        for run in runs
    ]
    before = results.made(store, build).intersection(keys)
    most = archive_sweep.PART if how.cluster is None else archive_sweep.PART_OF_CLUSTER
    todo = archive_sweep.parts(tapes, runs, before, members, most)
    request = archive_sweep.Request(url, out, members, how.models, build)
    with console.progress("sweep") as bar:
        lost = archive_sweep.play(todo, request, how.threads, how.cluster, bar)
    listed = len(keys) <= _LISTED
    found = [*results.read(store, keys, build, None if listed else metrics)]
    known = {result.key for result in found}
    found += [result for result in lost if result.key not in known]
    found.sort(key=lambda result: (result.tape["object"], keys_in_order(runs, result)))
    made = [result for result in found if result.made is not None]
    outcomes = [
        outcome
        for result in made
        for outcome in effect.outcomes(
            result.run, result.tape["machine"], result.tape["host"], result.made or {}
        )
    ]
    counts = {"tapes": len(tapes), "made": len(made) - len(before), "reused": len(before)}
    return Swept(
        [result.made or {} for result in made] if listed else [],
        [results.failed_row(result) for result in found if result.made is None],
        effect.rows(outcomes, metrics),
        lines,
        counts,
    )


def keys_in_order(runs: Sequence[Run], result: Result) -> int:
    """The place of a result's run among those that were asked for."""
    from pagetape.fleet.effect import Asked

    return [Asked.of(run) for run in runs].index(result.run)


def head(url: str, found: Swept) -> str:
    """The first line about a sweep of an archive."""
    counts = found.counts
    return (
        f"{url}: {answer.amount(counts['tapes'], 'tape')}; {answer.amount(counts['made'], 'run')}"
        f" made, {counts['reused']:,} reused, {len(found.failed):,} failed\n"
    )


def _effect(row: dict[str, Any]) -> str:
    """The median effect with its interval."""
    unit = "" if row["unit"] != "%" else " %"
    if row["effect"] is None:
        return "-"
    text = f"{_signed(row['effect'])}{unit}"
    if row["low"] is None:
        return text
    return f"{text} [{_signed(row['low'])} to {_signed(row['high'])}]"


def _signed(value: float) -> str:
    return "from 0" if math.isinf(value) else f"{value:+,.1f}"


def _hosts(row: dict[str, Any], name: str, other: str) -> str:
    """The hosts of a class with their share; of a metric without better or worse, less or more."""
    nr = row[name] if row[name] is not None else row[other]
    share = answer.share(nr, row["hosts"])
    text = f"{nr} ({share:.0f} %)" if share else str(nr)
    return text if row[name] is not None else f"{text} {other}"


def _run(row: dict[str, Any]) -> tuple[str, str, str]:
    from pagetape.replaying import sweep

    return sweep.words(row), row["kernel"], row["reclaim"]


def table(rows: Sequence[dict[str, Any]], wide: bool) -> str:
    """The fleet's rows as text, with the worst hosts."""
    from pagetape.fleet.effect import wanted

    lines, worst = [], []
    for row in rows:
        cells = (
            _effect(row),
            _hosts(row, "better", "less"),
            _hosts(row, "worse", "more"),
            *(row[kind] for kind in ("no_difference", "no_choice", "no_verdict", "hosts")),
        )
        lines.append((*_run(row), f"{row['metric']}", *cells))
        good = wanted(row["metric"])
        hosts = [host for host in row["worst"] if good * host["effect"] < 0 or not good]
        if hosts and any(host["effect"] for host in hosts):
            names = (f"{_name(host)} {_signed(host['effect'])}" for host in hosts)
            worst.append((sweep_words(row), row["metric"], ", ".join(names)))
    columns = ["policy", "kernel", "reclaim", "metric", "effect", "better", "worse"]
    columns += ["no difference", "no choice", "no verdict", "hosts"]
    columns, lines = _without(columns, lines, {"kernel": "auto", "reclaim": RECLAIM_AUTO})
    parts = [terminal.table(columns, lines, wide=wide)]
    if worst:
        parts.append(terminal.table(("policy", "metric", "worst hosts"), worst, wide=wide))
    note = "effect: median over hosts against their own kernel and policy, all tapes of a host"
    note += " together. [low to high]: 80 % interval, from the hosts"
    if any(row["with_effect"] < _LEAST for row in rows):
        note += f"; fewer than {_LEAST} hosts have none"
    return "\n\n".join([*parts, note])


def sweep_words(row: dict[str, Any]) -> str:
    """The policies of a row, and its kernel and mode if they are not each tape's own."""
    policies, kernel, reclaim = _run(row)
    parts = [policies, *([kernel] if kernel != "auto" else [])]
    return ", ".join([*parts, *([reclaim] if reclaim != RECLAIM_AUTO else [])])


def _name(host: dict[str, Any]) -> str:
    """A host's name, and the begin of its machine's hash, which alone tells hosts apart."""
    return f"{host['host'] or 'unnamed'}@{host['machine'][:6]}"


def _without(
    columns: list[str], rows: list[tuple[Any, ...]], usual: dict[str, str]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The table without columns that have their usual value in every row."""
    keep = [
        i
        for i, name in enumerate(columns)
        if name not in usual or any(row[i] != usual[name] for row in rows)
    ]
    return [columns[i] for i in keep], [tuple(row[i] for i in keep) for row in rows]


def text(url: str, found: Swept, wide: bool) -> str:
    """The answer to a sweep of an archive."""
    parts = [head(url, found), *(f"{line}\n" for line in found.lines)]
    if found.fleet:
        parts.append(table(found.fleet, wide) + "\n")
    if found.failed:
        rows = [
            (row["tape"], " + ".join(row["policies"]), row["reason"])
            for row in found.failed[:_FAILED]
        ]
        parts.append(terminal.table(("failed", "policy", "reason"), rows, wide=wide))
        if len(found.failed) > _FAILED:
            parts.append(f"{_FAILED} of {answer.amount(len(found.failed), 'failed run')}")
    return "\n".join(parts).rstrip()


def check(node_maps: Sequence[str]) -> None:
    """Raise bad usage for options that need the tapes themselves."""
    if node_maps:
        raise click.UsageError(
            "--nodes: needs tapes, not an archive: fetch them with `pagetape pull`"
        )
