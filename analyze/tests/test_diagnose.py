# SPDX-License-Identifier: Apache-2.0
"""pagetape diagnose: a tape with each disease, one with none, and tapes that lack things.

Every tape is the healthy machine below with one thing changed. The expected numbers are counted by
hand from what the test writes. `make golden` accepts another text; read the diff.
"""

import json
import os
import re
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pagetape import answer
from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.asking.keeping_database import KeepingDatabase
from pagetape.diagnosing import diagnosis as diagnosing
from pagetape.diagnosing import thresholds
from pagetape.diagnosing.case import Case
from pagetape.diagnosing.diagnosis import MOST, Diagnosis, diagnose
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.mixing import callers
from pagetape.diagnosing.thresholds import Threshold
from pagetape.recording.eventsets import tracepoints
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

from .conftest import beginning

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
PRESSURE = ROOT / "analyze/demo/pressure.tape"

S = 1_000_000_000
FIRST = 1 << 16  # first pfn; 64 pageblocks follow
BLOCK = 512
BITS = {name: 1 << i for i, name in enumerate(TABLES["event"].column("gfp_flags").bits)}

Rows = dict[str, list[dict[str, Any]]]


def gfp(*names: str) -> int:
    return sum(BITS[name] for name in names)


NORMAL = gfp("IO", "FS", "DIRECT_RECLAIM", "KSWAPD_RECLAIM")


def event(ts: float, kind: str, pfn: int | None, **more: Any) -> dict[str, Any]:
    row = {"ts": int(ts * S), "cpu": 0, "pid": 100, "kind": kind, "flags": 0, "pfn": pfn}
    if kind == "alloc":
        row |= {"migratetype": "MOVABLE", "gfp_flags": NORMAL}
    return row | {"page_order": 0} | more


def fallback(ts: float, pfn: int, **more: Any) -> dict[str, Any]:
    """An UNMOVABLE request that takes pages of a MOVABLE block of order 5."""
    taken = {"fallback_order": 5, "fallback_migratetype": "MOVABLE", "change_ownership": False}
    return event(ts, "alloc_extfrag", pfn, migratetype="UNMOVABLE", pid=101, **taken) | more


def reclaim(ts: float, kind: str, **more: Any) -> dict[str, Any]:
    return {"ts": int(ts * S), "cpu": 0, "pid": 100, "flags": 0, "at": 0, "kind": kind} | more


def healthy() -> Rows:
    """Ten seconds: 1000 pages are allocated and freed; no list is refilled after the first time."""
    events = []
    for i in range(1000):
        events.append(event(10 * i / 1000, "alloc", FIRST + i % 20))
        events.append(event(10 * i / 1000 + 0.001, "free", FIRST + i % 20))
    events += [event(0.0001 * i, "alloc_zone_locked", FIRST + i) for i in range(20)]
    rows: Rows = {"event": events, "reclaim": [], "compaction": []}
    rows["task"] = [
        {"pid": 100, "comm": "worker", "cgroup": "/app"},
        {"pid": 101, "comm": "driver", "cgroup": "/system"},
        {"pid": 90, "comm": "kswapd0", "kthread": True},
    ]
    reserves = {c.name: 0 for c in TABLES["zone"].columns if c.name.startswith("lowmem_reserve")}
    size = {"start_pfn": FIRST, "spanned": 64 * BLOCK, "present": 64 * BLOCK}
    marks = {"wmark_min": 100, "wmark_low": 125, "wmark_high": 150, "boost": 0}
    lists = {"count": 10, "high": 60, "batch": 15, "high_min": 60, "high_max": 120}
    counters = ("thp_fault_alloc", "thp_fault_fallback", "oom_kill", "allocstall_normal")
    for name in ("snapshot", "zone", "pcp", "free_area", "vmstat", "free_block", "block_count"):
        rows[name] = []
    for number, ts in ((0, 1), (1, 10 * S)):
        place = {"snapshot": number, "ts": ts, "node": 0, "zone": "NORMAL"}
        rows["snapshot"].append({"snapshot": number, "ts": ts, "how": "exact"})
        zone = place | size | marks | reserves | {"managed": 64 * BLOCK, "free": 60 * BLOCK}
        rows["zone"].append(zone)
        rows["pcp"] += [place | lists | {"cpu": cpu} for cpu in (0, 1)]
        free = place | {"migratetype": "MOVABLE", "page_order": 9}
        rows["free_area"].append(free | {"nr_free": 60, "capped": False})
        rows["free_block"] += [free | {"pfn": FIRST + BLOCK * n} for n in range(4, 64)]
        rows["block_count"] += [
            place | {"migratetype": "MOVABLE", "nr_blocks": 50},
            place | {"migratetype": "UNMOVABLE", "nr_blocks": 14},
        ]
        stat = {"snapshot": number, "ts": ts}
        rows["vmstat"] += [stat | {"name": name, "value": 7} for name in counters]
    rows["sample"] = [{"ts": S, "began": S, "at": 0, "name": "nr_free_pages", "value": 60 * BLOCK}]
    rows["ring"] = [{"cpu": 0, "instance": "i", "read": 2020, "overrun": 0, "commit_overrun": 0}]
    rows["ring"][0]["dropped"] = 0
    rows["stack"] = []
    rows["frame"] = []
    return rows


FACTS = json.loads((GOLDEN / "tape" / "facts.json").read_text()) | {
    "events": tracepoints("all"),
    "sysctls": {"vm.min_free_kbytes": "400", "vm.watermark_scale_factor": "10"},
}


