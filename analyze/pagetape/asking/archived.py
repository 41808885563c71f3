# SPDX-License-Identifier: Apache-2.0
"""The tables behind the views fleet_*: what an archive's index and aggregates hold.

The headers of these views in queries/views/ define the columns. A stored row has, instead of
`tape`, the number of the tape in its segment of the index; a reader adds the segment's number.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pagetape.asking import query
from pagetape.asking.tape_dataset import Dataset, RowsDataset

PREFIX = "fleet_"  # of the views
TAPE = "fleet_tape"  # the view with a row for each tape
TAPES = "tapes"  # its column with the number of tapes that a row stands for
_DERIVED = ("tape", "object", "shard")  # of a view, made from other columns
_UNIQUE = ("identity", "etag")
_TYPES = {
    "VARCHAR": pa.utf8(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
}

SEGMENT = pa.field("segment", pa.uint32())
NUMBER = pa.field("number", pa.uint32())


@cache
def tables() -> Mapping[str, pa.Schema]:
    """The stored columns of each table, by name: first `tape`, the index, then the aggregates."""
    found = {}
    for view in sorted(query.views(), key=lambda view: view.name != TAPE):
        if view.name.startswith(PREFIX):
            fields = [(c.name, _TYPES[c.type]) for c in view.columns if c.name not in _DERIVED]
            found[view.name.removeprefix(PREFIX)] = pa.schema([NUMBER, *fields])
    return MappingProxyType(found)


def with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The rows with other values of a column, or of a new one at the end."""
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)


def check(stored: pa.Schema, name: str) -> None:
    """Raise pa.ArrowTypeError for a stored column that had another type when it was written."""
    known = tables()[name]
    for field in stored:
        its = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in known.names and its != known.field(field.name).type:
            why = f"its column {field.name} is {its}, not {known.field(field.name).type}"
            raise pa.ArrowTypeError(why)


def fitted(rows: pa.Table, name: str) -> pa.Table:
    """Stored rows with the columns of this pagetape: those of an older one have nulls."""
    schema = tables()[name]
    return pa.concat_tables([schema.empty_table(), rows], promote_options="permissive").cast(schema)


# The rows of the report fleet.regressions, which statistics over hosts make.
COMPARISON = "archived_comparison"
_COMPARED = ("ratio", "low", "high", "median_base", "median_cohort", "share_higher", "p")
_COHORTS = pa.schema(
    [
        *((name, pa.utf8()) for name in ("metric", "base", "cohort", "verdict")),
        *((name, pa.float64()) for name in _COMPARED),
        *((name, pa.int64()) for name in ("hosts_base", "hosts_cohort")),
        ("paired", pa.bool_()),
    ]
)


def comparison(rows: Sequence[Mapping[str, Any]]) -> Dataset:
    """Rows of fleet.cohort_comparison.regressions() as the table COMPARISON."""
    return RowsDataset(_COHORTS, [dict(row) for row in rows])


def repeated(schema: pa.Schema) -> tuple[str, ...]:
    """The text columns whose values repeat: dictionaries hold them."""
    texts = (field.name for field in schema if field.type == pa.utf8())
    return tuple(name for name in texts if name not in _UNIQUE)


def source(name: str) -> str:
    """The name in SQL of a stored table."""
    return f"archived_{name}"


def nothing() -> dict[str, Dataset]:
    """The tables of no archive."""
    stored = {
        source(name): RowsDataset(pa.schema([SEGMENT, *schema]), [])
        for name, schema in tables().items()
    }
    return stored | {COMPARISON: comparison([])}
