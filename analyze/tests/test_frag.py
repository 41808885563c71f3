# SPDX-License-Identifier: Apache-2.0
"""The fragmentation indices: the kernel's digits, and the effect of per-CPU lists."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.procfs import parse_buddyinfo
from pagetape.schemas.tape import Tape, Writer

DEBUGFS = Path("/sys/kernel/debug/extfrag")
FILES = ("unusable_index", "extfrag_index")
FACTS = {"kernel": "6.18.44", "nr_orders": 11, "pageblock_order": 9}
PLACE = {"snapshot": 0, "ts": 0}
NORMAL = PLACE | {"node": 0, "zone": "NORMAL"}

Rows = list[dict[str, Any]]


def report(path: Path, name: str, **values: Any) -> Rows:
    with Database([Tape(path)]) as db:
        return db.run(query.reports()[name], values).objects()


def tape(path: Path, facts: dict[str, Any] | None = None, **tables: Rows) -> Path:
    with Writer(path, FACTS | (facts or {})) as writer:
        for name, rows in tables.items():
            writer.rows(name, rows)
    return path


def free_area(counts: list[int], **place: Any) -> Rows:
    return [
        NORMAL | place | {"page_order": order, "nr_free": nr, "capped": False}
        for order, nr in enumerate(counts)
    ]


def test_the_indices_of_a_known_zone_have_the_digits_its_kernel_printed(tmp_path: Path) -> None:
    counts = [111, 22, 801, 190, 346, 67, 42, 118, 11, 0, 0]
    rows = report(tape(tmp_path / "t.tape", free_area=free_area(counts)), "frag.indices")
    assert [row["unusable_free"] for row in rows] == [
        0, 3, 4, 101, 147, 314, 378, 459, 915, 1000, 1000,
    ]  # fmt: skip
    assert [row["fragmentation_index"] for row in rows] == [-1000] * 9 + [962, 981]
    assert rows[9]["extfrag_for_order"] == 100
    assert sum(row["pages"] for row in rows) == 33167


def test_a_zone_without_free_memory_lacks_memory(tmp_path: Path) -> None:
    rows = report(tape(tmp_path / "t.tape", free_area=free_area([0] * 11)), "frag.indices")
    assert {row["unusable_free"] for row in rows} == {1000}
    assert {row["fragmentation_index"] for row in rows} == {0}
    assert {row["extfrag_for_order"] for row in rows} == {0}


def by_zone(text: str) -> dict[str, str]:
    """{'Node 0, zone   Normal': the line} of buddyinfo or of a file of extfrag."""
    return {line[:21]: line for line in text.splitlines(keepends=True)}


def quiet_zones(read: Callable[[], list[str]], tries: int) -> dict[str, list[str]]:
    """The lines of each zone from a try in which buddyinfo, first and last, did not change."""
    found: dict[str, list[str]] = {}
    for _ in range(tries):
        texts = [by_zone(text) for text in read()]
        for zone, line in texts[0].items():
            if zone not in found and texts[-1][zone] == line:
                found[zone] = [text[zone] for text in texts[:-1]]
        if len(found) == len(texts[0]):
            break
    return found


def test_the_indices_are_those_of_this_kernels_debugfs(tmp_path: Path) -> None:
    buddyinfo = Path("/proc/buddyinfo")
    paths = (buddyinfo, *(DEBUGFS / name for name in FILES), buddyinfo)
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(path.open()) for path in paths]
        except OSError as e:
            pytest.skip(f"{e.filename}: {e.strerror}")

        def read() -> list[str]:
            return [text for file in files if file.seek(0) == 0 and (text := file.read())]

        quiet = quiet_zones(read, 5000)
    assert quiet
    areas = [
        PLACE | row for lines in quiet.values() for row in parse_buddyinfo(lines[0].rstrip("\n"))
    ]
    rows = report(tape(tmp_path / "t.tape", free_area=areas), "frag.debugfs")
    printed = {(row["file"], row["line"][:21]): row["line"] + "\n" for row in rows}
    assert printed == {
        (name, zone): line
        for zone, lines in quiet.items()
        for name, line in zip(FILES, lines[1:], strict=True)
    }


def merged(blocks: set[tuple[int, int]]) -> list[int]:
    """The orders of these (pfn, order) blocks when every pair of buddies has merged."""
    for order in range(10):
        for pfn in sorted(pfn for pfn, o in blocks if o == order):
            buddy = pfn ^ (1 << order)
            if {(pfn, order), (buddy, order)} <= blocks:
                blocks -= {(pfn, order), (buddy, order)}
                blocks.add((min(pfn, buddy), order + 1))
    return [order for _, order in blocks]


def test_drained_lists_merge_as_buddies_do(tmp_path: Path) -> None:
    """Against a merging done pair by pair, on a zone a third of which is on per-CPU lists."""
    dice = random.Random(1)
    free: set[tuple[int, int]] = set()
    pcp: set[tuple[int, int]] = set()
    pfn = 4096
    while pfn < 3 * 4096:
        largest = (pfn & -pfn).bit_length() - 1
        order = min(dice.choice([0, 0, 1, 2, 3, 6, 9]), largest)
        kind = dice.choice([free, free, free, free, pcp, pcp, None])
        if kind is not None:
            kind.add((pfn, order))
        pfn += 1 << order
    counts = [sum(o == order for _, o in free) for order in range(11)]
    block = {"migratetype": "MOVABLE"}
    rows = report(
        tape(
            tmp_path / "t.tape",
            free_area=free_area(counts, migratetype="MOVABLE"),
            free_block=[NORMAL | block | {"pfn": p, "page_order": o} for p, o in sorted(free)],
            pcp_page=[
                NORMAL | block | {"cpu": 0, "pfn": p, "page_order": o} for p, o in sorted(pcp)
            ],
        ),
        "frag.indices",
    )
    orders = merged(free | pcp)
    drained = [orders.count(order) for order in range(11)]
    assert max(orders) >= 4
    expected = report(tape(tmp_path / "d.tape", free_area=free_area(drained)), "frag.indices")
    for name in ("unusable_free", "fragmentation_index", "extfrag_for_order"):
        assert [row[f"drained_{name}"] for row in rows] == [row[name] for row in expected]
    assert rows[3]["drained_unusable_free"] != rows[3]["unusable_free"]


@pytest.mark.parametrize(
    ("kernel", "proactiveness", "low", "high"),
    [
        ("6.18.44", 20, 80, 90),
        ("6.18.44", 95, 5, 7),
        ("6.18.44", 100, 0, 0),
        ("6.16.0", 95, 5, 7),  # fragmentation_score_wmark, 6.16
        ("6.15.11", 95, 5, 15),
        ("6.14.0", 20, 80, 90),
        ("6.14.0", 100, 5, 15),
        ("6.14.0", 0, 100, 100),
    ],
)
def test_the_thresholds_of_proactive_compaction_are_the_kernels(
    tmp_path: Path, kernel: str, proactiveness: int, low: int, high: int
) -> None:
    facts = {"kernel": kernel, "sysctls": {"vm.compaction_proactiveness": str(proactiveness)}}
    path = tape(tmp_path / "t.tape", facts, free_area=free_area([7] * 11))
    row = report(path, "frag.score")[0]
    assert (row["low"], row["high"]) == (low, high)
    asked = report(path, "frag.score", proactiveness=20)[0]
    assert (asked["low"], asked["high"]) == (80, 90)


def zone(name: str, present: int) -> dict[str, Any]:
    """A row of `zone`."""
    sizes = {"start_pfn": 0, "spanned": present, "present": present, "managed": present, "free": 0}
    marks = dict.fromkeys(("wmark_min", "wmark_low", "wmark_high"), 0)
    reserve = {
        f"lowmem_reserve_{n}": 0 for n in ("dma", "dma32", "normal", "highmem", "movable", "device")
    }
    return NORMAL | sizes | marks | reserve | {"zone": name}


def test_a_small_zone_weighs_little_in_the_score_of_its_node(tmp_path: Path) -> None:
    path = tape(
        tmp_path / "t.tape",
        {"sysctls": {"vm.compaction_proactiveness": "20"}},
        zone=[zone("DMA", 4096), zone("NORMAL", 999_999 - 4096)],
        free_area=[*free_area([0] * 9 + [1, 0], zone="DMA"), *free_area([9] + [0] * 10)],
    )
    rows = {row["zone"]: row for row in report(path, "frag.score")}
    assert {name: row["score"] for name, row in rows.items()} == {None: 99, "DMA": 0, "NORMAL": 100}
    assert rows[None]["starts"] is True
    assert rows["NORMAL"]["starts"] is None


@pytest.mark.parametrize(("kernel", "starts"), [("5.8.18", False), ("5.9.0", True)])
def test_proactive_compaction_exists_since_5_9(tmp_path: Path, kernel: str, starts: bool) -> None:
    """should_proactive_compact_node, 5.9."""
    areas = free_area([9] + [0] * 10)
    zones = [zone("NORMAL", 100_000)]
    path = tape(tmp_path / "t.tape", {"kernel": kernel}, zone=zones, free_area=areas)
    assert [r["starts"] for r in report(path, "frag.score") if r["zone"] is None] == [starts]


def test_a_replay_shows_what_lives_in_the_pageblocks(
    played: Path,
) -> None:
    mixed = report(played, "frag.mixed_blocks")
    assert (mixed[0]["live_blocks"], mixed[0]["unknown_pages"]) == (0, 0)
    last = mixed[-1]
    # Nothing was in use before the tape, and UNMOVABLE requests claimed whole pageblocks.
    assert last["mixed_low"] == last["mixed_high"] == last["unknown_pages"] == 0
    assert last["live_blocks"] > 6
    with Database([Tape(played)]) as db:
        live = db.ask(
            "SELECT sum(unmovable_pages + movable_pages + reclaimable_pages) FROM block_mix"
            " WHERE ts = (SELECT max(ts) FROM block_mix)"
        ).rows
    assert live == [(3000,)]
    ceiling = report(played, "thp.ceiling")
    assert {ceiling[0][name] for name in ("blocks", "now", "ceiling_low", "ceiling_high")} == {64}
    assert ceiling[-1]["now"] < ceiling[-1]["ceiling_low"] == ceiling[-1]["ceiling_high"] < 64
    assert report(played, "frag.over_time", page_order=0)[0]["free_pages"] == 64 << 9


def test_a_zone_that_a_replay_split_in_parts_is_one_row(
    small: Path, tmp_path: Path, pagetape: Callable[..., Any]
) -> None:
    out = tmp_path / "out.tape"
    pagetape("replay", small, "--policy", "split_zone:parts=2", "-o", out)
    with Database([Tape(out)]) as db:
        parts = db.ask("SELECT count(*) FROM zone WHERE snapshot = 1").rows
    assert parts == [(2,)]
    for name in ("frag.over_time", "frag.mixed_blocks", "thp.ceiling"):
        rows = report(out, name)
        assert len({row["at_s"] for row in rows}) == len(rows)
    assert report(out, "frag.over_time")[0]["free_pages"] == 64 << 9
    assert (rows[0]["blocks"], rows[0]["now"], rows[0]["ceiling_low"]) == (64, 64, 64)
    assert {row["zone"] for row in report(out, "frag.score")} == {None, "NORMAL"}


def test_the_page_shows_indices_over_time_and_what_the_pageblocks_hold(
    small: Path, played: Path, tmp_path: Path, pagetape: Callable[..., Any]
) -> None:
    page = tmp_path / "page.html"
    assert pagetape("html", small, played, "-o", page).status == 0
    text = page.read_text()
    assert "Fragmentation over time" in text and "Not sampled." in text
    # 64 pageblocks in one line: the first are used, the others free.
    drawn = text.partition("Contents of the pageblocks</h2>")[2].partition("</section>")[0]
    assert drawn.count('class="fill free"') == 1 and "No snapshot on this tape records it." in drawn
    lines = [row["line"] for row in report(played, "frag.map")]
    assert len(lines) == 1 and len(lines[0]) == 64
    assert lines[0].count(".") == report(played, "thp.ceiling")[-1]["now"]
    assert set(lines[0]) == {".", "m", "k"}
