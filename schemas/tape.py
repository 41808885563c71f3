# SPDX-License-Identifier: Apache-2.0
"""Tapes on disk: a directory NAME.tape with one Arrow IPC file per table.

`Writer` makes one, `Tape` reads one. Every file carries the machine facts and the schema version
in its schema metadata, so each can stand alone. A file whose recorder was killed has no footer;
`Tape` reads it as far as it goes.

`Tape` gives today's names to the tables, columns, labels and policies of an older tape: no other
code has to know the former ones.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pagetape.schemas import RENAMES, TABLES, VERSION, Renames, Table
from pagetape.schemas.facts import parse_facts

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_VERSION_KEY = b"pagetape.version"
_FACTS_KEY = b"pagetape.facts"
_MAGIC = b"ARROW1\x00\x00"


class TapeError(OSError):
    """A tape cannot be read or written; the message has its path and the reason."""


def stored_schema(table: Table, facts: dict[str, Any]) -> pa.Schema:
    """The table's columns, with the schema version and the machine facts as metadata."""
    return table.arrow.with_metadata(
        {_VERSION_KEY: str(VERSION), _FACTS_KEY: json.dumps(facts, sort_keys=True)}
    )


def _versions() -> str:
    first = min(RENAMES, default=VERSION)
    return f"version {VERSION}" if first == VERSION else f"version {VERSION} and back to {first}"


def _renamed_facts(facts: dict[str, Any], renames: Renames) -> dict[str, Any]:
    """The facts of an older tape, with today's names for the policies of its replay."""
    replay = facts.get("replay")
    if not replay:
        return facts
    policies = [renames.policy(spec) for spec in replay["policies"]]
    return facts | {"replay": replay | {"policies": policies}}


def _reads(found: pa.Schema, known: pa.Schema) -> bool:
    """Whether `found` is `known`, or `known` without nullable columns at its end."""
    added = list(known)[len(found) :]
    return found.equals(pa.schema(list(known)[: len(found)])) and all(c.nullable for c in added)


