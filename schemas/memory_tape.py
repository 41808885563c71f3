# SPDX-License-Identifier: Apache-2.0
"""Tapes whose rows, or some of them, are in memory: they are asked and then dropped."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape.schemas import TABLES
from pagetape.schemas.form import GroupedRows, Kinds, in_groups
from pagetape.schemas.table_file import Choice
from pagetape.schemas.tape import Tape


def _chosen(name: str, columns: Collection[str] | None) -> list[str]:
    return [n for n in TABLES[name].arrow.names if columns is None or n in columns]


class _InMemory(Tape):
    """A tape with rows in memory, which are in no groups."""

    def grouped(
        self, name: str, columns: Collection[str], choice: tuple[str, Choice] | None = None
    ) -> Iterator[GroupedRows]:
        for rows in self.batches(name, columns, choice):
            yield from in_groups(rows, TABLES[name])


class MemoryTape(_InMemory):
    """Takes rows like a Writer, and has them like a tape on disk. `path` names it in messages.

    The rows are trusted, and stay in memory uncompressed.
    """

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path = path
        self.facts = facts
        self.tables = set()
        self._batches: dict[str, list[pa.RecordBatch]] = defaultdict(list)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append a copy of a batch: an engine's own is as large as its buffers."""
        self.tables.add(name)
        if batch.num_rows:
            self._batches[name].append(batch.take(pa.arange(0, batch.num_rows)))

    def batches(
        self,
        name: str,
        columns: Collection[str] | None = None,
        _choice: tuple[str, Choice] | None = None,  # no rows are in groups
        _kinds: Kinds = None,
    ) -> Iterator[pa.RecordBatch]:
        chosen = _chosen(name, columns)
        yield from (batch.select(chosen) for batch in self._batches[name])

    def table(self, name: str) -> pa.Table:
        return pa.Table.from_batches(self._batches[name], TABLES[name].arrow)

    def num_rows(self, name: str) -> int:
        return sum(batch.num_rows for batch in self._batches[name])

    def span(self, name: str) -> tuple[int, int] | None:
        ts = self.table(name)["ts"]
        return (ts[0].as_py(), ts[-1].as_py()) if len(ts) else None

    def around(self, name: str, *_: int) -> tuple[int, pa.Table]:
        return 0, self.table(name)

    def is_cut(self, _: str) -> bool:
        return False

    @property
    def complete(self) -> bool:
        return True

    @property
    def checksums(self) -> None:
        return None

    @property
    def files(self) -> list[Path]:
        return []


class TapeWith(_InMemory):
    """A tape with some tables in memory in place of its own."""

    def __init__(self, tape: Tape, tables: Mapping[str, pa.Table]) -> None:
        self.path = tape.path
        self.facts = tape.facts
        self.tables = tape.tables | set(tables)
        self._tape = tape
        self._instead = tables

    def batches(
        self,
        name: str,
        columns: Collection[str] | None = None,
        choice: tuple[str, Choice] | None = None,
        kinds: Kinds = None,
    ) -> Iterator[pa.RecordBatch]:
        if name not in self._instead:
            return self._tape.batches(name, columns, choice, kinds)
        return iter(self.table(name).select(_chosen(name, columns)).to_batches())

    def table(self, name: str) -> pa.Table:
        return self._instead[name] if name in self._instead else self._tape.table(name)

    def num_rows(self, name: str) -> int:
        return self.table(name).num_rows if name in self._instead else self._tape.num_rows(name)

    def span(self, name: str) -> tuple[int, int] | None:
        """That of the tape, also of a table in memory."""
        return self._tape.span(name)

    def around(self, name: str, first: int, last: int) -> tuple[int, pa.Table]:
        return self._tape.around(name, first, last)

    def is_cut(self, name: str) -> bool:
        return self._tape.is_cut(name)

    @property
    def complete(self) -> bool:
        return self._tape.complete

    @property
    def checksums(self) -> list[tuple[str, int, int]] | None:
        return self._tape.checksums

    @property
    def files(self) -> list[Path]:
        return self._tape.files
