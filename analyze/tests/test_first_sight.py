# SPDX-License-Identifier: Apache-2.0
"""What pagetape says at first sight must not mislead: counts of other units, R0, empty tables."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.asking import needs, query
from pagetape.asking.database import Database
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import fallback_unit

Run = Callable[..., Any]

DEMO = Path(__file__).parents[1] / "demo/pressure.tape"


# ---- fallback events of other kernels


@pytest.mark.parametrize(
    ("row", "policies", "unit"),
    [
        ("2.6.32", (), "block"),
        ("6.8", (), "block"),
        ("6.12.19", (), "page"),
        ("7.3", (), "page"),
        ("6.1.192", ("fallback:kernel=6.18",), "page"),
        ("6.18", ("nofragment", "fallback:kernel=5.0"), "block"),
    ],
)
def test_the_unit_of_a_fallback_event(row: str, policies: tuple[str, ...], unit: str) -> None:
    assert fallback_unit.of_run(row, policies) == unit


def test_counts_of_another_unit_are_not_compared(pagetape: Run, tmp_path: Path) -> None:
    """6.18 emits 70 times as many events as 6.1 here, and leaves as many mixed pageblocks."""
    out = tmp_path / "run.tape"
    run = pagetape("replay", DEMO, "--kernel", "6.18", "-o", out, "--json").json
    assert run["fallback_events"] == {"own": "block", "this": "page"}
    metrics = {m["metric"]: m for m in run["metrics"]}
    for name in ("fallbacks", "fallbacks steal", "mixing UNMOVABLE from MOVABLE"):
        assert metrics[name]["comparable"] is False
        assert metrics[name]["difference"]["value"] is None and metrics[name]["scaled"] is None
        assert metrics[name]["no_verdict"] == "other unit"
    assert metrics["fallbacks"]["value"] > 10 * metrics["fallbacks"]["recorded"]
    for name in ("mixed pageblocks at the end", "foreign pages at the end", "fallbacks claim"):
        assert metrics[name]["no_verdict"] != "other unit"

    compared = pagetape("compare", DEMO, out, "--json").json
    assert "not compared" in compared["tapes"][1]["incomparable"]
    found = {m["metric"]: m["differences"]["run"] for m in compared["metrics"]}
    assert found["fallbacks"]["no_verdict"] == "other unit"
    assert found["fallbacks"]["value"] is None and not found["fallbacks"]["shown"]
    assert found["mixed pageblocks at the end"]["no_verdict"] != "other unit"
    assert "other unit" in pagetape("compare", DEMO, out).out


def test_a_sweep_over_kernels_compares_harm(pagetape: Run, tmp_path: Path) -> None:
    words = ("sweep", DEMO, "--kernel", "{auto,6.18}", "-o", tmp_path / "runs")
    said = pagetape(*words).out
    assert "fallbacks below pageblock order" not in said
    assert "a  mixed pageblocks at the end" in said and "b  foreign pages at the end" in said
    assert "fallback counts are not compared" in said


def test_kernels_of_one_unit_are_compared(pagetape: Run) -> None:
    run = pagetape("replay", DEMO, "--kernel", "6.8", "--json").json
    assert all(m["comparable"] for m in run["metrics"])


# ---- policies that act through reclaim


def test_without_recorded_reclaim_there_is_no_verdict(small: Path, pagetape: Run) -> None:
    run = pagetape("replay", small, "--policy", "watermarks:min_free_kbytes=16000")
    assert "reclaim R0" in run.out and "no verdict on watermarks" in run.out


def test_the_baseline_has_the_mode_of_the_run(pagetape: Run) -> None:
    words = ("replay", DEMO, "--policy", "watermarks:min_free_kbytes=16000", "--json")
    run = pagetape(*words).json
    assert run["reclaim"] == "R1"
    own = pagetape("replay", DEMO, "--reclaim", "R1", "--json").json
    fallbacks = [next(m for m in r["metrics"] if m["metric"] == "fallbacks") for r in (run, own)]
    assert fallbacks[0]["own"] == fallbacks[1]["own"]


def test_own_rules_of_another_mode_are_no_baseline(pagetape: Run, tmp_path: Path) -> None:
    own, defrag = tmp_path / "own.tape", tmp_path / "defrag.tape"
    assert pagetape("replay", DEMO, "-o", own).status == 0  # R0
    assert pagetape("replay", DEMO, "--policy", "defrag_mode", "-o", defrag).status == 0  # R1
    found = pagetape("compare", own, defrag, "--json").json
    assert found["tapes"][1]["compared_with"] == "model"
    head = pagetape("compare", own, defrag).out.splitlines()[0]
    assert "own rules" in head and "against own" not in head


# ---- reports on tapes of the wrong kind


@pytest.mark.parametrize(
    ("report", "command"),
    [
        ("frag.mixed_blocks", "pagetape replay {tape} -o run.tape"),
        ("model.exactness", "pagetape validate {tape} -o checked.tape"),
        ("zone_lock", "--policy zone_lock"),
        ("reserve.integrity", "--policy reserve"),
    ],
)
def test_a_report_names_what_it_needs(report: str, command: str, pagetape: Run) -> None:
    said = pagetape("report", report, DEMO)
    assert said.status == 1 and said.out == ""
    assert f"{report} needs a" in said.err and command.format(tape=DEMO) in said.err


def test_an_empty_table_says_why(pagetape: Run) -> None:
    said = pagetape("report", "extfrag.captures", DEMO)
    assert said.status == 0 and "no rows: nothing of the kind is on this tape" in said.out


def test_a_replay_without_anomalies_is_no_error(played: Path, pagetape: Run) -> None:
    assert pagetape("report", "model.anomalies", played).status == 0


@pytest.mark.parametrize("name", query.about_tapes())
def test_every_report_reads_a_table(name: str) -> None:
    """Tables are found in the text of the query, through views."""
    assert needs.tables(query.reports()[name])


# ---- contents of pageblocks

LISTS, FLAGS = 1000, 2000  # ns: the instant of the lists, the end of the reading of the flags


def contents(tmp_path: Path, *events: tuple[int, int], **more: Any) -> dict[int, str]:
    """The content by pageblock, each with 100 movable, 400 free and 12 other pages.

    The page of each event, a time and a pfn, is freed.
    """
    facts = {"kernel": "6.18.44", "nr_orders": 11, "pageblock_order": 9}
    place = {"snapshot": 0, "ts": LISTS, "node": 0, "zone": "NORMAL", "migratetype": "MOVABLE"}
    blocks = [512 * i for i in range(4)]
    free = [(0, 8), (256, 7), (384, 4)]  # 400 pages, (pfn, order)
    flags = {"guessed": False, "nr_movable": 100, "stable": True, "flags_ts": FLAGS} | more
    event = {"cpu": 0, "pid": 1, "kind": "free", "flags": 0, "page_order": 0}
    with Writer(tmp_path / "t.tape", facts) as writer:
        writer.rows("pageblock", [place | flags | {"pfn": pfn} for pfn in blocks])
        rows = [
            place | {"pfn": pfn + at, "page_order": order} for pfn in blocks for at, order in free
        ]
        writer.rows("free_block", rows)
        writer.rows("event", [event | {"ts": ts, "pfn": pfn} for ts, pfn in events])
        point = {"name": "mm_page_free", "system": "kmem", "stored": "event"}
        writer.rows("tracepoint", [point | {"events": len(events)}])
    with Database([Tape(tmp_path / "t.tape")]) as db:
        found = db.ask("SELECT pfn // 512 AS number, content FROM block_use ORDER BY number").rows
    return dict(found)


def test_a_block_whose_pages_moved_between_lists_and_flags_is_unknown(tmp_path: Path) -> None:
    """Twelve pages that were freed in between look as if they were fixed ones."""
    during = [(1500, 512 + 401 + i) for i in range(12)]
    around = [(900, 1024 + 401), (2100, 1536 + 401)]
    found = contents(tmp_path, around[0], *during, around[1])
    assert found == {0: "mixed", 1: "unknown", 2: "mixed", 3: "mixed"}


def test_a_block_that_is_mixed_whatever_moved_is_mixed(tmp_path: Path) -> None:
    assert contents(tmp_path, (900, 4), (1500, 512), (2100, 4))[1] == "mixed"


def test_without_events_a_block_is_known_if_its_free_pages_did_not_change(tmp_path: Path) -> None:
    assert set(contents(tmp_path).values()) == {"mixed"}
    (tmp_path / "other").mkdir()
    assert set(contents(tmp_path / "other", stable=False).values()) == {"unknown"}
    (tmp_path / "old").mkdir()
    old = contents(tmp_path / "old", (1500, 4), (2100, 4), stable=None, flags_ts=None)
    assert set(old.values()) == {"mixed"}


# Of the blocks that were mixed at the start and are known at the end: those that are still mixed,
# and all. Without the blocks that have an event from the first instant on to the last.
STILL_MIXED = """
    WITH span AS (
        SELECT min(least(ts, flags_ts)) AS from_ts, max(greatest(ts, flags_ts)) AS to_ts
        FROM block_use
    ),
    touched AS (
        SELECT DISTINCT unnest(range(
            (pfn >> pageblock_order)::BIGINT,
            ((pfn + (1 << page_order::INTEGER) - 1) >> pageblock_order)::BIGINT + 1
        )) AS number
        FROM event, machine, span
        WHERE kind IN ('alloc', 'free') AND event.ts BETWEEN from_ts AND to_ts AND page_order < 20
    )
    SELECT count(*) FILTER (b.content = 'mixed'), count(*)
    FROM block_use AS a
    JOIN block_use AS b USING (node, zone, pfn)
    WHERE a.snapshot = 0 AND b.snapshot = 1 AND a.content = 'mixed' AND b.content <> 'unknown'
        AND (pfn >> (SELECT pageblock_order FROM machine))::BIGINT NOT IN (FROM touched)
