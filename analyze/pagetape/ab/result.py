# SPDX-License-Identifier: Apache-2.0
"""The result of an A/B: the file ab.json beside the tapes, and its text."""

import errno
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from pagetape import answer
from pagetape.ab import WARM_UPS, predict
from pagetape.ab.plan import RESULT, Plan, RunOf
from pagetape.ab.predict import Bar, Prediction
from pagetape.ab.switch import Switch, find
from pagetape.ab.verdict import Recorded, sign, verdict
from pagetape.asking.interval import Ratio
from pagetape.asking.phrase import between
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import origin, output, regular
from pagetape.tapes.info import duration_s

_FORMAT = "pagetape.ab 1"
_MOST = 1 << 24  # bytes of ab.json
_MEMORY_KB = 1 << 42  # of the machine that ran it, at most
_SHOWN = 40  # most characters of a value in a message
_OTHER = {"A": "B", "B": "A"}
_ALIKE = 1.05  # recordings whose lengths have a smaller ratio are equally long
_SIGNS = {-1: "-", 0: "0", 1: "+"}

_LEAST_PAIRS = 2  # one does not show how far equal runs differ
_TOO_FEW = "fewer than two pairs of whole tapes"

# The load itself: shown first, never predicted.
_LOAD = "allocs"
_PER = ", per 1000 allocs"  # predicted as the metric itself: a model serves the same requests


