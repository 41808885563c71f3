# SPDX-License-Identifier: Apache-2.0
"""The form of /proc files, checked in copies of them before procfs parses their lines.

The parsers of procfs take the lines that they know and skip all others: they run at each sample
of a live machine, whose kernel wrote the text. A copy went through shells, editors and mail. Here
each line must have the form that its file has in Linux 2.6.32 to 7.3 (mm/vmstat.c:
zoneinfo_show_print, frag_show_print, pagetypeinfo_show, vmstat_show). Lines, figures, columns of a
kind and headings that only a newer kernel prints are accepted. Lines that a mail program folded are
joined again where the number of columns proves the result.

    text = proc_form.checked("zoneinfo", data)    # str, or FormError
"""

import re
from collections.abc import Callable
from typing import NamedTuple

_SHOWN = 60  # most characters of a line in a message

_N = r"\d{1,16}"  # as in procfs
_HEAD = re.compile(r"Node +(\d{1,5}), +zone +(\S+)", re.ASCII)


class FormError(ValueError):
    """The text is not that of the file; the message has the line's number and what it should be."""


class Line(NamedTuple):
    """One line, with its number in the file."""

    number: int
    text: str


def _wrong(line: Line, expected: str) -> FormError:
    text = line.text.strip()
    found = f"'{text[:_SHOWN]}{'...' if len(text) > _SHOWN else ''}'" if text else "an empty line"
    return FormError(f"line {line.number}: expected {expected}, found {found}")


def _decoded(data: bytes) -> str:
    """The characters, without the marks and line ends that other systems add."""
    text = data.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    return text.replace("\r\n", "\n")


