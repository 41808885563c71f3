# SPDX-License-Identifier: Apache-2.0
"""Which node the requests of a tape prefer, where they do not name it.

Every thread's requests prefer the node of the CPU, or, where the thread seems to be under a memory
policy, each the node it was served from: replay/prefer.h says how that is found out. Where the
policy of its process was told, that decides: the CPU's node without one, and with one, or with
a cpuset that leaves out nodes, again the node it was served from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.numa_maps import prefers
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

SCHEMA = TABLES["preference"].arrow

# auto: thread by thread; cpu: the node of the CPU; landed: where each request was served from.
MODES = ("auto", "cpu", "landed")


def told(tape: Tape, policies: Iterable[dict[str, Any]]) -> dict[int, str]:
    """What each thread's requests prefer, by rows of memory_policy of threads or processes."""
    nodes = {zone["node"] for zone in tape.table("zone").to_pylist()}
    known = {row["pid"]: prefers(row, nodes) for row in policies}
    leaders = {row["pid"]: row["tgid"] for row in tape.table("task").to_pylist()}
    threads = {pid: known.get(pid) or known.get(leaders.get(pid)) for pid in {*known, *leaders}}
    return {pid: found for pid, found in threads.items() if found is not None}


def corrected(found: pa.Table, known: Mapping[int, str]) -> pa.Table:
    """The rows as found out, but of threads whose policy was told what follows from that."""
    if not known:
        return found
    rows = found.to_pylist()
    for row in rows:
        if row["pid"] in known:
            row |= {"preferred": known[row["pid"]], "known": True}
    return pa.Table.from_batches([TABLES["preference"].batch(rows)])


def chosen(found: pa.Table, mode: str) -> pa.Table:
    """What a run is given: the rows as found out, or every thread set to one of the modes."""
    if mode == "auto":
        return found
    labels = pa.array(TABLES["preference"].column("preferred").labels)
    index = pa.repeat(labels.index(mode), found.num_rows).cast(pa.uint8())
    made = {"preferred": pa.DictionaryArray.from_arrays(index, labels)}
    made["known"] = pa.nulls(found.num_rows, SCHEMA.field("known").type)
    columns = {name: made.get(name, found[name]) for name in SCHEMA.names}
    return pa.table(columns, schema=SCHEMA)


def shares(rows: pa.Table, mode: str) -> dict[str, Any]:
    """How the requests of a run, of those that do not name their node, find the one they prefer."""
    requests = pc.sum(rows["requests"]).as_py() or 0
    landed = rows.filter(pc.equal(rows["preferred"].cast(pa.utf8()), "landed"))
    nr = pc.sum(landed["requests"]).as_py() or 0
    return {
        "how": mode,
        "told_threads": pc.sum(rows["known"]).as_py() or 0,
        "requests": requests,
        "landed": nr / requests if requests else None,
        "landed_threads": landed.num_rows,
    }
