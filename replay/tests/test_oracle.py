# SPDX-License-Identifier: Apache-2.0
"""The oracle against hand-computed vectors, for each kernel that a vector holds for.

Toy geometry unless stated: pageblocks of 16 pages, chunks up to 32. Events are written
zl(pfn,order,type) x(pfn,order,fallback order,type,fallback type,owned) d(pfn,type) a(pfn) f(pfn).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from .oracle import (
    KERNELS,
    MOVABLE,
    RECLAIMABLE,
    RESERVE,
    UNMOVABLE,
    Event,
    Geometry,
    Machine,
    Nofragment,
    Settings,
    ZoneSpec,
)
from .oracle.slow_path import Ask, steps

U, M, R = UNMOVABLE, MOVABLE, RECLAIMABLE
LETTER = {U: "U", M: "M", R: "R", RESERVE: "RESERVE"}

OLD = ["4.20", "5.0", "5.10", "5.14", "5.19", "6.1.0", "6.1.192", "6.5", "6.8"]
NEW = ["6.12.117", "6.17", "6.18"]
MIDDLE = ["6.12.19"]
AUTO = ["6.8", "6.12.19", *NEW]
FACTOR = ["5.14", "5.19", "6.1.0", "6.1.192", "6.5"]

TOY = Geometry(pageblock_order=4, max_order=5)
X86_64 = Geometry(pageblock_order=9, max_order=10)


def untuned(batch: int, high: int) -> Settings:
    """A PCP whose `high` has no room for auto-tuning."""
    return Settings(batch, high, high_min=high, high_max=high)


PCP = untuned(batch=4, high=64)


def kernels(*names: str | Sequence[str]) -> pytest.MarkDecorator:
    flat = [n for name in names for n in ([name] if isinstance(name, str) else name)]
    return pytest.mark.parametrize("kernel", flat)


def toy(
    kernel: str,
    blocks: str,
    free: Mapping[tuple[int, str], Sequence[int]] | None = None,
    *,
    pcp: Settings = PCP,
    geometry: Geometry = TOY,
    nofragment: Nofragment | None = "off",  # None: the kernel's own
) -> Machine:
    """One zone of pageblocks, their types by letter (V for RESERVE), and its free lists."""
    types = {"U": U, "M": M, "R": R, "V": RESERVE}
    machine = Machine(KERNELS[kernel], geometry, nofragment=nofragment)
    zone = machine.add_zone(
        ZoneSpec(
            spanned=len(blocks) * geometry.pageblock,
            pcps=[pcp],
            blocks=[types[letter] for letter in blocks],
        )
    )
    for (order, migratetype), pfns in (free or {}).items():
        for pfn in pfns:
            zone.buddy.insert(pfn, order, migratetype, tail=True)
    return machine


def events_text(machine: Machine) -> str:
    """The events since the last call, in the notation of the vectors."""

    def text(e: Event) -> str:
        kind = LETTER.get(e.migratetype or "", "")
        foreign = LETTER.get(e.fallback_migratetype or "", "")
        return {
            "alloc": f"a({e.pfn})",
            "free": f"f({e.pfn})",
            "free_batched": f"b({e.pfn})",
            "alloc_zone_locked": f"zl({e.pfn},{e.page_order},{kind})",
            "pcpu_drain": f"d({e.pfn},{kind})",
            "alloc_extfrag": (
                f"x({e.pfn},{e.page_order},{e.fallback_order},{kind},{foreign},"
                f"{int(bool(e.change_ownership))})"
            ),
        }[e.kind]

    line = " ".join(map(text, machine.trace.events))
    machine.trace.events.clear()
    return line


def free_lists(machine: Machine) -> dict[str, list[int]]:
    lists = machine.zones[0].buddy.lists
    return {f"o{order}.{LETTER[mt]}": pfns for (order, mt), pfns in lists.items() if pfns}


def pcp_lists(machine: Machine) -> dict[str, list[int]]:
    """Order-0 lists by type, larger ones by index."""
    pcp = machine.zones[0].pcps[0]
    return {
        LETTER[pcp.list_type(index)] if index < 3 else str(index): entries
        for index, entries in enumerate(pcp.lists)
        if entries
    }


def block_types(machine: Machine) -> str:
    return "".join(LETTER[mt] for mt in machine.zones[0].buddy.block_types.values())


# TV1


@kernels(OLD, MIDDLE, NEW)
def test_1_a_refill_hands_out_pages_in_ascending_order(kernel: str) -> None:
    machine = toy(kernel, "M", {(4, M): [0]}, pcp=untuned(4, 8))
    machine.alloc(0, 0, M)
    machine.alloc(0, 0, M)
    assert events_text(machine) == "zl(0,0,M) zl(1,0,M) zl(2,0,M) zl(3,0,M) a(0) a(1)"
    assert pcp_lists(machine) == {"M": [2, 3]}
    assert free_lists(machine) == {"o2.M": [4], "o3.M": [8]}


# TV2


@kernels(OLD, MIDDLE, NEW)
def test_2a_a_chunk_that_may_soon_merge_goes_to_the_tail(kernel: str) -> None:
    buddy = toy(kernel, "MM", {(1, M): [2], (0, M): [20]}).zones[0].buddy
    buddy.free_one(0, 0, M)
    assert buddy.list(0, M) == [20, 0]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(kernel, [24, 20, 0]) for kernel in (*OLD, *MIDDLE, *NEW)]
    + [(kernel, [24, 0, 20]) for kernel in ("2.6.32", "2.6.33")],
)
def test_2b_other_chunks_go_to_the_head(kernel: str, expected: list[int]) -> None:
    buddy = toy(kernel, "MM", {(1, M): [2], (0, M): [20]}).zones[0].buddy
    buddy.free_one(0, 0, M)
    buddy.free_one(24, 0, M)
    assert buddy.list(0, M) == expected


@kernels(list(KERNELS))
def test_2c_eight_single_pages_merge_with_a_chunk_of_eight(kernel: str) -> None:
    machine = toy(kernel, "M", {(3, M): [8]})
    for pfn in range(8):
        machine.zones[0].buddy.free_one(pfn, 0, M)
    assert free_lists(machine) == {"o4.M": [0]}


@kernels(list(KERNELS))
def test_2d_upper_halves_stay_and_lower_halves_are_handed_out(kernel: str) -> None:
    machine = toy(kernel, "MM", {(5, M): [0]})
    assert [machine.zones[0].buddy.smallest(1, M) for _ in range(3)] == [0, 2, 4]
    assert free_lists(machine) == {"o1.M": [6], "o3.M": [8], "o4.M": [16]}


# TV3


def half_used_movable_block(kernel: str, movable: range) -> Machine:
    machine = toy(kernel, "MM", {(2, M): [0], (1, M): [4]})
    machine.zones[0].movable.update(movable)
    machine.alloc(0, 0, U)
    return machine


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(kernel, "x(0,0,2,U,M,1) zl(4,0,U) zl(5,0,U) zl(0,0,U) zl(1,0,U) a(4)") for kernel in OLD]
    + [
        (kernel, "zl(4,0,U) x(4,0,2,U,M,1) zl(5,0,U) zl(0,0,U) zl(1,0,U) a(4)")
        for kernel in (*MIDDLE, *NEW)
    ],
)
def test_3a_a_block_with_few_movable_pages_is_claimed(kernel: str, expected: str) -> None:
    machine = half_used_movable_block(kernel, range(6, 9))
    assert events_text(machine) == expected
    assert block_types(machine) == "UM"
    assert pcp_lists(machine) == {"U": [5, 0, 1]}
    assert free_lists(machine) == {"o1.U": [2]}


@kernels(OLD)
def test_3b_older_kernels_move_free_pages_of_a_block_they_do_not_claim(kernel: str) -> None:
    machine = half_used_movable_block(kernel, range(6, 16))
    assert events_text(machine) == "x(0,0,2,U,M,0) zl(4,0,U) zl(5,0,U) zl(0,0,U) zl(1,0,U) a(4)"
    assert block_types(machine) == "MM"
    assert pcp_lists(machine) == {"U": [5, 0, 1]}
    assert free_lists(machine) == {"o1.U": [2]}


@kernels(NEW)
def test_3b_newer_kernels_steal_one_page_at_a_time(kernel: str) -> None:
    machine = half_used_movable_block(kernel, range(6, 16))
    assert events_text(machine) == (
        "x(4,0,1,U,M,0) x(5,0,0,U,M,0) x(0,0,2,U,M,0) x(1,0,0,U,M,0) a(4)"
    )
    assert block_types(machine) == "MM"
    assert free_lists(machine) == {"o1.M": [2]}


def test_3b_newer_kernels_boost_for_each_claim_they_try() -> None:
    machine = toy("6.18", "MMMM", {(2, M): [0], (1, M): [4]})
    zone = machine.zones[0]
    zone.marks.high = 10
    zone.movable.update(range(6, 16))
    machine.alloc(0, 0, U)
    assert zone.counters["boost_asks"] == 2


# TV4


def only_other_types(kernel: str) -> Machine:
    machine = toy(kernel, "RU", {(1, R): [0], (0, U): [16], (1, U): [20]}, pcp=untuned(2, 64))
    machine.alloc(0, 0, M)
    return machine


@kernels(OLD)
def test_4_movable_requests_take_the_smallest_and_keep_its_remainder(kernel: str) -> None:
    machine = only_other_types(kernel)
    assert events_text(machine) == "x(16,0,0,M,U,0) zl(16,0,M) x(0,0,1,M,R,0) zl(0,0,M) a(16)"
    assert free_lists(machine) == {"o0.M": [1], "o1.U": [20]}


@kernels(NEW)
def test_4_movable_requests_take_the_smallest_and_leave_its_remainder(kernel: str) -> None:
    machine = only_other_types(kernel)
    assert events_text(machine) == "x(16,0,0,M,U,0) x(0,0,1,M,R,0) a(16)"
    assert free_lists(machine) == {"o0.R": [1], "o1.U": [20]}


# TV5


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(kernel, "x(32,0,5,U,M,1) zl(32,0,U) zl(33,0,U) a(32)") for kernel in OLD]
    + [(kernel, "x(32,0,5,U,M,1) zl(33,0,U) a(32)") for kernel in (*MIDDLE, *NEW)],
)
def test_5_a_chunk_of_two_blocks_is_owned_whole(kernel: str, expected: str) -> None:
    machine = toy(kernel, "MMMM", {(4, M): [0], (5, M): [32]}, pcp=untuned(2, 64))
    machine.alloc(0, 0, U)
    assert events_text(machine) == expected
    assert block_types(machine) == "MMUU"
    assert pcp_lists(machine) == {"U": [33]}
    assert free_lists(machine) == {
        "o1.U": [34], "o2.U": [36], "o3.U": [40], "o4.U": [48], "o4.M": [0],
    }  # fmt: skip


# TV6


@kernels("5.10", FACTOR)
def test_6_a_second_pass_may_mix(kernel: str) -> None:
    machine = toy(kernel, "M", {(3, M): [0]}, pcp=untuned(2, 8), nofragment="lowzone")
    machine.alloc(0, 0, U)
    assert events_text(machine) == "x(0,0,3,U,M,1) zl(0,0,U) zl(1,0,U) a(0)"
    assert pcp_lists(machine) == {"U": [1]}
    assert free_lists(machine) == {"o1.U": [2], "o2.U": [4]}


@kernels(NEW)
def test_6_the_failed_first_pass_doubles_the_refill(kernel: str) -> None:
    machine = toy(kernel, "M", {(3, M): [0]}, pcp=untuned(2, 8), nofragment="lowzone")
    machine.alloc(0, 0, U)
    assert events_text(machine) == "zl(0,0,U) x(0,0,3,U,M,1) zl(1,0,U) zl(2,0,U) zl(3,0,U) a(0)"
    assert pcp_lists(machine) == {"U": [1, 2, 3]}
    assert free_lists(machine) == {"o2.U": [4]}


def test_6_released_5_0_never_avoids_fragments() -> None:
    """By its own rules: other kernels scan twice here."""
    retries = {}
    for kernel in ("5.0", "5.10"):
        machine = toy(kernel, "M", {(3, M): [0]}, pcp=untuned(2, 8), nofragment=None)
        machine.alloc(0, 0, U)
        retries[kernel] = machine.zones[0].counters["nofragment_retries"]
    assert retries == {"5.0": 0, "5.10": 1}


# TV7


def fill_three_lists(kernel: str) -> Machine:
    machine = toy(kernel, "MURM", pcp=untuned(2, 6))
    for pfn in (0, 2, 16, 18, 32, 34, 36):
        machine.free(0, pfn, 0)
    return machine


@kernels("4.20", "5.0", "5.10")
def test_7_drains_went_around_the_lists(kernel: str) -> None:
    machine = fill_three_lists(kernel)
    assert events_text(machine) == "f(0) f(2) f(16) f(18) f(32) f(34) d(0,M) d(32,R) f(36)"
    assert pcp_lists(machine) == {"M": [2], "U": [18, 16], "R": [36, 34]}


@kernels("5.19", "6.1.0", "6.1.192", "6.5")
def test_7_drains_start_with_the_list_freed_to(kernel: str) -> None:
    machine = fill_three_lists(kernel)
    assert events_text(machine) == "f(0) f(2) f(16) f(18) f(32) f(34) d(32,R) d(34,R) f(36)"
    assert machine.zones[0].pcps[0].free_factor == 1
    assert pcp_lists(machine) == {"M": [2, 0], "U": [18, 16], "R": [36]}


@kernels(AUTO)
def test_7_drains_return_what_was_freed_in_a_row(kernel: str) -> None:
    machine = fill_three_lists(kernel)
    assert events_text(machine) == (
        "f(0) f(2) f(16) f(18) f(32) f(34) d(32,R) d(34,R) d(16,U) d(18,U) f(36)"
    )
    assert pcp_lists(machine) == {"M": [2, 0], "R": [36]}
    assert free_lists(machine) == {"o0.R": [34, 32], "o0.U": [18, 16]}


# TV8


@kernels(AUTO)
def test_8_refills_double_while_nothing_is_freed(kernel: str) -> None:
    machine = toy(
        kernel, "MM", {(10, M): [0]},
        pcp=Settings(4, 8, high_min=8, high_max=64), geometry=X86_64,
    )  # fmt: skip
    pcp = machine.zones[0].pcps[0]
    assert [machine.alloc(0, 0, M) for _ in range(20)] == list(range(20))
    assert [e.pfn for e in machine.trace.events if e.kind == "alloc_zone_locked"] == [*range(28)]
    assert (pcp.alloc_factor, pcp.high, pcp.count) == (3, 36, 8)
    assert pcp_lists(machine) == {"M": [*range(20, 28)]}

    machine.trace.events.clear()
    for pfn in range(16):
        machine.free(0, pfn, 0)
    assert {event.kind for event in machine.trace.events} == {"free"}
    assert pcp_lists(machine) == {"M": [*range(15, -1, -1), *range(20, 28)]}
    assert (pcp.free_count, pcp.alloc_factor) == (16, 0)


# TV9


def huge_chunk(kernel: str) -> Machine:
    return toy(kernel, "UUUU", {(10, U): [0]}, pcp=untuned(63, 378), geometry=X86_64)


def one_alloc_of_each_order(machine: Machine) -> tuple[list[int | None], list[int], list[int]]:
    """Pages got, refill sizes, and the PCP's count after each."""
    pages, refills, counts = [], [], []
    for order in range(4):
        machine.trace.events.clear()
        pages.append(machine.alloc(0, order, U))
        refills.append(sum(e.kind == "alloc_zone_locked" for e in machine.trace.events))
        counts.append(machine.zones[0].pcps[0].count)
    machine.trace.events.clear()
    return pages, refills, counts


