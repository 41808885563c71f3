#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calibrate the intervals of what-ifs on recordings, and check them on others.

    calibration.py [--check] [--reclaim R0|R1] [--events zone] [--members N] [--jobs N] RECORDING...

Plays an ensemble of each recording under its own kernel and policy, with the inputs of a what-if.
The unseen halves of the corpus (corpus.py) and of the real programs (programs.py) are for the check
only. All others are for the calibration: the margins by which intervals are widened come from their
errors, and go to calibration.toml of pagetape.asking. With --check the margins stay as they are.
With --reclaim R1, the mode of policies that act through reclaim, the margins of such runs are
calibrated. With --events zone, the recordings are projected to that event set first, and the
margins are checked on the projections: they have none of their own.

The tables: how often the recorded value lies within the 80 % interval, on each half, of what the
recording or a member has (0 in all of them cannot be missed); the ranks of the recorded values
among the members; the mean CRPS (continuous ranked probability score) of one run, which is its
error, and of the ensemble, on the scale of the logarithm of (count + 5).
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import corpus
import program
import programs
import recordings
from program import table

from pagetape.asking import interval
from pagetape.asking.success import number
from pagetape.replaying import MEMBERS, ensemble, model_error, replay_span
from pagetape.replaying.playback import Run
from pagetape.schemas.tape import Tape
from pagetape.tapes import zone_events

MARGINS = Path(interval.__file__).with_name("calibration.toml")
SOURCE = Path(__file__).parents[1] / "pagetape/asking/calibration.toml"

# Chosen before the first calibration: the metrics that are checked.
PAIRS = [
    f"mixing {wanted} from {raided}"
    for wanted in ("UNMOVABLE", "MOVABLE", "RECLAIMABLE")
    for raided in ("UNMOVABLE", "MOVABLE", "RECLAIMABLE")
    if wanted != raided
]
CHECKED = (
    "fallbacks",
    "fallbacks below pageblock order",
    *PAIRS,
    "fallbacks claim",
    "fallbacks steal",
    "pages taken under the zone lock",
    "pages drained to the zone",
    "free blocks of order 9 at the end",
    "free blocks of order 10 at the end",
    "mixed pageblocks at the end",
    "foreign pages at the end",
)
HEADLINE = "fallbacks"
BELOW_MIN = "allocs below min everywhere"  # shown by recording, as the headline is

# The margin is this quantile of the errors; between 70 and 90 % of unseen values should lie within.
SHARE = 0.8
CONFIDENCE = 0.8
# A metric that fewer calibration recordings have gets no margin of its own.
_LEAST = 8
_KINDS = (*interval.KINDS, interval.FEEDBACK)
_BINS = 6  # of the rank histogram


@dataclass(frozen=True)
class Pair:
    """One metric of one recording."""

    recording: str
    half: str  # calibration or check
    kind: str  # of interval.KINDS
    metric: str
    unit: str
    recorded: float
    plain: float  # one run, without changes
    members: list[float]
    most: float | None  # the largest value that the metric can have

    @property
    def error(self) -> float:
        """How far the recorded value lies outside the members' 10 to 90 %, on the scale of
        intervals; 0 inside."""
        _, low, high = interval.spread(self.members, self.unit)
        value = interval.scaled(self.recorded, self.unit)
        return max(low - value, value - high, 0.0)

    @property
    def occurs(self) -> bool:
        """Whether the recording or a member has any of it. What neither has cannot be missed."""
        return bool(self.recorded or any(self.members))

    def within(self) -> bool:
        low, high = self.width
        return low <= self.recorded <= high

    @property
    def width(self) -> tuple[float, float]:
        """The limits of the interval."""
        found = interval.interval(self.metric, self.unit, self.members, self.kind, self.most)
        return found.low, found.high

    @property
    def rank(self) -> float:
        """The share of members below the recorded value; equal ones count half."""
        below = sum(value < self.recorded for value in self.members)
        equal = sum(value == self.recorded for value in self.members)
        return (below + equal / 2) / len(self.members)

    def crps(self, values: Sequence[float]) -> float:
        """The CRPS of values as a prediction, on the scale of intervals. For one value it is its
        distance from the recorded value."""
        found = [interval.scaled(value, self.unit) for value in values]
        truth = interval.scaled(self.recorded, self.unit)
        far = mean(abs(value - truth) for value in found)
        return far - mean(abs(a - b) for a in found for b in found) / 2