def write(path: Path, rows: Rows, facts: dict[str, Any] | None = None) -> Path:
    with Writer(path, FACTS if facts is None else facts) as tape:
        for name, own in rows.items():
            if name in ("event", "reclaim", "compaction"):
                own = sorted(own, key=lambda row: int(row["ts"]))
            if own:
                tape.rows(name, own)
    return path


def counted(rows: Rows, **changes: int) -> None:
    """Let these counters of /proc/vmstat rise between the snapshots."""
    for name, change in changes.items():
        rows["vmstat"] = [row for row in rows["vmstat"] if row["name"] != name]
        for number, value in ((0, 7), (1, 7 + change)):
            rows["vmstat"].append({"snapshot": number, "ts": number, "name": name, "value": value})


def fragmented(rows: Rows, free: int) -> None:
    """At the end all `free` pages are single pages."""
    for zone in rows["zone"]:
        zone["free"] = free if zone["snapshot"] else zone["free"]
    for area in rows["free_area"]:
        if area["snapshot"]:
            area |= {"page_order": 0, "nr_free": free}
            empty = [area | {"page_order": order, "nr_free": 0} for order in range(1, 11)]
    rows["free_area"] += empty


def mixing(rows: Rows) -> None:
    """Of 50 MOVABLE pageblocks, 6 get kernel pages, 4 of these for good: 8 %."""
    for n in range(6):
        pfn = FIRST + BLOCK * (n + 4)
        own = {"pid": 101, "migratetype": "UNMOVABLE"}
        rows["event"] += [fallback(1 + n, pfn), event(1 + n, "alloc", pfn, **own)]
        rows["stack"].append(
            {
                "at": 0,
                "ts": (1 + n) * S + 1,
                "cpu": 0,
                "pid": 101,
                "event_ts": (1 + n) * S,
                "stack": 1,
            }
        )
        if n < 2:
            rows["event"].append(event(8, "free", pfn))
    rows["event"] += [fallback(9, FIRST + BLOCK * 20, pid=100, migratetype="MOVABLE")]
    names = [
        "__rmqueue",
        "get_page_from_freelist",
        "__alloc_pages",
        "alloc_skb",
        "driver_rx",
        "irq",
    ]
    rows["frame"] = [{"stack": 1, "depth": i, "function": name} for i, name in enumerate(names)]


def huge_pages(rows: Rows) -> None:
    """60 of 100 huge page faults fail; 4000 pages are free, none in blocks of 2 MiB."""
    counted(rows, thp_fault_alloc=40, thp_fault_fallback=60, compact_fail=9, compact_success=1)
    fragmented(rows, 4000)


def kswapd(rows: Rows) -> None:
    """Awake 4 of 10 s; 20 of 1000 scanned pages freed; 3 of 4 calls are for boosts."""
    for ts, flags in ((1.9, 0), (2.5, 0), (3, 0), (3.5, NORMAL)):
        calls = {"node": 0, "page_order": 0, "gfp_flags": flags}
        rows["reclaim"].append(reclaim(ts, "wakeup_kswapd", **calls))
    for ts, kind in ((2, "kswapd_wake"), (4, "kswapd_wake"), (6, "kswapd_sleep")):
        rows["reclaim"].append(reclaim(ts, kind, node=0, page_order=0, pid=90))
    scan = {"nr_scanned": 500, "nr_reclaimed": 10, "pid": 90, "node": 0}
    rows["reclaim"] += [reclaim(ts, "lru_shrink_inactive", **scan) for ts in (3, 5)]


def compact(rows: Rows, since: float, until: float, pid: int, order: int) -> None:
    own = {"cpu": 0, "pid": pid, "flags": 0, "at": 0}
    moved = {"nr_migrated": 90, "nr_failed": 10}
    for ts, kind, more in (
        (since, "begin", {"sync": True}),
        (since, "finished", {"page_order": order, "status": 4, "node": 0}),
        (since, "migratepages", moved),
        (until, "end", {"sync": True, "status": 8 if order > 0 else 5}),
    ):
        rows["compaction"].append(own | {"ts": int(ts * S), "kind": kind} | more)


def kcompactd(rows: Rows) -> None:
    """Two runs of 3 s in all for order 9, one a success, and 1 s proactively: 40 %."""
    rows["task"].append({"pid": 39, "comm": "kcompactd0", "kthread": True})
    for since, until, order in ((1, 3, 9), (4, 5, 9), (6, 7, -1)):
        compact(rows, since, until, 39, order)
    (failed,) = [r for r in rows["compaction"] if r["ts"] == 5 * S and r["kind"] == "end"]
    failed["status"] = 6


def explicit_compaction(rows: Rows) -> None:
    """The driver's task compacts whole zones for 2 of 10 s, and allocates a page after that."""
    compact(rows, 1, 2, 101, -1)
    compact(rows, 5, 6, 101, -1)
    rows["event"].append(event(6.1, "alloc", FIRST + 30, pid=101))


def stall(
    rows: Rows, since: float, until: float, freed: int, pid: int = 100, order: int = 0
) -> None:
    begin = {"pid": pid, "page_order": order, "gfp_flags": NORMAL}
    rows["reclaim"] += [
        reclaim(since, "direct_reclaim_begin", **begin),
        reclaim(until, "direct_reclaim_end", pid=pid, nr_reclaimed=freed),
    ]


