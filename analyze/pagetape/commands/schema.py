# SPDX-License-Identifier: Apache-2.0
"""pagetape schema: show the documentation of every table."""

from collections.abc import Sequence
from typing import Any

import click

from pagetape import answer, did_you_mean
from pagetape.asking import query
from pagetape.commands import options
from pagetape.schemas import (
    ENUMS,
    GFP_BITS,
    MIGRATETYPES,
    TABLES,
    VERSION,
    ZONES,
    Column,
    Table,
    Value,
)


def _type(column: Column) -> str:
    return "enum" if column.values else column.type


def _pairs(values: Sequence[Value]) -> list[tuple[str, str]]:
    return [(value.name, value.doc) for value in values]


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": _type(column),
        "unit": column.unit or None,
        "null": column.null,
        "labels": list(column.labels) or None,
        "values": [{"name": value.name, "doc": value.doc} for value in column.values] or None,
        "bits": list(column.bits) or None,
        "doc": column.doc,
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "doc": table.doc,
        "required": table.required,
        "columns": [_column(column) for column in table.columns],
        "kinds": {kind.name: list(kind.tracepoints) for kind in table.kinds},
    }


def _values_text(name: str, values: Sequence[Value]) -> str:
    return answer.table((f"  {name}", "meaning"), [(f"    {n}", doc) for n, doc in _pairs(values)])


def _text(table: Table, *, shared: bool) -> str:
    """The documentation of a table; `shared` adds the values and bits that several tables share."""
    rows = [
        (f"  {c.name}", _type(c) + ("?" if c.null else ""), c.unit, c.doc) for c in table.columns
    ]
    parts = [
        f"{table.name}: {table.doc}{' Every tape has it.' if table.required else ''}",
        answer.table(("  column", "type", "unit", "meaning"), rows),
    ]
    if table.kinds:
        kinds = [(f"    {k.name}", ", ".join(k.tracepoints), k.doc) for k in table.kinds]
        parts.append(answer.table(("  kind", "tracepoints", "meaning"), kinds))
    own = [(c.name, c.values) for c in table.columns if c.values and not c.enum]
    named = {c.enum for c in table.columns} if shared else set()
    own += [(name, values) for name, values in ENUMS.items() if name in named]
    parts += [_values_text(name, values) for name, values in own]
    bits = [(c.name, ", ".join(c.bits)) for c in table.columns if c.bits and shared]
    parts += [f"  {name}, from bit 0 on: {names}" for name, names in bits]
    return "\n\n".join(parts)


def _view(view: query.Query) -> dict[str, Any]:
    return {
        "name": view.name,
        "doc": f"{view.title}\n\n{view.doc}".strip(),
        "columns": [{"name": c.name, "type": c.type, "doc": c.doc} for c in view.columns],
    }


def _view_text(view: query.Query) -> str:
    rows = [(f"  {c.name}", c.type, c.doc) for c in view.columns]
    head = f"{view.name} (view of `pagetape sql`): {view.title}"
    parts = [head, view.doc, answer.table(("  column", "type", "meaning"), rows)]
    return "\n\n".join(filter(None, parts))


_VIEWS = {view.name: view for view in query.views()}
_NAMES = [*TABLES, *(name for name in _VIEWS if name not in TABLES)]


def _known(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    if name is not None and name not in _NAMES:
        hint = did_you_mean.hint(name, _NAMES)
        raise click.BadParameter(
            f"'{name}' is no table or view; `pagetape schema` lists them{hint}"
        )
    return name


@click.command("schema")
@click.argument(
    "table", required=False, metavar="[TABLE]", callback=_known, shell_complete=lambda *_: _NAMES
)
@options.json
def command(table: str | None, as_json: bool) -> None:
    """Describe the tables, columns and values of a tape, and the views of `pagetape sql`.

    Without TABLE, the command describes all tables and views. `?` after a type marks a nullable
    column. A tape stores each table as TABLE.arrow.

    \b
    Example:
      pagetape schema event
    """
    chosen = [t for t in TABLES.values() if table in (None, t.name)]
    views = [view for view in _VIEWS.values() if table in (None, view.name)]
    if as_json:
        answer.emit(
            {
                "version": VERSION,
                "tables": [_table(t) for t in chosen],
                "views": list(map(_view, views)),
                "migratetypes": MIGRATETYPES,
                "zones": ZONES,
                "gfp_bits": GFP_BITS,
            }
        )
    else:
        parts = [_text(t, shared=table is not None) for t in chosen]
        parts += map(_view_text, views)
        parts += [] if table else [_values_text(name, values) for name, values in ENUMS.items()]
        answer.say("\n\n".join(parts))
