# SPDX-License-Identifier: Apache-2.0
"""Statistics over hosts: each host is one value, however many tapes or events it has.

Hosts are drawn from a fleet, events are not: a thousand events of one host say nothing about
another host. So no function here takes a number of events as a sample size.

    median_interval   the median over hosts, between two order statistics: no assumption about the
                      distribution, and at least the asked coverage for any number of hosts
    ratio_interval    medians of two cohorts, hosts resampled with replacement
    rank_test         two cohorts of different hosts: permutations of hosts between them
    signed_rank_test  the same hosts before and after: permutations of the sign of each difference
    holm              p values of several metrics, so that one false alarm in all stays rare

Permutations are counted exactly for a few hosts; for many hosts the normal limit of the same
permutations takes their place. Values may be infinite: only ranks are used, except for ratios.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from statistics import NormalDist, median

SHARE = 0.8  # of intervals, as those of a single run
_EXACT = 24  # hosts up to which permutations are counted
_DRAWS = 1000  # resamples of the hosts


@dataclass(frozen=True)
class Middle:
    """A median over hosts, and its interval; None if too few hosts say where it is."""

    value: float
    low: float | None
    high: float | None


def median_interval(values: Sequence[float]) -> Middle | None:
    """The median of the hosts' values, and the narrowest pair of order statistics that holds the
    fleet's median in at least SHARE of all samples; None without values."""
    if not values:
        return None
    ordered, nr = sorted(values), len(values)
    # The k lowest values are all below the fleet's median with the chance of k or more of nr coins.
    tail, k, chance = (1 - SHARE) / 2, 0, 0.5**nr if nr < 1000 else 0.0
    if nr < 1000:
        below = chance
        while below <= tail:
            k += 1
            chance *= (nr - k + 1) / k
            below += chance
    else:
        k = max(int(nr / 2 + NormalDist().inv_cdf(tail) * math.sqrt(nr) / 2 - 0.5), 0)
    found = median(ordered)
    return Middle(found, ordered[k - 1], ordered[-k]) if k else Middle(found, None, None)


def _resampled(ordered: Sequence[float], random: Random) -> float:
    """The median of hosts drawn with replacement: the host at a place with a beta distribution."""
    half = (len(ordered) + 1) / 2
    return ordered[min(int(len(ordered) * random.betavariate(half, half)), len(ordered) - 1)]


def ratio_interval(
    base: Sequence[float], other: Sequence[float], offset: float
) -> tuple[float, float, float]:
    """The ratio of the medians of two cohorts and its interval, hosts resampled in each cohort.

    `offset` is added to both medians, so that rates near 0 do not decide. Same input, same result.
    """
    random, ordered = Random(len(base) * 1_000_003 + len(other)), (sorted(base), sorted(other))
    drawn = sorted(
        math.log(
            (_resampled(ordered[1], random) + offset) / (_resampled(ordered[0], random) + offset)
        )
        for _ in range(_DRAWS)
    )
    first = int((1 - SHARE) / 2 * _DRAWS)
    found = (median(other) + offset) / (median(base) + offset)
    return found, math.exp(drawn[first]), math.exp(drawn[-1 - first])


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, before = [0] * len(values), 0
    for _, same in groupby(order, key=values.__getitem__):
        places = list(same)
        for place in places:
            ranks[place] = 2 * before + len(places) + 1
        before += len(places)
    return ranks


def _two_sided(distance: float, spread: float, step: float) -> float:
    """The chance of a value at least `distance` from the mean, of the normal limit."""
    if spread <= 0:
        return 1.0
    return min(2 * NormalDist().cdf(-max(distance - step, 0.0) / spread), 1.0)


def _share_beyond(counts: Sequence[int], total: float, distance: float) -> float:
    """The share of permutations whose sum is at least `distance` from their mean."""
    mean = total / sum(counts)
    beyond = sum(n for value, n in enumerate(counts) if abs(value - mean) >= distance - 1e-9)
    return beyond / sum(counts)


def rank_test(base: Sequence[float], other: Sequence[float]) -> float:
    """The share of permutations of the hosts between two cohorts whose rank sums differ at least as
    much: the two-sided p value of Wilcoxon's and Mann and Whitney's test."""
    nr, of = len(base), len(base) + len(other)
    ranks = _doubled_ranks([*base, *other])
    mean = nr * (of + 1)  # of the doubled rank sum of `base`
    distance = abs(sum(ranks[:nr]) - mean)
    if of <= _EXACT:
        # ways[n][s]: subsets of n hosts with the doubled rank sum s
        ways = [[0] * (sum(ranks) + 1) for _ in range(nr + 1)]
        ways[0][0] = 1
        for rank in ranks:
            for n in range(nr, 0, -1):
                for s, count in enumerate(ways[n - 1][: len(ways[n]) - rank]):
                    if count:
                        ways[n][s + rank] += count
        counts = ways[nr]
        return _share_beyond(counts, sum(s * n for s, n in enumerate(counts)), distance)
    squares = sum((rank - (of + 1)) ** 2 for rank in ranks)
    variance = nr * len(other) / (of * (of - 1)) * squares
    return _two_sided(distance, math.sqrt(variance), 1)


def signed_rank_test(differences: Sequence[float]) -> float:
    """The share of permutations of signs whose signed rank sums are at least as far from 0: the
    two-sided p value of Wilcoxon's test. Hosts without a difference do not take part."""
    moved = [value for value in differences if value]
    ranks = _doubled_ranks([abs(value) for value in moved])
    up = sum(rank for rank, value in zip(ranks, moved, strict=True) if value > 0)
    distance = abs(up - sum(ranks) / 2)
    if len(moved) <= _EXACT:
        counts = [1] + [0] * sum(ranks)
        for rank in ranks:
            for s in range(len(counts) - 1, rank - 1, -1):
                counts[s] += counts[s - rank]
        return _share_beyond(counts, sum(s * n for s, n in enumerate(counts)), distance)
    return _two_sided(distance, math.sqrt(sum(rank * rank for rank in ranks)) / 2, 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of a family of tests, so adjusted that one below a level is a false alarm in at
    most that share of all families (Holm's procedure)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        least = max(least, min((len(order) - place) * p_values[index], 1.0))
        adjusted[index] = least
    return adjusted
