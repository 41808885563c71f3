# SPDX-License-Identifier: Apache-2.0
"""A database for the queries of one command: it finds once what they read more than once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.asking.event_groups import EventCounts, EventGroups
from pagetape.asking.only import Only
from pagetape.asking.rare_events import FewEvents
from pagetape.asking.sequence_dataset import KeptDataset
from pagetape.asking.sequences import SEQUENCES
from pagetape.asking.span import Span
from pagetape.asking.tape_dataset import KindsDataset, TapeDataset
from pagetape.schemas import Table
from pagetape.schemas.tape import Tape


class KeepingDatabase(Database):
    """A database for known queries: it finds the rows of views with few rows once, if a query names
    them more than once, or several queries do."""

    def __init__(
        self,
        tapes: Sequence[Tape],
        questions: Sequence[query.Query],
        values: Mapping[str, Any] | None = None,
        *,
        span: Span | None = None,
        only: Mapping[tuple[int, str], list[Only]] | None = None,
    ) -> None:
        """One pass over the events finds all kept rows that the `questions` read, with these values
        of their parameters. `span`, `only`: those of Database."""
        super().__init__(tapes, span=span, only=only)
        self._questions = questions
        named = query.words_of(question.sql for question in questions)
        self._kept = {view.name for view in query.views() if view.few and named[view.name] > 1}
        self._make(sorted(named.keys() & SEQUENCES.keys()))
        for shared in self._shared:
            self._note_sole(shared.members, named)
            for member in shared.members:
                if isinstance(member, EventCounts) and values:
                    member.interval_ms = values.get("interval_ms", member.interval_ms)

    def _note_sole(self, members: Sequence[KeptDataset], named: Mapping[str, int]) -> None:
        """Note whether the only kept rows of a tape are read by one scan."""
        if len(members) != 1 or not isinstance(members[0], FewEvents | EventGroups):
            return
        (name,) = (name for name, kind in SEQUENCES.items() if type(members[0]) is kind)
        views = [view.name for view in query.views() if re.search(rf"\b{name}\b", view.sql)]
        often = [view for view in views if named[view] > 1 and view not in self._kept]
        members[0].sole = named[name] == 1 and not often

    def _dataset(self, tape: Tape, table: Table) -> TapeDataset:
        if table.name == "event" or not table.kinds:
            return super()._dataset(tape, table)
        return KindsDataset(tape, table.name, [*query.parts(self._questions, table.name)])
