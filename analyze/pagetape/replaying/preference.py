# SPDX-License-Identifier: Apache-2.0
"""The preferred node of requests that do not name one, by thread.

Without a memory policy, the requests of a thread prefer the node of their CPU. If the thread
seems to be under a memory policy (replay/tape/node_preference.h), each request prefers the node
that served it. If the memory policy of the process is known, it decides: without a policy, the
CPU's node; with a policy, or with a cpuset that excludes nodes, the node that served the request.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.numa_maps import preference_of
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

SCHEMA = TABLES["preference"].arrow

# auto: by thread; cpu: the CPU's node; landed: the node that served the request.


def known_preferences(tape: Tape, policies: Iterable[dict[str, Any]]) -> dict[int, str]:
    """The preference of each thread, by rows of memory_policy of threads or processes."""
    nodes = {zone["node"] for zone in tape.rows("zone")}
    known = {row["pid"]: preference_of(row, nodes) for row in policies}
    leaders = {row["pid"]: row["tgid"] for row in tape.rows("task")}
    threads = {pid: known.get(pid) or known.get(leaders.get(pid)) for pid in {*known, *leaders}}
    return {pid: found for pid, found in threads.items() if found is not None}


def corrected(found: pa.Table, by_policy: Mapping[int, str]) -> pa.Table:
    """The inferred rows, with the preferences `by_policy` for threads with a known policy."""
    if not by_policy:
        return found
    rows = found.to_pylist()
    for row in rows:
        if row["pid"] in by_policy:
            row |= {"preferred": by_policy[row["pid"]], "known": True}
    return pa.Table.from_batches([TABLES["preference"].batch(rows)])


def chosen(found: pa.Table, mode: str) -> pa.Table:
    """The input of a run: the rows `found`, or every thread set to one mode."""
    if mode == "auto":
        return found
    labels = pa.array(TABLES["preference"].column("preferred").labels)
    index = pa.repeat(labels.index(mode), found.num_rows).cast(pa.uint8())
    made = {"preferred": pa.DictionaryArray.from_arrays(index, labels)}
    made["known"] = pa.nulls(found.num_rows, SCHEMA.field("known").type)
    columns = {name: made.get(name, found[name]) for name in SCHEMA.names}
    return pa.table(columns, schema=SCHEMA)


def shares(rows: pa.Table, mode: str) -> dict[str, Any]:
    """The number of requests by preferred node, without requests that name their node."""
    requests = pc.sum(rows["requests"]).as_py() or 0
    landed = rows.filter(pc.equal(rows["preferred"].cast(pa.utf8()), "landed"))
    nr = pc.sum(landed["requests"]).as_py() or 0
    return {
        "how": mode,
        "known_threads": pc.sum(rows["known"]).as_py() or 0,
        "requests": requests,
        "landed": nr / requests if requests else None,
        "landed_threads": landed.num_rows,
    }
