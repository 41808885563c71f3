# SPDX-License-Identifier: Apache-2.0
"""Archives for the tests: tapes of a small fleet, put as a shipper puts them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pagetape.archive import names
from pagetape.archive.store import Store, open_store
from pagetape.schemas import bundle
from pagetape.schemas.tape import Tape, Writer

S = 1_000_000_000  # a second of the trace clock
FACTS = Path(__file__).parent / "golden" / "tape" / "facts.json"
POINTS = (
    "kmem:mm_page_alloc",
    "kmem:mm_page_alloc_extfrag",
    "vmscan:mm_vmscan_direct_reclaim_begin",
)


def packed(directory: Path) -> Path:
    """The tape of a directory in one file, beside it."""
    path = directory.with_name(f"{directory.stem}.packed.tape")
    path.write_bytes(b"")
    bundle.write(directory, path)
    return path


def made(
    directory: Path,
    host: str,
    at: str,
    length_s: float,
    page_events: Sequence[dict[str, Any]] = (),
    **facts: Any,
) -> Path:
    """A tape of a machine: the time of its begin, its length, and its page events."""
    known = json.loads(FACTS.read_text()) | {
        "boot_id": f"boot of {host}",
        "host": host,
        "recorded_at": f"{at}+00:00",
        "events": list(POINTS),
    }
    about = {"cpu": 0, "pid": 7, "flags": 0}
    path = directory / f"{host}-{at.replace(':', '')}.tape"
    with Writer(path, known | facts) as out:
        rows = [about | {"ts": S + i * 1000} | event for i, event in enumerate(page_events)]
        out.rows("event", rows)
        ends = ((0, S), (1, S + int(length_s * S)))
        out.rows("snapshot", [{"snapshot": n, "ts": ts, "how": "proc"} for n, ts in ends])
    return packed(path)


def fallbacks(
    nr: int, order: int = 0, took: int = 3, to: str = "UNMOVABLE"
) -> list[dict[str, Any]]:
    """Fallbacks of one kind."""
    row = {"kind": "alloc_extfrag", "page_order": order, "migratetype": to, "fallback_order": took}
    row |= {"fallback_migratetype": "MOVABLE", "change_ownership": False}
    return [row | {"pfn": 1 << 16 | i << took} for i in range(nr)]


def allocs(nr: int, failed: int = 0, order: int = 0) -> list[dict[str, Any]]:
    """Allocations; the last ones got no page."""
    row = {"kind": "alloc", "page_order": order, "migratetype": "MOVABLE", "gfp_flags": 0}
    return [row | {"pfn": None if i >= nr - failed else 1 << 16 | i << order} for i in range(nr)]


def archived(root: Path, tapes: Sequence[Path]) -> Store:
    """An archive with these tapes."""
    store = open_store(root, create=True)
    for path in tapes:
        store.put_new(names.object_name(Tape(path)), path)
    return store
