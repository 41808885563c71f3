# SPDX-License-Identifier: Apache-2.0
"""The additional input of a replay with feedback (--reclaim R1, R2), from the recording.

    reclaimed   the frees that reclaim made, which the model's own reclaim makes instead
    reclaimable the movable requests whose pages reclaim freed, by their gfp flags, and how many
                pages of files there were at the start
    service     how long wakeups took, as quantiles
    scan        the pace and the yield of reclaim and compaction, scan by scan and run by run
    compaction  when each kcompactd first looked for work, if it did

If a recording has no such events, the tables are empty: the model's reclaim then takes no time,
and has no pages to free.
"""

from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas import TABLES
from pagetape.schemas.memory_tape import TapeWith
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache

_LOOKS = ("kcompactd_sleep", "kcompactd_wake", "wakeup_kcompactd")


def _ask(tape: Tape, name: str, **given: pa.Table) -> pa.Table:
    """The table `name`, computed by the query queries/internal/`name` from the tape and `given`."""
    table = TABLES[name]

    def make() -> pa.Table:
        with Database([TapeWith(tape, given)]) as db:
            return db.rows(table, query.internal()[name])

    return cache.table(tape, name, table.arrow, make)


# Counters of the pages of files on the LRU lists.
_FILES = ("nr_inactive_file", "nr_active_file")


def _files(tape: Tape) -> pa.Table:
    """The row of reclaimable for the pages of files at the start."""
    rows = tape.rows("vmstat")
    pages = sum(r["value"] for r in rows if not r["snapshot"] and r["name"] in _FILES)
    return pa.Table.from_batches([TABLES["reclaimable"].batch([{"pages": pages}])])


def _looks(tape: Tape) -> pa.Table:
    """The rows of compaction at which a kcompactd looks for work, without its runs.

    If a tape has only other rows, the first of them: it shows that no kcompactd looked for work.
    """
    arrow = TABLES["compaction"].arrow
    rows = [
        batch.filter(pc.is_in(batch["kind"].cast(pa.string()), pa.array(_LOOKS)))
        for batch in tape.batches("compaction")
    ]
    looks = pa.Table.from_batches(rows, arrow)
    others = (batch.slice(0, 1) for batch in tape.batches("compaction") if batch.num_rows)
    return looks if looks.num_rows else pa.Table.from_batches(islice(others, 1), arrow)


def read(tape: Tape) -> dict[str, pa.Table]:
    """The input by table; none for the tape of a replay."""
    if "replay" in tape.facts:
        return {}
    reclaimed = _ask(tape, "reclaimed")
    return {
        "reclaimed": reclaimed,
        "reclaimable": pa.concat_tables(
            [_ask(tape, "reclaimable", reclaimed=reclaimed), _files(tape)]
        ),
        "service": _ask(tape, "service"),
        "scan": _ask(tape, "scan"),
        "compaction": _looks(tape),
    }
