# SPDX-License-Identifier: Apache-2.0
"""What a flight recorder waits for: a trigger that fires. The triggers are in triggers.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from pagetape.sampler import Sample

SECOND = 1_000_000_000
SIGNAL = "signal"


@dataclass(frozen=True)
class Firing:
    """A trigger that fired: its spec, its value (in the trigger's own unit) and the time."""

    trigger: str
    value: float | None
    unit: str
    ts: int


class Trigger:
    """Receives all recorded rows and samples; returns a Firing when it fires."""

    units: ClassVar[dict[str, float]]  # units of its limit; the first is its own
    needs_samples: ClassVar = False
    needs_reclaim: ClassVar = False  # the events of reclaim

    def __init__(self, spec: str, limit: float) -> None:
        self.spec = spec
        self.limit = limit

    def see(self, name: str, batch: pa.RecordBatch) -> Firing | None:  # noqa: ARG002
        """Rows of a table, in order."""
        return None

    def sampled(self, sample: Sample) -> Firing | None:  # noqa: ARG002
        """A sample of /proc."""
        return None

    def _fires(self, value: float, ts: int) -> Firing | None:
        unit = next(iter(self.units))
        return Firing(self.spec, value, unit, ts) if value > self.limit else None


class Watch:
    """Several triggers; ignores all of them for `cooldown` seconds after a firing."""

    def __init__(self, triggers: Sequence[Trigger], cooldown: float) -> None:
        self._triggers = triggers
        self._cooldown = int(cooldown * SECOND)
        self._quiet_until = 0

    @property
    def specs(self) -> list[str]:
        """The triggers' specs."""
        return [trigger.spec for trigger in self._triggers]

    def see(self, name: str, batch: pa.RecordBatch) -> Firing | None:
        """Rows of a table, in order."""
        return self._first([trigger.see(name, batch) for trigger in self._triggers])

    def sampled(self, sample: Sample) -> Firing | None:
        """A sample of /proc."""
        return self._first([trigger.sampled(sample) for trigger in self._triggers])

    def _first(self, firings: Sequence[Firing | None]) -> Firing | None:
        for firing in firings:
            if firing is not None and firing.ts >= self._quiet_until:
                self._quiet_until = firing.ts + self._cooldown
                return firing
        return None


NOTHING = Watch((), 0)
