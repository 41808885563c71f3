# SPDX-License-Identifier: Apache-2.0
"""Filters of a table of a tape, as DuckDB hands them down, keep the rows that pyarrow keeps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pagetape.asking.tape_dataset import TapeDataset
from pagetape.schemas.tape import Tape

kind, order, migratetype = ds.field("kind"), ds.field("page_order"), ds.field("migratetype")

FILTERS = {
    "one label": kind == "alloc",
    "several labels": kind.isin(["alloc", "free"]),
    "all but one": kind != "free",
    "unknown label": kind == "no_such_kind",
    "without a label": migratetype.is_null(),
    "with a label": migratetype.is_valid(),
    "a label or none": migratetype.is_null() | (migratetype == "MOVABLE"),
    "a number": order > 0,
    "a label and a number": (kind == "alloc") & (order > 0),
}


@pytest.mark.parametrize("wanted", FILTERS.values(), ids=FILTERS)
def test_a_filter_keeps_the_rows_of_pyarrow(golden: Path, wanted: ds.Expression) -> None:
    tape = Tape(golden)
    columns = ["kind", "pfn", "page_order"]
    rows = tape.table("event")
    for i, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.utf8()))
    expected = rows.filter(wanted).select(columns).to_pylist()
    found = TapeDataset(tape, "event").scanner(columns, wanted).to_reader().read_all()
    assert found.to_pylist() == expected
