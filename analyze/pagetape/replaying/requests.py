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

_REQUESTS = TABLES["inferred"].column("kind").labels_of("request")


def requests(rows: pa.Table) -> pa.Table:
    """The rows of `inferred` that are requests. The size of a drain is none."""
    kind = rows["kind"].cast(pa.utf8())
    rows = rows.filter(pc.is_in(kind, value_set=pa.array(_REQUESTS)))
    if not rows.num_rows:
        return rows
    place = rows.schema.get_field_index("pages")
    field = rows.schema.field(place)
    drain = pc.equal(rows["kind"].cast(pa.utf8()), "drain")
    pages = pc.if_else(drain, pa.scalar(None, field.type), rows["pages"])
    return rows.set_column(place, field, pages)
