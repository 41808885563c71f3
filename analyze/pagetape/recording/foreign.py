# SPDX-License-Identifier: Apache-2.0
"""What a file is, recognised by its first bytes, and what works instead if no tape can be made."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pagetape.schemas.tape import TapeError

_HEAD = 1 << 16  # bytes that are looked at
_LINES = 400

TRACE_DAT = b"\x17\x08Dtracing"
_RECORD = "record with trace-cmd record -e kmem, or with pagetape record"


class Kind(NamedTuple):
    """One kind of file: what it is, and the next step; None: an import reads it."""

    what: str
    next: str | None


_FTRACE = Kind("the text of a trace (ftrace's trace file, or trace-cmd report)", None)
_PERF_DATA = Kind("a perf.data file", None)
_PERF_SCRIPT = Kind("the output of perf script", None)
_DMESG = Kind(
    "a log of kernel messages",
    "it has no events; while the failures happen, pagetape record or trace-cmd record -e kmem",
)
_PERFETTO = Kind("a Perfetto trace", None)
_JSON_TRACE = Kind(
    "a trace in JSON, as of Chrome or Perfetto", f"pagetape writes it, but {_RECORD}"
)
_HTML = Kind("an HTML page", f"download the file itself, or {_RECORD}")
_GRAPH = Kind(
    "a function_graph trace without times", f"set its option funcgraph-abstime, or {_RECORD}"
)
_GRAPH_EVENT = re.compile(rb"^ *\d+\).*/\* \w+: ", re.MULTILINE)
_COMPRESSED = "decompress it first"

# By their first bytes.
_MAGIC = (
    (b"PERFILE2", _PERF_DATA),
    (b"2ELIFREP", _PERF_DATA),  # of the other byte order
    (b"PERFFILE", _PERF_DATA),
    (b"\x1f\x8b", Kind("compressed with gzip", f"{_COMPRESSED}: gunzip")),
    (b"\x28\xb5\x2f\xfd", Kind("compressed with zstd", f"{_COMPRESSED}: zstd -d")),
    (b"\xfd7zXZ\0", Kind("compressed with xz", f"{_COMPRESSED}: xz -d")),
    (b"BZh", Kind("compressed with bzip2", f"{_COMPRESSED}: bunzip2")),
    (b"\x04\x22\x4d\x18", Kind("compressed with lz4", f"{_COMPRESSED}: lz4 -d")),
    (b"PK\x03\x04", Kind("a zip archive", "unpack it first: unzip")),
    (b"\x7fELF", Kind("an ELF file, such as a program or a core", _RECORD)),
    (b"KDUMP   ", Kind("a dump of a kernel's memory", f"it has no events; {_RECORD}")),
    (
        b"\xc1\x1f\xfc\xc1",
        Kind("a CTF trace, as of LTTng", f"pagetape does not read it; {_RECORD}"),
    ),
    (
        b"\xc1\xfc\x1f\xc1",
        Kind("a CTF trace, as of LTTng", f"pagetape does not read it; {_RECORD}"),
    ),
    (b"ARROW1", Kind("one table of a tape", "import the directory of the tape")),
    (b"PAR1", Kind("a Parquet file", "pagetape sql can read it; an import takes a trace.dat")),
    (b"SQLite format 3\0", Kind("a SQLite database", _RECORD)),
)

# Texts, by a line that only they have; the first one that a line matches counts.
_STAMP = r"\d+\.\d{3,9}:\s"
_TEXTS = (
    (r"\s*(<!DOCTYPE html|<html)", _HTML),
    (r'\s*[\[{].*"(traceEvents|ph)"|\s*\{\s*$', _JSON_TRACE),
    (r"# tracer: |# entries-in-buffer/|cpus=\d+$|trace-cmd version|version = [67]$", _FTRACE),
    (rf".+\s\d+(/\d+)?\s+\[\d+\]\s+{_STAMP}\s*[\w-]+:\w+:", _PERF_SCRIPT),
    (rf".+-\d+\s+(\(\s*[\d-]+\)\s+)?\[\d+\]\s.*{_STAMP}\s*\w+:", _FTRACE),
    (rf"(.*\s)?{_STAMP}\s*(\d+\s+)?\w+:\w+:\s", _PERF_SCRIPT),
    (rf"\s*.+-\d+ .*({_STAMP}|\d+us[^\w:]*:)\s*\w+:\s", _FTRACE),
    (r" *\d+\.\d+ +\| +\d+\) .*/\* \w+: ", _FTRACE),
    (
        r".*(page allocation (failure|stalls)|invoked oom-killer|Mem-Info:|Out of memory"
        r"|Killed process|free:\d+kB min:\d+kB"
        r"|\[ *\d+\.\d{6}\] |kernel: )|\d+,\d+,\d+,-;",
        _DMESG,
    ),
    (
        r"MemTotal: +\d+ kB$",
        Kind("a copy of /proc/meminfo", "put it into a directory for --proc, beside the trace.dat"),
    ),
)
_COMPILED = [(re.compile(pattern, re.ASCII), kind) for pattern, kind in _TEXTS]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends; ValueError if it has no end."""
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError


def _is_perfetto(data: bytes, size: int) -> bool:
    """Whether the file is a row of TracePackets: fields 1 of a protobuf, each of some length."""
    at = packets = 0
    try:
        while at < len(data) and packets < 16:
            if data[at] != 0x0A:
                return False
            length, at = _varint(data, at + 1)
            at += length
            packets += 1
    except ValueError:
        return False
    return at <= size and (packets > 1 or at == size)


def _lines(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    yield from text.splitlines()[:_LINES]


def kind_of(data: bytes, size: int) -> Kind:
    """The kind of a file of `size` bytes that begins with `data`."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data[257:262] == b"ustar":
        return Kind("a tar archive", "unpack it first: tar -xf")
    if _is_perfetto(data, size):
        return _PERFETTO
    if b"\0" in data:
        return Kind("a binary file of an unknown kind", _RECORD)
    if b"Dumping ftrace buffer:" in data:
        return _FTRACE
    if _GRAPH_EVENT.search(data):
        return _GRAPH
    for line in _lines(data):
        for pattern, kind in _COMPILED:
            if pattern.match(line):
                return kind
    return Kind("a text of an unknown kind", _RECORD)


def is_foreign(path: Path) -> bool:
    """Whether another reader than that of trace.dat files reads the file.

    Raises TapeError that names what the file is, if no reader does. Files that are empty or cannot
    be read are left to the reader of trace.dat files.
    """
    try:
        # A FIFO would wait for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        data = file.read(_HEAD)
    if data.startswith(TRACE_DAT) or TRACE_DAT.startswith(data):
        return False
    kind = kind_of(data, status.st_size)
    if kind.next is not None:
        raise TapeError(errno.EINVAL, f"{path}: not a trace, but {kind.what}: {kind.next}")
    return True
