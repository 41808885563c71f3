# SPDX-License-Identifier: Apache-2.0
"""What a report needs of a tape, and which command makes it.

Some tables are written only by one command. A report that reads such a table has no rows on a tape
of another kind. Such an answer must not look like "it never happened".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pagetape.asking import query
from pagetape.schemas.tape import Tape

_VALIDATED = ("a validated tape", "pagetape validate {tape} -o validated.tape")
_REPLAYED = ("a replayed tape", "pagetape replay {tape} -o replayed.tape")
_LOCKED = (
    "a replay under the policy zone_lock",
    "pagetape replay {tape} --policy zone_lock -o locked.tape",
)
_RESERVED = (
    "a replay under the policy reserve",
    "pagetape replay {tape} --policy reserve -o reserved.tape",
)
_SAMPLED = ("samples of /proc", "pagetape record --sample 1s -o sampled.tape")

# table: (table that every tape of the kind has, what the tape must be, the command that makes it).
# The most special kind comes first: a query may also read tables of every replay.
_KINDS = {
    "zone_lock": ("zone_lock", *_LOCKED),
    "lock_wait": ("zone_lock", *_LOCKED),
    "reserve": ("reserve", *_RESERVED),
    "exactness": ("exactness", *_VALIDATED),
    "repair": ("exactness", *_VALIDATED),
    "miss": ("exactness", *_VALIDATED),
    "counter": ("counter", *_REPLAYED),
    "block_mix": ("block_mix", *_REPLAYED),
    "pcp_occupancy": ("pcp_occupancy", *_REPLAYED),
    "sample": ("sample", *_SAMPLED),
}

# Reports that also answer without these tables.
_OPTIONAL = ("boost.timeline", "extfrag.reduction", "metrics", "numa.faults")


def _tables(q: query.Query) -> Iterator[str]:
    """The tables that a query reads, also through views."""
    views = {view.name: view for view in query.views()}
    for name in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", q.sql):
        if name in views and name != q.name:
            yield from _tables(views[name])
        else:
            yield name


def missing(q: query.Query, tapes: Sequence[Tape]) -> str | None:
    """Why an answer without rows is no answer: what `q` needs and none of the tapes has.

    None if the tapes are of the right kind.
    """
    if q.name in _OPTIONAL:
        return None
    read = set(_tables(q))
    for name in (name for name in _KINDS if name in read):
        mark, what, command = _KINDS[name]
        if not any(mark in tape.tables for tape in tapes):
            made = command.format(tape=tapes[0].path)
            return f"{q.name} needs {what}, which {tapes[0].path} is not: `{made}`"
    return None
