# SPDX-License-Identifier: Apache-2.0
"""The reports on kswapd, on a tape of a kernel that records its passes and failures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import write_reclaim

Run = Callable[..., Any]

WAKE = {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 3}
BEGIN = {"kind": "balance_pgdat_begin", "zone": "NORMAL", "page_order": 3}
END = {"kind": "balance_pgdat_end", "zone": "NORMAL"}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Four passes: one ends at order 0, two fail, one succeeds."""
    rows = [
        (0, {"kind": "wakeup_kswapd", "zone": "NORMAL", "page_order": 3}),
        (1, WAKE),
        (1, BEGIN),
        (3, END | {"page_order": 0, "nr_reclaimed": 640}),
        (4, WAKE),
        (4, BEGIN),
        (5, {"kind": "kswapd_reclaim_fail", "failures": 1}),
        (5, END | {"page_order": 3, "nr_reclaimed": 0}),
        (6, WAKE),
        (6, BEGIN),
        (7, {"kind": "kswapd_reclaim_fail", "failures": 2}),
        (7, END | {"page_order": 3, "nr_reclaimed": 0}),
        (8, WAKE),
        (8, BEGIN),
        (9, {"kind": "kswapd_clear_hopeless", "reason": 1}),
        (14, END | {"page_order": 3, "nr_reclaimed": 32}),
        (15, {"kind": "kswapd_sleep"}),
    ]
    return write_reclaim(tmp_path / "kswapd.tape", rows)


def test_the_balance_of_kswapd_has_its_failures(tape: Path, pagetape: Run) -> None:
    (row,) = pagetape("report", "kswapd.balance", tape, "--json").json["rows"]
    assert (row["passes"], row["sleeps"]) == (4, 1)
    assert (row["failures"], row["most_failures"], row["clears"]) == (2, 2, 1)
    assert (row["pass_reclaimed"], row["lower_order"]) == (672, 1)


def test_a_kernel_without_these_events_has_no_such_numbers(golden: Path, pagetape: Run) -> None:
    (row,) = pagetape("report", "kswapd.balance", golden, "--json").json["rows"]
    new = ("failures", "most_failures", "clears", "pass_reclaimed", "lower_order")
    assert [row[name] for name in new] == [None] * 5


def test_the_summary_times_the_passes(tape: Path, pagetape: Run) -> None:
    rows = pagetape("report", "reclaim.summary", tape, "--json").json["rows"]
    found = {row["what"]: row for row in rows}
    assert {name: row["nr"] for name, row in found.items()} == {
        "wakeup_kswapd": 1,
        "kswapd_wake": 4,
        "kswapd_sleep": 1,
        "balance_pgdat": 4,
        "kswapd_reclaim_fail": 2,
        "kswapd_clear_hopeless": 1,
    }
    passes = found["balance_pgdat"]
    assert (passes["pages"], passes["total_ms"], passes["max_ms"]) == (672, 10, 6)
