# SPDX-License-Identifier: Apache-2.0
"""Other starts from hindsight that a tape leaves possible, for the members of an ensemble.

The start of a tape that begins with /proc has guesses (hindsight.py). Each seed draws others, where
the events of the tape leave them open:

order     Free blocks that no event shows stand in another order within their list.
contents  A page of a per-CPU list that no event shows is another page: a free one of order 0, of
          the same zone and type, which no event shows either. It takes its place on the free list.
counts    free_count of a per-CPU list, where events leave several: another likely one.
types     A guessed pageblock without a free block has another type. Its rate is measured: how often
          the type that an event proves contradicts the guess of the snapshot.

A start without kpageflags (hindsight.py) has the number of free blocks and of pageblocks by type:

places    A free block that no event shows stands at other pages that no event shows, in a pageblock
          of its type.
types     The types of guessed pageblocks without a free block change places within their zone.

Every start has the same number of free pages in each zone, order and list, and the same number of
pages on each per-CPU list. Free buddies stay merged.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.replaying import free_places
from pagetape.replaying.hindsight import Start
from pagetape.schemas.tape import Tape

# Types that a pageblock may have without a special area or reserve.
_TYPES = ("UNMOVABLE", "MOVABLE", "RECLAIMABLE")

_ROWS = 1 << 21  # rows of events in memory at once

_LIST = ("node", "zone", "migratetype", "page_order")

Place = tuple[Any, ...]  # zone of a page, and type


class Shown:
    """The pages that events show."""

    def __init__(self, events: Iterable[pa.RecordBatch]) -> None:
        schema = pa.schema([("pfn", pa.uint64()), ("page_order", pa.uint8())])
        parts, rows = [schema.empty_table()], 0
        for batch in events:
            more = pa.table({name: batch[name] for name in schema.names})
            parts.append(more.filter(pc.is_valid(more["pfn"])).cast(schema))
            rows += len(parts[-1])
            if rows > _ROWS:
                parts, rows = [_distinct(parts)], 0
        blocks = _distinct(parts)
        self._firsts = blocks["pfn"]
        orders = pc.fill_null(blocks["page_order"], 0)
        self._blocks = {
            order: blocks.filter(pc.equal(orders, order))["pfn"]
            for order in pc.unique(orders).to_pylist()
        }

    def none_of(self, blocks: pa.Table) -> list[int]:
        """The rows of a table of blocks without a page that an event shows."""
        orders = blocks["page_order"].cast(pa.uint8())
        shown = pa.array([False] * len(blocks), pa.bool_())
        for order in pc.unique(orders).to_pylist():
            within = pc.is_in(_number(blocks["pfn"], order), _numbers(self._firsts, order))
            shown = pc.or_(shown, pc.and_(pc.equal(orders, order), within))
        for order, pfns in self._blocks.items():
            around = pc.is_in(_number(blocks["pfn"], order), _numbers(pfns, order))
            shown = pc.or_(shown, pc.and_(pc.less(orders, order), around))
        found: list[int] = pc.indices_nonzero(pc.invert(shown)).to_pylist()
        return found


def _distinct(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).group_by(parts[0].column_names).aggregate([])


def _number(pfns: pa.ChunkedArray, order: int) -> pa.ChunkedArray:
    """The numbers of the blocks of an order that hold pages."""
    return pc.shift_right(pfns.cast(pa.uint64()), pa.scalar(order, pa.uint64()))


def _numbers(pfns: pa.ChunkedArray, order: int) -> pa.Array:
    return pc.unique(_number(pfns, order))


@dataclass(frozen=True)
class Guesses:
    """What a start may have otherwise: numbers of rows of its tables."""

    start: Start
    free: dict[Place, list[int]]  # free blocks by list
    pcp: list[int]  # pages of per-CPU lists
    blocks: list[int]  # pageblocks
    rate: float | None  # of wrong guesses of pageblocks; None: the zone's numbers are known
    places: dict[int, list[int]] = field(default_factory=dict)  # other first pfns of free blocks

    def varied(self, seed: int) -> dict[str, pa.Table]:
        """The tables of the start for a seed."""
        random = Random(seed)
        tables = dict(self.start.tables)
        free = tables["free_block"]["pfn"].to_pylist()
        for row, others in self.places.items():
            free[row] = random.choice([free[row], *others])
        for rows in self.free.values():
            pfns = [free[row] for row in rows]
            random.shuffle(pfns)
            for row, pfn in zip(rows, pfns, strict=True):
                free[row] = pfn
        pcp = tables["pcp_page"]["pfn"].to_pylist()
        self._exchange(random, free, pcp)
        tables["free_block"] = _with(tables["free_block"], "pfn", free)
        tables["pcp_page"] = _with(tables["pcp_page"], "pfn", pcp)
        tables["pageblock"] = self._types(random)
        tables["pcp"] = self._free_counts(random)
        return tables

    def _exchange(self, random: Random, free: list[int], pcp: list[int]) -> None:
        """Exchange pages of per-CPU lists and free pages."""
        pages = self.start.tables["pcp_page"].select(_LIST).to_pylist()
        orders = self.start.tables["free_block"]["page_order"].to_pylist()
        single = {pfn for pfn, order in zip(free, orders, strict=True) if not order}
        types = _types_of(self.start)
        for row in self.pcp:
            place = tuple(pages[row][name] for name in _LIST)
            rows = self.free.get(place, [])
            out = pcp[row]
            # A free page whose buddy is free would merge with it.
            if place[-1] or not rows or random.random() < 0.5 or out ^ 1 in single:
                continue
            if types(out) != place[2]:
                continue
            chosen = random.choice(rows)
            single.remove(free[chosen])
            single.add(out)
            pcp[row], free[chosen] = free[chosen], out

    def _free_counts(self, random: Random) -> pa.Table:
        table = self.start.tables["pcp"]
        counts = table["free_count"].to_pylist()
        for row, likely in enumerate(self.start.free_counts):
            if len(likely) > 1 and random.random() < 0.5:
                counts[row] = random.choice(likely[1:])
        return _with(table, "free_count", counts)

    def _types(self, random: Random) -> pa.Table:
        table = self.start.tables["pageblock"]
        if not self.blocks:
            return table
        types = table["migratetype"].to_pylist()
        if self.rate is None:
            zones = table.select(("node", "zone")).to_pylist()
            for rows in _grouped(self.blocks, lambda row: tuple(zones[row].values())).values():
                kinds = [types[row] for row in rows]
                random.shuffle(kinds)
                for row, kind in zip(rows, kinds, strict=True):
                    types[row] = kind
            return _with(table, "migratetype", types)
        for row in self.blocks:
            if random.random() < self.rate:
                types[row] = random.choice([kind for kind in _TYPES if kind != types[row]])
        return _with(table, "migratetype", types)


def _grouped(rows: Iterable[int], key: Callable[[int], Place]) -> dict[Place, list[int]]:
    found: dict[Place, list[int]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _with(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    table = table.combine_chunks()  # the engine takes no slices
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    if not pa.types.is_dictionary(field.type):
        return table.set_column(at, field, pa.array(values, field.type))
    labels = table[name].combine_chunks().dictionary
    numbers = {label: number for number, label in enumerate(labels.to_pylist())}
    found = pa.array([numbers[value] for value in values], field.type.index_type)
    return table.set_column(at, field, pa.DictionaryArray.from_arrays(found, labels))


def _types_of(start: Start) -> Any:
    """A function: the type of a page's pageblock."""
    table = start.tables["pageblock"]
    types = dict(zip(table["pfn"].to_pylist(), table["migratetype"].to_pylist(), strict=True))
    firsts = sorted(types)

    def of(pfn: int) -> str | None:
        at = bisect_left(firsts, pfn + 1)
        return types[firsts[at - 1]] if at else None

    return of