def stalls(rows: Rows) -> None:
    """Two tasks wait 2 s each, 1 s of it together: 3 of 10 s. Nothing is freed."""
    stall(rows, 1, 3, 0)
    stall(rows, 2, 4, 0, pid=101)


def watermarks(rows: Rows) -> None:
    """Four shortages, three of them with a direct reclaim of 1 ms that frees 40 pages."""
    for n in range(4):
        at = {"node": 0, "page_order": 0}
        rows["reclaim"] += [
            reclaim(2 * n + 1, "wakeup_kswapd", gfp_flags=NORMAL, **at),
            reclaim(2 * n + 1.001, "kswapd_wake", pid=90, **at),
            reclaim(2 * n + 1.01, "kswapd_sleep", pid=90, node=0),
        ]
        if n:
            stall(rows, 2 * n + 1.002, 2 * n + 1.003, 40)


def pcp_small(rows: Rows) -> None:
    """CPU 0 takes 900 pages and gives back 800; 80 % of 1000 go both ways."""
    rows["event"] += [event(0.01 * i, "alloc_zone_locked", FIRST + i) for i in range(880)]
    rows["event"] += [event(0.01 * i, "pcpu_drain", FIRST + i) for i in range(800)]


def pcp_large(rows: Rows) -> None:
    """The lists hold 240 pages, 4.8 times the 50 from min to high; 200 pages are free."""
    for row in rows["pcp"]:
        row["count"] = 120
    for zone in rows["zone"]:
        zone["free"] = 200
    for area in rows["free_area"]:
        area |= {"nr_free": 200, "page_order": 0}


def pinned(rows: Rows) -> None:
    """Four pageblocks of 64 are free but for one page of the driver each: 6.25 %."""
    rest = []
    for row in rows["free_block"]:
        number = (row["pfn"] - FIRST) // BLOCK
        if row["snapshot"] and number < 8:
            row |= {"page_order": 8, "pfn": row["pfn"] + 256}
            for order in range(8):  # 2^8 + 2^7 + ... + 1 pages: all but the first
                rest.append(row | {"page_order": order, "pfn": row["pfn"] - 256 + (1 << order)})
            rows["event"].append(
                event(5, "alloc", row["pfn"] - 256, pid=101, migratetype="UNMOVABLE")
            )
    rows["free_block"] += rest


def failures(rows: Rows) -> None:
    """Two atomic requests of order 2 fail, and one that has another way."""
    atomic = {
        "page_order": 2,
        "migratetype": "UNMOVABLE",
        "gfp_flags": gfp("HIGH", "KSWAPD_RECLAIM"),
    }
    rows["event"] += [event(9.9 + n / 100, "alloc", None, pid=101, **atomic) for n in range(2)]
    silent = atomic | {"gfp_flags": gfp("NOWARN", "KSWAPD_RECLAIM")}
    rows["event"].append(event(5, "alloc", None, **silent))
    fragmented(rows, 600)


def oom(rows: Rows) -> None:
    """Two tasks are killed, after a direct reclaim of 1 ms in vain."""
    counted(rows, oom_kill=2)
    stall(rows, 1, 1.001, 0)


def loss(rows: Rows) -> None:
    """480 of 2500 events are lost: 19.2 %."""
    rows["lost"] = [{"cpu": 0, "from_ts": S, "to_ts": 2 * S, "events": 480}]
    rows["ring"][0]["overrun"] = 480


Disease = Callable[[Rows], None]
# The findings that each disease must give, worst first, with their severities.
DISEASES: dict[Disease, list[tuple[str, str]]] = {
    mixing: [("mixing", "high")],
    huge_pages: [("huge_pages", "high")],
    kswapd: [("kswapd", "high")],
    kcompactd: [("kcompactd", "high")],
    explicit_compaction: [("explicit_compaction", "medium")],
    stalls: [("stalls", "high")],
    watermarks: [("watermarks", "high"), ("stalls", "none")],
    pcp_small: [("pcp_small", "low")],
    pcp_large: [("pcp_large", "high")],
    pinned: [("pinned", "medium")],
    failures: [("failures", "high")],
    oom: [("failures", "high")],
    loss: [("loss", "high")],
}


@pytest.fixture(scope="module")
def ill(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Disease | None], Path]:
    """Makes the tape with this disease, once; without one, the healthy tape."""
    made: dict[str, Path] = {}

    def make(disease: Disease | None) -> Path:
        name = disease.__name__ if disease else "healthy"
        if name not in made:
            rows = healthy()
            if disease:
                disease(rows)
            made[name] = write(tmp_path_factory.mktemp("ill") / f"{name}.tape", rows)
        return made[name]

    return make


@cache
def diagnosis(path: Path) -> Diagnosis:
    """The diagnosis of a tape; no test changes a tape that was examined."""
    return diagnose(Tape(path))


