# SPDX-License-Identifier: Apache-2.0
"""A tape in one file: what others read of it, what a cut leaves, and what is refused."""

import os
import re
import shutil
import struct
import tempfile
import types
import zipfile
from pathlib import Path
from typing import Any

import matrix
import pyarrow as pa
import pytest

from pagetape.schemas import TABLES, bundle
from pagetape.schemas.form import in_batches_of
from pagetape.schemas.tape import Tape, TapeError, Writer, is_tape

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs/format.md"
DEMO = ROOT / "analyze/demo/pressure.tape"


def events(nr: int) -> list[dict[str, Any]]:
    """Events with all that a difference must bear: null frames, frames above 2^32, gaps of more
    than 4.3 s, and rows of one CPU at one instant."""
    kinds = [kind.name for kind in TABLES["event"].kinds]
    return [
        {
            "ts": 5_000_000_000 * (i // 50) + i // 3,
            "cpu": i % 7 % 3,
            "pid": i % 11,
            "kind": kinds[i * i % len(kinds)],
            "flags": i % 5 and 1,
            "pfn": None if i % 13 == 0 else (i * 7919 % 1000) + (1 << 33) * (i % 17 == 0),
            "page_order": None if i % 4 == 0 else i % 10,
            "migratetype": None if i % 6 == 0 else "MOVABLE",
        }
        for i in range(nr)
    ]


def reclaims(nr: int) -> list[dict[str, Any]]:
    kinds = [kind.name for kind in TABLES["reclaim"].kinds]
    return [
        {"ts": 3 * i, "cpu": i % 2, "pid": 9, "flags": 0, "at": i, "kind": kinds[i % len(kinds)]}
        for i in range(nr)
    ]


def samples(nr: int) -> list[dict[str, Any]]:
    """Counters of the machine and of zones, up and down, also below 0."""
    names = [("pgfault", None, None), ("free", 0, "NORMAL"), ("free", 1, "NORMAL"), ("ä", 0, None)]
    return [
        {
            "ts": 10 * (i // 5),
            "at": i // 7,
            "value": (-7) ** (i % 9),
            "began": None if i % 11 == 0 else 9 * (i // 5),
            **dict(zip(("name", "node", "zone"), names[i * i % 4], strict=True)),
        }
        for i in range(nr)
    ]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A closed tape, with many small batches and one large one."""
    with Writer(tmp_path / "directory.tape", {"kernel": "6.1.0"}) as tape:
        tape.rows("event", events(70_000))
        for first in range(0, 90, 3):
            tape.rows("reclaim", reclaims(90)[first : first + 3])
        tape.rows("task", [{"pid": 1, "comm": "one"}])
        for first in (0, 50):
            tape.rows("sample", samples(100)[first : first + 50])
    return tmp_path / "directory.tape"


@pytest.fixture
def path(directory: Path, tmp_path: Path) -> Path:
    path = tmp_path / "a.tape"
    path.touch()
    bundle.write(directory, path)
    return path


def same(one: Tape, other: Tape) -> bool:
    return one.facts == other.facts and all(one.table(name) == other.table(name) for name in TABLES)


def test_one_file_has_the_rows_of_the_directory(directory: Path, path: Path) -> None:
    assert is_tape(path) and same(Tape(path), Tape(directory))
    assert Tape(path).complete and not Tape(path).cut_off
    assert Tape(path).bytes == path.stat().st_size and Tape(path).files == [path]


def test_any_zip_program_unpacks_it_into_a_tape(
    directory: Path, path: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "unpacked.tape")
    assert same(Tape(tmp_path / "unpacked.tape"), Tape(directory))


def test_equal_tapes_are_equal_bytes(directory: Path, path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tape"
    again.touch()
    bundle.write(directory, again)
    assert again.read_bytes() == path.read_bytes()


def test_small_batches_become_one(directory: Path, path: Path) -> None:
    assert len(list(Tape(directory).batches("reclaim"))) == 31
    assert len(list(Tape(path).batches("reclaim"))) == 1
    assert len(list(Tape(path).batches("event"))) == len(list(Tape(directory).batches("event")))


def test_a_recording_takes_few_bytes(tmp_path: Path) -> None:
    """2.25 bytes an event, in 14 columns: pyarrow pays for each, also for one of zeros."""
    events = Tape(DEMO)
    with Writer(tmp_path / "a.tape", events.facts) as tape:
        for batch in in_batches_of(1 << 17, events.batches("event")):
            tape.write("event", batch)
    size = (tmp_path / "a.tape/event.arrow").stat().st_size
    assert size / events.num_rows("event") < 2.3
    with pa.OSFile(str(tmp_path / "a.tape/event.arrow")) as file:
        assert len(pa.ipc.open_file(file).schema) == 14


def reader() -> Any:
    """The reader that docs/format.md shows."""
    found = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found and len(found[1].splitlines()) <= 60 and "import pagetape" not in found[1]
    module = types.ModuleType("reader")
    exec(compile(found[1], str(DOCS), "exec"), module.__dict__)
    return module


def test_the_reader_of_the_docs_has_every_row(path: Path) -> None:
    facts, tables = reader().tables(path)
    assert facts == {"kernel": "6.1.0"}
    for name, batches in tables.items():
        rows = [
            dict(zip(batch, values, strict=True))
            for batch in batches
            for values in zip(*(one.to_pylist() for one in batch.values()), strict=True)
        ]
        assert rows == Tape(path).rows(name), name


def test_the_reader_of_the_docs_reads_an_empty_tape(tmp_path: Path) -> None:
    with Writer(tmp_path / "d.tape", {}):
        pass
    path = tmp_path / "a.tape"
    path.touch()
    bundle.write(tmp_path / "d.tape", path)
    facts, tables = reader().tables(path)
    assert facts == {} and not any(len(one) for one in tables["event"][0].values())
    assert Tape(path).rows("event") == []


def test_a_cut_keeps_all_small_tables_and_the_first_events(path: Path) -> None:
    data = path.read_bytes()
    whole = {name: Tape(path).table(name) for name in ("event", "reclaim", "task")}
    last = data.index(b"PK\1\2")  # after the events, which end with a footer
    found = []
    for end in range(last - 1, data.index(b"event.arrow") + 5000, -1999):
        path.write_bytes(data[:end])
        cut = Tape(path)
        assert cut.cut_off == ("event",) and not cut.complete
        assert all(cut.table(name).equals(whole[name]) for name in ("reclaim", "task"))
        found.append(cut.num_rows("event"))
        assert cut.table("event").equals(whole["event"].slice(0, found[-1]))
    assert set(found) == {70_000, 65_536, 0}


def test_a_cut_behind_the_events_is_noticed_and_loses_no_row(path: Path) -> None:
    data = path.read_bytes()
    whole = Tape(path).table("event")
    for end in range(len(data) - 1, data.index(b"PK\1\2") - 1, -matrix.number(7, 1)):
        path.write_bytes(data[:end])
        cut = Tape(path)
        assert cut.cut_off == ("event",) and not cut.complete, end
    assert cut.table("event").equals(whole)


def test_a_comment_of_a_zip_program_is_no_cut(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"of web1"
    assert Tape(path).complete


def test_every_cut_is_read_or_refused_in_one_line(path: Path) -> None:
    data = path.read_bytes()
    for size in (*range(0, 5000, 61), *range(len(data) - 900, len(data), 37)):
        path.write_bytes(data[:size])
        try:
            Tape(path).num_rows("event")
        except TapeError as e:
            assert "\n" not in str(e) and str(path) in str(e)


def test_a_cut_before_the_events_says_so(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(TapeError, match=r"cut off, or not a tape \(no event.arrow in it\)"):
        Tape(path)


def entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked(path: Path, found: dict[str, bytes], how: int) -> None:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in found.items():
            archive.writestr(name, data)


def test_a_tape_that_was_compressed_again_names_the_next_step(path: Path) -> None:
    repacked(path, entries(path), zipfile.ZIP_DEFLATED)
    with pytest.raises(TapeError, match="has 'event' compressed or streamed; zip -0 stores it"):
        Tape(path)


def test_a_tape_that_was_stored_again_is_the_same(directory: Path, path: Path) -> None:
    repacked(path, entries(path) | {"notes.txt": b"mine"}, zipfile.ZIP_STORED)
    assert same(Tape(path), Tape(directory))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_table_twice_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("task.arrow", b"")
    with pytest.raises(TapeError, match="has the table 'task' twice"):
        Tape(path)


def test_bytes_between_entries_are_refused(path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\3\4", 4)
    data[at : at + 4] = b"what"
    path.write_bytes(data)
    with pytest.raises(TapeError, match=f"is damaged at byte {at:,}: no entry begins there"):
        Tape(path)


def test_a_link_leads_to_it(directory: Path, path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.tape").symlink_to(path)
    assert same(Tape(tmp_path / "link.tape"), Tape(directory))


def test_sizes_beyond_any_file_are_a_cut(path: Path) -> None:
    """The size of `task`, in the header and in its extra field, is 2^64 - 1."""
    data = bytearray(path.read_bytes())
    at = data.index(b"task.arrow")
    data[at - 12 : at - 4] = b"\xff" * 8
    data[at - 2 : at] = struct.pack("<H", 20)
    data[at + 10 : at + 30] = struct.pack("<2H2Q", 1, 16, (1 << 64) - 1, (1 << 64) - 1)
    path.write_bytes(data)
    with pytest.raises(TapeError, match=f"{path}: "):
        Tape(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_tape_of_others_says_that_it_may_not_be_read(path: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        other = Path(shutil.copy(path, directory))
        other.chmod(0o600)
        os.seteuid(65534)
        try:
            with pytest.raises(TapeError, match="Permission denied"):
                Tape(other)
        finally:
            os.seteuid(0)


def test_a_flipped_bit_is_found(directory: Path, path: Path, tmp_path: Path) -> None:
    """Most would decode to other values."""
    data = bytearray(path.read_bytes())
    begin, end = data.index(b"event.arrow") + 11, data.index(b"PK\1\2")
    for at in range(begin + 2500, end - 5000, (end - begin) // 20):
        damaged = tmp_path / f"{at}.tape"
        damaged.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(TapeError, match="table 'event' is damaged: its checksum differs"):
            Tape(damaged).table("event")
        assert Tape(damaged).rows("reclaim") == Tape(directory).rows("reclaim")


@pytest.mark.parametrize(("damage", "why"), [(5, "the 1 bytes that its entry names"), (0, "Error")])
def test_a_damaged_small_entry_is_refused(path: Path, damage: int, why: str) -> None:
    """`task` is deflated: its size is wrong, or its bytes are."""
    data = bytearray(path.read_bytes())
    name = data.index(b"task.arrow")
    if damage:
        data[name - 8 : name - 4] = struct.pack("<I", 1)
    else:
        data[name + 14 : name + 40] = bytes(26)
    path.write_bytes(data)
    with pytest.raises(TapeError, match=rf"table 'task' .*{why}"):
        Tape(path).table("task")
