# SPDX-License-Identifier: Apache-2.0
"""pagetape.open() and what follows from it, docs/reports.md and docs/example.ipynb."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pagetape
from pagetape.api.tapes import Replay, Tapes
from pagetape.asking.database import Database
from pagetape.asking.span import Span
from pagetape.schemas.tape import Tape, Writer

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "analyze/tests/data/pressure.tape"

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def demo() -> Tapes:
    return pagetape.open(DEMO)


@pytest.fixture(scope="module")
def whatif(demo: Tapes) -> Replay:
    return demo.replay("nofragment:mode=always", ensemble=2)


# ---- tables, SQL, reports


def test_a_table_has_the_rows_of_the_tape(demo: Tapes) -> None:
    assert len(demo.event) == Tape(DEMO).num_rows("event")
    assert demo.zone.columns[1:] == Tape(DEMO).table("zone").column_names
    assert "event" in dir(demo) and "extfrag" in dir(demo)


def test_sql_gives_a_relation(demo: Tapes) -> None:
    found = demo.sql("SELECT kind, count(*) AS nr FROM event GROUP BY kind ORDER BY kind")
    table = found.filter("nr < 1000").arrow()
    assert isinstance(table, pa.Table)
    assert table.to_pylist() == [{"kind": "alloc_extfrag", "nr": 123}]
    assert demo.sql("SELECT $a + $b AS sum", a=1, b=2).rows() == [{"sum": 3}]


@pytest.mark.parametrize("name", ["extfrag.by_task", "metrics", "frag.indices", "reclaim.summary"])
def test_a_report_has_the_rows_of_the_command(demo: Tapes, name: str, pagetape: Run) -> None:
    printed = pagetape("report", name, DEMO, "--json").json
    rows = json.loads(json.dumps(demo.report(name).rows(), default=str))
    assert demo.report(name).columns == printed["columns"]
    assert rows == printed["rows"]


def test_several_tapes_have_a_column_with_their_names(small: Path, golden: Path) -> None:
    both = pagetape.open(str(small.parent / "small.tape"), golden)
    rows = both.sql("SELECT DISTINCT tape FROM event ORDER BY tape").fetchall()
    assert [name for (name,) in rows] == both.names[::-1] == ["golden", "small"]
    assert [one.names for one in both] == [["small"], ["golden"]]


def test_a_pattern_opens_every_tape_that_matches(tmp_path: Path) -> None:
    for name in ("b", "a"):
        with Writer(tmp_path / f"{name}.tape", {}):
            pass
    assert pagetape.open(f"{tmp_path}/*.tape").names == ["a", "b"]


def test_a_relation_outlives_its_tapes() -> None:
    assert len(pagetape.open(DEMO)[0:1].event) > 0


# ---- parts


def test_the_parts_make_the_whole(demo: Tapes) -> None:
    cuts = [None, 3, 7.5, None]
    for name in ("event", "reclaim", "sample"):
        parts = [len(getattr(demo[a:b], name)) for a, b in pairwise(cuts)]
        assert sum(parts) == len(getattr(demo, name)) > 0, name


def test_a_part_has_the_events_of_its_time(demo: Tapes) -> None:
    start, end = Tape(DEMO).clock or (0, 0)
    part = demo[2:4].sql(
        "SELECT min(ts) - $start AS a, max(ts) - $start AS b FROM event", start=start
    )
    ((first, last),) = part.fetchall()
    assert 2e9 <= first <= last < 4e9
    assert demo[-1:].sql("SELECT min(ts) FROM event").fetchall()[0][0] >= end - 1e9
    inner = demo[2:10][1:2].event.rows()
    assert inner == demo[3:4].event.rows() and inner


def test_the_state_is_the_same_in_every_part(demo: Tapes) -> None:
    assert len(demo[5:6].zone) == len(demo.zone)


def test_rates_of_a_part_count_its_own_time(demo: Tapes) -> None:
    (machine,) = demo[5:8].machine.rows()
    assert machine["end_ts"] - machine["start_ts"] == pytest.approx(3e9, abs=2)
    assert max(row["at_s"] for row in demo[5:8].report("events.over_time").rows()) < 3


def test_limits_stay_within_the_tape() -> None:
    assert Span(5, 2).limits(100, 10**9) == (10**9 + 1, 10**9 + 1)
    assert Span(-1000, 1000).limits(100, 200) == (100, 201)
    assert Span(1e-8, None, Span(None, 5e-8)).limits(100, 200) == (110, 150)
    assert Span(1e-8, 2e-8, Span(5e-8, None)).limits(100, 200) == (160, 170)


def test_an_empty_part_has_no_events(demo: Tapes, empty: Path) -> None:
    assert len(demo[7:7].event) == 0
    assert len(pagetape.open(empty)[0:1].event) == 0


# ---- the model


def test_a_replay_says_what_the_command_says(whatif: Replay, pagetape: Run) -> None:
    line = ("replay", DEMO, "--policy", "nofragment:mode=always", "--ensemble", "2", "--json")
    printed = pagetape(*line).json
    mine = json.loads(json.dumps(whatif.json()))
    assert mine["metrics"] == printed["metrics"] and mine["headline"] == printed["headline"]
    assert set(mine) == set(printed) - {"lost", "output"}
    assert "with nofragment:mode=always" in str(whatif)


def test_the_tape_of_a_replay_goes_with_it(demo: Tapes) -> None:
    played = demo.replay(ensemble=0)
    (path,) = played.paths
    assert len(played.event) > 0 and path.name == "own-rules.tape"
    del played
    assert not path.exists()


def test_the_tape_of_a_replay_stays_where_output_says(demo: Tapes, tmp_path: Path) -> None:
    out = tmp_path / "x.tape"
    demo.replay("nofragment", ensemble=0, output=out)
    assert Tape(out).facts["replay"]["policies"] == ["nofragment"]
    with pytest.raises(pagetape.Error, match="exists already"):
        demo.replay("nofragment", ensemble=0, output=out)


def test_a_comparison_has_the_numbers_of_the_command(
    demo: Tapes, whatif: Replay, pagetape: Run
) -> None:
    found = demo.compare(whatif, ensemble=2)
    printed = pagetape("compare", DEMO, whatif.paths[0], "--ensemble", "2", "--json").json
    assert json.loads(json.dumps(found.json())) == printed
    assert found["fallbacks"]["values"]["pressure"] == 123
    text = pagetape("compare", DEMO, whatif.paths[0], "--ensemble", "2").out
    assert str(found).split() == text.split()


def test_validate_gives_the_object_of_the_command(demo: Tapes) -> None:
    assert demo.validate()["extfrag"] == 123


# ---- notebooks


def test_objects_show_themselves_as_html(demo: Tapes, whatif: Replay) -> None:
    for shown in (demo, whatif, demo.event, demo.compare(whatif, ensemble=2), demo.plot()):
        html = shown._repr_html_()
        assert html.startswith("<") and len(html) < 100_000, type(shown)
    assert "the first 20 of 379,047 rows" in demo.event._repr_html_()
    assert "no rows" in repr(demo.event.filter("false"))


def test_html_obeys_no_name(golden_with: Callable[..., Path]) -> None:
    tape = pagetape.open(golden_with({"kernel": "<script>"}))
    shown = tape._repr_html_() + tape.sql("SELECT '<script>' AS \"<b>\"")._repr_html_()
    assert "<script>" not in shown and '<b>"' not in shown and "&lt;b&gt;" in shown


def test_a_plot_is_a_page_of_its_own(demo: Tapes, whatif: Replay, tmp_path: Path) -> None:
    page = demo.plot("traffic").save(tmp_path / "a.html").read_text()
    assert page.startswith("<!doctype html>") and "<svg" in page and "://" not in page
    bars = demo.compare(whatif, ensemble=2).plot("fallbacks").page
    assert "own rules" in bars and "whisker" in bars
    pair = pagetape.open(DEMO, whatif.paths[0]).plot()
    assert len(pair.parts) == 3


# ---- errors

WRONG: list[tuple[str, str]] = [
    ("t.sql('SELECT * FROM nope')", "Table with name nope does not exist"),
    ("t.sql('SELEC 1')", "syntax error"),
    ("t.event.filter('bogus = 1')", "bogus"),
    ("t.event.order('x y z')", "syntax error"),
    ("t.report('extfrag.nope')", "no report 'extfrag.nope' .there are: .*extfrag.by_order"),
    ("t.report('extfrag.by_order', top=1)", "has no option 'top'"),
    ("t.report('extfrag.by_stack', top=-4)", "top -4 is not in 0 to"),
    ("t.replay('nope')", "no policy named 'nope'"),
    ("t.replay(kernel='x.y')", "x.y"),
    ("t.replay(reclaim='R7')", "no reclaim mode 'R7'"),
    ("t[0:2].replay()", "whole tape"),
    ("t[1]", "take seconds"),
    ("t[0:9:3]", "no step"),
    ("t['a':'b']", "'a' is not a number of seconds"),
    ("t.plot('nope')", "no plot 'nope'"),
    ("t.compare()", "two tapes"),
    ("pagetape.open()", "name a tape"),
    ("pagetape.open('/no/such.tape')", "/no/such.tape: no such tape"),
    ("pagetape.open('/no/such*.tape')", "no tape matches"),
    ("pagetape.open('/')", "not a tape"),
    ("pagetape.open(DEMO, DEMO).replay()", "one tape, not 2"),
    ("pagetape.open(DEMO, DEMO).report('metrics')", "takes one tape"),
    ("t.plot().save('/no/such/place.html')", "/no/such"),
]


@pytest.mark.parametrize(("code", "words"), WRONG, ids=[code for code, _ in WRONG])
def test_an_error_is_one_line(demo: Tapes, code: str, words: str) -> None:
    with pytest.raises(pagetape.Error, match=words) as e:
        eval(code, {"t": demo, "pagetape": pagetape, "DEMO": DEMO})
    assert "\n" not in str(e.value)


def test_a_damaged_tape_is_an_error(tmp_path: Path, demo: Tapes) -> None:
    path = demo.replay(ensemble=0, output=tmp_path / "x.tape").paths[0]
    data = bytearray(path.read_bytes())
    at = data.index(b"event.arrow") + 3000
    data[at : at + 99] = bytes(99)
    path.write_bytes(data)
    with pytest.raises(pagetape.Error, match=r"x\.tape"):
        pagetape.open(path).sql("SELECT sum(ts), sum(pfn), min(kind) FROM event").arrow()


def test_a_missing_library_has_a_name(demo: Tapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(pagetape.Error, match=r"needs pandas, .* pip install pandas"):
        demo.event.df()


def test_an_unknown_name_is_an_attribute_error(demo: Tapes) -> None:
    with pytest.raises(AttributeError, match="no table or view 'evnt'"):
        demo.evnt  # noqa: B018


# ---- the package


def test_the_demo_tape_comes_with_the_package(pagetape: Run, tmp_path: Path) -> None:
    from pagetape import demo_tape

    installed = Tape(demo_tape())
    assert installed.table("event") == Tape(ROOT / "analyze/demo/pressure.tape").table("event")
    out = tmp_path / "x.tape"
    assert "420,169 events" in pagetape("demo", "-o", out).out
    assert Tape(out).table("event") == installed.table("event")
    assert pagetape("demo", "-o", out).status == 1
    assert pagetape("demo", "-o", out, "--force", "--json").json["events"] == 420169
    refused = pagetape("demo", "nope", "-o", tmp_path / "y.tape")
    assert (refused.status, "'nope' is not one of" in refused.err) == (2, True)


def test_the_import_does_not_load_rich() -> None:
    code = (
        f"import sys, pagetape; t = pagetape.open({str(DEMO)!r}); len(t.event);"
        "sys.exit('rich' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_database_that_nobody_closes_leaves_no_directory(tmp_path: Path) -> None:
    code = (
        "from pagetape.asking.database import Database; from pagetape import Tape;"
        f"from pathlib import Path; d = Database([Tape(Path({str(DEMO)!r}))])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"TMPDIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())
    with Database([Tape(DEMO)]) as db:
        db.close()  # twice is fine


# ---- the documents


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run code as a notebook does; returns the value of its last line."""
    code = ast.parse(source)
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    exec(compile(code, "<cell>", "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_every_example_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pressure.tape").symlink_to(DEMO)
    page = (ROOT / "docs/reports.md").read_text()
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 1
    for block in blocks:
        run_cell(block, names)


# ---- the notebook


def outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The outputs of a cell in the format of notebooks: what it prints, then its last value."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = run_cell(source, names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if html := getattr(value, "_repr_html_", None):
            data = {"text/html": html().splitlines(keepends=True)} | data
        result = {"data": data, "execution_count": count, "metadata": {}}
        found.append(result | {"output_type": "execute_result"})
    return found


def test_the_notebook_has_the_outputs_of_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PAGETAPE_BLESS=1 writes them into the notebook."""
    monkeypatch.chdir(tmp_path)
    notebook = ROOT / "docs/example.ipynb"
    book = json.loads(notebook.read_text())
    assert book["nbformat"] == 4
    names: dict[str, Any] = {}
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    found = [outputs("".join(cell["source"]), names, nr) for nr, cell in enumerate(cells, 1)]
    assert all(found) and len(found) > 6
    assert str(tmp_path) not in json.dumps(found)
    if os.environ.get("PAGETAPE_BLESS"):
        for nr, (cell, shown) in enumerate(zip(cells, found, strict=True), 1):
            cell |= {"execution_count": nr, "outputs": shown}
        notebook.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    for nr, (cell, shown) in enumerate(zip(cells, found, strict=True), 1):
        assert cell["outputs"] == shown, f"cell {nr}"
