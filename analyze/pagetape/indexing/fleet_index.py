# SPDX-License-Identifier: Apache-2.0
"""The index of an archive as a reader sees it: the newest generation of each day of a question."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from pagetape.archive import listing, names
from pagetape.archive.store import Object, Store, StoreError
from pagetape.asking import archived
from pagetape.indexing import host_rows, manifest
from pagetape.indexing.copies import Copies
from pagetape.indexing.manifest import Manifest

_AT_ONCE = 8  # manifests that are read at the same time
_COMPARED = 20_000  # tapes of a question up to which the list of tapes is compared with the index

_PART = 300_000  # rows of the index that are summed up at a time
_LONG_AGO = datetime.fromtimestamp(0, UTC)


# The days whose tapes are read one by one, others by host; None: all days.
Single: TypeAlias = "Collection[str] | None"


def _say_nothing(_: str) -> None:
    """compact and verify say which objects are no tapes."""


class FleetIndex:
    """The segments of some days, numbered; their files are fetched when a question needs them."""

    def __init__(self, store: Store, days: tuple[str | None, str | None] = (None, None)) -> None:
        """`days`: the first and the last one; None for no limit. Tapes without a date are in a
        question without limits only."""
        self._store, self._days = store, days
        self.copies = Copies(store)
        self._read()

    def _read(self) -> None:
        known = manifest.generations(self._store)
        numbers = {day: max(known[day]) for day in sorted(known) if self._asked(day)}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            of_day = pool.map(lambda d: manifest.read(self._store, *d), numbers.items())
            self.manifests: list[Manifest] = [*of_day]
        self._segments = [(one.date, part) for one in self.manifests for part in one.segments]

    def _asked(self, day: str) -> bool:
        first, last = self._days
        if day == names.UNKNOWN:
            return first is None and last is None
        return (first or "") <= day and (last is None or day <= last)

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def tapes(self) -> int:
        return sum(one.tapes for one in self.manifests)

    def _name(self, nr: int, table: str, single: Single) -> str:
        """The name of a table in a segment: of rows by host, if the question may have them."""
        day, segment = self._segments[nr]
        by_host = host_rows.PREFIX + archived.TAPE.removeprefix(archived.PREFIX)
        if single is None or day in single or by_host not in segment.files:
            return table
        return host_rows.PREFIX + table

    def parts(self, segments: Collection[int] | None, single: Single = None) -> list[list[int]]:
        """Segments in parts with not too many rows each; at least one part, which may be empty."""
        found: list[list[int]] = [[]]
        rows = 0.0
        for nr in sorted(range(len(self._segments)) if segments is None else segments):
            segment = self._segments[nr][1]
            read, of_tapes = (
                segment.files.get(self._name(nr, "tape", s), 1) for s in (single, None)
            )
            size = segment.tapes * read / of_tapes  # rows take much the same bytes
            if rows and rows + size > _PART:
                found.append([])
                rows = 0
            found[-1].append(nr)
            rows += size
        return found

    def unlisted(self) -> tuple[int, int] | None:
        """Tapes of these days that the index lacks, and tapes of the index that the archive has no
        more; None for so many tapes that a list takes long."""
        if self.tapes > _COMPARED:
            return None
        there = set()
        for below in self._store.below(names.TAPES):
            if self._asked(day := below.removeprefix("date=")):
                found = listing.tapes(self._store, day, say=_say_nothing)
                there |= {named.identity for named, _ in found}
                if len(there) > 2 * _COMPARED:
                    return None
        table = self.tables(["tape"])[archived.source("tape")]
        known = {*table.scanner(columns=["identity"]).to_table()["identity"].to_pylist()}
        return len(there - known), len(known - there)

    def tables(
        self,
        wanted: Collection[str],
        segments: Collection[int] | None = None,
        single: Single = None,
    ) -> dict[str, SegmentRows]:
        """Tables for Database.read_archive(): of these names, with the rows of these segments, or
        of all. Fetches their files. Another compactor may remove an old generation meanwhile: then
        the next one is read."""
        found = {archived.source(name): SegmentRows(self, name, single) for name in wanted}
        try:
            for rows in found.values():
                rows.choose(segments)
        except StoreError as e:
            if e.errno != errno.ENOENT or segments is not None:
                raise
            self._read()
            for rows in found.values():
                rows.choose(None)
        return found

    def files(
        self, table: str, segments: Collection[int] | None, single: Single
    ) -> list[tuple[int, Path]]:
        """The files of a table on this machine, with the numbers of their segments."""
        files = [
            (nr, Object(manifest.data_name(day, part.identity, name), size, None, _LONG_AGO))
            for nr, (day, part) in enumerate(self._segments)
            if (segments is None or nr in segments)
            and (size := part.files.get(name := self._name(nr, table, single)))
        ]
        paths = self.copies.paths([one for _, one in files])
        return [(nr, path) for (nr, _), path in zip(files, paths, strict=True)]


class SegmentRows(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """The rows of a table in some segments, which may be others at the next scan."""

    def __init__(self, index: FleetIndex, name: str, single: Single) -> None:
        """Without that of pyarrow, which needs rows."""
        self._index, self._name, self._single = index, name, single
        self._rows = _dataset(name, ())

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def choose(self, segments: Collection[int] | None) -> None:
        """Have the rows of these segments from now on, or of all; fetches their files."""
        files = self._index.files(self._name, segments, self._single)
        try:
            self._rows = _dataset(self._name, files)
        except (pa.ArrowException, OSError) as e:
            why = f"{str(e).splitlines()[0]}; pagetape compact {self._index.url} --rebuild"
            raise StoreError(errno.EBADMSG, f"{self._index.url}: index damaged: {why}") from e

    def scanner(self, *args: Any, **how: Any) -> ds.Scanner:
        return self._rows.scanner(*args, **how)


def _dataset(name: str, files: Iterable[tuple[int, Path]]) -> ds.Dataset:
    """The rows of files with their segments. Texts that repeat come as dictionaries."""
    schema = pa.schema([archived.SEGMENT, *archived.tables()[name]])
    texts = archived.repeated(schema)
    for at, field in enumerate(schema):
        if field.name in texts:
            schema = schema.set(at, field.with_type(pa.dictionary(pa.int32(), pa.utf8())))
    parquet = ds.ParquetFileFormat(dictionary_columns=set(texts))
    disk = pa.fs.LocalFileSystem()
    fragments = [
        parquet.make_fragment(
            str(path), disk, ds.field("segment") == pa.scalar(nr, archived.SEGMENT.type)
        )
        for nr, path in files
    ]
    for fragment in fragments:
        fragment.ensure_complete_metadata()
        archived.check(fragment.physical_schema, name)
    return ds.FileSystemDataset(fragments, schema, parquet, disk)