"""


@livetest.alone
@pytest.mark.live
def test_a_mixed_block_is_still_mixed_at_the_end(tmp_path: Path, pagetape: Run) -> None:
    """Most blocks that were called mixed had been movable.

    Other programs may change a block meanwhile: only blocks without an event between the first
    reading of the flags and the last are compared.
    """
    if why := livetest.why_not():
        livetest.skip(why)
    out = tmp_path / "t.tape"
    assert pagetape("record", "-o", out, "--duration", "2s", "--events", "page").status == 0
    if {snapshot["how"] for snapshot in Tape(out).rows("snapshot")} != {"exact"}:
        livetest.skip("no exact snapshots here", by_chance=True)
    with Database([Tape(out)]) as db:
        ((instants,),) = db.ask("SELECT count(DISTINCT flags_ts) FROM block_use").rows
        ((still, known),) = db.ask(STILL_MIXED).rows
    assert instants == 2
    assert known > 0
    assert still >= 0.9 * known


# ---- a recording whose events are cut off


def test_the_end_of_a_cut_recording_is_not_compared(tmp_path: Path, pagetape: Run) -> None:
    """The snapshot at the end is that of a later moment than the last row."""
    cut = tmp_path / "cut.tape"
    shutil.copytree(DEMO, cut)
    rows = (cut / "event.arrow").read_bytes()
    (cut / "event.arrow").write_bytes(rows[: len(rows) // 2])
    info = pagetape("info", cut, "--json").json
    assert info["cut_off"] == ["event"] and info["lost"] is None and not info["complete"]
    assert "cut off since the recording: event.arrow" in pagetape("info", cut).out
    run = pagetape("replay", cut, "--ensemble", 0, "--json").json
    recorded = {metric["metric"]: metric["recorded"] for metric in run["metrics"]}
    assert recorded["free pageblocks at the end"] is None
    assert recorded["fallbacks"] is not None
    said = pagetape("replay", cut, "--ensemble", 0).out
    assert "lost: unknown (event.arrow without an end)" in said

    whole = pagetape("replay", DEMO, "--ensemble", 0, "--json").json
    recorded = {metric["metric"]: metric["recorded"] for metric in whole["metrics"]}
    assert recorded["free pageblocks at the end"] is not None
    assert pagetape("info", DEMO, "--json").json["cut_off"] == []
