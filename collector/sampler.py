# SPDX-License-Identifier: Apache-2.0
"""Samples of /proc during a recording: counters, and parameters that change.

Watermarks, limits of the per-CPU lists and sysctls may change during a recording: memory is
initialised or hotplugged, or an administrator changes settings. A replay without these changes
is wrong from then on.

A sample holds the changes since the sample before, as rows of the tables `parameter` and
`sample`, and all free blocks, as rows of `free_count`. The rows lack `at`, which depends on
the events. Files stay open: a sample costs some hundred microseconds on a small machine.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagetape.procfs import SYSCTLS_BESIDE_VM, parse_buddyinfo, parse_number, parse_zoneinfo

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

_ZONE = ("managed", "wmark_min", "wmark_low", "wmark_high")
_PCP = ("high", "high_min", "high_max", "batch")
_STATE = ("free", "boost", "nr_reserved_highatomic")  # per zone, like a counter

_Key = tuple[str, int | None, str | None, int | None]  # name, node, zone, cpu


@dataclass(frozen=True)
class Sample:
    """One reading of /proc: changes since the last one, all of vmstat, free blocks."""

    ts: int
    parameters: list[Row]
    counters: list[Row]
    vmstat: dict[str, int]
    free: list[Row]  # of every zone and order


class _File:
    """An open file of /proc, read at each sample."""

    def __init__(self, path: Path, size: int) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        self._size = (
            size  # bytes of one read; for a sysctl the kernel allocates a buffer of that size
        )

    def read(self) -> str:
        parts: list[bytes] = []
        at = 0
        while part := os.pread(self._fd, self._size, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts).decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._fd)


class Sampler:
    """Reads /proc at each take(); leaves out absent files."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._files: dict[str, _File] = {}
        places = {
            "zoneinfo": (proc / "zoneinfo", 1 << 16),
            "vmstat": (proc / "vmstat", 1 << 14),
            "buddyinfo": (proc / "buddyinfo", 1 << 12),
        }
        places |= {f"vm.{name}": (proc / "sys" / "vm" / name, 64) for name in SYSCTLS}
        places |= {name: (proc / "sys" / name.replace(".", "/"), 64) for name in SYSCTLS_BESIDE_VM}
        for name, place in places.items():
            with contextlib.suppress(OSError):  # not on this kernel, or not for this user
                self._files[name] = _File(*place)
        self._parameters: dict[_Key, int] = {}
        self._counters: dict[_Key, int] = {}
        self.restart()
        self.take()

    def restart(self) -> None:
        """Let the next sample hold every counter, changed or not."""
        self._all_counters = True

    def take(self) -> Sample:
        """Take a sample. The constructor takes the first one, which equals the snapshot."""
        ts = time.monotonic_ns()
        parameters: dict[_Key, int] = {}
        counters: dict[_Key, int] = {}
        vmstat: dict[str, int] = {}
        free: list[Row] = []
        for name, file in self._files.items():
            text = file.read()
            if name == "zoneinfo":
                _of_zones(text, parameters, counters)
            elif name == "vmstat":
                vmstat = _of_vmstat(text)
                counters |= {(key, None, None, None): value for key, value in vmstat.items()}
            elif name == "buddyinfo":
                free = _of_buddyinfo(ts, text)
            elif (value := parse_number(text)) is not None:
                parameters[name, None, None, None] = value
        before = {} if self._all_counters else self._counters
        sample = Sample(
            ts,
            _changed(ts, self._parameters, parameters),
            _changed(ts, before, counters),
            vmstat,
            free,
        )
        self._parameters, self._counters = parameters, counters
        self._all_counters = False
        return sample

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


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
        for name in _PCP:
            if row[name] is not None:
                parameters[f"pcp_{name}", row["node"], row["zone"], row["cpu"]] = row[name]


def _of_vmstat(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        if line.startswith(COUNTERS):
            name, _, value = line.partition(" ")
            if (number := parse_number(value)) is not None:
                found[name] = number
    return found


def _of_buddyinfo(ts: int, text: str) -> list[Row]:
    names = ("node", "zone", "page_order", "nr_free")
    return [{"ts": ts} | {name: row[name] for name in names} for row in parse_buddyinfo(text)]


def _changed(ts: int, before: dict[_Key, int], now: dict[_Key, int]) -> list[Row]:
    return [
        {"ts": ts, "name": key[0], "node": key[1], "zone": key[2], "cpu": key[3], "value": value}
        for key, value in now.items()
        if before.get(key) != value
    ]
