# SPDX-License-Identifier: Apache-2.0
"""Outputs appear whole or not at all, replace nothing else, and are as private as their inputs."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import livetest
import matrix
import pyarrow as pa
import pytest

from pagetape.pages.document import document
from pagetape.recording import session
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, output
from pagetape.tapes.temporary import exchange, remove_leftovers, rename_new

from .conftest import write_golden

Run = Callable[..., Any]


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(p): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """A golden tape that the test may destroy."""
    (tmp_path / "in").mkdir()
    return write_golden(tmp_path / "in" / "t.tape")


@pytest.fixture
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have a title and nothing else: what counts is their file."""

    def page(tapes: Sequence[Tape]) -> str:
        return document(", ".join(tape.path.name for tape in tapes), [])

    monkeypatch.setattr("pagetape.pages.page.page", page)


@pytest.fixture
def umask() -> Iterator[None]:
    """The usual umask of a user."""
    before = os.umask(0o022)
    yield
    os.umask(before)


# ---- inputs

WRITERS = {
    "replay": ("replay", "--force"),
    "validate": ("validate", "--force"),
    "import": ("import", "--private", "hash", "--force"),
    "export": ("export", "--force"),
    "html": ("html",),
}

PLACES = {
    "itself": "in/t.tape",
    "another way": "in/../in/t.tape",
    "a link to it": "link.tape",
    "through a linked directory": "other/t.tape",
    "inside": "in/t.tape/new",
    "inside through a link": "link.tape/new",
}


@pytest.mark.parametrize("args", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_an_input_is_not_destroyed(
    args: tuple[str, ...], place: str, tape: Path, tmp_path: Path, pagetape: Run
) -> None:
    (tmp_path / "link.tape").symlink_to(tape)
    (tmp_path / "other").symlink_to(tape.parent)
    before = contents(tmp_path)
    said = pagetape(*args, tape, "-o", tmp_path / place)
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert "is an input of this command" in said.err or "is inside the input" in said.err
    assert contents(tmp_path) == before


def test_a_tape_whose_files_an_input_links_to_is_not_destroyed(
    tape: Path, tmp_path: Path, pagetape: Run
) -> None:
    linked = tmp_path / "linked.tape"
    linked.mkdir()
    for file in tape.iterdir():
        (linked / file.name).symlink_to(file)
    before = contents(tmp_path)
    said = pagetape("replay", linked, "-o", tape, "--force")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert contents(tmp_path) == before


def test_a_tape_with_an_input_inside_is_not_destroyed(
    tape: Path, golden: Path, pagetape: Run
) -> None:
    shutil.copytree(golden, tape / "inner.tape")
    said = pagetape("replay", tape / "inner.tape", "-o", tape, "--force")
    assert said.status == 1
    assert "is an input of this command" in said.err
    assert (tape / "inner.tape" / "event.arrow").exists()


# ---- foreign files


def _with_notes(tape: Path) -> None:
    (tape / "notes.txt").write_text("mine")


def _with_directory(tape: Path) -> None:
    (tape / "sub").mkdir()
    (tape / "sub" / "notes.txt").write_text("mine")


def _with_notes_in_the_spool(tape: Path) -> None:
    (tape / "spool").mkdir()
    (tape / "spool" / "notes.txt").write_text("mine")


def _another_arrow_file(tape: Path) -> None:
    with pa.ipc.new_file(tape / "event.arrow", pa.schema([("x", pa.int32())])):
        pass


def _a_file(tape: Path) -> None:
    shutil.rmtree(tape)
    tape.write_text("mine")


def _an_empty_directory(tape: Path) -> None:
    shutil.rmtree(tape)
    tape.mkdir()


def _a_link(tape: Path) -> None:
    tape.rename(tape.with_name("else.tape"))
    tape.symlink_to("else.tape")


def _a_link_in_it(tape: Path) -> None:
    (tape / "event.arrow").rename(tape.with_name("event.arrow"))
    (tape / "event.arrow").symlink_to("../event.arrow")


FOREIGN = (
    _with_notes,
    _with_directory,
    _with_notes_in_the_spool,
    _another_arrow_file,
    _a_file,
    _an_empty_directory,
    _a_link,
    _a_link_in_it,
)


@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__)
@pytest.mark.parametrize("args", list(WRITERS.values())[:3], ids=list(WRITERS)[:3])
def test_force_replaces_only_a_tape(
    make: Callable[[Path], None],
    args: tuple[str, ...],
    tape: Path,
    golden: Path,
    tmp_path: Path,
    pagetape: Run,
) -> None:
    make(tape)
    before = sorted(tmp_path.rglob("*")), contents(tmp_path)
    said = pagetape(*args, golden, "-o", tape)
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert "is not a tape" in said.err or "is a symbolic link" in said.err
    assert (sorted(tmp_path.rglob("*")), contents(tmp_path)) == before