@pytest.fixture(autouse=True)
def examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command examines no tape anew."""
    monkeypatch.setattr(diagnosing, "diagnose", lambda tape: diagnosis(tape.path))


def examined(path: Path) -> tuple[Finding, ...]:
    return tuple(diagnosis(path).examined)


_IDS = """loss failures stalls mixing kswapd kcompactd explicit_compaction huge_pages pinned
    watermarks pcp_small pcp_large"""
QUESTIONS = dict(zip(_IDS.split(), diagnosing._QUESTIONS, strict=True))


def found(path: Path, *names: str) -> dict[str, Finding]:
    """The findings of a tape, of these questions alone if some are named."""
    if not names:
        return {f.id: f for f in examined(path)}
    tape = Tape(path)
    with KeepingDatabase([tape], diagnosing.queries()) as database:
        case = Case(tape, database)
        return {name: QUESTIONS[name](case) for name in names}


@pytest.mark.parametrize("disease", DISEASES, ids=lambda d: d.__name__)
def test_a_disease_is_found_and_no_other(
    ill: Callable[[Disease | None], Path], disease: Disease
) -> None:
    expected = DISEASES[disease]
    shown = [(f.id, f.severity) for f in examined(ill(disease)) if f.shown]
    assert shown == [one for one in expected if one[1] != "none"]
    for name, severity in expected:
        assert found(ill(disease))[name].severity == severity


@pytest.mark.parametrize("disease", [None, *DISEASES], ids=lambda d: d.__name__ if d else "healthy")
def test_golden(
    ill: Callable[[Disease | None], Path], disease: Disease | None, pagetape: Callable[..., Any]
) -> None:
    """The whole answer. `make golden` accepts another; read the diff."""
    path = ill(disease)
    text = pagetape("diagnose", path, "--all").out.replace(str(path), "T.tape")
    expected = GOLDEN / "diagnose" / f"{path.stem}.txt"
    if os.environ.get("PAGETAPE_BLESS"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(text)
    assert text == expected.read_text()


def test_every_golden_answer_has_a_tape() -> None:
    names = {d.__name__ for d in DISEASES} | {"healthy"}
    assert {file.stem for file in (GOLDEN / "diagnose").iterdir()} == names


# From the first to the last event of healthy(): the interval of all shares of time.
EVENTS_S = 9.991

# Counted by hand from what each disease writes.
EVIDENCE: dict[Disease, tuple[str, dict[str, Any]]] = {
    mixing: (
        "mixing",
        {
            "fallbacks": 7,
            "harmful": 6,
            "blocks": 6,
            "lasting_blocks": 4,
            "movable_blocks": 50,
            "share_percent": 8.0,
            "task": "driver",
            "task_nr": 6,
            "cgroup": "/system",
            "stack_nr": 6,
        },
    ),
    huge_pages: ("huge_pages", {"wanted": 100, "failures": 60, "blocks": 0, "free": 4000}),
    kswapd: (
        "kswapd",
        {"awake_s": 4.0, "scanned": 1000, "reclaimed": 20, "calls": 4, "boost_calls": 3},
    ),
    kcompactd: (
        "kcompactd",
        {
            "busy_percent": 100 * 4 / EVENTS_S,
            "asked_s": 3.0,
            "asked_runs": 2,
            "successes": 1,
            "runs": 3,
            "moved": 270,
        },
    ),
    explicit_compaction: (
        "explicit_compaction",
        {
            "busy_percent": 100 * 2 / EVENTS_S,
            "runs": 2,
            "task": "driver",
            "tasks": 1,
            "moved": 180,
            "failed": 20,
        },
    ),
    stalls: ("stalls", {"nr": 2, "some_s": 3.0, "total_s": 4.0, "vain": 2, "max_ms": 2000.0}),
    watermarks: (
        "watermarks",
        {"episodes": 4, "stalled": 3, "below_low": 4, "below_min": 3, "freed_each": 40.0},
    ),
    pcp_small: (
        "pcp_small",
        {"alloc_pages": 1000, "refilled": 900, "drained": 800, "back": 800, "list_pages": 2048},
    ),
    pcp_large: ("pcp_large", {"pcp_pages": 240, "ratio": 4.8, "free": 200}),
    pinned: (
        "pinned",
        {"nearly_empty": 4, "pinned": 4, "pinning_pages": 4, "task": "driver", "packed_blocks": 1},
    ),
    failures: ("failures", {"failed": 2, "optional": 1, "allocs": 1003}),
    oom: ("failures", {"oom_kills": 2}),
    loss: ("loss", {"lost": 480, "read": 2020}),
}


@pytest.mark.parametrize("disease", EVIDENCE, ids=lambda d: d.__name__)
def test_the_numbers_are_those_of_the_tape(
    ill: Callable[[Disease | None], Path], disease: Disease
) -> None:
    name, numbers = EVIDENCE[disease]
    evidence = found(ill(disease))[name].evidence
    assert {key: evidence[key] for key in numbers} == pytest.approx(numbers)


def test_every_disease_is_tested() -> None:
    assert EVIDENCE.keys() == DISEASES.keys()
    ids = {name for expected in DISEASES.values() for name, _ in expected}
    assert ids == found(PRESSURE).keys()


def test_a_healthy_tape_says_so_in_one_sentence(
    ill: Callable[[Disease | None], Path], pagetape: Callable[..., Any]
) -> None:
    said = pagetape("diagnose", ill(None), "--json").json
    assert said["findings"] == []
    assert said["summary"] == "No disease: 12 questions answered, nothing above its threshold."
    assert {one["severity"] for one in said["not_shown"]} == {"none"}


def test_the_keys_that_scripts_rely_on(pagetape: Callable[..., Any]) -> None:
    said = pagetape("diagnose", PRESSURE, "--json").json
    assert {
        "tape",
        "kernel",
        "duration_s",
        "lost",
        "findings",
        "not_shown",
        "limits",
    } <= said.keys()
    assert 3 <= len(said["findings"]) <= MOST
    for one in said["findings"]:
        assert {"id", "severity", "text", "evidence", "next"} <= one.keys()
        assert one["severity"] in ("high", "medium", "low")
        assert one["next"].startswith("pagetape ")
        assert "baseline" in one["evidence"]
    order = ["high", "medium", "low"]
    severities = [one["severity"] for one in said["findings"]]
    assert severities == sorted(severities, key=order.index)
    every = pagetape("diagnose", PRESSURE, "--all", "--json").json
    assert len(every["findings"]) + len(every["not_shown"]) == 12
    assert len(every["findings"]) > MOST
    assert every["findings"][:MOST] == said["findings"]


def test_the_next_commands_work(
    ill: Callable[[Disease | None], Path],
    pagetape: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each report that a finding names exists, and each policy has that parameter."""
    monkeypatch.setenv("PAGETAPE_ENSEMBLE", "0")
    short = beginning(PRESSURE, tmp_path / "short.tape")
    seen: set[str] = set()
    for path in [PRESSURE, *map(ill, DISEASES)]:
        for finding in found(path).values():
            words = shlex.split(finding.next)[1:]
            kind = " ".join(word for word in words if word != str(path))
            if not finding.shown or kind in seen or words[0] == "record":
                continue
            seen.add(kind)
            said = pagetape(*(short if word == str(PRESSURE) else word for word in words))
            assert said.status == 0, f"{finding.next}: {said.err}"
    assert any("replay" in kind for kind in seen)


