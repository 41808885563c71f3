# SPDX-License-Identifier: Apache-2.0
"""The answer to a query: a relation of DuckDB whose errors are those of pagetape."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import duckdb
import pyarrow as pa

from pagetape import answer
from pagetape.answer import markup
from pagetape.api.error import explained
from pagetape.asking.database import Database

_SHOWN = 20  # rows of a notebook's table


class Relation:
    """Rows that DuckDB reads when they are asked for, with every method of a DuckDB relation.

    `relation` is the DuckDBPyRelation itself, for functions that want one.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation, database: Database, title: str) -> None:
        self.relation = relation
        self.title = title
        self._database = database

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.relation.columns)

    @property
    def types(self) -> list[str]:
        """DuckDB's types of the columns."""
        return [str(kind) for kind in self.relation.types]

    def arrow(self) -> pa.Table:
        """The rows as a table of pyarrow."""
        return self._read(self.relation.to_arrow_table)

    def df(self) -> Any:
        """The rows as a DataFrame of pandas, which must be installed."""
        with explained():
            import_module("pandas")
        return self._read(self.relation.df)

    def pl(self) -> Any:
        """The rows as a DataFrame of polars, which must be installed."""
        with explained():
            import_module("polars")
        return self._read(self.relation.pl)

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        names = self.columns
        return [dict(zip(names, row, strict=True)) for row in self._read(self.relation.fetchall)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a notebook asks for methods that show an object
            raise AttributeError(name)
        found = getattr(self.relation, name)
        return self._method(found) if callable(found) else found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.relation)})

    def __len__(self) -> int:
        return int(self._read(lambda: self.relation.aggregate("count(*)").fetchall())[0][0])

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            plain = [arg.relation if isinstance(arg, Relation) else arg for arg in args]
            found = self._read(lambda: method(*plain, **kwargs))
            if isinstance(found, duckdb.DuckDBPyRelation):
                return Relation(found, self._database, self.title)
            return found

        call.__doc__ = method.__doc__
        return call

    def _read(self, read: Callable[[], Any]) -> Any:
        with explained():
            return self._database.evaluate(read)

    def _head(self) -> tuple[list[tuple[Any, ...]], str]:
        """The first rows, and a note if there are more."""
        rows = self._read(lambda: self.relation.limit(_SHOWN + 1).fetchall())
        note = f"the first {_SHOWN} of {len(self):,} rows" if len(rows) > _SHOWN else ""
        return rows[:_SHOWN], note or ("" if rows else "no rows")

    def __repr__(self) -> str:
        rows, note = self._head()
        return "\n".join(filter(None, [answer.table(self.columns, rows), note]))

    def _repr_html_(self) -> str:
        rows, note = self._head()
        return html_table(self.title, self.columns, rows, [note])


def html_table(
    title: str, columns: list[str], rows: list[Any], notes: list[str] | tuple[str, ...] = ()
) -> str:
    """A table for a notebook, which has a style for tables."""

    def line(tag: str, values: Any) -> str:
        cells = "".join(f"<{tag}>{markup(answer.cell(value))}</{tag}>" for value in values)
        return f"<tr>{cells}</tr>"

    said = "".join(f"<div><small>{markup(note)}</small></div>" for note in notes if note)
    return (
        f"<div><b>{markup(title)}</b></div><table><thead>{line('th', columns)}</thead>"
        f"<tbody>{''.join(line('td', row) for row in rows)}</tbody></table>{said}"
    )
