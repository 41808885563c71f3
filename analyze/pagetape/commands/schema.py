# SPDX-License-Identifier: Apache-2.0
"""pagetape schema: show the documentation of every table."""

from typing import Any

import click

from pagetape import answer
from pagetape.commands import options
from pagetape.schemas import GFP_BITS, MIGRATETYPES, TABLES, VERSION, ZONES, Column, Table


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": "enum" if column.labels else column.type,
        "unit": column.unit or None,
        "null": column.null,
        "labels": list(column.labels) or None,
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


def _text(table: Table) -> str:
    lines = [f"{table.name}: {table.doc}", ""]
    rows = [
        (
            f"  {c.name}",
            ("enum" if c.labels else c.type) + ("?" if c.null else ""),
            c.unit,
            c.doc,
        )
        for c in table.columns
    ]
    lines.append(answer.table(("  column", "type", "unit", "meaning"), rows))
    if table.kinds:
        kinds = [(f"  {k.name}", ", ".join(k.tracepoints)) for k in table.kinds]
        lines += ["", answer.table(("  kind", "tracepoints"), kinds)]
    return "\n".join(lines)


@click.command("schema")
@click.argument("table", required=False, type=click.Choice(list(TABLES)), metavar="[TABLE]")
@options.json
def command(table: str | None, as_json: bool) -> None:
    """Show what the tables and columns of a tape mean; `?` marks a nullable column.

    Without TABLE, the command shows all tables. A tape stores each table as TABLE.arrow.

    \b
    Example:
      pagetape schema event
    """
    chosen = [TABLES[table]] if table else list(TABLES.values())
    if as_json:
        answer.emit(
            {
                "version": VERSION,
                "tables": [_table(t) for t in chosen],
                "migratetypes": MIGRATETYPES,
                "zones": ZONES,
                "gfp_bits": GFP_BITS,
            }
        )
        return
    click.echo("\n\n".join(_text(t) for t in chosen))
