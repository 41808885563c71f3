# SPDX-License-Identifier: Apache-2.0
"""Lost events and anomalies of a tape: the totals that every report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagetape import answer
from pagetape.schemas.tape import Tape


@dataclass(frozen=True)
class Loss:
    """Totals of one tape."""

    total: int | None  # lost events; None if a gap is uncounted, or the tape incomplete
    by_cpu: dict[int, int | None]  # CPUs that lost events
    anomalies: int

    @classmethod
    def of(cls, tape: Tape) -> Loss:
        """The totals of `tape`."""
        by_cpu: dict[int, int | None] = {}
        for gap in sorted(tape.rows("lost"), key=lambda gap: int(gap["cpu"])):
            known = by_cpu.get(gap["cpu"], 0)
            unknown = known is None or gap["events"] is None
            by_cpu[gap["cpu"]] = None if unknown else known + gap["events"]
        counts = [nr for nr in by_cpu.values() if nr is not None]
        whole = tape.complete and not tape.facts.get("deferred")
        total = sum(counts) if len(counts) == len(by_cpu) and whole else None
        return cls(total, by_cpu, tape.num_rows("anomaly"))

    @classmethod
    def of_all(cls, tapes: Sequence[Tape]) -> Loss:
        """Totals of several tapes: the largest loss of a tape, and the sum of all anomalies.

        A replay repeats the gaps of its recording, so losses do not add up.
        """
        each = [cls.of(tape) for tape in tapes]
        totals = [loss.total for loss in each if loss.total is not None]
        total = max(totals) if len(totals) == len(each) else None
        return cls(total, {}, sum(loss.anomalies for loss in each))

    def __str__(self) -> str:
        lost = "unknown" if self.total is None else answer.amount(self.total, "event")
        return f"lost: {lost}; anomalies: {self.anomalies:,}"
