# SPDX-License-Identifier: Apache-2.0
"""analyze/lab: results.json, the pages with its tables, and the summary of modelled reclaim."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import distribution
from pathlib import Path
from statistics import median
from typing import Any

import ablate
import feedback
import lab
import program
import pytest
import results


def test_no_command_of_a_table_has_a_place_of_the_machine_that_ran_it() -> None:
    for name, one in results.read().items():
        assert not [word for word in one["command"].split() if word.startswith("/")], name


def test_the_pages_show_the_tables_of_results_json() -> None:
    """`make lab` would change no page."""
    tables = results.read()
    pages = {page.name: page for page in lab.pages()}
    for page in pages.values():
        text = page.read_text()
        assert lab.filled(text, tables) == text, page.name
    assert len(pages["how-good.md"].read_text().splitlines()) <= 160


def test_a_page_with_an_unknown_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no table 'a\.b'"):
        lab.filled("<!-- a.b -->\nx\n<!-- end -->\n", {})


def test_results_json_is_written_as_it_is_read(tmp_path: Path) -> None:
    tables = results.read()
    results.write(tables, tmp_path / "results.json")
    assert (tmp_path / "results.json").read_bytes() == results.RESULTS.read_bytes()
    for name, table in tables.items():
        assert {"date", "machine", "command"} <= table.keys(), name
        assert all(len(row) == len(table["columns"]) for row in table["rows"]), name
    assert set(results.AIMS) <= tables.keys()


def test_every_measurement_is_a_program_of_the_tree() -> None:
    for one in lab.MEASUREMENTS.values():
        assert (program.ROOT / one.command[0]).is_file()
    assert lab.chosen(["kills", "reliability"])[:2] == ["kills", "storm"]
    with pytest.raises(ValueError, match="no measurement 'none'"):
        lab.chosen(["none"])


def test_nothing_of_the_laboratory_is_installed() -> None:
    own = {path.name for path in Path(lab.__file__).parent.iterdir() if path.is_file()}
    installed = {file.name: str(file) for file in distribution("pagetape").files or ()}
    assert {name for name in own & installed.keys() if "lab/" in installed[name]} == set()
    assert not {"lab.py", "results.json", "corpus.toml", "how-good.md"} & installed.keys()


def test_a_measurement_replaces_its_tables_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, path = tmp_path / "m.py", tmp_path / "results.json"
    script.write_text(
        "import json, sys; print(json.dumps({'seconds': 2, 'idle': {'cpus': 3},"
        " 'rows': [{'a': 1}, {'a': 2, 'b': [99.5, 200]}], 'none': []})); sys.exit(1)"
    )
    monkeypatch.setitem(lab.MEASUREMENTS, "m", lab.Measurement("g", "", (str(script),)))
    old = {"date": "", "machine": "", "command": "", "columns": ["x"], "rows": [[1]]}
    results.write({"m.gone": old, "mm.stays": old}, path)
    assert not lab.measure("m", ["--fast", str(tmp_path)], path)
    found = json.loads(path.read_text())
    assert found.keys() == {"m.figures", "m.rows", "mm.stays"}
    assert found["m.figures"]["rows"] == [["seconds", 2], ["idle cpus", 3]]
    assert found["m.rows"]["columns"] == ["a", "b"]
    assert found["m.rows"]["command"].endswith("m.py --fast DIR")
    assert "| 2 | 99.5 % of 200 |" in capsys.readouterr().out
    script.write_text("print('no JSON')")
    assert not lab.measure("m", [], path)
    assert json.loads(path.read_text()) == found


def test_cells_and_missed_aims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "AIMS", {"t": {"lost": 0, "wrong": "empty"}})
    columns = ["name", "lost", "wrong"]
    rows = [["a|b", 0, ""], ["b", 5, "hang"], ["c", None, None], ["d", [7, 5.5, 4, 9], [3, 12]]]
    lines = results.markdown("t", {"columns": columns, "rows": rows}).splitlines()[2:]
    assert lines[0] == "| a\\|b | 0 |  |"
    assert lines[1:3] == ["| b | **5** | **hang** |", "| c | **-** | - |"]
    assert lines[3] == "| d | 7; 5.5 [4 to 9] | **3 to 12** |"
    monkeypatch.setattr(results, "AIMS", {"t": {"CPU": 9, "html CPU": 20, "lost": 0}})
    costs = {"columns": ["tape", "command", "CPU"], "rows": [["a", "html", 10], ["a", "info", 10]]}
    assert "| a | html | 10 |\n| a | info | **10** |" in results.markdown("t", costs)
    figures = {"columns": ["figure", "value"], "rows": [["lost", 5], ["seen", 5]]}
    assert "| lost | **5** |\n| seen | 5 |" in results.markdown("t", figures)


def test_what_the_caller_did_wrong_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lab.py", "measure", "none"])
    with pytest.raises(SystemExit) as end:
        program.run(lab.main)
    assert str(end.value) == "lab: no measurement 'none'; see: lab.py list"
    assert capsys.readouterr().out == ""


def _found(recorded: int, members: list[int], low: int, high: int) -> dict[str, Any]:
    made = {"median": median(members), "low": low, "high": high, "members": members}
    return {"recorded": recorded, "R1": made, "R0": made}


@pytest.mark.parametrize(
    ("members", "counts", "fallbacks"),
    [
        ([40, 40, 40, 40], 100, 100),
        # Each in turn is the kernel: 10 is off from 40, and each 40 is near the others.
        ([10, 40, 40, 40], 75, 75),
        ([10, 10, 40, 40], 0, 0),
        # A factor of 1.6 is too far for a count. R0's interval is as wide for fallbacks.
        ([100, 100, 160, 160], 0, 100),
    ],
)
def test_a_perfect_model_is_as_good_as_its_members_agree(
    members: list[int], counts: int, fallbacks: int
) -> None:
    one = _found(40, members, 22, 72)
    assert feedback.chaos([one], [one]) == (counts, fallbacks)


def test_the_summary_counts_the_recordings_where_r0_is_right() -> None:
    """R1 is in the interval of R0 on two recordings, and R0 is right on one of them."""
    right, wrong = _found(40, [40, 42], 30, 60), _found(400, [40, 42], 30, 60)
    none = {key: {} for key in feedback._METRICS}
    owns = {
        name: ("seen", none | {"direct reclaims": found, "fallbacks": found})
        for name, found in (("a", right), ("b", wrong))
    }
    (row,) = feedback.reclaim(owns)["by_half"]["rows"]
    assert row == ["seen", "1 of 2", "1 of 2", "2 of 2", 2, "1 of 1", 100, 100]
    counts = feedback.reclaim(owns)["counts"]
    assert counts["rows"][1][counts["columns"].index("fallbacks, R0")] == [400, 41, 30, 60]


# ---- rules of inference


def test_each_rule_that_can_be_off_is_asked_somewhere() -> None:
    sources = "".join(path.read_text() for path in (program.ROOT / "replay").glob("*/*.c"))
    asked = set(re.findall(r"rule_is_on\(RULE_(\w+)\)", sources))
    assert asked == set(ablate.rules())


def test_a_rule_pays_what_is_lost_without_it() -> None:
    def run(exact: int, nr: int = 100) -> ablate.Counts:
        return dict.fromkeys(ablate.DECISIONS, (nr, exact))

    found = {
        ablate.ALL_ON: {"one": run(90), "other": run(99), "small": run(0, 1)},
        "tuning": {"one": run(80), "other": run(100), "small": run(1, 1)},
    }
    on, off = ablate.table(found)["rows"]
    assert on[1] == pytest.approx(100 * 189 / 201, abs=0.001)
    assert off[1] == pytest.approx(100 * (181 - 189) / 201, abs=0.002)
    assert "pages -10.0 on one; pages +1.0 on other" in off[-1]


def test_a_rule_of_free_runs_is_measured_by_all_their_metrics() -> None:
    on = {"t": {"a": (7.0, 7.0, 1.0, 9.0), "b": (3.0, 0.0, 0.0, 1.0)}}
    off = {"t": {"a": (7.0, 3.0, 1.0, 4.0), "b": (3.0, 0.0, 0.0, 1.0)}}
    table = ablate.free_run_table({ablate.ALL_ON: on, "rule": off})
    assert table["rows"] == [[ablate.ALL_ON, 2, 0, 1.0, 1], ["rule", 2, 1, 1.5, 0]]
