# SPDX-License-Identifier: Apache-2.0
"""Which node the requests of a tape prefer, where they do not name it.

Every thread's requests prefer the node of the CPU, or, where the thread seems to be under a memory
policy, each the node it was served from: replay/prefer.h says how that is found out.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES

SCHEMA = TABLES["preference"].arrow

# auto: thread by thread; cpu: the node of the CPU; landed: where each request was served from.
MODES = ("auto", "cpu", "landed")


def chosen(found: pa.Table, mode: str) -> pa.Table:
    """What a run is given: the rows as found out, or every thread set to one of the modes."""
    if mode == "auto":
        return found
    labels = pa.array(TABLES["preference"].column("prefers").labels)
    index = pa.repeat(labels.index(mode), found.num_rows).cast(pa.uint8())
    column = found.schema.get_field_index("prefers")
    return found.set_column(
        column, found.schema.field(column), pa.DictionaryArray.from_arrays(index, labels)
    )


def shares(rows: pa.Table, mode: str) -> dict[str, Any]:
    """How the requests of a run, of those that do not name their node, find the one they prefer."""
    requests = pc.sum(rows["requests"]).as_py() or 0
    landed = rows.filter(pc.equal(rows["prefers"].cast(pa.utf8()), "landed"))
    nr = pc.sum(landed["requests"]).as_py() or 0
    return {
        "how": mode,
        "requests": requests,
        "landed": nr / requests if requests else None,
        "landed_threads": landed.num_rows,
    }
