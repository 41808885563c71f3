# SPDX-License-Identifier: Apache-2.0
"""Names for the addresses of kernel stacks.

A tape stores function and offset instead of the address, because an address reveals the
kernel's place in memory. Without a known symbol the tape stores the address.
"""

import re
import time
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pagetape.schemas import TABLES

if TYPE_CHECKING:
    from pagetape._collector import Source

# Address, kind (a function), name, module: "ffffffffc0a01000 t e1000_clean [e1000]".
_SYMBOL = re.compile(r"([0-9a-f]{1,16}) [tTwW] (\S+)(?:\s+\[(\S+)\])?", re.ASCII)
_LONGEST = 1 << 20  # largest function, bytes: an address farther from a symbol has no function
_AGAIN_S = 10  # seconds between two reads of the symbols, for modules loaded since


@dataclass(frozen=True)
class Place:
    """The place of an address in the code."""

    function: str
    offset: int
    module: str | None


class Symbols:
    """The functions of a kernel, from the text of its /proc/kallsyms."""

    def __init__(self, kallsyms: str) -> None:
        found: dict[int, tuple[str, str | None]] = {}
        for line in kallsyms.splitlines():
            symbol = _SYMBOL.match(line)
            # Of several names for one address, take the first, like the kernel.
            if symbol and (at := int(symbol[1], 16)):
                found.setdefault(at, (symbol[2], symbol[3]))
        self._starts = sorted(found)
        self._names = [found[start] for start in self._starts]

    def __bool__(self) -> bool:
        """Whether the text has addresses: a kernel may hide them (kptr_restrict)."""
        return bool(self._starts)

    def find(self, address: int) -> Place | None:
        """The function that `address` returns to; the call may be its last instruction."""
        i = bisect_right(self._starts, address - 1) - 1
        if i < 0 or address - self._starts[i] >= _LONGEST:
            return None
        return Place(self._names[i][0], address - self._starts[i], self._names[i][1])


class Frames:
    """Rows of `frame` for the stacks of a source, each stack once."""

    def __init__(self, source: "Source") -> None:
        self._source = source
        self._symbols: Symbols | None = None
        self._read_at = 0.0
        self._done: set[int] = set()

    def restart(self) -> None:
        """Begin a tape, which has no frames yet."""
        self._done.clear()

    def of(self, stacks: pa.RecordBatch) -> pa.RecordBatch:
        """The frames of the stacks that this batch of `stack` is the first to use."""
        numbers = set(stacks["stack"].to_pylist()) - {None} - self._done
        self._done |= numbers
        return TABLES["frame"].batch([row for n in sorted(numbers) for row in self._rows(n)])

    def _rows(self, number: int) -> Iterable[dict[str, Any]]:
        try:
            frames = self._source.stack(number)
        except IndexError:  # a checkpoint lacks a stack that the rows before it have
            return
        for depth, address in enumerate(frames):
            row: dict[str, Any] = {"stack": number, "depth": depth}
            if place := self._find(address):
                yield row | vars(place)
            else:
                yield row | {"address": address}

    def _find(self, address: int) -> Place | None:
        place = self._symbols.find(address) if self._symbols else None
        if place is None and (self._symbols is None or time.monotonic() > self._read_at + _AGAIN_S):
            self._symbols = Symbols(self._source.kallsyms)
            self._read_at = time.monotonic()
            place = self._symbols.find(address)
        return place
