# SPDX-License-Identifier: Apache-2.0
"""A pairwise cover: few rows in which each two values of different parameters occur together.

The rows are all pairs of the two largest parameters. The other parameters are added one by one:
each row gets the value that makes most new pairs. Further rows have the pairs that are left. Of
several tries in random order, the one with the fewest rows counts. allpairspy, which builds row
by row, leaves out allowed pairs if values exclude each other.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

Values = Mapping[str, Sequence[str]]  # the values of each parameter
Row = dict[str, str]  # the value of each parameter
Pair = frozenset[tuple[str, str]]  # two parameters with their values
Never = Sequence[Mapping[str, Collection[str]]]  # values that never occur together

_TRIES = 500


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


@dataclass
class _Attempt:
    """Rows on their way to a cover."""

    values: Values
    never: Never
    usual: Mapping[str, str]
    rows: list[Row]
    left: set[Pair]  # the rows lack them

    def give(self, row: Row, name: str, used: dict[str, int]) -> bool:
        """Give the row the value of a parameter that makes most pairs; False: none is allowed."""
        merits = {
            value: (
                len(self.left.intersection(pairs(row | {name: value}))),
                value == self.usual.get(name),
                -used[value],
            )
            for value in self.values[name]
            if allowed(row | {name: value}, self.never)
        }
        if not merits:
            return False
        row[name] = max(merits, key=merits.__getitem__)
        used[row[name]] += 1
        self.left.difference_update(pairs(row))
        return True

    def complete(self, order: random.Random, product_of: Collection[str]) -> bool:
        """Give all rows all parameters, and add rows for the pairs that are left."""
        used = {name: dict.fromkeys(those, 0) for name, those in self.values.items()}
        rest = [name for name in _largest_first(self.values) if name not in product_of]
        for name in rest:
            for row in order.sample(self.rows, len(self.rows)):
                if not self.give(row, name, used[name]):
                    return False
        while self.left:
            row = dict(min(self.left, key=sorted))
            for name in [name for name in self.values if name not in row]:
                if not self.give(row, name, used[name]):
                    return False
            self.left.difference_update(pairs(row))
            self.rows.append(row)
        return True


def _largest_first(values: Values) -> list[str]:
    return sorted(values, key=lambda name: -len(values[name]))


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
    first, second = _largest_first(values)[:2]
    both = [{first: a, second: b} for a, b in product(values[first], values[second])]
    both = [row for row in both if allowed(row, never)]
    left = wanted(values, never).difference(*map(pairs, both))
    best: list[Row] = []
    for _ in range(_TRIES):
        attempt = _Attempt(values, never, usual, [dict(row) for row in both], set(left))
        if not attempt.complete(order, (first, second)):
            continue
        if not best or len(attempt.rows) < len(best):
            best = attempt.rows
        if len(best) == len(both):
            break
    if not best:
        raise ValueError(f"no pairwise cover found in {_TRIES} tries")
    _spare(best, never, usual)
    return [{name: row[name] for name in values} for row in best]