class Writer:
    """Writes a tape: rows go to any table in any order, `facts` go into all.

    The tape appears under its name at once, with every required table, so that a killed recorder
    leaves the rows it had written. With `replace`, it replaces an older tape of that name;
    anything else of that name is an error. As a context manager it closes itself.

    With `over`, the directory exists and may hold a tape without rows, whose files are replaced
    one by one: at any time there is a tape.

    A renamed tape is written on under its new name. close() raises TapeError if it was removed.
    """

    def __init__(
        self, path: Path, facts: dict[str, Any], *, replace: bool = False, over: bool = False
    ) -> None:
        if path.exists() and not over:
            if not replace:
                raise TapeError(errno.EEXIST, f"{path}: exists already")
            if not is_tape(path):
                raise TapeError(errno.EEXIST, f"{path}: exists and is not a tape")
            shutil.rmtree(path)
        try:
            path.mkdir(mode=0o700, exist_ok=over)
        except OSError as e:
            raise TapeError(e.errno, f"{path}: {os.strerror(e.errno or errno.EIO)}") from e
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._place = Path(f"/proc/self/fd/{self._fd}")
        self.facts = facts
        self.nr_rows: Counter[str] = Counter()  # of each table
        self._files: dict[str, pa.ipc.RecordBatchFileWriter] = {}
        self._sinks: list[pa.NativeFile] = []
        required = [name for name, table in TABLES.items() if table.required]
        for name in sorted(required, key="event".__eq__):  # event.arrow makes it a tape: last
            self.rows(name, [])  # the file is empty before the first batch

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append a batch to table `name`."""
        with self._explained():
            part = None if name in self._files else self._new_file(name)
            self._files[name].write_batch(batch)
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
        self._files[name] = pa.ipc.new_file(
            self._sinks[-1],
            stored_schema(TABLES[name], self.facts),
            options=pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1)),
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
    return path.is_dir() and (path / "event.arrow").is_file()


class Tape:
    """A tape, opened for reading. Opening checks its version and its tables.

    `facts` are the machine facts. Tables are read when a method asks for them. All names are
    today's, also of an older tape: see RENAMES.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise TapeError(errno.ENOENT, f"{path}: no such tape")
        if not is_tape(path):
            raise TapeError(errno.EINVAL, f"{path}: not a tape (no event.arrow in it)")
        self.path = path
        self._renames = Renames()
        metadata = self._open("event").schema.metadata or {}
        version = metadata.get(_VERSION_KEY, b"none").decode(errors="replace")
        known = {str(VERSION): Renames()} | {str(old): names for old, names in RENAMES.items()}
        if version not in known:
            raise TapeError(
                errno.EPROTO,
                f"{path}: tape of schema version {version}; this pagetape reads {_versions()}",
            )
        self._renames = known[version]
        try:
            facts = parse_facts(metadata.get(_FACTS_KEY, b""))
            self.facts = _renamed_facts(facts, self._renames)
        except ValueError as e:
            raise TapeError(errno.EBADMSG, f"{path}: the machine facts are damaged: {e}") from e
        self.tables = {name for name in TABLES if self._file(name).is_file()}
        for name, table in TABLES.items():
            if table.required and name not in self.tables:
                raise TapeError(errno.ENOENT, f"{path}: table '{name}' is missing")

    def _file(self, name: str) -> Path:
        return self.path / f"{self._renames.former_table(name)}.arrow"

    def _open(
        self, name: str, column: int | None = None
    ) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
        """The table's reader; a file without a footer is read as a stream.

        With `column` only that column is read, if the file has a footer. The file is not mapped
        then: a mapping would count its pages as this process's memory.
        """
        file = self._file(name)
        options = pa.ipc.IpcReadOptions(included_fields=None if column is None else [column])
        try:
            source = pa.memory_map(str(file)) if column is None else pa.OSFile(str(file))
            try:
                return pa.ipc.open_file(source, options=options)
            except pa.ArrowException:
                if source.size() < len(_MAGIC) or source.read_at(len(_MAGIC), 0) != _MAGIC:
                    raise
                source.seek(len(_MAGIC))
                return pa.ipc.open_stream(source)
        except (pa.ArrowException, OSError) as e:
            raise TapeError(errno.EBADMSG, f"{file}: not an Arrow file: {e}") from e

    def _batch(self, name: str, reader: pa.ipc.RecordBatchFileReader, i: int) -> pa.RecordBatch:
        try:
            return reader.get_batch(i)
        except (pa.ArrowException, OSError) as e:
            raise TapeError(errno.EBADMSG, f"{self.path}: table '{name}' is damaged: {e}") from e

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """The batches of table `name` in file order; none if it is absent."""
        if name not in self.tables:
            return
        reader = self._open(name)
        if not _reads(self._renamed(name, reader.schema), TABLES[name].arrow):
            raise TapeError(errno.EPROTO, f"{self.path}: table '{name}' has other columns")
        if isinstance(reader, pa.ipc.RecordBatchFileReader):
            for i in range(reader.num_record_batches):
                yield self._checked(name, self._batch(name, reader, i))
            return
        while True:
            try:
                yield self._checked(name, reader.read_next_batch())
            except (StopIteration, pa.ArrowException, OSError):
                return  # the end, or the torn end of a killed recorder's file

    def _checked(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            batch.validate(full=True)
        except pa.ArrowException as e:
            raise TapeError(errno.EBADMSG, f"{self.path}: table '{name}' is damaged: {e}") from e
        schema = TABLES[name].arrow
        columns = [
            self._relabelled(name, field, array)
            for field, array in zip(schema, batch.columns, strict=False)
        ]
        missing = [pa.nulls(len(batch), field.type) for field in list(schema)[len(columns) :]]
        return pa.RecordBatch.from_arrays([*columns, *missing], schema=schema)

    def _renamed(self, name: str, found: pa.Schema) -> pa.Schema:
        """The schema of table `name` in the file, with today's names of its columns."""
        return pa.schema([f.with_name(self._renames.column(name, f.name)) for f in found])

    def _relabelled(self, name: str, field: pa.Field, array: pa.Array) -> pa.Array:
        """A column of table `name`, with today's labels or words for the former ones."""
        if f"{name}.{field.name}" not in self._renames.labels:
            return array
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        former = coded.dictionary.to_pylist()
        labels = [self._renames.label(name, field.name, label) for label in former]
        found = pa.DictionaryArray.from_arrays(coded.indices, pa.array(labels, pa.utf8()))
        return found.cast(array.type) if coded is not array else found

    def table(self, name: str) -> pa.Table:
        """All of table `name` in memory; empty if it is absent."""
        return pa.Table.from_batches(self.batches(name), TABLES[name].arrow)

    def dataset(self, name: str) -> ds.Dataset | pa.Table:
        """Table `name` for a query engine, which reads only the columns that it needs.

        A table with former names is read whole.
        """
        if (
            name in self.tables
            and not self._renames.touches(name)
            and isinstance(self._open(name), pa.ipc.RecordBatchFileReader)
        ):
            import pyarrow.dataset as ds  # a third of a command's start-up; writing needs none

            file = str(self._file(name).absolute())  # "a:b.tape" alone is a URI
            return ds.dataset(file, schema=TABLES[name].arrow, format="ipc")
        return self.table(name)

    def num_rows(self, name: str) -> int:
        """Rows of table `name`; reads no more than one column."""
        if name not in self.tables:
            return 0
        reader = self._open(name, column=1)  # of `event` a narrow one
        if not isinstance(reader, pa.ipc.RecordBatchFileReader):
            return int(self.table(name).num_rows)
        batches = (self._batch(name, reader, i) for i in range(reader.num_record_batches))
        return sum(batch.num_rows for batch in batches)

    def span(self, name: str) -> tuple[int, int] | None:
        """First and last `ts` of an event table, which is sorted by it; None without rows."""
        if name not in self.tables:
            return None
        reader = self._open(name, column=TABLES[name].arrow.get_field_index("ts"))
        if not isinstance(reader, pa.ipc.RecordBatchFileReader):
            ts = self.table(name).column("ts")
            return (ts[0].as_py(), ts[-1].as_py()) if len(ts) else None
        nr = reader.num_record_batches
        read = partial(self._batch, name, reader)
        first = next((b for b in map(read, range(nr)) if b.num_rows), None)
        last = next((b for b in map(read, reversed(range(nr))) if b.num_rows), None)
        if first is None or last is None:
            return None
        return first.column("ts")[0].as_py(), last.column("ts")[-1].as_py()

    def around(self, name: str, first: int, last: int) -> tuple[int, pa.Table]:
        """The batches of an event table with rows of `first` <= ts <= `last` (ns), and the number
        of rows before them. Other batches are not read."""
        reader = self._open(name, column=TABLES[name].arrow.get_field_index("ts"))
        if not isinstance(reader, pa.ipc.RecordBatchFileReader):
            return 0, self.table(name)

        def ts(batch: int, row: int) -> int:
            column = self._batch(name, reader, batch).column("ts")
            return int(column[row].as_py()) if len(column) else 0

        nr = reader.num_record_batches
        begin = bisect_left(range(nr), first, key=lambda i: ts(i, -1))
        end = bisect_right(range(nr), last, key=lambda i: ts(i, 0))
        before = sum(self._batch(name, reader, i).num_rows for i in range(begin))
        whole = self._open(name)
        batches = [self._checked(name, self._batch(name, whole, i)) for i in range(begin, end)]
        return before, pa.Table.from_batches(batches, TABLES[name].arrow)

    @property
    def clock(self) -> tuple[int, int] | None:
        """Time (ns) of the first and the last event of any table; None without events. A replay
        that stored only some events has these times among its facts."""
        if played := self.facts.get("replay", {}).get("clock"):
            return played[0], played[1]
        spans = [self.span(name) for name in ("event", "reclaim", "compaction")]
        known = [span for span in spans if span]
        return (min(s[0] for s in known), max(s[1] for s in known)) if known else None

    @property
    def complete(self) -> bool:
        """Whether the recorder finished; the tape of a killed recorder is torn."""
        return all(
            isinstance(self._open(name), pa.ipc.RecordBatchFileReader) for name in self.tables
        )

    @property
    def bytes(self) -> int:
        """Size on disk, in bytes."""
        return sum(file.stat().st_size for file in self.path.iterdir() if file.is_file())
