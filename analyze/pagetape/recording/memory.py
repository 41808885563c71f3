# SPDX-License-Identifier: Apache-2.0
"""The memory of a recorder, and how it keeps within a limit.

The limit is that of `record --memory`, or what the machine and the control group allow. The
recorded command and other processes of the group take their memory from the same limit of the
group, and are not counted here. The parts:

    process    Python, Arrow, the decoder and the tables. It has an upper bound: no part grows with
               the events.
    libraries  files of programs. They are in the RSS and count against `--memory`; where a control
               group is short of memory, the kernel drops them.
    snapshot   programs and maps of the exact snapshot, in the kernel, and its tables: they have a
               row for each free block, so a fragmented machine takes more
    rings      ftrace's buffers, in the kernel. No control group counts them, so they count
               against `--memory` alone.
    spools     sub-buffers on their way to the decoder, in files that stay in memory
    held       events of a flight recorder

Rings, spools and held events get what the others leave, up to their usual size. If it is too
little, the recorder does not decode. If that is still too much, it refuses.
"""

import errno
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from pagetape import answer
from pagetape.schemas.tape import TapeError

_MIB = 1 << 20

# Measured with limits of a control group, without and with a storm of page faults beside it, and of
# a series in 30 minutes of a storm on a slow disk; a live test runs at the least limit. They have
# the kernel's own memory of the process, too: page tables, inodes.
_DECODING = 88 * _MIB
_DEFERRED = 48 * _MIB
_SERIES = 32 * _MIB  # the next tape, or the ring, while the last tape is still written
_SNAPSHOT = 10 * _MIB
_SNAPSHOT_SHARE = 1 << 13  # of the machine's memory: 128 MiB for each TiB
_BLOCK = 640  # of a free block: its place in the maps and in the tables
_CPU = 708 << 10  # least spool of a CPU: plan.h
_CPU_RARE = 2 * _MIB  # largest spool of a CPU for rare events
_LEAST_HELD = 8 * _MIB
_LEAST_RING = _MIB
_LIBRARIES = 56 * _MIB


def machine() -> int:
    """Bytes of the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_blocks() -> int:
    """The free blocks of all zones now; 0 if nobody may know."""
    try:
        lines = Path("/proc/buddyinfo").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(word) for line in lines for word in line.split()[4:] if word.isdigit())


@dataclass(frozen=True)
class Memory:
    """What a recording takes, in bytes."""

    process: int
    snapshot: int
    rings: int
    spools: int
    held: int
    cpus: int
    defer: bool

    @property
    def ring_kb(self) -> int:
        """Of each CPU."""
        return self.rings // 1024 // self.cpus

    def words(self, limit: "Limit") -> str:
        """'at most 214 MB of memory, and 67 MB for rings in the kernel'."""
        own = self.process + self.snapshot + self.spools + self.held + _LIBRARIES
        if not limit.whole:
            own = min(own, limit.bytes)
        rings = f"{answer.size(self.rings)} for rings in the kernel"
        return f"at most {answer.size(own)} of memory, and {rings}"


@dataclass(frozen=True)
class Demand:
    """What the user asked for, as far as it decides about memory."""

    cpus: int
    exact: bool  # snapshots
    defer: bool
    may_defer: bool  # whether the recorder may choose to
    series: bool = False  # from tape to tape
    rare: bool = False  # the events of the cheap set
    held: int = 0  # most bytes of a flight recorder
    ring_kb: int = 0  # of each CPU, as the user wants; 0: by the machine
    machine: int = field(default_factory=machine)  # bytes of its memory
    free_blocks: int = field(default_factory=_free_blocks)


@dataclass(frozen=True)
class Limit:
    """The bytes that a recorder may take."""

    bytes: int
    whose: str  # "--memory", or "the control group or machine"
    whole: bool  # rings and libraries count

    @classmethod
    def of(cls, wanted: float | None) -> "Limit":
        """The limit of --memory, or of this process if that is less."""
        from pagetape._collector import memory_limit

        most = memory_limit()
        if wanted is not None and wanted <= most:
            return cls(int(wanted), "--memory", True)
        return cls(most, "the control group or the machine", False)


def fit(demand: Demand, limit: Limit) -> Memory:
    """The memory of a recording within the limit; raises TapeError if there is too little."""
    for one in (demand, *([replace(demand, defer=True)] if demand.may_defer else [])):
        least = _least(one, limit)
        left = limit.bytes - _counted(least, limit)
        if left >= 0:
            return _larger(least, one, left)
    raise TapeError(errno.ENOMEM, _refusal(demand, limit))


def _least(demand: Demand, limit: Limit) -> Memory:
    """The least memory of a recording."""
    ring = _usual_ring(demand)
    if limit.whole and not demand.ring_kb:
        ring = min(ring, _LEAST_RING)
    return Memory(
        process=(_DEFERRED if demand.defer else _DECODING) + demand.series * _SERIES,
        snapshot=_snapshot(demand) if demand.exact else 0,
        rings=ring * demand.cpus,
        spools=_CPU * demand.cpus,
        held=min(_LEAST_HELD, demand.held),
        cpus=demand.cpus,
        defer=demand.defer,
    )


def _snapshot(demand: Demand) -> int:
    return _SNAPSHOT + demand.machine // _SNAPSHOT_SHARE + demand.free_blocks * _BLOCK


def _usual_ring(demand: Demand) -> int:
    """Bytes of a CPU's ring, with memory enough."""
    from pagetape._collector import default_ring_kb

    return (demand.ring_kb or default_ring_kb()) * 1024


def _counted(memory: Memory, limit: Limit) -> int:
    """The bytes of it that count against the limit."""
    others = memory.rings + _LIBRARIES if limit.whole else 0
    return memory.process + memory.snapshot + memory.spools + memory.held + others


def _larger(least: Memory, demand: Demand, left: int) -> Memory:
    """The same, with `left` more bytes for its buffers, up to their usual size."""
    from pagetape._collector import plan

    held = min(demand.held, least.held + left // 2)
    left -= held - least.held
    rings = min(_usual_ring(demand) * demand.cpus, least.rings + left // 2)
    left -= rings - least.rings
    usual = plan(demand.cpus)["memory"]
    if demand.rare:
        usual = min(usual, _CPU_RARE * demand.cpus)
    spools = min(usual, least.spools + left)
    return replace(least, held=held, rings=rings, spools=max(least.spools, spools))


def _refusal(demand: Demand, limit: Limit) -> str:
    """The line with what the recording needs, and what needs less."""
    last = replace(demand, defer=demand.defer or demand.may_defer)
    needed = answer.size(_counted(_least(last, limit), limit))
    cheaper = {
        "--snapshot proc": replace(last, exact=False),
        "a --buffer of 1MB": replace(last, ring_kb=1024),
        "both": replace(last, exact=False, ring_kb=1024),
    }
    less: list[str] = []
    for words, one in cheaper.items():
        size = _counted(_least(one, limit), limit)
        if size <= limit.bytes and one != last and not (words == "both" and less):
            less.append(f"{words} needs {answer.size(size)}")
    most = f"{limit.whose} allows {answer.size(limit.bytes)}"
    next_step = "; ".join(less) or "raise the limit"
    how = " even if it does not decode" if demand.may_defer and not demand.defer else ""
    return f"this recording needs {needed} of memory{how}, and {most}: {next_step}"
