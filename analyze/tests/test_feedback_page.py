# SPDX-License-Identifier: Apache-2.0
"""analyze/lab/feedback_page.py: what its summary says of a half of the corpus."""

from statistics import median
from typing import Any

import feedback_page
import pytest


def _found(recorded: int, members: list[int], low: int, high: int) -> dict[str, Any]:
    made = {"median": median(members), "low": low, "high": high, "members": members}
    return {"recorded": recorded, "R1": made, "R0": made}


@pytest.mark.parametrize(
    ("members", "counts", "fallbacks"),
    [
        ([40, 40, 40, 40], 100, 100),
        # Each in turn is the kernel: 10 is off from 40, and each 40 is near the others.
        ([10, 40, 40, 40], 75, 75),
        ([10, 10, 40, 40], 0, 0),
        # A factor of 1.6 is too far for a count. R0's interval is as wide for fallbacks.
        ([100, 100, 160, 160], 0, 100),
    ],
)
def test_a_perfect_model_is_as_good_as_its_members_agree(
    members: list[int], counts: int, fallbacks: int
) -> None:
    one = _found(40, members, 22, 72)
    assert feedback_page.chaos([one], [one]) == (counts, fallbacks)


def test_the_summary_counts_the_recordings_where_r0_is_right() -> None:
    """R1 is in the interval of R0 on two recordings, and R0 is right on one of them."""
    right, wrong = _found(40, [40, 42], 30, 60), _found(400, [40, 42], 30, 60)
    own = {name: {} for name in ("passes", "sleeps", "kcompactd_wakes", "wakeups")}
    others = {
        name: {"own": {**own, "direct_reclaims": found, "fallbacks": found}}
        for name, found in (("a", right), ("b", wrong))
    }
    said = feedback_page.own_summary(others)
    assert "Of the counts, 1 of 2 (50 %) are within a factor of 1.5" in said
    assert "in the interval of R0 on 2 of 2 (100 %) recordings" in said
    assert "of the 1 where R0 is right, they are there on 1." in said
    assert "100 % of the counts" in said and "100 % of these 1" in said
