# SPDX-License-Identifier: Apache-2.0
"""The machine of a tape and its state at the start, as input of the engine."""

import errno
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cpu_nodes, zone_events
from pagetape.tapes.overwritten import complete_from

SNAPSHOT = (
    "snapshot",
    "snapshot_zone",
    "snapshot_check",
    "zone",
    "pcp",
    "free_area",
    "block_count",
    "pageblock",
    "block_guess",
    "free_block",
    "pcp_page",
)

# Sysctls that are input of the engine.
SYSCTLS = (
    "vm.watermark_boost_factor",
    "vm.compaction_proactiveness",
    "vm.defrag_mode",
    "vm.zone_reclaim_mode",
    "vm.percpu_pagelist_high_fraction",
    "kernel.numa_balancing",
)

_NODE_BITS = 64  # of the engine's hopeless_nodes
_NODES_MOST = 1024  # CONFIG_NODES_SHIFT is at most 10
_ORDER_MOST = 13  # MAX_PAGE_ORDER of the engine (model.h); a larger one is refused there

# Of a tape without these facts: those of x86-64.
_PAGE_SIZE = 4096
_NR_ORDERS = 11

_ZONE_LOCKED = "kmem:mm_page_alloc_zone_locked"


def assumed_distances(nodes: list[dict[str, Any]], node: dict[str, Any]) -> list[int]:
    """The distances of a node without recorded ones: 10 to itself, 20 to all others."""
    return [10 if other["id"] == node["id"] else 20 for other in nodes]


def sysctls(tape: Tape) -> dict[str, int]:
    """The sysctls of the recording as arguments of the engine; raises TapeError for a bad one."""
    given = tape.facts.get("sysctls") or {}
    known = {}
    for name in SYSCTLS:
        setting = str(given.get(name, ""))
        if setting and not (setting.isdecimal() and len(setting) < 10):
            raise TapeError(errno.EINVAL, f"{tape.path}: sysctl {name} is '{setting}'")
        if setting:
            known[name.partition(".")[2]] = int(setting)
    return known


# The files of /proc that a replay needs, and those that show which pages are free at the start.
_MACHINE_FILES = ("zoneinfo", "pagetypeinfo")
REPLAY_FILES = (*_MACHINE_FILES, "kpageflags")


def _shows_pages(tape: Tape) -> bool:
    """Whether the start shows which pages are free."""
    return any(snapshot_rows(tape, name, 0) for name in ("free_block", "block_guess"))


def has_counts_only(tape: Tape) -> bool:
    """Whether the start has the number of free blocks by migratetype, but not their places."""
    areas = snapshot_rows(tape, "free_area", 0)
    counted = any(batch["migratetype"].null_count < batch.num_rows for batch in areas)
    return counted and not _shows_pages(tape)


def shows_zone_locked(tape: Tape) -> bool:
    """Whether the tape has the events that show pages leave the free lists."""
    return any(
        point["name"] == _ZONE_LOCKED.partition(":")[2] and point["stored"] and point["events"]
        for point in tape.rows("tracepoint")
    )


def _missing_files(tape: Tape, free: bool) -> list[str]:
    """Of REPLAY_FILES, those without contents on the tape; kpageflags only with `free`."""
    there = {
        "zoneinfo": bool(tape.facts.get("nodes") and snapshot_rows(tape, "zone", 0)),
        "pagetypeinfo": bool(tape.facts.get("pageblock_order")),
        "kpageflags": not free
        or _shows_pages(tape)
        or (has_counts_only(tape) and shows_zone_locked(tape)),
    }
    return [name for name, found in there.items() if not found]


def _check_files(tape: Tape, free: bool) -> None:
    if _ZONE_LOCKED not in tape.facts.get("events", [_ZONE_LOCKED]):
        why = "has no events of the free lists"
        raise TapeError(errno.EINVAL, f"{tape.path}: {why}; {zone_events.NEEDS_PAGE}")
    missing = _missing_files(tape, free)
    if not missing and tape.facts.get("cpus"):
        return
    needed = REPLAY_FILES if free else _MACHINE_FILES
    wanted = f"{', '.join(needed[:-1])} and {needed[-1]}"
    if "events" in tape.facts:
        files = ", ".join(f"/proc/{name}" for name in missing)
        step = f"record it where {files} can be read (pagetape doctor)"
    else:
        step = f"import it with --proc DIR, which holds {wanted} of before the trace"
    lacks = " and ".join(missing) or "number of CPUs"
    raise TapeError(
        errno.EINVAL, f"{tape.path}: cannot be replayed without {lacks} of its start: {step}"
    )


