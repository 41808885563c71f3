# SPDX-License-Identifier: Apache-2.0
"""Intervals of ensembles: their arithmetic, and that they cover what they say."""

import math
import random
from statistics import median

import calibration
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pagetape.asking import interval
from pagetape.asking.comparison import Difference
from pagetape.asking.phrase import between, change, number

COUNTS = st.lists(st.integers(0, 100_000), min_size=2, max_size=40)


def test_a_margin_widens_by_a_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "margin", lambda *_: 0.1)  # whatever the calibration found
    found = interval.interval("fallbacks", "events", [100] * 16, "whole")
    factor = math.exp(0.1)
    assert found.median == 100
    assert found.low == math.floor(105 / factor - 5)
    assert found.high == math.ceil(105 * factor - 5)
    assert found.low < 100 < found.high


def test_what_the_requests_determine_has_no_margin() -> None:
    found = interval.interval("allocs", "events", [79_540] * 16, "whole")
    assert (found.low, found.median, found.high) == (79_540, 79_540, 79_540)


@given(COUNTS, st.sampled_from(interval.KINDS))
def test_an_interval_has_its_median(values: list[int], kind: str) -> None:
    found = interval.interval("fallbacks", "events", values, kind)
    assert 0 <= found.low <= found.median <= found.high


@example([0, 33], "partial")
@example([0, 0, 71, 71], "whole")
@given(COUNTS, st.sampled_from(interval.KINDS))
def test_an_interval_is_at_most_a_factor_of_3(values: list[int], kind: str) -> None:
    found = interval.interval("fallbacks", "events", values, kind)
    assert found.high - found.low <= 20 or found.high <= 3 * found.low


@given(COUNTS)
def test_a_start_from_counts_widens_fallbacks_alone(values: list[int]) -> None:
    partial, counts = (
        interval.interval("fallbacks", "events", values, kind) for kind in ("partial", "counts")
    )
    assert counts.low <= partial.low <= counts.median <= partial.high <= counts.high
    assert counts.high <= max(3 * counts.median + 1, counts.median + 10)
    for name in ("pages drained to the zone", "free blocks of order 9 at the end"):
        same = [interval.interval(name, "pages", values, kind) for kind in ("partial", "counts")]
        assert same[0] == same[1]


SHARES = st.lists(st.integers(0, 1000), min_size=2, max_size=20)


@given(SHARES, st.sampled_from([*interval.KINDS, interval.FEEDBACK]))
def test_a_share_stays_a_share(values: list[int], kind: str) -> None:
    name = "unusable free space of order 9 at the end, node 1 DMA32"
    found = interval.interval(name, interval.INDEX, values, kind, 1000)
    assert 0 <= found.low <= found.median <= found.high <= 1000


@given(SHARES, SHARES)
def test_the_difference_of_shares_stays_possible(own: list[int], this: list[int]) -> None:
    nr = min(len(own), len(this))
    about = ("partial", "R0", 1000)
    name = "unusable free space of order 9 at the end, node 1 DMA32"
    found = interval.paired(name, interval.INDEX, zip(this[:nr], own[:nr], strict=True), *about)
    assert -1000 <= found.low <= found.value <= found.high <= 1000


@given(st.lists(st.integers(0, 200), min_size=2, max_size=20), st.sampled_from(interval.KINDS))
def test_no_more_pageblocks_are_mixed_than_there_are(values: list[int], kind: str) -> None:
    found = interval.interval("mixed pageblocks at the end", "blocks", values, kind, 200)
    assert 0 <= found.low <= found.median <= found.high <= 200


@given(COUNTS, st.integers(0, 1000))
def test_a_difference_is_that_of_the_medians(own: list[int], seed: int) -> None:
    draw = random.Random(seed)
    this = [max(value + draw.randint(-500, 500), 0) for value in own]
    found = interval.paired("fallbacks", "events", zip(this, own, strict=True), "whole")
    assert found.value == median(this) - median(own)
    assert found.low <= found.value <= found.high


