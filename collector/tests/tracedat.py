# SPDX-License-Identifier: Apache-2.0
"""Writes trace.dat files of any kernel and layout, with any damage, for tests.

After trace-cmd.dat.v6(5), trace-cmd.dat.v7(5) and the kernel's ring buffer format
(events/header_page, events/header_event). trace-cmd itself reads what this writes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Options, by id.
DATE, CPUSTAT, BUFFER, TRACECLOCK, UNAME, OFFSET, CPUCOUNT, TSC2NSEC = 1, 2, 3, 4, 5, 7, 8, 14

_PADDING, _TIME_EXTEND = 29, 30
_MISSED, _MISSED_STORED = 1 << 31, 1 << 30


@dataclass(frozen=True)
class Machine:
    """The parameters of a trace's byte layout."""

    endian: str = "<"
    long_size: int = 8
    page_size: int = 4096

    @property
    def long(self) -> str:
        """struct's letter for an unsigned long."""
        return "Q" if self.long_size == 8 else "I"

    def pack(self, letters: str, *values: int) -> bytes:
        """The values in this machine's byte order, without padding."""
        return struct.pack(self.endian + letters, *values)


@dataclass(frozen=True)
class Format:
    """One tracepoint: its fields are (C declaration, size, signed)."""

    system: str
    name: str
    id: int
    fields: Sequence[tuple[str, int, bool]]
    print_fmt: str = '"%d", REC->common_pid'

    def layout(self) -> list[tuple[str, int, int, bool]]:
        """(declaration, offset, size, signed), aligned as the compiler does."""
        at, found = 8, []
        for declaration, size, signed in self.fields:
            at = (at + size - 1) // size * size
            found.append((declaration, at, size, signed))
            at += size
        return found

    def text(self) -> str:
        """The tracepoint's `format` file."""
        common = [
            ("unsigned short common_type", 0, 2, False),
            ("unsigned char common_flags", 2, 1, False),
            ("unsigned char common_preempt_count", 3, 1, False),
            ("int common_pid", 4, 4, True),
        ]
        lines = [
            f"\tfield:{declaration};\toffset:{at};\tsize:{size};\tsigned:{int(signed)};\n"
            for declaration, at, size, signed in [*common, *self.layout()]
        ]
        return (
            f"name: {self.name}\nID: {self.id}\nformat:\n{''.join(lines[:4])}\n"
            f"{''.join(lines[4:])}\nprint fmt: {self.print_fmt}\n"
        )

    def record(
        self, machine: Machine, *values: int, pid: int = 1, flags: int = 0, preempt: int = 0
    ) -> bytes:
        """One record of this tracepoint."""
        out = bytearray(machine.pack("HBBi", self.id, flags, preempt, pid))
        for (_, at, size, signed), value in zip(self.layout(), values, strict=True):
            out += bytes(at - len(out))
            letter = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
            out += machine.pack(letter if signed else letter.upper(), value)
        return bytes(out + bytes(-len(out) % 4))


# The two events of pages that most tests write.
_PAGE = [("unsigned long pfn", 8, False), ("unsigned int order", 4, False)]
FREE = Format("kmem", "mm_page_free", 10, _PAGE)
ALLOC = Format(
    "kmem",
    "mm_page_alloc",
    11,
    [*_PAGE, ("unsigned long gfp_flags", 8, False), ("int migratetype", 4, True)],
)


@dataclass
class Lost:
    """A gap in a ring: a new page with the number of lost events (-1: unknown)."""

    events: int = -1


def ring(machine: Machine, records: Sequence[tuple[int, bytes] | Lost]) -> bytes:
    """The pages of one CPU: records are (ts, bytes)."""
    header = 8 + machine.long_size
    pages: list[bytes] = []
    page = bytearray()
    start = last = missed = 0

    def close() -> None:
        nonlocal page, missed
        commit, tail = len(page), b""
        if missed:
            commit |= _MISSED
            if missed > 0:
                commit |= _MISSED_STORED
                tail = machine.pack(machine.long, missed)
        whole = machine.pack("Q" + machine.long, start, commit) + page + tail
        pages.append(bytes(whole).ljust(machine.page_size, b"\0"))
        page, missed = bytearray(), 0

    for entry in records:
        if isinstance(entry, Lost):
            if page:
                close()
            missed = entry.events
            continue
        ts, data = entry
        if page and header + len(page) + len(data) + 24 > machine.page_size:
            close()
        if not page:
            start = last = ts
        page += _event(machine, ts - last, data)
        last = ts
    if page:
        close()
    return b"".join(pages)


