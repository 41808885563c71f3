# SPDX-License-Identifier: Apache-2.0
"""Tapes as Parquet: the same rows, in the layout of a fleet."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagetape.export import archive as archive_module
from pagetape.export import stage as stage_module
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError, Writer
from pagetape.tapes import temporary

Run = Callable[..., Any]

FACTS = {"host": "web 1/a", "boot_id": "0123456789abcdef", "recorded_at": "2026-11-21T10:00:00"}


@pytest.fixture
def dressed(golden_with: Callable[[dict[str, Any]], Path]) -> Path:
    """The golden tape, with the name and boot id of its machine."""
    return golden_with(FACTS)


def _files(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*.*"))


def test_every_table_with_rows_becomes_a_file_of_its_host_and_date(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    found = pagetape("archive", dressed, "-o", tmp_path / "fleet", "--json").json["tapes"][0]
    tape = Tape(dressed)
    with_rows = sorted(name for name in tape.tables if tape.num_rows(name))
    files = _files(tmp_path / "fleet")
    assert [file.partition("/")[0] for file in files] == with_rows
    assert all("/host=web-1-a/date=2026-11-21/boot-01234567-" in file for file in files)
    assert (found["files"], found["made"]) == (len(files), len(files))
    assert found["rows"] == sum(tape.num_rows(name) for name in with_rows)
    assert found["bytes"] == sum((tmp_path / "fleet" / file).stat().st_size for file in files)


def test_the_rows_are_those_of_the_tape_in_its_order(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    pagetape("archive", dressed, "-o", tmp_path / "fleet")
    tape = Tape(dressed)
    for file in _files(tmp_path / "fleet"):
        name = file.partition("/")[0]
        found = pq.ParquetFile(tmp_path / "fleet" / file).read()
        assert found.column_names == tape.table(name).column_names
        for column in found.column_names:
            kind = pa.bool_() if pa.types.is_boolean(found[column].type) else None
            expected = tape.table(name)[column]
            assert (
                found[column].to_pylist() == (expected.cast(kind) if kind else expected).to_pylist()
            )


def test_the_facts_and_the_encodings_of_the_large_columns_are_in_the_file(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    pagetape("archive", dressed, "-o", tmp_path / "fleet")
    (path,) = (tmp_path / "fleet" / "event").rglob("*.parquet")
    file = pq.ParquetFile(path)
    facts = [value for value in file.schema_arrow.metadata.values() if value.startswith(b"{")]
    assert [json.loads(value)["host"] for value in facts] == ["web 1/a"]
    group = file.metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["ts"].encodings
    assert "BYTE_STREAM_SPLIT" in columns["pfn"].encodings
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def test_a_fleet_is_one_table_and_a_tape_is_archived_once(
    dressed: Path, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    pagetape("archive", dressed, "-o", fleet)
    before = {file: (fleet / file).stat().st_mtime_ns for file in _files(fleet)}
    made = [
        one["made"]
        for one in pagetape("archive", dressed, small, "-o", fleet, "--json").json["tapes"]
    ]
    whole = Tape(small)
    assert made == [0, sum(whole.num_rows(table) > 0 for table in whole.tables)]
    assert all((fleet / file).stat().st_mtime_ns == when for file, when in before.items())
    rows = duckdb.sql(
        f"SELECT host, count(*) FROM '{fleet}/event/**/*.parquet' GROUP BY host ORDER BY host"
    ).fetchall()
    nr = {path: Tape(path).num_rows("event") for path in (dressed, small)}
    assert dict(rows)["web-1-a"] == nr[dressed]
    assert sum(count for _, count in rows) == sum(nr.values())


def test_large_tables_have_several_row_groups(tmp_path: Path, pagetape: Run) -> None:
    row = {"ts": 1, "cpu": 0, "pid": 1, "kind": "free", "flags": 0, "pfn": 1, "page_order": 0}
    one = pa.Table.from_batches([TABLES["event"].batch([row])])
    (batch,) = one.take(pa.repeat(0, 100_000)).combine_chunks().to_batches()
    with Writer(tmp_path / "long.tape", {}) as tape:
        for _ in range(11):
            tape.write("event", batch)
    pagetape("archive", tmp_path / "long.tape", "-o", tmp_path / "fleet")
    (path,) = (tmp_path / "fleet" / "event").rglob("*.parquet")
    metadata = pq.ParquetFile(path).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (1_100_000, 2)


def test_a_place_that_cannot_be_written_is_one_line(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    (tmp_path / "file").write_text("")
    said = pagetape("archive", dressed, "-o", tmp_path / "file")
    assert (said.status, said.out, said.err.count("\n")) == (1, "", 1)
    assert pagetape("archive", tmp_path / "none.tape", "-o", tmp_path / "fleet").status == 1


# ---- finished tapes, each once


def _events(fleet: Path) -> int:
    ((rows,),) = duckdb.sql(f"SELECT count(*) FROM '{fleet}/event/**/*.parquet'").fetchall()
    return int(rows)


def _with_a_spool(tape: Path) -> None:
    (tape / "spool").mkdir()


def _torn(tape: Path) -> None:
    os.truncate(tape / "event.arrow", (tape / "event.arrow").stat().st_size - 10)


UNFINISHED = {_with_a_spool: "pagetape import", _torn: "its recorder was killed"}


@pytest.mark.parametrize("spoil", UNFINISHED)
def test_an_unfinished_tape_is_refused_and_the_others_are_archived(
    spoil: Callable[[Path], None], dressed: Path, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    spoil(dressed)
    said = pagetape("archive", dressed, tmp_path / "none.tape", small, "-o", fleet, "--json")
    assert (said.status, said.err.count("\n")) == (1, 2)
    assert str(dressed) in said.err and UNFINISHED[spoil] in said.err
    found = json.loads(said.out)
    assert [one["tape"] for one in found["tapes"]] == [str(small)]
    assert [one["tape"] for one in found["refused"]] == [str(dressed), f"{tmp_path}/none.tape"]
    assert _events(fleet) == Tape(small).num_rows("event")


def test_a_tape_that_is_being_recorded_is_refused(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    _with_a_spool(dressed)
    fd = os.open(dressed / "spool", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    said = pagetape("archive", dressed, "-o", tmp_path / "fleet")
    os.close(fd)
    assert said.status == 1 and "is still being recorded" in said.err
    assert not _files(tmp_path / "fleet") if (tmp_path / "fleet").exists() else True


def test_a_deferred_tape_is_refused(
    golden_with: Callable[[dict[str, Any]], Path], tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("archive", golden_with({"deferred": True}), "-o", tmp_path / "fleet")
    assert said.status == 1 and "is unfinished" in said.err


def _another_copy(tape: Path, target: Path, *, without: str = "") -> Path:
    """The same recording, with other bytes, fewer rows, and maybe without a table."""
    old = Tape(tape)
    with Writer(target, old.facts) as writer:
        for name in old.tables - {without}:
            for batch in old.batches(name):
                writer.write(name, batch.slice(0, 3) if name == "event" else batch)
    return target


def test_a_recording_is_in_the_archive_once_whatever_its_copy_is_called(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    assert pagetape("archive", dressed, "-o", fleet).status == 0
    before = {file: (fleet / file).read_bytes() for file in _files(fleet)}
    renamed = tmp_path / "renamed.tape"
    shutil.copytree(dressed, renamed)
    assert pagetape("archive", renamed, "-o", fleet, "--json").json["tapes"][0]["made"] == 0
    other = _another_copy(dressed, tmp_path / "other.tape", without="stack")
    said = pagetape("archive", other, "-o", fleet)
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert "has this recording with other contents (--force replaces them)" in said.err
    assert {file: (fleet / file).read_bytes() for file in _files(fleet)} == before
    assert pagetape("archive", other, "-o", fleet, "--force").status == 0
    assert _events(fleet) == 3
    assert sorted(before.keys() - _files(fleet)) == [f for f in before if f.startswith("stack/")]


@pytest.mark.parametrize(
    "facts",
    [
        {"boot_id": "other"},
        {"recorded_at": "2026-11-21T10:00:01"},
        {"series": {"since": "2026-11-21", "number": 2}},
        {"instances": ["pagetape-2"]},
    ],
)
def test_another_recording_is_another(
    facts: dict[str, Any], dressed: Path, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    other = tmp_path / "other.tape"
    with Writer(other, Tape(dressed).facts | facts) as writer:
        for name in Tape(golden).tables:
            for batch in Tape(golden).batches(name):
                writer.write(name, batch)
    assert pagetape("archive", dressed, other, "-o", tmp_path / "fleet").status == 0
    assert _events(tmp_path / "fleet") == 2 * Tape(golden).num_rows("event")


def test_replays_of_one_recording_are_archived_beside_it(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    outs = [tmp_path / f"{mode}.tape" for mode in ("off", "always")]
    for out in outs:
        assert pagetape("replay", small, "--policy", f"nofragment:mode={out.stem}", "-o", out)
    assert pagetape("archive", small, *outs, "-o", tmp_path / "fleet").status == 0
    assert _events(tmp_path / "fleet") == sum(Tape(t).num_rows("event") for t in (small, *outs))


# ---- whole or not at all

STEP = """
import os, signal, sys
from pagetape import cli
from pagetape.export import archive

