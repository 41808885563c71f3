# SPDX-License-Identifier: Apache-2.0
"""Random machines and random requests, from a seed and a list of small numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from .oracle import (
    CMA,
    HIGHATOMIC,
    MERGEABLE,
    MOVABLE,
    RECLAIMABLE,
    UNMOVABLE,
    ZONES,
    Geometry,
    Marks,
    Settings,
)
from .tapes import RECLAIM_EVENTS, SECOND, Recorder
from .world import World, ZoneState

ORDERS = (0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 9, 10)


@dataclass(frozen=True)
class Shape:
    """What the machines of one kind have in common."""

    pageblock_orders: tuple[int, ...] = (4, 4, 5, 9)
    max_order: int = 10
    sizes: tuple[int, ...] = (1, 2, 5, 16, 40)  # of a zone, in pageblocks
    most_pages: int = 3072  # of a zone
    cma: tuple[int, ...] = (0, 0, 0, 2)  # weight of CMA among the types of pageblocks


ANY = Shape()
# arm64 with 64 KiB pages: a pageblock has 512 MiB.
LARGE_PAGES = Shape(
    pageblock_orders=(13,), max_order=13, sizes=(1, 2), most_pages=2 << 13, cma=(0, 5)
)
MOSTLY_CMA = Shape(pageblock_orders=(4, 5), cma=(30,))

LAYOUTS: tuple[tuple[tuple[int, str], ...], ...] = (  # (node, zone) in pfn order
    ((0, "NORMAL"),),
    ((0, "DMA32"), (0, "NORMAL")),
    ((0, "DMA"), (0, "DMA32"), (0, "NORMAL")),
    ((0, "DMA32"), (0, "NORMAL"), (0, "MOVABLE")),
    ((0, "NORMAL"), (1, "NORMAL")),
    ((0, "DMA32"), (0, "NORMAL"), (1, "NORMAL")),
    ((0, "NORMAL"), (1, "DMA32"), (1, "NORMAL")),
    ((0, "NORMAL"), (0, "MOVABLE"), (1, "NORMAL")),
)

_SLEEPS = frozenset({"IO", "FS", "DIRECT_RECLAIM", "KSWAPD_RECLAIM"})
_ATOMIC = frozenset({"HIGH", "KSWAPD_RECLAIM", "ATOMIC"})
REQUESTS: tuple[tuple[str, frozenset[str]], ...] = (
    (UNMOVABLE, _SLEEPS),
    (UNMOVABLE, _ATOMIC),
    (UNMOVABLE, _ATOMIC | {"NOMEMALLOC"}),
    (UNMOVABLE, frozenset({"KSWAPD_RECLAIM"})),
    (UNMOVABLE, _SLEEPS | {"HIGHMEM"}),
    (UNMOVABLE, _SLEEPS | {"DMA32"}),
    (UNMOVABLE, _SLEEPS | {"DMA"}),
    (UNMOVABLE, _SLEEPS | {"THISNODE"}),
    (RECLAIMABLE, _SLEEPS | {"RECLAIMABLE"}),
    (RECLAIMABLE, _ATOMIC | {"RECLAIMABLE"}),
    (MOVABLE, _SLEEPS | {"MOVABLE"}),
    (MOVABLE, _SLEEPS | {"MOVABLE", "HIGHMEM", "HARDWALL"}),
    (MOVABLE, _SLEEPS | {"MOVABLE", "HIGHMEM", "COLD"}),
    (MOVABLE, _SLEEPS | {"MOVABLE", "HIGHMEM", "THISNODE"}),
)

# Requests for huge pages and other large blocks.
LARGE_REQUESTS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (kind, _SLEEPS | set(bits))
    for kind, bits in (
        (MOVABLE, ("MOVABLE", "HIGHMEM", "NORETRY")),
        (MOVABLE, ("MOVABLE", "HIGHMEM", "NORETRY", "THISNODE")),
        (MOVABLE, ("MOVABLE", "HIGHMEM", "RETRY_MAYFAIL")),
        (UNMOVABLE, ("NORETRY",)),
        (UNMOVABLE, ("RETRY_MAYFAIL",)),
        (RECLAIMABLE, ("RECLAIMABLE", "NORETRY")),
    )
)


def random_world(seed: int, shape: Shape = ANY, *, ragged: bool = False) -> World:
    """A machine of one or two nodes with up to three zones, in use for a while.

    Ragged zones hold some pageblocks only in part.
    """
    rng = Random(seed)
    layout = rng.choice(LAYOUTS)
    nodes = 1 + max(node for node, _ in layout)
    geometry = Geometry(
        cpu_nodes=[rng.randrange(nodes) for _ in range(rng.randint(1, 3))],
        node_distances=[[10 if i == j else 20 for j in range(nodes)] for i in range(nodes)],
        pageblock_order=rng.choice(shape.pageblock_orders),
        max_order=shape.max_order,
    )
    pageblock = geometry.pageblock
    zones = []
    start = pageblock * rng.choice((0, 1, 2, 64))
    for node, name in layout:
        spanned = max(pageblock, 32) * rng.choice(shape.sizes)
        edges = [rng.randrange(pageblock) if ragged and rng.random() < 0.3 else 0 for _ in range(2)]
        spanned = max(min(spanned, shape.most_pages) - sum(edges), 2 * pageblock if ragged else 16)
        span = range(start + edges[0], start + edges[0] + spanned)
        zones.append(_zone(rng, shape, geometry, (node, name), span))
        start = -(-(zones[-1].start + zones[-1].spanned) // pageblock) * pageblock
        start += pageblock * rng.choice((0, 0, 3))
    return World(geometry, zones)


def _zone(
    rng: Random, shape: Shape, geometry: Geometry, place: tuple[int, str], span: range
) -> ZoneState:
    (node, name), start, spanned = place, span.start, len(span)
    tightness = rng.choice((0, 0, 30, 8))  # share of the zone between two marks
    step = rng.randint(0, spanned // tightness) if tightness else 0
    low = rng.randint(0, step) + step
    pageblock = geometry.pageblock
    first = start & ~(pageblock - 1)
    types = rng.choices(
        (MOVABLE, UNMOVABLE, RECLAIMABLE, HIGHATOMIC, CMA),
        (10, 5, 5, 1, rng.choice(shape.cma)),
        k=-(-(start + spanned - first) // pageblock),
    )
    state = ZoneState(
        node=node,
        name=name,
        start=start,
        spanned=spanned,
        marks=Marks(low - step, low, low + step),
        lowmem_reserve={
            above: rng.choice((0, 5, spanned // 16))
            if ZONES.index(above) > ZONES.index(name)
            else 0
            for above in ZONES
        },
        blocks=types,
        movable_blocks=frozenset(
            first + i * pageblock for i in range(len(types)) if rng.random() < 0.5
        ),
        reserved_highatomic=0,
        boost=rng.choice((0, 0, pageblock)),
        below_high=rng.random() < 0.1,
        reclaim_active=rng.random() < 0.1,
        pcps=[_settings(rng) for _ in geometry.cpu_nodes],
    )
    _fill(rng, geometry, state)
    state.reserved_highatomic = pageblock * state.blocks.count(HIGHATOMIC)
    return state


def _settings(rng: Random) -> Settings:
    batch = rng.choice((1, 2, 3, 4, 7))
    high_min = batch * rng.choice((2, 3, 4, 6, 50))
    high_max = high_min * rng.choice((1, 1, 3, 8))
    return Settings(
        batch=batch,
        high=rng.randint(high_min, high_max),
        high_min=high_min,
        high_max=high_max,
        alloc_factor=rng.choice((0, 0, 1, 3)),
        free_count=rng.randint(0, 2 * batch),
        free_factor=rng.choice((0, 0, 1, 5)),
        prev_free_high_order=rng.random() < 0.2,
        free_high_batch=rng.random() < 0.5,
    )


def _fill(rng: Random, geometry: Geometry, state: ZoneState) -> None:
    """Free chunks and per-CPU entries, in shuffled lists."""
    share = rng.choice((0.02, 0.1, 0.4, 0.8))
    free: dict[int, int] = {}
    for pfn, order in _aligned(state.start, state.start + state.spanned, geometry.max_order):
        for chunk, size, is_free in _carve(rng, pfn, order, share):
            block = chunk // geometry.pageblock - state.start // geometry.pageblock
            buddy = chunk ^ (1 << size)
            if size > geometry.pageblock_order:  # one chunk, one type
                blocks = 1 << (size - geometry.pageblock_order)
                state.blocks[block : block + blocks] = [state.blocks[block]] * blocks
            listed = state.blocks[block]
            if is_free and free.get(buddy) == size and size < geometry.max_order:
                apart = _block_type(geometry, state, buddy) not in MERGEABLE
                is_free = size >= geometry.pageblock_order and apart and listed in MERGEABLE
            if is_free:
                free[chunk] = size
                if rng.random() < 0.1 and listed in MERGEABLE:
                    listed = rng.choice(MERGEABLE)
                state.free.append((listed, size, chunk))
            elif rng.random() < 0.1 and (size <= 3 or size == geometry.pageblock_order):
                listed = listed if listed in MERGEABLE else MOVABLE
                cpu = rng.randrange(len(geometry.cpu_nodes))
                state.pcp_pages.append((cpu, listed, size, chunk))
    rng.shuffle(state.free)
    state.free.sort(key=lambda entry: entry[:2])
    rng.shuffle(state.pcp_pages)


def _block_type(geometry: Geometry, state: ZoneState, pfn: int) -> str:
    return state.blocks[pfn // geometry.pageblock - state.start // geometry.pageblock]


def _aligned(start: int, end: int, max_order: int) -> Iterator[tuple[int, int]]:
    """A range of pages as the largest aligned chunks."""
    while start < end:
        order = max_order
        while start & ((1 << order) - 1) or start + (1 << order) > end:
            order -= 1
        yield start, order
        start += 1 << order


def _carve(rng: Random, pfn: int, order: int, share: float) -> list[tuple[int, int, bool]]:
    """Cut an aligned chunk into used and free ones."""
    if order == 0 or rng.random() < 0.25:
        return [(pfn, order, rng.random() < share)]
    low = _carve(rng, pfn, order - 1, share)
    high = _carve(rng, pfn + (1 << (order - 1)), order - 1, share)
    return low + high


Op = tuple[int, int, int]  # what to do, and two numbers to choose with


def record(
    world: World,
    kernel: str,
    ops: Sequence[Op],
    *,
    reclaim_events: bool = False,
    requests: Sequence[tuple[str, frozenset[str]]] = REQUESTS,
    singles: bool = False,
) -> Recorder:
    """Run operations on a world; the recorder has the tape."""
    recorder = Recorder(world, kernel, singles=singles)
    cpus = len(world.geometry.cpu_nodes)
    untraced = recorder.machine.kernel.isolated_in_batch == "untraced"
    largest = world.geometry.max_order if untraced else 0
    for what, a, b in ops:
        cpu = b % cpus
        if what < 50:
            migratetype, gfp = requests[a % len(requests)]
            recorder.alloc(cpu, ORDERS[b // cpus % len(ORDERS)], migratetype, gfp)
        elif what < 80:
            recorder.free(cpu, a, in_two=a % 5 == 0)
        elif what < 93:
            pages = 90 if a % 10 == 0 else 1 + b // cpus % 15
            picks = [a + 7 * i for i in range(pages)]
            recorder.free_batch(cpu, picks, largest)
        elif not reclaim_events or a % 5 == 0:
            recorder.wait(a % 4000 * (SECOND // 1000))
        elif a % 2:
            recorder.reclaim_event("vmstat_update", cpu)
        else:
            kind = ("kswapd_wake", "kswapd_wake", "kswapd_sleep")[b % 3]
            recorder.reclaim_event(
                kind, a % world.geometry.nodes, (None, "DMA32", "MOVABLE")[a % 3]
            )
    while recorder.rows and recorder.rows[-1].event.kind in RECLAIM_EVENTS:
        recorder.rows.pop()  # what comes after the last request is no part of a run
    return recorder
