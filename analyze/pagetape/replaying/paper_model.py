# SPDX-License-Identifier: Apache-2.0
"""The modelled figures of a paper: every stack of its policies on a tape, with the same seeds.

All stacks of a paper are played in one reclaim mode, and compared with the paper's baseline. It is
a stack, not the tape's own rules, whose fallback events may count another unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from pagetape import _replay
from pagetape.asking import interval, papers, policy_effect
from pagetape.asking.comparison import Members, Metrics, members_of
from pagetape.asking.papers import NOT_MODELLED, NOT_RECORDED, TOO_SMALL, Cell, Figure, Paper
from pagetape.replaying import ensemble, isolated, players, presets, reclaim_mode, replay_span
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import Run, Source
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape

# Metrics of a stack, besides those of every member.
_TOTAL = "total: "  # totals of the engine
_LOCK = "zone lock "  # sums of the table zone_lock
_IDLE = "no choice: "  # policies that decided nothing, in words


class Stack(ensemble.Members):
    """The members of one stack of policies."""

    stored_as = "paper"

    def measured(self, part: players.Part, made: Tape) -> Metrics:
        values = {_TOTAL + name: total["value"] for name, total in part.result["totals"].items()}
        locks = made.table("zone_lock")
        for name in ("holds", "hold_ns", "wait_ns") if locks.num_rows else ():
            values[_LOCK + name] = sum(locks[name].to_pylist())
        asked = values.get(_TOTAL + "alloc_pages", 0) - values.get(_TOTAL + "alloc_batch_waste", 0)
        size = asked * int(made.facts.get("page_size") or 4096)
        if locks.num_rows and size:  # as in the report zone_lock.per_mb
            values[_LOCK + "ns per MB"] = (values[_LOCK + "hold_ns"] << 20) // size
        idle = policy_effect.without_choice(part.result["policies_effect"])
        values |= {_IDLE + line: 0 for line in idle}
        more = {name: {"unit": "", "tier": "B", "value": nr} for name, nr in values.items()}
        return super().measured(part, made) | more


@dataclass(frozen=True)
class Played:
    """The stacks of a paper on one tape."""

    members: Members  # by stack
    errors: Mapping[str, str]  # why a stack could not be played
    still: frozenset[str]  # stacks that act through reclaim, of which the tape has none
    kind: str  # of the recording: interval.KINDS
    mode: str
    cpu_ns: float  # of all CPUs during the recording

    def values(self, stack: str, metric: str | Sequence[str]) -> list[float]:
        """The members of a metric, or of the sum of several, in the order of their seeds; none if
        one of them has no value."""
        names = [metric] if isinstance(metric, str) else metric
        found = [self.members.get(stack, {}).get(name, []) for name in names]
        return [sum(of) for of in zip(*found, strict=True)] if all(found) else []

    def idle(self, stack: str, policies: Mapping[str, Sequence[str]], base: str) -> str | None:
        """Why no policy of a stack, besides those of the baseline, had a choice in any member."""
        found = []
        for spec in _own(policies[stack], policies[base]):
            lines = [m for m in self.members.get(stack, {}) if m.startswith(f"{_IDLE}{spec} ")]
            if not lines:
                return None
            found.append(lines[0].removeprefix(f"{_IDLE}{spec} "))
        return "; ".join(dict.fromkeys(found)) or None


def stacks(paper: Paper) -> dict[str, tuple[str, ...]]:
    """The policies of each stack."""
    found: Mapping[str, Sequence[str]] = paper.about.get("stack", {})
    return {name: presets.expand(specs) for name, specs in found.items()}


def play(paper: Paper, tape: Tape, nr: int, progress: Progress = silent) -> Played:
    """Play the stacks that the paper's figures need, `nr` members of each. Cached."""
    wanted = dict.fromkeys(
        stack
        for figure in paper.every
        if isinstance(figure.keys["modelled"], dict) and "stack" in figure.keys
        for stack in (figure.keys["stack"], _over(paper, figure))
    )
    first, last = tape.clock or (0, 0)
    cpu_ns = (last - first) * int(tape.facts.get("cpus") or 1)
    mode = paper.about.get("reclaim", "R0")
    if wanted and nr and not reclaim_mode.recorded(tape):
        mode = "R0"
    errors: dict[str, str] = {}
    still = set()
    tasks = {}
    if wanted and nr and tape.num_rows("event"):
        source = Source(tape, inferred(tape), preferences(tape))
        for name, specs in stacks(paper).items():
            if name not in wanted:
                continue
            run = Run(paper.about.get("kernel", "auto"), specs, mode)
            try:
                source.engine(run)
                tasks[name] = Stack(source, "this", run, nr)
                own = _own(specs, stacks(paper)[paper.about["baseline"]])
                if reclaim_mode.no_verdict(mode, tape, "auto", own):  # all have the same kernel
                    still.add(name)
            except (OSError, ValueError) as e:
                errors[name] = isolated.reason(e)
        players.play([*tasks.values()], progress=progress)
    found = {name: members_of(task.table).get("this", {}) for name, task in tasks.items()}
    return Played(found, errors, frozenset(still), replay_span.kind(tape), mode, cpu_ns)


