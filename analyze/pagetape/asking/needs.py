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
_RESERVED = ("a replay by rules with MIGRATE_RESERVE", "pagetape policies")
_SAMPLED = ("samples of /proc", "pagetape record --sample 1s -o sampled.tape")

# table: (table that every tape of the kind has, what the tape must be, the command that makes it)
_KINDS = {
    "exactness": ("exactness", *_VALIDATED),
    "repair": ("exactness", *_VALIDATED),
    "miss": ("exactness", *_VALIDATED),
    "counter": ("counter", *_REPLAYED),
    "block_mix": ("block_mix", *_REPLAYED),
    "pcp_occupancy": ("pcp_occupancy", *_REPLAYED),
    "preference": ("preference", *_REPLAYED),
    "zone_lock": ("zone_lock", *_LOCKED),
    "lock_wait": ("zone_lock", *_LOCKED),
    "reserve": ("reserve", *_RESERVED),
    "sample": ("sample", *_SAMPLED),
}


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
    for name in _tables(q):
        if name not in _KINDS:
            continue
        mark, what, command = _KINDS[name]
        if not any(mark in tape.tables for tape in tapes):
            made = command.format(tape=tapes[0].path)
            return f"{q.name} needs {what}, which {tapes[0].path} is not: `{made}`"
    return None