def _text(name: str, data: bytes) -> str:
    """The characters of a file: tabs as blanks, one kind of line end, no mark at the start."""
    if not data.strip():
        raise FormError(f"empty; expected a copy of /proc/{name}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormError("UTF-16 text; store it as UTF-8 or ASCII")
    text = _decoded(data)
    if place := re.search(r"[^\n\t -~]", text):
        # All of them are ASCII. Names of hosts and the like are read without this check.
        number = text.count("\n", 0, place.start()) + 1
        raise FormError(f"line {number}: not text of /proc/{name}: character {place[0]!a}")
    return text.expandtabs(8)


def _lines(text: str) -> list[Line]:
    """The lines; the last one must have an end, as in every file of /proc."""
    lines = [Line(n, line.rstrip()) for n, line in enumerate(text.split("\n"), 1)]
    if lines[-1].text:
        raise FormError(f"line {lines[-1].number}: the file ends within this line: truncated?")
    while lines and not lines[-1].text:
        lines.pop()
    return lines


class _Names:
    """What the lines of a file name: each once."""

    def __init__(self) -> None:
        self._first: dict[object, int] = {}

    def add(self, name: object, line: Line, what: str) -> None:
        first = self._first.setdefault(name, line.number)
        if first != line.number:
            raise FormError(
                f"line {line.number}: {what} again (first in line {first}): the file must have one"
                " copy"
            )


# zoneinfo

# Figures of a zone that procfs reads; the first group must be there in a zone with pages.
_OF_ZONE = ("pages free", "min", "low", "high", "spanned", "present")
_MORE = ("boost", "promo", "managed", "nr_free_cma", "reserved_highatomic", "free_highatomic")
_OF_CPU = ("count", "high", "batch")
_MORE_OF_CPU = ("high_min", "high_max", "vm stats threshold")
_BITS_OF_LISTS = 31  # figures of per-CPU lists are an int
_FIGURE = re.compile(r" {2,}([a-z]\w*(?: [a-z]+)*):? +(\S.*)", re.ASCII)
_NUMBER = re.compile(_N, re.ASCII)
_OLD_CPU = re.compile(r"\d{1,5} pcp: \d", re.ASCII)  # two lists of each CPU, before 2.6.25
_PROTECTION = re.compile(rf" +protection: \({_N}(?:, {_N})*\)", re.ASCII)
_OTHER = re.compile(r" {2,}[A-Za-z_]", re.ASCII)  # a line of a newer kernel


class _Zone:
    """The section of one zone in zoneinfo."""

    def __init__(self, head: Line) -> None:
        self.head = head
        self.figures: dict[str, int] = {}
        self.marks: set[str] = set()  # lines without a figure
        self.cpus: dict[str, set[str]] = {}
        self._cpu: set[str] | None = None

    def take(self, line: Line) -> None:
        words = line.text.strip()
        if words in ("pagesets", "per-node stats"):
            self.marks.add(words)
        elif words.startswith("protection"):
            if not _PROTECTION.fullmatch(line.text):
                raise _wrong(line, "'protection: (N, N, ...)'")
            self.marks.add("protection")
        elif figure := _FIGURE.fullmatch(line.text):
            self._figure(line, figure[1], figure[2])
        elif words.split(":")[0] in (*_OF_ZONE, *_MORE, *_OF_CPU, *_MORE_OF_CPU, "start_pfn"):
            raise _wrong(line, f"'{words.split(':')[0]} NUMBER'")
        elif not _OTHER.match(line.text):
            raise _wrong(line, "'Node N, zone NAME', or an indented name and number")

    def _figure(self, line: Line, name: str, value: str) -> None:
        in_lists = "pagesets" in self.marks
        known = (*_OF_CPU, *_MORE_OF_CPU, "cpu") if in_lists else (*_OF_ZONE, *_MORE)
        if name not in (*known, "start_pfn"):
            return
        if in_lists and name == "cpu" and _OLD_CPU.fullmatch(value):
            self._cpu = self.cpus.setdefault(value, set())  # procfs leaves such lists out
            return
        if not _NUMBER.fullmatch(value) or (
            in_lists and int(value) >> _BITS_OF_LISTS and name != "start_pfn"
        ):
            raise _wrong(line, f"'{name} NUMBER'")
        if in_lists and name == "cpu":
            if value in self.cpus:
                raise FormError(f"line {line.number}: cpu {value} again in one zone")
            self._cpu = self.cpus.setdefault(value, set())
        elif in_lists and self._cpu is not None and name in _OF_CPU:
            self._cpu.add(name)
        elif name in self.figures and (name == "start_pfn" or not in_lists):
            raise FormError(f"line {line.number}: '{name}' again in one zone")
        if not in_lists or name == "start_pfn":
            self.figures[name] = int(value)

    def end(self, last: int) -> None:
        """The section is whole. Zones without pages have no lists and no start."""
        if self.figures.get("present") == 0:
            return
        lacking = [name for name in _OF_ZONE if name not in self.figures]
        lacking += [name for name in ("protection", "pagesets") if name not in self.marks]
        lacking += ["start_pfn"] * ("start_pfn" not in self.figures)
        lacking += [
            f"{name} of cpu {cpu}"
            for cpu, names in self.cpus.items()
            for name in _OF_CPU
            if name not in names
        ]
        if lacking:
            raise FormError(
                f"line {last}: {self.head.text} ends without '{lacking[0]}': truncated or damaged"
            )
        self._plausible()

    def _plausible(self) -> None:
        n = self.figures
        if not n["present"] <= n["spanned"]:
            said = f"{n['present']} pages present of {n['spanned']} spanned"
        elif n.get("managed", 0) > n["present"] or n["pages free"] > n["present"]:
            said = f"{n['pages free']} pages free of {n['present']} present"
            if n.get("managed", 0) > n["present"]:
                said = f"{n['managed']} pages managed of {n['present']} present"
        elif n["start_pfn"] + n["spanned"] > 1 << 52:
            said = f"{n['spanned']} pages from pfn {n['start_pfn']} on"
        else:
            return
        raise FormError(
            f"line {self.head.number}: {self.head.text} has {said}: no kernel's figures"
        )


def _zoneinfo(text: str) -> str:
    lines = _joined(_lines(text), _open_protection)
    names = _Names()
    zone: _Zone | None = None
    for line in lines:
        if head := _HEAD.fullmatch(line.text):
            if zone:
                zone.end(line.number - 1)
            names.add(head.groups(), line, line.text)
            zone = _Zone(line)
        elif zone is None:
            raise _wrong(line, "'Node N, zone NAME'")
        elif line.text:
            zone.take(line)
    assert zone is not None  # an empty file has no lines
    zone.end(lines[-1].number)
    return _whole(lines)


def _open_protection(before: Line, line: Line) -> bool:
    """A fold within 'protection: (0, 1, 2)', the one long line of zoneinfo."""
    return "protection:" in before.text and ")" not in before.text and "Node" not in line.text


# Folded lines


def _joined(lines: list[Line], folded: Callable[[Line, Line], bool]) -> list[Line]:
    """The lines, each with the further parts that a mail program made of it."""
    found: list[Line] = []
    for line in lines:
        if found and line.text and found[-1].text and folded(found[-1], line):
            found[-1] = Line(found[-1].number, f"{found[-1].text} {line.text.lstrip()}")
        else:
            found.append(line)
    return found


def _whole(lines: list[Line]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


_COUNTS = re.compile(rf" *>?{_N}(?: +>?{_N})*", re.ASCII)


# buddyinfo

_BUDDY = re.compile(rf"Node +(\d{{1,5}}), zone +(\S+)((?: +{_N})+)", re.ASCII)


def _buddyinfo(text: str) -> str:
    def folded(before: Line, line: Line) -> bool:
        if not _COUNTS.fullmatch(line.text.rstrip()):
            return False
        if before.text[-1].isdigit() and line.text[0].isdigit():
            raise FormError(
                f"line {line.number}: a folded line that may begin within a number; join it to"
                " the line before"
            )
        return True

    # The blanks that end a folded line are the proof that no number is cut.
    untrimmed = [Line(n, line) for n, line in enumerate(text.split("\n"), 1)]
    _lines(text)
    lines = [Line(n, t.rstrip()) for n, t in _joined(untrimmed, folded) if t.strip()]
    names = _Names()
    columns = 0
    for line in lines:
        row = _BUDDY.fullmatch(line.text)
        if not row:
            raise _wrong(line, "'Node N, zone NAME' and the free blocks of each order")
        names.add(row.groups()[:2], line, f"Node {row[1]}, zone {row[2]}")
        columns = columns or len(row[3].split())
        _same_columns(line, len(row[3].split()), columns)
    return _whole(lines)


def _same_columns(line: Line, found: int, expected: int) -> None:
    if found != expected:
        raise FormError(
            f"line {line.number}: expected {expected} counts, found {found}: damaged, or folded"
            " within a number"
        )


# pagetypeinfo

_ORDERS = "Free pages count per migrate type at order"
_BLOCKS = "Number of blocks type"
_BLOCK_ORDER = "Page block order:"
_HEADINGS = (_BLOCK_ORDER, "Pages per block:", _ORDERS, "Number of ")
_TYPED = re.compile(rf"Node +(\d{{1,5}}), zone +(\S+), type +(\S+)((?: +>?{_N})+)", re.ASCII)


class _Types:
    """The sections of pagetypeinfo, line by line."""

    def __init__(self) -> None:
        self.names = _Names()
        self.section = ""  # the heading of the current one
        self.columns = 0
        self.order: str | None = None
        self.types: dict[tuple[str, str], list[str]] = {}  # of each zone with free lists
        self.counted: set[tuple[str, str]] = set()  # zones with numbers of pageblocks

    def take(self, line: Line) -> None:
        if line.text.startswith("Node"):
            self._row(line)
        elif line.text.startswith(_BLOCK_ORDER):
            if not re.fullmatch(r"Page block order: +\d{1,2}", line.text, re.ASCII):
                raise _wrong(line, f"'{_BLOCK_ORDER} N'")
            order = line.text.split()[-1]
            if self.order not in (None, order):
                raise FormError(f"line {line.number}: page block order {order} after {self.order}")
            self.order = order
        elif line.text.startswith("Pages per block:"):
            if line.text.split(":")[1].strip() != str(1 << int(self.order or 0)):
                raise _wrong(line, f"'Pages per block:  {1 << int(self.order or 0)}'")
        else:
            self._heading(line)

    def _heading(self, line: Line) -> None:
        self.section = line.text
        if line.text.startswith(_ORDERS):
            orders = line.text.removeprefix(_ORDERS).split()
            self.columns = len(orders)
            if not orders or orders != [str(n) for n in range(len(orders))]:
                raise _wrong(line, f"'{_ORDERS} 0 1 2 ...'")
        elif line.text.startswith(_BLOCKS):
            self.section, self.columns = _BLOCKS, len(line.text.removeprefix(_BLOCKS).split())
        elif not re.match(r"[A-Z][a-z]+ ", line.text):
            raise _wrong(line, "a line of /proc/pagetypeinfo")

    def _row(self, line: Line) -> None:
        if self.section.startswith(_ORDERS):
            row = _TYPED.fullmatch(line.text)
            if not row:
                raise _wrong(line, "'Node N, zone NAME, type NAME' and the free blocks by order")
            self.names.add(row.groups()[:3], line, f"Node {row[1]}, zone {row[2]}, type {row[3]}")
            self.types.setdefault((row[1], row[2]), []).append(row[3])
            _same_columns(line, len(row[4].split()), self.columns)
        elif self.section == _BLOCKS:
            row = _BUDDY.fullmatch(line.text)
            if not row:
                raise _wrong(line, "'Node N, zone NAME' and the pageblocks of each type")
            self.names.add(row.groups()[:2], line, f"Node {row[1]}, zone {row[2]}")
            self.counted.add((row[1], row[2]))
            _same_columns(line, len(row[3].split()), self.columns)
        elif not self.section:
            raise _wrong(line, f"'{_ORDERS} 0 1 2 ...' before the first zone")

    def end(self, last: Line) -> None:
        if self.order is None:
            raise FormError(f"line {last.number}: ends without '{_BLOCK_ORDER} N'")
        if not self.types or self.counted != self.types.keys():
            lacking = sorted(self.types.keys() ^ self.counted)
            zone = " of Node {}, zone {}".format(*lacking[0]) if lacking else ""
            section = _ORDERS if lacking and lacking[0] in self.counted else _BLOCKS
            raise FormError(f"line {last.number}: ends without '{section}'{zone}: truncated?")
        first = next(iter(self.types.items()))
        for place, types in self.types.items():
            if types != first[1]:
                uneven = sorted(set(types) ^ set(first[1]))
                raise FormError(
                    f"type {uneven[0] if uneven else types[0]} is not in all zones alike:"
                    " Node {}, zone {} and Node {}, zone {} differ".format(*first[0], *place)
                )


def _pagetypeinfo(text: str) -> str:
    def folded(before: Line, line: Line) -> bool:
        if line.text.startswith(("Node", *_HEADINGS)):
            return False
        if _COUNTS.fullmatch(line.text) or before.text.startswith("Number of "):
            return True
        return before.text.startswith("Node") and not (
            _TYPED.fullmatch(before.text) or _BUDDY.fullmatch(before.text)
        )

    lines = [line for line in _joined(_lines(text), folded) if line.text]
    types = _Types()
    for line in lines:
        types.take(line)
    types.end(lines[-1])
    return _whole(lines)


# Files of one fact a line


def _vmstat(text: str) -> str:
    lines, names = _lines(text), _Names()
    for line in lines:
        if not re.fullmatch(rf"\w{{1,100}} -?{_N}", line.text, re.ASCII):
            raise _wrong(line, "'NAME NUMBER'")
        names.add(line.text.split()[0], line, line.text.split()[0])
    if not any(line.text.startswith("nr_free_pages ") for line in lines):
        raise FormError("has no line 'nr_free_pages NUMBER': not a whole copy of /proc/vmstat")
    return _whole(lines)


def _nodes(text: str) -> str:
    lines, names = _lines(text + "\n"), _Names()
    for line in lines:
        if not re.fullmatch(r"node\d{1,5} cpus [\d,-]* distance \d{1,3}( \d{1,3})*", line.text):
            raise _wrong(line, "'nodeN cpus 0-3 distance 10 20'")
        names.add(line.text.split()[0], line, line.text.split()[0])
    return _whole(lines)


def _ring_stats(text: str) -> str:
    lines = _lines(text + "\n")
    first = next((line for line in lines if line.text), Line(1, ""))
    for line in lines:
        name, _, value = line.text.partition(":")
        known = name in ("entries", "overrun", "commit overrun", "dropped events")
        if line.text and (not value.strip() or (known and not _NUMBER.fullmatch(value.strip()))):
            raise _wrong(line, "'NAME: NUMBER' of tracefs' per_cpu/cpuN/stats")
    if not first.text.startswith("entries:"):
        raise _wrong(first, "'entries: NUMBER' of tracefs' per_cpu/cpuN/stats")
    return _whole(lines)


def _having(pattern: str, expected: str) -> Callable[[str], str]:
    """The form of a file of which only some lines are read: one of them must be there."""
    wanted = re.compile(pattern, re.MULTILINE | re.ASCII)

    def check(text: str) -> str:
        if not wanted.search(text):
            raise _wrong(Line(1, text.strip().splitlines()[0]), expected)
        return text

    return check


def _one_line(most: int, pattern: str = r".*") -> Callable[[str], str]:
    """The form of a file of one line without a known grammar; an empty one is none."""
    fits = re.compile(pattern)

    def check(text: str) -> str:
        line, _, rest = text.strip().partition("\n")
        # U+FFFD stands for bytes that are not UTF-8.
        if rest or len(line) > most or "\ufffd" in line or not line.isprintable():
            raise FormError(f"expected one line of text, at most {most} characters")
        if line and not fits.fullmatch(line):
            raise _wrong(Line(1, line), "one word")
        return text

    return check


_FORMS: dict[str, Callable[[str], str]] = {
    "zoneinfo": _zoneinfo,
    "buddyinfo": _buddyinfo,
    "pagetypeinfo": _pagetypeinfo,
    "vmstat": _vmstat,
    "nodes": _nodes,
    "ring-stats": _ring_stats,
}

# Texts of users and administrators, with any character.
_FREE: dict[str, Callable[[str], str]] = {
    "version": _having(r"\A\s*Linux version \S", "'Linux version RELEASE ...'"),
    "meminfo": _having(rf"^MemTotal: +{_N} kB", "a line 'MemTotal: N kB'"),
    "sysctls": _having(r"^vm\.\S+ = ", "lines 'vm.NAME = VALUE', as sysctl -a prints them"),
    "config": _having(r"^(# )?CONFIG_\w+", "lines 'CONFIG_NAME=VALUE'"),
    "numa_maps": _having(
        r"/\d+/(numa_maps:[0-9a-f]+ |status:)",
        "lines '/proc/N/numa_maps:ADDRESS POLICY ...', as grep -H '' prints them",
    ),
}

# Files that may be empty.
_LINES: dict[str, Callable[[str], str]] = {
    "hostname": _one_line(64),  # __NEW_UTS_LEN
    "boot_id": _one_line(36, r"[\w-]+"),
    "machine-id": _one_line(36, r"[\w-]+"),
    "cmdline": _one_line(1 << 16),
}


def checked(name: str, data: bytes) -> str:
    """The text of a copy of the file `name`, unfolded; raises FormError for another form."""
    if name in _FORMS:
        return _FORMS[name](_text(name, data))
    if name.startswith("ring-stats."):
        return _ring_stats(_text(name, data))
    text = _decoded(data)
    if name in _LINES:
        return _LINES[name](text)
    if name not in _FREE:
        return text
    if not text.strip():
        if name == "numa_maps":  # of a kernel without NUMA
            return text
        raise FormError(f"empty; expected a copy of /proc/{name}")
    return _FREE[name](text)
