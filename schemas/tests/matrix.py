# SPDX-License-Identifier: Apache-2.0
"""Long matrices of tests: `make test` runs a short member of each, `make lab MEASURE=matrices` all.

A file that imports this module has such a matrix. PAGETAPE_MATRIX=whole runs all of it.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

WHOLE = os.environ.get("PAGETAPE_MATRIX") == "whole"

_T = TypeVar("_T")


def number(short: int, whole: int) -> int:
    """How many: of examples, kills, or rows."""
    return whole if WHOLE else short


def some(cases: Sequence[_T], of: int) -> Sequence[_T]:
    """Each case with the numbers of its place in `of` parts: the first part, or all."""
    return cases if WHOLE else cases[::of]


def one_of_each(cases: Iterable[_T], kind: Callable[[_T], Hashable]) -> list[_T]:
    """The first case of each kind, or all."""
    found: dict[Hashable, _T] = {}
    for nr, case in enumerate(cases):
        found.setdefault(nr if WHOLE else kind(case), case)
    return list(found.values())