@kernels(FACTOR, AUTO)
def test_9_larger_orders_refill_less(kernel: str) -> None:
    machine = huge_chunk(kernel)
    pages, refills, counts = one_alloc_of_each_order(machine)
    assert pages == [0, 64, 128, 192]
    assert refills == [63, 31, 15, 7]
    assert counts == [62, 122, 178, 226]

    machine.zones[0].buddy.insert(1024, 9, U, tail=True)
    machine.alloc(0, 9, U)
    assert events_text(machine) == "zl(512,9,U) zl(1024,9,U) a(512)"


@kernels("4.20", "5.0", "5.10")
def test_9_larger_orders_had_no_lists(kernel: str) -> None:
    assert one_alloc_of_each_order(huge_chunk(kernel))[1] == [63, 1, 1, 1]


@pytest.mark.parametrize(
    ("kernel", "migratetype", "index"),
    [(kernel, U, "12") for kernel in (*FACTOR, *AUTO)]
    + [(kernel, M, "12") for kernel in ("6.1.0", "6.5", "6.8")]
    + [(kernel, M, "13") for kernel in ("5.14", "5.19", "6.1.192", *MIDDLE, *NEW)],
)
def test_9_huge_pages_have_their_own_lists(kernel: str, migratetype: str, index: str) -> None:
    machine = toy(
        kernel, "U" * 4, {(9, migratetype): [512, 1024]},
        pcp=untuned(63, 378), geometry=X86_64,
    )  # fmt: skip
    letter = LETTER[migratetype]
    machine.alloc(0, 9, migratetype)
    assert events_text(machine) == f"zl(512,9,{letter}) zl(1024,9,{letter}) a(512)"
    assert pcp_lists(machine) == {index: [1024]}


