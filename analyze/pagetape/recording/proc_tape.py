# SPDX-License-Identifier: Apache-2.0
"""Writes memory state from /proc over time: each moment is a snapshot and a sample.

A recorder and an import write the same tables: the snapshots have all that the files say, the
samples what reports over time read. There are no events.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pagetape import console, proc_form, proc_series, procfs
from pagetape.recording.capture import Pieces, Row, Sink, Snapshot, known
from pagetape.recording.eventsets import PROC
from pagetape.sampler import Changes, Reading
from pagetape.tapes import output

Texts = Mapping[str, tuple[int | None, int, str]]  # of each file: when it was read (ns), its text

_MOST = (1 << 16) - 1  # number of the last snapshot: the column has 16 bits
_ROWS = 1 << 14  # of a table, written together
_ARCH = re.compile(r"x86_64|i\d86|\w+64(?:le|el)?|arm\w+|s390x?|riscv\d+")
_NO_YEAR_NS = 366 * 86_400 * 1_000_000_000


class _Files(procfs.Proc):
    """The files of one moment."""

    stages = ("",)

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def text(self, name: str, stage: str = "") -> str | None:  # noqa: ARG002
        return self._texts[name][2] if name in self._texts else None

    def _timed(self, name: str, stage: str, ts: int) -> procfs.Timed:  # noqa: ARG002
        began, ended, text = self._texts.get(name, (None, ts, ""))
        return procfs.Timed(text, ended, began)


class Moments:
    """Writes moments to a sink, each table in large pieces; flush() at the end."""

    def __init__(self, sink: Sink) -> None:
        self._pieces = Pieces(sink, _ROWS)
        self.flush = self._pieces.flush
        self._next = 0

    def add(self, ts: int, texts: Texts, readings: list[Reading], *, last: bool = False) -> None:
        """One moment: the texts of a snapshot, and the rows of a sample.

        Beyond the largest number of a snapshot, only the last moment has one. A reading of sysctls
        alone is no snapshot: it has no texts.
        """
        if texts and (last or self._next < _MOST):
            state = Snapshot.take(_Files(texts), "", self._next, ts)
            self._next += 1
            for name, rows in state.rows.items():
                self._pieces.take(name, rows)
        for reading in readings:
            self._pieces.place(reading, 0)


def facts_of(texts: Texts) -> dict[str, Any]:
    """The facts of the machine in these texts."""
    files = _Files(texts)
    found = files.facts
    _, pcps = procfs.parse_zoneinfo(files.text("zoneinfo") or "")
    if cpus := len({row["cpu"] for row in pcps}):
        found = found | {"cpus": cpus}
    return found | {"events": [], "event_set": PROC}


def _of_uname(text: str) -> dict[str, Any]:
    """Facts in the output of uname -a: the host, the release and the architecture."""
    found = re.match(r"Linux (\S{1,64}) (\S{1,200}) #", text)
    if not found:
        return {}
    arch = next(filter(_ARCH.fullmatch, reversed(text.split())), None)
    return {"host": found[1], "kernel": found[2], "arch": arch}


def _facts(series: proc_series.Series) -> dict[str, Any]:
    """The facts of a series: each file at the first moment that has it."""
    texts: dict[str, tuple[int | None, int, str]] = {}
    for moment in series.moments:
        for name in moment.times:
            if name not in texts:
                texts[name] = (None, 0, moment.text(name) or "")
    limits = list(series.limits)
    for name, text in series.facts.items():
        try:
            texts[name] = (None, 0, proc_form.checked(name, text.encode()))
        except proc_form.FormError as e:
            limits.append(f"{name} was left out: {e}")
    found = known(_of_uname(series.facts.get("uname", "")), facts_of(texts))
    ts = series.moments[0].ts
    if ts > _NO_YEAR_NS:
        at = datetime.fromtimestamp(ts // 1_000_000_000, UTC)
        found["recorded_at"] = at.isoformat(timespec="seconds")
    return found | {"limits": limits} if limits else found


def is_series(path: Path) -> bool:
    """Whether the path may hold copies of /proc over time."""
    return proc_series.is_series(path)


def import_series(
    path: Path,
    out: Path,
    *,
    interval: float | None = None,
    kernel: str | None = None,
    private: str | None = None,
    replace: bool = False,
) -> None:
    """Make the tape `out` from copies of /proc over time in `path`.

    Raises TapeError if there is none.
    """
    from pagetape.recording.private import Veil

    output.check_free(out, replace=replace, inputs=[path])
    with console.progress("import") as bar:
        series = proc_series.read(path, interval)
        facts = known(_facts(series), {"kernel": kernel, "source": path.name})
        veil = Veil(private) if private else None
        own = veil.facts(facts) if veil else facts
        with output.whole_tape(out, own, replace=replace, inputs=[path]) as tape:
            write_series(series, veil.over(tape) if veil else tape, bar)


def write_series(
    series: proc_series.Series, sink: Sink, progress: Callable[[float], None] = lambda _share: None
) -> None:
    """Write the moments of a series."""
    moments, changes = Moments(sink), Changes()
    for nr, moment in enumerate(series.moments, 1):
        texts: Texts = {
            name: (None, ts, moment.text(name) or "") for name, ts in moment.times.items()
        }
        readings = _sample(changes, texts) if moment.ts else []
        moments.add(moment.ts, texts, readings, last=nr == len(series.moments))
        progress(nr / len(series.moments))
    moments.flush()


def _sample(changes: Changes, texts: Texts) -> list[Reading]:
    """The rows of a sample. A copy has one time: it is of that instant."""
    readings = [
        Reading(ts, changes.rows(name, text, ts, ts))
        for name, (_, ts, text) in sorted(texts.items(), key=lambda text: text[1][1])
        if name in ("buddyinfo", "zoneinfo", "vmstat")
    ]
    if "buddyinfo" not in texts and "pagetypeinfo" in texts:
        _, ts, text = texts["pagetypeinfo"]
        readings.append(Reading(ts, {"free_count": _summed(text, ts)}))
    changes.end()
    return readings


def _summed(pagetypeinfo: str, ts: int) -> list[Row]:
    """Free blocks by zone and order; none of a zone with a count that the kernel cut off."""
    areas, _ = procfs.parse_pagetypeinfo(pagetypeinfo)
    cut = {(row["node"], row["zone"]) for row in areas if row["capped"]}
    nr: dict[tuple[int, str, int], int] = defaultdict(int)
    for row in areas:
        if (row["node"], row["zone"]) not in cut:
            nr[row["node"], row["zone"], row["page_order"]] += row["nr_free"]
    return [
        {"began": ts, "ts": ts, "node": node, "zone": zone, "page_order": order, "nr_free": free}
        for (node, zone, order), free in nr.items()
    ]
