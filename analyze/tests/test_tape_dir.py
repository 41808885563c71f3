# SPDX-License-Identifier: Apache-2.0
"""A directory of tapes within a size limit."""

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pagetape.recording.tape_dir import TapeDir
from pagetape.schemas.tape import SPOOL, TapeError, Writer
from pagetape.tapes import series, temporary

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@contextlib.contextmanager
def tape_dir(
    directory: Path, keep: float | None = None, said: Callable[[str], None] = lambda _line: None
) -> Iterator[TapeDir]:
    it = TapeDir(directory, keep, said=said)
    try:
        yield it
    finally:
        it.close()


def add(tape_dir: TapeDir, at: datetime, *, finished: bool = True) -> Path:
    """A tape of slightly more than 1 MB."""
    path = tape_dir.place(at)
    tape = Writer(path, tape_dir.mark())
    tape.close()
    (path / "stack.part").write_bytes(bytes(1_000_000))
    if not finished:
        os.truncate(path / "event.arrow", (path / "event.arrow").stat().st_size - 10)
    return path


def test_tapes_are_named_by_host_and_time_and_never_overwritten(tmp_path: Path) -> None:
    with tape_dir(tmp_path / "tapes") as it:
        first, second = add(it, NOON), add(it, NOON)
    host = os.uname().nodename
    assert first == tmp_path / "tapes" / f"{host}-2026-11-21T120000Z.tape"
    assert second == tmp_path / "tapes" / f"{host}-2026-11-21T120000Z-2.tape"
    assert (tmp_path / "tapes").stat().st_mode & 0o777 == 0o700


def test_the_oldest_go_and_the_last_stays(tmp_path: Path) -> None:
    with tape_dir(tmp_path, keep=3.5e6) as it:
        paths = [add(it, NOON + timedelta(minutes=minute)) for minute in range(4)]
        it.tidy()
        assert [path.exists() for path in paths] == [False, True, True, True]
        assert len(series.removed(it.directory)) == 1
    with tape_dir(tmp_path, keep=0) as it:  # the recorder after it
        it.tidy()
        assert [path.exists() for path in paths] == [False, False, False, True]


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    with tape_dir(tmp_path, keep=0) as it:
        killed = add(it, NOON - timedelta(hours=3), finished=False)
        foreign = it.place(NOON - timedelta(hours=2))
        Writer(foreign, {"host": "mine"}).close()  # named alike, but made by hand
        other_host = tmp_path / "elsewhere-2026-11-21T010000Z.tape"
        Writer(other_host, it.mark()).close()
        file = tmp_path / f"{os.uname().nodename}-2026-11-21T010000Z.tape.txt"
        file.touch()
        old, last = add(it, NOON), add(it, NOON + timedelta(hours=1))
        it.tidy()
        assert not old.exists()
        assert all(path.exists() for path in (killed, foreign, other_host, file, last))


def test_only_finished_tapes_count(tmp_path: Path) -> None:
    """Neither what a killed recorder left, nor the tape being recorded with its large spool."""
    with tape_dir(tmp_path, keep=2.5e6) as it:
        killed = add(it, NOON, finished=False)
        old, last = (add(it, NOON + timedelta(hours=hour)) for hour in (1, 2))
        recording = add(it, NOON + timedelta(hours=3))
        (recording / SPOOL).mkdir()
        (recording / SPOOL / "cpu0").write_bytes(bytes(5_000_000))
        it.tidy()
        assert all(path.exists() for path in (killed, old, last, recording))
    with tape_dir(tmp_path, keep=1.5e6) as it:
        it.tidy()
        assert [path.exists() for path in (killed, old, last, recording)] == [
            True,
            False,
            True,
            True,
        ]


def test_each_removed_tape_is_named(tmp_path: Path, pagetape: Callable[..., Any]) -> None:
    said: list[str] = []
    with tape_dir(tmp_path, keep=1.5e6, said=said.append) as it:
        paths = [add(it, NOON + timedelta(minutes=minute)) for minute in range(3)]
        it.tidy()
    assert [line.split(": removed, ")[0] for line in said] == [str(path) for path in paths[:2]]
    assert said[0].endswith(" MB, --keep 1.5 MB")
    found = pagetape("info", tmp_path, "--json").json
    assert [row["tape"] for row in found["removed"]] == [path.name for path in paths[:2]]
    assert (
        found["removed"][0]["finished_bytes"]
        == sum(row["bytes"] for row in found["removed"]) + (found["finished_bytes"])
    )
    assert [(row["tape"], row["state"]) for row in found["tapes"]] == [(paths[2].name, "finished")]
    text = pagetape("info", tmp_path).out
    assert f"{paths[0].name}  removed" in text and f"{paths[2].name}  finished" in text


def test_what_was_removed_is_read_with_care(tmp_path: Path, pagetape: Callable[..., Any]) -> None:
    """A list that leads elsewhere names nothing, and the next removal makes another."""
    with tape_dir(tmp_path / "tapes", keep=0) as it:
        paths = [add(it, NOON + timedelta(minutes=minute)) for minute in range(3)]
        listed = tmp_path / "tapes" / ".pagetape-removed"
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_text('{"at": "", "tape": "x", "bytes": 1}\n')
        listed.symlink_to(elsewhere)
        assert pagetape("info", tmp_path / "tapes", "--json").json["removed"] == []
        it.tidy()
    assert not listed.is_symlink() and elsewhere.read_text().count("\n") == 1
    listed.write_text(listed.read_text() + "torn {\n[1]\n")
    rows = pagetape("info", tmp_path / "tapes", "--json").json["removed"]
    assert [row["tape"] for row in rows] == [path.name for path in paths[:2]]


def test_without_a_bound_all_stay(tmp_path: Path) -> None:
    with tape_dir(tmp_path) as it:
        paths = [add(it, NOON + timedelta(minutes=minute)) for minute in range(3)]
        it.tidy()
        assert all(path.exists() for path in paths)


def test_a_directory_has_one_recorder(tmp_path: Path) -> None:
    with (
        tape_dir(tmp_path),
        pytest.raises(TapeError, match="another recorder uses this directory"),
    ):
        TapeDir(tmp_path, None)
    with tape_dir(tmp_path):
        pass


def test_a_tape_or_a_file_is_no_directory_for_tapes(tmp_path: Path) -> None:
    Writer(tmp_path / "t.tape", {}).close()
    with pytest.raises(TapeError, match=r"t\.tape: is a tape"):
        TapeDir(tmp_path / "t.tape", None)
    (tmp_path / "file").touch()
    with pytest.raises(TapeError, match=r"file: File exists"):
        TapeDir(tmp_path / "file", None)
    with pytest.raises(TapeError, match=r"no/such: No such file"):
        TapeDir(tmp_path / "no" / "such", None)


def test_what_a_killed_flight_recorder_left_is_shown_until_the_next_removes_it(
    tmp_path: Path, pagetape: Callable[..., Any]
) -> None:
    with tape_dir(tmp_path) as it:
        whole = add(it, NOON)
    left = tmp_path / f".{whole.name}.0123abcd.part"
    whole.rename(left)
    found = pagetape("info", tmp_path, "--json").json["tapes"]
    assert [(one["tape"], one["state"]) for one in found] == [(left.name, "half written")]
    fd = temporary.lock(left)
    (one,) = pagetape("info", tmp_path, "--json").json["tapes"]
    assert one["state"] == "being written"
    os.close(fd)
    with tape_dir(tmp_path):
        assert not left.exists()
