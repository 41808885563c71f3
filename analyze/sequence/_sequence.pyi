# SPDX-License-Identifier: Apache-2.0
"""Passes over the events of a tape; sequence.h says what each finds.

`kinds` has the index of each kind's label, and `span`: the first time that counts, and the first
after it. Columns are buffers of pyarrow by name: of the events, pairs of a validity bitmap or None
and values, without an offset; of the rows, the columns of the struct, with room for a batch.
"""

from typing import Any

class PageUses:
    def __init__(
        self, kinds: dict[str, Any], choice: tuple[int, tuple[int, int]] | None, most: int
    ) -> None:
        """`choice`: migratetype and orders of the allocations that count. `most`: bytes."""
    def read(self, nr: int, columns: dict[str, tuple[Any, Any]], out: dict[str, Any]) -> int:
        """The number of rows. Raises MemoryError beyond the bytes."""
    def end(self, nr: int, out: dict[str, Any]) -> int: ...

class LockRuns:
    def __init__(self, kinds: dict[str, Any]) -> None: ...
    def read(self, nr: int, columns: dict[str, tuple[Any, Any]], out: dict[str, Any]) -> int: ...
    def end(self, nr: int, out: dict[str, Any]) -> int: ...