def test_force_replaces_a_tape_and_nothing_is_left_beside(
    tape: Path, golden: Path, pagetape: Run
) -> None:
    assert pagetape("replay", golden, "-o", tape, "--force").status == 0
    assert "replay" in Tape(tape).facts
    assert [path.name for path in tape.parent.iterdir()] == ["t.tape"]


def test_a_tape_that_is_being_recorded_is_not_replaced(
    tape: Path, golden: Path, pagetape: Run
) -> None:
    (tape / "spool").mkdir()
    fd = os.open(tape / "spool", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    said = pagetape("replay", golden, "-o", tape, "--force")
    os.close(fd)
    assert said.status == 1 and "is still being recorded" in said.err
    assert pagetape("replay", golden, "-o", tape, "--force").status == 0


@pytest.mark.parametrize("what", ["text", "binary", "tape", "directory"])
def test_a_page_replaces_only_a_page(
    what: str, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "p.html"
    if what == "tape":
        shutil.copytree(golden, out)
    elif what == "directory":
        out.mkdir()
    else:
        out.write_bytes(b"<html>mine" if what == "text" else b"\x1f\x8b\0\0mine")
    before = sorted(tmp_path.rglob("*")), contents(tmp_path)
    said = pagetape("html", golden, "-o", out)
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert "was not written by pagetape" in said.err
    said = pagetape("sweep", golden, "-o", tmp_path / "dir", "--html", out)
    assert said.status == 1 and "was not written by pagetape" in said.err
    assert (sorted(tmp_path.rglob("*")), contents(tmp_path)) == before


@pytest.mark.usefixtures("short_pages")
def test_a_page_is_replaced_whole_or_stays(
    golden: Path, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "p.html"
    assert pagetape("html", golden, "-o", out).status == 0
    before = out.read_bytes()

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        said = pagetape("html", golden, "-o", out)
    assert said.status == 1
    assert said.err == f"pagetape: {out}: No space left on device\n"
    assert [path.name for path in tmp_path.iterdir()] == ["p.html"]
    assert out.read_bytes() == before
    other = shutil.copytree(golden, tmp_path / "other.tape")
    assert pagetape("html", golden, other, "-o", out).status == 0
    assert out.read_bytes() != before


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.llfree"])
def test_an_export_replaces_an_export(
    name: str, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    which = "llfree" if name.endswith("llfree") else "perfetto"
    args = ("export", golden, "--format", which, "-o", tmp_path / name)
    assert pagetape(*args).status == 0
    assert pagetape(*args).status == 1
    assert pagetape(*args, "--force").status == 0
    assert pagetape("html", golden, "-o", tmp_path / name).status == 1  # it is no page


@pytest.mark.usefixtures("short_pages")
def test_an_empty_file_has_nothing_to_lose(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    (tmp_path / "p.html").touch()  # as mktemp does
    assert pagetape("html", golden, "-o", tmp_path / "p.html").status == 0


def test_every_file_of_a_spool_is_part_of_the_tape(tape: Path) -> None:
    (tape / "spool").mkdir()
    for name in ("cpu0", "cpu12.more", "cpu3.rest", "formats", "tasks", "kallsyms", "checkpoint"):
        (tape / "spool" / name).touch()
    (tape / "spool" / "checkpoint.part").touch()
    (tape / "spool" / "tasks.part").touch()
    assert output.is_own(tape)
    (tape / "spool").rename(tape / ".spool")  # its recorder was killed while it removed the spool
    assert output.is_own(tape)


@livetest.recording
def test_force_replaces_an_unfinished_recording(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "raw.tape"
    args = ("record", "-o", out, "--defer", "--events", "cheap", "--snapshot", "proc")
    assert pagetape(*args, "--duration", "0.3s").status == 0
    assert output.is_own(out), sorted(out.rglob("*"))
    assert pagetape(*args, "--duration", "0.3s", "--force").status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["raw.tape"]


def test_the_names_that_a_killed_private_recorder_left_are_removed(tmp_path: Path) -> None:
    left = tmp_path / ".pagetape.0123abcd.part"
    left.mkdir()
    (left / "tasks").write_text("secret")
    with session._directory(None, tmp_path) as directory:
        assert list(tmp_path.iterdir()) == [Path(directory)]
    assert not list(tmp_path.iterdir())


# ---- ends in mid-write

WRITE = """
import sys, time
from pathlib import Path
from pagetape import cli
from pagetape.export import perfetto
from pagetape.replaying import fanout, players
from pagetape.tapes import output

def wait(*_, **__):
    print("writing", flush=True)
    time.sleep(600)

def read_all(*args):
    read(*args)
    wait()

read = fanout.read_all
perfetto.events = wait
players.Part.finish = lambda _: None  # the tape is not complete
fanout.read_all = read_all
sys.argv[0] = "pagetape"
cli.main()
"""


@pytest.mark.parametrize("args", [("export", "-o", "t.json"), ("replay", "-o", "t.tape")])
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)],
)
def test_an_end_in_mid_write_leaves_nothing(
    args: tuple[str, ...], number: int, status: int, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    argv = [sys.executable, "-c", WRITE, *args, str(golden)]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "writing\n"
        process.send_signal(number)
        assert process.wait() == status
    left = list(tmp_path.iterdir())
    assert len(left) == (number == signal.SIGKILL)
    assert all(path.name.startswith(".t.") and path.name.endswith(".part") for path in left)
    assert pagetape(*args[:2], tmp_path / args[2], golden).status == 0
    assert [path.name for path in tmp_path.iterdir()] == [args[2]]


def test_a_temporary_in_use_stays(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    argv = [sys.executable, "-c", WRITE, "export", "-o", "t.json", str(golden)]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "writing\n"
        (part,) = tmp_path.iterdir()
        assert pagetape("export", golden, "-o", tmp_path / "t.json").status == 0
        assert part.exists()
        process.terminate()
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_a_name_that_was_taken_meanwhile_is_not_replaced(golden: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.tape"
    with (
        pytest.raises(OSError, match="exists already"),
        output.whole_tape(out, {}, replace=False, inputs=[golden]),
    ):
        out.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["t.tape"]
    assert not list(out.iterdir())


def test_exchanges_without_help_of_the_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("pagetape.tapes.temporary._rename2", refuse)
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.write_text("other")
    exchange(one, other)
    assert (one.read_text(), other.is_dir()) == ("other", True)
    with pytest.raises(FileExistsError):
        rename_new(one, other)
    rename_new(one, tmp_path / "new")
    assert not one.exists()


# ---- privacy


def _open(tape: Path, directory: int, files: int, group: int = -1) -> None:
    for file in tape.iterdir():
        file.chmod(files)
        os.chown(file, -1, group)
    os.chown(tape, -1, group)
    tape.chmod(directory)


MODES = {
    "private": (0o700, 0o600, 0o600),
    "files private": (0o755, 0o600, 0o600),
    "directory private": (0o700, 0o644, 0o600),
    "public": (0o755, 0o644, 0o644),
    "of the group": (0o750, 0o640, 0o640),
}


@pytest.mark.parametrize(("directory", "files", "mode"), MODES.values(), ids=MODES)
@pytest.mark.usefixtures("umask", "short_pages")
def test_a_file_is_as_private_as_its_tape(
    directory: int, files: int, mode: int, tape: Path, tmp_path: Path, pagetape: Run
) -> None:
    _open(tape, directory, files, os.getegid())
    pagetape("html", tape, "-o", tmp_path / "p.html")
    pagetape("export", tape, "-o", tmp_path / "t.json")
    made = [tmp_path / "p.html", tmp_path / "t.json"]
    if matrix.WHOLE or (directory, files) in ((0o700, 0o644), (0o750, 0o640)):
        pagetape("sweep", tape, "-o", tmp_path / "dir", "--html", tmp_path / "s.html")
        made += [tmp_path / "s.html", *(tmp_path / "dir").glob("*.json")]
        assert len(made) == 4
        assert (tmp_path / "dir").stat().st_mode & 0o777 == mode | 0o100 | (mode & 0o044) >> 2
    for file in made:
        assert file.stat().st_mode & 0o777 == mode, file


@pytest.mark.usefixtures("umask", "short_pages")
def test_a_file_of_two_tapes_is_as_private_as_the_stricter(
    tape: Path, tmp_path: Path, pagetape: Run
) -> None:
    other = write_golden(tmp_path / "other.tape")
    _open(tape, 0o755, 0o644)
    pagetape("html", tape, other, "-o", tmp_path / "p.html")
    assert (tmp_path / "p.html").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a tape to another group")
@pytest.mark.usefixtures("umask", "short_pages")
def test_another_group_than_the_tapes_cannot_read(
    tape: Path, tmp_path: Path, pagetape: Run
) -> None:
    _open(tape, 0o750, 0o640, 12345)
    pagetape("html", tape, "-o", tmp_path / "p.html")
    assert (tmp_path / "p.html").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("umask", "short_pages")
def test_a_page_does_not_open_when_it_is_replaced(
    tape: Path, tmp_path: Path, pagetape: Run
) -> None:
    _open(tape, 0o755, 0o644)
    for mode in (0o644, 0o600):
        pagetape("html", tape, "-o", tmp_path / "p.html")
        (tmp_path / "p.html").chmod(mode)
    pagetape("html", tape, "-o", tmp_path / "p.html")
    assert (tmp_path / "p.html").stat().st_mode & 0o777 == 0o600


# ---- the cache

SCHEMA = pa.schema([("x", pa.int32())])


def _cached(tape: Path) -> list[int]:
    """The number of calls that make a table, of two calls that ask for it."""
    made: list[int] = []

    def make() -> pa.Table:
        made.append(1)
        return pa.table({"x": pa.array([1], pa.int32())})

    for _ in range(2):
        assert cache.table(Tape(tape), "what", SCHEMA, make)["x"].to_pylist() == [1]
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of all caches of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.usefixtures("umask")
def test_the_cache_is_private(home: Path, golden: Path) -> None:
    home.mkdir()
    (home / "pagetape").mkdir(mode=0o755)  # as an earlier pagetape made it
    assert len(_cached(golden)) == 1
    modes = {p.stat().st_mode & 0o777 for p in (home / "pagetape", home / "pagetape" / "what")}
    assert modes == {0o700}
    (file,) = (home / "pagetape" / "what").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("which", ["pagetape", "pagetape/what"])
def test_a_link_in_the_cache_is_not_followed(
    which: str, home: Path, golden: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home / which).parent.mkdir(parents=True)
    (home / which).symlink_to(tmp_path / "elsewhere")
    assert len(_cached(golden)) == 2
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("how", ["link", "other user", "damaged", "fifo"])
def test_a_table_that_is_not_sound_is_made_anew(
    how: str, home: Path, golden: Path, tmp_path: Path
) -> None:
    assert len(_cached(golden)) == 1
    (file,) = (home / "pagetape" / "what").iterdir()
    if how == "link":
        file.rename(tmp_path / "table")
        file.symlink_to(tmp_path / "table")
    elif how == "other user":
        if os.geteuid():
            pytest.skip("only root can give a file away")
        os.chown(file, 12345, -1)
    elif how == "damaged":
        file.write_bytes(file.read_bytes()[:100])
    else:
        file.unlink()
        os.mkfifo(file)
    assert len(_cached(golden)) == 1
    assert file.is_file() and not file.is_symlink()
    assert file.stat().st_uid == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
@pytest.mark.parametrize("which", [".", "pagetape", "pagetape/what"])
def test_a_cache_of_another_user_is_not_used(which: str, home: Path, golden: Path) -> None:
    (home / "pagetape" / "what").mkdir(parents=True)
    os.chown(home / which, 12345, -1)
    assert len(_cached(golden)) == 2
    assert not list((home / "pagetape" / "what").iterdir())


_CLOSING = """
import sys
from pathlib import Path
from pagetape.tapes import output
print(flush=True)
input()
output.put_in_one_file(Path(sys.argv[1]))
"""


def test_a_kill_while_a_tape_becomes_one_file_leaves_it_whole(golden: Path, tmp_path: Path) -> None:
    whole = {name: Tape(golden).table(name) for name in TABLES}
    began = time.monotonic()
    output.put_in_one_file(Path(shutil.copytree(golden, tmp_path / "first.tape")))
    takes = time.monotonic() - began
    assert (tmp_path / "first.tape").is_file()
    kinds, kills = set(), matrix.number(4, 20)
    for i in range(kills):
        path = shutil.copytree(golden, tmp_path / f"{i}.tape")
        words = [sys.executable, "-c", _CLOSING, path]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as closing:
            assert closing.stdin and closing.stdout and closing.stdout.read(1)
            if i:  # the first is killed before it begins, the last after its end
                closing.stdin.write(b"\n")
                closing.stdin.flush()
            if i == kills - 1:
                closing.wait()
            time.sleep(1.5 * takes * i / kills)
            closing.kill()
        kinds.add(path.is_file())
        assert {name: Tape(path).table(name) for name in TABLES} == whole
        assert Tape(path).complete
    assert kinds == {False, True}
    remove_leftovers(tmp_path, ".")  # as the next recorder does
    assert {path.suffix for path in tmp_path.iterdir()} == {".tape"}


def test_a_tape_stays_a_directory_where_no_file_can_be_made(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree(golden, tmp_path / "a.tape")
    monkeypatch.setattr("pagetape.tapes.temporary.swap", lambda *_: False)
    output.put_in_one_file(path)
    assert path.is_dir() and Tape(path).complete and list(tmp_path.iterdir()) == [path]