def test_a_difference_is_no_more_than_the_run_can_have_counted() -> None:
    """Members of server.tape under R1: the margin of this metric alone would allow 3,418 more."""
    pairs = [(280, 233), (417, 254), (295, 239), (300, 233)]
    metric = "allocs below min everywhere"
    found = interval.paired(metric, "events", pairs, "whole", "R1")
    this = interval.interval(metric, "events", [280, 417, 295, 300], interval.FEEDBACK)
    assert found.value < found.high == this.high


def test_quantiles_lie_between_values() -> None:
    assert interval.quantile([0, 10], 0.1) == 1
    assert interval.quantile([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9) == 9
    assert interval.quantile([7], 0.1) == 7


def test_what_two_runs_share_cancels() -> None:
    own = [100, 900, 300, 2000, 150, 700, 400, 80]
    found = interval.paired("fallbacks", "events", [(value - 20, value) for value in own], "whole")
    assert found.value == -20 and found.shown
    assert found.low <= -20 <= found.high < 0


def test_members_that_agree_on_a_difference_leave_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "margin", lambda *_: 0.1)  # whatever the calibration found
    found = interval.paired("fallbacks claim", "events", [(5, 3)] * 8, "whole")
    assert found.low < 2 < found.high and found.shown


def test_the_same_members_have_no_difference() -> None:
    found = interval.paired("fallbacks", "events", [(5, 5), (7, 7)], "whole")
    assert (found.value, found.low, found.high, found.shown) == (0, 0, 0, False)


@given(COUNTS, st.integers(0, 1000))
def test_the_interval_of_a_difference_has_its_median(own: list[int], seed: int) -> None:
    draw = random.Random(seed)
    this = [max(value + draw.randint(-50, 50), 0) for value in own]
    found = interval.paired("fallbacks", "events", zip(this, own, strict=True), "whole")
    assert found.low <= found.value <= found.high


def test_a_metric_without_a_margin_gets_that_of_one_alike() -> None:
    for kind in interval.KINDS:
        alike = interval.margin("pages drained to the zone", kind)
        assert interval.margin("PCP refill pages", kind) == alike
        alike = interval.margin("fallbacks", kind)
        assert interval.margin("fallbacks for order 12", kind) == alike


def test_a_margin_comes_from_the_recordings_that_have_the_metric() -> None:
    """Of 40 recordings 20 have none of it, recorded or modelled: their errors of 0 do not count,
    but of a metric that four have."""

    def pair(nr: int, metric: str, recorded: float, half: str = "calibration") -> calibration.Pair:
        members = [10.0 if recorded else 0.0] * 16
        return calibration.Pair(
            str(nr), half, "whole", metric, "events", recorded, 0, members, None
        )

    pairs = [pair(nr, "often", 25 if nr < 20 else 0) for nr in range(40)]
    pairs += [pair(nr, "seldom", 25 if nr < 4 else 0) for nr in range(40)]
    pairs += [pair(nr, "often", 5000, "check") for nr in range(40)]
    assert calibration.margins(pairs) == {"whole": {"often": round(math.log(2), 4), "seldom": 0.0}}


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (Difference(-33, -37.3, -46, -22, True, True), "-33 (-37.3 %) [-46 to -22]"),
        (Difference(2.5, None, -1, 4, False, True), "no difference shown [-1 to +4]"),
        (Difference(-33, -37.3, -46, -22, True), "-33 (-37.3 %) [-46 to -22], not checked"),
        (Difference(None, None, shown=False, no_verdict="other unit"), "other unit"),
        (Difference(0, 0.0, 0, 0, False), "same"),
        (Difference(12, 10.0), "+12 (+10.0 %)"),
        (None, "-"),
    ],
)
def test_differences_in_words(given_: Difference | None, words: str) -> None:
    assert change(given_) == words


def test_numbers_in_words() -> None:
    assert [number(12345), number(88.5), number(None)] == ["12,345", "88.5", "-"]
    assert between(88.5, 68, 112) == "88.5 [68 to 112]"
    assert between(5, 5, 5) == "5"
