# SPDX-License-Identifier: Apache-2.0
"""Tapes for the tests, made from text that fits on half a screen."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape import cli
from pagetape.schemas import TABLES, Column
from pagetape.schemas.tape import Writer

GOLDEN = Path(__file__).parent / "golden"


def _value(column: Column, text: str) -> Any:
    if text == "":
        return None
    return text if column.labels or column.type == "utf8" else int(text)


def _rows(name: str) -> list[dict[str, Any]]:
    with (GOLDEN / "tape" / f"{name}.csv").open(newline="") as file:
        return [
            {key: _value(TABLES[name].column(key), text) for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


def write_golden(
    path: Path, facts: dict[str, Any] | None = None, tables: set[str] | None = None
) -> Path:
    """The golden tape at `path`, with some facts changed or only some of its tables."""
    known = json.loads((GOLDEN / "tape" / "facts.json").read_text())
    with Writer(path, known | (facts or {})) as tape:
        for file in sorted((GOLDEN / "tape").glob("*.csv")):
            if tables is None or file.stem in tables:
                tape.rows(file.stem, _rows(file.stem))
    return path


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden tape."""
    return write_golden(tmp_path_factory.mktemp("tapes") / "golden.tape")


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape whose every table is empty, of a machine nothing is known about."""
    path = tmp_path_factory.mktemp("tapes") / "empty.tape"
    with Writer(path, {}):
        pass
    return path


class Said:
    """What one command line gave."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def pagetape(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command line in this process."""

    def run(*args: object) -> Said:
        status = cli.run([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return Said(status, out, err)

    return run
