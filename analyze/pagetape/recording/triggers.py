# SPDX-License-Identifier: Apache-2.0
"""Triggers of a flight recorder: conditions over one second of the recording.

    extfrag>1000/s           fallbacks to another migratetype (mm_page_alloc_extfrag)
    thp_fail>50%             share of THP faults that got no huge page (/proc/vmstat)
    direct_reclaim_p99>10ms  99th percentile of direct reclaim: from begin to end, one thread
    signal                   SIGUSR1, which always works

Times are those of the trace, not of decoding. Each trigger is a class in this module.
"""

import re
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.recording.watch import SECOND, SIGNAL, Firing, Trigger
from pagetape.sampler import Sample
from pagetape.schemas import TABLES


class Extfrag(Trigger):
    """More fallbacks than the limit within one second."""

    units: ClassVar = {"/s": 1.0}

    def __init__(self, spec: str, limit: float) -> None:
        super().__init__(spec, limit)
        self._recent = pa.array([], pa.uint64())  # the last events, at most `limit`

    def see(self, name: str, batch: pa.RecordBatch) -> Firing | None:
        if name != "event":
            return None
        found = _of_kind(batch, name, "alloc_extfrag").column("ts")
        if not len(found):
            return None
        ts = pa.concat_arrays([self._recent, found])
        limit = int(self.limit)
        self._recent = ts[-limit:] if limit else ts[:0]
        # More than `limit` events in one second: an event and the one `limit` later are that close.
        spans = pc.subtract(ts[limit:], ts[: max(len(ts) - limit, 0)])
        close = pc.indices_nonzero(pc.less(spans, SECOND))
        if not len(close):
            return None
        first = ts[close[0].as_py()].as_py()
        nr = pc.sum(pc.and_(pc.greater_equal(ts, first), pc.less(ts, first + SECOND))).as_py()
        return self._fires(nr, ts[close[0].as_py() + limit].as_py())


class DirectReclaim(Trigger):
    """The 99th percentile of the durations of direct reclaims that ended in the last second.

    With fewer than a hundred, it is the longest duration.
    """

    units: ClassVar = {"ms": 1.0, "us": 1e-3, "s": 1e3}
    needs_reclaim: ClassVar = True

    def __init__(self, spec: str, limit: float) -> None:
        super().__init__(spec, limit)
        nothing, ts = pa.array([], pa.bool_()), pa.array([], pa.uint64())
        # Running reclaims, and reclaims that ended in the last second.
        self._open = pa.table({"pid": pa.array([], pa.int32()), "ts": ts, "begins": nothing})
        self._ended = pa.table({"ts": ts, "took": ts})

    def see(self, name: str, batch: pa.RecordBatch) -> Firing | None:
        if name != "reclaim":
            return None
        rows = _of_kind(batch, name, "direct_reclaim_begin", "direct_reclaim_end")
        if not rows.num_rows:
            return None
        begins = pc.equal(rows.column("kind").cast(pa.utf8()), "direct_reclaim_begin")
        table = pa.table({"pid": rows.column("pid"), "ts": rows.column("ts"), "begins": begins})
        # A thread's begin and end are neighbours when sorted by thread.
        table = pa.concat_tables([self._open, table])
        table = table.sort_by([("pid", "ascending"), ("ts", "ascending")]).combine_chunks()
        one, other = table[:-1], table[1:]
        pair = pc.and_(one["begins"], pc.invert(other["begins"]))
        pair = pc.and_(pair, pc.equal(one["pid"], other["pid"]))
        took = pc.subtract(other["ts"], one["ts"])
        ended = pa.table({"ts": other["ts"], "took": took}).filter(pair)
        paired = pa.chunked_array([*pair.chunks, pa.array([False])])
        self._open = table.filter(pc.and_not(table["begins"], paired))
        if not ended.num_rows:
            return None
        ended = pa.concat_tables([self._ended, ended])
        ts = pc.max(ended["ts"]).as_py()
        self._ended = ended.filter(pc.greater(ended["ts"], max(ts - SECOND, 0)))
        p99 = pc.quantile(self._ended["took"], 0.99, interpolation="higher")[0].as_py()
        return self._fires(p99 / 1e6, ts)


class ThpFail(Trigger):
    """The share of THP faults that fell back, within one second (one sample)."""

    units: ClassVar = {"%": 1.0}
    needs_samples: ClassVar = True
    LEAST = 16  # least number of faults for a share

    def __init__(self, spec: str, limit: float) -> None:
        super().__init__(spec, limit)
        self._before: tuple[int, int] | None = None

    def sampled(self, sample: Sample) -> Firing | None:
        names = ("thp_fault_alloc", "thp_fault_fallback")
        got, failed = (sample.vmstat.get(name, 0) for name in names)
        before, self._before = self._before, (got, failed)
        if before is None:
            return None
        got, failed = got - before[0], failed - before[1]
        if got + failed < self.LEAST:
            return None
        return self._fires(100 * failed / (got + failed), sample.ts)


_TRIGGERS: dict[str, type[Trigger]] = {
    "extfrag": Extfrag,
    "thp_fail": ThpFail,
    "direct_reclaim_p99": DirectReclaim,
}


def parse(spec: str) -> Trigger | None:
    """The trigger of a spec; None for `signal`. Raises ValueError for an invalid spec."""
    if spec == SIGNAL:
        return None
    found = re.fullmatch(r"(\w+)\s*>\s*(\d+(?:\.\d+)?)\s*(\S*)", spec)
    kind = _TRIGGERS.get(found[1]) if found else None
    if found is None or kind is None:
        forms = (f"{name}>N{next(iter(kind.units))}" for name, kind in _TRIGGERS.items())
        raise ValueError(f"'{spec}' is not a trigger: expected {', '.join(forms)} or {SIGNAL}")
    if found[3] not in kind.units:
        raise ValueError(f"'{spec}': '{found[3]}' is not one of {', '.join(kind.units)}")
    return kind(spec, float(found[2]) * kind.units[found[3]])


def _of_kind(batch: pa.RecordBatch, table: str, *kinds: str) -> pa.RecordBatch:
    """The rows of these kinds."""
    labels = TABLES[table].column("kind").labels
    codes = pa.array([labels.index(kind) for kind in kinds], pa.uint8())
    chosen = pc.is_in(batch.column("kind").indices, value_set=codes)
    return batch.filter(chosen)
