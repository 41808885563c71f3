# SPDX-License-Identifier: Apache-2.0
"""No verdict on a metric in which the model does not follow the tape."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import headline, no_verdict
from pagetape.asking.comparison import beside_model, compare, members_of
from pagetape.asking.interval import Interval
from pagetape.asking.success import SUCCEEDS
from pagetape.pages.page import page
from pagetape.pages.sweep_page import sweep_page
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]
NAME = "fallbacks"
OWN = [103, 110, 118, 124, 150, 171, 188, 205] * 2
RUN = {"kernel": "6.18", "kernel_warnings": [], "policies": ["pcp"], "reclaim": "R0", "own": False}
RUN |= {"tier": "A", "recording": "whole", "policies_effect": [], "prefer": "auto", "nodes": ""}


def member_rows(values: Mapping[str, Sequence[int | None]], name: str) -> list[dict[str, Any]]:
    return [
        {"run": run, "seed": seed, "metric": name, "unit": "events", "tier": "A", "value": value}
        for run, those in values.items()
        for seed, value in enumerate(those, 1)
    ]


def what_if(path: Path, recorded: int | None, this: Sequence[int], **run: Any) -> Path:
    """The tape of a what-if with 16 members of each run; the recording has `recorded` fallbacks."""
    with Writer(path, {"replay": RUN | run}) as tape:
        about = {"metric": NAME, "unit": "events", "tier": "A"}
        tape.rows("model_error", [about | {"recorded": recorded, "model": 150}])
        tape.rows("member", member_rows({"own": OWN, "this": this}, NAME))
    return path


def recording(path: Path) -> Path:
    with Writer(path, {}):
        pass
    return path


@pytest.fixture
def tapes(tmp_path: Path) -> list[Path]:
    base = recording(tmp_path / "base.tape")
    return [base, what_if(tmp_path / "run.tape", 41, [value // 8 for value in OWN])]


def of(found: dict[str, Any]) -> dict[str, Any]:
    (metric,) = (m for m in found["metrics"] if m["metric"] == NAME)
    return metric


def test_the_model_follows_what_lies_in_its_interval() -> None:
    own = no_verdict.Rules(Interval(150, 103, 205), None)
    found = [no_verdict.follows(NAME, value, own) for value in (102, 103, 205, 206)]
    assert found == [False, True, True, False]
    assert no_verdict.follows(NAME, None, own) is None
    assert no_verdict.follows(NAME, 41, None) is None


def test_compare_withholds_what_the_model_does_not_follow(tapes: list[Path], pagetape: Run) -> None:
    metric = of(pagetape("compare", *tapes, "--json").json)
    found = metric["differences"]["run"]
    assert found["shown"] is False and found["followed"] is False
    assert {found[key] for key in ("value", "percent", "low", "high")} == {None}
    own = metric["own"]
    words = f"not followed: recorded 41, own rules {own['low']} to {own['high']}"
    assert found["no_verdict"] == words
    said = pagetape("compare", *tapes, "--wide").out
    (line,) = (line for line in said.splitlines() if line.startswith(NAME + " "))
    assert words in line and "%" not in line
    assert no_verdict.NOT_FOLLOWED in said
    assert words in page([Tape(path) for path in tapes])


def test_compare_gives_a_verdict_on_what_the_model_follows(tmp_path: Path, pagetape: Run) -> None:
    base = recording(tmp_path / "base.tape")
    run = what_if(tmp_path / "run.tape", 150, [value // 8 for value in OWN])
    found = of(pagetape("compare", base, run, "--json").json)["differences"]["run"]
    assert found["shown"] is True and found["followed"] is True and found["no_verdict"] is None
    assert found["value"] < 0 and found["percent"] < -80
    said = pagetape("compare", base, run).out
    assert "not followed" not in said and "not checked" not in said


def test_what_the_tape_did_not_record_is_not_checked(tmp_path: Path, pagetape: Run) -> None:
    run = what_if(tmp_path / "run.tape", None, [value // 8 for value in OWN])
    other = what_if(tmp_path / "other.tape", None, OWN)
    found = of(pagetape("compare", other, run, "--json").json)["differences"]["run"]
    assert found["shown"] is True and found["followed"] is None
    said = pagetape("compare", other, run).out
    assert ", not checked" in said and "\nnot checked: " in said


def test_a_run_without_a_verdict_has_none_on_any_metric(tmp_path: Path) -> None:
    why = "no verdict on boost: the tape recorded no reclaim"
    base = recording(tmp_path / "base.tape")
    run = what_if(tmp_path / "run.tape", 150, OWN, no_verdict=why)
    found = compare([Tape(base), Tape(run)])
    for metric in found.metrics:
        difference = metric.differences["run"]
        assert difference is not None
        assert difference.no_verdict == why and difference.value is None and not difference.shown
    assert no_verdict.short(why) == "no verdict on boost"


def beside(recorded: int | None) -> list[dict[str, Any]]:
    """A replay's metrics, with this many recorded fallbacks."""
    schema = TABLES["model_error"].arrow
    about = {"metric": NAME, "unit": "events", "tier": "A"}
    error = schema.empty_table().from_pylist(
        [about | {"recorded": recorded, "model": 150}], schema=schema
    )
    members = TABLES["member"].arrow
    rows = members.empty_table().from_pylist(
        member_rows({"own": OWN, "this": [value // 8 for value in OWN]}, NAME), schema=members
    )
    return beside_model({NAME: about | {"value": 18}}, error, members_of(rows), RUN)


def test_a_replay_withholds_difference_and_scaled_value() -> None:
    (metric,) = beside(41)
    assert metric["followed"] is False and metric["scaled"] is None
    assert metric["difference"]["value"] is None and metric["difference"]["shown"] is False
    (said, _) = headline.sentences([metric], "pcp")
    assert said.endswith(f": {metric['no_verdict']}") and "%" not in said
    (said, _) = headline.sentences([metric], None)
    assert said.endswith(f": {metric['no_verdict']}")
    (metric,) = beside(150)
    assert metric["followed"] is True and metric["scaled"] is not None
    assert metric["difference"]["shown"] is True


def test_a_sweep_withholds_it_in_table_and_page() -> None:
    run = RUN | {"tape": "base", "lost": 0, "seeds": [1]}
    text = sweep_page([run | {"metrics": beside(41)}], [NAME])
    assert "(not followed)" in text and 'title="not followed: recorded 41, own rules ' in text
    text = sweep_page([run | {"metrics": beside(150)}], [NAME])
    assert "(not followed)" not in text and "%)" in text


# ---- a fragmentation index where a request would succeed

INDEX = "fragmentation index of order 9 at the end, node 0 DMA32"
ZONE = {"ts": 1, "node": 0, "zone": "DMA32", "migratetype": "MOVABLE"}


def index_tape(path: Path, recorded: int, this: Sequence[int], own: Sequence[int]) -> Path:
    """A what-if whose zone has two free blocks of order 0 at the end: its index is 999."""
    with Writer(path, {"replay": RUN, "pageblock_order": 9, "orders": 11}) as tape:
        about = {"metric": INDEX, "unit": "1/1000", "tier": "A"}
        tape.rows("model_error", [about | {"recorded": recorded, "model": 990}])
        rows = member_rows({"own": own, "this": this}, INDEX)
        tape.rows("member", [row | {"unit": "1/1000"} for row in rows])
        areas = [
            ZONE
            | {"snapshot": snapshot, "page_order": order, "nr_free": 0 if order else 2}
            | {"capped": False}
            for snapshot in (0, 1)
            for order in range(11)
        ]
        tape.rows("free_area", areas)
    return path


def index_of(pagetape: Run, *tapes: Path) -> tuple[dict[str, Any], str]:
    found = pagetape("compare", *tapes, "--json").json
    (metric,) = (m for m in found["metrics"] if m["metric"] == INDEX)
    return metric, pagetape("compare", *tapes, "--wide").out


def test_a_request_that_would_succeed_is_no_number(tmp_path: Path, pagetape: Run) -> None:
    base = recording(tmp_path / "base.tape")
    this, own = [SUCCEEDS, 940, 950, 960] * 4, [900, 910, 920, 930] * 4
    run = index_tape(tmp_path / "run.tape", 915, this, own)
    metric, said = index_of(pagetape, base, run)
    assert metric["success"]["run"] == {"nr": 4, "of": 16}
    assert metric["intervals"]["run"]["median"] == 950
    assert metric["intervals"]["run"]["low"] >= 0
    found = metric["differences"]["run"]
    assert found["value"] is None and found["shown"] is False and found["followed"] is True
    assert "would succeed in 4 of 16, else 950 [" in said
    assert (
        "no index to compare: would succeed in 4 of 16, own rules would succeed in 0 of 16" in said
    )
    assert "-1,000" not in said and "-1000" not in said


def test_an_index_is_followed_if_members_are_in_the_recorded_state(
    tmp_path: Path, pagetape: Run
) -> None:
    base = recording(tmp_path / "base.tape")
    numbers = [900, 910, 920, 930] * 4
    words = []
    for nr, (recorded, own) in enumerate(
        [
            (SUCCEEDS, numbers),  # no member of the own rules would succeed
            (915, [SUCCEEDS] * 16),  # all would
            (SUCCEEDS, [SUCCEEDS] * 8 + numbers[:8]),
            (915, [SUCCEEDS] * 8 + numbers[:8]),
        ]
    ):
        run = index_tape(tmp_path / f"run{nr}.tape", recorded, numbers, own)
        found = index_of(pagetape, base, run)[0]["differences"][f"run{nr}"]
        words.append((found["followed"], found["no_verdict"].partition(":")[0]))
    no_index = (True, "no index to compare")
    assert words == [(False, "not followed"), (False, "not followed"), no_index, no_index]


def test_the_report_has_no_index_where_a_request_would_succeed(pagetape: Run) -> None:
    demo = Path(__file__).parents[1] / "demo/pressure.tape"
    rows = pagetape("report", "metrics", demo, "--json").json["rows"]
    found = [row["value"] for row in rows if row["metric"].startswith("fragmentation index")]
    assert None in found and all(value is None or value >= 0 for value in found)
    for row in rows:
        assert row["value"] is None or 0 <= row["value"] <= (row["most"] or row["value"])
