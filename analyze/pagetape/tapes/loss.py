# SPDX-License-Identifier: Apache-2.0
"""Lost events and anomalies of a tape: the totals that every report shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pagetape import answer
from pagetape.schemas.tape import Tape
from pagetape.tapes.disturbance import GAPS


def by_cpu(
    gaps: Sequence[dict[str, Any]], rings: Sequence[dict[str, Any]]
) -> dict[int, int | None]:
    """The lost events of each CPU that lost some, from rows of `lost` and `ring`.

    If the size of a gap is unknown, the counters of the CPU's rings give the total, or the row
    without times that has the sum of several. None if they do not.
    """
    counted: dict[int, int | None] = {}
    refused: Counter[int] = Counter()
    for ring in rings:
        refused[ring["cpu"]] += (ring["commit_overrun"] or 0) + (ring["dropped"] or 0)
        counts = [ring[name] for name in ("overrun", "commit_overrun", "dropped")]
        before = counted.get(ring["cpu"], 0)
        counted[ring["cpu"]] = None if before is None or None in counts else before + sum(counts)
    known: Counter[int] = Counter()
    unsized = set()
    untimed: Counter[int] = Counter()  # the sum of gaps, and what the ring refused
    for gap in gaps:
        if gap["from_ts"] is None and gap["to_ts"] is None:
            untimed[gap["cpu"]] += gap["events"] or 0
        known[gap["cpu"]] += gap["events"] or 0
        if gap["events"] is None:
            unsized.add(gap["cpu"])

    def total(cpu: int) -> int | None:
        of_ring = counted.get(cpu)
        if cpu not in unsized:
            return known[cpu]
        if of_ring is None or (of_ring <= known[cpu] and untimed[cpu] <= refused[cpu]):
            return None  # of a gap that goes on in the next tape of a series
        return max(known[cpu], of_ring)

    return {cpu: total(cpu) for cpu in sorted(known)}


def anomaly_kinds(tape: Tape) -> dict[str, int]:
    """How many anomalies of each kind are on a tape."""
    kinds: Counter[str] = Counter()
    for batch in tape.batches("anomaly", ("kind",)) if tape.num_rows("anomaly") else ():
        kinds += counted_kinds(batch)
    return dict(kinds)


def counted_kinds(batch: pa.RecordBatch | pa.Table) -> Counter[str]:
    """Rows by their kind."""
    import pyarrow.compute as pc  # 9 MB, which a recorder saves

    rows = pc.value_counts(batch.column("kind")).to_pylist()
    return Counter({row["values"]: row["counts"] for row in rows})


# The largest share of its events that a recording behind the intervals lost (calibration.toml).
_MEASURED = 0.13


@dataclass(frozen=True)
class Loss:
    """Totals of one tape."""

    total: int | None  # lost events; None if neither gaps nor rings count them, or if incomplete
    by_cpu: dict[int, int | None]  # CPUs that lost events
    cut_off: tuple[str, ...] = ()  # tables whose file has no end
    share: float = 0.0  # of all events, lost ones included
    kinds: Mapping[str, int] = field(default_factory=dict)  # of the anomalies, by kind

    @classmethod
    def of(cls, tape: Tape, *, closed: bool = False) -> Loss:
        """The totals of `tape`. `closed`: it has all rows, though the spool of a series is in it.

        The spool moves to the next tape of the series when that has its first rows.
        """
        cpus = by_cpu(tape.rows("lost"), tape.rows("ring"))
        if any(row["kind"] in GAPS for row in tape.rows("disturbance")):
            cpus = dict.fromkeys(cpus)  # the rings do not count what was switched off
        counts = [nr for nr in cpus.values() if nr is not None]
        whole = (tape.complete or closed) and not tape.cut_off and not tape.facts.get("deferred")
        whole = whole and tape.facts.get("import", {}).get("counts_loss", True)
        total = sum(counts) if len(counts) == len(cpus) and whole else None
        known = sum(counts)
        seen = sum(row["events"] for row in tape.rows("tracepoint")) or tape.num_rows("event")
        share = known / (known + seen) if known else 0.0
        return cls(total, cpus, tape.cut_off, share, anomaly_kinds(tape))

    @classmethod
    def of_all(cls, tapes: Sequence[Tape]) -> Loss:
        """Totals of several tapes: the largest loss of a tape, and the sum of all anomalies.

        A replay repeats the gaps of its recording, so losses do not add up.
        """
        each = [cls.of(tape) for tape in tapes]
        totals = [loss.total for loss in each if loss.total is not None]
        total = max(totals) if len(totals) == len(each) else None
        cut_off = tuple(dict.fromkeys(name for loss in each for name in loss.cut_off))
        share = max((loss.share for loss in each), default=0.0)
        kinds = sum((Counter(loss.kinds) for loss in each), Counter[str]())
        return cls(total, {}, cut_off, share, kinds)

    @property
    def anomalies(self) -> int:
        """Their number, of all kinds."""
        return sum(self.kinds.values())

    @property
    def unmeasured(self) -> str | None:
        """That the intervals do not cover such a loss; None if they do."""
        if self.share <= _MEASURED:
            return None
        return (
            f"{self.share * 100:.0f} % of the events were lost: the intervals are measured on"
            f" recordings that lost up to {_MEASURED * 100:.0f} %, so here the recorded values may"
            " lie outside"
        )

    def __str__(self) -> str:
        lost = "unknown" if self.total is None else answer.amount(self.total, "event")
        if self.cut_off:
            lost += f" ({', '.join(f'{name}.arrow' for name in self.cut_off)} without an end)"
        found = sorted(self.kinds.items(), key=lambda kind: (-kind[1], kind[0]))
        of_kind = ", ".join(f"{nr:,} {kind}" for kind, nr in found if nr)
        kinds = f" ({of_kind})" if of_kind else ""
        return f"lost: {lost}; anomalies: {self.anomalies:,}{kinds}"
