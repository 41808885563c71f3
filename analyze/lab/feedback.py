#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the accuracy of the model's own reclaim (R1).

    feedback.py [--build DIR] [--work DIR] [--pairs N | --boosts] [--members N] [--unseen]
                [RECORDING...]

With --pairs it records a load that fragments memory N times each with vm.watermark_boost_factor at
15000 and at 0, and restores the factor at the end, also after an error. From the first recording of
each setting alone, the model predicts both settings; --boosts predicts the existing recordings
again. On the given recordings (tapes, directories of tapes or of a trace.dat, see fidelity.py) the
program plays an ensemble under the recording's own rules, with recorded reclaim (R0) and with the
model's own (R1). Recordings of the corpus's unseen half are skipped without --unseen.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import fidelity
import program
import recordings
from program import say, table

from pagetape.asking import interval
from pagetape.asking.comparison import members_of
from pagetape.asking.database import Database
from pagetape.replaying import MEMBERS, ensemble, model_error, replay_span, sweep
from pagetape.replaying.playback import Run
from pagetape.schemas.tape import Tape, TapeError

_FACTOR = Path("/proc/sys/vm/watermark_boost_factor")
_SECONDS = 25
_OLD_ROW = "5.10"  # boosts at every fallback

_COUNTS = {
    "passes": ("reclaim", "kswapd_wake"),
    "sleeps": ("reclaim", "kswapd_sleep"),
    "direct_reclaims": ("reclaim", "direct_reclaim_begin"),
    "kcompactd_asked": ("compaction", "wakeup_kcompactd"),
    "kcompactd_wakes": ("compaction", "kcompactd_wake"),
}
_TOTALS = {"passes": "kswapd_passes", "sleeps": "kswapd_sleeps"}


@dataclass(frozen=True)
class Setting:
    """A run of the model, and its name on the results page."""

    name: str
    run: Run


# The metrics of the own rules: the counts of reclaim, the fallbacks, and the state of the zones at
# the requests. From the fallbacks on they have a value under R0 as well.
_METRICS = {
    "kswapd passes": "kswapd passes",
    "kswapd sleeps": "kswapd sleeps",
    "kcompactd runs": "kcompactd runs",
    "direct reclaims": "direct reclaims",
    "kswapd woken": "kswapd wakeups",
    "fallbacks": "fallbacks below pageblock order",
    "below low": "allocs below low everywhere",
    "below min": "allocs below min everywhere",
    "from another node": "allocs from another node",
    "from a lower zone": "allocs from a lower zone",
}
_RECLAIM = tuple(_METRICS)[:5]
_REQUESTS = tuple(_METRICS)[6:]
_WITHIN = 1.5  # a count is right if it is off by at most this factor, or by one
_BOOSTS = tuple(
    Setting(f"{row} {factor}", Run(row, (f"mainline:boost_factor={factor}",), "R1"))
    for row in ("auto", _OLD_ROW)
    for factor in (15000, 0)
)


@contextmanager
def _boost_factor_restored() -> Iterator[None]:
    found = _FACTOR.read_text()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        _FACTOR.write_text(found)


def record_pairs(pairs: int, build: Path, work: Path) -> None:
    """Record the same load with and without boosts, in turns."""
    (load,) = (load for load in fidelity.LOADS if load.name == "extfrag")
    with _boost_factor_restored():
        for number in range(1, pairs + 1):
            for factor in (15000, 0):
                _FACTOR.write_text(str(factor))
                named = replace(load, seconds=_SECONDS)
                tape = fidelity.record(named, build, work).path
                tape.rename(work / f"boost-{factor}-{number}.tape")


def recorded(tape: Tape) -> dict[str, Any]:
    """The counts of the recording."""
    columns = ", ".join(
        f"(SELECT count(*) FROM {table} WHERE kind = '{kind}') AS {name}"
        for name, (table, kind) in _COUNTS.items()
    )
    fallbacks = (
        "(SELECT count(*) FROM event, machine WHERE kind = 'alloc_extfrag'"
        " AND fallback_order < pageblock_order) AS fallbacks"
    )
    with Database([tape]) as db:
        (counts,) = db.ask(f"SELECT {columns}, {fallbacks}").objects()
    return {name: counts[name] for name in ("fallbacks", *_COUNTS)}


