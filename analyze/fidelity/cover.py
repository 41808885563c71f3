# SPDX-License-Identifier: Apache-2.0
"""A pairwise cover: few rows in which each two values of different parameters occur together.

The rows are all pairs of the two largest parameters. The other parameters are added one by one:
each row gets the value that makes most new pairs. allpairspy, which builds row by row, leaves out
allowed pairs if values exclude each other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, product

Values = Mapping[str, Sequence[str]]  # the values of each parameter
Row = dict[str, str]  # the value of each parameter
Pair = frozenset[tuple[str, str]]  # two parameters with their values
Never = Sequence[Mapping[str, Collection[str]]]  # values that never occur together

_TRIES = 1000


def allowed(row: Mapping[str, str], never: Never) -> bool:
    """If the row, which may lack parameters, holds no values that exclude each other."""
    return not any(all(row.get(name) in those for name, those in rule.items()) for rule in never)


def pairs(row: Mapping[str, str]) -> Iterator[Pair]:
    return (frozenset(both) for both in combinations(row.items(), 2))


def wanted(values: Values, never: Never) -> set[Pair]:
    """All pairs that a cover has."""
    found = set()
    for (one, those), (other, others) in combinations(values.items(), 2):
        for a, b in product(those, others):
            if allowed({one: a, other: b}, never):
                found.add(frozenset({(one, a), (other, b)}))
    return found


def _attempt(
    values: Values, never: Never, usual: Mapping[str, str], order: random.Random
) -> tuple[list[Row], set[Pair]]:
    """Rows, and the pairs that they lack."""
    first, second, *rest = sorted(values, key=lambda name: -len(values[name]))
    rows = [{first: a, second: b} for a, b in product(values[first], values[second])]
    rows = [row for row in rows if allowed(row, never)]
    left = wanted(values, never)
    for row in rows:
        left.difference_update(pairs(row))
    for name in rest:
        used = dict.fromkeys(values[name], 0)
        for row in order.sample(rows, len(rows)):
            merits = {
                value: (
                    len(left.intersection(pairs(row | {name: value}))),
                    value == usual.get(name),
                    -used[value],
                )
                for value in values[name]
                if allowed(row | {name: value}, never)
            }
            row[name] = max(merits, key=merits.__getitem__)
            used[row[name]] += 1
            left.difference_update(pairs(row))
    return rows, left


def _spare(rows: list[Row], never: Never, usual: Mapping[str, str]) -> None:
    """Put the usual value into every row whose cover does not need another one."""
    count = Counter(pair for row in rows for pair in pairs(row))
    for name, value in usual.items():
        for row in rows:
            changed = row | {name: value}
            gone, new = (
                set(pairs(one)) - set(pairs(other))
                for one, other in ((row, changed), (changed, row))
            )
            if allowed(changed, never) and all(count[pair] > 1 for pair in gone):
                count.subtract(gone)
                count.update(new)
                row[name] = value


def cover(values: Values, never: Never, usual: Mapping[str, str], seed: int) -> list[Row]:
    """The rows, the same for the same arguments. `usual` has the value that a parameter takes
    where any would do; the values of the others are spread evenly. ValueError: no cover found.
    """
    order = random.Random(seed)
    for _ in range(_TRIES):
        rows, left = _attempt(values, never, usual, order)
        if not left:
            _spare(rows, never, usual)
            return [{name: row[name] for name in values} for row in rows]
    raise ValueError(f"no pairwise cover of {len(rows)} rows in {_TRIES} tries")
