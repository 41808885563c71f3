# SPDX-License-Identifier: Apache-2.0
"""Texts of /proc files in the order in which somebody stored them.

A log of a cron job has dates and the outputs of `cat /proc/zoneinfo` and others, one after the
other; a single copy is such a log with one text. A line tells by its form which file it is of: the
names of files count for nothing. Lines of other programs end a text and are skipped.

    for part in proc_log.parts(lines):
        part.name, part.text, part.date, part.line

A text whose lines were cut or mixed with others is still a part: proc_form.py refuses its form.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from pagetape import proc_dates, proc_metrics

_COUNTS = r"(?: +>?\d{1,16})"
_ROW = re.compile(rf"Node +(\d+), zone +(\S+){_COUNTS}{{2,}} *", re.ASCII)
_TYPED = re.compile(r"Node +\d+, zone +\S+, type +\S", re.ASCII)
_HEAD = re.compile(r"Node +(\d+), zone +(\S+) *", re.ASCII)
_ONLY_COUNTS = re.compile(r" *>?\d{1,16}(?: +>?\d{1,16})* *", re.ASCII)
_WORDS = re.compile(r" *[A-Z][A-Za-z]+(?: +[A-Z][A-Za-z]+)* *", re.ASCII)
_COUNTER = re.compile(r"(\w{1,100}) -?\d{1,16}", re.ASCII)
_MEMINFO = re.compile(r"(\w+(?:\(\w+\))?): +\d+(?: kB)?", re.ASCII)
_SYSCTL = re.compile(r"([a-z]+\.\S{1,100}) = .*")
_CONFIG = re.compile(r"(?:# )?CONFIG_\w+[= ].*")
_ADDED = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|^(?:/proc/[a-z]+:|buddy )(?=.)")  # grep -H, collectl

_BEFORE = re.compile(r"^([^\n{]{1,60}?)Node +\d+, zone ", re.MULTILINE)

_FIRST_OF_TYPES = "Page block order:"
_TYPES_HEADINGS = (_FIRST_OF_TYPES, "Pages per block:", "Free pages count per", "Number of ")

STATE = ("zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat")
_SERIES = ("metrics", "pcp")
_MOST_LINES = 1 << 20  # of one text: a larger one is none


class Part(NamedTuple):
    """One text of the file `name`, from line number `line` on, below a date (s since 1970)."""

    name: str
    text: str
    line: int
    date: float | None
    made: bool = False  # of the figures of a monitor: it need not have the form of the file


_KEYS = re.compile(r"^Node +(\d+), zone +(\S+)", re.MULTILINE | re.ASCII)


def zones(part: Part) -> frozenset[tuple[str, str]]:
    """The zones of a text, by node and name."""
    return frozenset(_KEYS.findall(part.text))


class _Open:
    """The text that is being read."""

    def __init__(self, name: str, line: int, date: float | None) -> None:
        self.name, self.line, self.date = name, line, date
        self.lines: list[str] = []
        self.seen: set[object] = set()  # what must not come twice in one text
        self.heading = ""  # of pagetypeinfo: the one of the current section, ...
        self.columns = 0  # ... and its columns

    def part(self) -> Part:
        return Part(self.name, "".join(f"{line}\n" for line in self.lines), self.line, self.date)

    def is_new(self, key: object) -> bool:
        new = key not in self.seen
        self.seen.add(key)
        return new

    def goes_on(self, line: str) -> bool:
        """Whether a line that begins no text belongs to this one."""
        return len(self.lines) < _MOST_LINES and _GOES_ON[self.name](self, line)


def _zoneinfo(text: _Open, line: str) -> bool:
    if head := _HEAD.fullmatch(line):
        return text.is_new(head.groups())
    folded = "protection:" in text.lines[-1] and ")" not in text.lines[-1]
    return not line.strip() or line.startswith("  ") or folded


def _is_fold(line: str) -> bool:
    """Whether a line is the rest of a row of counts, and no date in seconds."""
    return bool(_ONLY_COUNTS.fullmatch(line)) and proc_dates.of_line(line.strip()) is None


def _buddyinfo(text: _Open, line: str) -> bool:
    if row := _ROW.fullmatch(line):
        return text.is_new(row.groups()[:2])
    return _is_fold(line)


def _pagetypeinfo(text: _Open, line: str) -> bool:
    if line.startswith(_TYPES_HEADINGS[1:]):
        text.heading, text.columns = line[:20], len(line.split(" type")[-1].split())
        return text.is_new(text.heading)
    if _TYPED.match(line):
        return text.heading.startswith("Free")
    if row := _ROW.fullmatch(line):
        # A line of buddyinfo has more columns: one for each order.
        fits = text.heading.startswith("Number") and len(line.split()) - 4 <= text.columns
        return fits and text.is_new((text.heading, *row.groups()[:2]))
    if _WORDS.fullmatch(line):
        text.columns += len(line.split())
        return True
    return not line.strip() or _is_fold(line)


def _lines_like(pattern: re.Pattern[str]) -> Callable[[_Open, str], bool]:
    def goes_on(text: _Open, line: str) -> bool:
        found = pattern.fullmatch(line)
        return found is not None and (not found.groups() or text.is_new(found[1]))

    return goes_on


def _metrics(text: _Open, line: str) -> bool:
    """Without times, a series that comes again is of the next scrape."""
    series = proc_metrics.series(line)
    if series is None:
        return line.startswith("#") or proc_metrics.is_other(line)
    return series.timed or text.is_new(series.key)


_GOES_ON: dict[str, Callable[[_Open, str], bool]] = {
    "zoneinfo": _zoneinfo,
    "buddyinfo": _buddyinfo,
    "pagetypeinfo": _pagetypeinfo,
    "vmstat": _lines_like(_COUNTER),
    "meminfo": _lines_like(_MEMINFO),
    "sysctls": _lines_like(_SYSCTL),
    "config": _lines_like(_CONFIG),
    "metrics": _metrics,
    "pcp": lambda text, line: proc_metrics.is_row(text.lines[0], line),
    "version": lambda _text, _line: False,
    "uname": lambda _text, _line: False,
}


def begins(line: str) -> str | None:
    """The file of which the line can be the first one."""
    if line.startswith("Node "):
        return (
            "zoneinfo" if _HEAD.fullmatch(line) else "buddyinfo" if _ROW.fullmatch(line) else None
        )
    if line.startswith(_FIRST_OF_TYPES):
        return "pagetypeinfo"
    if line.startswith("nr_") and _COUNTER.fullmatch(line):
        return "vmstat"
    if line.startswith("MemTotal:") and _MEMINFO.fullmatch(line):
        return "meminfo"
    if line.startswith("Linux version "):
        return "version"
    if re.match(r"Linux \S+ \d+\.\d+\S* #", line):
        return "uname"
    if line.startswith(("vm.", "kernel.", "abi.", "crypto.", "debug.", "dev.")):
        return "sysctls" if _SYSCTL.fullmatch(line) else None
    if _CONFIG.fullmatch(line):
        return "config"
    if proc_metrics.is_header(line):
        return "pcp"
    return "metrics" if proc_metrics.series(line) else None


def parts(lines: Iterable[str], changed: float = 0, head: str = "") -> Iterator[Part]:
    """The texts in the lines, each with the date above or before it; those of a monitor have its
    dates. `changed`: when the file was changed last, for dates without a year; `head`: its begin.
    """
    for part in _of_all_nodes(_stored(lines, changed, _common(head))):
        if part.name in _SERIES:
            made = proc_metrics.texts(part.name, part.text)
            for date, texts in made:
                for name, text in texts.items():
                    yield Part(name, text, part.line, part.date if date is None else date, True)
        else:
            yield part


def _of_all_nodes(found: Iterable[Part]) -> Iterator[Part]:
    """The texts, with the parts of pagetypeinfo joined: the kernel prints its headings again for
    each node."""
    held: Part | None = None
    for part in found:
        if held is not None:
            next_line = held.line + held.text.count("\n")
            if part.name == held.name and part.line == next_line and not zones(held) & zones(part):
                held = held._replace(text=held.text + part.text)
                continue
            yield held
            held = None
        if part.name == "pagetypeinfo":
            held = part
        else:
            yield part
    if held is not None:
        yield held


def _common(head: str) -> str:
    """What stands before each line, such as the name of a host; "" if it is a date or nothing."""
    before = Counter(found[1] for found in _BEFORE.finditer(head))
    common, often = before.most_common(1)[0] if before else ("", 0)
    return common if often > 1 and proc_dates.of_stamp(common, 0)[0] is None else ""


def _plain(raw: str, common: str = "") -> str:
    """The line without what other programs than those of dates add to it."""
    line = raw.rstrip("\r\n").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    return _ADDED.sub("", "" if line == common.rstrip() else line.removeprefix(common))


def _bare(line: str, changed: float = 0, *, stamped: bool = False) -> tuple[float | None, str]:
    """The date before a line, and the line without it. A date alone is a line of its own, or an
    empty one where the lines are `stamped`."""
    stamp, rest = None, line
    if line.startswith('{"'):  # of a container's log, or of a journal
        with suppress(ValueError, AttributeError):
            found = json.loads(line)
            rest = str(found.get("log", found.get("MESSAGE", line)))
            stamp = proc_dates.of_line(str(found.get("time", found.get("__REALTIME_TIMESTAMP"))))
    else:
        stamp, rest = proc_dates.of_stamp(line, changed)
        if stamp is None or not (stamped or proc_dates.of_line(line.strip()) is None):
            return None, line
    return stamp, _plain(rest)


def _stored(lines: Iterable[str], changed: float, common: str) -> Iterator[Part]:
    text: _Open | None = None
    date: float | None = None
    label: tuple[int, float] | None = None  # a line with a date and words, and the date
    stamped = False  # whether the lines of the text have dates of their own
    for number, raw in enumerate(lines, 1):
        stamp, line = None, _plain(raw, common)
        if text is None or stamped or not text.goes_on(line):
            stamp, line = _bare(line, changed, stamped=stamped and text is not None)
            if text is not None and not (stamped and text.goes_on(line)):
                yield text.part()
                text = None
        if text is not None:
            text.lines.append(line)
            continue
        stripped = line.strip()
        if (seconds := proc_dates.of_line(stripped)) is not None:
            date = seconds
        elif (name := begins(line)) is not None:
            stamped = stamp is not None
            if label and number - label[0] < 3:
                date = label[1]
            text = _Open(name, number, date if stamp is None else stamp)
            text.lines.append(line)
            _GOES_ON[name](text, line)  # notes what the first line names
        elif (seconds := stamp or proc_dates.of_label(stripped)) is not None:
            label = number, seconds
    if text is not None:
        yield text.part()


def has_part(head: str) -> bool:
    """Whether the begin of a file has the first line of a text."""
    common = _common(head)
    return any(begins(_bare(_plain(line, common))[1]) for line in head.splitlines())


def is_of_proc(head: str) -> bool:
    """Whether the begin of a file has a line of a file of memory state."""
    common, known = _common(head), (*STATE, *_SERIES)
    return any(begins(_bare(_plain(line, common))[1]) in known for line in head.splitlines())
