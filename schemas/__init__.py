# SPDX-License-Identifier: Apache-2.0
"""The definition of a tape: its tables, columns, enums and version.

The TOML files beside this module are the only definition. `TABLES` holds them in the order of
tape.toml; `Table.arrow` is the pyarrow schema of one of them. `RENAMES` has the names of older
tapes: `Tape` reads them as today's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import pyarrow as pa

_ARROW = {
    "bool": pa.uint8(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "utf8": pa.utf8(),
}


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
    def arrow(self) -> pa.Field:
        """The pyarrow field; an enum is a dictionary with fixed indices."""
        kind = pa.dictionary(pa.uint8(), pa.utf8()) if self.labels else _ARROW[self.type]
        meta = {"doc": self.doc}
        if self.unit:
            meta["unit"] = self.unit
        return pa.field(self.name, kind, nullable=self.null, metadata=meta)


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

    @cached_property
    def arrow(self) -> pa.Schema:
        """The pyarrow schema, one field per column."""
        return pa.schema([column.arrow for column in self.columns])

    def column(self, name: str) -> Column:
        """The column of that name; raises KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """A batch of this table from Python rows; labels stand for enum values."""
        return pa.RecordBatch.from_arrays(
            [
                self._array(column, [row.get(column.name) for row in rows])
                for column in self.columns
            ],
            schema=self.arrow,
        )

    @staticmethod
    def _array(column: Column, values: list[Any]) -> pa.Array:
        if column.type == "bool":
            values = [None if value is None else int(value) for value in values]
        if not column.labels:
            return pa.array(values, _ARROW[column.type])
        number = {label: i for i, label in enumerate(column.labels)}
        codes = [None if value is None else number[value] for value in values]
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.uint8()), list(column.labels))


@dataclass(frozen=True)
class Renames:
    """Former names of one tape version, each with today's name.

    Columns are by today's name of their table, labels by today's `table.column`.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)  # names in --json answers; not in tapes

    def former_table(self, name: str) -> str:
        """The former name of today's table `name`."""
        return next((old for old, new in self.tables.items() if new == name), name)

    def column(self, table: str, former: str) -> str:
        """Today's name of a column of today's table `table`."""
        return self.columns.get(table, {}).get(former, former)

    def label(self, table: str, column: str, former: str) -> str:
        """Today's label of an enum; table and column have today's names."""
        return self.labels.get(f"{table}.{column}", {}).get(former, former)

    def policy(self, spec: str) -> str:
        """Today's form of a policy `name` or `name:key=value,key=value`."""
        name, colon, parameters = spec.partition(":")
        return self.policies.get(name, name) + colon + parameters

    def touches(self, table: str) -> bool:
        """Whether today's table `table` has a column or a label with a former name."""
        labels = any(place.partition(".")[0] == table for place in self.labels)
        return table in self.columns or labels


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))


def _tape() -> dict[str, Any]:
    return _toml("tape")


VERSION: int = _tape()["version"]
ENUMS: dict[str, tuple[Value, ...]] = {  # the values that several tables share
    name: tuple(Value(value["name"], value["doc"]) for value in values)
    for name, values in _tape()["enums"].items()
}
MIGRATETYPES: tuple[str, ...] = tuple(value.name for value in ENUMS["migratetype"])
ZONES: tuple[str, ...] = tuple(value.name for value in ENUMS["zone"])
GFP_BITS: tuple[str, ...] = tuple(_tape()["bits"]["gfp"])
CONTEXT_BITS: tuple[str, ...] = tuple(_tape()["bits"]["context"])

# Older tape versions that `Tape` reads, each with the names that changed since.
RENAMES: dict[int, Renames] = {
    int(version): Renames(**names) for version, names in _tape()["renames"].items()
}


def current_policy(spec: str) -> str:
    """A policy `name` or `name:key=value,key=value`, with today's name for a former one."""
    for renames in RENAMES.values():
        spec = renames.policy(spec)
    return spec


def _values(table: dict[str, Any], column: dict[str, Any]) -> list[dict[str, Any]]:
    """The values of a column: its own, those of another column, the table's kinds, or shared."""
    values: list[dict[str, Any]] | str = column.get("values", [])
    if isinstance(values, str):
        other, _, name = values.partition(".")
        found: list[dict[str, Any]] = next(
            c["values"] for c in _toml(other)["column"] if c["name"] == name
        )
        return found
    if enum := column.get("enum"):
        return list(table["kind"] if enum == "kind" else _tape()["enums"][enum])
    return values


def _load(name: str) -> Table:
    data = _toml(name)

    return Table(
        name=data["name"],
        doc=data["doc"],
        required=data["required"],
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
                bits=tuple(_tape()["bits"][c["bits"]]) if "bits" in c else (),
                private=c.get("private", ""),
            )
            for c in data["column"]
        ),
    )


TABLES: dict[str, Table] = {name: _load(name) for name in _tape()["tables"]}
