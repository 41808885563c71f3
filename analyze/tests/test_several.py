# SPDX-License-Identifier: Apache-2.0
"""Reports that compare tapes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import query
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


def test_a_report_about_one_tape_takes_one(four: list[Path], pagetape: Run) -> None:
    said = pagetape("report", "extfrag.by_order", *four)
    assert said.status == 2
    assert said.err.count("\n") == 1


def test_help_says_which_reports_take_several(pagetape: Run) -> None:
    for q in query.reports().values():
        words = pagetape("report", q.name, "--help").out
        assert ("T.tape..." in words) == q.several
