# SPDX-License-Identifier: Apache-2.0
"""Preferred nodes of requests, from the recording to the report: two CPUs on two nodes.

Thread 100 runs on node 0 and gets all its pages from node 1, though its own has plenty; thread
101 runs on node 1 and gets its pages there.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

DATA = Path(__file__).parents[2] / "collector/tests/data"
DAT, PROC = DATA / "linux-6.1-zstd.dat", DATA / "proc-6.1"

PAGES = 32 << 9  # of a node
NODES = [
    {"id": 0, "cpus": [0], "distance": [10, 20]},
    {"id": 1, "cpus": [1], "distance": [20, 10]},
]


@pytest.fixture
def two_nodes(small: Path, tmp_path: Path) -> Path:
    place: dict[str, Any] = {"snapshot": 0, "ts": 0, "zone": "NORMAL"}
    marks = {"wmark_min": 64, "wmark_low": 80, "wmark_high": 96, "boost": 0}
    reserve = {c.name: 0 for c in TABLES["zone"].columns if c.name.startswith("lowmem_reserve")}
    size = {"spanned": PAGES, "present": PAGES, "managed": PAGES, "free": PAGES}
    lists = {"count": 0, "high": 64, "batch": 16, "high_min": 64, "high_max": 128}
    event = {"flags": 0, "page_order": 0, "kind": "alloc", "migratetype": "MOVABLE"}
    with Writer(tmp_path / "two.tape", Tape(small).facts | {"nodes": NODES}) as tape:
        for node in (0, 1):
            here = place | {"node": node}
            first = PAGES * (node + 1)
            tape.rows("zone", [here | {"start_pfn": first} | size | marks | reserve])
            tape.rows("pcp", [here | lists | {"cpu": cpu} for cpu in (0, 1)])
            blocks = range(first, first + PAGES, 1024)
            tape.rows("block_guess", [here | {"page_order": 10, "pfn": pfn} for pfn in blocks])
            tape.rows("block_count", [here | {"migratetype": "MOVABLE", "nr_blocks": 32}])
            tape.rows(
                "pageblock",
                [
                    here | {"migratetype": "MOVABLE", "pfn": pfn, "guessed": True}
                    for pfn in range(first, first + PAGES, 512)
                ],
            )
        tape.rows(
            "event",
            [
                event
                | {"ts": 1000 * i, "cpu": i % 2, "pid": 100 + i % 2, "pfn": 2 * PAGES + i}
                | {"gfp_flags": 0}
                for i in range(400)
            ],
        )
    return tmp_path / "two.tape"


def test_a_thread_served_elsewhere_keeps_that_node(
    two_nodes: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "out.tape"
    run = pagetape("replay", two_nodes, "-o", out, "--json").json
    assert run["preference"] == {
        "how": "auto",
        "requests": 400,
        "landed": 0.5,
        "landed_threads": 1,
        "known_threads": 0,
    }
    assert run["totals"]["remote_node"]["value"] == 0
    pfns = [row["pfn"] for row in Tape(out).table("event").to_pylist() if row["kind"] == "alloc"]
    assert all(pfn >= 2 * PAGES for pfn in pfns)
    rows = pagetape("report", "numa.preference", out, "--json").json["rows"]
    assert [(r["found"], r["threads"], r["share"], r["unforced"], r["known"]) for r in rows] == [
        ("cpu", 1, 0.5, 0, 0),
        ("landed", 1, 0.5, 200, 0),
    ]


def test_the_node_of_the_cpu_may_be_asked_for(
    two_nodes: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "out.tape"
    run = pagetape("replay", two_nodes, "--prefer", "cpu", "-o", out, "--json").json
    assert (run["preference"]["how"], run["preference"]["landed"]) == ("cpu", 0.0)
    events = [row for row in Tape(out).table("event").to_pylist() if row["kind"] == "alloc"]
    assert all((row["pfn"] >= 2 * PAGES) == (row["cpu"] == 1) for row in events)
    assert not Tape(out).facts["replay"]["own"]
    landed = pagetape("replay", two_nodes, "--prefer", "landed", "--json").json["preference"]
    assert (landed["landed"], landed["landed_threads"]) == (1.0, 2)


def test_a_run_counts_the_requests_by_preferred_node(two_nodes: Path, pagetape: Run) -> None:
    assert (
        "preferred node (auto): the CPU's for 50.0 % of the requests, for the others the node that"
        " served them (1 thread)\n"
    ) in pagetape("replay", two_nodes).out


def test_a_replay_of_a_replay_takes_what_that_was_given(
    two_nodes: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "out.tape"
    pagetape("replay", two_nodes, "-o", out)
    again = pagetape("replay", out, "--json").json
    assert again["preference"]["landed"] == 0.5


POLICIES = {
    "default": "/proc/100/numa_maps:7f00 default anon=3 N1=3\n/proc/100/numa_maps:7f01 default\n",
    "local": "/proc/100/numa_maps:7f00 local heap anon=3\n",
    "one mapping is bound": "/proc/100/numa_maps:7f00 default\n/proc/100/numa_maps:7f01 bind:1\n",
    "preferred": "/proc/100/numa_maps:7f00 prefer=static:1 stack\n",
    "many": "/proc/100/numa_maps:7f00 prefer (many):0-1\n",
    "weighted": "/proc/100/numa_maps:7f00 weighted interleave:0-1 anon=1\n",
    "cpuset": "/proc/100/status:Mems_allowed_list:\t1\n/proc/100/numa_maps:7f00 default\n",
    "thread": "/proc/9/task/100/numa_maps:7f00 default\n/proc/9/numa_maps:7f00 bind:1\n",
}
AWAY = {"one mapping is bound", "preferred", "many", "weighted", "cpuset"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_known_policy_decides(name: str, two_nodes: Path, tmp_path: Path, pagetape: Run) -> None:
    """Thread 100 seems to have a memory policy."""
    (tmp_path / "maps").write_text(POLICIES[name])
    out = tmp_path / "out.tape"
    run = pagetape("replay", two_nodes, "--numa-maps", tmp_path / "maps", "-o", out, "--json").json
    found = run["preference"]
    assert (found["known_threads"], found["landed_threads"]) == (1, int(name in AWAY))
    events = [row for row in Tape(out).table("event").to_pylist() if row["kind"] == "alloc"]
    home = [row["pfn"] < 2 * PAGES for row in events if row["pid"] == 100]
    assert home == [name not in AWAY] * 200
    assert not Tape(out).facts["replay"]["own"]
    rows = pagetape("report", "numa.preference", out, "--json").json["rows"]
    assert sum(row["known"] for row in rows) == 1


def test_an_unknown_policy_is_inferred(two_nodes: Path, tmp_path: Path, pagetape: Run) -> None:
    (tmp_path / "maps").write_text("/proc/100/status:Mems_allowed_list:\t0-1\n")
    maps = ("--numa-maps", tmp_path / "maps")
    found = pagetape("replay", two_nodes, *maps, "--json").json["preference"]
    assert (found["known_threads"], found["landed_threads"]) == (0, 1)


def test_a_tape_may_contain_its_policies(two_nodes: Path, tmp_path: Path, pagetape: Run) -> None:
    source = Tape(two_nodes)
    with Writer(tmp_path / "known.tape", source.facts) as tape:
        for name in source.tables:
            tape.rows(name, source.table(name).to_pylist())
        tape.rows("task", [{"pid": 100, "tgid": 7, "comm": "thread"}])
        tape.rows("memory_policy", [{"pid": 7, "policy": "default", "cpuset": "0-1"}])
    out = tmp_path / "out.tape"
    found = pagetape("replay", tmp_path / "known.tape", "-o", out, "--json").json["preference"]
    assert (found["known_threads"], found["landed_threads"]) == (1, 0)
    assert Tape(out).facts["replay"]["own"]
    assert "; known for 1 thread\n" in pagetape("replay", tmp_path / "known.tape").out
    unasked = pagetape("replay", tmp_path / "known.tape", "--prefer", "landed", "--json").json
    assert unasked["preference"]["known_threads"] == 0


def test_import_takes_policies_from_the_files_of_proc(tmp_path: Path, pagetape: Run) -> None:
    proc = shutil.copytree(PROC, tmp_path / "proc")
    (proc / "numa_maps").write_text(POLICIES["many"] + POLICIES["cpuset"])
    out = tmp_path / "t.tape"
    words = ("--proc", proc, "-o", out)
    assert pagetape("import", DAT, *words).status == 0
    assert Tape(out).table("memory_policy").to_pylist() == [
        {"pid": 100, "policy": "prefer (many):0-1, default", "cpuset": "1"}
    ]


def test_a_file_of_no_policies_is_refused(two_nodes: Path, tmp_path: Path, pagetape: Run) -> None:
    (tmp_path / "maps").write_text("7f00 default anon=3\n")
    said = pagetape("replay", two_nodes, "--numa-maps", tmp_path / "maps")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert f"{tmp_path}/maps: not the output of grep -H" in said.err


def test_a_machine_of_one_node_has_no_preference(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    run = pagetape("replay", small, "-o", tmp_path / "out.tape", "--json").json
    none = {"landed": None, "landed_threads": 0, "known_threads": 0}
    assert run["preference"] == {"how": "auto", "requests": 0} | none
    assert run["synthetic"] == []
    assert "preferred node" not in pagetape("replay", small).out
    assert pagetape("report", "numa.preference", tmp_path / "out.tape", "--json").json["rows"] == []


def test_a_tape_of_one_node_is_played_as_of_several_by_a_map_of_its_cpus(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "out.tape"
    run = pagetape("replay", small, "--nodes", "1/0", "-o", out, "--json").json
    assert run["policies"] == ["fake_numa:nodes=2"]
    assert [what.partition(":")[0] for what in run["synthetic"]] == ["the nodes or zones"]
    assert Tape(out).facts["replay"]["synthetic"] == run["synthetic"]
    zones = [row for row in Tape(out).table("zone").to_pylist() if row["snapshot"] == 1]
    border = max(zone["start_pfn"] for zone in zones)
    assert [zone["node"] for zone in zones] == [0, 1]
    allocs = [row for row in Tape(out).table("event").to_pylist() if row["kind"] == "alloc"]
    assert all((row["pfn"] >= border) == (row["cpu"] == 0) for row in allocs)
    assert "synthetic: the nodes or zones" in pagetape("replay", small, "--nodes", "1/0").out


def test_a_supply_that_was_not_recorded_is_synthetic(small: Path, pagetape: Run) -> None:
    supply = pagetape("replay", small, "--reclaim", "R2", "--json").json["synthetic"]
    assert supply == ["the supply of reclaim: the oldest MOVABLE pages"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "'0' must name each of the tape's CPUs, 0 to 1"),
        ("0/1-2", "'0/1-2' must name each of the tape's CPUs, 0 to 1"),
        ("0-1/1", "CPU 1 is on two nodes"),
        ("0/x", "'0/x' is not a map of CPUs (example: 0-3/4-7)"),
        ("0//1", "'0//1' is not a map of CPUs (example: 0-3/4-7)"),
    ],
)
def test_a_map_that_is_none_is_bad_usage(text: str, why: str, small: Path, pagetape: Run) -> None:
    said = pagetape("replay", small, "--nodes", text)
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert why in said.err


def test_a_tape_of_several_nodes_keeps_them(two_nodes: Path, pagetape: Run) -> None:
    said = pagetape("replay", two_nodes, "--nodes", "0/1")
    assert said.status == 2
    assert "the tape already has several nodes" in said.err
