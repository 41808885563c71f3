# SPDX-License-Identifier: Apache-2.0
"""The memory of a recorder, and how it keeps within a limit.

The limit is that of `record --memory`, or what the machine and the control group allow. The parts:

    process    Python, Arrow, the decoder and the tables. It has an upper bound: no part grows with
               the events. The files of its libraries come in addition: they are in its RSS, but
               the kernel drops them where memory is short.
    snapshot   programs and maps of the exact snapshot, in the kernel
    rings      ftrace's buffers, in the kernel. No control group counts them, so they count
               against `--memory` alone.
    spools     sub-buffers on their way to the decoder, in files that stay in memory
    held       events of a flight recorder

Rings, spools and held events get what the others leave, up to their usual size. If it is too
little, the recorder does not decode. If that is still too much, it refuses.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pagetape import answer
from pagetape.schemas.tape import TapeError

_MIB = 1 << 20

# Measured with limits of a control group, without and with a load of 4 million events/s, and of a
# series in 30 minutes of a storm on a slow disk; a live test runs at the least limit.
_DECODING = 72 * _MIB
_DEFERRED = 44 * _MIB
_SERIES = 32 * _MIB  # the next tape, while the last one is still written
_SNAPSHOT = 12 * _MIB
_SNAPSHOT_SHARE = 1 << 13  # of the machine's memory: 128 MiB for each TiB
_CPU = 708 << 10  # least spool of a CPU: plan.h
_LEAST_HELD = 8 * _MIB
_LEAST_RING = _MIB
_LIBRARIES = 56 * _MIB


def _machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


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

    def words(self, limit: Limit) -> str:
        """'at most 214 MB of memory, and 67 MB for rings in the kernel'."""
        own = self.process + self.snapshot + self.spools + self.held
        own = min(own + _LIBRARIES, limit.bytes)
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
    held: int = 0  # most bytes of a flight recorder
    ring_kb: int = 0  # of each CPU; 0: by the machine
    machine: int = field(default_factory=_machine)  # bytes of its memory


@dataclass(frozen=True)
class Limit:
    """The bytes that a recorder may take."""

    bytes: int
    whose: str  # "--memory", or "the control group or machine"
    rings_count: bool

    @classmethod
    def of(cls, wanted: float | None) -> Limit:
        """The limit of --memory, or else of this process."""
        from pagetape._collector import memory_limit

        if wanted is not None:
            return cls(int(wanted), "--memory", True)
        return cls(memory_limit(), "the control group or the machine", False)


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
    if limit.rings_count and not demand.ring_kb:
        ring = min(ring, _LEAST_RING)
    return Memory(
        process=(_DEFERRED if demand.defer else _DECODING) + demand.series * _SERIES,
        snapshot=_SNAPSHOT + demand.machine // _SNAPSHOT_SHARE if demand.exact else 0,
        rings=ring * demand.cpus,
        spools=_CPU * demand.cpus,
        held=min(_LEAST_HELD, demand.held),
        cpus=demand.cpus,
        defer=demand.defer,
    )


def _usual_ring(demand: Demand) -> int:
    """Bytes of a CPU's ring, with memory enough."""
    from pagetape._collector import default_ring_kb

    return (demand.ring_kb or default_ring_kb()) * 1024


def _counted(memory: Memory, limit: Limit) -> int:
    """The bytes of it that count against the limit."""
    rings = memory.rings if limit.rings_count else 0
    return memory.process + memory.snapshot + rings + memory.spools + memory.held


def _larger(least: Memory, demand: Demand, left: int) -> Memory:
    """The same, with `left` more bytes for its buffers, up to their usual size."""
    from pagetape._collector import plan

    held = min(demand.held, least.held + left // 2)
    left -= held - least.held
    rings = min(_usual_ring(demand) * demand.cpus, least.rings + left // 2)
    left -= rings - least.rings
    spools = min(plan(demand.cpus)["memory"], least.spools + left)
    return replace(least, held=held, rings=rings, spools=max(least.spools, spools))


def _refusal(demand: Demand, limit: Limit) -> str:
    """The line with what the recording needs, and what needs less."""
    needed = _counted(_least(demand, limit), limit)
    less = [
        f"{words} needs {answer.size(size)}"
        for words, size in _cheaper(demand, limit)
        if size <= limit.bytes
    ]
    most = f"{limit.whose} allows {answer.size(limit.bytes)}"
    next_step = "; ".join(less) or "raise the limit"
    return f"this recording needs {answer.size(needed)} of memory, and {most}: {next_step}"


def _cheaper(demand: Demand, limit: Limit) -> Iterator[tuple[str, int]]:
    """Options that need less memory, and how much they need."""
    without = replace(demand, exact=False)
    if demand.exact:
        yield "--snapshot proc", _counted(_least(without, limit), limit)
    if not demand.defer and demand.may_defer:
        both = "--defer --snapshot proc" if demand.exact else "--defer"
        yield both, _counted(_least(replace(without, defer=True), limit), limit)