def measure(path: Path, nr: int, jobs: int | None, reclaim: str) -> Iterator[Pair]:
    """Every metric of a recording that both the record and the members have."""
    tape = Tape(path)
    unseen = {one.name for one in corpus.drawn() if one.half == "unseen"}
    unseen |= {n for one in programs.programs() if one.half == "unseen" for n in one.recordings}
    half = "check" if path.stem in unseen else "calibration"
    source = recordings.source(tape)
    run = Run("auto", (), reclaim)
    rows = ensemble.with_own(source, run, nr, threads=jobs).to_pylist()
    plain = {row["metric"]: row["model"] for row in model_error.measure(source, run).to_pylist()}
    members: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        if number(row["metric"], row["value"]) is not None:
            members.setdefault(row["metric"], []).append(row["value"])
    kind = interval.kind_of(replay_span.kind(tape), reclaim)
    for metric, row in model_error.recorded_metrics(tape).items():
        known = number(metric, row["value"]) is not None
        if known and metric in members and metric not in interval.GIVEN:
            yield Pair(
                path.stem,
                half,
                kind,
                metric,
                row["unit"],
                row["value"],
                plain.get(metric) or 0,
                members[metric],
                row["most"],
            )


def margins(pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """The margins of each kind: of every metric, a quantile of its errors where it occurs; where
    few recordings have any of it, of all."""
    measured: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        if pair.half == "calibration":
            measured.setdefault((pair.kind, pair.metric), []).append(pair)
    found: dict[str, dict[str, float]] = {}
    for (kind, metric), those in measured.items():
        having = [pair for pair in those if pair.occurs]
        errors = [pair.error for pair in (having if len(having) >= _LEAST else those)]
        if len(errors) >= _LEAST:
            found.setdefault(kind, {})[metric] = round(_margin(errors), 4)
    return found


def _margin(errors: Sequence[float]) -> float:
    """The least error that, in CONFIDENCE of such samples, is at least the quantile SHARE of all
    errors: a tolerance limit. The largest, if the sample is too small for that."""
    nr, below = len(errors), 0.0
    for place, error in enumerate(sorted(errors)):
        below += math.comb(nr, place) * SHARE**place * (1 - SHARE) ** (nr - place)
        if below >= CONFIDENCE:
            return error
    return max(errors)


def write_margins(found: dict[str, dict[str, float]], numbers: dict[str, int]) -> None:
    """Write these margins into calibration.toml; those of other kinds stay."""
    found = interval.margins() | found
    numbers = tomllib.loads(SOURCE.read_text("utf-8"))["recordings"] | numbers
    metrics = dict.fromkeys(metric for those in found.values() for metric in those)
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Written by `make calibration`. Do not edit.",
        "#",
        "# How far intervals are widened beyond the members' 10 to 90 %, by metric and kind of",
        "# recording: as a logarithm of (count + 5), for units of 1/1000 as a number.",
        "",
        "[recordings]  # of the calibration",
        *(f"{kind} = {nr}" for kind, nr in numbers.items()),
    ]
    lines += ["", "[margins]"]
    for metric in metrics:
        row = ", ".join(
            f"{kind} = {found[kind][metric]}" for kind in found if metric in found[kind]
        )
        lines.append(f'"{metric}" = {{ {row} }}')
    text = "\n".join(lines) + "\n"
    for path in {SOURCE, MARGINS}:  # the installed one, to check with
        path.write_text(text, "utf-8")
    interval.margins.cache_clear()


def _share(pairs: Sequence[Pair], test: Callable[[Pair], bool]) -> list[float | int] | None:
    nr = sum(test(pair) for pair in pairs)
    return [float(round(100 * nr / len(pairs))), len(pairs)] if pairs else None


def _too_wide(pair: Pair) -> bool:
    low, high = pair.width
    return high - low > 20 and high > 3 * low


def _groups(pairs: Sequence[Pair]) -> Iterator[tuple[str, str, list[Pair]]]:
    """The pairs of each half and kind of recording."""
    for half in ("calibration", "check"):
        for kind in _KINDS:
            if those := [p for p in pairs if p.half == half and p.kind == kind]:
                yield half, kind, those