def _own(policies: Sequence[str], base: Sequence[str]) -> list[str]:
    """The policies of a stack that its baseline does not have."""
    return [spec for spec in policies if spec not in base]


def _over(paper: Paper, figure: Figure) -> str:
    return str(figure.keys.get("over", paper.about["baseline"]))


@dataclass(frozen=True)
class Modelled:
    """The modelled part of a row."""

    value: float | str
    low: float | None = None
    high: float | None = None
    difference: dict[str, float] | None = None  # to the baseline: value, low, high
    ratio: dict[str, float] | None = None
    verdict: str | None = None
    remark: str | None = None


def modelled(paper: Paper, figure: Figure, cell: Cell, played: Played, tape: Tape) -> Modelled:
    """What the model says about a figure on a tape; `cell` is the recorded one."""
    known = _without_run(figure, cell, tape) or _without_members(paper, figure, played)
    if known is not None:
        return known
    metric = figure.keys["modelled"]["metric"]
    this = played.values(figure.keys["stack"], metric)
    base = played.values(_over(paper, figure), metric)
    if not this or not base:
        return Modelled(TOO_SMALL.format(0))
    found = _compared(paper, figure, cell, played, (this, base))
    if not figure.keys.get("follows") or isinstance(cell.value, str):
        return found
    if not (found.low or 0) <= cell.value <= (found.high or 0):
        return replace(found, remark="not followed: the recorded value is outside the interval")
    return found


def _without_run(figure: Figure, cell: Cell, tape: Tape) -> Modelled | None:
    """What is known of a figure that no run of the tape decides."""
    how = figure.keys["modelled"]
    if cell.lacks is not None:
        return Modelled(cell.lacks)
    if isinstance(how, str):
        return Modelled(how)
    if "parameter" in how:
        policy, _, name = how["parameter"].partition(".")
        return Modelled(_default(policy, name), remark=f"default of the policy {policy}")
    return None if tape.num_rows("event") else Modelled(f"{NOT_RECORDED}--events page")


def _without_members(paper: Paper, figure: Figure, played: Played) -> Modelled | None:
    """Why the runs give the figure no value: one failed, or what it is a share of is too rare."""
    how, over = figure.keys["modelled"], _over(paper, figure)
    for stack in (figure.keys["stack"], over):
        if stack in played.errors:
            return Modelled(NOT_MODELLED, remark=played.errors[stack])
    if "n" in how:
        nr = median(played.values(over, how["n"]) or [0])
        if nr < how["least"]:
            return Modelled(TOO_SMALL.format(f"{nr:.0f}"))
    return None


def _compared(
    paper: Paper,
    figure: Figure,
    cell: Cell,
    played: Played,
    values: tuple[list[float], list[float]],
) -> Modelled:
    how, stack, over = figure.keys["modelled"], figure.keys["stack"], _over(paper, figure)
    metric = how["metric"] if isinstance(how["metric"], str) else how["metric"][0]
    unit = how.get("unit", "events")
    kind = interval.kind_of(played.kind, played.mode)
    most = 1000 if unit == interval.INDEX else None
    own = interval.interval(metric, unit, values[0], kind, most)
    pairs = zip(*values, strict=True)
    paired = interval.paired(metric, unit, pairs, played.kind, played.mode, most)
    ratio = interval.paired_ratio(metric, *values, played.kind)
    scale = how.get("scale", 1) / (played.cpu_ns or 1) ** (1 if how.get("share") else 0)
    if figure.form == "value":
        value, low, high = (one * scale for one in (own.median, own.low, own.high))
    elif stack == over:  # 100 % of itself
        value = low = high = papers.relative(1, 1, figure.form)
    else:
        value = papers.relative(ratio.value, 1, figure.form)
        limits = [papers.relative(one, 1, figure.form) for one in (ratio.low, ratio.high)]
        low, high = min(limits), max(limits)
    if stack == over:
        return Modelled(value, low, high)
    still = "the tape recorded no reclaim" if stack in played.still else None
    inert = cell.inert or still or played.idle(stack, stacks(paper), over)
    return Modelled(
        value,
        low,
        high,
        {name: getattr(paired, name) * scale for name in ("value", "low", "high")},
        vars(ratio) if median(values[1]) else None,
        f"inert: {inert}" if inert else verdict(paper, figure, paired),
    )


def verdict(paper: Paper, figure: Figure, paired: interval.Paired) -> str | None:
    """Whether the model agrees with the paper on the sign of a change."""
    published = _published_change(paper, figure)
    if published is None:
        return None
    if not paired.shown or not published:
        return "no difference shown"
    if figure.form == "reduction":
        published = -published
    return "same sign" if (paired.value > 0) == (published > 0) else "other sign"