def _counts(result: dict[str, Any]) -> dict[str, Any]:
    totals = {name: total["value"] for name, total in result["totals"].items()}
    # Replays and recordings have this metric.
    (below,) = (m for m in result["metrics"] if m["metric"] == "fallbacks below pageblock order")
    counts = {name: totals.get(_TOTALS.get(name, name)) for name in _COUNTS}
    return {"fallbacks": below["value"], **counts}


def modelled(tape: Tape, settings: Sequence[Setting], work: Path) -> dict[str, dict[str, int]]:
    """The counts of the model under each setting."""
    if not settings:
        return {}
    runs = work / "runs"
    runs.mkdir(exist_ok=True)
    plan = sweep.plan(tape.path, tape.path.stem, [setting.run for setting in settings], 0)
    failed = plan.failed or sweep.play(
        [case for case in plan.cases if case.result(runs) is None],
        runs,
        jobs=1,
    )
    if failed:
        raise TapeError(os.EX_DATAERR, failed[0].line())
    found = {}
    for setting, case in zip(settings, plan.cases, strict=True):
        result = case.result(runs)
        assert result is not None
        found[setting.name] = _counts(result)
    return found


def own_rules(tape: Tape, members: int) -> dict[str, dict[str, Any]]:
    """Each count of the recording, and under the tape's own rules with R0 and R1: the members of
    the ensemble, their median and its 80 % interval."""
    source = recordings.source(tape)
    found: dict[str, dict[str, Any]] = {name: {} for name in _METRICS}
    recorded_metrics = model_error.recorded_metrics(tape)
    for mode in ("R0", "R1"):
        rows = ensemble.own(source, Run("auto", (), mode), members)
        values = members_of(rows).get("own", {})
        kind = interval.kind_of(replay_span.kind(tape), mode)
        for name, metric in _METRICS.items():
            if metric in values:
                made = interval.interval(metric, "events", values[metric], kind)
                found[name][mode] = asdict(made) | {"members": list(values[metric])}
                found[name]["recorded"] = recorded_metrics.get(metric, {}).get("value")
    return found


def boosts(pairs: int, build: Path, work: Path) -> dict[str, Any]:
    """The tables of boosts on and off, recorded and predicted."""
    record_pairs(pairs, build, work)
    live, predicted = [], []
    for factor in (15000, 0):
        tapes = sorted(work.glob(f"boost-{factor}-*.tape"))
        for path in tapes:
            say(f"== {path.stem}")
            tape = Tape(path)
            live.append([path.stem, factor, *recorded(tape).values()])
            settings = _BOOSTS if path == tapes[0] else ()
            for setting, counts in modelled(tape, settings, work).items():
                predicted.append([path.stem, *setting.split(), *counts.values()])
    columns = ("fallbacks", *(name.replace("_", " ") for name in _COUNTS))
    return {
        "recorded": table(("recording", "factor", *columns), live),
        "predicted": table(("recording", "kernel", "factor", *columns), predicted),
    }


def is_near(recorded: float, model: float) -> bool:
    """Whether a count is right."""
    low, high = sorted((recorded, round(model)))
    return high - low <= 1 or (low > 0 and high / low <= _WITHIN)


def _log(count: float) -> float:
    return interval.scaled(count, "events")


def _is_in(value: float, found: dict[str, Any]) -> bool:
    return bool(found["low"] <= value <= found["high"])


def _is_nearer(found: dict[str, Any]) -> bool:
    """Whether R1 is in R0's interval, or nearer to the recorded value than R0."""
    truth = _log(found["recorded"])
    r0, r1 = (abs(_log(found[mode]["median"]) - truth) for mode in ("R0", "R1"))
    return _is_in(found["R1"]["median"], found["R0"]) or r1 <= r0


