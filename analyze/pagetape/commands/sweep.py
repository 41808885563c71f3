# SPDX-License-Identifier: Apache-2.0
"""pagetape sweep: play a matrix of policies, kernels and tapes."""

import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, console, terminal
from pagetape.commands import archive_report, completion, model_options, options, sweep_text
from pagetape.replaying import PREFERENCES, RECLAIM_AUTO, RECLAIM_MODES

if TYPE_CHECKING:
    from pagetape.fleet.parts import Request
    from pagetape.fleet.results import SweepTape
    from pagetape.replaying.playback import Run
    from pagetape.replaying.sweep import Failed
    from pagetape.schemas.tape import Tape

METRICS = (
    "fallbacks below pageblock order",
    "fallbacks steal",
    "pages taken under the zone lock",
    "zone lock holds",
    "free pages at the end",
)

# With runs whose fallback events have another unit: what they leave behind, not how often.
HARM = (
    "mixed pageblocks at the end",
    "foreign pages at the end",
    "fallbacks claim",
    "pages taken under the zone lock",
    "free pageblocks at the end",
)

_LISTED = 1000  # runs of an archive that --json and the page have one by one


class Shard(click.ParamType[tuple[int, int]]):
    """The type of I/N, the I-th of N parts, as (I, N); I counts from 1."""

    name = "shard"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", value)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"'{value}' is not a shard (example: 1/4)", param, ctx)
        return int(found[1]), int(found[2])


class Choices(click.ParamType[list[str]]):
    """The type of text with choices in braces: the list of its expansions, each one of `words`."""

    name = "choices"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        from pagetape.replaying import sweep

        try:
            chosen = value if isinstance(value, list) else sweep.expand(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)
        for word in chosen:
            if self._words and word not in self._words:
                self.fail(f"'{word}' is not one of {', '.join(self._words)}", param, ctx)
        return chosen


