# SPDX-License-Identifier: Apache-2.0
"""Calibrated 80 % intervals from the members of ensembles.

The spread of the members shows how far chaos carries a run. It does not show where the model is
wrong. Its 10 to 90 % interval is therefore widened by a margin for each metric: conformal
prediction, from the errors on recordings reserved for that (calibration.toml, written
by `make calibration`). The margin is a factor: counts of 5 and of 5,000 are compared by the
logarithm of the count plus 5.

A recording is *whole* if it begins with an exact snapshot and lost no event, otherwise *partial*.
Each kind has its own margins, and so have runs whose reclaim and compaction are the model's own
(R1, R2). Under R0 an interval reaches at most a factor of the square root of 3 from its median:
where members spread further, the recorded values did not.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import median

# Added to a count before its logarithm: small counts differ by chance.
OFFSET = 5

# Recordings of each kind have margins of their own.
KINDS = ("whole", "partial")

# A start without kpageflags has the margins of partial recordings. Its counts of fallbacks reach
# farther from their median, and by more beyond the members: what six of eight recordings needed
# (table counts.tapes of analyze/lab/results.json); the others are not followed from any start.
COUNTS = "counts"
_MORE_COUNTS = 0.37
_MOST_COUNTS = 3.0
_OF_FALLBACKS = ("fallbacks", "mixing ")

RECORDINGS = (*KINDS, COUNTS)  # the surest first

# Runs with reclaim of the model's own have one set of margins for both kinds: its error outweighs
# that of the start.
FEEDBACK = "feedback"

# The farthest that an interval reaches from its median: as a factor, a little less than the square
# root of 3 because limits are rounded outward, and in units for small counts.
_MOST = math.sqrt(2.9)
_MOST_UNITS = 10
_MOST_FEEDBACK = 4.0

# The requests determine it: no rules can change it. Frees depend on the moves of compaction, too.
GIVEN = frozenset({"allocs"})

# Metrics of the model's own reclaim and compaction begin so.
_FEEDBACK = ("kswapd ", "kcompactd ", "direct reclaims")

# Shares and indices by order and zone: their names begin so.
_SHARES = ("unusable free space ", "fragmentation index ", "success of huge pages ")

_DECILE = 0.1


@dataclass(frozen=True)
class Interval:
    """The members of one metric: their median, and the calibrated 80 % interval."""

    median: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Paired:
    """Members of two runs compared seed by seed: this one less its reference."""

    value: float  # of the medians
    low: float
    high: float
    percent: float | None  # of the reference's median

    @property
    def shown(self) -> bool:
        """Whether the interval excludes 0: the rules make a difference."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Ratio:
    """A ratio of two counts, and its limits. 5 is added to each count, so that counts near 0 do
    not decide."""

    value: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """Whether the limits exclude 1: there is a difference."""
        return self.low > 1 or self.high < 1


@cache
def margins() -> dict[str, dict[str, float]]:
    """The margins by kind of recording and metric."""
    text = resources.files("pagetape.asking").joinpath("calibration.toml").read_text("utf-8")
    rows = tomllib.loads(text)["margins"].items()
    return {
        kind: {metric: row[kind] for metric, row in rows if kind in row}
        for kind in (*KINDS, FEEDBACK)
    }


def kind_of(recording: str, reclaim: str | None) -> str:
    """The margins of a run: those of its recording's kind, or FEEDBACK."""
    return recording if reclaim in (None, "R0") else FEEDBACK


def margin(metric: str, kind: str) -> float:
    """The margin of a metric; one that no recording has gets the margin of the most alike."""
    if kind == COUNTS:
        more = _MORE_COUNTS if metric.startswith(_OF_FALLBACKS) else 0.0
        return margin(metric, KINDS[-1]) + (0.0 if metric in GIVEN else more)
    known = margins()[kind]
    if metric in GIVEN:
        return 0.0
    if metric in known:
        return known[metric]
    if same := _of_one_kind(metric, known):
        return max(same)
    if metric.startswith(_FEEDBACK):  # not calibrated: the widest margin of fallbacks
        return max(margins()[kind]["fallbacks"] for kind in KINDS)
    alike = {"fallbacks": "fallbacks", "mixing": "fallbacks", "free pages": "free pages at the end"}
    found = (of for start, of in alike.items() if metric.startswith(start))
    return known[next(found, "pages drained to the zone")]


def _of_one_kind(metric: str, known: dict[str, float]) -> list[float]:
    """The margins of the same share or index for other orders and zones."""
    name = next((name for name in _SHARES if metric.startswith(name)), None)
    return [value for other, value in known.items() if name and other.startswith(name)]


# The unit of shares and indices: no counts.
INDEX = "1/1000"


def scaled(value: float, unit: str) -> float:
    """A value on the scale on which intervals are made."""
    return value / 1000 if unit == INDEX else math.log(max(value, 0) + OFFSET)


