# SPDX-License-Identifier: Apache-2.0
"""The reports that pagetape paper reads: counters of /proc/vmstat, reclaim by actor, latencies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pagetape.schemas.tape import Writer

from .conftest import GOLDEN, write_reclaim

Run = Callable[..., Any]
FACTS = json.loads((GOLDEN / "tape" / "facts.json").read_text())
PRESSURE = Path(__file__).parents[2] / "analyze/demo/pressure.tape"


def test_the_deltas_are_of_the_first_and_the_last_snapshot(tmp_path: Path, pagetape: Run) -> None:
    path = tmp_path / "two.tape"
    with Writer(path, FACTS) as tape:
        for nr, ts in enumerate((1_000_000_000, 3_000_000_000, 5_000_000_000)):
            values = {"pgscan_direct": 100 * nr, "nr_free_pages": 50 - nr, "pswpin": 7}
            about = {"snapshot": nr, "ts": ts}
            tape.rows("vmstat", [about | {"name": n, "value": v} for n, v in values.items()])
    rows = pagetape("report", "vmstat.deltas", path, "--json").json["rows"]
    found = {row["name"]: (row["first"], row["last"], row["delta"], row["per_s"]) for row in rows}
    assert found == {
        "pgscan_direct": (0, 200, 200, 50),
        "nr_free_pages": (50, 48, -2, -0.5),
        "pswpin": (7, 7, 0, 0),
    }
    assert {row["over_s"] for row in rows} == {4}


def test_samples_take_the_place_of_a_last_snapshot(tmp_path: Path, pagetape: Run) -> None:
    path = tmp_path / "one.tape"
    with Writer(path, FACTS) as tape:
        first = {"snapshot": 0, "ts": 1_000_000_000}
        tape.rows("vmstat", [first | {"name": n, "value": 5} for n in ("pgfree", "pswpin")])
        tape.rows(
            "sample",
            [
                {"ts": s, "began": s - 10, "at": 0, "name": "pgfree", "value": 5 + s // 10**9}
                for s in (2 * 10**9, 3 * 10**9)
            ],
        )
    rows = pagetape("report", "vmstat.deltas", path, "--json").json["rows"]
    assert [(r["name"], r["delta"], r["over_s"]) for r in rows] == [
        ("pgfree", 3, 2),
        ("pswpin", 0, 2),
    ]


def test_an_event_of_reclaim_belongs_to_its_actor(tmp_path: Path, pagetape: Run) -> None:
    def scan(pid: int, scanned: int, reclaimed: int) -> dict[str, Any]:
        counts = {"nr_scanned": scanned, "nr_reclaimed": reclaimed}
        return {"kind": "lru_shrink_inactive", "pid": pid, "priority": 12} | counts

    def write(pid: int, bits: int) -> dict[str, Any]:
        return {"kind": "write_folio", "pid": pid, "pfn": 1, "reclaim_flags": bits}

    rows = [
        (0, scan(9, 8, 2)),  # the tape begins within this run of direct reclaim
        (1, {"kind": "direct_reclaim_end", "pid": 9, "nr_reclaimed": 2}),
        (2, scan(9, 1, 1)),  # after it, of nobody
        (3, {"kind": "kswapd_wake", "pid": 50, "page_order": 0}),
        (4, scan(50, 64, 32)),
        (5, {"kind": "direct_reclaim_begin", "pid": 7, "page_order": 0}),
        (6, scan(7, 10, 5)),
        (7, write(7, 1)),
        (8, write(50, 2)),
        (9, {"kind": "direct_reclaim_end", "pid": 7, "nr_reclaimed": 5}),
        (10, {"kind": "memcg_reclaim_begin", "pid": 7, "page_order": 0}),
        (11, scan(7, 3, 3)),
        (12, {"kind": "memcg_reclaim_end", "pid": 7, "nr_reclaimed": 3}),
    ]
    path = write_reclaim(tmp_path / "actors.tape", rows)
    found = pagetape("report", "reclaim.by_actor", path, "--json").json["rows"]
    short = [
        [r[c] for c in ("actor", "runs", "scanned", "reclaimed", "written", "written_anon")]
        for r in found
    ]
    assert short == [
        ["kswapd", 1, 64, 32, 1, 0],
        ["direct", 2, 18, 7, 1, 1],
        ["memcg", 1, 3, 3, 0, 0],
        ["other", 0, 1, 1, 0, 0],
    ]
    assert found[0]["efficiency"] == 0.5
    run = {"kernel": "6.18", "policies": ["mainline"], "reclaim": "R1", "own": True, "tier": "B"}
    for facts, nr in (FACTS, 0), (FACTS | {"replay": run}, None):  # a replay has no scans
        with Writer(tmp_path / f"{nr}.tape", facts) as out:
            out.rows("reclaim", [{"ts": 1, "cpu": 0, "flags": 0, "at": 0, "node": 0} | rows[1][1]])
        found = pagetape("report", "reclaim.by_actor", tmp_path / f"{nr}.tape", "--json").json[
            "rows"
        ]
        assert [(r["runs"], r["scanned"], r["written"]) for r in found] == [(1, nr, nr)]


def test_events_and_counters_agree(pagetape: Run) -> None:
    """The kernel's own count of pages written by reclaim, and the events of the same recording."""
    actors = pagetape("report", "reclaim.by_actor", PRESSURE, "--json").json["rows"]
    deltas = pagetape("report", "vmstat.deltas", PRESSURE, "--json").json["rows"]
    counted = {row["name"]: row["delta"] for row in deltas}
    assert sum(row["written"] for row in actors) == counted["nr_vmscan_write"] > 0
    direct = next(row for row in actors if row["actor"] == "direct")
    assert (direct["scanned"], direct["reclaimed"]) == (
        counted["pgscan_direct"],
        counted["pgsteal_direct"],
    )


def test_percentiles_are_means_over_the_intervals(tmp_path: Path, pagetape: Run) -> None:
    path = tmp_path / "latency.tape"
    rows = [("read", 1, 100, 0, None), ("read", 2, 300, 0, None), ("read", 12, 1000, 0, None)]
    rows += [("fault", 3, 90, 3, 9), ("fault", 4, 10, 1, 0), ("fault", 5, 20, 1, 0)]
    with Writer(path, FACTS) as tape:
        tape.rows(
            "sample_latency",
            [
                {
                    "name": name,
                    "ts": s * 10**9,
                    "ns": us * 1000,
                    "flags": flags,
                    "page_order": order,
                }
                for name, s, us, flags, order in rows
            ],
        )
    rows = pagetape("report", "load.latency", path, "--json").json["rows"]
    found = {(row["name"], row["page_order"]): row for row in rows}
    read = found["read", None]
    assert (read["nr"], read["min_us"], read["max_us"], read["p50_us"]) == (3, 100, 1000, 300)
    assert read["mean_p50_us"] == (200 + 1000) / 2  # of two intervals of 10 s
    assert read["best50_us"] == 200 and read["best99_us"] == 200
    orders = {order: row["nr"] for (name, order), row in found.items() if name == "fault"}
    assert orders == {None: 3, 0: 2, 9: 1}
    assert found["fault", 0]["mean_us"] == 15 and found["fault", 9]["mean_us"] == 90
    assert found["fault", None]["huge_percent"] == 33.3
