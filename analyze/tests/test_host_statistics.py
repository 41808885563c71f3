# SPDX-License-Identifier: Apache-2.0
"""Statistics over hosts, against hand-made numbers, all permutations, and simulated fleets."""

import itertools
import math
import random
from collections.abc import Callable, Sequence

import pytest

from pagetape.fleet import host_statistics as statistics


def test_the_interval_of_a_median_has_two_hosts_as_limits() -> None:
    # Of 4 hosts, all are on one side of the fleet's median in 1 of 8 samples.
    found = statistics.median_interval([4.0, 1.0, 3.0, 2.0])
    assert found == statistics.Middle(2.5, 1.0, 4.0)
    # Of 7: at most one is below it in 8 of 128 samples, at most two in 29 of 128.
    found = statistics.median_interval([float(n) for n in range(7)])
    assert found == statistics.Middle(3.0, 1.0, 5.0)


def test_too_few_hosts_have_a_median_without_an_interval() -> None:
    assert statistics.median_interval([]) is None
    assert statistics.median_interval([1.0, 2.0, 6.0]) == statistics.Middle(2.0, None, None)


def test_an_infinite_effect_takes_part() -> None:
    found = statistics.median_interval([1.0, math.inf, 2.0, math.inf, 3.0])
    assert found == statistics.Middle(3.0, 1.0, math.inf)


@pytest.mark.parametrize("hosts", [4, 9, 40, 1500])
def test_the_interval_has_the_median_of_the_fleet(hosts: int) -> None:
    """In at least 80 % of simulated samples, of a skewed distribution with median 1."""
    draw = random.Random(hosts)
    times = 150 if hosts > 1000 else 800
    held = 0
    for _ in range(times):
        found = statistics.median_interval([math.exp(draw.gauss(0, 2)) for _ in range(hosts)])
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 1 <= found.high
    assert 0.77 < held / times < 0.97


@pytest.mark.parametrize("hosts", [6, 30])
def test_the_interval_of_a_ratio_has_the_true_one(hosts: int) -> None:
    draw = random.Random(hosts)
    held = 0
    for _ in range(150):
        base, other = (
            [scale * math.exp(draw.gauss(0, 1)) for _ in range(hosts)] for scale in (1.0, 3.0)
        )
        _, low, high = statistics.ratio_interval(base, other, 0.0)
        held += low <= 3 <= high
    assert 0.75 < held / 150 < 0.95


def test_the_same_hosts_have_the_same_interval() -> None:
    base, other = [1.0, 5.0, 2.0, 8.0, 3.0], [2.0, 9.0, 4.0, 7.0]
    assert statistics.ratio_interval(base, other, 1.0) == statistics.ratio_interval(
        base[::-1], other[::-1], 1.0
    )


def all_splits(base: Sequence[float], other: Sequence[float]) -> float:
    """The p value of the rank sum by trying every split of the hosts."""
    together = [*base, *other]
    ranks = [
        sum(x < y for x in together) + (sum(x == y for x in together) + 1) / 2 for y in together
    ]
    mean = sum(ranks) * len(base) / len(together)
    far = abs(sum(ranks[: len(base)]) - mean)
    sums = [sum(split) for split in itertools.combinations(ranks, len(base))]
    return sum(abs(found - mean) >= far - 1e-9 for found in sums) / len(sums)


def all_signs(differences: Sequence[float]) -> float:
    """The p value of the signed ranks by trying every combination of signs."""
    moved = [abs(value) for value in differences if value]
    ranks = [sum(x < y for x in moved) + (sum(x == y for x in moved) + 1) / 2 for y in moved]
    signs = [1 if value > 0 else -1 for value in differences if value]
    far = abs(sum(s * r for s, r in zip(signs, ranks, strict=True)))
    tried = [
        abs(sum(s * r for s, r in zip(some, ranks, strict=True))) >= far - 1e-9
        for some in itertools.product((-1, 1), repeat=len(ranks))
    ]
    return sum(tried) / len(tried)


def test_the_tests_count_every_permutation() -> None:
    draw = random.Random(1)
    for _ in range(40):
        base = [float(draw.randrange(5)) for _ in range(draw.randrange(1, 6))]
        other = [float(draw.randrange(6)) for _ in range(draw.randrange(1, 6))]
        assert statistics.rank_test(base, other) == pytest.approx(all_splits(base, other))
        both = [float(draw.randrange(-4, 5)) for _ in range(draw.randrange(1, 9))]
        assert statistics.signed_rank_test(both) == pytest.approx(all_signs(both))


@pytest.mark.parametrize(
    "test", [lambda v: statistics.rank_test(v[::2], v[1::2]), statistics.signed_rank_test]
)
def test_many_hosts_have_the_limit_of_the_permutations(
    test: Callable[[list[float]], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(3)
    for _ in range(5):
        values = [draw.gauss(0.3, 1) for _ in range(22)]
        exact = test(values)
        with monkeypatch.context() as patch:
            patch.setattr(statistics, "_EXACT", 0)
            assert test(values) == pytest.approx(exact, abs=0.02)


def test_hosts_that_do_not_differ_have_no_evidence() -> None:
    assert statistics.rank_test([2.0] * 3, [2.0] * 30) == 1
    assert statistics.signed_rank_test([0.0] * 30) == 1


def test_a_family_of_tests_is_adjusted_step_by_step() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.5]) == [0.04, 0.09, 0.09, 0.5]
    assert statistics.holm([0.4, 0.9]) == [0.8, 0.9]
    assert statistics.holm([]) == []
