# SPDX-License-Identifier: Apache-2.0
"""Samples of /proc during a recording: counters, and parameters that change.

Watermarks, limits of the per-CPU lists and sysctls may change during a recording: memory is
initialised or hotplugged, or an administrator changes settings. A replay without these changes
is wrong from then on. Settings of huge pages are read as sysctls are.

A sample holds the changes since the sample before, as rows of the tables `parameter` and
`sample`, and all free blocks, as rows of `free_count`. The pages on each per-CPU list are rows of
`sample`. Each file is read at its own time, so its rows have its own stamps. The rows lack `at`,
which depends on the events.

Sysctls are also read soon after each write to one, and when a sample is left out. A thread of its
own reads the files (proc_reader.h); here the texts become rows, at any later time.
"""

import contextlib
import errno
import os
import re
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagetape._proc_reader import ProcReader
from pagetape.procfs import (
    HUGE_PAGES,
    SYSCTLS_BESIDE_VM,
    parse_buddyinfo,
    parse_choice,
    parse_number,
    parse_zoneinfo,
)

Row = dict[str, Any]

# Sysctls of vm that change the page allocator or reclaim; each is one number.
SYSCTLS = (
    "compact_unevictable_allowed",
    "compaction_proactiveness",
    "defrag_mode",
    "extfrag_threshold",
    "min_free_kbytes",
    "min_slab_ratio",
    "min_unmapped_ratio",
    "nr_hugepages",
    "percpu_pagelist_high_fraction",
    "stat_interval",
    "swappiness",
    "vfs_cache_pressure",
    "watermark_boost_factor",
    "watermark_scale_factor",
    "zone_reclaim_mode",
)

# Prefixes of the counters of allocation, reclaim, compaction and THP in /proc/vmstat.
COUNTERS = (
    "allocstall",
    "balloon_",
    "compact_",
    "drop_",
    "kswapd_",
    "nr_free_pages",
    "oom_kill",
    "pageoutrun",
    "pgalloc_",
    "pgdemote_",
    "pgfault",
    "pgfree",
    "pgmajfault",
    "pgmigrate_",
    "pgscan_",
    "pgskip_",
    "pgsteal_",
    "slabs_scanned",
    "thp_",
    "zone_reclaim_",
)

_COUNTER = re.compile(rf"^((?:{'|'.join(COUNTERS)})\w*) (-?\d{{1,16}})$", re.MULTILINE | re.ASCII)

_ZONE = ("managed", "wmark_min", "wmark_low", "wmark_high")
_PCP = ("high", "high_min", "high_max", "batch")
_STATE = ("free", "boost", "nr_reserved_highatomic")  # per zone, like a counter

_Key = tuple[str, int | None, str | None, int | None]  # name, node, zone, cpu


_SLOTS = 64  # samples that wait for the thread that makes rows of them
_SLOTS_BYTES = 16 << 20  # most memory for them, with which a large machine has fewer slots
_FEWEST_SLOTS = 8
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # a limit, not an absent file
_SYSCTL = 64  # bytes of a read: the kernel allocates a buffer of that size
_BUSY_S = 0.01  # between two looks at a reading in progress
_ROOM = 4096  # bytes that a longer text may grow, besides a quarter of it


@dataclass(frozen=True)
class Reading:
    """The rows of one file of a sample, by table."""

    ts: int  # when the file was read
    rows: dict[str, list[Row]]


@dataclass(frozen=True)
class Sample:
    """One reading of all files: what changed since the last one, all of vmstat, free blocks. Or, if
    not `whole`, of the sysctls alone."""

    ts: int  # when vmstat was read
    readings: list[Reading]  # by time; a gap before the sample is a reading, too
    vmstat: dict[str, int] = field(default_factory=dict)
    # Of each file: when its reading began and ended (ns), and its text.
    texts: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    whole: bool = True

    def rows(self, name: str) -> list[Row]:
        """Rows of one table."""
        return [row for reading in self.readings for row in reading.rows.get(name, ())]