steps = int(sys.argv.pop(1))
def count(function):
    def counted(*args, **kwargs):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return counted

archive._write = count(archive._write)
for name in ("fsync", "rename", "unlink", "rmdir"):
    setattr(os, name, count(getattr(os, name)))
cli.main()
"""


def test_a_kill_at_any_step_leaves_nothing_or_is_finished_by_the_next(
    dressed: Path, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    whole = tmp_path / "whole"
    assert pagetape("archive", dressed, "-o", whole).status == 0
    wanted = {file: (whole / file).read_bytes() for file in _files(whole)}
    ends: set[int | str] = set()
    for steps in range(0, 10 * len(wanted), 17):
        fleet = tmp_path / f"fleet{steps}"
        argv = [sys.executable, "-c", STEP, str(steps), "archive", dressed, "-o", fleet]
        status = subprocess.run(argv, capture_output=True, check=False).returncode
        ends.add(status)
        found = [str(p.relative_to(fleet)) for p in fleet.rglob("*.parquet")]
        begun = bool(list(fleet.glob(".archive-*.ready")))
        ends.add("begun" if begun else "not begun")
        assert begun or not found or set(found) == set(wanted), steps
        assert pagetape("archive", small, "-o", fleet).status == 0  # of another tape
        left = {f for f in _files(fleet) if "host=web-1-a" in f}
        assert left in (set(), set(wanted)), steps
        assert not list(fleet.glob(".archive-*"))
        assert pagetape("archive", dressed, "-o", fleet).status == 0
        assert all((fleet / file).read_bytes() == data for file, data in wanted.items())
    assert ends == {0, -signal.SIGKILL, "begun", "not begun"}


def test_an_unfinished_stage_has_no_file_that_a_reader_takes(dressed: Path, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    argv = [sys.executable, "-c", STEP, "9", "archive", dressed, "-o", fleet]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert list(fleet.glob(".archive-*.part"))
    assert not list(fleet.rglob("*.parquet"))


def test_many_processes_archive_at_once(dressed: Path, small: Path, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    code = "from pagetape.cli import main; main()"
    argv = [sys.executable, "-c", code, "archive", dressed, small, "-o", fleet]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    for process in running:
        assert process.stdout
        process.stdout.close()
    assert _events(fleet) == sum(Tape(tape).num_rows("event") for tape in (dressed, small))
    assert not list(fleet.glob(".archive-*"))


def test_an_archive_is_as_private_as_its_tapes(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    before = os.umask(0o022)
    try:
        for name, (directory, files, mode) in {
            "private": (0o700, 0o600, 0o600),
            "public": (0o755, 0o644, 0o644),
        }.items():
            dressed.chmod(directory)
            for file in dressed.iterdir():
                file.chmod(files)
            assert pagetape("archive", dressed, "-o", tmp_path / name).status == 0
            for path in (tmp_path / name).rglob("*"):
                wanted = mode if path.is_file() else mode | 0o100 | (mode & 0o044) >> 2
                assert path.stat().st_mode & 0o777 == wanted, path
    finally:
        os.umask(before)


# ---- an archive that other users may write, too


PLACE = "host=web-1-a/date=2026-11-21/boot-01234567-1-0-0123456789abcdef.parquet"


def _plant(fleet: Path, plan: dict[str, Any], mode: int = 0o700) -> Path:
    """A complete stage, as a killed process of this user would leave it."""
    stage = fleet / ".archive-01234567.ready"
    stage.mkdir(parents=True)
    (stage / "event.staged").write_text("planted")
    (stage / "plan.staged").write_text(json.dumps({"mode": 0o755, **plan}))
    stage.chmod(mode)
    return stage


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file outside the archive; a later run of `unharmed` finds whether it is as before."""
    file = tmp_path / "home" / PLACE
    file.parent.mkdir(parents=True)
    file.write_text("foreign")
    return file