@click.command("sweep")
@options.sources
@archive_report.which
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=Choices(),
    default=("mainline",),
    metavar="SPEC",
    shell_complete=completion.policies,
    help="Policies as for replay; + joins several policies of one run, {a,b} makes one run "
    "each. Repeat the option for further runs.  [default: mainline]",
)
@model_options.policy_libs
@click.option(
    "--kernel",
    "kernel_rows",
    type=Choices(),
    default="auto",
    show_default=True,
    metavar="K",
    shell_complete=completion.kernels_or_auto,
    help="Kernel whose rules the model uses, or several as {a,b}; auto is the tape's own.",
)
@click.option(
    "--reclaim",
    "reclaims",
    type=Choices(RECLAIM_AUTO, *RECLAIM_MODES),
    default=RECLAIM_AUTO,
    show_default=True,
    metavar="MODE",
    help="Reclaim mode auto, R0, R1 or R2, as for replay, or several as {a,b}.",
)
@click.option(
    "--prefer",
    "preferred_nodes",
    type=Choices(*PREFERENCES),
    default="auto",
    show_default=True,
    metavar="MODE",
    help="Preferred node of requests: auto, cpu or landed, as for replay, or several as {a,b}.",
)
@click.option(
    "--nodes",
    "node_maps",
    multiple=True,
    metavar="CPUS/CPUS...",
    help="Play tapes of one node as machines of several, with these CPUs on each node, as for "
    "replay (synthetic). Every tape needs these CPUs. Repeat the option for further runs.",
)
@click.option(
    "-o",
    "--output",
    "out",
    metavar="DIR",
    required=True,
    help="Directory of the results; for an archive also the URL of a bucket.",
)
@click.option(
    "--shard",
    type=Shard(),
    default=(1, 1),
    metavar="I/N",
    help="Play only the I-th of N parts of the runs; of an archive, of its tapes.  [default: 1/1]",
)
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Number of threads.  [default: one per CPU]"
)
@click.option(
    "--models",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of models in memory; each takes 16 bytes per page.  [default: as many as "
    "half of the free memory holds, at most 4 per CPU or 32]",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Column of the table: a metric of the report `metrics`. Repeatable.  [default: five "
    "metrics of fallbacks, zone lock and free pages; of harm, if the runs count fallbacks in "
    "different units]",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Play on the workers of this Dask scheduler. The workers need the same files and the same "
    "pagetape version. Needs pagetape[fleet].  [default: this machine]",
)
@click.option(
    "--html", type=options.PATH, metavar="F.html", help="Also write the table as an HTML page."
)
@model_options.ensemble
@options.wide
@options.json
@click.pass_context
def command(
    ctx: click.Context,
    /,
    tapes: tuple[Path | options.Archive, ...],
    policies: tuple[list[str], ...],
    policy_libs: tuple[str, ...],
    kernel_rows: list[str],
    reclaims: list[str],
    preferred_nodes: list[str],
    node_maps: tuple[str, ...],
    out: str,
    metrics: tuple[str, ...],
    html: Path | None,
    wide: bool,
    as_json: bool,
    where: str | None,
    since: str | None,
    until: str | None,
    shard: tuple[int, int],
    jobs: int | None,
    models: int | None,
    cluster: str | None,
    ensemble_size: int,
) -> None:
    """Play every policy, kernel, reclaim mode, preferred node and node map on every tape.

    The sweep decodes each tape once for all runs whose models are in memory. Each run writes
    NAME.tape and NAME.json into DIR. Runs that are already in DIR are not repeated, so an
    interrupted sweep can continue, and shards of several machines can fill one DIR. NAME.tape
    has only fallbacks and counters, no other page events; compare, report and sql work on these.

    A run that fails, for example on a damaged tape, is a row of its own with the reason. The other
    runs go on; the exit status is then 1.

    Each run is an ensemble. The table compares it with the ensemble under the tape's own rules,
    member by member, and marks differences whose interval contains 0.

    Several tapes have a fleet table, too: the median effect over hosts with its interval, the
    hosts that are better, worse or without a choice, and the worst five.

    URL is an archive, and --where and --since choose its tapes from the index. The sweep fetches
    only tapes that lack a result, and prints the fleet table. DIR then has Parquet files with a
    row for each tape, run and metric.

    \b
    Example:
      pagetape sweep --policy 'nofragment:mode={off,lowzone,always}' \\
          --kernel '{auto,5.0,6.18}' base.tape -o matrix
      pagetape sweep s3://bucket/fleet --where "kernel LIKE '6.12%'" --since 7d \\
          --policy nofragment:mode=always -o s3://bucket/results
    """
    from pagetape.fleet.parts import Request
    from pagetape.pages.document import MARK
    from pagetape.pages.sweep_page import sweep_page
    from pagetape.replaying import sweep
    from pagetape.tapes import cache, output

    matrix = (kernel_rows, reclaims, preferred_nodes)
    archive, choice = options.archive_of(tapes), archive_report.Choice(where, since, until)
    paths = [Path(tape) for tape in tapes] if archive is None else []
    chosen = list(itertools.chain(*policies))
    _check_matrix(*matrix, paths or [None], chosen, node_maps or (None,))
    specs = [sweep.stack(spec) for spec in chosen]
    if html is not None:
        output.check_file_free(html, replace=True, mark=MARK, inputs=paths)
    if archive is None:
        choice.refuse()
    elif node_maps:
        raise click.UsageError(
            "--nodes: needs tapes, not an archive: fetch them with `pagetape pull`"
        )
    if cluster is not None:  # its workers have other working directories
        paths = [path.absolute() for path in paths]
        out = out if archive else str(Path(out).absolute())
    opened, failed = _opened(paths)
    machines = _machines(list(opened.values()), specs, node_maps)
    for stack, _ in machines:
        model_options.check_policies(stack, policy_libs)
    runs = _runs(itertools.product(machines, *matrix), policy_libs)
    jobs = jobs or len(os.sched_getaffinity(0))
    request = Request(archive, out, ensemble_size, jobs, models, cluster, cache.build())
    if archive is None:
        found = _sweep_tapes(opened, failed, runs, request, shard, metrics)
    else:
        found = _sweep_archive(choice, runs, request, shard, metrics or METRICS)
    if html is not None:
        page = sweep_page(found.runs, found.metrics, found.failed, found.fleet)
        with output.whole_file(html, replace=True, mark=MARK, inputs=paths) as file:
            file.write(page.encode())
    if as_json:
        answer.emit(found.json)
    else:
        text = sweep_text.text(found, wide)
        terminal.say(text, words={r"^policy  .*": "cyan", " ~(?= |$)": "yellow"})
    ctx.exit(1 if found.failed else 0)


def _check_matrix(kernel_rows: Sequence[str], *choices: Sequence[Any]) -> None:
    """Raise UsageError for an unknown kernel, or if the combinations are too many runs."""
    from pagetape.replaying import sweep

    for kernel in kernel_rows:
        model_options.check_kernel(kernel)
    try:
        sweep.check_number(math.prod(map(len, (kernel_rows, *choices))))
    except ValueError as e:
        raise click.UsageError(str(e)) from e


def _opened(paths: Sequence[Path]) -> "tuple[dict[SweepTape, Tape], list[Failed]]":
    """The tapes, and those that cannot be opened."""
    from pagetape.archive import names
    from pagetape.asking.database import names_of
    from pagetape.fleet.results import SweepTape
    from pagetape.replaying import isolated
    from pagetape.replaying.sweep import Failed
    from pagetape.schemas.tape import Tape, TapeError

    opened, failed = {}, []
    for label, path in zip(names_of(paths), paths, strict=True):
        try:
            tape = Tape(path)
            facts, recording = tape.facts, names.identity(tape)
        except TapeError as e:
            failed.append(Failed(label, None, isolated.reason(e)))
            continue
        host = facts.get("host") or label
        opened[SweepTape(recording, label, names.machine(facts), host, path=path)] = tape
    return opened, failed


def _machines(
    tapes: "Sequence[Tape]", specs: Sequence[tuple[str, ...]], node_maps: tuple[str, ...]
) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The policies of each run, and the node of each CPU with --nodes."""
    return [
        model_options.on_nodes(tapes, nodes, spec) if tapes else (spec, ())
        for spec in specs
        for nodes in node_maps or (None,)
    ]


def _runs(
    matrix: Iterable[tuple[tuple[tuple[str, ...], tuple[int, ...]], str, str, str]],
    libs: tuple[str, ...],
) -> "list[Run]":
    """The runs of (policies and node of each CPU, kernel, reclaim mode, preferred node)."""
    from pagetape.replaying.playback import Run

    return [
        Run(kernel, stack, mode, libs, preferred, cpu_parts=parts)
        for (stack, parts), kernel, mode, preferred in matrix
    ]


def _sweep_tapes(
    opened: "Mapping[SweepTape, Tape]",
    failed: "list[Failed]",
    runs: "Sequence[Run]",
    request: "Request",
    shard: tuple[int, int],
    metrics: tuple[str, ...],
) -> sweep_text.Swept:
    """Make the runs on tapes, as far as DIR lacks them."""
    from pagetape.fleet import effect, parts
    from pagetape.fleet.results import Result
    from pagetape.replaying import isolated, sweep
    from pagetape.tapes import fallback_unit, output

    out, members = Path(request.out), request.members
    with isolated.Process() as process:
        player = sweep.Player(process, out, request.jobs)
        plans = {
            one: player.plan(tape.path, one.object, runs, members) for one, tape in opened.items()
        }
        planned = sweep.cases_of(plans.values())
        for note in dict.fromkeys(case.note for case in planned):
            console.report(note)
        failed += sweep.failed_of(plans.values())
        cases = sweep.shard(planned, *shard)
        if cases:
            output.make_directory(out, [tape.path for tape in opened.values()])
        lacks = [case for case in cases if case.result(out) is None]
        todo = [(tape, [one.run for one in lacks if one.label == tape.object]) for tape in plans]
        with console.progress("sweep") as bar:
            failed += parts.play(todo, request, process, bar)
    results = {case.name: result for case in cases if (result := case.result(out)) is not None}
    found = [
        Result(tape, sweep.Asked.of(run), members, results[case.name])
        for tape, plan in plans.items()
        for run, case in zip(runs, plan, strict=False)
        if isinstance(case, sweep.Case) and case.name in results
    ]
    if not metrics:
        metrics = HARM if any(map(fallback_unit.why_not, results.values())) else METRICS
    made = sum(case.name in results for case in lacks)
    return sweep_text.Swept(
        list(results.values()),
        _failed(failed),
        effect.of_results(found, metrics) if len(plans) > 1 else [],
        {"made": made, "reused": len(cases) - len(lacks)},
        metrics,
    )


def _sweep_archive(
    choice: archive_report.Choice,
    runs: "Sequence[Run]",
    request: "Request",
    shard: tuple[int, int],
    metrics: tuple[str, ...],
) -> sweep_text.Swept:
    """Make the runs on the tapes of an archive that are chosen, as far as results lack."""
    from pagetape.archive.store import open_store
    from pagetape.fleet import effect, parts, results
    from pagetape.replaying import isolated
    from pagetape.replaying.sweep import Asked

    assert request.archive is not None
    with archive_report.opened(request.archive, choice) as fleet:
        tapes, lines = parts.picked(fleet)
    tapes = parts.shard(tapes, *shard)
    store = open_store(request.out, create=True)
    keys = {
        (tape, run): results.Key(tape.identity, Asked.of(run), request.members)
        for tape in tapes
        for run in runs
    }
    before = results.made(store, request.build).intersection(keys.values())
    todo = [(tape, [run for run in runs if keys[tape, run] not in before]) for tape in tapes]
    with isolated.Process() as process, console.progress("sweep") as bar:
        failed = parts.play(todo, request, process, bar)
    place = {key: i for i, key in enumerate(keys.values())}
    listed = len(keys) <= _LISTED
    found = [*results.read(store, place, request.build, None if listed else metrics)]
    found.sort(key=lambda result: place[result.key])
    counts = {"tapes": len(tapes), "made": len(found) - len(before), "reused": len(before)}
    return sweep_text.Swept(
        [result.made for result in found] if listed else [],
        _failed(failed),
        effect.of_results(found, metrics),
        counts,
        metrics,
        request.archive,
        lines,
    )


def _failed(found: "list[Failed]") -> list[dict[str, Any]]:
    """The failed rows; each reason is a line on stderr."""
    for line in dict.fromkeys(one.line() for one in found):
        console.report(line)
    return [one.json() for one in dict.fromkeys(found)]
