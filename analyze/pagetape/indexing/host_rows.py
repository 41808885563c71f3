# SPDX-License-Identifier: Apache-2.0
"""The rows of a segment added up by host: what most questions need, in far fewer rows.

The tapes of a segment whose facts are equal are one host: all columns of the index but those that
differ from tape to tape. A host has a row where a tape has one, with sums of what adds up, and rows
of the aggregates. So a question has the same SQL for both, and may read some days by host and
others by tape.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking import archived

PREFIX = "hosts_"  # of the names of these tables in a segment

_NUMBER = archived.NUMBER.name
_STATES = {"free", "zone"}  # tables that do not add up

# Columns of the index that differ from tape to tape; others are facts of the host.
_LIMITS = {"began": "min", "ended": "max"}
_SUMS = dict.fromkeys(("bytes", "hours", "lost", "events", "page_events"), "sum")
_UNIQUE = ("identity", "etag", "object", "shard")  # a host has none


def _words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text.lower())}


def can_answer(sql: str, tables: set[str]) -> bool:
    """Whether hosts have what a statement names, and these tables. Of `began` and `ended`, they
    have the first and the last of a day."""
    return not _words(sql) & {*_UNIQUE} and not tables & _STATES


def can_choose(condition: str) -> bool:
    """Whether a condition on fleet_tape, or a list of its columns, is about facts of hosts."""
    return not _words(condition) & {*_UNIQUE, *_LIMITS, *_SUMS, archived.TAPES, "tape"}


def _places(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """For each row the number of its combination of values; combinations are numbered by their
    first rows."""
    places = pa.array([0] * len(columns[0]), pa.int64())
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        both = pc.add(pc.multiply(places, len(encoded.dictionary)), encoded.indices)
        places = both.dictionary_encode().indices.cast(pa.int64())
    return places


def _added(rows: pa.Table, places: pa.Array, how: dict[str, str]) -> pa.Table:
    """The rows of each place as one: its first row, but for the columns of `how`."""
    order = pa.array(range(len(rows)), pa.int64())
    placed = pa.table([places, order, *(rows[name] for name in how)], ["place", "first", *how])
    wanted = [("first", "min"), *how.items()]
    found = placed.group_by("place", use_threads=False).aggregate(wanted).sort_by("place")
    first = rows.take(found["first_min"])
    for name, kind in how.items():
        first = archived.with_column(first, name, found[f"{name}_{kind}"])
    return first


class Hosts:
    """The hosts of one segment."""

    def __init__(self, tapes: pa.Table) -> None:
        """`tapes`: the segment's rows of the index, in the order of their numbers."""
        single = {_NUMBER, archived.TAPES, *_UNIQUE, *_LIMITS, *_SUMS}
        facts = [tapes[name] for name in tapes.column_names if name not in single]
        # Reports count tapes without hours, without events, with an unknown loss, without a date.
        apart = [pc.equal(tapes[name], 0) for name in ("hours", "events")]
        missing = [tapes[name].is_null() for name in ("lost", "began")]
        self._places = _places([*facts, *apart, *missing])
        one = archived.with_column(tapes, archived.TAPES, pa.array([1] * len(tapes), pa.int64()))
        hosts = _added(one, self._places, {archived.TAPES: "sum", **_LIMITS, **_SUMS})
        columns = {name: pa.nulls(len(hosts)) for name in _UNIQUE if name in tapes.column_names}
        for name, values in (columns | {_NUMBER: pa.array(range(len(hosts)))}).items():
            hosts = archived.with_column(hosts, name, values)
        self.rows = hosts.cast(archived.tables()["tape"])  # of the index

    def of(self, name: str, rows: pa.Table) -> pa.Table | None:
        """Their rows of an aggregate, from those of the tapes; None if it does not add up."""
        if name in _STATES:
            return None
        schema = archived.tables()[name]
        rows = archived.with_column(rows, _NUMBER, self._places.take(rows[_NUMBER]))
        values = [field.name for field in schema if field.type in (pa.int64(), pa.float64())]
        how = {one: "max" if one.startswith("max_") else "sum" for one in values}
        keys = [rows[one] for one in rows.column_names if one not in how]
        return _added(rows, _places(keys), how).cast(schema)


def with_hosts(tables: Iterable[tuple[str, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    """The tables of a segment, `tape` first, and after each one its rows by host. Those without a
    row are left out."""
    hosts: Hosts | None = None
    for name, rows in tables:
        if not rows.num_rows:
            continue
        yield name, rows
        if hosts is None:
            hosts = Hosts(rows)
            yield PREFIX + name, hosts.rows
        elif (found := hosts.of(name, rows)) is not None:
            yield PREFIX + name, found
