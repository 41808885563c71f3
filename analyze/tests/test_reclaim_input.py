# SPDX-License-Identifier: Apache-2.0
"""What a replay with feedback takes from a recording's reclaim, and the wakes of kswapd."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.replaying import reclaim_input
from pagetape.schemas.tape import Tape

from .conftest import write_reclaim

Run = Callable[..., Any]

MS = 1_000_000


def _scan(reclaimed: int) -> dict[str, Any]:
    return {
        "kind": "lru_shrink_inactive",
        "nr_scanned": 64,
        "nr_reclaimed": reclaimed,
        "priority": 12,
    }


def _wakeup(zone: str = "NORMAL") -> dict[str, Any]:
    return {"kind": "wakeup_kswapd", "zone": zone, "page_order": 0, "pid": 9}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """One pass of kswapd with two scans; five calls of it."""
    rows = [
        (0, _wakeup()),
        (1, _wakeup()),
        (1, {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}),
        (3, _scan(2)),
        (5, _scan(1)),
        (6, _wakeup()),
        (8, {"kind": "kswapd_sleep"}),
        (9, _wakeup("DMA")),
        (10, _wakeup()),
    ]
    return write_reclaim(tmp_path / "reclaim.tape", rows)


def test_the_scans_are_those_of_kswapd(tape: Path) -> None:
    rows = reclaim_input.read(Tape(tape))["scan"].to_pylist()
    assert [(row["ts"] // MS, row["what"], row["scanned"], row["freed"]) for row in rows] == [
        (3, "kswapd", 64, 2),
        (5, "kswapd", 64, 1),
    ]


def test_only_the_first_call_since_a_pass_or_a_sleep_is_a_wake(tape: Path, pagetape: Run) -> None:
    rows = pagetape("report", "metrics", tape, "--json").json["rows"]
    found = {row["metric"]: row["value"] for row in rows}
    assert (found["kswapd wakeups"], found["kswapd passes"], found["kswapd sleeps"]) == (3, 1, 1)


def test_a_tape_without_a_check_of_kcompactd_still_shows_that_compaction_is_recorded(
    tmp_path: Path,
) -> None:
    suitable = {"kind": "suitable", "zone": "DMA", "page_order": 9}
    quiet = write_reclaim(tmp_path / "quiet.tape", [(n, suitable) for n in range(3)], "compaction")
    looks = reclaim_input.read(Tape(quiet))["compaction"]
    assert looks["kind"].to_pylist() == ["suitable"]
