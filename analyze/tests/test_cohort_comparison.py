# SPDX-License-Identifier: Apache-2.0
"""Regressions between cohorts: hand-made hosts, false alarms of equal cohorts, true differences."""

import math
import random

import pytest

from pagetape.fleet import cohort_comparison
from pagetape.fleet.cohort_comparison import Question, compare, regressions


def hosts(*values: float, name: str = "h") -> dict[str, float]:
    return {f"{name}{i}": value for i, value in enumerate(values)}


def test_different_hosts_are_compared_by_their_ranks() -> None:
    base, other = hosts(1, 2, 3, 4, 5), hosts(6, 7, 8, 9, 10, name="o")
    found = compare(base, other)
    assert found is not None and not found.paired
    assert found.p == pytest.approx(2 / math.comb(10, 5)) == found.least_p
    assert (found.medians, found.share_higher, found.ratio) == ((3, 8), 1, 9 / 4)


def test_the_same_hosts_are_compared_with_themselves() -> None:
    """Their levels differ by far more than the change."""
    base = hosts(*(10.0**i for i in range(7)))
    other = {host: value * 1.2 + 1 for host, value in base.items()}
    found = compare(base, other)
    assert found is not None and found.paired and found.hosts == (7, 7)
    assert found.p == 2 / 2**7
    apart = compare(base, {f"new {host}": value for host, value in other.items()})
    assert apart is not None and apart.p > 0.5


def test_hosts_of_both_cohorts_do_not_count_where_few_are() -> None:
    base, other = hosts(*range(1, 9)), hosts(*range(11, 19), name="o") | {"h0": 99.0}
    found = compare(base, other)
    assert found is not None and (found.paired, found.hosts) == (False, (7, 8))


def test_the_share_of_pairs_counts_equal_ones_half() -> None:
    found = compare(hosts(1, 1, 2), hosts(1, 3, name="o"))
    assert found is not None and found.share_higher == pytest.approx((1 + 3) / 6)


def question(
    metric: str, base: dict[str, float], other: dict[str, float], good: int = -1
) -> Question:
    return Question(metric, "1/h", good, "new", base, other)


def test_a_verdict_has_the_direction_that_is_good() -> None:
    low, high = hosts(*range(1, 9)), hosts(*range(21, 29), name="o")
    for good, verdict in ((-1, "worse"), (1, "better"), (0, "higher")):
        (row,) = regressions([question("m", low, high, good)], "old")
        assert (row["verdict"], row["base"], row["cohort"]) == (verdict, "old", "new")
    (row,) = regressions([question("m", high, low)], "old")
    assert row["verdict"] == "better" and row["ratio"] < 1


def test_cohorts_too_small_for_evidence_are_called_so() -> None:
    (row,) = regressions([question("m", hosts(1, 2, 3), hosts(7, 8, 9, name="o"))], "old")
    assert row["verdict"] == cohort_comparison.TOO_FEW
    # 8 + 8 hosts show one metric, but not one of a thousand.
    asked = [
        question(f"m{i}", hosts(*range(8)), hosts(*range(9, 17), name="o")) for i in range(1000)
    ]
    assert {row["verdict"] for row in regressions(asked, "old")} == {cohort_comparison.TOO_FEW}


def test_a_metric_that_no_host_has_is_left_out() -> None:
    asked = [question("none", hosts(0, 0, 0, 0), hosts(0, 0, 0, 0, name="o"))]
    assert regressions(asked, "old") == []


def simulated(
    draw: random.Random, nr: int, name: str, shift: float = 0.0, metrics: int = 12
) -> list[dict[str, float]]:
    """Rates of hosts: skewed, alike on one host, often 0; metric 0 is `shift` higher (log)."""
    levels = [draw.gauss(0, 1) for _ in range(nr)]
    return [
        {
            f"{name}{i}": 0.0
            if draw.random() < 0.3
            else math.exp(1 + level + draw.gauss(0, 0.7) + (0 if metric else shift))
            for i, level in enumerate(levels)
        }
        for metric in range(metrics)
    ]


def alarms(base: list[dict[str, float]], other: list[dict[str, float]]) -> list[str]:
    """The metrics that are called better or worse."""
    asked = [question(str(i), *pair) for i, pair in enumerate(zip(base, other, strict=True))]
    found = regressions(asked, "old")
    return [row["metric"] for row in found if row["verdict"] in ("better", "worse")]


def test_equal_cohorts_rarely_raise_an_alarm() -> None:
    """In at most 5 % of the reports, each of 12 metrics."""
    draw, wrong = random.Random(7), 0
    for _ in range(100):
        wrong += bool(alarms(simulated(draw, 25, "b"), simulated(draw, 40, "o")))
    assert wrong <= 10


def test_equal_days_of_the_same_hosts_rarely_raise_an_alarm() -> None:
    draw, wrong = random.Random(8), 0
    for _ in range(100):
        base = simulated(draw, 30, "b")
        other = [{h: v * math.exp(draw.gauss(0, 0.5)) for h, v in rates.items()} for rates in base]
        wrong += bool(alarms(base, other))
    assert wrong <= 10


def test_a_regression_is_found_and_only_that_one() -> None:
    draw, found = random.Random(9), []
    for _ in range(10):
        found += alarms(simulated(draw, 120, "b"), simulated(draw, 120, "o", shift=1.5))
    assert found.count("0") >= 9 and len(found) - found.count("0") <= 1


def test_more_events_on_one_host_are_no_regression() -> None:
    """A million events of one machine are one host."""
    base, other = hosts(*[3.0] * 20), hosts(*[3.0] * 19, 1e6, name="o")
    (row,) = regressions([question("m", base, other)], "old")
    assert row["verdict"] == cohort_comparison.NONE and row["ratio"] == 1
