# SPDX-License-Identifier: Apache-2.0
"""pagetape schema: show the documentation of every table."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from pagetape import answer
from pagetape.asking import query
from pagetape.commands import options
from pagetape.schemas import (
    CONTEXT_BITS,
    ENUMS,
    GFP_BITS,
    MIGRATETYPES,
    RENAMES,
    TABLES,
    VERSION,
    ZONES,
    Column,
    Renames,
    Table,
    Value,
)

_INTRODUCTION = """<!-- Written by `pagetape schema --markdown`. Do not edit. -->
# Tables of a tape

A tape is a directory `NAME.tape` with one Arrow IPC file for each table, `TABLE.arrow`. This page
documents schema version {version}. `pagetape schema TABLE` prints the same for one table. In
`pagetape sql` every table is a view with one more column: `tape`, the name of the tape. The views
under the tables are made from them: only `pagetape sql` and the reports have these.
"""

_BITS = {  # by name: column, meaning, names from bit 0 on
    "gfp": ("gfp_flags", "the canonical gfp_flags", GFP_BITS),
    "context": ("flags", "the context that an event fired in", CONTEXT_BITS),
}


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
    """The documentation of a table; `shared` adds the values that several tables share."""
    rows = [
        (f"  {c.name}", _type(c) + ("?" if c.null else ""), c.unit, c.doc) for c in table.columns
    ]
    parts = [
        f"{table.name}: {table.doc}",
        answer.table(("  column", "type", "unit", "meaning"), rows),
    ]
    if table.kinds:
        kinds = [(f"    {k.name}", ", ".join(k.tracepoints), k.doc) for k in table.kinds]
        parts.append(answer.table(("  kind", "tracepoints", "meaning"), kinds))
    own = [(c.name, c.values) for c in table.columns if c.values and not c.enum]
    named = {c.enum for c in table.columns} if shared else set()
    own += [(name, values) for name, values in ENUMS.items() if name in named]
    parts += [_values_text(name, values) for name, values in own]
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


def _markdown_view(view: query.Query) -> Iterator[str]:
    yield f"## View {view.name}"
    yield _cell(view.title)
    if view.doc:
        yield _cell(view.doc)
    rows = [(f"`{c.name}`", c.type, c.doc) for c in view.columns]
    yield _markdown_table(("column", "type", "meaning"), rows)


def _cell(text: str) -> str:
    """Text as Markdown shows it."""
    return re.sub(r"([*<|])", r"\\\1", text)


def _markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_column(column: Column) -> tuple[str, str, str, str, str]:
    kind = _type(column)
    if column.enum in ENUMS:
        kind = f"[{column.enum}](#values-of-{column.enum})"
    null = "yes" if column.null else ""
    return f"`{column.name}`", kind, column.unit, null, column.doc


def _markdown(table: Table) -> Iterator[str]:
    yield f"## {table.name}"
    yield _cell(table.doc) + ("" if table.required else " A tape may be without this table.")
    rows = map(_markdown_column, table.columns)
    yield _markdown_table(("column", "type", "unit", "null", "meaning"), rows)
    if table.kinds:
        kinds = [(f"`{k.name}`", ", ".join(k.tracepoints), k.doc) for k in table.kinds]
        yield _markdown_table(("kind", "tracepoints", "meaning"), kinds)
    for column in table.columns:
        if column.values and not column.enum:
            values = [(f"`{name}`", doc) for name, doc in _pairs(column.values)]
            yield _markdown_table((column.name, "meaning"), values)


def _former(version: int, renames: Renames) -> Iterator[tuple[str, str, str, str]]:
    """The former names of a version: what was renamed, of which table, from, to."""
    said = str(version)
    for old, new in renames.tables.items():
        yield said, "table", f"`{old}`", f"`{new}`"
    for table, columns in renames.columns.items():
        for old, new in columns.items():
            yield said, f"column of {table}", f"`{old}`", f"`{new}`"
    for place, labels in renames.labels.items():
        for old, new in labels.items():
            yield said, f"value of {place}", f"`{old}`", f"`{new}`"
    for old, new in renames.policies.items():
        yield said, "policy", f"`{old}`", f"`{new}`"


def _page() -> Iterator[str]:
    """The whole page docs/schema.md, in parts."""
    yield _INTRODUCTION.format(version=VERSION).rstrip()
    for table in TABLES.values():
        yield from _markdown(table)
    for view in query.views():
        yield from _markdown_view(view)
    for name, values in ENUMS.items():
        yield f"## Values of {name}"
        rows = [(f"`{value}`", doc) for value, doc in _pairs(values)]
        yield _markdown_table((name, "meaning"), rows)
    for column, meaning, bits in _BITS.values():
        yield f"## Bits of {column}"
        yield f"Bits of {meaning}."
        yield _markdown_table(("bit", "name"), [(str(i), f"`{b}`") for i, b in enumerate(bits)])
    yield "## Former names"
    yield "pagetape reads a tape of an older schema version with today's names."
    rows_of = [row for version, renames in RENAMES.items() for row in _former(version, renames)]
    yield _markdown_table(("tapes of version", "renamed", "former name", "name"), rows_of)


_VIEWS = {view.name: view for view in query.views()}
_NAMES = [*TABLES, *(name for name in _VIEWS if name not in TABLES)]


@click.command("schema")
@click.argument("table", required=False, type=click.Choice(_NAMES), metavar="[TABLE]")
@click.option("--markdown", is_flag=True, help="Print Markdown, as in docs/schema.md.")
@options.json
def command(table: str | None, markdown: bool, as_json: bool) -> None:
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
    elif markdown:
        some = [_markdown(t) for t in chosen] + [_markdown_view(view) for view in views]
        answer.say("\n\n".join(itertools.chain(*some) if table else _page()))
    else:
        parts = [_text(t, shared=table is not None) for t in chosen]
        parts += map(_view_text, views)
        parts += [] if table else [_values_text(name, values) for name, values in ENUMS.items()]
        answer.say("\n\n".join(parts))
