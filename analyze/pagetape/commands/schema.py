# SPDX-License-Identifier: Apache-2.0
"""pagetape schema: show the documentation of every table."""

import itertools
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import click

from pagetape import answer, did_you_mean
from pagetape.asking import query
from pagetape.commands import options
from pagetape.schemas import (
    CONTEXT_BITS,
    ENUMS,
    GFP_BITS,
    MIGRATETYPES,
    TABLES,
    VERSION,
    ZONES,
    Column,
    Kind,
    Table,
    Value,
)

_INTRODUCTION = """<!-- Written by `pagetape schema --markdown`. Do not edit. -->
# Tables of a tape

A tape is a file `NAME.tape` with an Arrow IPC file for each table ([format.md](format.md)). This
page documents schema version {version}. Every tape has {required}; it may be without the others.
`pagetape schema TABLE` prints the same for one table. In
`pagetape sql` every table is a view with one more column: `tape`, the name of the tape. Only
`pagetape sql` and the reports have the views under the tables, which are made from them.

A line has a column: its name, its type with `?` if it may be null, its unit, and its meaning in a
sentence; the command has every sentence. The next section has the columns that mean the same in
several tables; these have only their names. The tables of replays and validations are at the end,
with the names of their columns.
"""

_REPLAYED = "anomaly"  # the first table that only a replay or a validation writes

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


def _cell(text: str) -> str:
    """Text as Markdown shows it."""
    return re.sub(r"([*<|])", r"\\\1", text)


def _meaning(doc: str) -> str:
    """The first sentence about a column, a kind or a value."""
    return _cell(re.split(r"(?<=\.) (?=[A-Z])", doc)[0])


def _kind(kind: Kind) -> str:
    """A line about a kind, with the tracepoints that are not named for it."""
    others = [name for name in kind.tracepoints if not name.endswith(f"_{kind.name}")]
    said = f" ({', '.join(others)})" if others else ""
    return f"- `{kind.name}`{said}: {_meaning(kind.doc)}"


_SHARED = 2  # a column that stands so often with the same meaning is explained once
_USUAL = 4  # a type of so many columns of a table is named once

_Line = tuple[str, str, str, str]  # of a column: name, type, unit, meaning


def _line(column: Column) -> _Line:
    kind = _type(column)
    if column.enum in ENUMS:
        kind = f"[{column.enum}](#values-of-{column.enum})"
    return column.name, f"{kind}{'?' if column.null else ''}", column.unit, column.doc


def _shared(tables: Iterable[Table]) -> list[_Line]:
    """Of each name, the line of the most tables, if these are enough."""
    lines = Counter(_line(c) for table in tables for c in table.columns)
    most: dict[str, _Line] = {}
    for line, times in lines.most_common():
        if times >= _SHARED:
            most.setdefault(line[0], line)
    return list(most.values())


def _markdown_lines(lines: Sequence[_Line], shared: Container[_Line] = ()) -> str:
    """A list of columns; those of `shared` that follow each other are one entry."""
    own = Counter(line[1] for line in lines if line not in shared)
    usual, times = own.most_common(1)[0] if own else ("", 0)
    parts = [f"Type, if not named: {usual}\n"] if times >= _USUAL else []
    for is_shared, some in itertools.groupby(lines, key=lambda line: line in shared):
        if is_shared:
            parts.append("- " + ", ".join(f"`{name}`" for name, *_ in some))
            continue
        for name, kind, unit, doc in some:
            is_usual = kind == usual and times >= _USUAL
            said = ", ".join(filter(None, ("" if is_usual else kind, unit)))
            parts.append(f"- `{name}`{f' ({said})' if said else ''}: {_meaning(doc)}")
    return "\n".join(parts)


def _markdown_values(pairs: Iterable[tuple[str, str]]) -> str:
    """The values of an enum in one line; those of one meaning together."""
    parts = []
    for doc, some in itertools.groupby(pairs, key=lambda pair: pair[1]):
        parts.append(", ".join(f"`{value}`" for value, _ in some) + f": {_meaning(doc)}")
    return " ".join(parts)


def _markdown(
    table: Table, shared: Container[_Line], enums: dict[tuple[Value, ...], str]
) -> Iterator[str]:
    """The section of a table. `enums` has the table that lists each enum, and gets the new ones."""
    yield f"## {table.name}"
    yield _cell(table.doc)
    yield _markdown_lines(list(map(_line, table.columns)), shared)
    if table.kinds:
        head = "Kinds, with the tracepoints whose names do not end with theirs:"
        yield "\n".join([head, "", *map(_kind, table.kinds)])
    for column in table.columns:
        if column.values and not column.enum:
            where = enums.setdefault(tuple(column.values), table.name)
            own = where == table.name
            said = _markdown_values(_pairs(column.values)) if own else f"as in `{where}`."
            yield f"Values of `{column.name}`: {said}"


def _markdown_view(view: query.Query) -> Iterator[str]:
    yield f"## View {view.name}"
    yield _cell(f"{view.title} {view.doc}".strip())
    yield _markdown_lines([(column.name, column.type, "", column.doc) for column in view.columns])


def _page() -> Iterator[str]:
    """The whole page docs/schema.md, in parts."""
    required = ", ".join(f"`{table.name}`" for table in TABLES.values() if table.required)
    yield _INTRODUCTION.format(version=VERSION, required=required).rstrip()
    first = list(TABLES).index(_REPLAYED)
    recorded, replayed = list(TABLES.values())[:first], list(TABLES.values())[first:]
    shared = _shared(recorded)
    yield "## Columns of several tables"
    yield _markdown_lines(shared)
    enums: dict[tuple[Value, ...], str] = {}
    for table in recorded:
        yield from _markdown(table, shared, enums)
    yield "## Tables of replays and validations"
    yield "`pagetape schema TABLE` prints what each column means."
    yield "\n".join(
        f"- `{table.name}`: {_cell(table.doc)} Columns: "
        + ", ".join(f"`{column.name}`" for column in table.columns)
        for table in replayed
    )
    yield "## Views"
    yield "`pagetape schema VIEW` prints the columns of a view, and what it is made from: " + (
        ", ".join(f"`{view.name}`" for view in query.views()) + "."
    )
    for name, values in ENUMS.items():
        yield f"## Values of {name}"
        yield _markdown_values(_pairs(values))
    for column, meaning, bits in _BITS.values():
        yield f"## Bits of {column}"
        yield f"Bits of {meaning}, from bit 0 on: " + ", ".join(f"`{bit}`" for bit in bits) + "."


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
        some = [_markdown(t, (), {}) for t in chosen] + [_markdown_view(view) for view in views]
        answer.say("\n\n".join(itertools.chain(*some) if table else _page()))
    else:
        parts = [_text(t, shared=table is not None) for t in chosen]
        parts += map(_view_text, views)
        parts += [] if table else [_values_text(name, values) for name, values in ENUMS.items()]
        answer.say("\n\n".join(parts))
