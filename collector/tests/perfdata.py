# SPDX-License-Identifier: Apache-2.0
"""Writes perf.data files with any damage, for tests.

After tools/perf/Documentation/perf.data-file-format.txt. perf itself reads what this writes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tracedat import Format, Machine, TraceDat

LOST, COMM, SAMPLE = 2, 3, 9
_ATTR, _TRACING_DATA, _FEATURE, _FINISHED_ROUND = 64, 66, 80, 68
TRACING_DATA, HOSTNAME, OSRELEASE, ARCH, NRCPUS, CMDLINE = 1, 3, 4, 6, 7, 11
CLOCK_DATA = 29

# IP, TID, TIME, ID, CPU, PERIOD, RAW, IDENTIFIER
_SAMPLE_TYPE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 16
_CALLCHAIN = 1 << 5
KERNEL, USER = 2**64 - 128, 2**64 - 512  # marks before the addresses of a call chain
_SAMPLE_ID_ALL, _USE_CLOCKID = 1 << 18, 1 << 25
_ATTR_SIZE = 128


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    """One record; its body has a multiple of 8 bytes."""
    assert len(body) % 8 == 0
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 64)
    return struct.pack("<I", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


@dataclass
class PerfData:
    """A recording of these tracepoints; each has one id, the number of its format plus 100."""

    formats: Sequence[Format]
    comms: Sequence[tuple[int, str]] = ()  # saved when the recording began
    kernel: str = "6.1.0-13-amd64"
    command: Sequence[str] = ("perf", "record", "-a")
    cpus: int = 2
    period: int = 1
    stacks: bool = False  # samples have call chains
    kallsyms: str = ""
    clocks: tuple[int, int, int] | None = None  # a clock, the wall clock, and its time then
    records: list[bytes] = field(default_factory=list)

    def sample(self, of: Format, cpu: int, ts: int, raw: bytes, chain: Sequence[int] = ()) -> None:
        """A sample with the record `raw` of the ring, and its call chain with marks."""
        (pid,) = struct.unpack_from("<i", raw, 4)
        ids = 100 + of.id
        head = struct.pack("<QQIIQQIIQ", ids, 0xFFFF, pid, pid, ts, ids, cpu, 0, self.period)
        if self.stacks:
            head += struct.pack(f"<{1 + len(chain)}Q", len(chain), *chain)
        data = struct.pack("<I", len(raw) + -(len(raw) + 4) % 8) + raw
        self.records.append(record(SAMPLE, head + _padded(data)))

    def _trailer(self, cpu: int, ts: int, pid: int = 0) -> bytes:
        return struct.pack("<IIQQIIQ", pid, pid, ts, 101, cpu, 0, 101)

    def lost(self, cpu: int, ts: int, events: int) -> None:
        """Events that the ring had no room for."""
        body = struct.pack("<QQ", 101, events) + self._trailer(cpu, ts)
        self.records.append(record(LOST, body))

    def comm(self, pid: int, name: str) -> None:
        """A thread has a name from here on."""
        body = struct.pack("<II", pid, pid) + _padded(name.encode() + b"\0")
        self.records.append(record(COMM, body + self._trailer(0, 0, pid)))

    def round(self) -> None:
        """All rings have been read."""
        self.records.append(record(_FINISHED_ROUND, b""))

    def _attr(self, of: Format) -> bytes:
        flags = _SAMPLE_ID_ALL | _USE_CLOCKID
        samples = _SAMPLE_TYPE | (_CALLCHAIN if self.stacks else 0)
        head = struct.pack("<IIQQQQQ", 2, _ATTR_SIZE, of.id, self.period, samples, 4, flags)
        return (head + bytes(44) + struct.pack("<i", 1)).ljust(_ATTR_SIZE, b"\0")

    def tracing_data(self) -> bytes:
        """The formats, as of trace-cmd 0.6."""
        files = TraceDat(Machine(), self.formats)
        out = b"\x17\x08Dtracing0.6\0" + struct.pack("<BBI", 0, 8, 4096) + files.header_files()
        out += struct.pack("<I", 0) + files.event_files()
        comms = "".join(f"{pid} {comm}\n" for pid, comm in self.comms).encode()
        out += struct.pack("<I", len(self.kallsyms)) + self.kallsyms.encode()
        return out + struct.pack("<IQ", 0, len(comms)) + comms

    def _features(self) -> dict[int, bytes]:
        words = b"".join(map(_string, self.command))
        clocks = struct.pack("<IIQQ", 1, *self.clocks) if self.clocks else None
        return ({CLOCK_DATA: clocks} if clocks else {}) | {
            TRACING_DATA: self.tracing_data(),
            OSRELEASE: _string(self.kernel),
            ARCH: _string("x86_64"),
            NRCPUS: struct.pack("<II", self.cpus, self.cpus),
            CMDLINE: struct.pack("<I", len(self.command)) + words,
        }

    def write(self) -> bytes:
        """The file of perf record -o FILE."""
        ids = b"".join(struct.pack("<Q", 100 + of.id) for of in self.formats)
        at = 104 + len(ids)
        attrs = b"".join(
            self._attr(of) + struct.pack("<QQ", 104 + 8 * n, 8) for n, of in enumerate(self.formats)
        )
        data = b"".join(self.records)
        data_at = at + len(attrs)
        features = self._features()
        bits = sum(1 << feature for feature in features)
        behind = data_at + len(data) + 16 * len(features)
        sections, bodies = b"", b""
        for feature in sorted(features):
            sections += struct.pack("<QQ", behind + len(bodies), len(features[feature]))
            bodies += features[feature]
        head = b"PERFILE2" + struct.pack(
            "<QQQQQQQQ", 104, _ATTR_SIZE + 16, at, len(attrs), data_at, len(data), 0, 0
        )
        head += struct.pack("<QQQQ", bits, 0, 0, 0)
        assert len(head) == 104
        return head + ids + attrs + data + sections + bodies

    def pipe(self) -> bytes:
        """What perf record -o - writes."""
        out = b"PERFILE2" + struct.pack("<Q", 16)
        for of in self.formats:
            out += record(_ATTR, self._attr(of) + struct.pack("<Q", 100 + of.id))
        for feature, body in self._features().items():
            if feature != TRACING_DATA:
                out += record(_FEATURE, struct.pack("<Q", feature) + _padded(body))
        tracing = self.tracing_data()
        out += record(_TRACING_DATA, struct.pack("<II", len(tracing), 0)) + _padded(tracing)
        return out + b"".join(self.records)
