# SPDX-License-Identifier: Apache-2.0
from typing import Any

ROWS_MOST: int
LOW_BYTES: int

def number(keys: list[tuple[Any, int, Any, int]], nr: int) -> tuple[bytearray, bytearray]:
    """The low and the high bytes of the number of each row's group, in the order of time.

    A key column is (values, bytes of a value, validity bitmap or None, offset of the first row).
    """

class Order:
    """The rows of one batch in the order of groups, from the two bytes of their groups' numbers.

    ValueError for more than ROWS_MOST rows, and for a buffer that is shorter than its rows. All
    results are new buffers of `nr` rows.
    """

    def __init__(self, low: Any, high: Any, nr: int) -> None: ...
    def group(self, buffer: Any, width: int, offset: int) -> bytearray:
        """Values of `width` bytes, of which the first is at `offset`, in the order of groups."""
    def ungroup(self, buffer: Any, width: int) -> bytearray:
        """Such values in the order of time again."""
    def group_bits(self, buffer: Any, offset: int) -> bytearray:
        """A validity bitmap in the order of groups."""
    def ungroup_bits(self, buffer: Any) -> bytearray:
        """Such a bitmap in the order of time again."""
    def differences(self, grouped: bytearray, valid: Any) -> list[bytearray]:
        """64-bit values in the order of groups as differences: LOW_BYTES columns of bytes, and one
        of 32 bits. `valid` is their bitmap in that order, or None."""
    def values(self, stored: list[Any], valid: Any) -> bytearray:
        """The values of such columns, in the order of time."""
