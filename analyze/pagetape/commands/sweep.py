# SPDX-License-Identifier: Apache-2.0
"""pagetape sweep: play a matrix of policies, kernels and tapes."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, console, terminal
from pagetape.commands import archive_report, completion, model_options, options, sweep_archive
from pagetape.replaying import PREFERENCES, RECLAIM_AUTO, RECLAIM_MODES

if TYPE_CHECKING:
    from pagetape.asking.comparison import Difference
    from pagetape.replaying import sweep
    from pagetape.replaying.playback import Run
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


def _cell(metric: dict[str, Any] | None) -> tuple[str, str]:
    """A value with its interval, and its difference from the own rules."""
    from pagetape.asking import no_verdict
    from pagetape.asking.comparison import Difference
    from pagetape.asking.phrase import this_run

    if metric is None:
        return "-", ""
    difference = metric["difference"] and Difference(**metric["difference"])
    if difference is not None and difference.no_verdict is not None:
        return this_run(metric), no_verdict.short(difference.no_verdict)
    text = "" if difference is None or not difference.value else _change(difference)
    return this_run(metric), text


def _change(difference: "Difference") -> str:
    """A difference; ~ if it is not shown, ? if no recorded value supports it."""
    from pagetape.asking.phrase import signed

    value, percent = difference.value, difference.percent
    assert value is not None
    change = signed(value) if percent is None else f"{percent:+.1f} %"
    if difference.shown is None:  # one run
        return change
    marks = (" ~" if not difference.shown else "") + (" ?" if difference.followed is None else "")
    return change + marks


def _table(runs: list[dict[str, Any]], metrics: tuple[str, ...], wide: bool) -> str:
    """The table of the runs on one tape, and the legend of its columns."""
    from pagetape.asking import policy_effect
    from pagetape.asking.phrase import own_rules, recorded
    from pagetape.replaying import sweep
    from pagetape.tapes.kernel_rows import named

    letters = ascii_lowercase[: len(metrics)]
    columns = ["policy", "kernel", "reclaim", "tier"]
    columns += itertools.chain(*((letter, "") for letter in letters))
    lines = []
    about: dict[str, dict[str, Any]] = {}
    own: dict[str, dict[str, str]] = {}  # of a metric, the own rules by reclaim mode
    for run in runs:
        found = {m["metric"]: m for m in run["metrics"]}
        for name, metric in found.items():
            tier = max(metric["tier"], about.get(name, metric)["tier"])
            about[name] = metric | {"tier": tier}
            own.setdefault(name, {})[run["reclaim"]] = own_rules(metric)
        mark = " (no choice)" if policy_effect.without_choice(run["policies_effect"]) else ""
        line = [sweep.words(run) + mark, named(run["kernel"]), run["reclaim"], run["tier"]]
        lines.append(line + list(itertools.chain(*(_cell(found.get(name)) for name in metrics))))
    for i, column in enumerate(columns[4:], 4):
        if column:
            width = max(len(line[i]) for line in lines)
            lines = [[*line[:i], line[i].rjust(width), *line[i + 1 :]] for line in lines]
    key = []
    for letter, name in zip(letters, metrics, strict=True):
        metric = about.get(name)
        if metric is None:
            key.append(f"{letter}  {name}: not a metric of these runs")
            continue
        words = recorded(metric)
        words = "not recorded, so not checked" if words == "-" else f"recorded {words}"
        key.append(
            f"{letter}  {name}: {metric['unit']}, tier {metric['tier']}, {words},"
            f" own rules {_by_mode(own[name])}"
        )
    key += sweep.not_compared(runs)
    idle = [line for run in runs for line in policy_effect.without_choice(run["policies_effect"])]
    return "\n".join([terminal.table(columns, lines, wide=wide), "", *key, *dict.fromkeys(idle)])


def _by_mode(found: dict[str, str]) -> str:
    """A figure of the own rules; by reclaim mode if the runs have several."""
    if len(found) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{words} under {mode}" for mode, words in found.items())


def _failed_row(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """A failed row of the table: tape, policy, kernel, reclaim, reason."""
    from pagetape.replaying import sweep
    from pagetape.tapes.kernel_rows import named

    policy = "all" if row["policies"] is None else sweep.words(row)
    return row["tape"], policy, named(row["kernel"] or ""), row["reclaim"] or "", row["reason"]


def _text(swept: sweep_archive.Swept, metrics: tuple[str, ...], wide: bool) -> str:
    from pagetape.asking import no_verdict
    from pagetape.replaying import sweep

    found, failed, parts = swept.runs, swept.failed, []
    for tape, same in itertools.groupby(found, key=lambda run: run["tape"]):
        runs = list(same)
        lost = "unknown" if runs[0]["lost"] is None else f"{runs[0]['lost']:,}"
        parts.append(
            f"{answer.visible(tape)}: {answer.amount(len(runs), 'run')}; events lost: {lost}\n"
        )
        parts += [f"{line}\n" for line in sweep.kernel_warnings(runs)]
        parts.append(_table(runs, metrics, wide) + "\n")
    if failed:
        columns = ("failed", "policy", "kernel", "reclaim", "reason")
        parts.append(answer.table(columns, map(_failed_row, failed)) + ("\n" if found else ""))
    if not found:
        return "\n".join(parts)
    if swept.fleet:
        parts.append(sweep_archive.table(swept.fleet, wide) + "\n")
    parts.append("%: change from the tape's own kernel and policy")
    if not any(run["seeds"] for run in found):
        parts[-1] += "; of one run each: no interval, so no verdict"
        return "\n".join(parts)
    parts[-1] += "; ~: no difference shown; ?: not checked. [low to high]: 80 % interval"
    if any(
        m["followed"] is False for run in found for m in run["metrics"] if m["metric"] in metrics
    ):
        parts.append(no_verdict.NOT_FOLLOWED)
    return "\n".join(parts)


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
    **how: Any,
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
    from pagetape.pages.document import MARK
    from pagetape.pages.sweep_page import sweep_page
    from pagetape.replaying import sweep
    from pagetape.tapes import output

    matrix = (kernel_rows, reclaims, preferred_nodes)
    plan = sweep_archive.How(**how)
    archive, choice = options.archive_of(tapes), archive_report.Choice(where, since, until)
    paths = [Path(tape) for tape in tapes] if archive is None else []
    chosen = list(itertools.chain(*policies))
    _check_matrix(*matrix, paths or [None], chosen, node_maps or (None,))
    specs = [sweep.stack(spec) for spec in chosen]
    if html is not None:
        output.check_file_free(html, replace=True, mark=MARK, inputs=paths)
    if archive is not None:
        sweep_archive.check(node_maps)
        for spec in specs:
            model_options.check_policies(spec, policy_libs)
        runs = _runs(itertools.product([(spec, ()) for spec in specs], *matrix), policy_libs)
        metrics = metrics or METRICS
        found = sweep_archive.play(archive, choice, runs, out, metrics, plan)
    else:
        choice.refuse()
        asked = specs, node_maps, matrix, policy_libs
        found, metrics = _play_tapes(paths, asked, Path(out), metrics, plan)
    if html is not None:
        page = sweep_page(found.runs, metrics, found.failed, found.fleet)
        _write_page(html, page, paths)
    if as_json:
        answer.emit(found.json)
    else:
        terminal.say(
            sweep_archive.text(archive, found, wide)
            if archive is not None
            else _text(found, metrics, wide),
            words={r"^policy  .*": "cyan", " ~(?= |$)": "yellow"},
        )
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


def _columns(found: list[dict[str, Any]]) -> tuple[str, ...]:
    """The metrics of the table, if the caller names none."""
    from pagetape.tapes import fallback_unit

    return HARM if any(map(fallback_unit.why_not, found)) else METRICS


def _machines(
    tapes: "Sequence[Tape]", specs: Sequence[tuple[str, ...]], node_maps: tuple[str, ...]
) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The policies of each run, and the node of each CPU with --nodes."""
    return [
        model_options.on_nodes(tapes, nodes, spec) if tapes else (spec, ())
        for spec in specs
        for nodes in node_maps or (None,)
    ]