class Changes:
    """Rows of samples: what a text has that the texts before did not have, and all free blocks."""

    def __init__(self) -> None:
        self._parameters: dict[_Key, int] = {}
        self._counters: dict[_Key, int] = {}
        self.vmstat: dict[str, int] = {}  # the counters of the last text of vmstat
        self.restart()

    def restart(self) -> None:
        """Let the next sample hold every counter, changed or not."""
        self._every = True

    def end(self) -> None:
        """A sample has all its texts."""
        self._every = False

    def rows(
        self, name: str, text: str, began: int, ended: int, since: int | None = None
    ) -> dict[str, list[Row]]:
        """The rows of one file, by table; `began` and `ended`: right before and after its reading,
        ns; `since`: `began` of the reading before, if known."""
        parameters: dict[_Key, int] = {}
        counters: dict[_Key, int] = {}
        free: list[Row] = []
        word: str | None = None
        if name == "buddyinfo":
            free = _of_buddyinfo(text)
        elif name == "zoneinfo":
            _of_zones(text, parameters, counters)
        elif name == "vmstat":
            self.vmstat = _of_vmstat(text)
            counters = {(key, None, None, None): value for key, value in self.vmstat.items()}
        else:
            value, word = parse_choice(text)
            value = parse_number(text) if value is None else value
            if value is not None:
                parameters[name, None, None, None] = value
        found = {
            "parameter": _changed(self._parameters, parameters),
            "sample": _changed({} if self._every else self._counters, counters),
            "free_count": free,
        }
        self._parameters |= parameters
        self._counters |= counters
        for row in found["parameter"]:
            row.update(since_ts=since, text=word)
        return {
            table: [{"began": began, "ts": ended} | row for row in rows]
            for table, rows in found.items()
            if rows
        }