def _left_out(members: list[float]) -> Iterator[tuple[float, float]]:
    """Each member, and the median of the others."""
    for number, member in enumerate(members):
        yield member, median(members[:number] + members[number + 1 :])


def chaos(counts: Sequence[Any], fallbacks: Sequence[Any]) -> tuple[float, float]:
    """The share, in percent, that a perfect model would have: of the counts within, and of the
    fallbacks in the interval of R0. Each member of R1 in turn is the kernel; R0's interval then is
    as wide as now, around that member."""
    near = [
        is_near(member, others)
        for one in counts
        for member, others in _left_out(one["R1"]["members"])
    ]
    inside = []
    for one in fallbacks:
        truth, low, high = map(_log, (one["recorded"], one["R0"]["low"], one["R0"]["high"]))
        for member, others in _left_out(one["R1"]["members"]):
            inside.append(low - truth <= _log(others) - _log(member) <= high - truth)
    of_counts, of_fallbacks = (100 * sum(those) / max(len(those), 1) for those in (near, inside))
    return of_counts, of_fallbacks


def summary(owns: Sequence[dict[str, Any]]) -> list[Any]:
    """How many counts and fallbacks are right."""
    counts = [own[name] for own in owns for name in _RECLAIM if "R1" in own[name]]
    near = sum(is_near(one["recorded"], one["R1"]["median"]) for one in counts)
    inside = sum(_is_in(one["recorded"], one["R1"]) for one in counts)
    fallbacks = [own["fallbacks"] for own in owns if {"R0", "R1"} <= own["fallbacks"].keys()]
    right = [one for one in fallbacks if _is_in(one["recorded"], one["R0"])]
    like, like_right = (
        sum(_is_in(one["R1"]["median"], one["R0"]) for one in those) for those in (fallbacks, right)
    )
    return [
        f"{near} of {len(counts)}",
        f"{inside} of {len(counts)}",
        f"{like} of {len(fallbacks)}",
        sum(map(_is_nearer, fallbacks)),
        f"{like_right} of {len(right)}",
        *map(round, chaos(counts, right)),
    ]


def _beside(found: dict[str, Any], mode: str) -> list[float | None] | None:
    """A recorded value, and the median and interval of the model."""
    made = found.get(mode)
    return made and [found["recorded"], made["median"], made["low"], made["high"]]


def reclaim(owns: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The tables of reclaim under the own rules; by recording its half and own_rules()."""
    rows = []
    modes = [(kind, mode) for kind in ("fallbacks", *_REQUESTS) for mode in ("R0", "R1")]
    for name, (half, own) in owns.items():
        counts = [_beside(own[count], "R1") for count in _RECLAIM]
        rows.append([name, half, *counts, *(_beside(own[kind], mode) for kind, mode in modes)])
    columns = ("recording", "half", *_RECLAIM, *(f"{kind}, {mode}" for kind, mode in modes))
    halves = dict.fromkeys(half for half, _ in owns.values())
    by_half = (
        "half",
        f"counts within a factor of {_WITHIN} or by one",
        "recorded in the 80 % interval",
        "fallbacks of R1 in the interval of R0",
        "there, or nearer than R0",
        "there, of those where R0 is right",
        "a perfect model: counts, %",
        "a perfect model: fallbacks, %",
    )
    return {
        "counts": table(columns, rows),
        "by_half": table(
            by_half,
            [
                [one, *summary([own for half, own in owns.values() if half == one])]
                for one in halves
            ],
        ),
    }


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path, default=Path("build/feedback"))
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--boosts", action="store_true")
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("recordings", nargs="*", type=Path)
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    found = {}
    if arguments.pairs or arguments.boosts:
        found = boosts(arguments.pairs, arguments.build, work)
    owns = {}
    for path in arguments.recordings:
        for recording in fidelity.given(path, work):
            if recording.half != "unseen" or arguments.unseen:
                say(f"== {recording.name}")
                own = own_rules(Tape(recording.path), arguments.members)
                owns[recording.name] = recording.half, own
    program.give(found | (reclaim(owns) if owns else {}))


if __name__ == "__main__":
    program.run(main)