def test_a_stage_of_this_user_is_finished(dressed: Path, tmp_path: Path, pagetape: Run) -> None:
    fleet = tmp_path / "fleet"
    (fleet / "stack" / PLACE).parent.mkdir(parents=True)
    (fleet / "stack" / PLACE).write_text("old")
    stage = _plant(fleet, {"where": PLACE, "old": ["stack"]})
    assert pagetape("archive", dressed, "-o", fleet).status == 0
    assert not stage.exists() and not (fleet / "stack" / PLACE).exists()
    assert (fleet / "event" / PLACE).read_text() == "planted"


@pytest.mark.parametrize("who", ["another user", "a group that may write"])
def test_a_stage_of_others_is_left_alone(
    who: str, dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    if who == "another user" and os.geteuid():
        pytest.skip("only root can give a file to another user")
    fleet = tmp_path / "fleet"
    stage = _plant(fleet, {"where": PLACE, "old": []}, 0o775 if "group" in who else 0o755)
    if who == "another user":
        os.chown(stage, 65534, 65534)
    assert pagetape("archive", dressed, "-o", fleet).status == 0
    assert stage.exists() and not (fleet / "event" / PLACE).exists()


OUTSIDE = {
    "an absolute path": lambda file: {"where": f"/{file}", "old": []},
    "an absolute old file": lambda file: {"where": PLACE, "old": [str(file)]},
    "dots": lambda _: {"where": "host=../../home/" + PLACE, "old": ["event"]},
    "dots before the table": lambda _: {"where": PLACE, "old": ["../home"]},
    "no plan": lambda _: {},
    "no list": lambda _: {"where": PLACE, "old": 7},
}


@pytest.mark.parametrize("plan", OUTSIDE)
def test_a_plan_names_nothing_outside_the_archive(
    plan: str, foreign: Path, dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    _plant(tmp_path / "fleet", OUTSIDE[plan](foreign))
    assert pagetape("archive", dressed, "-o", tmp_path / "fleet").status == 0
    assert foreign.read_text() == "foreign"
    assert sorted(foreign.parent.iterdir()) == [foreign]


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_link_below_the_archive_is_not_followed(
    depth: int, dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet, home = tmp_path / "fleet", tmp_path / "home"
    home.mkdir()
    link = fleet.joinpath("event", "host=web-1-a", "date=2026-11-21")
    link = [link.parent.parent, link.parent, link][depth]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(home)
    said = pagetape("archive", dressed, "-o", fleet)
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert f"{link.name} is a link or no directory" in said.err
    assert not list(home.iterdir()) and not list(fleet.rglob("*.parquet"))


def test_a_fifo_in_the_place_of_an_archived_file_is_not_opened(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    assert pagetape("archive", dressed, "-o", fleet).status == 0
    (file,) = (fleet / "event").rglob("*.parquet")
    file.unlink()
    os.mkfifo(file)
    said = pagetape("archive", dressed, "-o", fleet)
    assert said.status == 1 and "with other contents (--force replaces them)" in said.err
    assert pagetape("archive", dressed, "-o", fleet, "--force").status == 0
    assert file.is_file()


@pytest.mark.parametrize("what", ["link", "directory"])
def test_a_stage_that_is_replaced_while_it_is_written_harms_nothing(
    what: str, dressed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, home = tmp_path / "fleet", tmp_path / "home"
    home.mkdir()
    write = archive_module._write

    def swap(*args: Any) -> None:
        for stage in fleet.glob(".archive-*.part"):
            if not (fleet / "away").exists():
                stage.rename(fleet / "away")
                stage.symlink_to(home) if what == "link" else stage.mkdir()
        write(*args)

    monkeypatch.setattr(archive_module, "_write", swap)
    with contextlib.suppress(TapeError):
        archive_module.archive(Tape(dressed), fleet)
    assert not list(home.iterdir())
    tape = Tape(dressed)
    assert len(list(fleet.rglob("*.parquet"))) == sum(
        tape.num_rows(name) > 0 for name in tape.tables
    )


def test_a_lock_of_another_user_ends_in_one_line(
    dressed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    monkeypatch.setattr(stage_module, "_LOCK_S", 0.1)
    fd = os.open(fleet, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(TapeError, match="another process has locked it"):
        archive_module.archive(Tape(dressed), fleet)
    os.close(fd)
    assert archive_module.archive(Tape(dressed), fleet).made


def _with_host(tape: Path, target: Path, host: str) -> Path:
    old = Tape(tape)
    with Writer(target, old.facts | {"host": host}) as writer:
        for name in old.tables:
            for batch in old.batches(name):
                writer.write(name, batch)
    return target


def test_a_long_name_of_the_host_has_a_place(dressed: Path, tmp_path: Path, pagetape: Run) -> None:
    """100 characters may be 300 bytes, and a file system has names of 255."""
    long = _with_host(dressed, tmp_path / "long.tape", "日" * 100)
    assert pagetape("archive", long, dressed, "-o", tmp_path / "fleet").status == 0
    assert not list((tmp_path / "fleet").glob(".archive-*"))


@pytest.mark.parametrize("what", ["a directory", "no permission"])
def test_a_tape_without_a_place_leaves_nothing_and_names_the_place(
    what: str, dressed: Path, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    if what == "no permission" and not os.geteuid():
        pytest.skip("root may write everywhere")
    fleet = tmp_path / "fleet"
    assert pagetape("archive", dressed, "-o", fleet).status == 0
    (file,) = (fleet / "event").rglob("*.parquet")
    file.unlink()
    if what == "a directory":
        file.mkdir()
    else:
        file.parent.chmod(0o500)
    said = pagetape("archive", dressed, "-o", fleet, "--force")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert "event/host=web-1-a/date=2026-11-21" in said.err and str(dressed) in said.err
    assert not list(fleet.glob(".archive-*"))
    assert pagetape("archive", small, "-o", fleet).status == 0


def test_a_stage_that_cannot_be_finished_stops_no_other_tape(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    stage = _plant(fleet, {"where": PLACE, "old": []})
    (fleet / "event" / PLACE).mkdir(parents=True)
    said = pagetape("archive", dressed, "-o", fleet)
    assert said.status == 0 and f"{stage}: cannot be finished" in said.err
    assert len(list((fleet / "event").rglob("boot-*.parquet"))) == 2


def test_directories_of_a_shared_archive_are_shared(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    fleet.chmod(0o1777)
    assert pagetape("archive", dressed, "-o", fleet).status == 0
    for path in fleet.rglob("*"):
        assert (path.stat().st_mode & 0o1033 == 0o1033) == path.is_dir()


def test_a_deep_directory_of_another_user_is_left_alone(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory to another user")
    path = tmp_path / "theirs"
    path.mkdir()
    os.chown(path, 65534, 65534)
    temporary.remove(path)
    assert path.exists()