# What the numbers of the bundled tape are, each by a statement of its own.
BY_HAND = {
    ("mixing", "harmful"): "SELECT count(*) FROM extfrag WHERE alloc_migratetype <> 'MOVABLE' AND"
    " fallback_migratetype = 'MOVABLE' AND fallback_order < 9",
    ("mixing", "movable_blocks"): "SELECT count(*) FROM pageblock WHERE snapshot = 0 AND"
    " migratetype = 'MOVABLE'",
    ("kswapd", "scanned"): "SELECT sum(nr_scanned) FROM reclaim JOIN task USING (pid) WHERE"
    " comm = 'kswapd0' AND kind = 'lru_shrink_inactive'",
    ("stalls", "nr"): "SELECT count(*) FROM reclaim WHERE kind = 'direct_reclaim_end'",
    ("stalls", "allocstall"): "SELECT count(*) FROM reclaim WHERE kind = 'direct_reclaim_begin'",
    ("stalls", "reclaimed"): "SELECT sum(nr_reclaimed) FROM reclaim WHERE"
    " kind = 'direct_reclaim_end'",
    ("failures", "optional"): "SELECT count(*) FROM event WHERE kind = 'alloc' AND pfn IS NULL",
    ("pcp_small", "drained"): "SELECT sum(1 << page_order::INTEGER) FROM event WHERE"
    " kind = 'pcpu_drain' AND page_order <= 3",
}


@pytest.mark.parametrize(("key", "sql"), BY_HAND.items(), ids=["-".join(k) for k in BY_HAND])
def test_the_bundled_tape_counted_by_hand(key: tuple[str, str], sql: str) -> None:
    with Database([Tape(PRESSURE)]) as db:
        ((expected,),) = db.ask(sql).rows
    assert found(PRESSURE)[key[0]].evidence[key[1]] == expected


def without(rows: Rows, *tables: str) -> Rows:
    return {name: own for name, own in rows.items() if name not in tables}


def test_a_tape_without_optional_tables(tmp_path: Path) -> None:
    """No snapshots, no samples, no stacks, no tasks: what cannot be known is unknown."""
    rows = healthy()
    mixing(rows)
    path = write(tmp_path / "bare.tape", {name: rows[name] for name in ("event", "reclaim")})
    said = found(path)
    assert said["mixing"].severity == "low"  # the number of MOVABLE pageblocks is not recorded
    assert said["mixing"].evidence["movable_blocks"] is None
    assert said["pinned"].severity == said["pcp_large"].severity == "unknown"
    limits = " ".join(limit.what for limit in diagnosis(path).limits)
    for words in ("no snapshot", "no samples", "no cgroups"):
        assert words in limits


def test_an_imported_trace_does_not_list_what_it_recorded(tmp_path: Path) -> None:
    """Only fallbacks are on it: nothing follows from the absence of all else."""
    rows = healthy()
    mixing(rows)
    rows["event"] = [row for row in rows["event"] if row["kind"] == "alloc_extfrag"]
    rows["tracepoint"] = [
        {"name": "mm_page_alloc_extfrag", "system": "kmem", "events": 7, "stored": "event"}
    ]
    facts = {name: fact for name, fact in FACTS.items() if name != "events"}
    said = found(write(tmp_path / "dat.tape", rows, facts))
    assert said["mixing"].shown
    blind = {name for name, finding in said.items() if finding.severity == "unknown"}
    assert blind >= {"failures", "kswapd", "stalls", "watermarks", "pcp_small", "pinned"}


def test_a_tape_with_few_events_is_as_long_as_its_recording(tmp_path: Path) -> None:
    """Two events 1 ms apart are no share of 100 % of a recording of 10 s."""
    rows = healthy()
    rows["event"] = []
    stall(rows, 1, 1.001, 40)
    path = write(tmp_path / "cheap.tape", rows, FACTS | {"events": tracepoints("cheap")})
    assert diagnosis(path).seconds == pytest.approx(10)
    assert found(path)["stalls"].evidence["share_percent"] == pytest.approx(0.01)


