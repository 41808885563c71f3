#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the accuracy of the model's own reclaim (R1).

    feedback.py [--work DIR] [--members N] [--unseen] RECORDING...

On the recordings (tapes, directories of tapes or of a trace.dat, see fidelity.py) the program plays
an ensemble under the recording's own rules, with recorded reclaim (R0) and with the model's own
(R1). Recordings of the corpus's unseen half are skipped without --unseen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import fidelity
import program
import recordings
from program import say, table

from pagetape.asking import interval
from pagetape.asking.comparison import members_of
from pagetape.replaying import MEMBERS, ensemble, model_error, replay_span
from pagetape.replaying.playback import Run
from pagetape.schemas.tape import Tape

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


def own_rules(tape: Tape, members: int) -> dict[str, dict[str, Any]]:
    """Each count that the tape has recorded, and under its own rules with R0 and R1: the members
    of the ensemble, their median and its 80 % interval."""
    source = recordings.source(tape)
    found: dict[str, dict[str, Any]] = {name: {} for name in _METRICS}
    recorded_metrics = model_error.recorded_metrics(tape)
    for mode in ("R0", "R1"):
        rows = ensemble.own(source, Run("auto", (), mode), members)
        values = members_of(rows).get("own", {})
        kind = interval.kind_of(replay_span.kind(tape), mode)
        for name, metric in _METRICS.items():
            truth = recorded_metrics.get(metric, {}).get("value")
            if metric in values and truth is not None:
                made = interval.interval(metric, "events", values[metric], kind)
                found[name][mode] = asdict(made) | {"members": list(values[metric])}
                found[name]["recorded"] = truth
    return found


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
    parser.add_argument("--work", type=Path, default=Path("build/feedback"))
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("recordings", nargs="+", type=Path)
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    owns = {}
    for path in arguments.recordings:
        for recording in fidelity.given(path, work):
            if recording.half != "unseen" or arguments.unseen:
                say(f"== {recording.name}")
                own = own_rules(Tape(recording.path), arguments.members)
                owns[recording.name] = recording.half, own
    program.give(reclaim(owns))


if __name__ == "__main__":
    program.run(main)