def unscaled(value: float, unit: str) -> float:
    return max(value * 1000 if unit == INDEX else math.exp(value) - OFFSET, 0.0)


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile of sorted values, between two of them if need be."""
    place = share * (len(values) - 1)
    first = int(place)
    return values[first] + (values[min(first + 1, len(values) - 1)] - values[first]) * (
        place - first
    )


def spread(values: Sequence[float], unit: str) -> tuple[float, float, float]:
    """The median and the 10 to 90 % interval of the members, scaled."""
    found = sorted(scaled(value, unit) for value in values)
    middle = scaled(median(values), unit)
    low, high = quantile(found, _DECILE), quantile(found, 1 - _DECILE)
    return middle, min(low, middle), max(high, middle)


def widened(
    found: tuple[float, float, float], margin: float, unit: str, most_factor: float = _MOST
) -> tuple[float, float, float]:
    """The calibrated interval of a spread: median, low, high, as values. For a count it reaches at
    most `most_factor` from its median, or a few units."""
    middle, low, high = found[0], found[1] - margin, found[2] + margin
    centre = unscaled(middle, unit)
    least, most = unscaled(low, unit), unscaled(high, unit)
    if unit != INDEX:
        small = centre - centre / most_factor < _MOST_UNITS
        least = max(least, centre - _MOST_UNITS if small else centre / most_factor)
        most = min(most, centre + _MOST_UNITS if small else centre * most_factor)
    return centre, least, most


def interval(
    metric: str, unit: str, values: Sequence[float], kind: str, most: float | None = None
) -> Interval:
    """The interval of a metric from its members' values; `kind` is one of RECORDINGS or FEEDBACK.

    The limits stay between 0 and `most`, the largest value that the metric can have (column of the
    report `metrics`).
    """
    if metric in GIVEN:
        return Interval(median(values), min(values), max(values))
    farther = kind == COUNTS and metric.startswith(_OF_FALLBACKS)
    factor = _MOST_FEEDBACK if kind == FEEDBACK else _MOST_COUNTS if farther else _MOST
    found = widened(spread(values, unit), margin(metric, kind), unit, factor)
    low, high = _whole(math.floor, found[1]), _whole(math.ceil, found[2])
    if kind != FEEDBACK and not farther and unit != INDEX:  # rounding makes it no wider than that
        high = min(high, max(3 * low, low + 2 * _MOST_UNITS))
    limit = math.inf if most is None else max(most, *values)
    return Interval(median(values), min(low, limit), min(high, limit))


def _whole(rounded: Callable[[float], int], value: float) -> int:
    """A limit as a whole number; rounding errors of the logarithm do not move it."""
    near = round(value)
    return near if abs(value - near) < 1e-6 else rounded(value)


def paired(
    metric: str,
    unit: str,
    pairs: Iterable[tuple[float, float]],
    kind: str,
    reclaim: str | None = "R0",
    most: float | None = None,
) -> Paired:
    """The difference of two runs, from pairs of values of the same seeds. `kind` is one of
    RECORDINGS, `reclaim` the mode of both runs, `most` as for interval().

    The value is the difference of the two medians, so that it is what a reader of both finds. The
    interval is of the differences seed by seed.

    What both runs share cancels, chaos and the model's bias alike. If the model counts too many by
    some factor, it does so in both: the difference is then wrong by that factor, so its limits
    move by the margin, but not across 0, nor below what the other run can have counted or above
    what this one can.
    """
    this, own = zip(*pairs, strict=True)
    found = sorted(a - b for a, b in zip(this, own, strict=True))
    low, high = quantile(found, _DECILE), quantile(found, 1 - _DECILE)
    if found[0] or found[-1]:
        factor = 1.0 if unit == INDEX else math.exp(margin(metric, kind))
        low = min(low * factor, low / factor)
        high = max(high * factor, high / factor)
        if low == high:  # the members agree: still one unit, unless nothing changed
            low, high = low - 1, high + 1
    base = median(own)
    value = median(this) - base
    # It cannot fall by more than it can have been, nor rise above the most that it can be.
    limits, its = (interval(metric, unit, of, kind_of(kind, reclaim), most) for of in (own, this))
    low = min(max(low, -limits.high), value)
    high = max(min(high, its.high if most is None else min(its.high, most - limits.low)), value)
    return Paired(
        value,
        _whole(math.floor, low),
        _whole(math.ceil, high),
        100 * value / base if base else None,
    )


def ratio(metric: str, this: Sequence[float], own: Sequence[float], kind: str) -> Ratio:
    """The ratio of two runs, from values in the order of the same seeds: median, and 80 % interval.

    What both runs share cancels. The margin of the metric widens the interval once: of the model's
    errors in the two runs, the part that they do not share is unknown.
    """
    found = sorted(
        scaled(a, "events") - scaled(b, "events") for a, b in zip(this, own, strict=True)
    )
    wider = margin(metric, kind)
    low, high = quantile(found, _DECILE) - wider, quantile(found, 1 - _DECILE) + wider
    return Ratio(math.exp(median(found)), math.exp(low), math.exp(high))


def paired_ratio(metric: str, this: Sequence[float], own: Sequence[float], kind: str) -> Ratio:
    """The ratio of two runs, with limits that agree with paired(): from values in the order of the
    same seeds, `kind` one of KINDS.

    The model's error is in both runs, so it changes the size of the ratio and not its side of 1.
    """
    found = sorted(
        scaled(a, "events") - scaled(b, "events") for a, b in zip(this, own, strict=True)
    )
    low, high = quantile(found, _DECILE), quantile(found, 1 - _DECILE)
    factor = math.exp(margin(metric, kind))
    low, high = min(low * factor, low / factor), max(high * factor, high / factor)
    return Ratio(math.exp(median(found)), math.exp(low), math.exp(high))
