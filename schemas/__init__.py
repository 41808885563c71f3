# SPDX-License-Identifier: Apache-2.0
"""The definition of a tape: its tables, columns, enums and version.

The TOML files of this room are the only definition; the build makes tables.json of them. `TABLES`
holds them in the order of tape.toml; `Table.arrow` is the pyarrow schema of one of them.

Arrow is imported by what needs it, so that a command says its first words without it.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_RANGES = {  # least and greatest value
    "bool": (0, 1),
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    **{f"int{bits}": (-1 << (bits - 1), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class Value:
    """One value of an enum, with its documentation (one sentence)."""

    name: str
    doc: str
    group: str = ""  # class of the value, where the values of a column have classes


@dataclass(frozen=True)
class Column:
    """One column: its storage type, unit, values and documentation (one sentence)."""

    name: str
    type: str
    doc: str
    unit: str
    null: bool
    values: tuple[Value, ...]  # of an enum column, in numeric order; else empty
    enum: str  # name of the shared values in tape.toml, or "kind"; else ""
    bits: tuple[str, ...]  # of a flags column, bit 0 first; else empty
    private: str  # how a private tape changes it: see Veil in private.py; else ""
    differences: bool  # stored as differences: see form.py

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of an enum's values, in numeric order; else empty."""
        return tuple(value.name for value in self.values)

    def labels_of(self, group: str) -> tuple[str, ...]:
        """The names of the enum's values of one class."""
        return tuple(value.name for value in self.values if value.group == group)

    def fits(self, value: Any) -> bool:
        """Whether the column can hold the value: a label of an enum, a number, text or None."""
        if value is None:
            return self.null
        if self.labels:
            return value in self.labels
        if self.type == "utf8":
            return isinstance(value, str)
        least, most = _RANGES[self.type]
        return isinstance(value, int) and least <= value <= most

    @property
    def _arrow_type(self) -> "pa.DataType":
        import pyarrow as pa

        return pa.type_for_alias({"bool": "uint8", "utf8": "string"}.get(self.type, self.type))

    @cached_property
    def arrow(self) -> "pa.Field":
        """The pyarrow field; an enum is a dictionary with fixed indices."""
        import pyarrow as pa

        kind = pa.dictionary(pa.uint8(), pa.utf8()) if self.labels else self._arrow_type
        meta = {"doc": self.doc}
        if self.unit:
            meta["unit"] = self.unit
        return pa.field(self.name, kind, nullable=self.null, metadata=meta)

    @cached_property
    def arrow_labels(self) -> "pa.Array":
        """The labels of an enum, as a dictionary has them."""
        import pyarrow as pa

        return pa.array(self.labels, pa.utf8())

    def nulls(self, rows: int) -> "pa.Array":
        """An array of the column without a value."""
        import pyarrow as pa

        if not self.labels:
            return pa.nulls(rows, self._arrow_type)
        return pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.uint8()), self.arrow_labels)

    def array(self, values: list[Any]) -> "pa.Array":
        """An array of the column from Python values; labels stand for enum values."""
        import pyarrow as pa

        if self.type == "bool":
            values = [None if value is None else int(value) for value in values]
        if not self.labels:
            return pa.array(values, self._arrow_type)
        number = {label: i for i, label in enumerate(self.labels)}
        codes = [None if value is None else number[value] for value in values]
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.uint8()), list(self.labels))


@dataclass(frozen=True)
class Kind:
    """One value of a `kind` column: its documentation (one sentence) and its tracepoints."""

    name: str
    doc: str
    tracepoints: tuple[str, ...]  # "system:event"


@dataclass(frozen=True)
class Table:
    """One table of a tape."""

    name: str
    doc: str
    required: bool
    columns: tuple[Column, ...]
    kinds: tuple[Kind, ...]
    group: tuple[str, ...]  # columns by which the stored rows are grouped: see form.py; or none
    in_time: tuple[str, ...]  # columns of a table in groups that stay in the order of its rows

    @cached_property
    def arrow(self) -> "pa.Schema":
        """The pyarrow schema, one field per column."""
        import pyarrow as pa

        return pa.schema([column.arrow for column in self.columns])

    def column(self, name: str) -> Column:
        """The column of that name; raises KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def batch(self, rows: list[dict[str, Any]]) -> "pa.RecordBatch":
        """A batch of this table from Python rows; labels stand for enum values."""
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [column.array([row.get(column.name) for row in rows]) for column in self.columns],
            schema=self.arrow,
        )


_DEFINITION = json.loads(Path(__file__).with_name("tables.json").read_bytes())
_TAPE: dict[str, Any] = _DEFINITION["tape"]
_BY_NAME: dict[str, dict[str, Any]] = {table["name"]: table for table in _DEFINITION["tables"]}

VERSION: int = _TAPE["version"]
ENUMS: dict[str, tuple[Value, ...]] = {  # the values that several tables share
    name: tuple(Value(value["name"], value["doc"]) for value in values)
    for name, values in _TAPE["enums"].items()
}
MIGRATETYPES: tuple[str, ...] = tuple(value.name for value in ENUMS["migratetype"])
ZONES: tuple[str, ...] = tuple(value.name for value in ENUMS["zone"])
GFP_BITS: tuple[str, ...] = tuple(_TAPE["bits"]["gfp"])


def _values(table: dict[str, Any], column: dict[str, Any]) -> list[dict[str, Any]]:
    """The values of a column: its own, those of another column, the table's kinds, or shared."""
    values: list[dict[str, Any]] | str = column.get("values", [])
    if isinstance(values, str):
        other, _, name = values.partition(".")
        found: list[dict[str, Any]] = next(
            c["values"] for c in _BY_NAME[other]["column"] if c["name"] == name
        )
        return found
    if enum := column.get("enum"):
        return list(table["kind"] if enum == "kind" else _TAPE["enums"][enum])
    return values


def _table(data: dict[str, Any]) -> Table:
    return Table(
        name=data["name"],
        doc=data["doc"],
        required=data["required"],
        group=tuple(data.get("group", ())),
        in_time=tuple(data.get("in_time", ())),
        kinds=tuple(
            Kind(k["name"], k["doc"], tuple(k["tracepoints"])) for k in data.get("kind", ())
        ),
        columns=tuple(
            Column(
                name=c["name"],
                type=c["type"],
                doc=c["doc"],
                unit=c.get("unit", ""),
                null=c.get("null", False),
                enum=c.get("enum", ""),
                values=tuple(
                    Value(v["name"], v["doc"], v.get("class", "")) for v in _values(data, c)
                ),
                bits=tuple(_TAPE["bits"][c["bits"]]) if "bits" in c else (),
                private=c.get("private", ""),
                differences=c.get("differences", False),
            )
            for c in data["column"]
        ),
    )


TABLES: dict[str, Table] = {name: _table(data) for name, data in _BY_NAME.items()}