# TV10


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("5.0", "d(0,M) d(2,U)"),
        ("6.1.0", "d(2,U) d(0,M)"),
        ("6.1.192", "d(2,U) d(0,M)"),
        *((kernel, "d(2,U) d(0,U)") for kernel in (*MIDDLE, *NEW)),
    ],
)
def test_10_a_block_changes_type_while_its_page_is_on_a_list(kernel: str, expected: str) -> None:
    machine = toy(kernel, "M")
    machine.free(0, 0, 0)
    machine.zones[0].buddy.set_block_type(0, U)
    machine.free(0, 2, 0)
    events_text(machine)
    machine.drain_all()
    assert events_text(machine) == expected


@kernels(NEW)
def test_10_both_pages_land_on_the_new_list(kernel: str) -> None:
    machine = toy(kernel, "M")
    machine.free(0, 0, 0)
    machine.zones[0].buddy.set_block_type(0, U)
    machine.free(0, 2, 0)
    machine.drain_all()
    assert free_lists(machine) == {"o0.U": [0, 2]}


# TV11


def singles_of_another_type(kernel: str) -> Machine:
    machine = toy(kernel, "UUMM", {(0, U): [3, 5, 17], (1, U): [8]})
    machine.zones[0].marks.high = 10
    machine.alloc(0, 0, M)
    return machine


