# SPDX-License-Identifier: Apache-2.0
"""Writes Perfetto traces with any damage, for tests.

After perfetto_trace.proto. The numbers of fields stand in a table of their own here; the test
compares both tables with the package perfetto, if that is installed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Event = tuple[int, int, int, str, Mapping[str, int | str]]  # ts, pid, common_flags, name, fields


def perfetto_events() -> dict[tuple[int, str], dict[int, str]]:
    """The typed events of perfetto_events.c: {(number, name): {number of a field: name}}."""
    source = (Path(__file__).parents[1] / "foreign/perfetto_events.c").read_text(encoding="utf-8")
    lists = dict(re.findall(r"#define (\w+)\s+((?:[^\n]*\\\n)*[^\n]*\{\d+, \"[^\n]*)", source))
    table = source.partition("} typed[] = {\n")[2].partition("\n};")[0]
    for name, fields in lists.items():
        table = table.replace(name, fields)
    events = re.findall(r"\{(\d+),\s*\"(\w+)\",\s*\{(.*?\})\}\}", table, flags=re.DOTALL)
    return {
        (int(number), name): {int(n): of for n, of in re.findall(r"\{(\d+), \"(\w+)\"\}", fields)}
        for number, name, fields in events
    }


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field_number: int, value: int) -> bytes:
    """A field with a number."""
    return varint(field_number << 3) + varint(value)


def message(field_number: int, data: bytes) -> bytes:
    """A field with a message, a string or bytes."""
    return varint(field_number << 3 | 2) + varint(len(data)) + data


def generic(name: str, fields: Mapping[str, int | str]) -> bytes:
    """A GenericFtraceEvent as field of FtraceEvent."""
    out = message(1, name.encode())
    for key, value in fields.items():
        if isinstance(value, str):
            said = message(3, value.encode())
        else:
            said = number(4 if value < 0 else 5, value)
        out += message(2, message(1, key.encode()) + said)
    return message(327, out)


def described(field_id: int, name: str, fields: Sequence[str]) -> bytes:
    """A GenericEventDescriptor as field of a bundle; the fields have numbers from 1 on."""
    each = [message(1, key.encode()) + number(3, n + 1) for n, key in enumerate(fields)]
    descriptor = message(1, name.encode()) + b"".join(message(2, one) for one in each)
    return message(11, number(1, field_id) + message(2, descriptor))


@dataclass
class PerfettoTrace:
    """Packets; `numbers` are the events by name, with their numbers and those of their fields."""

    numbers: Mapping[str, tuple[int, Mapping[str, int]]]
    packets: list[bytes] = field(default_factory=list)

    def system(self, release: str, cpus: int) -> None:
        names = message(1, b"Linux") + message(3, release.encode()) + message(4, b"x86_64")
        self.packets.append(message(45, message(1, names) + number(8, cpus)))

    def stats(self, phase: int, lost: Mapping[int, int]) -> None:
        """The kernel's counts: 1 at the start, 2 at the end."""
        cpus = b"".join(
            message(2, number(1, cpu) + number(2, 9) + number(3, nr)) for cpu, nr in lost.items()
        )
        self.packets.append(message(34, number(1, phase) + cpus))

    def buffer(self, overwritten: int) -> None:
        self.packets.append(message(35, message(1, number(3, overwritten))))

    def names(self, threads: Mapping[int, str]) -> None:
        """A process tree."""
        each = [
            message(2, number(1, pid) + message(2, comm.encode())) for pid, comm in threads.items()
        ]
        self.packets.append(message(2, b"".join(each)))

    def event(self, event: Event, *, as_generic: bool = False) -> bytes:
        """A FtraceEvent as field of a bundle."""
        ts, pid, flags, name, fields = event
        out = number(1, ts) + number(2, pid) + number(5, flags)
        if as_generic or name not in self.numbers:
            return message(2, out + generic(name, fields))
        at, of = self.numbers[name]
        body = b"".join(number(of[key], int(v)) for key, v in fields.items() if key in of)
        return message(2, out + message(at, body))

    def bundle(
        self, cpu: int, events: Iterable[Event], *, lost: bool = False, as_generic: bool = False
    ) -> None:
        """Events of one CPU."""
        body = number(1, cpu) + b"".join(self.event(one, as_generic=as_generic) for one in events)
        self.raw_bundle(body + (number(3, 1) if lost else b""))

    def raw_bundle(self, body: bytes) -> None:
        self.packets.append(message(1, body) + number(10, 7) + number(8, 1))

    def write(self) -> bytes:
        return b"".join(message(1, packet) for packet in self.packets)

    def compressed(self, each: int = 3) -> bytes:
        """The same, with `each` packets in a compressed one."""
        out = b""
        for at in range(0, len(self.packets), each):
            some = b"".join(message(1, packet) for packet in self.packets[at : at + each])
            out += message(1, message(50, zlib.compress(some)))
        return out