@dataclass
class Result:
    """What was recorded, and what is known about it."""

    directory: Path
    plan: dict[str, Any]  # Plan.json()
    facts: dict[str, Any]  # kernel, begin
    runs: list[dict[str, Any]] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, plan: Plan) -> "Result":
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(plan.out, plan.json(), {"kernel": os.uname().release, "began": now})

    @property
    def switch(self) -> Switch:
        return find(self.plan["switch"])

    def add(self, run: RunOf, seconds: float) -> None:
        """A run has ended: from now on its tape counts."""
        self.runs.append(
            {
                "side": run.side,
                "number": run.number,
                "tape": run.tape,
                "recording_id": origin.recording_id(Tape(self.directory / run.tape)),
                "seconds": round(seconds, 1),
            }
        )

    def tapes(self, side: str, pairs: set[int] | None = None) -> list[Path]:
        """The tapes of a side, or those of some pairs."""
        return [
            self.directory / run["tape"]
            for run in self.runs
            if run["side"] == side and (pairs is None or run["number"] in pairs)
        ]

    def _whole_pairs(self, partial: Sequence[str]) -> set[int]:
        """The numbers of the pairs of two whole tapes."""
        whole = [
            {r["number"] for r in self.runs if r["side"] == side and r["tape"] not in partial}
            for side in _OTHER
        ]
        return whole[0] & whole[1]

    def _check_tapes(self) -> None:
        """Raise TapeError for a tape that has taken the place of one of the runs."""
        for run in self.runs:
            tape = Tape(self.directory / run["tape"])
            known = run["recording_id"]
            if origin.is_replay(tape) or known not in (None, origin.recording_id(tape)):
                words = f"{tape.path}: is not the recording of run {run['number']} under"
                words += f" {self.plan['values'][run['side']]}: another tape has taken its name"
                raise TapeError(errno.EINVAL, words)

    def json(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            **self.plan,
            **self.facts,
            "runs": self.runs,
            "restored": self.restored,
        }

    def write(self, compared: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Write ab.json, with the comparison if it was made; returns its contents."""
        found = self.json() | dict(compared or {})
        path = self.directory / RESULT
        with output.whole_file(path, replace=True, mark=_FORMAT.encode(), inputs=[]) as file:
            file.write(f"{answer.dumps(found, indent=2)}\n".encode())
        return found

    @classmethod
    def read(cls, directory: Path) -> "Result":
        """The result in a directory; raises TapeError if it is not one of pagetape."""
        path = directory / RESULT
        try:
            found = json.loads(regular.read(path, _MOST))
            if found["format"] != _FORMAT:
                raise ValueError("its format is not known")
            plan = _plan(found)
            runs = [_run(one) for one in found["runs"]]
            if len({run["tape"] for run in runs}) < len(runs):
                raise ValueError("a run is there twice")
            facts = {name: _text(found[name]) for name in ("kernel", "began")}
            restored = _texts(found["restored"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            why = f": {e}" if isinstance(e, ValueError) else ""
            raise TapeError(errno.EINVAL, f"{path}: is not a result of pagetape ab{why}") from e
        return cls(directory, plan, facts, runs, restored)

    def _predicted(
        self, tapes: Sequence[Path], value: str, nr: int, bar: Bar
    ) -> dict[str, Prediction]:
        # Warm-ups run under the former value. A run under the other one begins with its lists.
        warm = self.plan["warm_ups"] == "all" and value == self.plan["before"]
        return predict.predict(self.switch, tapes, value, warm, nr, bar)

    def _measured(
        self, tapes: Mapping[str, Sequence[Path]], names: Sequence[str]
    ) -> dict[str, Recorded]:
        """The metrics that every tape has, in each 1000 allocations if the switch wants that."""
        runs = {side: [predict.recorded(Tape(p), names) for p in tapes[side]] for side in _OTHER}
        rows = {
            name: Recorded(*([run[name] for run in runs[side]] for side in _OTHER))
            for name in names
            if all(name in run for those in runs.values() for run in those)
        }
        if self.switch.per_alloc and (load := rows.pop(_LOAD, None)):
            rows = {_LOAD: load} | {f"{n}{_PER}": row.per_1000(load) for n, row in rows.items()}
        return rows

    def compare(self, nr: int, bar: Bar, *, bounded: bool = False) -> dict[str, Any]:
        """Measure all tapes and predict each side from the other, with `nr` members per tape, or if
        `bounded` with as many as an answer in time affords.

        Pairs with a partial tape are left out. With fewer than two whole ones, all are measured,
        and there is no verdict.
        """
        tapes = {side: self.tapes(side) for side in _OTHER}
        if min(map(len, tapes.values())) < 2:
            words = f"{self.directory}: has fewer than two complete runs of each value"
            raise TapeError(errno.EINVAL, f"{words}: record again")
        self._check_tapes()
        partial = [name for side in tapes for name in predict.partial(tapes[side])]
        whole = self._whole_pairs(partial)
        withheld = None if len(whole) >= _LEAST_PAIRS else _TOO_FEW
        if withheld is None:
            tapes = {side: self.tapes(side, whole) for side in _OTHER}
        if bounded:
            nr = predict.affordable(nr, [path for side in tapes for path in tapes[side]])
        names = (_LOAD, *self.switch.metrics)
        rows = self._measured(tapes, names)
        predictions = {
            side: self._predicted(tapes[side], self.plan["values"][_OTHER[side]], nr, bar)
            for side in _OTHER
        }
        return {
            "ensemble": nr,
            "lengths_s": {
                side: _spread([duration_s(Tape(path)) for path in tapes[side]]) for side in _OTHER
            },
            "unjudged": [
                line
                for side in tapes
                for line in predict.unjudged(
                    self.switch, tapes[side], self.plan["values"][_OTHER[side]]
                )
            ],
            "partial": partial,
            "pairs_counted": sorted(whole) if withheld is None else [],
            "missing": [name for name in names if not {name, name + _PER} & rows.keys()],
            "metrics": [
                _metric(name, found, side, predictions[side].get(name.removesuffix(_PER)), withheld)
                for name, found in rows.items()
                for side in _OTHER
            ],
        }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{json.dumps(value)[:_SHOWN]} is no text")
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"{json.dumps(value)[:_SHOWN]} is no list of texts")
    return list(map(_text, value))


def _plan(found: dict[str, Any]) -> dict[str, Any]:
    """The plan in ab.json; raises ValueError for one that `pagetape ab` does not make."""
    switch = find(_text(found["switch"]))
    values = {side: switch.check(_text(found["values"][side]), _MEMORY_KB) for side in _OTHER}
    if values["A"] == values["B"]:
        raise ValueError(f"both values are {values['A']}")
    if found["warm_ups"] not in WARM_UPS:
        raise ValueError(f"warm_ups is {json.dumps(found['warm_ups'])[:_SHOWN]}")
    if type(found["pairs"]) is not int:
        raise ValueError(f"pairs is {json.dumps(found['pairs'])[:_SHOWN]}")
    return {
        "switch": switch.name,
        "before": _text(found["before"]),
        "pairs": found["pairs"],
        "warm_ups": found["warm_ups"],
        "compared": list(switch.metrics),
        "predicted": switch.policy is not None,
        "reclaim": switch.reclaim(values["B"], values["A"]),
        "values": values,
        "command": _texts(found["command"]),
    }


def _run(found: dict[str, Any]) -> dict[str, Any]:
    """One run of ab.json; raises ValueError if its tape is not one of the directory."""
    run = {name: found[name] for name in ("side", "number", "tape", "seconds")}
    run["recording_id"] = found.get("recording_id")  # an older result has none
    if type(run["number"]) is not int or type(run["seconds"]) not in (int, float):
        raise ValueError("the number or the length of a run is no number")
    if run["side"] not in _OTHER or run["tape"] != f"{run['side']}-{run['number']}.tape":
        raise ValueError("a run has another tape")
    return run


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {"median": median(values), "low": min(values), "high": max(values), "values": [*values]}


def _metric(
    name: str, found: Recorded, side: str, made: Prediction | None, withheld: str | None = None
) -> dict[str, Any]:
    """One metric as seen from the tapes of one side; `withheld`: why there is no verdict on any."""
    live = found.ratio(side)
    predicted = made and made.ratio
    return {
        "metric": name,
        "from": side,
        "predicts": _OTHER[side],
        "recorded": {"A": _spread(found.a), "B": _spread(found.b)},
        "live": live.value,
        "live_low": live.low,
        "live_high": live.high,
        "live_shown": live.shown,
        "predicted": predicted and predicted.value,
        "low": predicted and predicted.low,
        "high": predicted and predicted.high,
        "sign": predicted and sign(live.value) == sign(predicted.value),
        "model": made and {"own": made.own, "this": made.this},
        "followed": made and {"tapes": made.followed, "of": made.tapes},
        "no_verdict": made and (made.no_verdict or withheld),
        "verdict": predicted and (None if withheld else verdict(live, predicted)),
    }


def _factor(value: float) -> str:
    """A ratio with three significant digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _ratio(found: Ratio) -> str:
    return f"{_factor(found.value)} [{_factor(found.low)} to {_factor(found.high)}]"


def cells(metric: dict[str, Any]) -> list[str]:
    """One line of the table: a metric as seen from the tapes of one side."""
    first = metric["from"] == "A"
    live = Ratio(metric["live"], metric["live_low"], metric["live_high"])
    recorded = (
        between(*(metric["recorded"][side][key] for key in ("median", "low", "high")))
        for side in "AB"
    )
    line = [metric["metric"] if first else "", *(recorded if first else ("", ""))]
    line += ["B/A" if first else "A/B", _ratio(live)]
    if metric["predicted"] is None:
        return [*line, "-", "-", metric.get("no_verdict") or "-"]
    predicted = Ratio(metric["predicted"], metric["low"], metric["high"])
    signs = f"{_SIGNS[sign(live.value)]} {_SIGNS[sign(predicted.value)]}"
    return [*line, _ratio(predicted), signs, metric["verdict"] or metric["no_verdict"]]


def _lengths(found: dict[str, Any]) -> list[str]:
    """How long the recordings are, and what it means if the lengths differ."""
    lengths = found["lengths_s"]
    shown = [
        f"{side} {own['median']:.1f} s [{own['low']:.1f} to {own['high']:.1f}]"
        for side, own in lengths.items()
    ]
    lines = [f"length of the recordings: {', '.join(shown)}"]
    a, b = (max(lengths[side]["median"], 1e-9) for side in _OTHER)
    if max(a / b, b / a) > _ALIKE:
        lines += [
            "A prediction plays requests at their recorded times, so it is as long as the tapes it",
            "comes from. What happens once a second, such as the shrinking of idle lists, differs",
            "with the length: a load that begins its work at fixed times compares best.",
        ]
    return lines


def _followed(found: dict[str, Any]) -> list[str]:
    """The predictions that leave out tapes which the model does not follow."""
    lines = []
    for metric in found["metrics"]:
        count = metric.get("followed") or {"tapes": 0, "of": 0}
        if 0 < count["tapes"] < count["of"]:
            lines.append(
                f"{metric['metric']} from {metric['from']}: predicted from the {count['tapes']} of "
                f"{count['of']} tapes which the model follows in it"
            )
    return lines


def text(found: dict[str, Any]) -> str:
    """The contents of ab.json for people."""
    values = found["values"]
    columns = ["metric", f"A={values['A']}", f"B={values['B']}", "ratio"]
    columns += ["live [spread]", "predicted [80 %]", "signs", "verdict"]
    lines = [
        f"{found['switch']}: {len(found['runs'])} runs of {shlex.join(found['command'])}",
        "",
        answer.table(columns, [cells(metric) for metric in found["metrics"]]),
        "",
        "A=, B=: median of the runs [least to most]. live: ratio of the medians [of the runs that",
        "are farthest apart]. predicted: the new value from tapes of the old one alone.",
    ]
    lines += _lengths(found)
    if not found["predicted"]:
        lines.append(f"not predicted: no policy of the model has {found['switch']}")
    lines += [f"not predicted: {line}" for line in found["unjudged"]]
    lines += _followed(found)
    if found["missing"]:
        lines.append(f"not on every tape: {', '.join(found['missing'])}")
    if found["partial"]:
        names = ", ".join(found["partial"])
        lines.append(f"lost events or no exact start: {names}; their pairs do not count")
        if not found["pairs_counted"]:
            lines.append(f"no verdict: {_TOO_FEW}; record more --pairs, or a shorter or calmer run")
    verdicts = [metric["verdict"] for metric in found["metrics"] if metric["verdict"]]
    counts = [f"{verdicts.count(words)} {words}" for words in dict.fromkeys(verdicts)]
    lines.append(f"verdicts: {', '.join(counts) or 'none'}")
    return "\n".join(lines)
