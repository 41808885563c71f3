# SPDX-License-Identifier: Apache-2.0
"""The event set `zone`: what the buddy allocator sees.

Of the page events it holds refills (alloc_zone_locked), drains (pcpu_drain), fallbacks
(alloc_extfrag), and the frees past the per-CPU lists: of blocks that no list takes, and of pages
whose list was locked. The lists are the boundary of such a tape: what happens on their other side
has no event. Allocations of blocks that no list takes have an alloc_zone_locked, so their `alloc`
is not needed.

A tape of all page events can be projected: it then has the rows that a recorder of `zone` would
have stored. Such a recorder sees a locked list; of a tape, validate infers it (direct_free).
"""

import errno
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import kernel_rows

NAME = "zone"
FACT = "event_set"  # among the facts of a tape

NEEDS_PAGE = "needs page events: pagetape record --events page"

LISTED_KINDS = ("alloc_zone_locked", "pcpu_drain", "alloc_extfrag")
_UNLISTED = "free"  # the kind of which only frees past the lists are held
_UNSEEN = ("alloc", "free_batched")

_PCP_MAX_ORDER = 3  # PAGE_ALLOC_COSTLY_ORDER
_SINGLE = ("PCP_LISTS_1", "PCP_LISTS_3")  # rows whose lists take single pages only


def is_of_proc(tape: Tape) -> bool:
    """Whether the tape has /proc over time, and no events."""
    return tape.facts.get(FACT) == "proc"


def is_zone(tape: Tape) -> bool:
    """Whether the tape has the events of `zone` only."""
    return tape.facts.get(FACT) == NAME


def listed_orders(row: str, pageblock_order: int) -> list[int]:
    """The orders that have a per-CPU list under a kernel row."""
    if kernel_rows.rules(row)["pcp_lists"] in _SINGLE:
        return [0]
    return [*range(_PCP_MAX_ORDER + 1), pageblock_order]


def _past_locks(inferred: pa.Table) -> list[int]:
    """The rows of frees that went past a locked list, in rising order."""
    those = inferred.filter(pc.equal(inferred["kind"].cast(pa.utf8()), "direct_free"))
    return sorted(those["at"].to_pylist())


class Projection:
    """The rows of a tape of page events that a recorder of `zone` would have stored."""

    def __init__(self, tape: Tape, inferred: Callable[[Tape], pa.Table]) -> None:
        """`inferred` gives the inferred rows of a tape (validation.py)."""
        self._tape = tape
        row = kernel_rows.of_release(kernel_rows.release(tape))
        if row is None:
            raise TapeError(
                errno.EINVAL,
                f"{tape.path}: the kernel release is unknown, and with it the orders of the"
                " per-CPU lists; import the trace again with --kernel-release",
            )
        self._listed = listed_orders(row, tape.facts.get("pageblock_order", 9))
        self._past_locks = [] if is_zone(tape) else _past_locks(inferred(tape))
        self._rows = 0
        held = [self._held_before(mask) for _, mask in self._masked()]
        # By row of event: the held rows before it, and at last their total.
        total = pa.array([self._rows], pa.uint64())
        self._before = pa.chunked_array([*held, total]).combine_chunks()

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the projected tape."""
        gone = {
            point
            for kind in TABLES["event"].kinds
            if kind.name in _UNSEEN
            for point in kind.tracepoints
        }
        facts = self._tape.facts | {FACT: NAME}
        if "events" in facts:
            facts["events"] = [point for point in facts["events"] if point not in gone]
        return facts

    def _masked(self) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The batches of `event`, each with a mask of the rows that the event set has."""
        first = 0
        for batch in self._tape.batches("event"):
            kind = batch["kind"].cast(pa.utf8())
            past = pc.invert(
                pc.is_in(batch["page_order"], pa.array(self._listed, pa.uint8())),
            )
            frees = pc.equal(kind, _UNLISTED)
            if is_zone(self._tape):
                past = frees
            elif locked := self._locked_in(first, batch.num_rows):
                rows = pa.array(range(batch.num_rows), pa.uint32())
                past = pc.or_(past, pc.is_in(rows, pa.array(locked, pa.uint32())))
            yield (
                batch,
                pc.or_(pc.is_in(kind, pa.array(LISTED_KINDS)), pc.and_(frees, past)),
            )
            first += batch.num_rows

    def _locked_in(self, first: int, nr: int) -> list[int]:
        """Of the rows of a batch, the frees of pages whose list was locked."""
        begin = bisect_left(self._past_locks, first)
        end = bisect_left(self._past_locks, first + nr)
        return [row - first for row in self._past_locks[begin:end]]

    def _held_before(self, mask: pa.Array) -> pa.Array:
        ones = mask.cast(pa.uint64())
        sums = pc.add(pc.cumulative_sum(ones), pa.scalar(self._rows, pa.uint64()))
        self._rows = sums[-1].as_py() if len(sums) else self._rows
        return pc.subtract(sums, ones)

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """The batches of a table of the projected tape."""
        if name == "tracepoint":
            yield TABLES[name].batch(list(self._points()))
            return
        if name == "event":
            yield from (batch.filter(mask) for batch, mask in self._masked())
            return
        for batch in self._tape.batches(name):
            if "at" in batch.schema.names:
                batch = self._placed(batch)
            yield batch

    def _placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that stand among the events, at their new places."""
        last = pa.scalar(len(self._before) - 1, pa.uint64())
        number = batch.schema.get_field_index("at")
        at = self._before.take(pc.min_element_wise(batch["at"], last))
        return batch.set_column(number, batch.schema.field(number), at)

    def _points(self) -> Iterable[dict[str, Any]]:
        """The rows of `tracepoint`: the events that are left."""
        frees = 0
        for batch, mask in self._masked():
            kinds = batch.filter(mask)["kind"].cast(pa.utf8())
            frees += pc.sum(pc.equal(kinds, _UNLISTED)).as_py() or 0
        made = {point: kind.name for kind in TABLES["event"].kinds for point in kind.tracepoints}
        for row in self._tape.rows("tracepoint"):
            kind = made.get(f"{row['system']}:{row['name']}")
            if kind == _UNLISTED:
                yield row | {"events": min(frees, row["events"])}
            elif kind not in _UNSEEN:
                yield row
