# SPDX-License-Identifier: Apache-2.0
"""Output on a terminal: tables fit its width, colour; on a pipe neither."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pagetape import answer, terminal
from pagetape.commands import top

Run = Callable[..., str]

PRESSURE = Path(__file__).parents[1] / "demo/pressure.tape"
COLUMNS = ("task", "stack", "nr", "pages", "share")
ROWS = [
    ("make", "alloc_pages do_anonymous_page handle_mm_fault exc_page_fault", 12, 4096, 0.25),
    ("kswapd0", "short", 3, None, 0.75),
]
COMMAND = [sys.executable, "-c", "from pagetape.cli import main; main()"]


@pytest.mark.parametrize("limit", [30, 40, 50, 60, 70, 75, 80, 200])
def test_a_table_fits(limit: int) -> None:
    lines = terminal.fitted(COLUMNS, ROWS, limit).split("\n")
    assert max(map(len, lines)) <= limit
    said = " ".join(lines)
    for column in COLUMNS:  # each is in the table or in the note
        assert column in said


def test_a_table_that_fits_is_the_table() -> None:
    assert terminal.fitted(COLUMNS, ROWS, 200) == answer.table(COLUMNS, ROWS)


def test_a_wrapped_text_is_whole_and_numbers_stay_flush() -> None:
    lines = terminal.fitted(COLUMNS, ROWS, 60).split("\n")
    assert lines[0].endswith("nr  pages  share")
    assert lines[1].endswith("12   4096   0.25")
    assert lines[-1].endswith(" 3      -   0.75")
    start = lines[0].index("stack")
    end = lines[0].index(" nr")
    assert " ".join(line[start:end].strip() for line in lines[1:-1]) == ROWS[0][1]


def test_the_columns_left_out_are_named() -> None:
    text = terminal.fitted(COLUMNS, ROWS, 30)
    assert "pages" not in text.split("\n")[0]
    assert "not shown, too wide:" in text and "--wide" in text


def test_an_empty_table_fits() -> None:
    assert terminal.fitted(("a", "b"), [], 80) == "a  b"


def test_a_report_fits_the_terminal_and_has_coloured_heads(on_terminal: Run) -> None:
    said = on_terminal("report", "extfrag.by_migratetype", PRESSURE, columns=40)
    assert said.startswith("\x1b[1m")
    table = said.replace("\x1b[1m", "").replace("\x1b[0m", "").split("\n\n")[0]
    assert max(map(len, table.split("\n"))) <= 40
    assert "not shown, too wide" in table
    wide = on_terminal("report", "extfrag.by_migratetype", PRESSURE, "--wide", columns=40)
    assert "not shown, too wide" not in wide


def test_no_colour_with_no_color(on_terminal: Run) -> None:
    assert "\x1b" not in on_terminal("diagnose", PRESSURE, NO_COLOR="1")
    assert "\x1b" in on_terminal("diagnose", PRESSURE)


def test_a_pipe_gets_the_whole_table_without_colour() -> None:
    args = [*COMMAND, "report", "extfrag.by_migratetype", str(PRESSURE)]
    env = os.environ | {"COLUMNS": "40", "TERM": "xterm"}
    said = subprocess.run(args, env=env, capture_output=True, text=True, check=True).stdout
    assert "\x1b" not in said and "--wide" not in said
    assert max(map(len, said.split("\n"))) > 40


def test_a_reader_that_goes_ends_the_command_quietly() -> None:
    """As with `| head`: no traceback, no message."""
    args = [*COMMAND, "sql", str(PRESSURE), "SELECT * FROM event LIMIT 20000"]
    # An unbuffered interpreter takes a partial write for a whole one.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("values", "bars"),
    [((0, 0), "▁▁"), ((0, 7, 14), "▁▅█"), ((), ""), ((3,), "█"), ((1e-9, 1e9), "▁█")],
)
def test_a_history_is_bars_up_to_the_largest(values: tuple[float, ...], bars: str) -> None:
    assert top.sparkline(values) == bars
