# SPDX-License-Identifier: Apache-2.0
"""What a tape is: its tables, columns, enums and version.

The TOML files beside this module are the only definition. `TABLES` holds them
in the order of tape.toml; `Table.arrow` is the pyarrow schema of one of them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Column:
    """One column: its storage type, unit, labels and one sentence."""

    name: str
    type: str
    doc: str
    unit: str
    null: bool
    labels: tuple[str, ...]  # of an enum column, in numeric order; else empty
    bits: tuple[str, ...]  # of a flags column, bit 0 first; else empty
    private: str  # what is done to it in a private tape: see Veil in private.py; else ""

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
    """One value of a `kind` column and the tracepoints it stands for."""

    name: str
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
        """The column of that name; KeyError if there is none."""
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


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))


@cache
def _tape() -> dict[str, Any]:
    return _toml("tape")


VERSION: int = _tape()["version"]
MIGRATETYPES: tuple[str, ...] = tuple(_tape()["enums"]["migratetype"])
ZONES: tuple[str, ...] = tuple(_tape()["enums"]["zone"])
GFP_BITS: tuple[str, ...] = tuple(_tape()["bits"]["gfp"])


def _load(name: str) -> Table:
    data = _toml(name)
    kinds = tuple(Kind(k["name"], tuple(k["tracepoints"])) for k in data.get("kind", ()))

    def labels(enum: str | list[str] | None) -> tuple[str, ...]:
        if enum is None:
            return ()
        if enum == "kind":
            return tuple(kind.name for kind in kinds)
        return tuple(_tape()["enums"][enum] if isinstance(enum, str) else enum)

    return Table(
        name=data["name"],
        doc=data["doc"],
        required=data["required"],
        kinds=kinds,
        columns=tuple(
            Column(
                name=c["name"],
                type=c["type"],
                doc=c["doc"],
                unit=c.get("unit", ""),
                null=c.get("null", False),
                labels=labels(c.get("enum")),
                bits=tuple(_tape()["bits"][c["bits"]]) if "bits" in c else (),
                private=c.get("private", ""),
            )
            for c in data["column"]
        ),
    )


TABLES: dict[str, Table] = {name: _load(name) for name in _tape()["tables"]}
