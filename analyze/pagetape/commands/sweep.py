# SPDX-License-Identifier: Apache-2.0
"""pagetape sweep: play a matrix of policies, kernels and tapes."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import click

from pagetape import answer, console
from pagetape.commands import options
from pagetape.pages.document import MARK
from pagetape.replaying import kernels, preference, sweep
from pagetape.replaying.playback import Run
from pagetape.schemas.tape import Tape
from pagetape.tapes import output

METRICS = (
    "fallbacks below pageblock order",
    "fallbacks steal",
    "pages taken under the zone lock",
    "zone lock holds",
    "free pages at the end",
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
        try:
            chosen = value if isinstance(value, list) else sweep.expand(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)
        for word in chosen:
            if self._words and word not in self._words:
                self.fail(f"'{word}' is not one of {', '.join(self._words)}", param, ctx)
        return chosen


def _cell(metric: dict[str, Any] | None) -> tuple[str, str]:
    """A value, and its difference from the model under the tape's own rules."""
    if metric is None:
        return "-", ""
    change = ""
    if metric["difference"]:
        percent = metric["percent"]
        change = f"{metric['difference']:+,}" if percent is None else f"{percent:+.1f} %"
    within = change and metric["within_model_error"]
    return f"{metric['value']:,}", f"{change} ~" if within else change


def _table(runs: list[dict[str, Any]], metrics: tuple[str, ...]) -> str:
    """The table of the runs on one tape, and the legend of its columns."""
    letters = ascii_lowercase[: len(metrics)]
    columns = ["policy", "kernel", "reclaim", "tier"]
    columns += itertools.chain(*((letter, "") for letter in letters))
    lines = []
    about: dict[str, dict[str, Any]] = {}
    for run in runs:
        found = {m["metric"]: m for m in run["metrics"]}
        for name, metric in found.items():
            tier = max(metric["tier"], about.get(name, metric)["tier"])
            about[name] = metric | {"tier": tier}
        line = [sweep.words(run), run["kernel"], run["reclaim"], run["tier"]]
        lines.append(line + list(itertools.chain(*(_cell(found.get(name)) for name in metrics))))
    for i, column in enumerate(columns[4:], 4):
        if column:
            wide = max(len(line[i]) for line in lines)
            lines = [[*line[:i], line[i].rjust(wide), *line[i + 1 :]] for line in lines]
    key = []
    for letter, name in zip(letters, metrics, strict=True):
        metric = about.get(name)
        if metric is None:
            key.append(f"{letter}  {name}: not a metric of these runs")
            continue
        error = "unknown" if metric["model_error"] is None else f"{metric['model_error']:,}"
        recorded = "" if metric["recorded"] is None else f", recorded {metric['recorded']:,}"
        key.append(
            f"{letter}  {name}: {metric['unit']}, tier {metric['tier']}{recorded},"
            f" model error {error}"
        )
    return "\n".join([answer.table(columns, lines), "", *key])


def _text(found: list[dict[str, Any]], metrics: tuple[str, ...]) -> str:
    parts = []
    for tape, same in itertools.groupby(found, key=lambda run: run["tape"]):
        runs = list(same)
        lost = "unknown" if runs[0]["lost"] is None else f"{runs[0]['lost']:,}"
        parts.append(
            f"{answer.visible(tape)}: {answer.amount(len(runs), 'run')}; events lost: {lost}\n"
        )
        parts.append(_table(runs, metrics) + "\n")
    parts.append("%: change from the tape's own kernel and policy; ~: within the model's error")
    return "\n".join(parts)


