# SPDX-License-Identifier: Apache-2.0
"""Passes over the events of a tape; sequence.h says what each finds.

`kinds` has the index of each kind's label, and `span`: the first time that counts, and the first
after it. Columns are buffers of pyarrow by name: of the events and of their groups, pairs of a
validity bitmap or None and values, without an offset; of the rows, the columns of the struct, with
room for a batch.
"""

from collections.abc import Collection
from typing import Any, TypeAlias

Columns: TypeAlias = dict[str, tuple[Any, Any]]

class PageUses:
    def __init__(
        self,
        kinds: dict[str, Any],
        choice: tuple[int, tuple[int, int]] | None,
        unended: bool,
        most: int,
    ) -> None:
        """`choice`: migratetype and orders of the allocations that count. `unended`: only uses that
        nothing ends have rows. `most`: bytes."""
    def read(self, nr: int, nr_groups: int, columns: Columns, out: dict[str, Any]) -> int:
        """The number of rows. Raises MemoryError beyond the bytes."""
    def end(self, nr: int, out: dict[str, Any]) -> int: ...

class LockRuns:
    def __init__(self, kinds: dict[str, Any]) -> None: ...
    def read(self, nr: int, nr_groups: int, columns: Columns, out: dict[str, Any]) -> int: ...
    def end(self, nr: int, out: dict[str, Any]) -> int: ...

class ListDemand:
    def __init__(self, kinds: dict[str, Any], bin_ns: int, huge_order: int) -> None:
        """`huge_order`: an order that per-CPU lists have beside the orders up to 3."""
    def read(self, nr: int, nr_groups: int, columns: Columns, out: dict[str, Any]) -> int: ...
    def end(self, nr: int, out: dict[str, Any]) -> int: ...

class EventCounts:
    def __init__(self, kinds: dict[str, Any], start_ts: int, interval_ns: int) -> None: ...
    def read(self, nr: int, nr_groups: int, columns: Columns, out: dict[str, Any]) -> int: ...
    def end(self, nr: int, out: dict[str, Any]) -> int:
        """0: each batch has its rows."""

ROWS: dict[str, int]  # kinds of rows of ZoneFree, and the value of `why` in these

class ZoneFree:
    def __init__(
        self, kinds: dict[str, Any], given: dict[str, Any], rows: Collection[str], most: int
    ) -> None:
        """`given`: a struct zone_free_input, by names; tables are tuples of a number and buffers.
        `rows`: of ROWS; without any, the pass finds the errors only. `most`: bytes."""
    def read(
        self,
        nr: int,
        nr_groups: int,
        columns: Columns,
        nr_compaction: int,
        compaction: Columns,
        nr_found: int,
        room: int,
        out: dict[str, Any],
    ) -> tuple[int, bool, bool]:
        """The number of rows in `out`, which has `nr_found` before; whether the batch of events, of
        compaction is used up. A batch without rows is the end of its table. Raises MemoryError
        beyond the bytes."""
    def result(self, nr_readings: int) -> tuple[bytes, bytes, bool, bool]:
        """After the last row: by number of a reading, the error of the count at the next one, and
        a bitmap of those that have one. Whether there was an alloc_zone_locked; whether an event
        changed a zone with a reading."""

class EventGroups:
    def __init__(
        self,
        kinds: dict[str, Any],
        played: tuple[int, int],
        interrupt: int,
        recorder: tuple[int, Any],
        most: int,
    ) -> None:
        """`played`: the times of the events that a replay covers. `interrupt`: bits of flags.
        `recorder`: the number of its threads, and their sorted pids. `most`: bytes."""
    def read(self, nr: int, nr_groups: int, columns: Columns, out: dict[str, Any]) -> int:
        """0: all rows come at the end. Raises MemoryError beyond the bytes."""
    def end(self, nr: int, out: dict[str, Any]) -> int: ...
