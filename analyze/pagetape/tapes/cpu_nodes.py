# SPDX-License-Identifier: Apache-2.0
"""The node of each CPU, for a tape whose recording does not say it (no /sys/devices/system/node).

A CPU refills its lists from its own node first. So its node is the one whose free lists it took
most blocks from.
"""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas.tape import Tape
from pagetape.tapes import cache

_SCHEMA = pa.schema([("cpu", pa.int64()), ("node", pa.int64())])


def is_unknown(tape: Tape) -> bool:
    """Whether the machine has several nodes, and the recording does not say whose a CPU is."""
    nodes = tape.facts.get("nodes") or []
    return len(nodes) > 1 and not any(node.get("cpus") for node in nodes)


def by_cpu(tape: Tape) -> dict[int, int]:
    """The node by CPU: as recorded, or by the events; without a CPU that neither shows.

    The events are counted once, and the result is cached.
    """
    if not is_unknown(tape):
        nodes = tape.facts.get("nodes") or []
        return {cpu: int(node["id"]) for node in nodes for cpu in node.get("cpus", [])}
    found = cache.table(tape, "cpu_nodes", _SCHEMA, lambda: _by_events(tape))
    return dict(zip(found["cpu"].to_pylist(), found["node"].to_pylist(), strict=True))


def _by_events(tape: Tape) -> pa.Table:
    zones = [row for row in tape.rows("zone") if not row["snapshot"] and row["spanned"]]
    blocks: dict[int, Counter[int]] = {}
    for batch in tape.batches("event", ["cpu", "kind", "pfn"]):
        taken = batch.filter(pc.equal(batch["kind"].cast(pa.utf8()), "alloc_zone_locked"))
        for zone in zones:
            first, end = zone["start_pfn"], zone["start_pfn"] + zone["spanned"]
            inside = pc.and_(pc.greater_equal(taken["pfn"], first), pc.less(taken["pfn"], end))
            for row in pc.value_counts(taken["cpu"].filter(inside)).to_pylist():
                blocks.setdefault(row["values"], Counter())[zone["node"]] += row["counts"]
    # The lowest of equal ones.
    nodes = {cpu: min(nr, key=lambda node: (-nr[node], node)) for cpu, nr in blocks.items()}
    return pa.table([list(nodes), list(nodes.values())], schema=_SCHEMA)
