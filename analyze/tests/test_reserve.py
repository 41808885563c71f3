# SPDX-License-Identifier: Apache-2.0
"""MIGRATE_RESERVE on a recording of memory pressure: where the bug leaks, the fixes do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

TAPE = Path(__file__).parent / "data/pressure.tape"

Run = Callable[..., Any]


def integrity(pagetape: Run, folder: Path, mode: str) -> dict[str, int]:
    """The last line of every zone in the report, summed."""
    out = folder / f"{mode}.tape"
    policy = f"reserve:mode={mode},nr_reserve_blocks=4"
    assert pagetape("replay", TAPE, "--policy", policy, "-o", out).status == 0
    rows = pagetape("report", "reserve.integrity", out, "--json").json["rows"]
    last = {(row["node"], row["zone"]): row for row in rows}
    return {name: sum(row[name] for row in last.values()) for name in rows[0] if name != "zone"}


def test_fix1_keeps_every_page_of_the_reserve_home_where_the_bug_leaks(
    tmp_path: Path, pagetape: Run
) -> None:
    bug = integrity(pagetape, tmp_path, "bug")
    fix1 = integrity(pagetape, tmp_path, "fix1")
    assert bug["leaked"] > 1000 and bug["astray_pages"] > 100
    # What was on a per-CPU list when the blocks became the reserve is of its old type.
    assert fix1["leaked"] < bug["leaked"] / 50 and fix1["astray_pages"] == 0
    assert fix1["home_pages"] > bug["home_pages"]
    assert fix1["blocks"] >= bug["blocks"]


def test_fix2_pays_with_the_zone_lock(tmp_path: Path, pagetape: Run) -> None:
    fix1 = integrity(pagetape, tmp_path, "fix1")
    fix2 = integrity(pagetape, tmp_path, "fix2")
    assert fix1["past_pcp"] == 0
    assert fix2["past_pcp"] > 1000
    assert fix2["lock_holds"] > 1.25 * fix1["lock_holds"]
