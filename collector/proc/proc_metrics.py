# SPDX-License-Identifier: Apache-2.0
"""Memory state that a monitor stored as series of figures, made texts of /proc files again.

node_exporter: the text that Prometheus scrapes (collectors buddyinfo, zoneinfo, vmstat, meminfo,
uname), with or without times, and the lines of `promtool tsdb dump`. Performance Co-Pilot: the
table of `pmrep -o csv` or `pmdumptext`, with columns of mem.buddyinfo.pages and mem.zoneinfo; its
zoneinfo is in kB. Its counters may be rates, so they are left out.

    proc_metrics.texts("metrics", text)    # [(s since 1970 or None, {"buddyinfo": ..., ...}), ...]

The texts have the figures that the monitor stores. No monitor stores start_pfn, per-CPU lists and
migratetypes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from pagetape import proc_dates

Zone = tuple[int, str]

_VALUE = r"(-?[0-9][0-9.eE+]{0,30})"
_LABELS = r"\{((?:[^\"{}]|\"(?:[^\"\\]|\\.)*\")*)\}"
_METRIC = r"(node_(?:buddyinfo|zoneinfo|vmstat|memory|uname|time)_\w+)"
_SAMPLE = re.compile(rf"(?:{_METRIC}(?:{_LABELS})?|{_LABELS}) +{_VALUE}(?: +(\d{{10,19}}))? *")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NAME_LABEL = re.compile(rf'__name__="{_METRIC}"')

# The figures of a zone, as zoneinfo names them.
_OF_ZONE = {
    "nr_free": "pages free",
    "free": "pages free",
    "nr_free_cma": "nr_free_cma",
    **{name: name for name in ("min", "low", "high", "spanned", "present", "managed")},
}
_PAGE_KB = 4  # PCP's zoneinfo is in kB; the page size is not in it
_NO_YEAR = 1970


_OTHER = re.compile(
    r"(?:(?:node|go|process|promhttp|scrape|python)_\w+|\w+\{.*\}|\{.*\}) \S+(?: \d+)? *"
)


def is_other(line: str) -> bool:
    """Whether the line is a sample of something else."""
    return _OTHER.fullmatch(line) is not None


class Series(NamedTuple):
    """The name and labels of a sample, and whether it has a time."""

    key: str
    timed: bool


def series(line: str) -> Series | None:
    """The series of one line of a scrape; None if it is no sample of memory state."""
    if not line.startswith(("node_", "{")) or not (found := _SAMPLE.fullmatch(line)):
        return None
    if found[1] is None and not _NAME_LABEL.search(found[3]):
        return None
    return Series(line[: found.start(4)], found[5] is not None)


class _State:
    """The figures of one moment."""

    def __init__(self) -> None:
        self.free: dict[Zone, dict[int, int]] = defaultdict(dict)
        self.zones: dict[Zone, dict[str, int]] = defaultdict(dict)
        self.reserves: dict[Zone, dict[int, int]] = defaultdict(dict)
        self.counters: dict[str, int] = {}
        self.others: dict[str, str] = {}

    def texts(self) -> dict[str, str]:
        """Texts of /proc files with these figures."""
        found = dict(self.others)
        if self.free:
            found["buddyinfo"] = "".join(
                f"Node {node}, zone {zone:>8} {' '.join(map(str, _counts(blocks)))}\n"
                for (node, zone), blocks in self.free.items()
            )
        if self.zones:
            found["zoneinfo"] = "".join(map(self._zone, self.zones))
        if self.counters:
            found["vmstat"] = "".join(f"{name} {nr}\n" for name, nr in self.counters.items())
        return found

    def _zone(self, zone: Zone) -> str:
        figures = self.zones[zone]
        figures.setdefault("present", figures.get("managed", 0))
        lines = [f"Node {zone[0]}, zone {zone[1]:>8}"]
        lines += [f"  {name} {value}" for name, value in figures.items()]
        if zone in self.reserves:
            pages = ", ".join(map(str, _counts(self.reserves[zone])))
            lines.append(f"        protection: ({pages})")
        return "".join(f"{line}\n" for line in lines)


def _counts(by_place: dict[int, int]) -> list[int]:
    """The numbers in order; 0 for a place without one."""
    return [by_place.get(place, 0) for place in range(max(by_place) + 1)]


_MOST_ORDERS = 32


def _take_sample(state: _State, name: str, labels: dict[str, str], value: int) -> None:
    node, zone = labels.get("node", ""), labels.get("zone", "")
    place = (int(node), zone) if re.fullmatch(r"\d{1,5}", node) and zone else None
    order = labels.get("size", "")
    if (
        name == "node_buddyinfo_blocks"
        and place
        and order.isdecimal()
        and int(order) < _MOST_ORDERS
    ):
        state.free[place][int(order)] = value
    elif name.startswith("node_zoneinfo_") and place:
        figure = name.removeprefix("node_zoneinfo_")
        if protection := re.fullmatch(r"protection_(\d)", figure):
            state.reserves[place][int(protection[1])] = value
        elif known := _OF_ZONE.get(figure.removesuffix("_pages")):
            state.zones[place][known] = value
    elif name.startswith("node_vmstat_"):
        state.counters[name.removeprefix("node_vmstat_")] = value
    elif name == "node_memory_MemTotal_bytes":
        state.others["meminfo"] = f"MemTotal: {value >> 10} kB\n"
    elif name == "node_uname_info":
        words = (labels.get(n, "unknown") for n in ("nodename", "release", "machine"))
        state.others["uname"] = "Linux {} {} #1 {}\n".format(*words)


_NS = 1_000_000_000


def _of_scrape(text: str) -> Iterator[tuple[float | None, dict[str, str]]]:
    moments: dict[int | None, _State] = {}
    clock: float | None = None
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        if not found:
            continue
        labels = dict(_LABEL.findall(found[2] or found[3] or ""))
        name = found[1] or labels.get("__name__", "")
        try:
            number = float(found[4])
            value = int(number)
        except (ValueError, OverflowError):
            continue
        if name == "node_time_seconds":
            clock = number
        at = int(found[5]) if found[5] else None
        _take_sample(moments.setdefault(at, _State()), name, labels, value)
    for at, state in sorted(moments.items(), key=lambda moment: moment[0] or 0):
        # Milliseconds; OpenMetrics has seconds.
        seconds = clock if at is None else at / 1000 if at > 10 * _NS else float(at)
        yield seconds, state.texts()


# PCP: one line of columns, then one line a moment.

_COLUMN = re.compile(
    r"mem\.(?:(buddyinfo\.pages)|zoneinfo\.(\w+))\W+"
    r"(\w+)::(?:order(\d{1,2})::)?node(\d{1,5})(?:::lowmem_reserved(\d))?\W*"
)


def _cells(line: str) -> list[str]:
    """The cells of a line, whose delimiter is the one behind the time."""
    delimiter = next((mark for mark in ("\t", ",", ";", "|") if mark in line), ",")
    return [cell.strip().strip('"') for cell in line.split(delimiter)]


def is_header(line: str) -> bool:
    """Whether the line names the columns of a table of PCP with memory state."""
    return "mem." in line and any(map(_COLUMN.fullmatch, _cells(line)))


def is_row(header: str, line: str) -> bool:
    """Whether the line is a row of the table with that header."""
    return len(_cells(line)) == len(_cells(header)) and not is_header(line)


def _of_pcp(text: str) -> Iterator[tuple[float | None, dict[str, str]]]:
    header, *lines = text.splitlines()
    columns = [_COLUMN.fullmatch(cell) for cell in _cells(header)]
    for line in lines:
        cells = _cells(line)
        state = _State()
        for column, cell in zip(columns, cells, strict=False):
            if column is None or not re.fullmatch(r"\d{1,16}(?:\.\d+)?", cell, re.ASCII):
                continue
            zone, value = (int(column[5]), column[3]), int(float(cell))
            if column[1] and column[4] and int(column[4]) < _MOST_ORDERS:
                state.free[zone][int(column[4])] = value
            elif column[6]:
                state.reserves[zone][int(column[6])] = value // _PAGE_KB
            elif column[2] in _OF_ZONE:
                state.zones[zone][_OF_ZONE[column[2]]] = value // _PAGE_KB
        date = proc_dates.of_line(cells[0])
        if date is None:
            date = proc_dates.of_line(f"{cells[0]} {_NO_YEAR}")
        yield date, state.texts()


def texts(kind: str, text: str) -> Iterator[tuple[float | None, dict[str, str]]]:
    """The moments of a scrape (`metrics`) or of a table (`pcp`): time and texts by file."""
    return _of_scrape(text) if kind == "metrics" else _of_pcp(text)
