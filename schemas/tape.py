# SPDX-License-Identifier: Apache-2.0
"""Tapes on disk: an Arrow file for each table, in a directory or, once closed, in one file.

`Writer` makes a directory, `bundle` one file of it, `Tape` reads both. The file of `event` has the
machine facts in its schema metadata, each file the schema version. A file whose recorder was
killed has no footer; `Tape` reads it as far as it goes.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape.schemas import TABLES, VERSION, bundle
from pagetape.schemas.facts import parse_facts
from pagetape.schemas.form import WRITTEN, GroupedRows, Kinds, form_of
from pagetape.schemas.table_file import (
    Choice,
    Section,
    TableError,
    TableFile,
    check_regular,
    read_metadata,
)

SPOOL = "spool"  # directory of events that are not rows yet: a finished tape has none
_VERSION_KEY = b"pagetape.version"
_FACTS_KEY = b"pagetape.facts"

_BATCH_ROWS = 1 << 20  # most rows of a stored batch: of the widest table, 0.5 GB
OLDEST = 2  # version of a tape that is still read: its event tables are not in groups

# Limits of what Tape.table and Tape.rows hold in memory.
_HELD = 1 << 30  # decoded bytes of a table, ...
_HELD_RATIO = 64  # ... or this many per byte of a larger file
_CELLS = 1 << 24  # values of a table as Python objects, about 1 GB


class TapeError(OSError):
    """A tape cannot be read or written; the message has its path and the reason."""


def file_metadata(facts: dict[str, Any] | None = None) -> dict[bytes, str]:
    """The metadata of a table's file: the schema version, and any machine facts."""
    about = {} if facts is None else {_FACTS_KEY: json.dumps(facts, sort_keys=True)}
    return {_VERSION_KEY: str(VERSION), **about}


