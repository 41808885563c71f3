# SPDX-License-Identifier: Apache-2.0
"""The prompt of `pagetape sql`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.commands import sql_prompt
from pagetape.schemas.tape import Tape

Run = Callable[..., str]

PRESSURE = Path(__file__).parents[1] / "demo/pressure.tape"


def test_the_prompt_lists_tables_columns_and_help_and_runs_statements(on_terminal: Run) -> None:
    typed = (
        b".tables\n.schema extfrag\n.help\n.schema evnt\n.tabless\nSELECT 6\n* 7 AS answer;\n"
        b"SELECT nothing FROM event;\n.schema machine\n\x04"
    )
    said = on_terminal("sql", PRESSURE, columns=100, typed=typed, NO_COLOR="1")
    assert "event" in said and "node_distance" in said
    assert "alloc_migratetype" in said
    assert "show the columns of a table or view" in said
    assert "no table named 'evnt'; did you mean 'event'?" in said
    assert "no such command '.tabless'; did you mean '.tables'?" in said
    assert "answer\n    42" in said
    assert '"nothing" not found' in said
    assert "Traceback" not in said


def test_tab_completes_a_name(on_terminal: Run) -> None:
    typed = b"SELECT count(DISTINCT node_dist\t.tape) AS nr FROM node_distance;\n\x04"
    said = on_terminal("sql", PRESSURE, columns=100, typed=typed, NO_COLOR="1")
    assert "node_distance" in said and "Error" not in said


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("node_d", ["node_distance"]),
        ("folded.", ["folded.folded", "folded.stack", "folded.tape"]),
        (".s", [".schema"]),
        ("nothing.", []),
        ("zzz", []),
    ],
)
def test_completions(word: str, found: list[str]) -> None:
    assert sql_prompt.completions(word) == found


def test_every_table_and_view_is_listed_with_its_columns() -> None:
    """What .schema shows is what DuckDB has."""
    with Database([Tape(PRESSURE)]) as db:
        for name, doc in sql_prompt.names().items():
            assert doc, name
            shown = [column for column, _, _ in sql_prompt.columns(name)]
            assert {*shown} == {*db.ask(f"SELECT * FROM {name} LIMIT 0").columns}, name


def test_schema_documents_the_views(pagetape: Callable[..., Any]) -> None:
    found = pagetape("schema", "--json").json["views"]
    assert [view["name"] for view in found] == [view.name for view in query.views()]
    assert all(view["doc"] and view["columns"] for view in found)
    (one,) = pagetape("schema", "folded", "--json").json["views"]
    assert [column["name"] for column in one["columns"]] == ["tape", "stack", "folded"]
    said = pagetape("schema", "folded").out
    assert "flame graph format" in said and "outermost function first" in said
    assert pagetape("schema", "event", "--json").json["views"] == []
