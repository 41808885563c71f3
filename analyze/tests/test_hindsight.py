# SPDX-License-Identifier: Apache-2.0
"""The start of a tape from its later events, beside the exact snapshot of the same recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import proc_start
import pytest

from pagetape.replaying import hindsight, playback
from pagetape.replaying.freerun import score
from pagetape.replaying.playback import NewTape, Run, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import SNAPSHOT, snapshot_rows

_DEMOS = Path(__file__).parent / "data"
_DEMO = _DEMOS / "pressure.tape"
Ask = Callable[..., Any]

_PLACE = ("node", "zone", "migratetype", "page_order", "pfn")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    """The demo tape as if its start were from /proc."""
    out = tmp_path_factory.mktemp("hindsight") / "proc.tape"
    proc_start.without_exact_start(Tape(_DEMO), out)
    return Tape(out)


def _places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = [tuple(row[name] for name in _PLACE) for row in rows if not row["snapshot"]]
    return sorted(found, key=lambda place: place[:4])  # keeps the order of each list


def test_the_copy_has_no_exact_start(cut: Tape) -> None:
    for name in ("free_block", "pcp_page"):
        assert 0 not in cut.table(name)["snapshot"].to_pylist()
    guessed = [row["guessed"] for row in cut.rows("pageblock") if not row["snapshot"]]
    assert all(guessed) and cut.num_rows("block_guess")


def test_later_events_prove_every_free_list_in_order(cut: Tape) -> None:
    start = hindsight.start(cut)
    assert start is not None
    found = _places(start.tables["free_block"].to_pylist())
    assert found == _places(Tape(_DEMO).rows("free_block"))
    assert start.coverage["free_blocks_proven"] == start.coverage["free_blocks"] == len(found)


@pytest.mark.parametrize("demo", ["pressure", "server"])
def test_counts_and_later_events_prove_every_free_block_without_kpageflags(
    tmp_path: Path, demo: str, pagetape: Ask
) -> None:
    whole, tape, out = (
        _DEMOS / f"{demo}.tape",
        tmp_path / "counts.tape",
        tmp_path / "out.tape",
    )
    proc_start.without_exact_start(Tape(whole), tape, kpageflags=False)
    assert not {"block_guess", "pageblock"} & {
        name for name in SNAPSHOT if snapshot_rows(Tape(tape), name, 0)
    }
    start = hindsight.start(Tape(tape))
    assert start is not None
    found = set(_places(start.tables["free_block"].to_pylist()))
    assert found == set(_places(Tape(whole).rows("free_block")))
    said = pagetape("replay", tape, "-o", out, "--ensemble", 8, "--json").json
    (fallbacks,) = (row for row in said["metrics"] if row["metric"] == "fallbacks")
    assert fallbacks["low"] <= fallbacks["recorded"] <= fallbacks["high"]
    assert said["hindsight"]["counts_only"] == 1
    assert "no kpageflags" in pagetape("info", tape).out


def test_no_proven_pageblock_has_a_wrong_type(cut: Tape) -> None:
    start = hindsight.start(cut)
    assert start is not None
    types = {
        row["pfn"]: row["migratetype"]
        for row in Tape(_DEMO).rows("pageblock")
        if not row["snapshot"]
    }
    proven = [row for row in start.tables["pageblock"].to_pylist() if not row["guessed"]]
    assert len(proven) == start.coverage["pageblocks_proven"] > len(types) / 2
    assert all(types[row["pfn"]] == row["migratetype"] for row in proven)


@pytest.mark.parametrize(
    ("demo", "assisted", "exact_pages"),
    [
        ("pressure", True, 51_918),
        ("pressure", False, 452),
        ("server", True, 21_173),
        ("server", False, 9_690),
    ],
)
def test_the_free_run_is_as_exact_as_from_the_exact_snapshot(
    tmp_path: Path, demo: str, assisted: bool, exact_pages: int
) -> None:
    """It leaves the record's track at the same page, and its fallbacks are near those from the
    exact start. Before hindsight had the tuning of the PCPs, server.tape left it after 297."""
    scores = []
    whole = Tape(_DEMOS / f"{demo}.tape")
    proc_start.without_exact_start(whole, tmp_path / "proc.tape")
    for number, tape in enumerate((whole, Tape(tmp_path / "proc.tape"))):
        out = tmp_path / f"{number}.tape"
        source = playback.Source(tape, inferred(tape), preferences(tape))
        play(source, Run("auto", (), assisted=assisted), NewTape(out))
        scores.append(score(tape, Tape(out)))
    exact, later = scores
    first = later["first_divergence"]["exact_before"]
    assert first == exact["first_divergence"]["exact_before"] >= exact_pages
    assert abs(later["extfrag"]["model"] / exact["extfrag"]["model"] - 1) < 0.05


def test_the_first_refills_and_drains_show_the_tuning(tmp_path: Path) -> None:
    """On this tape all that they show is that of the exact snapshot."""
    whole = Tape(_DEMOS / "server.tape")
    proc_start.without_exact_start(whole, tmp_path / "proc.tape")
    start = hindsight.start(Tape(tmp_path / "proc.tape"))
    assert start is not None
    key, same = ("cpu", "node", "zone"), ("count", "high", "batch", "high_min", "high_max")
    exact = {
        tuple(row[name] for name in key): row for row in whole.rows("pcp") if not row["snapshot"]
    }
    shown = 0
    for row in start.tables["pcp"].to_pylist():
        one = exact[tuple(row[name] for name in key)]
        assert [row[name] for name in same] == [one[name] for name in same]
        assert row["alloc_factor"] in {None, one["alloc_factor"]}
        shown += row["alloc_factor"] is not None
    assert shown == len(exact)


def test_the_start_of_a_replay_says_where_it_comes_from(
    cut: Tape, tmp_path: Path, pagetape: Ask
) -> None:
    out = tmp_path / "out.tape"
    played = pagetape("replay", cut.path, "-o", out, "--json").json
    assert played["hindsight"]["free_blocks_proven"]
    about = pagetape("info", cut.path, "--json").json
    assert about["snapshot"] == "inferred"
    assert (
        about["hindsight"]
        == played["hindsight"]
        == pagetape("validate", cut.path, "--json").json["hindsight"]
    )
    assert pagetape("info", out, "--json").json["snapshot"] == "inferred"
    assert Tape(out).num_rows("free_block") and not Tape(out).num_rows("block_guess")


def test_an_exact_start_stays(tmp_path: Path, pagetape: Ask) -> None:
    assert hindsight.start(Tape(_DEMO)) is None
    assert pagetape("info", _DEMO, "--json").json["hindsight"] is None
    assert (
        pagetape("replay", _DEMO, "-o", tmp_path / "out.tape", "--json").json["hindsight"] is None
    )
