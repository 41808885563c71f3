# SPDX-License-Identifier: Apache-2.0
"""The fragmentation index of a zone in which a request would succeed: no number.

The kernel's index (__fragmentation_index of mm/vmstat.c) is -1000 if a free block of the order
exists, else 0 to 1000. The tables `member` and `model_error` keep it as the kernel has it. Nothing
averages or subtracts -1000: a report counts in how many members a request would succeed, and takes
the index of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

_INDEX = "fragmentation index "  # metrics whose names begin so
SUCCEEDS = -1000

_Value = TypeVar("_Value", int, float)

# A state that a smaller share of the members has lies outside an 80 % interval.
_LEAST = 0.1


def is_index(metric: str) -> bool:
    return metric.startswith(_INDEX)


def number(metric: str, value: _Value | None) -> _Value | None:
    """A value, but None for a request that would succeed."""
    return None if is_index(metric) and value == SUCCEEDS else value


def numbers(metric: str, values: Sequence[float] | None) -> list[float]:
    """The values that are numbers."""
    return [value for value in values or () if number(metric, value) is not None]


@dataclass(frozen=True)
class Success:
    """In how many of some members, or of one run or recording, a request would succeed."""

    nr: int
    of: int

    @classmethod
    def among(cls, metric: str, values: Sequence[float | None] | None) -> "Success | None":
        """Of the known values of an index; None for other metrics, or without a value."""
        known = [value for value in values or () if value is not None]
        return cls(known.count(SUCCEEDS), len(known)) if known and is_index(metric) else None

    def has(self, succeeds: bool) -> bool:
        """Whether enough members are in that state."""
        return (self.nr if succeeds else self.of - self.nr) >= _LEAST * self.of

    def __str__(self) -> str:
        if self.of == 1:
            return "would succeed" if self.nr else "would fail"
        return f"would succeed in {self.nr} of {self.of}"
