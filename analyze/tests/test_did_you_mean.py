# SPDX-License-Identifier: Apache-2.0
"""A mistyped name gets a suggestion; no command is the help; DuckDB's errors are whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PRESSURE = Path(__file__).parents[1] / "demo/pressure.tape"


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