def wrong_guesses(tape: Tape, start: Start) -> tuple[int, int]:
    """The guesses of the snapshot that an event contradicts, and those that events can judge."""
    guesses = {
        row["pfn"]: row["migratetype"]
        for row in tape.rows("pageblock")
        if not row["snapshot"] and row["guessed"]
    }
    judged = [
        (guesses[row["pfn"]], row["migratetype"])
        for row in start.tables["pageblock"].to_pylist()
        if not row["guessed"] and row["pfn"] in guesses
    ]
    return sum(guess != proven for guess, proven in judged), len(judged)


def guesses(tape: Tape, start: Start) -> Guesses:
    """The guesses of a start from hindsight."""
    shown = Shown(tape.batches("event"))
    size = 1 << tape.facts["pageblock_order"]
    with_free: set[int] = set()
    blocks = start.tables["free_block"].to_pylist()
    for row in blocks:
        last = row["pfn"] + (1 << row["page_order"]) - 1
        with_free.update(range(row["pfn"] // size, last // size + 1))
    free = _grouped(
        shown.none_of(start.tables["free_block"]),
        lambda row: tuple(blocks[row][name] for name in _LIST),
    )
    pcp = shown.none_of(start.tables["pcp_page"])
    held = {start.tables["pcp_page"]["pfn"][number].as_py() // size for number in pcp}
    guessed = [
        number
        for number, row in enumerate(start.tables["pageblock"].to_pylist())
        if row["guessed"]
        and row["migratetype"] in _TYPES
        and row["pfn"] // size not in with_free | held
    ]
    if start.coverage["counts_only"]:
        places = free_places.others(tape, start.tables, free, shown.none_of)
        return Guesses(start, free, pcp, guessed, None, places)
    wrong, judged = wrong_guesses(tape, start)
    # Laplace's rule of succession: a rate above 0 even if no guess was found wrong.
    return Guesses(start, free, pcp, guessed, (wrong + 1) / (judged + 2))
