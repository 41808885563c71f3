# SPDX-License-Identifier: Apache-2.0
"""What the command line of `pagetape record` asks for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagetape.recording.eventsets import RARE
from pagetape.recording.memory import Demand
from pagetape.recording.session import Wanted
from pagetape.recording.watch import Trigger

if TYPE_CHECKING:
    from pagetape.recording.stack_events import StackEvent


@dataclass(frozen=True)
class Request:
    """The options of `pagetape record` under their names there, in seconds and bytes."""

    out: Path
    argv: tuple[str, ...]
    duration: float | None
    events: str
    snapshot: str
    snapshot_max_ms: float | None
    locks: bool
    stamps: str
    stacks: tuple[StackEvent, ...]
    rotate: float | None
    keep: float | None
    ring: float | None
    triggers: tuple[Trigger | None, ...]
    ring_memory: float
    cooldown: float
    sample: float
    numa_maps: bool
    private: str | None
    buffer: float | None
    spool_max: float | None
    defer: bool
    memory: float | None
    force: bool

    def demand(self) -> Demand:
        """What these options decide about memory."""
        flies = self.ring is not None
        return Demand(
            os.cpu_count() or 1,
            exact=self.wanted().kind != "proc",
            defer=self.defer,
            may_defer=not flies and self.rotate is None and self.private is None,
            series=flies or self.rotate is not None,
            rare=self.events in RARE,
            held=int(self.ring_memory) if flies else 0,
            ring_kb=int((self.buffer or 0) // 1024),
        )

    def wanted(self) -> Wanted:
        """The snapshots. Tapes of some sets cannot be replayed: exact ones serve nothing."""
        if self.events not in RARE:
            return Wanted(self.snapshot, self.snapshot_max_ms)
        why = (
            f"tapes of the {self.events} event set take no exact snapshot, because they cannot be"
            " replayed"
        )
        return Wanted("proc", blocks=False, why_proc=why if self.snapshot == "auto" else None)
