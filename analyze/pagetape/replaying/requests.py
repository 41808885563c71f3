# SPDX-License-Identifier: Apache-2.0
"""Which inferred rows a what-if may take as input.

`validate` infers activity without an event. Some of it was asked for: a page was taken, when and by
which task; compaction isolated a block; a list was drained. The rest is what the recorded policy
made of it: how many pages the drain took, the limits of a list, a boost. Under another policy that
would be another. A what-if takes requests only, and so does the run under the tape's own rules
with which it is compared. An assisted run takes all rows.
"""

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES

_KIND = TABLES["inferred"].column("kind")
_REQUESTS = pa.array(map(_KIND.labels.index, _KIND.labels_of("request")), pa.uint8())
_DRAIN = pa.scalar(_KIND.labels.index("drain"), pa.uint8())


def requests(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of `inferred` that are requests. The size of a drain is none."""
    rows = rows.filter(pc.is_in(rows["kind"].indices, _REQUESTS))
    place = rows.schema.get_field_index("pages")
    field = rows.schema.field(place)
    drain = pc.equal(rows["kind"].indices, _DRAIN)
    pages = pc.if_else(drain, pa.scalar(None, field.type), rows["pages"])
    return rows.set_column(place, field, pages)