def test_direct_reclaim_without_kswapd_is_no_comfort(tmp_path: Path) -> None:
    rows = healthy()
    stall(rows, 1, 1.001, 40)
    finding = found(write(tmp_path / "t.tape", rows), "watermarks")["watermarks"]
    assert finding.severity == "unknown"


def test_a_tape_of_rare_events_only(tmp_path: Path) -> None:
    rows = healthy()
    mixing(rows)
    rows["event"] = [row for row in rows["event"] if row["kind"] == "alloc_extfrag"]
    path = write(tmp_path / "cheap.tape", rows, FACTS | {"events": tracepoints("cheap")})
    said = found(path)
    assert said["mixing"].shown
    assert not said["mixing"].evidence["lasting_known"]
    assert {said[name].severity for name in ("pcp_small", "pinned", "failures")} == {"unknown"}
    assert "--events" in said["pcp_small"].next
    limits = " ".join(limit.what for limit in diagnosis(path).limits)
    assert "no events of allocations, frees, refills of the per-CPU lists, drains" in limits


def test_a_tape_of_proc_only_has_no_false_comfort(tmp_path: Path) -> None:
    """Counters alone: OOM kills and failed huge pages are known, nothing else."""
    rows = healthy()
    counted(rows, oom_kill=1, thp_fault_alloc=5, thp_fault_fallback=95, allocstall_normal=3)
    rows = without(rows, "event", "reclaim", "compaction", "free_block", "ring")
    path = write(tmp_path / "proc.tape", rows, FACTS | {"events": []})
    said = found(path)
    assert said["failures"].severity == "high"
    assert said["huge_pages"].severity == "high"
    assert said["stalls"].evidence["allocstall"] == 3
    assert said["mixing"].severity == said["kswapd"].severity == "unknown"


def test_an_empty_tape_says_that_nothing_can_be_said(
    empty: Path, pagetape: Callable[..., Any]
) -> None:
    said = pagetape("diagnose", empty, "--json").json
    assert said["findings"] == []
    assert said["summary"].startswith("Nothing can be said")
    assert pagetape("diagnose", empty, "--all").status == 0


def test_uncounted_loss_is_a_finding(tmp_path: Path) -> None:
    rows = healthy()
    rows["lost"] = [{"cpu": 0, "from_ts": S, "to_ts": 2 * S, "events": None}]
    rows["ring"] = []
    said = found(write(tmp_path / "gap.tape", rows), "loss")
    assert said["loss"].severity == "medium"
    assert said["loss"].evidence["lost"] is None


def test_a_replay_is_the_model(played: Path, pagetape: Callable[..., Any]) -> None:
    said = pagetape("diagnose", played, "--all", "--json").json
    assert said["tier"] in ("A", "B")
    reasons = {one["id"]: one for one in said["not_shown"]}
    assert reasons["stalls"]["severity"] == "unknown"
    assert "R0" in reasons["stalls"]["reason"]
    assert any("model" in limit["what"] for limit in said["limits"])
    assert not any("replay" in one["next"] for one in said["findings"])


def test_lists_too_small_for_a_load_that_swings_further_than_any_list(tmp_path: Path) -> None:
    """9000 pages are allocated, then freed; lists of an eighth of the memory hold 2048 of them."""
    rows = healthy()
    for i in range(9000):
        rows["event"] += [
            event(1 + i / 10000, "alloc", FIRST + i),
            event(1 + i / 10000, "alloc_zone_locked", FIRST + i),
            event(5 + i / 10000, "free", FIRST + i),
            event(5 + i / 10000, "pcpu_drain", FIRST + i),
        ]
    finding = found(write(tmp_path / "t.tape", rows), "pcp_small")["pcp_small"]
    assert finding.severity == "none"
    assert finding.evidence["saved_percent"] == pytest.approx(100 * 2068 / 18020, abs=0.2)
    assert "swings further" in finding.text


def test_memory_that_kernel_requests_may_not_use_is_no_free_memory(tmp_path: Path) -> None:
    """The lists are large, and 30,000 of the 30,200 free pages are CMA."""
    rows = healthy()
    pcp_large(rows)
    for zone in rows["zone"]:
        zone |= {"free": 30200, "nr_free_cma": 30000}
    finding = found(write(tmp_path / "cma.tape", rows), "pcp_large")["pcp_large"]
    assert finding.severity == "high" and finding.evidence["usable"] == 200
    assert "118 MiB are free, 0.8 MiB of that for kernel requests" in finding.text
    for zone in rows["zone"]:
        zone["nr_free_cma"] = 0
    finding = found(write(tmp_path / "none.tape", rows), "pcp_large")["pcp_large"]
    assert finding.severity == "none" and finding.text.endswith("memory is not short")


def test_memory_that_may_be_usable_is_not_called_enough(tmp_path: Path) -> None:
    """Only buddyinfo was readable, and the counter of CMA pages is missing."""
    rows = healthy()
    pcp_large(rows)
    for zone in rows["zone"]:
        zone |= {"free": 30200, "nr_free_cma": None}
    for area in rows["free_area"]:
        area["migratetype"] = None
    rows["block_count"] = []
    finding = found(write(tmp_path / "unknown.tape", rows), "pcp_large")["pcp_large"]
    assert finding.severity == "none" and "at most 118 MiB of that" in finding.text
    assert "not short" not in finding.text


