# SPDX-License-Identifier: Apache-2.0
"""Passes over the events of a tape; sequence.h says what each finds.

A dict has the members of a struct by name: numbers, and for pointers buffers of pyarrow without an
offset. A buffer that is missing or None is NULL, a number that is missing 0. `kinds` is a struct
sequence_kinds with the index of every kind's label, `columns` a struct sequence_events (and its
event_details), `out` the rows, with room for a batch.
"""

from typing import Any

class PageUses:
    def __init__(
        self, kinds: dict[str, Any], choice: tuple[int, tuple[int, int]] | None, most: int
    ) -> None:
        """`choice`: migratetype and orders of the allocations that count. `most`: bytes."""
    def read(self, columns: dict[str, Any], out: dict[str, Any]) -> int:
        """The number of rows. Raises MemoryError beyond the bytes."""
    def end(self, nr: int, out: dict[str, Any]) -> int: ...

class LockRuns:
    def __init__(self, kinds: dict[str, Any]) -> None: ...
    def read(self, columns: dict[str, Any], out: dict[str, Any]) -> int: ...
    def end(self, nr: int, out: dict[str, Any]) -> int: ...

class ListDemand:
    def __init__(self, kinds: dict[str, Any], bin_ns: int, huge_order: int) -> None:
        """`huge_order`: an order that per-CPU lists have beside the orders up to 3."""
    def read(self, columns: dict[str, Any], out: dict[str, Any]) -> int: ...
    def end(self, nr: int, out: dict[str, Any]) -> int: ...

class ZoneFree:
    def __init__(self, kinds: dict[str, Any], given: dict[str, Any], rows: str, most: int) -> None:
        """`given`: a struct zone_free_input without `extfrag` and `rows`.
        `rows`: none, changes, failures, moments or low. `most`: bytes."""
    def read(
        self, columns: dict[str, Any], compaction: dict[str, Any], out: dict[str, Any]
    ) -> tuple[int, bool, bool]:
        """The number of rows; whether the batch of events, of compaction is used up. A batch
        without rows is the end of its table. Raises MemoryError beyond the bytes."""
    def result(self, nr_readings: int) -> tuple[bytes, bytes, bool, bool]:
        """After the last row: by number of a reading, the error of the count at the next one, and
        a bitmap of those that have one. Whether there was an alloc_zone_locked; whether an event
        changed a zone with a reading."""

class EventGroups:
    def __init__(self, kinds: dict[str, Any], given: dict[str, Any], most: int) -> None:
        """`given`: a struct event_groups_choice without `extfrag`. `most`: bytes."""
    def read(self, columns: dict[str, Any], out: dict[str, Any]) -> int:
        """0: all rows come at the end. Raises MemoryError beyond the bytes."""
    def end(self, nr: int, out: dict[str, Any]) -> int: ...
