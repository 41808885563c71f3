# SPDX-License-Identifier: Apache-2.0
"""A condition on the events of a tape, for SQL and for a pass."""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Only(NamedTuple):
    """Events of which a column has one of some values, or lies in one of some ranges."""

    column: str
    values: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()  # both ends included

    @property
    def sql(self) -> str:
        """The condition; false without values and ranges."""
        parts = [f"{self.column} BETWEEN {first} AND {last}" for first, last in self.ranges]
        if self.values:
            parts.append(f"{self.column} IN ({', '.join(map(str, self.values))})")
        return f"({' OR '.join(parts) or 'false'})"

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that meet it."""
        column = batch[self.column]
        mask = pc.is_in(column, pa.array(self.values, column.type))
        for first, last in self.ranges:
            ends = pa.scalar(first, column.type), pa.scalar(last, column.type)
            inside = pc.and_(pc.greater_equal(column, ends[0]), pc.less_equal(column, ends[1]))
            mask = pc.or_kleene(mask, inside)
        return batch.filter(mask)