class Sampler:
    """Reads /proc when asked, or regularly; leaves out absent files.

    The constructor takes the first sample, which equals the snapshot. `whole`: samples have the
    texts, too, with that of pagetypeinfo: a snapshot each.
    """

    def __init__(self, proc: Path = Path("/proc"), *, whole: bool = False) -> None:
        self._texts = whole
        self._files: dict[str, int] = {}  # file descriptors
        self.slots = 0  # samples that may wait for samples()
        try:
            self._reader = self._opened(proc)
        except BaseException as error:
            self._close_files()
            if isinstance(error, OSError) and error.errno == errno.EMFILE:
                limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                why = f"samples of /proc: the limit is {limit}: raise it with ulimit -n 1024"
                raise OSError(error.errno, f"too many open files for {why}") from None
            raise
        self._sysctls: dict[str, bytes] = {}  # the last text of each
        self._looked: dict[str, int] = {}  # begin of the last reading of each file
        self._changes = Changes()
        self._last_ts: int | None = None  # end of the last sample
        self.restart()
        self.ask()

    def _opened(self, proc: Path) -> ProcReader:
        """Open all files, and start the thread that reads them."""
        # The free lists first: of all files, theirs is the exact count (frag_show of mm/vmstat.c
        # holds the zone's lock). zoneinfo and vmstat lack what CPUs have not folded in yet.
        places = {name: proc / name for name in ("buddyinfo", "zoneinfo", "vmstat")}
        if self._texts:
            places["pagetypeinfo"] = proc / "pagetypeinfo"
        places |= {f"vm.{name}": proc / "sys" / "vm" / name for name in SYSCTLS}
        places |= {name: proc / "sys" / name.replace(".", "/") for name in SYSCTLS_BESIDE_VM}
        places |= {name: proc.parent / path for name, path in HUGE_PAGES.items()}
        for name, path in places.items():
            try:
                self._files[name] = os.open(path, os.O_RDONLY)
            except OSError as error:
                if error.errno in _NO_FILES:
                    raise
                # Otherwise the kernel does not have it, or not for this user.
        files = [(fd, _size(name, fd), _is_sysctl(name)) for name, fd in self._files.items()]
        room = sum(size for _, size, _ in files) + 1
        self.slots = max(min(_SLOTS, _SLOTS_BYTES // room), _FEWEST_SLOTS)
        return ProcReader(files, self.slots)

    @property
    def files(self) -> list[str]:
        """The files that can be read."""
        return list(self._files)

    @property
    def guards(self) -> list[str]:
        """The rights that keep the reading from being late: see proc_reader.h."""
        return self._reader.guards

    def restart(self) -> None:
        """Let the next sample hold every counter, changed or not."""
        self._changes.restart()

    def start(self, every: float, share: float) -> None:
        """Read every `every` seconds, for at most this share of a CPU."""
        self._reader.start(every, share)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Read only when asked."""
        self._reader.hold(True)
        try:
            yield
        finally:
            self._reader.hold(False)

    def charge(self, ns: int) -> None:
        """CPU time that a sample took, besides its reading."""
        self._reader.charge(ns)

    def wait(self, seconds: float) -> None:
        """Wait for a sample, or for nudge()."""
        self._reader.wait(seconds)

    def nudge(self) -> None:
        self._reader.nudge()

    def wait_until_read(self, ts: int) -> None:
        """Wait for a reading in progress that began before `ts`, so that samples() has it."""
        while (since := self._reader.busy_since) is not None and since <= ts:
            time.sleep(_BUSY_S)

    def ask(self) -> list[Sample]:
        """Read now. Samples not yet returned, this one last if there was memory for its texts."""
        found = list(self.samples())
        with contextlib.suppress(OSError):  # the queue is full again: the next sample says it
            self._reader.ask()
        return found + list(self.samples())

    def samples(self) -> Iterator[Sample]:
        """Samples not yet returned."""
        while (found := self._reader.take()) is not None:
            yield self._sample(*found)

    def _sample(
        self, missed: dict[str, int], texts: list[tuple[int, int, bytes | None] | None]
    ) -> Sample:
        read = [text for text in texts if text is not None]
        first, ts = (read[0][0], read[-1][1]) if read else (0, 0)
        readings = (
            [Reading(first, {"sample_gap": gaps})] if (gaps := self._gaps(missed, first)) else []
        )
        vmstat: dict[str, int] = {}
        kept: dict[str, tuple[int, int, str]] = {}
        for name, given in zip(self._files, texts, strict=True):
            if given is None:
                continue
            began, ended, data = given
            if data is None:
                gap = _gap("failed", 1, began, ended, name)
                readings.append(Reading(ended, {"sample_gap": [gap]}))
                continue
            since, self._looked[name] = self._looked.get(name), began
            if _is_sysctl(name):
                if self._sysctls.get(name) == data:
                    continue
                self._sysctls[name] = data
            text = data.decode("utf-8", "replace")
            if stamped := self._changes.rows(name, text, began, ended, since):
                readings.append(Reading(ended, stamped))
            if name == "vmstat":
                ts, vmstat = ended, self._changes.vmstat
            if self._texts and not _is_sysctl(name):
                kept[name] = (began, ended, text)
        if len(read) == len(texts):
            self._changes.end()
            self._last_ts = read[-1][1] if read else None
        return Sample(ts, readings, vmstat, kept, len(read) == len(texts))

    def _gaps(self, missed: dict[str, int], until: int) -> list[Row]:
        """Rows of `sample_gap` for samples that are missing before this one."""
        since = until if self._last_ts is None else self._last_ts
        return [_gap(why, nr, since, until) for why, nr in missed.items()]

    def close(self) -> None:
        self._reader.close()
        self._close_files()

    def _close_files(self) -> None:
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()


def _is_sysctl(name: str) -> bool:
    return "." in name


def _size(name: str, fd: int) -> int:
    """Bytes that the text of an open file may have."""
    if _is_sysctl(name):
        return _SYSCTL
    at = 0
    while part := os.pread(fd, 1 << 16, at):
        at += len(part)
    return at + at // 4 + _ROOM


def _gap(why: str, samples: int, since: int, until: int, file: str | None = None) -> Row:
    return {"from_ts": since, "to_ts": until, "why": why, "samples": samples, "file": file}


def _of_zones(text: str, parameters: dict[_Key, int], counters: dict[_Key, int]) -> None:
    zones, pcps = parse_zoneinfo(text)
    for row in zones:
        node, zone = row["node"], row["zone"]
        for name in _ZONE:
            parameters[name, node, zone, None] = row[name]
        for name, value in row.items():
            if name.startswith("lowmem_reserve_"):
                parameters[name, node, zone, None] = value
        for name in _STATE:
            if row[name] is not None:
                counters[name, node, zone, None] = row[name]
    for row in pcps:
        place = row["node"], row["zone"], row["cpu"]
        if row["count"] is not None:
            counters["pcp_count", *place] = row["count"]
        for name in _PCP:
            if row[name] is not None:
                parameters[f"pcp_{name}", *place] = row[name]


def _of_vmstat(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _COUNTER.findall(text)}


def _of_buddyinfo(text: str) -> list[Row]:
    names = ("node", "zone", "page_order", "nr_free")
    return [{name: row[name] for name in names} for row in parse_buddyinfo(text)]


def _changed(before: dict[_Key, int], now: dict[_Key, int]) -> list[Row]:
    return [
        {"name": key[0], "node": key[1], "zone": key[2], "cpu": key[3], "value": value}
        for key, value in now.items()
        if before.get(key) != value
    ]
