# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pyarrow as pa

ROWS_MOST: int
LOW_BYTES: int

def keep_freed_memory() -> None:
    """The heap of this process keeps freed blocks of up to 32 MiB. A reader frees a batch of rows
    and allocates the next one: the kernel would clear their pages each time."""

def rows_of(number: Any, valid: Any, nr: int, wanted: bytes) -> tuple[pa.Buffer, int]:
    """The places of all rows of groups with a byte of 2, and of the rows without a bit in `valid`
    of those with 1, 16 bits each, and their number. `number`: of the group of each of `nr` rows."""

def picked(buffer: Any, width: int, offset: int, nr_from: int, at: Any, nr: int) -> pa.Buffer:
    """Those of `nr_from` values of `width` bytes, from the element `offset` on, at `nr` places of
    16 bits. ValueError for a buffer that is shorter."""

def picked_bits(buffer: Any, offset: int, nr_from: int, at: Any, nr: int) -> pa.Buffer:
    """The same of bits."""

class Groups:
    """The groups of a batch of `nr` rows in the order of time. Its length is their number.

    A key column is (values, bytes of a value, validity bitmap or None, offset of the first row).
    ValueError for more than ROWS_MOST rows, and for a buffer that is shorter than its rows. All
    results are new buffers. Buffers that they are made of begin at the row `offset`.
    """

    number: pa.Buffer  # of each row's group, 16 bits, in the order of time
    place: pa.Buffer  # in time, of each row in the order of groups

    def __init__(self, keys: list[tuple[Any, int, Any, int]], nr: int) -> None: ...
    def __len__(self) -> int: ...
    @property
    def first(self) -> pa.Buffer:
        """The first row of each group in the order of time, 16 bits."""
    @property
    def rows(self) -> pa.Buffer:
        """The number of rows of each group, 32 bits."""
    def numbers(self) -> tuple[pa.Buffer, pa.Buffer]:
        """The low and the high bytes of the number of each row's group, in the order of time."""
    def differences(self, buffer: Any, offset: int, valid: Any) -> list[pa.Buffer]:
        """64-bit values in the order of groups as differences: LOW_BYTES columns of bytes, and one
        of 32 bits. `valid` is their bitmap in that order, or None."""

class Order:
    """The order of time of a stored batch, from the bytes of the numbers of its `nr` rows' groups
    and the number of rows of each of the `nr_groups` groups, 32 bits.

    ValueError for more than ROWS_MOST rows, for a buffer that is shorter than its rows, and unless
    the numbers give each group its rows. All results are new buffers of `nr` rows in that order.
    Their number is smaller after choose().
    """

    number: pa.Buffer  # of each row's group, 16 bits
    place: pa.Buffer  # of each row in the order of groups
    nr: int
    nr_groups: int

    def __init__(self, low: Any, high: Any, rows: Any, nr_groups: int, nr: int) -> None: ...
    def choose(self, wanted: Any) -> None:
        """Leave out the rows of groups whose byte is 0; once."""
    def sums(self, stored: list[Any], valid: Any) -> pa.Buffer:
        """The values of differences, as Groups.differences() makes them."""