def topology(tape: Tape, *, free: bool = False) -> dict[str, Any]:
    """The machine as arguments of the engine.

    Raises TapeError that names the missing files of /proc; with `free` also where nothing shows
    the free pages at the start, which a free run needs.
    """
    _check_files(tape, free)
    facts = tape.facts
    if len(facts["nodes"]) > _NODES_MOST:
        raise TapeError(
            errno.EINVAL,
            f"{tape.path}: has {len(facts['nodes'])} nodes; there may be {_NODES_MOST}",
        )
    nodes = sorted(facts["nodes"], key=lambda node: int(node["id"]))
    home = cpu_nodes.by_cpu(tape)
    return sysctls(tape) | {
        "nr_cpus": facts["cpus"],
        "cpu_nodes": [home.get(cpu, 0) for cpu in range(facts["cpus"])],
        "node_distances": [
            node.get("distance") or assumed_distances(nodes, node) for node in nodes
        ],
        "pageblock_order": facts["pageblock_order"],
        "max_order": facts.get("nr_orders", _NR_ORDERS) - 1,
        "page_size": facts.get("page_size", _PAGE_SIZE),
        "zone_events": zone_events.is_zone(tape),
        "known_pages": _known_pages(tape, facts["pageblock_order"]),
        "hopeless_nodes": sum(
            1 << node for node in {node for node, _ in old_boosts(tape)} if node < _NODE_BITS
        ),
    }


def last_pages(tape: Tape) -> int:
    """The snapshot after the events that shows pages; 0 without one."""
    return pc.max(tape.table("block_guess")["snapshot"]).as_py() or 0


def old_boosts(tape: Tape) -> dict[tuple[int, str], int]:
    """The boosts (pages) by node and zone that the last snapshot shows and no event ends, if
    events were lost before the first one.

    Only a pass of kswapd ends a boost, and a boost wakes kswapd unless it is hopeless. On a node
    without a recorded pass, boosts are therefore of a hopeless kswapd, and most are as old as the
    lost events. Before 5.14, zoneinfo has them only as a part of the marks.
    """
    since, last = complete_from(tape), last_pages(tape)
    if since is None or not last:
        return {}
    reclaim = tape.table("reclaim")
    passes = pc.and_(
        pc.equal(reclaim["kind"], "kswapd_wake"),
        pc.greater_equal(reclaim["ts"], pa.scalar(since, pa.uint64())),
    )
    awake = set(reclaim.filter(passes)["node"].to_pylist())
    zones: dict[int, dict[tuple[int, str], dict[str, Any]]] = {0: {}, last: {}}
    for row in tape.rows("zone"):
        if row["snapshot"] in zones:
            zones[row["snapshot"]][row["node"], row["zone"]] = row
    found = {}
    for (node, zone), new in zones[last].items():
        old = zones[0].get((node, zone), new)
        grown = new["wmark_min"] - old["wmark_min"] if new["boost"] is None else new["boost"]
        if node not in awake and grown > 0:
            found[node, zone] = grown
    return found


def _known_pages(tape: Tape, pageblock_order: int) -> int:
    """Pages of the pageblocks at the start: what the tape shows of the zones' size."""
    first = pc.sum(pc.equal(tape.table("pageblock")["snapshot"], 0)).as_py() or 0
    return int(first) << min(pageblock_order, _ORDER_MOST)


def snapshot_rows(tape: Tape, name: str, number: int) -> list[pa.RecordBatch]:
    """The rows of one snapshot in one table."""
    rows = tape.table(name)
    return list(rows.filter(pc.equal(rows["snapshot"], number)).combine_chunks().to_batches())


def recorder_pids(tape: Tape) -> set[int]:
    """The threads of the tape's own recorder; none if the tape does not say."""
    own = tape.facts.get("recorder_pid")
    if own is None:
        return set()
    return {row["pid"] for row in tape.rows("task") if row["tgid"] == own}
