# SPDX-License-Identifier: Apache-2.0
"""The answer of pagetape sweep as text: a table for each tape, the failed runs, and the fleet."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, NamedTuple

from pagetape import answer, terminal
from pagetape.replaying import RECLAIM_AUTO

if TYPE_CHECKING:
    from pagetape.asking.comparison import Difference

_FAILED = 20  # failed runs that the text lists
_LEAST = 4  # hosts of an interval


class Swept(NamedTuple):
    """What a sweep has: its runs, and the fleet's rows."""

    runs: list[dict[str, Any]]
    failed: list[dict[str, Any]]
    fleet: list[dict[str, Any]]
    counts: dict[str, int]  # made, reused; tapes of an archive
    metrics: tuple[str, ...]  # the columns of the tables
    url: str | None = None  # of an archive
    lines: Sequence[str] = ()  # about its tapes

    @property
    def json(self) -> dict[str, Any]:
        found = {"runs": self.runs, **self.counts, "failed": self.failed, "fleet": self.fleet}
        return found | ({"note": "; ".join(self.lines)} if self.lines else {})


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


def _change(difference: Difference) -> str:
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


def _tapes(runs: list[dict[str, Any]], metrics: tuple[str, ...], wide: bool) -> list[str]:
    """The runs on each tape."""
    from pagetape.replaying import sweep

    parts = []
    for tape, group in itertools.groupby(runs, key=lambda run: run["tape"]):
        same = list(group)
        lost = "unknown" if same[0]["lost"] is None else f"{same[0]['lost']:,}"
        head = f"{answer.visible(tape)}: {answer.amount(len(same), 'run')}; events lost: {lost}"
        parts += [head, *sweep.kernel_warnings(same), _table(same, metrics, wide)]
    return parts


def _legend(runs: list[dict[str, Any]], metrics: tuple[str, ...]) -> str:
    """The marks of the tables of the tapes."""
    from pagetape.asking import no_verdict

    text = "%: change from the tape's own kernel and policy"
    if not any(run["seeds"] for run in runs):
        return f"{text}; of one run each: no interval, so no verdict"
    text += "; ~: no difference shown; ?: not checked. [low to high]: 80 % interval"
    shown = (m for run in runs for m in run["metrics"] if m["metric"] in metrics)
    followed = all(metric["followed"] is not False for metric in shown)
    return text if followed else f"{text}\n\n{no_verdict.NOT_FOLLOWED}"


def text(found: Swept, wide: bool) -> str:
    """The answer. Of an archive it has no table for each tape."""
    from pagetape.replaying import sweep

    if found.url is not None:
        tapes, made, reused = (found.counts[key] for key in ("tapes", "made", "reused"))
        parts = [
            f"{found.url}: {answer.amount(tapes, 'tape')}; {answer.amount(made, 'run')} made,"
            f" {reused:,} reused, {len(found.failed):,} failed",
            *found.lines,
        ]
    else:
        parts = _tapes(found.runs, found.metrics, wide)
    if found.failed:
        rows = map(sweep.failed_line, found.failed[:_FAILED])
        parts.append(terminal.table(sweep.FAILED, rows, wide=wide))
        if len(found.failed) > _FAILED:
            parts.append(f"{_FAILED} of {len(found.failed):,} failed runs: --json has all")
    if found.fleet:
        parts.append(_fleet(found.fleet, wide))
    if found.url is None and found.runs:
        parts.append(_legend(found.runs, found.metrics))
    return "\n\n".join(parts)


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


def _fleet(rows: Sequence[dict[str, Any]], wide: bool) -> str:
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
