# SPDX-License-Identifier: Apache-2.0
"""The tapes of an archive: objects with the name of a tape that prune does not remove.

A bucket may hold any other object. Those below v1/ are left out, and one line counts them.

    pruned/v1/date=2026-11-30/1f0c88a25b17c3e0.json   {"at": UTC time, "tapes": [identity, ...]}

prune puts such a mark first: from then on its tapes are in no listing, so that an index drops them.
Their objects are removed later, when nobody reads them any more.

    late/v1/2026-12-01/date=2026-11-20    on that day, tapes of that older day were put

A tape that comes after its day leaves such a mark before it is put, so that a compactor need not
list each old day.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from secrets import token_hex

from pagetape import answer, console
from pagetape.archive import names
from pagetape.archive.names import Named
from pagetape.archive.store import Object, Store, StoreError

_MARKS = f"pruned/{names.TAPES}"
_LATE = f"late/{names.TAPES}"
_ON_TIME = timedelta(days=1)  # after its day; clocks differ


@dataclass(frozen=True)
class Mark:
    """Tapes of one day that prune removes."""

    name: str
    at: datetime
    identities: frozenset[str]


def put_mark(store: Store, date: str, at: datetime, identities: list[str]) -> None:
    """Mark tapes of a day as removed."""
    text = json.dumps({"at": at.isoformat(timespec="seconds"), "tapes": identities})
    store.put_new(f"{_MARKS}/date={date}/{token_hex(8)}.json", text.encode())


def marks(store: Store, date: str | None = None) -> list[Mark]:
    """The marks of a day, or of all; a damaged one marks nothing."""
    found = []
    for one in [*store.list(f"{_MARKS}/date={date}" if date else _MARKS)]:
        try:
            given = json.loads(store.get(one.name))
            at = datetime.fromisoformat(given["at"]).astimezone(UTC)
            found.append(Mark(one.name, at, frozenset(map(str, given["tapes"]))))
        except (ValueError, KeyError, TypeError, RecursionError):
            console.report(f"{store.where(one.name)}: not a mark of prune: left out")
        except StoreError:  # another prune is ready with it
            if store.head(one.name) is not None:
                raise
    return found


@lru_cache(maxsize=64)
def _mark_late(store: Store, of: str, today: date) -> None:
    store.put_new(f"{_LATE}/{today}/date={of}", b"")


def mark_late(store: Store, of: str) -> None:
    """Say that a tape of a day is about to be put, if that day is over."""
    today = datetime.now(UTC).date()
    if of != names.UNKNOWN and date.fromisoformat(of) < today - _ON_TIME:
        _mark_late(store, of, today)


def touched(store: Store) -> dict[str, str]:
    """The last day on which each day's tapes became more, by a late one, or fewer, by prune; of
    days that marks name."""
    found: dict[str, str] = {}
    for one in (*store.list(_LATE), *store.list(_MARKS)):
        first, _, rest = one.name.partition("/date=")
        day = rest.partition("/")[0]
        at = first.removeprefix(f"{_LATE}/")
        at = str(one.modified.astimezone(UTC).date()) if at == _MARKS else at
        found[day] = max(found.get(day, ""), at)
    return found


def tapes(
    store: Store,
    date: str | None = None,
    shard: str | None = None,
    say: Callable[[str], None] = console.report,
) -> Iterator[tuple[Named, Object]]:
    """The tapes of an archive, of a day of it, or of a shard of a day."""
    gone = {identity for mark in marks(store, date) for identity in mark.identities}
    foreign: list[str] = []
    for one in store.list(names.prefix(date, shard)):
        named = names.parse(one.name)
        if named is None:
            foreign.append(one.name)
        elif named.identity not in gone:
            yield named, one
    if foreign:
        what = answer.amount(len(foreign), "object")
        say(f"{store.url}: left out {what} without the name of a tape, such as {min(foreign)}")
