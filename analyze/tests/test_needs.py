# SPDX-License-Identifier: Apache-2.0
"""A report on a tape of another kind says what it needs; a mistyped name gets a suggestion."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import needs, query
from pagetape.schemas import TABLES

Run = Callable[..., Any]

PRESSURE = Path(__file__).parents[1] / "demo/pressure.tape"

WRONG_KIND = {
    "model.exactness": "pagetape validate",
    "model.misses": "pagetape validate",
    "model.repairs": "pagetape validate",
    "model.counters": "pagetape replay",
    "frag.mixed_blocks": "pagetape replay",
    "zone_lock": "--policy zone_lock",
    "reserve.integrity": "--policy reserve",
}


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize("name", WRONG_KIND)
def test_the_wrong_kind_of_tape_is_an_error_with_the_command(
    name: str, as_json: tuple[str, ...], pagetape: Run
) -> None:
    said = pagetape("report", name, PRESSURE, *as_json)
    assert said.status == 1
    assert said.out == ""
    assert said.err.startswith(f"pagetape: {name} needs ") and said.err.count("\n") == 1
    assert WRONG_KIND[name] in said.err and str(PRESSURE) in said.err


def test_a_tape_of_the_right_kind_without_such_events_is_no_error(pagetape: Run) -> None:
    said = pagetape("report", "extfrag.captures", PRESSURE, "--json")
    assert said.status == 0
    found = json.loads(said.out)
    assert found["rows"] == [] and found["note"].startswith("no rows: ")
    assert "no rows: " in pagetape("report", "extfrag.captures", PRESSURE).out


def test_every_known_table_exists_and_is_read_by_a_report() -> None:
    read = {name for q in query.reports().values() for name in needs._tables(q)}
    assert set(needs._KINDS) <= set(TABLES)
    assert set(needs._KINDS) - {"lock_wait"} <= read


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("validat",), "validate"),
        (("report", "extfrag.by_migrattype", PRESSURE), "extfrag.by_migratetype"),
        (("replay", PRESSURE, "--policy", "nofragmnt:mode=always"), "nofragment"),
    ],
)
def test_a_mistyped_name_gets_a_suggestion(
    words: tuple[Any, ...], meant: str, pagetape: Run
) -> None:
    said = pagetape(*words)
    assert said.status == 2
    assert f"did you mean '{meant}'?" in said.err and said.err.count("\n") == 1


def test_a_name_like_no_other_gets_no_suggestion(pagetape: Run) -> None:
    assert "did you mean" not in pagetape("zzzzzz").err


def test_no_command_is_the_help(pagetape: Run) -> None:
    said = pagetape()
    assert said.status == 0
    assert said.err == ""
    assert said.out == pagetape("--help").out


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT * FROM evnt", ("name evnt does not exist", 'Did you mean "event"?')),
        ("SELECT pfm FROM event", ('"pfm" not found', '"pfn"')),
    ],
)
def test_an_error_of_duckdb_is_whole_in_one_line(
    sql: str, parts: tuple[str, ...], pagetape: Run
) -> None:
    said = pagetape("sql", PRESSURE, sql)
    assert said.status == 1
    assert said.err.count("\n") == 1
    assert all(part in said.err for part in parts)
    assert "^" not in said.err
