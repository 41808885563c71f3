# SPDX-License-Identifier: Apache-2.0
"""Reports that compare tapes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Writer

Run = Callable[..., Any]


def replayed(policy: str, *, own: bool = False) -> dict[str, Any]:
    made = {"kernel": "6.18", "policies": [policy], "reclaim": "R0", "own": own, "tier": "A"}
    return {"replay": made}


@pytest.fixture
def four(tmp_path: Path) -> list[Path]:
    """Fallbacks of MOVABLE and UNMOVABLE requests: recorded, in the model, and in two what-ifs."""
    row = {"cpu": 0, "pid": 1, "kind": "alloc_extfrag", "flags": 0, "pfn": 1, "page_order": 0}
    row |= {"fallback_migratetype": "RECLAIMABLE", "change_ownership": False}
    runs: dict[str, tuple[int, int, dict[str, Any]]] = {
        "recorded": (10, 2, {}),
        "own": (8, 2, replayed("mainline", own=True)),
        "lowzone": (4, 1, replayed("nofragment:mode=lowzone")),
        "always": (0, 0, replayed("nofragment:mode=always")),
    }
    for name, (movable, unmovable, facts) in runs.items():
        with Writer(tmp_path / f"{name}.tape", {"pageblock_order": 9} | facts) as tape:
            rows = [row | {"migratetype": "MOVABLE", "fallback_order": 3}] * movable
            rows += [row | {"migratetype": "UNMOVABLE", "fallback_order": 0}] * unmovable
            rows += [row | {"migratetype": "MOVABLE", "fallback_order": 9}] * 5
            tape.rows("event", [one | {"ts": ts} for ts, one in enumerate(rows)])
            count: dict[str, Any] = {c.name: 0 for c in TABLES["counter"].columns if not c.null}
            if facts:
                count |= {"zone": "NORMAL", "boost_asks": 3, "slowpath_wake_calls": 7}
                tape.rows("counter", [count])
    return [tmp_path / f"{name}.tape" for name in runs]


def test_reduction_compares_a_what_if_with_the_model(four: list[Path], pagetape: Run) -> None:
    found = pagetape("report", "extfrag.reduction", *four, "--json").json
    assert found["tapes"] == list(map(str, four))
    rows = {
        (row["tape"], row["alloc_migratetype"], row["fallback_order"]): row for row in found["rows"]
    }

    def row(*key: object) -> tuple[Any, ...]:
        row = rows[key]  # type: ignore[index]
        return row["nr"], row["against"], row["percent"], row["model_error"]

    assert row("recorded", None, None) == (12, None, None, 2)
    assert row("own", None, None) == (10, "recorded", -16.7, 2)
    assert row("lowzone", None, None) == (5, "own", -50.0, 2)
    assert row("always", None, None) == (0, "own", -100.0, 2)
    assert row("lowzone", "MOVABLE", None) == (4, "own", -50.0, 2)
    assert row("lowzone", "UNMOVABLE", 0) == (1, "own", -50.0, 0)
    assert row("always", "MOVABLE", 3) == (0, "own", -100.0, 2)
    assert rows["lowzone", None, None]["policy"] == "6.18 (6.18.y), nofragment:mode=lowzone"
    assert rows["lowzone", None, None]["boosts_asked"] == 3
    assert rows["lowzone", None, None]["kswapd_asked"] == 7
    assert rows["recorded", None, None]["boosts_asked"] is None


def test_a_report_about_one_tape_answers_each_of_several(four: list[Path], pagetape: Run) -> None:
    """The rows are those of the single tapes, with the name of the tape before them."""
    found = pagetape("report", "extfrag.by_order", *four, "--json").json
    assert found["tapes"] == list(map(str, four))
    assert found["columns"][0] == "tape"
    expected = []
    for path in four:
        rows = pagetape("report", "extfrag.by_order", path, "--json").json["rows"]
        expected += [{"tape": path.stem, **row} for row in rows]
    assert found["rows"] == expected
    assert {row["tape"] for row in expected} == {path.stem for path in four}


def test_sorting_and_limits_act_on_the_rows_of_all_tapes(four: list[Path], pagetape: Run) -> None:
    options = ["--sort", "-nr,tape", "--limit", 3, "--where", "nr > 1", "--json"]
    found = pagetape("report", "extfrag.by_order", *four, *options).json
    every = pagetape("report", "extfrag.by_order", *four, "--json").json["rows"]
    most = sorted((r for r in every if r["nr"] > 1), key=lambda r: (-r["nr"], r["tape"]))
    assert found["rows"] == most[:3]
    assert f"3 of {len(most)} rows" in found["note"]
    wrong = pagetape("report", "extfrag.by_order", *four, "--sort", "size")
    assert (wrong.status, "no column 'size'" in wrong.err) == (2, True)


def test_an_arrow_file_has_the_rows_of_all_tapes(
    four: list[Path], tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "rows.arrow"
    found = pagetape("report", "extfrag.by_order", *four, "--arrow", out, "--json").json
    assert pa.ipc.open_file(out).read_all().to_pylist() == found["rows"]


def test_a_tape_of_the_wrong_kind_beside_others_has_a_line(
    four: list[Path], empty: Path, pagetape: Run
) -> None:
    """The validation of a tape that was never validated: a line for it, and an error for all."""
    one = pagetape("report", "model.counters", four[1], four[0], "--json").json
    assert {row["tape"] for row in one["rows"]} == {"own"}
    assert f"{four[0]}: model.counters needs a replay" in one["note"]
    none = pagetape("report", "model.counters", four[0], empty)
    assert (none.status, none.err.count("\n")) == (1, 1)
    assert str(four[0]) in none.err and none.err.endswith(" -o run.tape (and 1 more)\n")


def test_help_says_that_a_report_takes_tapes_or_an_archive(pagetape: Run) -> None:
    for name in ("extfrag.by_order", "extfrag.reduction"):
        assert "T.tape...|URL" in pagetape("report", name, "--help").out
