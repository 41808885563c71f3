# SPDX-License-Identifier: Apache-2.0
"""A database for the queries of one command: it finds once what several of them read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.asking.sequences import SEQUENCES
from pagetape.asking.tape_dataset import KindsDataset, TapeDataset
from pagetape.schemas import Table
from pagetape.schemas.tape import Tape


class KeepingDatabase(Database):
    """A database for several queries: it finds the rows of views with few rows once."""

    _keeps = True

    def __init__(
        self,
        tapes: Sequence[Tape],
        questions: Iterable[query.Query] = (),
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """One pass over the events finds all kept rows that the `questions` read, with these values
        of their parameters."""
        super().__init__(tapes)
        self._questions = [*questions]
        self._make(sorted(query.words(self._questions) & SEQUENCES.keys()))
        self._choose(values or {})

    def _dataset(self, tape: Tape, table: Table) -> TapeDataset:
        if table.name == "event" or not table.kinds:
            return super()._dataset(tape, table)
        return KindsDataset(tape, table.name, query.words(self._questions, table.name))