def _ranks(pairs: Sequence[Pair]) -> list[float]:
    """The shares of the recorded values by their rank among the members, in per cent."""
    bins = [0] * _BINS
    for pair in pairs:
        bins[min(int(pair.rank * _BINS), _BINS - 1)] += 1
    return [round(100 * nr / len(pairs)) for nr in bins]


def _checked(pairs: Sequence[Pair]) -> list[Pair]:
    return [p for p in pairs if p.metric in CHECKED and p.occurs]


def _by_recording(pairs: Sequence[Pair], metric: str, recorded: str) -> dict[str, Any]:
    """One metric of every recording that has a value of it."""
    rows = []
    for p in sorted(pairs, key=lambda p: (p.half, p.recording)):
        if p.metric == metric:
            within = "yes" if p.within() else "no"
            found = [p.recorded, median(p.members), list(p.width), within]
            rows.append([p.recording, p.half, p.kind, *found])
    names = ("recording", "half", "is", recorded, "median", "80 % interval", "within")
    return table(names, rows)


def tables(pairs: Sequence[Pair]) -> dict[str, Any]:
    """The tables of the calibration."""
    checked = _checked(pairs)
    coverage = []
    for half, kind, those in _groups(pairs):
        of = _checked(those)
        headline = [p for p in those if p.metric == HEADLINE]
        shares = [_share(of, lambda p: p.error == 0), _share(of, Pair.within)]
        shares += [_share(headline, Pair.within), _share(headline, _too_wide)]
        coverage.append([half, kind, len({p.recording for p in those}), *shares])
    by_metric = []
    for metric in CHECKED:
        halves = [
            _share([p for p in checked if p.metric == metric and p.half == half], Pair.within)
            for half in ("calibration", "check")
        ]
        known = interval.margins().get("whole", {}).get(metric)
        by_metric.append([metric, *halves, None if known is None else round(math.exp(known), 2)])
    ranks, scores = [], []
    for half, kind, those in _groups(checked):
        ranks.append([half, kind, *_ranks(those)])
        before, after = (
            mean(p.crps([p.plain]) for p in those),
            mean(p.crps(p.members) for p in those),
        )
        scores.append([half, kind, round(before, 3), round(after, 3)])
    bins = [f"{100 * i // _BINS} to {100 * (i + 1) // _BINS} %" for i in range(_BINS)]
    group = ("half", "recordings that are")
    wide = "fallbacks, interval wider than a factor of 3"
    widened = "widened by the factor (whole)"
    return {
        "coverage": table(
            (*group, "recordings", "members' 10 to 90 %", "80 % interval", "fallbacks", wide),
            coverage,
        ),
        "by_metric": table(("metric", "within, calibration", "within, check", widened), by_metric),
        "ranks": table((*group, *bins), ranks),
        "crps": table((*group, "one run", "ensemble"), scores),
        "fallbacks": _by_recording(pairs, HEADLINE, "fallbacks recorded"),
        "below_min": _by_recording(pairs, BELOW_MIN, "requests recorded"),
    }


def main() -> None:
    """Measure and calibrate."""
    parser = program.parser(__doc__)
    parser.add_argument("--check", action="store_true", help="leave the margins as they are")
    parser.add_argument("--reclaim", choices=("R0", "R1"), default="R0")
    parser.add_argument("--events", choices=(zone_events.NAME,))
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("recordings", type=Path, nargs="+")
    arguments = parser.parse_args()
    pairs: list[Pair] = []
    for path in recordings.tapes(arguments.recordings):
        program.say(f"{path.name} ...")
        with recordings.projected(path, arguments.events) as tape:
            pairs += measure(tape, arguments.members, arguments.jobs, arguments.reclaim)
    if not arguments.check and arguments.events is None:
        kinds = sorted({p.kind for p in pairs}, key=_KINDS.index)
        numbers = {
            kind: len({p.recording for p in pairs if p.kind == kind and p.half == "calibration"})
            for kind in kinds
        }
        write_margins(margins(pairs), numbers)
    program.give(tables(pairs))


if __name__ == "__main__":
    program.run(main)
