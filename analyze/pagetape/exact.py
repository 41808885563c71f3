# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots of this machine, or the words for why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pagetape._collector import CollectorError

if TYPE_CHECKING:
    from pagetape import _snapshot


@dataclass(frozen=True)
class Exact:
    """What became of an exact snapshot: its tables, or why there is none."""

    facts: dict[str, Any]
    tables: dict[str, pa.RecordBatch]
    why: str | None  # None if it is exact


class ExactSnapshots:
    """Exact snapshots with BPF, where this build and this machine have them.

    Make it before the recording, take() within, close() after it: loading and unloading
    moves megabytes.
    """

    def __init__(self, max_ms: int) -> None:
        self._max_ms = max_ms
        self._loaded: _snapshot.Snapshot | None = None
        self.refused: str | None = None  # why there are none
        try:
            from pagetape import _snapshot
        except ImportError as e:
            self.refused = str(e)
            return
        try:
            self._loaded = _snapshot.Snapshot(max_ms)
        except CollectorError as e:
            self.refused = e.strerror

    def take(self, number: int) -> Exact:
        """The snapshot now; one that is not wholly exact is not given."""
        if self._loaded is None:
            return Exact({}, {}, self.refused)
        try:
            facts, tables = self._loaded.take(number)
        except CollectorError as e:
            return Exact({}, {}, e.strerror)
        why = None if facts["exact"] else self._inexact(facts)
        return Exact(facts, {name: pa.record_batch(rows) for name, rows in tables}, why)

    def _inexact(self, facts: dict[str, Any]) -> str:
        """What keeps a snapshot from being exact."""
        if facts["mismatches"]:
            counts = (f"{kind} {nr}" for kind, nr in facts["mismatches"].items())
            return f"its checks failed: {', '.join(counts)}"
        for zone in facts["zones"]:
            name = f"zone {zone['zone']} of node {zone['node']}"
            if zone["how"] == "pieces":
                return (
                    f"{name} cannot be walked in {self._max_ms} ms"
                    f" ({zone['free_blocks']} free blocks)"
                )
            if zone["how"] == "refused":
                return f"{name} has too many free blocks ({zone['free_blocks']})"
            if zone["pcps_refused"]:
                return f"{name} has too many pages on its per-CPU lists"
            if zone["pcps_moved"]:
                return f"the per-CPU lists of {name} did not keep still"
        return "its instant could not be marked in the trace"

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
