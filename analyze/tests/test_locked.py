# SPDX-License-Identifier: Apache-2.0
"""SQL sees the tapes, and nothing else of the machine, unless somebody asks for more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pagetape as api

Run = Callable[..., Any]

# OUT is a file that is not there, SECRET one that is.
STATEMENTS = [
    "COPY (SELECT 1) TO 'OUT'",
    "EXPORT DATABASE 'OUT'",
    "ATTACH 'OUT' AS other",
    "SELECT * FROM read_text('SECRET')",
    "SELECT * FROM read_csv('SECRET')",
    "FROM 'SECRET'",
    "SELECT * FROM glob('SECRET*')",
    "SELECT count(*) FROM event WHERE (SELECT count(*) FROM read_text('SECRET')) > 0",
    "INSTALL httpfs",
    "LOAD 'OUT'",
    "SET enable_external_access = true",
    "SET memory_limit = '1TB'",
    "FROM golden",  # a variable of Python
]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.csv"
    file.write_text("word\npassw0rd\n")
    return file


def filled(sql: str, secret: Path) -> str:
    return sql.replace("OUT", str(secret.with_name("out"))).replace("SECRET", str(secret))


def untouched(secret: Path) -> bool:
    return [path.name for path in secret.parent.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_sees_the_tapes_alone(
    sql: str, golden: Path, secret: Path, pagetape: Run
) -> None:
    said = pagetape("sql", golden, filled(sql, secret))
    assert (said.status, said.err.count("\n")) == (1, 1), said.err
    assert "passw0rd" not in said.out + said.err
    with pytest.raises(api.Error):
        api.open(golden).sql(filled(sql, secret)).df()
    assert untouched(secret)


@pytest.mark.parametrize(
    "where",
    [
        "true) ; COPY (SELECT 2) TO 'OUT'; SELECT (true",
        "true; COPY (SELECT 2) TO 'OUT'",
        "true) UNION ALL (FROM read_text('SECRET')",
        "true, true",
        "true) --",
        "(SELECT count(*) FROM read_text('SECRET')) > 0",
        "(SELECT content FROM read_text('SECRET'))::INTEGER > 0",
        "",
    ],
)
def test_a_condition_is_one_expression_over_the_report(
    where: str, golden: Path, secret: Path, pagetape: Run
) -> None:
    said = pagetape("report", "alloc.by_order", golden, "--where", filled(where, secret))
    assert (said.status, said.err.count("\n")) == (2, 1), said.err
    assert said.out == "" and "passw0rd" not in said.err
    assert untouched(secret)


def test_a_condition_may_end_in_a_comment(golden: Path, pagetape: Run) -> None:
    where = ("--where", "page_order = 0 -- one")
    rows = pagetape("report", "alloc.by_order", golden, *where, "--json").json["rows"]
    assert {row["page_order"] for row in rows} == {0}


def test_the_error_names_the_option(golden: Path, secret: Path, pagetape: Run) -> None:
    said = pagetape("sql", golden, f"COPY (SELECT 1) TO '{secret.with_name('out')}'")
    assert said.err.endswith("(pagetape sql --unsafe allows it)\n")


def test_who_asks_for_more_gets_it(golden: Path, secret: Path, pagetape: Run) -> None:
    sql = f"SELECT word FROM read_csv('{secret}')"
    assert "passw0rd" in pagetape("sql", golden, sql, "--unsafe").out
    assert api.open(golden, unsafe=True).sql(sql).fetchall() == [("passw0rd",)]
    assert api.open(golden, unsafe=True)[0:1].sql(sql).fetchall() == [("passw0rd",)]