_Matrix = tuple[list[str], list[str], list[str]]  # kernels, reclaim modes, preferred nodes


def _play_tapes(
    paths: Sequence[Path],
    asked: tuple[list[tuple[str, ...]], tuple[str, ...], _Matrix, tuple[str, ...]],
    out: Path,
    metrics: tuple[str, ...],
    how: sweep_archive.How,
) -> tuple[sweep_archive.Swept, tuple[str, ...]]:
    """The runs on tapes, as far as DIR lacks them, and the metrics of the table."""
    from pagetape.replaying import isolated, sweep
    from pagetape.tapes import output

    specs, node_maps, matrix, policy_libs = asked
    paths = [path.absolute() if how.cluster else path for path in paths]
    opened, failed = _opened(paths)
    machines = _machines(list(opened.values()), specs, node_maps)
    for stack, _ in machines:
        model_options.check_policies(stack, policy_libs)
    runs = _runs(itertools.product(machines, *matrix), policy_libs)
    with isolated.Process() as process:
        player = sweep.Player(process, out, how.threads)
        plans = {
            name: player.plan(one.path, name, runs, how.ensemble_size)
            for name, one in opened.items()
        }
        for plan in plans.values():
            console.report(plan.note)
            failed += plan.failed
        cases = sweep.shard([case for plan in plans.values() for case in plan.cases], *how.shard)
        if cases:
            output.make_directory(out, paths)
        missing = [case for case in cases if case.result(out) is None]
        failed += _play(player, missing, how, out)
    for line in dict.fromkeys(one.line() for one in failed):
        console.report(line)
    results = {case.name: result for case in cases if (result := case.result(out)) is not None}
    metrics = metrics or _columns(list(results.values()))
    made = sum(case.name in results for case in missing)
    return sweep_archive.Swept(
        list(results.values()),
        [one.json() for one in failed],
        _fleet(opened, plans, results, metrics),
        [],
        {"made": made, "reused": len(cases) - len(missing)},
    ), metrics


