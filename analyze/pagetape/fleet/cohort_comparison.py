# SPDX-License-Identifier: Apache-2.0
"""Two cohorts of hosts compared: which metrics differ more than chance among hosts explains.

A cohort has one value of a metric for each of its hosts: events per hour, all its tapes together.
If most hosts are in both cohorts, as before and after an update, each host is compared with itself,
and the other hosts do not count. Otherwise the hosts that are in one cohort only are compared.

All comparisons of a report are one family: in at most 5 % of the reports on equal cohorts is there
a single false alarm, whatever the number of metrics. Metrics that are 0 on every host are left out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from pagetape.fleet.host_statistics import (
    holm,
    median_interval,
    rank_test,
    ratio_interval,
    signed_rank_test,
)

LEVEL = 0.05  # of false alarms among reports
_LEAST = 4  # hosts of a cohort that has an interval
OFFSET = 1.0  # per hour, added to rates before a ratio

TOO_FEW, NONE = "too few hosts", "no difference shown"

Values = Mapping[str, float]  # of the hosts of a cohort, by machine


class Compared(NamedTuple):
    """One metric of two cohorts."""

    paired: bool
    hosts: tuple[int, int]
    medians: tuple[float, float]
    ratio: float  # of the other cohort to the base
    low: float | None
    high: float | None
    share_higher: float  # of pairs of hosts in which the other cohort's is higher; equal ones half
    p: float
    least_p: float  # that so many hosts can show


def is_paired(base: Values, other: Values) -> bool:
    """Whether the cohorts are mostly the same hosts."""
    return 2 * len(base.keys() & other.keys()) >= min(len(base), len(other)) > 0


def compare(base: Values, other: Values) -> Compared | None:
    """None if a cohort has no host of its own."""
    both = base.keys() & other.keys()
    if is_paired(base, other):
        return _with_themselves(base, other, sorted(both))
    mine = [value for host, value in base.items() if host not in both]
    its = [value for host, value in other.items() if host not in both]
    if not mine or not its:
        return None
    ratio, low, high = ratio_interval(mine, its, OFFSET)
    known = min(len(mine), len(its)) >= _LEAST
    return Compared(
        False,
        (len(mine), len(its)),
        (median(mine), median(its)),
        ratio,
        low if known else None,
        high if known else None,
        _share_higher(mine, its),
        rank_test(mine, its),
        2 / math.comb(len(mine) + len(its), len(mine)),
    )


def _with_themselves(base: Values, other: Values, hosts: Sequence[str]) -> Compared:
    logs = [math.log((other[host] + OFFSET) / (base[host] + OFFSET)) for host in hosts]
    middle = median_interval(logs)
    assert middle is not None
    up = sum(log > 0 for log in logs) + sum(log == 0 for log in logs) / 2
    return Compared(
        True,
        (len(hosts), len(hosts)),
        (median(base[host] for host in hosts), median(other[host] for host in hosts)),
        math.exp(middle.value),
        None if middle.low is None else math.exp(middle.low),
        None if middle.high is None else math.exp(middle.high),
        up / len(hosts),
        signed_rank_test(logs),
        2.0 ** (1 - len(hosts)),
    )


def _share_higher(base: Sequence[float], other: Sequence[float]) -> float:
    """The share of the pairs of a value of each in which that of `other` is higher."""
    ordered, higher, below, equal = sorted(base), 0.0, 0, 0
    for value in sorted(other):
        while below < len(ordered) and ordered[below] < value:
            below += 1
        equal = max(equal, below)
        while equal < len(ordered) and ordered[equal] == value:
            equal += 1
        higher += (below + equal) / 2
    return higher / (len(base) * len(other))


class Question(NamedTuple):
    """One metric of one cohort beside the base."""

    metric: str
    unit: str
    good: int  # -1 if less is better, 1 if more is, 0 if neither
    cohort: str
    base: Values
    other: Values


def regressions(questions: Iterable[Question], base: str) -> list[dict[str, Any]]:
    """The rows of the report, as one family; the surest differences first."""
    asked = [q for q in questions if any(q.base.values()) or any(q.other.values())]
    found = [(q, c) for q in asked if (c := compare(q.base, q.other)) is not None]
    adjusted = holm([c.p for _, c in found])
    rows: list[dict[str, Any]] = [
        {
            "metric": q.metric,
            "unit": q.unit,
            "base": base,
            "cohort": q.cohort,
            "verdict": _verdict(q, c, p, len(found)),
            "ratio": c.ratio,
            "low": c.low,
            "high": c.high,
            "median_base": c.medians[0],
            "median_cohort": c.medians[1],
            "share_higher": 100 * c.share_higher,
            "p": p,
            "hosts_base": c.hosts[0],
            "hosts_cohort": c.hosts[1],
            "paired": c.paired,
        }
        for (q, c), p in zip(found, adjusted, strict=True)
    ]
    rows.sort(key=lambda row: (row["p"], -abs(math.log(row["ratio"])), row["metric"]))
    return rows


def _verdict(q: Question, found: Compared, adjusted: float, tests: int) -> str:
    if found.least_p * tests >= LEVEL:
        return TOO_FEW
    if adjusted >= LEVEL:
        return NONE
    sign = 1 if found.share_higher > 0.5 else -1
    if not q.good:
        return "higher" if sign > 0 else "lower"
    return "better" if sign == q.good else "worse"
