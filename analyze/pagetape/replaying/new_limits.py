# SPDX-License-Identifier: Apache-2.0
"""Watermarks and sizes of zones that change during a recording, with the moments of the changes.

Plugged memory and writes to sysctls change them. The table `parameter` has their values at the next
sample, up to a second later. Since 6.15 the kernel has an event when it sets watermarks, in
`reclaim`; before, the next stamp of the zone shows them. That is also the moment of the changes
that the next sample shows.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, kernel_rows

_MARKS = ("wmark_min", "wmark_low", "wmark_high", "wmark_promo")
_STAMPED = ("ts", "at", "node", "zone", *_MARKS[:3])  # columns of `stamp`
_READ = ("ts", "at", "node", "zone", "value", *_MARKS)  # of `reclaim` and `parameter`
_RESERVE = "lowmem_reserve_"
_FRACTION = "vm.percpu_pagelist_high_fraction"

_SCHEMA = TABLES["new_limit"].arrow

Zone = tuple[int, str]  # node and type


def _rows(tape: Tape, name: str, column: str, wanted: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a table with one of the values in a column; of the others those of _READ."""
    for batch in tape.batches(name, {column, *_READ}):
        found = batch.filter(pc.is_in(batch[column].cast(pa.string()), pa.array(wanted)))
        yield from found.to_pylist()


def _is_of_zone(row: dict[str, Any]) -> bool:
    """Damaged rows may lack the node or the zone."""
    return row["node"] is not None and row["zone"] is not None


def _row(at: int, zone: Zone, what: str, value: int, upper: str | None = None) -> dict[str, Any]:
    return {
        "at": at,
        "node": zone[0],
        "zone": zone[1],
        "upper_zone": upper,
        "what": what,
        "value": value,
    }


def _sampled(marks: bool) -> list[str]:
    """The names in `parameter` of limits that a replay follows."""
    reserves = [name for name in TABLES["zone"].arrow.names if name.startswith(_RESERVE)]
    return ["managed", _FRACTION, *reserves, *(_MARKS if marks else ())]


def _has_plain_marks(tape: Tape) -> bool:
    """Whether the sampled watermarks are without the boost: /proc/zoneinfo shows it beside them."""
    return bool(kernel_rows.shows(kernel_rows.release(tape), "zoneinfo_boost"))


def _of_sample(row: dict[str, Any], at: int) -> dict[str, Any]:
    """A row of `parameter` as a new limit from row `at` of `event` on."""
    name = row["name"]
    if name == _FRACTION:
        return _row(at, (0, "DMA"), "high_fraction", row["value"])
    zone = row["node"], row["zone"]
    if name.startswith(_RESERVE):
        upper = name.removeprefix(_RESERVE).upper()
        return _row(at, zone, "lowmem_reserve", row["value"], upper)
    return _row(at, zone, name, row["value"])


def _stamped(tape: Tape) -> Iterator[dict[str, Any]]:
    """The stamps with other watermarks than the stamp of their zone before."""
    names = [name for name in TABLES["stamp"].arrow.names if name in _STAMPED]
    stamps = pa.Table.from_batches(
        tape.batches("stamp", names), pa.schema(map(TABLES["stamp"].arrow.field, names))
    )
    for zone in stamps.group_by(["node", "zone"]).aggregate([]).to_pylist():
        of_zone = stamps.filter(
            pc.and_(*(pc.equal(stamps[name], value) for name, value in zone.items()))
        )
        changed = [pc.not_equal(of_zone[n][1:], of_zone[n][:-1]) for n in _MARKS[:3]]
        yield from of_zone[1:].filter(pc.or_(pc.or_(*changed[:2]), changed[2])).to_pylist()


def _found(tape: Tape) -> pa.Table:
    set_at: dict[Zone, list[tuple[int, int]]] = defaultdict(list)  # time and row of `event`
    out = []
    events = list(_rows(tape, "reclaim", "kind", ["setup_wmarks"]))
    for row in events or _stamped(tape):
        if not _is_of_zone(row):
            continue
        zone = row["node"], row["zone"]
        set_at[zone].append((row["ts"], row["at"]))
        out += [_row(row["at"], zone, n, row[n]) for n in _MARKS if row.get(n) is not None]
    before: dict[tuple[Any, ...], int] = {}  # times of the samples that changed a value last
    sampled = _sampled(marks=not events and _has_plain_marks(tape))
    for row in _rows(tape, "parameter", "name", sampled):
        if row["name"] != _FRACTION and not _is_of_zone(row):
            continue
        times = set_at.get((row["node"], row["zone"]), [])
        series = row["node"], row["zone"], row["name"]
        place = bisect_right(times, (row["ts"], row["at"]))
        moment = times[place - 1] if place else (0, 0)
        known = moment[0] > before.get(series, 0)
        out.append(_of_sample(row, moment[1] if known else row["at"]))
        before[series] = row["ts"]
    out.sort(key=lambda row: row["at"])
    return pa.Table.from_batches([TABLES["new_limit"].batch(out)], _SCHEMA)


def new_limits(tape: Tape) -> pa.Table:
    """The rows of `new_limit`; none for the tape of a replay, whose rows of `event` are others."""
    if "replay" in tape.facts:
        return _SCHEMA.empty_table()
    return cache.table(tape, "new_limit", _SCHEMA, lambda: _found(tape))
