# SPDX-License-Identifier: Apache-2.0
"""Two outputs about one tape give one number for one thing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape import answer
from pagetape.asking.database import Database
from pagetape.schemas.tape import Tape
from pagetape.tapes.loss import Loss, by_cpu

from .test_reports import GFP_KERNEL, SECOND, alloc, ask, fallback, make, taken, zone

Run = Callable[..., Any]

DEMO = Path(__file__).parents[1] / "demo"
RECORDED = [DEMO / "server.tape", DEMO / "pressure.tape"]
NAMES = [path.stem for path in RECORDED]


@pytest.fixture(scope="module", params=RECORDED, ids=NAMES)
def recorded(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def rows(tape: Path, report: str, key: str) -> dict[Any, dict[str, Any]]:
    return {row[key]: row for row in ask(report, tape)}


def value(tape: Path, sql: str) -> Any:
    with Database([Tape(tape)]) as db:
        return db.ask(sql).rows[0][0]


def check_direct_reclaims(tape: Path) -> None:
    begun = value(tape, "SELECT count(*) FROM reclaim WHERE kind = 'direct_reclaim_begin'")
    assert begun > 50
    assert rows(tape, "reclaim.summary", "what")["direct_reclaim"]["nr"] == begun
    assert rows(tape, "reclaim.stalls", "what")["direct"]["nr"] == begun
    assert {row["stalls"] for row in ask("reclaim.min_free", tape)} == {begun}
    assert rows(tape, "metrics", "metric")["direct reclaims"]["value"] == begun


def check_compaction(tape: Path, said: dict[str, Any]) -> None:
    results = ask("compaction.results", tape)
    summary = rows(tape, "reclaim.summary", "what")["compaction"]
    assert sum(row["runs"] for row in results) == summary["nr"]
    assert sum(row["total_ms"] for row in results) == pytest.approx(summary["total_ms"], abs=0.01)
    found = [*said["findings"], *said["not_shown"]]
    (evidence,) = (one["evidence"] for one in found if one["id"] == "kcompactd")
    name = f"kcompactd{evidence['node']}"
    mine = [row["tape_percent"] for row in results if row["comm"] == name]
    assert evidence["busy_percent"] == pytest.approx(sum(mine), abs=0.05)


def test_a_recording(recorded: Path, pagetape: Run) -> None:
    info = pagetape("info", recorded, "--json").json
    said = pagetape("diagnose", recorded, "--all", "--json").json
    assert said["duration_s"] == info["duration_s"] and said["covers"] == "events"
    length = f"{info['duration_s']:.3f} s of events"
    assert length in pagetape("info", recorded).out
    assert length in pagetape("diagnose", recorded).out
    sampled = [row["at_s"] for row in ask("samples.rates", recorded)]
    assert info["samples_s"][1] == pytest.approx(max(sampled), abs=0.001)
    check_direct_reclaims(recorded)
    check_compaction(recorded, said)


def test_a_replay_with_feedback(recorded: Path, tmp_path: Path, pagetape: Run) -> None:
    """Reclaims of one task follow each other, and the daemons of two nodes are two."""
    tape = tmp_path / "R1.tape"
    text = pagetape("replay", recorded, "--reclaim", "R1", "--ensemble", "0", "-o", tape).out
    check_direct_reclaims(tape)
    check_compaction(tape, pagetape("diagnose", tape, "--all", "--json").json)
    kinds = {row["kind"]: row["nr"] for row in ask("model.anomalies", tape)}
    parts = ", ".join(f"{nr:,} {kind}" for kind, nr in kinds.items())
    line = f"anomalies: {sum(kinds.values()):,} ({parts})"
    assert line in text and str(Loss.of(Tape(tape))).endswith(line)
    assert "% of the events contradict the model" in text


def test_the_order_of_two_replays_is_that_of_compare(tmp_path: Path, pagetape: Run) -> None:
    """The model has a block for a request that failed on the recording: compare counts it."""
    run = {"own": True, "kernel": "6.18", "policies": ["mainline"], "reclaim": "R1", "tier": "B"}
    tape = make(
        tmp_path / "run.tape",
        {"replay": run},
        event=[alloc(1, 512, page_order=9), alloc(2, None, page_order=9)],
        huge_request=[{"page_order": 9, "asked": 2, "got": 2}],
    )
    assert {row["tape_percent"] for row in ask("thp.over_time", tape)} == {100}
    for report in ("thp.over_time", "thp.failures"):
        found = pagetape("report", report, tape.path, "--json").json
        assert "where the model has one" in found["note"]


@pytest.mark.parametrize(
    ("read", "advice"),
    [
        (90, "too low: up to 10 pages below min"),
        (210, "not shown: lowest at 72 pages, but the count may be 138 too low there"),
    ],
)
def test_a_fall_that_the_error_explains_gets_no_advice(
    read: int, advice: str, tmp_path: Path
) -> None:
    """The count falls to 72 pages, below min; at the reading after it, it is 18 or 138 too low."""
    tape = make(
        tmp_path / "t.tape",
        {"sysctls": {"vm.min_free_kbytes": "400"}},
        event=[taken(1, 128), taken(5, 1)],
        zone=[zone(0, 0.5, 200, managed=1000), zone(1, 4, read, managed=1000)],
    )
    (row,) = ask("reclaim.min_free", tape)
    assert row["lowest_free"] == 72 and row["lowest_error"] == 72 - read
    assert row["advice"] == advice
    assert (row["suggested_kbytes"] is None) is (read == 210)


def test_fallbacks_that_were_not_recorded_are_no_zeros(tmp_path: Path, pagetape: Run) -> None:
    columns = ("to_unmovable", "to_movable", "to_reclaimable", "whole")
    for events, count in (["kmem:mm_page_alloc"], None), (["kmem:mm_page_alloc_extfrag"], 0):
        tape = make(
            tmp_path / f"{count}.tape",
            {"events": events, "kernel": "6.1.0"},
            event=[alloc(0, 1), alloc(2, 1)],
            zone=[zone(0, 0.5, 200)],
        )
        found = pagetape("report", "extfrag.zones_over_time", tape.path, "--json").json
        assert {row[name] for row in found["rows"] for name in columns} == {count}
        assert ("not recorded: events of fallbacks" in found.get("note", "")) is (count is None)


def test_a_boost_is_no_more_than_the_fallbacks_since_its_sample(tmp_path: Path) -> None:
    """A boost of 4,000 pages at the end does not make a failure long before uncertain."""

    def sampled(ts: float, boost: int) -> dict[str, Any]:
        at = {"ts": round(ts * SECOND), "began": round(ts * SECOND) - 1, "at": 0}
        return at | {"node": 0, "zone": "NORMAL", "name": "boost", "value": boost}

    tape = make(
        tmp_path / "t.tape",
        {"kernel": "6.18.1"},
        event=[
            taken(0.6, 1),
            alloc(2, None, page_order=9, gfp_flags=GFP_KERNEL),
            *(fallback(3 + i / 10, 5000 + i, "UNMOVABLE", "MOVABLE", 5) for i in range(3)),
            alloc(4, None, page_order=9, gfp_flags=GFP_KERNEL),
        ],
        sample=[sampled(1, 0), sampled(6, 1024)],
        zone=[zone(0, 0.5, 2000), zone(1, 7, 1996, boost=4000)],
    )
    with Database([tape]) as db:
        found = db.ask("SELECT lacks FROM failed_alloc ORDER BY ts").rows
    assert found == [("block",), (None,)]


def test_a_small_number_is_not_0() -> None:
    cells = {0.000406: "0.00041", 6.4e-5: "0.000064", -0.0001: "-0.0001", 2e-9: "2.0e-09", 0.0: "0"}
    assert {number: answer.cell(number) for number in cells} == cells


def _gap(events: int | None, from_ts: int | None = 5, to_ts: int | None = 9) -> dict[str, Any]:
    return {"cpu": 0, "from_ts": from_ts, "to_ts": to_ts, "events": events}


# Gaps, and what the ring counts as overwritten and as refused; the total.
LOSSES: dict[str, tuple[list[dict[str, Any]], int | None, int, int | None]] = {
    "sized": ([_gap(3), _gap(4)], 7, 0, 7),
    "one without a size": ([_gap(3), _gap(None)], 8, 0, 8),
    "several without, and their sum": ([_gap(None), _gap(None), _gap(6, None, None)], 6, 0, 6),
    "one that goes on in the next tape": ([_gap(None)], 0, 0, None),
    "one that goes on, beside others": ([_gap(3), _gap(None)], 3, 0, None),
    "one that goes on, beside refused events": ([_gap(2, None, None), _gap(None)], 0, 2, None),
    "a ring without counts": ([_gap(None)], None, 0, None),
}


@pytest.mark.parametrize("case", LOSSES)
def test_the_loss_of_a_cpu_is_a_number_only_where_something_counts_it(case: str) -> None:
    gaps, overrun, refused, total = LOSSES[case]
    ring = {"cpu": 0, "overrun": overrun, "commit_overrun": refused, "dropped": 0}
    assert by_cpu(gaps, [ring]) == {0: total}
