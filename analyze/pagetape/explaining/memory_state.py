# SPDX-License-Identifier: Apache-2.0
"""The memory state that a kernel prints below a failure: zones, reserves, free lists.

A figure counts only where its line is whole: `free` to `high` of a zone must follow each other, and
the blocks of a free list must have the sum that the list ends with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pagetape.explaining.log_lines import GAP

ORDER = ("DMA", "DMA32", "Normal", "HighMem", "Movable", "Device")  # lowest zone first

ZONE = re.compile(
    r"(?:Node (?P<node>\d+),? )?(?<![\w-])(?P<zone>DMA32|DMA|Normal|HighMem|Movable|Device)"
    r" free:(?P<free>\d+)kB"
)
LIST = re.compile(
    r"(?:Node (?P<node>\d+),? )?(?<![\w-])(?P<zone>DMA32|DMA|Normal|HighMem|Movable|Device):"
    r" ?(?P<blocks>(?=\d+\*\d)[^=]{0,600}?(?:= ?(?:(?P<sum>\d+)kB)?|$))"
)
RESERVE = re.compile(r"(?:lowmem_reserve|protections?)\[\]:(?P<pages>(?: \d+)*)(?P<more>\S*)")

_MARKS = re.compile(r"(?: boost:(\d+)kB)? min:(\d+)kB low:(\d+)kB high:(\d+)kB")
_FIGURE = re.compile(r"(?<=\s)([a-z_()]+):\s?(\d+)[kK]B(?=\s|$)")
_BLOCK = re.compile(r" ?(\d+)\*(\d+)kB(?: \(([A-Z]+)\))?")
_LARGEST = 1 << 44  # kB: no zone has more


class Blocks(NamedTuple):
    """Free blocks of one order: their number, and the migratetypes that have one; "" unknown."""

    nr: int
    types: str


@dataclass(slots=True)
class FreeList:
    """The free blocks of a zone, by size in kB; `whole` if their sum is the printed one."""

    blocks: dict[int, Blocks]
    kb: int | None
    whole: bool
    has_end: bool = False  # the = stands, but its sum is cut

    def types(self) -> set[str]:
        return {letter for one in self.blocks.values() for letter in one.types}


@dataclass(slots=True)
class Zone:
    """One zone as printed, in kB; `reserve` is lowmem_reserve[] in pages."""

    node: int | None
    name: str
    kb: dict[str, int] = field(default_factory=dict)
    reserve: tuple[int, ...] | None = None
    reserve_whole: bool = False
    free_list: FreeList | None = None
    whole: bool = False  # free, min, low and high stand together
    complete: bool = False  # the line has its end
    clashes: bool = False  # another line of the same report has other figures

    @property
    def words(self) -> str:
        return f"Node {self.node or 0} {self.name}"


def of_row(
    row: dict[str, Any],
    name: str,
    boost: int,
    more: dict[str, int | None],
    reserve: tuple[int, ...],
    page_kb: int,
) -> Zone:
    """A zone from a row of marks in pages, which lack the boost, and from further counts."""
    marks = {mark: row[f"wmark_{mark}"] + boost for mark in ("min", "low", "high")}
    pages = {**marks, "boost": boost, "managed": row["managed"], **more}
    kb = {count: nr * page_kb for count, nr in pages.items() if nr is not None}
    return Zone(row["node"], name, kb, reserve, reserve_whole=True, whole=True, complete=True)


def zone_of(found: re.Match[str], body: str) -> Zone:
    """A zone line: its beginning as ZONE found it, and the text after that."""
    zone = Zone(_node(found), found["zone"])
    marks = _MARKS.match(body)
    if marks and all(int(n or 0) < _LARGEST for n in (found["free"], *marks.groups())):
        boost, low_mark = marks[1], int(marks[2])
        zone.kb = {"free": int(found["free"]), "min": low_mark}
        zone.kb |= {"low": int(marks[3]), "high": int(marks[4])}
        zone.kb |= {"boost": int(boost)} if boost is not None else {}
        zone.whole = low_mark <= int(marks[3]) <= int(marks[4])
        rest = body[marks.end() :]
        for name, value in _FIGURE.findall(rest):
            zone.kb.setdefault(name, int(value))
        zone.complete = GAP not in rest and ("present" in zone.kb or "managed" in zone.kb)
    return zone


def _node(found: re.Match[str]) -> int | None:
    return int(found["node"]) if found["node"] is not None else None


def list_of(found: re.Match[str]) -> FreeList:
    """A free list as LIST found it."""
    text = found["blocks"]
    blocks: dict[int, Blocks] = {}
    at, size = 0, 0
    while (one := _BLOCK.match(text, at)) and int(one[2]) > size and int(one[1]) < _LARGEST:
        if size and int(one[2]) != 2 * size:
            break  # blocks of an order are missing
        size = int(one[2])
        blocks[size] = Blocks(int(one[1]), one[3] or "")
        at = one.end()
    total = int(found["sum"]) if found["sum"] is not None else None
    counted = sum(nr.nr * kb for kb, nr in blocks.items())
    has_end = total is None and text[at:].strip() == "="
    return FreeList(blocks, total, total is not None and total == counted, has_end)


@dataclass(slots=True)
class State:
    """The memory state of one report."""

    zones: dict[tuple[int, str], Zone] = field(default_factory=dict)
    lists: dict[tuple[int, str], FreeList] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)  # of the machine, in pages
    nodes: set[int] = field(default_factory=set)  # that have a line or a zone
    damage: list[str] = field(default_factory=list)
    last: Zone | None = None  # the zone whose lowmem_reserve is due
    begun: bool = False
    layout: tuple[str, ...] = ()  # the zones of the kernel, where they are known
    page_size_kb: int | None = None  # where it is known
    word_bits: int | None = None  # of the machine, where it is known

    @property
    def page_kb(self) -> int:
        """kB of a page: if it is not known, the smallest block of the lists, or by the counters."""
        if self.page_size_kb:
            return self.page_size_kb
        sizes = [min(one.blocks) for one in self.lists.values() if one.blocks]
        sizes = [kb for kb in sizes if kb in (4, 8, 16, 32, 64)]
        free = self.counters.get("free")
        if not sizes and free:  # the counter is in pages, the zones are in kB
            kb = sum(zone.kb.get("free", 0) for zone in self.zones.values())
            sizes = [size for size in (16, 64) if 0.9 < kb / free / size < 1.1]
        return min(sizes, default=4)

    def add_zone(self, zone: Zone) -> None:
        key = (zone.node or 0, zone.name)
        self.begun = True
        self.nodes.add(key[0])
        old = self.zones.get(key)
        if old and old.kb != zone.kb:
            self.damage.append(f"two lines of {zone.words} with other figures")
            zone.clashes = True
        if not zone.whole:
            self.damage.append(f"the line of {zone.words} is cut or mixed with another one")
        self.zones[key] = self.last = zone

    def add_reserve(self, found: re.Match[str]) -> None:
        pages = tuple(int(n) for n in found["pages"].split())
        zone = self.last
        self.begun = True
        if zone is None:
            self.damage.append("a lowmem_reserve without its zone")
            return
        zone.reserve, zone.reserve_whole = pages, not found["more"] and bool(pages)
        self.last = None

    def add_list(self, found: re.Match[str]) -> None:
        key = (_node(found) or 0, found["zone"])
        one = list_of(found)
        self.begun = True
        old = self.lists.get(key)
        if old and old != one:
            one.whole = False
            self.damage.append(f"two free lists of Node {key[0]} {key[1]}")
        if not one.whole and not one.has_end:
            self.damage.append(f"the free list of Node {key[0]} {key[1]} is cut or mixed")
        self.lists[key] = one

    def join(self) -> None:
        """Give each zone its free list, and the CMA pages that no other zone can have."""
        for key, zone in self.zones.items():
            zone.free_list = one = self.lists.get(key)
            counted = sum(b.nr * kb for kb, b in one.blocks.items()) if one else 0
            if one and one.has_end and abs(counted - zone.kb.get("free", 0)) <= counted // 20:
                one.whole = True
        cma, free = self.counters.get("free_cma"), self.counters.get("free")
        lacking = [zone for zone in self.zones.values() if zone.whole and "free_cma" not in zone.kb]
        there = sum(zone.kb.get("free", 0) for zone in self.zones.values()) // self.page_kb
        if cma and free and len(lacking) == 1 and abs(free - there) <= free // 100:
            known = sum(zone.kb.get("free_cma", 0) for zone in self.zones.values())
            lacking[0].kb["free_cma"] = max(cma * self.page_kb - known, 0)

    def is_next(self, zone: Zone) -> bool:
        """Whether a zone line begins another memory state: the list of its zone has been there."""
        return (zone.node or 0, zone.name) in self.lists