def _event(machine: Machine, delta: int, data: bytes) -> bytes:
    """One ring buffer entry: 5 bits of type, 27 of time, as a C bit field lays them out."""

    def word(kind: int, time: int) -> bytes:
        little = machine.endian == "<"
        return machine.pack("I", time << 5 | kind if little else kind << 27 | time)

    out = b""
    if delta >= 1 << 27:
        out += word(_TIME_EXTEND, delta & ((1 << 27) - 1)) + machine.pack("I", delta >> 27)
        delta = 0
    if len(data) <= 28 * 4:
        return out + word(len(data) // 4, delta) + data
    return out + word(0, delta) + machine.pack("I", len(data) + 4) + data


@dataclass
class TraceDat:
    """A whole file; `buffers` are the rings by instance name ("" is the top one)."""

    machine: Machine = field(default_factory=Machine)
    formats: Sequence[Format] = ()
    texts: Sequence[tuple[str, str]] = ()  # (system, format file) of real kernels
    buffers: Mapping[str, Sequence[bytes]] = field(default_factory=lambda: {"": [b""]})
    options: Sequence[tuple[int, bytes]] = ()
    user_long: int = 0  # size of long in the file header, if not the kernel's
    cmdlines: str = ""
    kallsyms: str = ""
    clock: str = "mono"

    def write(self, version: int = 6) -> bytes:
        """The file's bytes."""
        return self._v6() if version == 6 else self._v7()

    def header_files(self) -> bytes:
        """The formats of a sub-buffer and of its records, with their names."""
        long = self.machine.long_size
        page = (
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
            f"\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n"
            f"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
            f"\tfield: char data;\toffset:{8 + long};\tsize:4080;\tsigned:0;\n"
        ).encode()
        event = b"# compressed entry header\n\ttype_len    :    5 bits\n"
        return b"header_page\0" + self._sized(page) + b"header_event\0" + self._sized(event)

    def _sized(self, data: bytes, letter: str = "Q") -> bytes:
        return self.machine.pack(letter, len(data)) + data

    def event_files(self) -> bytes:
        """The formats of the tracepoints, by system."""
        systems: dict[str, list[str]] = {}
        for system, text in [*self.texts, *((f.system, f.text()) for f in self.formats)]:
            systems.setdefault(system, []).append(text)
        out = self.machine.pack("I", len(systems))
        for system, texts in systems.items():
            out += system.encode() + b"\0" + self.machine.pack("I", len(texts))
            out += b"".join(self._sized(text.encode()) for text in texts)
        return out

    def _start(self, version: int) -> bytes:
        m = self.machine
        order = 0 if m.endian == "<" else 1
        long = self.user_long or m.long_size
        return b"\x17\x08Dtracing%d\0" % version + m.pack("BBI", order, long, m.page_size)

    def _option(self, number: int, data: bytes) -> bytes:
        return self.machine.pack("H", number) + self._sized(data, "I")

    def _place(self, at: int, rings: Sequence[bytes]) -> tuple[list[tuple[int, int]], bytes]:
        """Where each ring goes in the file from `at` on, and the padded data."""
        size = self.machine.page_size
        data = bytes(-at % size)
        places = []
        for one in rings:
            places.append((at + len(data), len(one)))
            data += one
        return places, data

    def _v6(self) -> bytes:
        m = self.machine
        top = self.buffers.get("", [])
        others = {name: rings for name, rings in self.buffers.items() if name}
        clock = self._sized(f"local [{self.clock}]\n".encode())
        head = self._start(6) + self.header_files() + m.pack("I", 0) + self.event_files()
        head += self._sized(self.kallsyms.encode(), "I") + m.pack("I", 0)
        head += self._sized(self.cmdlines.encode()) + m.pack("I", len(top))

        def build(offsets: Mapping[str, int]) -> tuple[bytes, dict[str, int]]:
            out = head + b"options  \0"
            for number, data in [*self.options, (TRACECLOCK, clock[8:] + b"\0")]:
                out += self._option(number, data)
            for name in others:
                data = m.pack("Q", offsets.get(name, 0)) + name.encode() + b"\0"
                out += self._option(BUFFER, data)
            out += m.pack("H", 0) + b"flyrecord\0"
            places, data = self._place(len(out) + 16 * len(top) + len(clock), top)
            out += b"".join(m.pack("QQ", *place) for place in places) + clock + data
            found = {}
            for name, rings in others.items():
                found[name] = len(out)
                places, data = self._place(len(out) + 10 + 16 * len(rings), rings)
                out += b"flyrecord\0" + b"".join(m.pack("QQ", *place) for place in places) + data
            return out, found

        return build(build({})[1])[0]

    def _section(self, number: int, data: bytes) -> bytes:
        return self.machine.pack("HHIQ", number, 0, 0, len(data)) + data

    def _v7(self) -> bytes:
        m = self.machine
        out = self._start(7) + b"none\0\0"
        first_options = len(out)
        out += m.pack("Q", 0)
        sections = {
            16: self.header_files(),
            17: m.pack("I", 0),
            18: self.event_files(),
            19: self._sized(self.kallsyms.encode(), "I"),
            20: m.pack("I", 0),
            21: self._sized(self.cmdlines.encode()),
        }
        options = b""
        for number, data in sections.items():
            options += self._option(number, m.pack("Q", len(out)))
            out += self._section(number, data)
        clock = (TRACECLOCK, f"local [{self.clock}]\n".encode() + b"\0")
        for number, data in [*self.options, clock]:
            options += self._option(number, data)
        for name, rings in self.buffers.items():
            at = len(out)
            places, data = self._place(at + 16, rings)
            out += self._section(BUFFER, data)
            buffer = m.pack("Q", at) + name.encode() + b"\0" + self.clock.encode() + b"\0"
            buffer += m.pack("II", m.page_size, len(rings))
            buffer += b"".join(m.pack("IQQ", cpu, *place) for cpu, place in enumerate(places))
            options += self._option(BUFFER, buffer)
        cpus = max(len(rings) for rings in self.buffers.values())
        options += self._option(CPUCOUNT, m.pack("I", cpus))
        options += self._option(0, m.pack("Q", 0))
        at = len(out)
        out += self._section(0, options)
        return out[:first_options] + m.pack("Q", at) + out[first_options + 8 :]
