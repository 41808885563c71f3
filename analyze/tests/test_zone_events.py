# SPDX-License-Identifier: Apache-2.0
"""The event set zone: what a projection holds, and what the commands say about it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matrix
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape import cli
from pagetape.replaying import validation
from pagetape.schemas.tape import Tape
from pagetape.tapes import zone_events

Run = Callable[..., Any]
DEMO = Path(__file__).parent.parent / "demo"
TAPES = {name: DEMO / f"{name}.tape" for name in ("pressure", "server")}


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The projections of the bundled tapes."""
    directory = tmp_path_factory.mktemp("zone")
    for name, tape in TAPES.items():
        cli.run(["import", str(tape), "--events", "zone", "-o", str(directory / f"{name}.tape")])
    return {name: directory / f"{name}.tape" for name in TAPES}


# Both kernels have lists for these orders, the last that of whole pageblocks.
LISTED = pa.array([0, 1, 2, 3, 9])
OF_THE_ZONE = pa.array(["alloc_zone_locked", "pcpu_drain", "alloc_extfrag"])


@pytest.mark.parametrize("name", TAPES)
def test_a_projection_has_the_events_of_the_set_in_their_places(
    zone: dict[str, Path], name: str
) -> None:
    page, made = Tape(TAPES[name]), Tape(zone[name])
    rows, inferred = page.table("event"), validation.inferred(page)
    locked = inferred["at"].filter(pc.equal(inferred["kind"].cast("utf8"), "direct_free"))
    assert bool(len(locked)) == (name == "server")
    kinds, at = rows["kind"].cast("utf8"), pa.array(range(len(rows)), locked.type)
    past_list = pc.or_(
        pc.is_in(at, locked), pc.invert(pc.is_in(rows["page_order"].cast("int64"), LISTED))
    )
    freed = pc.and_(pc.equal(kinds, "free"), past_list)
    places = at.filter(pc.or_(freed, pc.is_in(kinds, OF_THE_ZONE))).to_pylist()
    assert made.table("event") == rows.take(places)
    for table in ("reclaim", "compaction", "sample", "parameter"):
        wanted = [row | {"at": bisect_left(places, row["at"])} for row in page.rows(table)]
        assert made.rows(table) == wanted
    for table in ("zone", "free_block", "pcp_page", "pageblock", "snapshot", "task"):
        assert made.table(table) == page.table(table)
    counted = Counter(made.table("event")["kind"].to_pylist())
    points = {row["name"]: row["events"] for row in made.rows("tracepoint")}
    assert points["mm_page_free"] == counted["free"]
    assert points["mm_page_pcpu_drain"] == counted["pcpu_drain"]
    assert not points.keys() & {"mm_page_alloc", "mm_page_free_batched"}
    assert made.facts["event_set"] == "zone"


def test_a_second_projection_changes_nothing(
    zone: dict[str, Path], tmp_path: Path, pagetape: Run
) -> None:
    pagetape("import", zone["server"], "--events", "zone", "-o", tmp_path / "again.tape")
    once, twice = Tape(zone["server"]), Tape(tmp_path / "again.tape")
    assert once.tables == twice.tables
    assert all(once.table(table) == twice.table(table) for table in once.tables)


def test_the_orders_of_the_lists_are_those_of_the_kernel_row() -> None:
    assert zone_events.listed_orders("5.10", 9) == [0]
    assert zone_events.listed_orders("6.18", 9) == [0, 1, 2, 3, 9]


def _checked(pagetape: Run, tape: Path) -> dict[str, Any]:
    found: dict[str, Any] = pagetape("validate", tape, "--json").json
    return found


@pytest.mark.parametrize("name", TAPES)
def test_one_step_ahead_a_zone_tape_is_as_exact_as_its_page_tape(
    zone: dict[str, Path], name: str, pagetape: Run
) -> None:
    page, made = _checked(pagetape, TAPES[name]), _checked(pagetape, zone[name])
    for nr, exact in (("zone_locked", "zone_locked_exact"), ("extfrag", "extfrag_exact")):
        assert made[nr] == page[nr]
        assert made[exact] >= 0.98 * page[exact]
    assert made["end_state"]["free_blocks_same"] >= 0.99 * made["end_state"]["free_blocks"]
    assert made["end_state"]["pageblocks_same"] == made["end_state"]["pageblocks"]
    for name in ("allocs", "refills", "drained", "drains", "inferred_untraced"):
        assert made[name] is None
    assert made["unknowns"]["allocs"] is None


def test_validate_says_which_figures_need_page_events(zone: dict[str, Path], pagetape: Run) -> None:
    text = pagetape("validate", zone["server"]).out
    assert "allocated pages, refill sizes, drained pages, drain sizes: needs page events" in text
    assert "pages on per-CPU lists" not in text


def _played(pagetape: Run, tape: Path, *options: str) -> dict[str, dict[str, Any]]:
    found = pagetape("replay", tape, *options, "--ensemble", "8", "--json").json
    assert not found["anomalies"] > 10
    return {row["metric"]: row for row in found["metrics"]}


@pytest.mark.parametrize("policy", matrix.some(["mainline", "nofragment:mode=off", "zonelist"], 2))
def test_a_what_if_is_within_the_interval_of_the_page_tape(
    zone: dict[str, Path], policy: str, pagetape: Run
) -> None:
    options = () if policy == "mainline" else ("--policy", policy)
    page = _played(pagetape, TAPES["pressure"], *options)
    made = _played(pagetape, zone["pressure"], *options)
    wanted = [
        name
        for name, row in page.items()
        if row["low"] is not None and ("fallback" in name or "pageblocks" in name)
    ]
    good = [page[n]["low"] <= made[n]["median"] <= page[n]["high"] for n in wanted]
    assert len(good) > 10
    assert sum(good) >= 0.8 * len(good)
    # Refills and drains are requests: no rules change their pages.
    for name in ("pages taken under the zone lock", "pages drained to the zone"):
        assert made[name]["median"] == made[name]["recorded"]


def test_what_a_zone_tape_cannot_answer_is_one_line(zone: dict[str, Path], pagetape: Run) -> None:
    tape = zone["pressure"]
    refused = pagetape("replay", tape, "--policy", "pcp:batch=1").err.splitlines()
    assert len(refused) == 1
    assert "--events page" in refused[0]
    (line,) = pagetape("replay", tape, "--reclaim", "R1").err.splitlines()
    assert "--reclaim R0" in line
    (line,) = pagetape("info", tape, "--json").json["absent"]
    assert line.startswith("event set zone")
    played = pagetape("replay", tape, "--policy", "defrag_mode", "--ensemble", "0")
    assert "no verdict on defrag_mode" in played.out
    for said in (played.err, pagetape("validate", tape).err):
        (line,) = said.splitlines()
        assert "no events of what the per-CPU lists serve" in line
    refused = pagetape("report", "kswapd.overshoot", tape).err  # kswapd frees to the lists
    assert "needs events of every free" in refused
    asked = pagetape("report", "pcp.by_cpu", tape)
    assert "event set zone: no events of what the per-CPU lists serve" in asked.out