class Writer:
    """Writes a tape: rows go to any table in any order, `facts` go into the table `event`.

    The tape appears under its name at once, with every required table, so that a killed recorder
    leaves the rows it had written. With `replace`, it replaces an older tape of that name;
    anything else of that name is an error. As a context manager it closes itself.

    With `over`, the directory exists and may hold a tape without rows, whose files are replaced
    one by one: at any time there is a tape. It may have been renamed since it had the name `path`:
    then `at` leads to it.

    A renamed tape is written on under its new name. close() raises TapeError if it was removed.
    """

    def __init__(
        self,
        path: Path,
        facts: dict[str, Any],
        *,
        replace: bool = False,
        over: bool = False,
        at: Path | None = None,
    ) -> None:
        if path.exists() and not over:
            if not replace:
                raise TapeError(errno.EEXIST, f"{path}: exists already")
            if not is_tape(path):
                raise TapeError(errno.EEXIST, f"{path}: exists and is not a tape")
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        try:
            if not over:
                path.mkdir(mode=0o700)
            self._fd = os.open(at or path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as e:
            raise TapeError(e.errno, f"{path}: {os.strerror(e.errno or errno.EIO)}") from e
        self.path = path
        self._place = Path(f"/proc/self/fd/{self._fd}")
        self.facts = facts
        self.nr_rows: Counter[str] = Counter()  # of each table
        self._files: dict[str, pa.ipc.RecordBatchFileWriter] = {}
        self._sinks: list[pa.NativeFile] = []
        required = [name for name, table in TABLES.items() if table.required]
        for name in sorted(required, key="event".__eq__):  # event.arrow makes it a tape: last
            self.rows(name, [])  # the file is empty before the first batch

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append a batch to table `name`, in pieces that readers can hold."""
        with self._explained():
            part = None if name in self._files else self._new_file(name)
            for stored, about in form_of(name).stored(batch, _BATCH_ROWS):
                self._files[name].write_batch(stored, about)
            if part:  # the schema comes with the first batch
                part.rename(self._place / f"{name}.arrow")
        self.nr_rows[name] += batch.num_rows

    def rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Append Python rows to table `name`; missing keys are null."""
        self.write(name, TABLES[name].batch(rows))

    def _new_file(self, name: str) -> Path:
        """Begin a table, in a file with a temporary name."""
        path = self._place / f"{name}.part"
        path.touch(mode=0o600)
        self._sinks.append(pa.OSFile(str(path), "wb"))
        facts = self.facts if name == "event" else None
        self._files[name] = pa.ipc.new_file(
            self._sinks[-1], form_of(name).file_schema(file_metadata(facts)), options=WRITTEN
        )
        return path

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Report a full disk and similar errors as a TapeError."""
        try:
            yield
        except OSError as e:
            why = os.strerror(e.errno or errno.EIO)
            if self._fd >= 0 and not os.fstat(self._fd).st_nlink:
                why = "was removed while it was written"
            raise TapeError(e.errno, f"{self.path}: {why}") from e

    def where(self) -> Path | None:
        """The tape's path now: another one if it was renamed, None if it was removed."""
        mine = os.fstat(self._fd)
        with suppress(OSError):
            there = self.path.stat()
            if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
                return self.path
        return Path(self._place.readlink()) if mine.st_nlink else None

    def close(self) -> None:
        """Write the footers of all tables, even if one of them fails."""
        removed = self._fd >= 0 and not os.fstat(self._fd).st_nlink
        self._close()
        if removed:
            raise TapeError(errno.ENOENT, f"{self.path}: was removed while it was written")

    def _close(self) -> None:
        with self._explained(), ExitStack() as stack:
            for file in (*self._sinks, *self._files.values()):  # closed from the last on
                stack.callback(file.close)
            self._files.clear()
            self._sinks.clear()
            if self._fd >= 0:
                stack.callback(os.close, self._fd)
                self._fd = -1

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_tape(path: Path) -> bool:
    """Whether `path` looks like a tape, readable or not."""
    if path.is_dir():
        return (path / "event.arrow").is_file()
    return path.is_file() and bundle.is_bundle(path)


def _about_file(path: Path) -> str:
    """Why a file is no tape, and the next step."""
    if is_tape(path.parent):
        return f"a file of the tape {path.parent}; pass that directory"
    return "pagetape import makes one of a trace.dat"


def _about_version(version: str) -> str:
    """Why a tape of another schema version cannot be read, and the next step."""
    why = f"tape of schema version {version}; this pagetape reads versions {OLDEST} to {VERSION}"
    if not version.isdecimal() or int(version) > VERSION:
        return why
    return f"{why}: record or import it again, or use the pagetape that made it"


class Tape:
    """A tape, opened for reading. Opening checks its version and its tables.

    `facts` are the machine facts. Tables are read when a method asks for them, and are checked
    then: see TableFile. Methods raise TapeError for a table that is damaged, of another
    kind, or no regular file.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise TapeError(errno.ENOENT, f"{path}: no such tape")
        self.path = path
        self._sections = self._find()
        if "event" not in self._sections:
            why = "not a tape" if path.is_dir() else "cut off, or not a tape"
            raise TapeError(errno.EINVAL, f"{path}: {why} (no event.arrow in it)")
        with self._explained("event"):
            metadata = read_metadata(self._sections["event"])
        version = metadata.get(_VERSION_KEY, b"none")[:20].decode(errors="replace")
        if not version.isdecimal() or not OLDEST <= int(version) <= VERSION:
            raise TapeError(errno.EPROTO, f"{path}: {_about_version(version)}")
        if _FACTS_KEY not in metadata:
            why = "has no machine facts: it is the file of another table"
            raise TapeError(errno.EBADMSG, f"{path}: table 'event' {why}")
        try:
            self.facts = parse_facts(metadata[_FACTS_KEY])
        except ValueError as e:
            raise TapeError(errno.EBADMSG, f"{path}: the machine facts are damaged: {e}") from e
        self.tables = set(self._sections)
        for name, table in TABLES.items():
            if table.required and name not in self.tables:
                raise TapeError(errno.ENOENT, f"{path}: table '{name}' is missing")

    def _find(self) -> dict[str, Section]:
        """Where each table is."""
        if self.path.is_dir():
            places = {name: self.path / f"{name}{bundle.SUFFIX}" for name in TABLES}
            return {name: Section(file) for name, file in places.items() if os.path.lexists(file)}
        try:
            if not is_tape(self.path):
                if self.path.is_file():
                    self.path.open("rb").close()  # may it be read?
                why = f"not a tape: {_about_file(self.path)}"
                raise TapeError(errno.ENOTDIR, f"{self.path}: {why}")
            return bundle.sections(self.path)
        except TableError as e:
            raise TapeError(errno.EBADMSG, f"{self.path}: {e}") from e
        except TapeError:
            raise
        except OSError as e:
            raise TapeError(e.errno, f"{self.path}: {os.strerror(e.errno or errno.EIO)}") from e

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Report an unreadable table as a TapeError."""
        try:
            yield
        except TableError as e:
            raise TapeError(errno.EBADMSG, f"{self.path}: table '{name}' {e}") from e
        except OSError as e:
            why = os.strerror(e.errno) if e.errno else str(e)
            raise TapeError(e.errno, f"{self._sections[name].path}: {why}") from e

    @contextmanager
    def _opened(self, name: str) -> Iterator[TableFile]:
        """The open file of a table; its errors are TapeErrors."""
        with self._explained(name):
            yield TableFile(self._sections[name], TABLES[name])

    def batches(
        self,
        name: str,
        columns: Collection[str] | None = None,
        choice: tuple[str, Choice] | None = None,
        kinds: Kinds = None,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of table `name` in file order; none if it is absent.

        With `columns`, they have only those, in the table's order; the others as of a TableFile.
        """
        if name in self.tables:
            with self._opened(name) as file:
                yield from file.batches(columns, choice, kinds)

    def grouped(
        self, name: str, columns: Collection[str], choice: tuple[str, Choice] | None = None
    ) -> Iterator[GroupedRows]:
        """The same, with the columns of groups apart."""
        if name in self.tables:
            with self._opened(name) as file:
                yield from file.grouped(columns, choice)

    def table(self, name: str) -> pa.Table:
        """All of table `name` in memory; empty if it is absent."""
        if name not in self.tables:
            return TABLES[name].arrow.empty_table()
        with self._opened(name) as file:
            machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            most = min(max(_HELD, _HELD_RATIO * file.bytes), machine // 2)
            if file.decoded > most:
                raise TableError(f"takes {file.decoded:,} bytes of memory; the limit is {most:,}")
            return pa.Table.from_batches(file.batches(), TABLES[name].arrow)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All of table `name` as Python rows, for tables of a few million values at most."""
        cells = self.num_rows(name) * len(TABLES[name].columns)
        if cells > _CELLS:
            why = f"has {cells:,} values; the limit is {_CELLS:,}"
            raise TapeError(errno.EFBIG, f"{self.path}: table '{name}' {why}")
        found: list[dict[str, Any]] = self.table(name).to_pylist()
        return found

    def num_rows(self, name: str) -> int:
        """Rows of table `name`; only a file without a footer is decoded."""
        if name not in self.tables:
            return 0
        with self._opened(name) as file:
            return file.num_rows

    def span(self, name: str) -> tuple[int, int] | None:
        """First and last `ts` of an event table, which is sorted by it; None without rows."""
        if name not in self.tables:
            return None
        with self._opened(name) as file:
            return file.span("ts")

    def around(self, name: str, first: int, last: int) -> tuple[int, pa.Table]:
        """The batches of an event table with rows of `first` <= ts <= `last` (ns), and the number
        of rows before them. Other batches are not read, if the file has a footer."""
        with self._opened(name) as file:
            before, batches = file.between(first, last)
        return before, pa.Table.from_batches(batches, TABLES[name].arrow)

    @property
    def clock(self) -> tuple[int, int] | None:
        """Time (ns) of the first and the last event of any table; None without events. A replay
        that stored only some events has these times among its facts. A tape of /proc over time has
        those of its first and last moment, one of the event set lock those of its snapshots."""
        if played := self.facts.get("replay", {}).get("clock"):
            return played[0], played[1]
        if self.facts.get("event_set") == "proc":
            moments = self.span("snapshot")
            return moments if moments and moments[0] else None  # 0: their times are unknown
        names = ["event", "reclaim", "compaction", "lock_event"]
        if self.facts.get("event_set") == "lock":  # waits are too rare to show its length
            names.append("snapshot")
        spans = map(self.span, names)
        known = [span for span in spans if span]
        return (min(s[0] for s in known), max(s[1] for s in known)) if known else None

    @property
    def files(self) -> list[Path]:
        """The files of the tables; raises TapeError unless all are regular files."""
        for name, section in self._sections.items():
            with self._explained(name):
                check_regular(section.path)
        return sorted({section.path for section in self._sections.values()})

    @property
    def checksums(self) -> list[tuple[str, int, int]] | None:
        """Name, bytes and CRC-32 of each table of a whole tape in one file, else None. TableFile
        checks a table against its CRC."""
        found = [
            (name, section.bytes, section.crc)
            for name, section in sorted(self._sections.items())
            if section.bytes is not None and section.crc is not None
        ]
        return found if len(found) == len(self._sections) else None

    @property
    def complete(self) -> bool:
        """Whether the recorder finished. The tape of a killed one is torn, or has a spool."""
        waiting = (self.path / SPOOL).is_dir()
        return not waiting and not self.cut_off

    @cached_property
    def cut_off(self) -> tuple[str, ...]:
        """The tables that is_cut(), by name. The first look opens every table."""
        return tuple(name for name in sorted(self.tables) if self.is_cut(name))

    def is_cut(self, name: str) -> bool:
        """Whether the file of a table has no end: the recorder was killed, or the file was cut
        since. Of a tape in one file, `event` is cut if anything behind it is. False for an absent
        table."""
        if name not in self.tables:
            return False
        with self._opened(name) as file:
            last = name == "event" and not self.path.is_dir()
            return file.torn or (last and not bundle.has_end(self.path))

    @property
    def bytes(self) -> int:
        """Size on disk, in bytes."""
        files = self.path.iterdir() if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files if file.is_file())