def test_huge_pages_that_a_cgroup_refuses(tmp_path: Path) -> None:
    rows = healthy()
    counted(rows, thp_fault_alloc=10, thp_fault_fallback=90, thp_fault_fallback_charge=80)
    finding = found(write(tmp_path / "t.tape", rows), "huge_pages")["huge_pages"]
    assert finding.severity == "high"
    assert "80 for the limit of a memory cgroup; 10 for an unknown cause." in finding.text


LIGHT = gfp("HIGHMEM", "MOVABLE", "IO", "FS", "COMP", "NOWARN", "NORETRY", "NOMEMALLOC", "THISNODE")
HUGE = LIGHT - gfp("THISNODE") | gfp("DIRECT_RECLAIM")


def lost(ts: float, flags: int, **more: Any) -> dict[str, Any]:
    """A request for a huge page that nobody got."""
    return event(ts, "alloc", None, page_order=9, gfp_flags=flags, **more)


def crowded(rows: Rows) -> None:
    """From 4 to 7 s only 128 of the 30,720 free pages are left; min is 100."""
    size = {"page_order": 9, "migratetype": "MOVABLE"}
    rows["event"] += [event(4, "alloc_zone_locked", FIRST, **size) for _ in range(59)]
    rows["event"] += [event(4.1, "alloc_zone_locked", FIRST, **size | {"page_order": 7})] * 3
    rows["event"] += [event(7, "pcpu_drain", FIRST, **size) for _ in range(59)]
    rows["event"] += [event(7.1, "pcpu_drain", FIRST, **size | {"page_order": 7})] * 3
    rows["event"] = [
        row for row in rows["event"] if row["ts"] > S or row["kind"] != "alloc_zone_locked"
    ]
    for zone in rows["zone"]:
        zone |= {"nr_free_cma": 0, "nr_free_highatomic": 0, "nr_reserved_highatomic": 0}


def test_each_failure_of_a_huge_page_has_the_cause_of_its_own_moment(tmp_path: Path) -> None:
    """Nothing of the causes shows in the snapshots: all memory is free in both."""
    rows = healthy()
    crowded(rows)
    rows["event"] += [lost(2 + i / 100, LIGHT) for i in range(7)]  # may not compact
    rows["event"] += [lost(3 + i / 100, HUGE, pid=101) for i in range(3)]  # compacts in vain
    rows["event"] += [lost(5 + i / 100, HUGE, pid=101) for i in range(5)]  # 228 pages are free
    counted(rows, thp_fault_alloc=10, thp_fault_fallback=18, thp_fault_fallback_charge=2)
    path = write(tmp_path / "t.tape", rows)
    finding = found(path, "huge_pages")["huge_pages"]
    counts = {name: finding.evidence[name] for name in ("cgroup", "memory", "block", "policy")}
    assert counts == {"cgroup": 2, "memory": 5, "block": 3, "policy": 7}
    assert "1 for an unknown cause" in finding.text  # 18 faults, of which the events show 15
    assert "Task driver lost 8 of the 15" in finding.text
    assert finding.next.split()[1:3] == ["report", "thp.failures"]
    with Database([Tape(path)]) as database:
        rows_ = database.run(query.reports()["thp.failures"]).objects()
    assert {(r["cause"], r["comm"]): r["failed"] for r in rows_} == {
        ("policy", "worker"): 7,
        ("memory", "driver"): 5,
        ("block", "driver"): 3,
        ("cgroup", None): 2,
    }


def test_the_first_try_of_a_fault_is_no_failure_of_its_own(tmp_path: Path) -> None:
    rows = healthy()
    crowded(rows)
    first = LIGHT | gfp("DIRECT_RECLAIM")
    for i in range(6):
        rows["event"] += [
            lost(2.0001 + i / 100, first, pid=101),
            lost(2.0002 + i / 100, HUGE, pid=101),
        ]
    rows["event"] += [lost(2.5, first, pid=101), event(2.6, "alloc", FIRST, pid=101)]
    evidence = found(write(tmp_path / "t.tape", rows), "huge_pages")["huge_pages"].evidence
    assert (evidence["failed"], evidence["block"]) == (7, 7)


def test_the_recorders_own_failures_are_marked_and_left_out(tmp_path: Path) -> None:
    rows = healthy()
    crowded(rows)
    rows["task"].append({"pid": 200, "tgid": 199, "comm": "reader"})
    rows["event"] += [lost(2 + i / 100, LIGHT, pid=200) for i in range(20)]
    rows["event"] += [lost(3 + i / 100, LIGHT) for i in range(12)]
    rows["event"] += [event(3.5, "alloc", None, pid=200, page_order=2)]
    both = ("huge_pages", "failures")
    said = found(write(tmp_path / "t.tape", rows, FACTS | {"recorder_pid": 199}), *both)
    assert said["huge_pages"].evidence["failed"] == 12
    assert said["huge_pages"].evidence["recorder"] == 20
    assert "recorder's own 20 failures are left out" in said["huge_pages"].text
    assert said["failures"].evidence["failed"] == 0
    assert said["failures"].evidence["recorder"] == 21
    assert "the recorder's own 21 failures left out" in said["failures"].text
    rows["task"].append({"pid": 199, "tgid": 199, "comm": "pagetape"})
    old = found(write(tmp_path / "old.tape", rows), "huge_pages")  # it does not name its recorder
    assert old["huge_pages"].evidence["failed"] == 12
    rows["task"].pop()
    unknown = found(write(tmp_path / "unknown.tape", rows), "huge_pages")
    assert unknown["huge_pages"].evidence["failed"] == 32


