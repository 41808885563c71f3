# SPDX-License-Identifier: Apache-2.0
"""What people expect of a command: python -m, --version, `-` for stdout, CSV, several inputs."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pagetape as package
from pagetape import did_you_mean
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

DEMO = Path(__file__).parents[1] / "demo"
PRESSURE = DEMO / "pressure.tape"


def test_the_package_runs_as_a_module_and_has_a_version() -> None:
    argv = [sys.executable, "-m", "pagetape", "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout) == (0, f"pagetape {version('pagetape')}\n")
    assert package.__version__ == version("pagetape")
    bad = subprocess.run([*argv[:3], "infoo"], capture_output=True, text=True)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


# ---- sql


TWO = "SELECT 1 AS a, 'x,y' AS b; CREATE TEMP VIEW one AS SELECT 1; SELECT NULL AS c; -- the end"


def test_sql_prints_the_result_of_every_statement(golden: Path, pagetape: Run) -> None:
    said = pagetape("sql", golden, TWO)
    assert said.status == 0
    assert said.out == "a  b\n1  x,y\n\nc\n-\n"
    found = pagetape("sql", golden, TWO, "--json").json
    rows = [result["rows"] for result in found["results"]]
    assert rows == [[{"a": 1, "b": "x,y"}], [], [{"c": None}]]
    one = pagetape("sql", golden, "SELECT 1 AS a;", "--json").json
    assert one == {"columns": ["a"], "rows": [{"a": 1}]}
    assert pagetape("sql", golden, " ; ", "--json").json == {"columns": [], "rows": []}


def test_sql_prints_csv(golden: Path, pagetape: Run) -> None:
    said = pagetape("sql", golden, "SELECT 1 AS a, 'x,y' AS b, NULL AS c", "--csv")
    assert list(csv.reader(io.StringIO(said.out))) == [["a", "b", "c"], ["1", "x,y", ""]]
    both = pagetape("sql", golden, TWO, "--csv").out
    assert list(csv.reader(io.StringIO(both))) == [["a", "b"], ["1", "x,y"], [], ["c"], [""]]
    assert pagetape("sql", golden, "SELECT 1", "--csv", "--json").status == 2


def test_csv_has_no_formulas(golden: Path, pagetape: Run) -> None:
    """A thread can have any name; a spreadsheet must not run it. Numbers stay numbers."""
    names = ["=cmd()", "+1", "-1+1", "@x", " =x", "a=b", "x"]
    values = ", ".join(f"('{name}', -1.5)" for name in names)
    sql = f'SELECT a AS "=a", b FROM (VALUES {values}) AS t(a, b)'
    rows = list(csv.reader(io.StringIO(pagetape("sql", golden, sql, "--csv").out)))
    assert rows[0] == ["'=a", "b"]
    assert [row[0] for row in rows[1:]] == [f"'{name}" for name in names[:5]] + names[5:]
    assert {row[1] for row in rows[1:]} == {"-1.5"}


def test_sql_stops_at_the_first_error_and_says_so(golden: Path, pagetape: Run) -> None:
    said = pagetape("sql", golden, "SELECT 1 AS a; SELECT nosuch FROM event; SELECT 2 AS b")
    assert (said.status, said.out, said.err.count("\n")) == (1, "a\n1\n", 1)
    said = pagetape("sql", golden, "SELECT 1 AS a; SELECT nosuch FROM event", "--json")
    assert (said.status, said.out) == (1, "")


# ---- several tapes


def test_info_of_several_tapes(golden: Path, empty: Path, pagetape: Run) -> None:
    both = pagetape("info", golden, empty, "--json").json
    each = [pagetape("info", tape, "--json").json for tape in (golden, empty)]
    assert both == {"tapes": each}
    text = [pagetape("info", tape).out for tape in (golden, empty)]
    assert pagetape("info", golden, empty).out == f"{text[0]}\n{text[1]}"
    said = pagetape("info", golden, golden.parent / "none.tape")
    assert (said.status, said.err.count("\n")) == (1, 1)


# ---- `-` is stdout


def piped(*args: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "pagetape", *map(str, args)], capture_output=True, check=False
    )


def test_a_page_goes_to_stdout(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    done = piped("html", golden, "-o", "-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert pagetape("html", golden, "-o", tmp_path / "p.html").status == 0
    assert done.stdout == (tmp_path / "p.html").read_bytes()


def test_a_timeline_goes_to_stdout(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    done = piped("export", golden, "-o", "-")
    assert done.returncode == 0 and b"lost" in done.stderr
    assert pagetape("export", golden, "-o", tmp_path / "x").status == 0
    assert done.stdout == (tmp_path / "x").read_bytes()
    assert piped("export", golden, "-o", "-", "--json").returncode == 2
    refused = piped("export", golden, "--format", "llfree", "-o", "-")
    assert (refused.returncode, refused.stdout) == (2, b"") and b"name a file" in refused.stderr


def test_the_rows_of_a_report_go_to_stdout_as_arrow(golden: Path, pagetape: Run) -> None:
    done = piped("report", "extfrag.by_order", golden, "--arrow", "-")
    assert done.returncode == 0 and b"lost" in done.stderr
    table = pa.ipc.open_file(pa.BufferReader(done.stdout)).read_all()
    rows = pagetape("report", "extfrag.by_order", golden, "--json").json["rows"]
    assert table.num_rows == len(rows) > 0
    assert piped("report", "loss", golden, "--arrow", "-", "--csv").returncode == 2


@pytest.mark.parametrize(
    "args",
    [
        ("replay", PRESSURE, "--ensemble", 0, "-o", "-"),
        ("import", "no.dat", "-o", "-"),
        ("record", "--duration", "1", "-o", "-"),
        ("archive", PRESSURE, "-o", "-"),
        ("ab", "--set", "defrag_mode=0,1", "-o", "-", "--", "true"),
    ],
    ids=lambda args: str(args[0]),
)
def test_a_tape_or_a_directory_does_not_go_to_stdout(
    args: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pagetape: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    said = pagetape(*args)
    assert said.status in (1, 2) and said.err.count("\n") == 1
    assert "cannot go to stdout" in said.err
    assert list(tmp_path.iterdir()) == []


# ---- did you mean


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("report", "extfrag.over_time", PRESSURE, "--sort", "clam"), "claim"),
        (("report", "extfrag.over_time", PRESSURE, "--where", "clam > 1"), "claim"),
        (("report", "extfrag.over_time", PRESSURE, "--zone", "DMA3"), "DMA32"),
        (("report", "extfrag.over_time", PRESSURE, "--task", "ksoapd1"), "kswapd1"),
        (("report", "extfrag.over_time", PRESSURE, "--interval", "1s"), "--interval-ms"),
        (("replay", PRESSURE, "--policy", "nofragment:moed=always"), "mode"),
        (("replay", PRESSURE, "--policy", "nofragment:mode=alwayss"), "always"),
        (("ab", "--set", "defrag_mod=0,1", "-o", "x", "--", "true"), "vm.defrag_mode"),
        (("schema", "evnt"), "event"),
        (("export", PRESSURE, "--format", "perfeto", "-o", "x"), "perfetto"),
        (("demo", "pressurr"), "pressure"),
        (("record", "--events", "pge", "-o", "x"), "page"),
        (("sql", PRESSURE, "SELECT * FROM evnt"), "event"),
        (("sql", PRESSURE, "SELECT migrtype FROM event"), "migratetype"),
    ],
    ids=lambda value: " ".join(map(str, value[:2])) if isinstance(value, tuple) else value,
)
def test_a_mistyped_name_of_any_kind_gets_a_suggestion(
    words: tuple[Any, ...], meant: str, pagetape: Run
) -> None:
    said = pagetape(*words)
    assert said.status in (1, 2) and said.err.count("\n") == 1
    hint = said.err.lower()
    assert "did you mean" in hint or "candidate bindings" in hint
    assert f"'{meant}'" in said.err.replace('"', "'")


@pytest.mark.parametrize(
    "message",
    [
        "no zone 'XYZZY' on t (there are: DMA, NORMAL)",
        "'pag' is not one of page, all; did you mean 'all'?",
        "t.tape: no such file",
    ],
)
def test_other_errors_stay_as_they_are(message: str) -> None:
    assert did_you_mean.added(message) == message


# ---- fallbacks over time


def test_each_interval_of_fallbacks_has_a_row(pagetape: Run) -> None:
    clock = Tape(PRESSURE).clock
    assert clock is not None
    last = (clock[1] - clock[0]) // 10_000_000
    report = ("report", "extfrag.over_time", PRESSURE, "--interval-ms", 10, "--json")
    rows = pagetape(*report).json["rows"]
    assert [round(row["at_s"] * 100) for row in rows] == list(range(last + 1))
    assert any(not row["claim"] + row["steal"] + row["whole"] for row in rows)
    every = pagetape("report", "extfrag.by_migratetype", PRESSURE, "--json").json["rows"]
    assert sum(row["claim"] for row in rows) == sum(
        row["nr"] for row in every if row["kind"] == "claim"
    )

    report = ("report", "extfrag.types_over_time", PRESSURE, "--interval-ms", 10, "--json")
    rows = pagetape(*report).json["rows"]
    pairs = {(row["alloc_migratetype"], row["fallback_migratetype"]) for row in every}
    assert len(rows) == len(pairs) * (last + 1)
    for pair in pairs:
        found = [r for r in rows if (r["alloc_migratetype"], r["fallback_migratetype"]) == pair]
        assert [round(row["at_s"] * 100) for row in found] == list(range(last + 1))
        assert sum(row["nr"] for row in found) == sum(
            row["nr"]
            for row in every
            if (row["alloc_migratetype"], row["fallback_migratetype"]) == pair
        )
        full = found[:last]
        assert all(row["per_s"] == round(row["nr"] / 0.01, 2) for row in full)

    report = ("report", "extfrag.zones_over_time", PRESSURE, "--interval-ms", 10, "--json")
    rows = pagetape(*report).json["rows"]
    zones = {(row["node"], row["zone"]) for row in rows}
    assert len(zones) > 1
    for zone in zones:
        found = [row for row in rows if (row["node"], row["zone"]) == zone]
        assert [round(row["at_s"] * 100) for row in found] == list(range(last + 1))
    whole = sum(row["nr"] for row in every if row["kind"] == "whole")
    assert sum(row["whole"] for row in rows) == whole


def test_each_interval_of_events_has_a_row(pagetape: Run, tmp_path: Path, golden: Path) -> None:
    with Writer(tmp_path / "t.tape", Tape(golden).facts) as tape:
        event = {"cpu": 0, "pid": 1, "kind": "free", "flags": 0, "page_order": 2}
        tape.rows("event", [event | {"ts": ms * 1_000_000, "pfn": 4 * ms} for ms in (1, 2, 3500)])
    rows = pagetape("report", "events.over_time", tmp_path / "t.tape", "--json").json["rows"]
    assert [(row["at_s"], row["frees"], row["free_pages"]) for row in rows] == [
        (0, 2, 8),
        (1, 0, 0),
        (2, 0, 0),
        (3, 1, 4),
    ]


@pytest.mark.parametrize("name", ["extfrag.over_time", "extfrag.types_over_time"])
def test_no_fallbacks_are_zeros_and_no_record_of_them_has_no_rows(
    name: str, tmp_path: Path, golden: Path, pagetape: Run
) -> None:
    event = {"cpu": 0, "pid": 1, "kind": "alloc", "flags": 0, "page_order": 0, "gfp_flags": 0}
    point = {"system": "kmem", "stored": "event"}
    for recorded in (True, False):
        with Writer(tmp_path / f"{recorded}.tape", Tape(golden).facts) as tape:
            tape.rows("event", [event | {"ts": ms * 1_000_000, "pfn": 9 + ms} for ms in (1, 2500)])
            points = [("mm_page_alloc", 2), ("mm_page_alloc_extfrag", 0)][: 1 + recorded]
            tape.rows("tracepoint", [point | {"name": one, "events": nr} for one, nr in points])
    rows = pagetape("report", name, tmp_path / "True.tape", "--json").json["rows"]
    assert [row["at_s"] for row in rows] == [0, 1, 2]
    assert all(row["below_pageblock"] == 0 == row["claim"] for row in rows)
    unknown = pagetape("report", name, tmp_path / "False.tape")
    assert "needs events of fallbacks" in unknown.err
    fine = pagetape("report", name, PRESSURE, "--interval-ms", 1, "--where", "at_s < 0.01")
    assert fine.status == 0 and "0.009" in fine.out


@pytest.mark.parametrize(
    "name", ["events.over_time", "extfrag.over_time", "extfrag.types_over_time"]
)
def test_more_intervals_than_anybody_reads_are_refused(
    name: str, tmp_path: Path, golden: Path, pagetape: Run
) -> None:
    event = {"cpu": 0, "pid": 1, "kind": "alloc_extfrag", "flags": 0, "page_order": 0, "pfn": 9}
    with Writer(tmp_path / "t.tape", Tape(golden).facts) as tape:
        tape.rows("event", [event | {"ts": s * 1_000_000_000} for s in (1, 3600)])
    said = pagetape("report", name, tmp_path / "t.tape", "--interval-ms", 1)
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "more than a million intervals of 1 ms" in said.err
    assert pagetape("report", name, tmp_path / "t.tape").status == 0