@kernels(NEW)
def test_11_steals_of_single_pages_do_not_boost(kernel: str) -> None:
    machine = singles_of_another_type(kernel)
    assert events_text(machine) == (
        "x(3,0,0,M,U,0) x(5,0,0,M,U,0) x(17,0,0,M,U,0) x(8,0,1,M,U,0) a(3)"
    )
    assert free_lists(machine) == {"o0.U": [9]}
    assert machine.zones[0].counters["boost_asks"] == 0


@kernels("6.1.0", "6.1.192", "6.5", "6.8")
def test_11_steals_of_single_pages_did_boost(kernel: str) -> None:
    machine = singles_of_another_type(kernel)
    assert events_text(machine) == (
        "x(3,0,0,M,U,0) zl(3,0,M) x(5,0,0,M,U,0) zl(5,0,M) "
        "x(17,0,0,M,U,0) zl(17,0,M) x(8,0,1,M,U,0) zl(8,0,M) a(3)"
    )
    assert free_lists(machine) == {"o0.M": [9]}
    assert machine.zones[0].counters["boost_asks"] == 4


# TV12


def order_2_after_order_0(kernel: str) -> list[str]:
    machine = toy(kernel, "M" * 6, pcp=untuned(2, 8))
    for pfn in range(0, 14, 2):
        machine.free(0, pfn, 0)
    events_text(machine)
    texts = []
    for pfn in (64, 72, 80):
        machine.free(0, pfn, 2)
        texts.append(events_text(machine))
    return texts


