# SPDX-License-Identifier: Apache-2.0
"""Whether the events of a trace can be of the machine of the --proc files.

A page of an event is in a zone, and its CPU has per-CPU lists. A damaged record may name any page;
an event of another machine does so again and again.
"""

import errno
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.proc_agree import Places
from pagetape.recording.capture import Row, Sink
from pagetape.schemas.tape import TapeError

_DAMAGED = 0.01  # most of the page events outside the zones, if the file has damaged records


class PlacedEvents:
    """A sink that counts the events outside the machine before it passes them on."""

    def __init__(self, sink: Sink, places: Places) -> None:
        self._sink, self._places = sink, places
        self._spans = _joined(sorted(places.zones.values()))
        self._pages = self._outside = 0
        self._first: int | None = None  # the first such pfn
        self._cpus: dict[int, int] = {}  # events, by CPU

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        if name == "event":
            self._look(batch)
        self._sink.write(name, batch)

    def rows(self, name: str, rows: list[Row]) -> None:
        self._sink.rows(name, rows)

    def _look(self, batch: pa.RecordBatch) -> None:
        if self._places.cpus:
            for row in pc.value_counts(batch["cpu"]).to_pylist():
                self._cpus[row["values"]] = self._cpus.get(row["values"], 0) + row["counts"]
        if not self._spans:
            return
        pfns = batch["pfn"]
        self._pages += len(pfns) - pfns.null_count
        inside: Any = pa.scalar(False)
        for start, end in self._spans:
            there = pc.and_(
                pc.greater_equal(pfns, pa.scalar(start, pfns.type)),
                pc.less(pfns, pa.scalar(end, pfns.type)),
            )
            inside = pc.or_(inside, there)
        outside = pfns.filter(pc.invert(inside))
        self._outside += len(outside)
        if self._first is None and len(outside):
            self._first = outside[0].as_py()

    def check(self, trace: str, proc: str, bad_records: int) -> None:
        """Raise TapeError, with the names of both inputs, if they are of two machines."""
        share = self._outside / self._pages if self._pages else 0.0
        if self._outside and (not bad_records or share > _DAMAGED):
            zones = ", ".join(
                f"node {node} {zone} {start:#x}-{end - 1:#x}"
                for (node, zone), (start, end) in sorted(self._places.zones.items())
            )
            raise _two_machines(
                trace,
                proc,
                f"{self._outside:,} of {self._pages:,} page events are outside all zones, the first"
                f" of pfn {self._first:#x} (zones: {zones})",
            )
        for cpu in sorted(self._cpus.keys() - self._places.cpus if self._places.cpus else ()):
            if self._cpus[cpu] > _DAMAGED * sum(self._cpus.values()) or not bad_records:
                raise _two_machines(
                    trace,
                    proc,
                    f"{self._cpus[cpu]:,} page events are of CPU {cpu}, and the machine has the"
                    f" CPUs {_ranges(sorted(self._places.cpus))}",
                )


def _two_machines(trace: str, proc: str, why: str) -> TapeError:
    return TapeError(errno.EINVAL, f"{trace}: not of the machine of {proc}: {why}")


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans, as few as possible: zones of several nodes may lie in each other."""
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _ranges(numbers: list[int]) -> str:
    """'0-3, 8' from [0, 1, 2, 3, 8]."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