def test_one_setting_has_one_advice(tmp_path: Path) -> None:
    """The finding, the failures' remedy and the report name the same values."""
    rows = healthy()
    crowded(rows)
    watermarks(rows)
    rows["event"] += [event(4.2, "alloc_zone_locked", FIRST, page_order=7, migratetype="MOVABLE")]
    rows["event"] += [event(7.2, "pcpu_drain", FIRST, page_order=7, migratetype="MOVABLE")]
    rows["event"] += [event(5, "alloc", None, gfp_flags=gfp("HIGH"))] * 3
    path = write(tmp_path / "t.tape", rows)
    with Database([Tape(path)]) as database:
        (advice,) = database.run(query.reports()["reclaim.min_free"]).objects()
    said = found(path, "watermarks", "failures")
    scale, kbytes = advice["suggested_scale"], advice["suggested_kbytes"]
    assert f"watermark_scale_factor={scale}" in said["watermarks"].text
    assert said["watermarks"].next.endswith(f"watermark_scale_factor={scale}")
    assert f"{kbytes:,} are advised" in said["failures"].text
    assert said["failures"].next.endswith(f"min_free_kbytes={kbytes}")


def test_kswapd_that_works_is_none(tmp_path: Path) -> None:
    rows = healthy()
    kswapd(rows)
    for row in rows["reclaim"]:
        if "nr_scanned" in row:
            row["nr_reclaimed"] = 450
    assert found(write(tmp_path / "t.tape", rows), "kswapd")["kswapd"].severity == "none"


def test_counters_that_the_kernel_keeps_by_zone_count_as_one(tmp_path: Path) -> None:
    """/proc/vmstat up to 4.7 has pgscan_kswapd_dma32 and the like, and no event of the scan."""
    rows = healthy()
    kswapd(rows)
    rows["reclaim"] = [row for row in rows["reclaim"] if "nr_scanned" not in row]
    counted(rows, pgscan_kswapd_dma32=600, pgscan_kswapd_normal=400, pgsteal_kswapd_normal=20)
    judged = found(write(tmp_path / "t.tape", rows), "kswapd")["kswapd"]
    (node,) = judged.evidence["nodes"]
    assert (node["scanned"], node["reclaimed"], node["waste_percent"]) == (1000, 20, 98)


def test_higher_watermarks_are_no_advice_without_anything_to_reclaim(tmp_path: Path) -> None:
    rows = healthy()
    watermarks(rows)
    for row in rows["reclaim"]:
        if "nr_reclaimed" in row:
            row["nr_reclaimed"] = 3
    finding = found(write(tmp_path / "t.tape", rows), "watermarks")["watermarks"]
    assert finding.severity == "none"
    assert "too little to reclaim" in finding.text


def test_movable_pages_in_unmovable_pageblocks_are_no_disease(tmp_path: Path) -> None:
    """Kernels from 6.12 on emit an event for every page of such a fallback."""
    rows = healthy()
    for n in range(500):
        pfn = FIRST + BLOCK + n
        other = {"migratetype": "MOVABLE", "fallback_migratetype": "UNMOVABLE"}
        rows["event"].append(fallback(1 + n / 1000, pfn, **other))
    assert found(write(tmp_path / "t.tape", rows), "mixing")["mixing"].severity == "none"


def test_a_stack_is_named_by_the_code_that_asked() -> None:
    folded = "irq;driver_rx;alloc_skb;kmem_cache_alloc;new_slab;alloc_pages;rmqueue"
    assert callers(folded) == "alloc_skb < driver_rx < irq"
    assert callers("rmqueue") == "rmqueue"


def test_hostile_names_stay_on_their_line(tmp_path: Path, pagetape: Callable[..., Any]) -> None:
    rows = healthy()
    mixing(rows)
    rows["task"][1]["comm"] = "a\x1b[31m\nb"
    said = pagetape("diagnose", write(tmp_path / "t.tape", rows))
    assert "\x1b" not in said.out
    assert "\\x1b[31m\\nb" in said.out


def test_the_page_has_every_threshold() -> None:
    """docs/diagnose.md shows the numbers of thresholds.py."""
    text = (ROOT / "docs/diagnose.md").read_text()
    for name, value in vars(thresholds).items():
        if isinstance(value, Threshold):
            row = " / ".join(
                f"{x:g}" if x > 0.001 else "any" for x in (value.low, value.medium, value.high)
            )
            assert f"| {row} |" in text, f"{name}: {row}"


@pytest.mark.parametrize("name", ["pressure", "server"])
def test_a_number_of_pages_is_also_given_in_mib(name: str, pagetape: Callable[..., Any]) -> None:
    found = pagetape("diagnose", PRESSURE.parent / f"{name}.tape", "--all", "--json").json
    texts = [one.get("text") or one["reason"] for one in found["findings"] + found["not_shown"]]
    pages = [text for text in texts if re.search(r"\d pages", text)]
    assert len(pages) > 3
    for text in pages:
        # The goal of a direct reclaim is a constant of the kernel.
        assert not re.search(r"(?<!its goal is )\b[\d,]+ pages?\b(?! \([\d.,]+ MiB)", text), text


def test_pages_in_words() -> None:
    assert answer.pages(1, 4096) == "1 page (0.004 MiB)"
    assert answer.pages(1234, 4096) == "1,234 pages (4.8 MiB)"
    assert answer.pages(46.6, 65536, "its goal is 32 pages") == (
        "47 pages (2.9 MiB, its goal is 32 pages)"
    )