@kernels("5.19", "6.1.0", "6.1.192", "6.5")
def test_12_high_order_frees_in_a_row_empty_everything(kernel: str) -> None:
    assert order_2_after_order_0(kernel) == [
        "f(64) d(64,M)",
        "f(72) d(72,M) d(0,M) d(2,M) d(4,M) d(6,M) d(8,M) d(10,M) d(12,M)",
        "f(80) d(80,M)",
    ]


@kernels(NEW)
def test_12_high_order_frees_in_a_row_drain_what_is_there(kernel: str) -> None:
    assert order_2_after_order_0(kernel) == [
        "f(64) d(64,M) d(0,M) d(2,M)",
        "f(72) d(72,M) d(4,M) d(6,M) d(8,M) d(10,M) d(12,M)",
        "f(80) d(80,M)",
    ]


# TV13


@pytest.mark.parametrize(
    ("kernel", "drained", "landed"),
    [("2.6.32", "d(100,M)", "o0.M"), ("2.6.33", "d(100,RESERVE)", "o0.RESERVE")],
)
def test_13_reserve_pages_leaked_in_2_6_32(kernel: str, drained: str, landed: str) -> None:
    machine = toy(kernel, "MMMMMMV", pcp=untuned(1, 1))
    machine.free(0, 100, 0)
    assert events_text(machine) == f"f(100) f(100) {drained}"
    assert free_lists(machine) == {landed: [100]}