@click.command("sweep")
@options.tapes
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=Choices(),
    default=("mainline",),
    metavar="SPEC",
    help="Policies as for replay; + joins several policies of one run, {a,b} makes one run "
    "each. Repeat the option for further runs.  [default: mainline]",
)
@options.policy_libs
@click.option(
    "--kernel",
    "kernel_rows",
    type=Choices(),
    default="auto",
    show_default=True,
    metavar="K",
    help="Kernel whose rules the model uses, or several as {a,b}; auto is the tape's own.",
)
@click.option(
    "--reclaim",
    "reclaims",
    type=Choices(*options.RECLAIM),
    default="R0",
    show_default=True,
    metavar="MODE",
    help="Reclaim mode R0, R1 or R2, as for replay, or several as {a,b}.",
)
@click.option(
    "--prefer",
    "preferred_nodes",
    type=Choices(*preference.MODES),
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
    type=options.PATH,
    metavar="DIR",
    required=True,
    help="Directory of the results.",
)
@click.option(
    "--shard",
    type=Shard(),
    default=(1, 1),
    metavar="I/N",
    help="Play only the I-th of N parts of the runs.  [default: 1/1]",
)
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Number of threads.  [default: one per CPU]"
)
@click.option(
    "--models",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of models in memory; each takes 16 bytes per page.  [default: four per "
    "thread, in half of the free memory]",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    default=METRICS,
    metavar="NAME",
    help="Column of the table: a metric of the report `metrics`. Repeatable.  [default: five "
    "metrics of fallbacks, zone lock and free pages]",
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
@options.json
def command(
    tapes: tuple[Path, ...],
    policies: tuple[list[str], ...],
    policy_libs: tuple[str, ...],
    kernel_rows: list[str],
    reclaims: list[str],
    preferred_nodes: list[str],
    node_maps: tuple[str, ...],
    out: Path,
    shard: tuple[int, int],
    jobs: int | None,
    models: int | None,
    metrics: tuple[str, ...],
    cluster: str | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Play every policy, kernel, reclaim mode, preferred node and node map on every tape.

    The sweep decodes each tape once for all runs in progress on it. Each run writes
    NAME.tape and NAME.json into DIR. Runs that are already in DIR are not repeated, so an
    interrupted sweep can continue, and shards of several machines can fill one DIR. NAME.tape
    has only fallbacks and counters, no other page events; compare, report and sql work on these.

    The table compares every run with the model under the tape's own rules, and shows the
    model's error on the recording.

    \b
    Example:
      pagetape sweep --policy 'nofragment:mode={off,lowzone,always}' \\
          --kernel '{auto,5.0,6.18}' base.tape -o matrix
    """
    opened = [Tape(path.absolute() if cluster else path) for path in tapes]
    if "auto" in kernel_rows:
        for tape in opened:
            console.report(kernels.note(tape, "auto"))
    specs = [sweep.stack(spec) for spec in itertools.chain(*policies)]
    for kernel in kernel_rows:
        options.check_kernel(kernel)
    machines = [
        options.on_nodes(opened, nodes, spec) for spec in specs for nodes in node_maps or (None,)
    ]
    for stack, _ in machines:
        options.check_policies(stack, policy_libs)
    runs = [
        Run(k, stack, r, policy_libs, preferred, cpu_parts=parts)
        for (stack, parts), k, r, preferred in itertools.product(
            machines, kernel_rows, reclaims, preferred_nodes
        )
    ]
    cases = sweep.shard(sweep.matrix(opened, runs), *shard)
    if html is not None:
        output.check_file_free(html, replace=True, mark=MARK, inputs=tapes)
    output.make_directory(out, tapes)
    missing = [case for case in cases if case.result(out) is None]
    threads = jobs or len(os.sched_getaffinity(0))
    models = models or sweep.most_models(opened, threads)
    with console.progress("sweep") as bar:
        if cluster is not None:
            from pagetape.replaying import fleet

            fleet.play(cluster, missing, out.absolute(), models=models, progress=bar)
        else:
            sweep.play(missing, out, jobs=threads, models=models, progress=bar)
    found = [result for case in cases if (result := case.result(out)) is not None]
    if html is not None:
        from pagetape.pages.sweep_page import sweep_page

        with output.whole_file(html, replace=True, mark=MARK, inputs=tapes) as file:
            file.write(sweep_page(found, metrics).encode())
    if as_json:
        answer.emit({"runs": found, "made": len(missing), "reused": len(cases) - len(missing)})
    else:
        answer.say(_text(found, metrics))