def _published_change(paper: Paper, figure: Figure) -> float | None:
    """By how much the published figure differs from its base; None without one."""
    if figure.form in ("reduction", "gain"):
        return figure.number
    base = paper.base(figure)
    if base is None or base.number is None or figure.number is None:
        return None
    return figure.number - base.number


def _default(policy: str, name: str) -> float:
    found = next(one for one in _replay.policies() if one["name"] == policy)
    return float(next(one for one in found["params"] if one["name"] == name)["default"])


def _ratio(figure: Figure, base: Figure | None) -> float | None:
    if base is None or not base.number or figure.number is None or figure.unit != base.unit:
        return None
    return figure.number / base.number


def rows(
    paper: Paper, tapes: Sequence[Tape], labels: Sequence[str], played: Sequence[Played]
) -> list[dict[str, Any]]:
    """The rows of a paper: one for each figure, with tapes one for each figure and tape."""
    if not tapes:
        return [
            _row(paper, figure, None, _needed(figure), _would(paper, figure))
            for figure in paper.every
        ]
    found = []
    for tape, label, run, cells in zip(
        tapes, labels, played, papers.of_tapes(paper, tapes), strict=True
    ):
        for figure, cell in zip(paper.every, cells, strict=True):
            about = modelled(paper, figure, cell, run, tape)
            found.append(_row(paper, figure, label, cell, about))
    return found


def _needed(figure: Figure) -> Cell:
    """What a tape needs for a recorded value."""
    how = figure.keys["recorded"]
    if isinstance(how, str):
        return Cell(how)
    otherwise = how.get("otherwise", f"{NOT_RECORDED}--events {how.get('events', 'page')}")
    return Cell(str(otherwise))


def _would(paper: Paper, figure: Figure) -> Modelled:
    """What the modelled value needs: without a tape there is none."""
    how = figure.keys["modelled"]
    if isinstance(how, dict) and "parameter" not in how:
        events = "all" if paper.about.get("reclaim") == "R1" else "page"
        return Modelled(f"{NOT_RECORDED}--events {events}")
    if isinstance(how, str):
        return Modelled(how)
    return Modelled(_default(*how["parameter"].split(".")))


def _row(
    paper: Paper, figure: Figure, tape: str | None, cell: Cell, model: Modelled
) -> dict[str, Any]:
    number = figure.number
    whole = number is not None and number.is_integer() and "." not in figure.value
    published = int(number) if whole and number is not None else number
    remarks = [cell.remark, model.remark]
    return {
        "table": figure.table,
        "row": figure.row,
        "column": figure.column,
        "value": figure.value,
        "published": figure.value if published is None else published,
        "unit": figure.unit,
        "machine": figure.machine,
        "kernel": figure.kernel,
        "source": figure.source,
        **({"tape": tape} if tape else {}),
        "recorded": cell.value,
        "modelled": model.value,
        "low": model.low,
        "high": model.high,
        "verdict": model.verdict,
        "difference": model.difference,
        "ratio": model.ratio,
        "published_ratio": _ratio(figure, paper.base(figure)),
        "remark": "; ".join(filter(None, remarks)) or None,
    }


def printed(found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Rows of one table for people: columns, and lines with a row's name where it changes. Columns
    that say nothing are left out."""
    columns = ["row", "machine", "column", "published", "unit", "of base"]
    columns += ["recorded", "modelled", "of base", "verdict", "remark"]
    several = len({row["machine"] for row in found}) > 1
    lines, last = [], ("", "")
    for row in found:
        name = row["row"], row["machine"]
        model = _number(row["modelled"])
        if row["low"] is not None and row["low"] != row["high"]:
            model += f" [{_number(row['low'])} to {_number(row['high'])}]"
        line = [*(name if name != last else ("", "")), row["column"], row["value"], row["unit"]]
        line += [_percent(row["published_ratio"]), _number(row["recorded"]), model]
        line += [_percent(row["ratio"] and row["ratio"]["value"])]
        lines.append([*line, row["verdict"] or "", row["remark"] or ""])
        last = name
    used = [i for i, _ in enumerate(columns) if any(line[i] for line in lines)]
    used = [i for i in used if several or i != 1]
    return [columns[i] for i in used], [[line[i] for i in used] for line in lines]


def heading(name: str, found: Sequence[dict[str, Any]]) -> str:
    """The head of a table: its name, and the machine if all rows have one."""
    machines = {row["machine"] for row in found}
    if found[0]["source"] == papers.NEVER_PUBLISHED:
        return f"{name} ({papers.NEVER_PUBLISHED})"
    return f"{name} ({found[0]['machine']})" if len(machines) == 1 and machines != {""} else name


def _percent(share: float | None) -> str:
    if share is None:
        return ""
    return f"{100 * share:,.0f} %" if share >= 10 else f"{100 * share:.3g} %"


def _number(value: float | str) -> str:
    """A value or a reason; four digits of a fraction."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