# 6.19 to 7.3: vectors A, C and D


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("7.1", {"M": [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]}),
        ("7.2", {"M": [10, 1], "4": [8, 2], "7": [4]}),
        ("7.3", {"M": [10, 1], "4": [8, 2], "7": [4]}),
    ],
)
def test_a_contiguous_pages_are_freed_as_aligned_blocks(
    kernel: str, expected: dict[str, list[int]]
) -> None:
    settings = replace(untuned(batch=63, high=378), alloc_factor=5)
    machine = toy(kernel, "MM", pcp=settings, geometry=X86_64)
    machine.free_contiguous(0, 1, 10)
    assert events_text(machine) == " ".join(f"f({pfn})" for pfn in range(1, 11))
    assert pcp_lists(machine) == expected
    pcp = machine.zones[0].pcps[0]
    assert (pcp.count, pcp.free_count, pcp.alloc_factor) == (10, 10, 0)
    assert not pcp.prev_free_high_order


@pytest.mark.parametrize(
    ("kernel", "expected"), [("6.18", "f(2048) d(0,M)"), ("6.19", "f(2048) d(0,M) d(512,M)")]
)
def test_c_each_piece_of_an_overflow_takes_whole_entries(kernel: str, expected: str) -> None:
    machine = toy(kernel, "MMMMMM", pcp=untuned(batch=63, high=4096), geometry=X86_64)
    for pfn in range(0, 2048, 512):
        machine.free(0, pfn, 9)
    pcp = machine.zones[0].pcps[0]
    pcp.high = pcp.high_min = pcp.high_max = 163
    events_text(machine)
    machine.free(0, 2048, 9)
    assert events_text(machine) == expected


@pytest.mark.parametrize("low", [0, 2000])
@pytest.mark.parametrize("kernel", ["6.18", "7.0", "7.1", "7.2", "7.3"])
def test_d_the_right_to_the_reserve_goes_past_an_empty_list(kernel: str, low: int) -> None:
    pcp = untuned(batch=63, high=378)
    machine = toy(kernel, "UU", {(10, U): [0]}, pcp=pcp, geometry=X86_64)
    zone = machine.zones[0]
    zone.managed = 102400
    zone.marks = replace(zone.marks, low=low, high=low)
    assert machine.alloc(0, 2, U, frozenset({"HIGH", "KSWAPD_RECLAIM"})) == 0
    past = kernel == "7.3" or (kernel in ("7.1", "7.2") and low > 0)
    assert (events_text(machine) == "zl(0,2,U) a(0)") == past
    assert zone.pcps[0].count == (0 if past else 56)
    assert zone.reserved_highatomic == (512 if low else 0)


_VECTORS = Path(__file__).parent / "fixtures/slow_path_vectors.h"
_VECTOR = re.compile(
    r"""X\("([\d.]+)",\s+(\d+),\s+'(\w)',\s+"(\w*)",\s+(\d),"""
    r"""\s+"([01]+)",\s+"(\w+)",[\s\\]+"([^"]+)"\)"""
)


def _slow_paths() -> list[tuple[str, ...]]:
    found = [match.groups() for match in _VECTOR.finditer(_VECTORS.read_text())]
    assert len(found) == _VECTORS.read_text().count("X(") - 1  # its description
    return found


@pytest.mark.parametrize("vector", _slow_paths(), ids=" ".join)
def test_a_request_takes_the_turns_of_its_kernel(vector: tuple[str, ...]) -> None:
    kernel, order, migratetype, gfp, defrag_mode, reclaims, compactions, wanted = vector
    ask = Ask(
        int(order),
        {letter: name for name, letter in LETTER.items()}[migratetype],
        frozenset(gfp),
        pageblock_order=4,
        defrag_mode=defrag_mode == "1",
    )
    assert steps(KERNELS[kernel], ask, reclaims, compactions) == wanted
