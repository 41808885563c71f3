# SPDX-License-Identifier: Apache-2.0
"""The command line: exit statuses, one line per error, one JSON object per answer."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import matrix
import pyarrow as pa
import pytest

from pagetape import cli
from pagetape.asking import query
from pagetape.schemas import GFP_BITS, MIGRATETYPES, TABLES, VERSION

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]

Run = Callable[..., Any]


def said_one_line(said: Any) -> str:
    """The message of a command that failed as it should."""
    assert said.status == 1, said.err
    assert said.out == ""
    assert said.err.startswith("pagetape: ") and said.err.count("\n") == 1
    return str(said.err)


# ---- help


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_help_has_an_example(name: str, pagetape: Run) -> None:
    said = pagetape(name, "--help")
    assert said.status == 0
    assert f"pagetape {name}" in said.out.partition("Example:")[2]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_option_has_a_help_text(name: str) -> None:
    command = cli.pagetape.get_command(click.Context(cli.pagetape), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help and option.help.endswith((".", "]")), option.opts


@pytest.mark.parametrize("name", query.reports())
def test_every_report_explains_itself(name: str, pagetape: Run) -> None:
    said = pagetape("report", name, "--help")
    assert said.status == 0
    for column in query.reports()[name].columns:
        assert f"    {column.name:<22}{column.doc}" in said.out.splitlines()


# Commands whose options are those of the recorder, or of the tapes that it finds.
_LOADING = {"demo", "install-service", "top"}


def test_help_and_lists_load_no_library_that_they_do_not_need() -> None:
    """pyarrow takes 40 ms of CPU, DuckDB 60, and what replays a tape 150."""
    lines = ["--help", "kernels", "policies", "report", "report extfrag.by_order --help"]
    lines += ["report nonsense", "schema"]
    lines += [f"{name} --help" for name in cli.COMMANDS if name not in _LOADING]
    code = (
        "import os, sys; from pagetape import cli\n"
        "heavy = {'duckdb', 'pyarrow', 'rich', 'pagetape.replaying.playback'}\n"
        "for line in sys.argv[1:]:\n"
        "    if not os.fork():\n"
        "        cli.run(line.split())\n"
        "        print(f'\\n== {line}: {heavy & set(sys.modules)}', flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()"
    )
    argv = [sys.executable, "-c", code, *lines]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    loaded = [line for line in said.splitlines() if line.startswith("== ")]
    assert loaded == [f"== {line}: set()" for line in lines]


def test_the_documentation_names_no_command_that_is_not_there() -> None:
    root = Path(__file__).parents[2]
    for document in (root / "README.md", *(root / "docs").glob("*.md")):
        named = set(re.findall(r"(?:`|\$ )(?:sudo )?pagetape ([a-z-]+)", document.read_text()))
        assert named <= set(cli.COMMANDS), document


# ---- answers


def test_info_counts_what_the_tape_holds(golden: Path, pagetape: Run) -> None:
    info = pagetape("info", golden, "--json").json
    assert info["events"]["mm_page_alloc_extfrag"] == 6
    assert info["events"]["sched_switch"] == 4
    assert info["stored"] == 38
    assert (info["lost"], info["lost_by_cpu"]) == (3, {"0": 3})
    assert info["duration_s"] == pytest.approx(3.0)
    assert (info["kernel"], info["cpus"], info["nodes"]) == ("6.18.1", 2, 1)
    assert info["snapshot"] == "proc"
    assert info["bytes_per_event"] == info["bytes"] / 38


def test_info_says_unknown_where_it_does_not_know(empty: Path, pagetape: Run) -> None:
    info = pagetape("info", empty, "--json").json
    assert (info["kernel"], info["cpus"], info["snapshot"]) == (None, None, "none")
    assert info["bytes_per_event"] is None
    assert "unknown" in pagetape("info", empty).out


@pytest.mark.parametrize(("facts", "stamps"), [({"stamps": "on"}, 0), ({"no_stamps": "why"}, None)])
def test_stamps_of_a_recording_without_a_refill_are_0(
    facts: dict[str, str], stamps: int | None, tmp_path: Path, pagetape: Run
) -> None:
    from pagetape.schemas.tape import Writer

    Writer(tmp_path / "t.tape", facts).close()
    assert pagetape("info", tmp_path / "t.tape", "--json").json["stamps"] == stamps


def test_an_uncounted_gap_makes_the_total_unknown(tmp_path: Path, pagetape: Run) -> None:
    from pagetape.schemas.tape import Writer

    with Writer(tmp_path / "t.tape", {}) as tape:
        tape.rows("lost", [{"cpu": 0, "events": 7}, {"cpu": 1}])
    info = pagetape("info", tmp_path / "t.tape", "--json").json
    assert (info["lost"], info["lost_by_cpu"]) == (None, {"0": 7, "1": None})


def test_the_rings_counters_make_the_total_known(tmp_path: Path, pagetape: Run) -> None:
    """A storm on a slow disk leaves many gaps whose sizes the kernel had no room to store."""
    from pagetape.schemas.tape import Writer

    counts = {"instance": "", "read": 1, "overrun": 7_456_000, "commit_overrun": 700, "dropped": 62}
    with Writer(tmp_path / "t.tape", {}) as tape:
        tape.rows(
            "lost", [{"cpu": 0, "events": 7}, {"cpu": 1}, {"cpu": 1}, {"cpu": 1, "events": 5}]
        )
        tape.rows("ring", [{"cpu": 1, **counts}])
    info = pagetape("info", tmp_path / "t.tape", "--json").json
    assert (info["lost"], info["lost_by_cpu"]) == (7_456_769, {"0": 7, "1": 7_456_762})
    report = pagetape("report", "loss", tmp_path / "t.tape", "--json").json
    assert report["lost"] == 7_456_769
    assert [row["lost"] for row in report["rows"]] == [7, 7_456_762]


def room(name: str) -> str:
    """Of a report: what its name begins with."""
    return name.partition(".")[0]


@pytest.mark.parametrize("name", matrix.one_of_each(query.about_tapes(), room))
def test_every_report_ends_with_loss_and_anomalies(name: str, golden: Path, pagetape: Run) -> None:
    found = pagetape("report", name, golden, "--json").json
    assert found["name"] == name
    assert (found["lost"], found["anomalies"], found["tier"]) == (3, 2, "recorded")
    assert all(list(row) == found["columns"] for row in found["rows"])
    if matrix.WHOLE or name.startswith("extfrag.by"):
        lines = pagetape("report", name, golden).out.splitlines()
        assert lines[-1] == "lost: 3 events; anomalies: 2 (2 free_unknown); tier: recorded"


def test_a_report_takes_the_parameters_of_its_header(golden: Path, pagetape: Run) -> None:
    wide = pagetape("report", "extfrag.over_time", golden, "--interval-ms", 5000, "--json").json
    assert [row["at_s"] for row in wide["rows"]] == [0]


def test_report_without_a_name_lists_them(pagetape: Run) -> None:
    assert "extfrag.by_migratetype" in pagetape("report").out
    listed = {
        report["name"]: report["title"] for report in pagetape("report", "--json").json["reports"]
    }
    assert listed == {name: q.title for name, q in query.reports().items()}


def test_sql_sees_every_table_and_the_tapes_name(golden: Path, empty: Path, pagetape: Run) -> None:
    for name in TABLES:
        assert pagetape("sql", golden, f"SELECT * FROM {name}").status == 0
    found = pagetape(
        "sql", golden, empty, "SELECT tape, count(*) AS nr FROM event GROUP BY ALL", "--json"
    )
    assert found.json["rows"] == [{"tape": "golden", "nr": 29}]
    gfp = "SELECT DISTINCT gfp_names(gfp_flags) AS names FROM event WHERE gfp_flags = 3"
    assert pagetape("sql", golden, gfp, "--json").json["rows"] == [{"names": "DMA|HIGHMEM"}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM (SHOW TABLES)",
        "FROM duckdb_views() SELECT view_name AS name",
        "SELECT table_name AS name FROM information_schema.tables",
        "SELECT name FROM sqlite_master",
    ],
)
def test_sql_lists_every_view(sql: str, golden: Path, pagetape: Run) -> None:
    """Whichever way: a statement that lists nothing makes the views that it names alone."""
    rows = pagetape("sql", golden, sql, "--json").json["rows"]
    assert {*TABLES, "machine", "extfrag"} <= {row["name"] for row in rows}
    for name in ("EXTFRAG", '"extfrag"'):
        assert pagetape("sql", golden, f"SELECT count(*) AS nr FROM {name}").status == 0


def test_sql_takes_a_statement_longer_than_a_file_name(golden: Path, pagetape: Run) -> None:
    sql = f"SELECT 1 AS nr WHERE 1 IN ({', '.join(['1'] * 3000)})"
    assert pagetape("sql", golden, sql, "--json").json["rows"] == [{"nr": 1}]


def test_sql_keeps_booleans_and_enums(golden: Path, pagetape: Run) -> None:
    found = pagetape(
        "sql", golden, "SELECT kind, change_ownership FROM event WHERE change_ownership", "--json"
    )
    assert found.json["rows"][0] == {"kind": "alloc_extfrag", "change_ownership": True}
    zoned = pagetape("sql", golden, "SELECT make_timestamptz(0) AS t, 1 AS t", "--csv")
    assert zoned.out.startswith("t,t\n1970-01-01")


def test_schema_documents_every_column(pagetape: Run) -> None:
    tables = pagetape("schema", "--json").json["tables"]
    assert {t["name"] for t in tables} == set(TABLES)
    assert all(column["doc"] for t in tables for column in t["columns"])
    shown = pagetape("schema", "event").out
    assert "fallback_order" in shown
    assert f"gfp_flags, from bit 0 on: {GFP_BITS[0]}, {GFP_BITS[1]}" in shown


def test_schema_has_a_sentence_for_every_value(pagetape: Run) -> None:
    (table,) = pagetape("schema", "inferred", "--json").json["tables"]
    (kind,) = (column for column in table["columns"] if column["name"] == "kind")
    assert [value["name"] for value in kind["values"]] == kind["labels"]
    shown = pagetape("schema", "inferred").out
    assert all(f"{value['doc']}\n" in shown for value in kind["values"])
    assert MIGRATETYPES[0] in shown


# ---- bad input


def test_bad_usage_is_one_line_and_status_2(golden: Path, pagetape: Run) -> None:
    for args in (
        ("nosuch",),
        ("info",),
        ("report", "nosuch", golden),
        ("report", "extfrag.by_order", golden, "--nosuch"),
        ("import", "x.dat"),
        ("record", "-o", "t.tape", "--events", "nosuch"),
    ):
        said = pagetape(*args)
        assert (said.status, said.out) == (2, ""), args
        assert said.err.startswith("pagetape: ") and said.err.count("\n") == 1


READERS = {
    "info": ("info",),
    "report": ("report", "extfrag.by_order"),
    "replay": ("replay",),
    "html": ("html", "-o", os.devnull),
    "sql": ("sql",),
    "diagnose": ("diagnose",),
}


@pytest.mark.parametrize("args", READERS.values(), ids=READERS)
def test_a_tape_that_is_not_there(args: tuple[str, ...], tmp_path: Path, pagetape: Run) -> None:
    assert "no such tape" in said_one_line(pagetape(*args, tmp_path / "none.tape"))


@pytest.mark.parametrize("args", READERS.values(), ids=READERS)
def test_a_thing_that_is_no_tape(args: tuple[str, ...], tmp_path: Path, pagetape: Run) -> None:
    (tmp_path / "file.tape").write_text("hello")
    said = said_one_line(pagetape(*args, tmp_path / "file.tape"))
    assert "not a tape: pagetape import makes one of a trace.dat" in said
    assert "not a tape" in said_one_line(pagetape(*args, tmp_path))


@pytest.mark.parametrize("args", READERS.values(), ids=READERS)
def test_a_file_of_a_tape(args: tuple[str, ...], golden: Path, pagetape: Run) -> None:
    said = said_one_line(pagetape(*args, golden / "event.arrow"))
    assert f"a file of the tape {golden}; pass that directory" in said


def test_a_tape_of_another_schema(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    tape = Path(shutil.copytree(golden, tmp_path / "old.tape"))
    with pa.memory_map(str(tape / "event.arrow")) as source:
        rows = pa.ipc.open_file(source).read_all()
    metadata = rows.schema.metadata | {b"pagetape.version": b"999"}
    with pa.ipc.new_file(str(tape / "event.arrow"), rows.schema.with_metadata(metadata)) as out:
        out.write_table(rows.replace_schema_metadata(metadata))
    message = said_one_line(pagetape("info", tape))
    assert "999" in message and f"2 to {VERSION}" in message


def test_a_tape_without_a_table(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    tape = Path(shutil.copytree(golden, tmp_path / "t.tape"))
    (tape / "lost.arrow").unlink()
    assert "'lost' is missing" in said_one_line(pagetape("info", tape))


@pytest.mark.parametrize("keep", [0, 4, 100, 700])
def test_a_tape_cut_short_never_ends_in_a_traceback(
    keep: int, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    tape = Path(shutil.copytree(golden, tmp_path / "t.tape"))
    whole = (tape / "event.arrow").read_bytes()
    (tape / "event.arrow").write_bytes(whole[:keep])
    for args in READERS.values():
        said = pagetape(*args, tape)
        assert said.status in (0, 1)
        assert said.err.count("\n") <= 1


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_a_tape_with_a_byte_turned_never_ends_in_a_traceback(
    at: int, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    tape = Path(shutil.copytree(golden, tmp_path / "t.tape"))
    data = bytearray((tape / "event.arrow").read_bytes())
    data[len(data) * at // 40] ^= 0xFF
    (tape / "event.arrow").write_bytes(bytes(data))
    for args in (("info",), ("report", "extfrag.by_order"), ("report", "events.by_kind")):
        said = pagetape(*args, tape)
        assert said.status in (0, 1)
        assert said.err.count("\n") == said.status


def test_a_name_that_is_no_utf_8(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    named = tmp_path / os.fsdecode(b"a\xff.tape")
    named.symlink_to(golden)
    found = pagetape("sql", named, "SELECT tape FROM machine", "--json").json["rows"]
    assert found == [{"tape": "a\\xff"}]
    assert pagetape("replay", named, "-o", tmp_path / "run.tape", "--ensemble", 0).status == 0
    assert pagetape("validate", named, "-o", tmp_path / "found.tape").status == 0


def test_sql_that_is_not_sql(golden: Path, pagetape: Run) -> None:
    said_one_line(pagetape("sql", golden, "SELECT nosuch FROM event"))
    said_one_line(pagetape("sql", golden, "SELEC 1"))


def test_a_file_that_is_no_trace_dat(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    (tmp_path / "x.dat").write_bytes(b"nothing of the kind" * 100)
    said_one_line(pagetape("import", tmp_path / "x.dat", "-o", out))
    said_one_line(pagetape("import", tmp_path / "none.dat", "-o", out))
    said_one_line(pagetape("import", tmp_path, "-o", out))
    assert not out.exists()


@pytest.mark.parametrize("name", ["linux-6.1-zstd.dat", "linux-6.12.dat"])
def test_a_trace_dat_cut_short(name: str, tmp_path: Path, pagetape: Run) -> None:
    whole = (Path(__file__).parents[2] / "collector/tests/data" / name).read_bytes()
    for share in (0.1, 0.5, 0.98):
        (tmp_path / "x.dat").write_bytes(whole[: int(len(whole) * share)])
        said_one_line(pagetape("import", tmp_path / "x.dat", "-o", tmp_path / "t.tape"))
        assert not (tmp_path / "t.tape").exists()


def test_nothing_is_overwritten_unasked(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    tape = Path(shutil.copytree(golden, tmp_path / "t.tape"))
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    assert "--force" in said_one_line(pagetape("import", "x.dat", "-o", tape))
    assert "not a tape" in said_one_line(pagetape("import", "x.dat", "-o", precious, "--force"))
    assert "not a tape" in said_one_line(pagetape("record", "-o", precious, "--force"))
    assert (precious / "file").read_text() == "mine"
    assert pagetape("info", tape).status == 0


def test_a_failed_import_leaves_the_older_tape(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    tape = Path(shutil.copytree(golden, tmp_path / "t.tape"))
    (tmp_path / "x.dat").write_bytes(b"no")
    said_one_line(pagetape("import", tmp_path / "x.dat", "-o", tape, "--force"))
    assert pagetape("info", tape).status == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.tape", "x.dat"]


# ---- the terminal


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PAGETAPE, "schema", "--json"], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert done.stderr == b""


def test_ctrl_c_is_silent(golden: Path) -> None:
    # Heeded from when the command can: not by an import, nor ignored as in a shell's background.
    # On one CPU, for the others' sake.
    heed = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import pagetape.cli;"
        " os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        " signal.signal(signal.SIGINT, signal.default_int_handler)"
    )
    command = [sys.executable, "-c", f"{heed}; {PAGETAPE[2]}"]
    sql = "SELECT count(*) FROM range(100000000000) AS a (n) WHERE n % 7 = 3"
    with subprocess.Popen(
        [*command, "sql", str(golden), sql], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1.2)
        try:
            while running.poll() is None:  # the first signal may arrive during the start
                running.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(1)
        finally:
            running.kill()
        out, err = running.communicate()
    assert (running.returncode, out, err.strip()) == (130, b"", b"")


def test_the_end_of_the_process_is_not_the_end_of_the_interpreter() -> None:
    """A thread of Arrow that releases a Python object meanwhile would abort it."""
    code = (
        "import atexit, sys; from pagetape import cli\n"
        "class Left:\n"
        "    def __del__(self): print('the interpreter ended')\n"
        "sys.left = Left(); atexit.register(print, 'at the exit')\n"
        "cli.pagetape.main = lambda *_, **__: cli._end(cli.signal.SIGTERM, None)\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "at the exit\n", "")
