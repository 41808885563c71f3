# SPDX-License-Identifier: Apache-2.0
"""The live ratio of a metric beside its prediction.

    live ratio   median of the runs under the new value / median of the runs under the old one.
                 Its spread is from the smallest to the largest ratio of any two such runs.
    prediction   from the tapes of the old value alone: the ratio of the model under the new value
                 and of the model under the tape's own rules, member by member, as an 80 % interval
    agrees       the live runs show a difference, and so does the prediction: its interval excludes
                 1, has the live ratio, and the sign is the same
    wrong        the live runs show a difference of the other sign, or the interval does not meet
                 their spread
    no difference shown: neither by the live runs nor by the prediction
    within noise none of these: equal runs differ by as much as the prediction is off, or only one
                 of the two shows a difference

A pair with a partial tape does not count (result.py). Runs show a difference if the spread of
their ratio excludes 1. Ratios are of counts plus 5, so that
counts near 0 do not decide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pagetape.asking.interval import OFFSET, Ratio

AGREES, NONE, NOISE, WRONG = "agrees", "no difference shown", "within noise", "wrong"


def live_ratio(old: Sequence[float], new: Sequence[float]) -> Ratio:
    """The ratio of the medians, and the ratios of the runs that are farthest apart."""

    def of(above: float, below: float) -> float:
        return (above + OFFSET) / (below + OFFSET)

    return Ratio(of(median(new), median(old)), of(min(new), max(old)), of(max(new), min(old)))


def sign(ratio: float) -> int:
    """-1: fewer; 0: the same; 1: more. A rounding error of a logarithm is no difference."""
    return 0 if math.isclose(ratio, 1, rel_tol=1e-9) else -1 if ratio < 1 else 1


def verdict(live: Ratio, predicted: Ratio) -> str:
    """Whether the prediction agrees with the live runs."""
    if not live.shown and not predicted.shown:
        return NONE
    meets = predicted.low <= live.high and live.low <= predicted.high
    if not meets or (live.shown and sign(predicted.value) != sign(live.value)):
        return WRONG
    inside = predicted.low <= live.value <= predicted.high
    return AGREES if live.shown and predicted.shown and inside else NOISE


@dataclass(frozen=True)
class Recorded:
    """A metric of the recordings: one value per run, in their order."""

    a: Sequence[float]
    b: Sequence[float]

    def per_1000(self, others: "Recorded") -> "Recorded":
        """The values of each run, per 1000 of another metric of that run."""
        sides = ((self.a, others.a), (self.b, others.b))
        return Recorded(
            *([1000 * n / max(of, 1) for n, of in zip(*side, strict=True)] for side in sides)
        )

    def ratio(self, source: str) -> Ratio:
        """The live ratio as seen from the tapes of one side: the other side / this one."""
        return live_ratio(self.a, self.b) if source == "A" else live_ratio(self.b, self.a)