def _fleet(
    opened: "Mapping[str, Tape]",
    plans: "Mapping[str, sweep.Plan]",
    results: Mapping[str, dict[str, Any]],
    metrics: tuple[str, ...],
) -> list[dict[str, Any]]:
    """The fleet's rows, of several tapes."""
    if len(opened) < 2:
        return []
    from pagetape.archive import names
    from pagetape.fleet import effect

    outcomes: list[effect.Outcome] = []
    for label, plan in plans.items():
        facts = opened[label].facts
        about = names.machine(facts), facts.get("host") or label
        for run, name in plan.asked:
            if name in results:
                outcomes += effect.outcomes(effect.Asked.of(run), *about, results[name])
    return effect.rows(outcomes, metrics)


def _play(
    player: "sweep.Player", cases: "Sequence[sweep.Case]", how: sweep_archive.How, out: Path
) -> "list[sweep.Failed]":
    """Play the cases here or on a cluster; returns those that failed."""
    with console.progress("sweep") as bar:
        if how.cluster is None:
            return player.play(cases, how.models, bar)
        from pagetape.replaying import cluster

        return cluster.play(how.cluster, cases, out.absolute(), models=how.models, progress=bar)


def _write_page(path: Path, text: str, tapes: Sequence[Path]) -> None:
    from pagetape.pages.document import MARK
    from pagetape.tapes import output

    with output.whole_file(path, replace=True, mark=MARK, inputs=tapes) as file:
        file.write(text.encode())


def _opened(paths: Sequence[Path]) -> "tuple[dict[str, Tape], list[sweep.Failed]]":
    """The tapes by label, and those that cannot be opened."""
    from pagetape.asking.database import names_of
    from pagetape.replaying import isolated, sweep
    from pagetape.schemas.tape import Tape, TapeError

    opened: dict[str, Tape] = {}
    failed = []
    for label, path in zip(names_of(paths), paths, strict=True):
        try:
            opened[label] = Tape(path)
        except TapeError as e:
            failed.append(sweep.Failed(label, None, isolated.reason(e)))
    return opened, failed
