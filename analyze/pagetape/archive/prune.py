# SPDX-License-Identifier: Apache-2.0
"""Removes the oldest tapes of an archive: first from its listings and indexes, later for good."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pagetape.archive import listing, names
from pagetape.archive.names import Named
from pagetape.archive.store import Object, Store

GRACE_S = 3600.0  # for readers that know the tapes from an index


@dataclass
class Pruned:
    """What a prune did, or would do."""

    tapes: int = 0  # that stay
    bytes: int = 0  # of them
    marked: int = 0  # tapes that no listing has from now on
    marked_bytes: int = 0
    waiting: int = 0  # tapes that were marked before, and are not old enough to go
    removed: int = 0  # objects that are gone for good


def _chosen(
    found: list[tuple[Named, Object]], before: str | None, keep: float | None
) -> list[tuple[Named, Object]]:
    """The tapes of days before `before`, and the oldest beyond `keep` bytes."""
    old = [one for one in found if before and one[0].date != names.UNKNOWN and one[0].date < before]
    if keep is None:
        return old
    gone = {named.identity for named, _ in old}
    rest = sorted(
        (one for one in found if one[0].identity not in gone),
        # Those without a date come last: their age is unknown.
        key=lambda one: (one[0].date == names.UNKNOWN, one[0].date, one[1].modified, one[1].name),
    )
    total = sum(one.size for _, one in rest)
    for named, one in rest:
        if total <= keep:
            break
        old.append((named, one))
        total -= one.size
    return old


def prune(
    store: Store,
    older_s: float | None,
    keep: float | None,
    *,
    grace_s: float = GRACE_S,
    act: bool = True,
) -> Pruned:
    """Mark the tapes that go, and remove the objects of those that were marked `grace_s` ago.

    Without `act`, only count. A killed prune leaves marks or objects that the next one removes.
    """
    done, now = Pruned(), datetime.now(UTC)
    before = None
    if older_s is not None:
        before = (now - timedelta(seconds=older_s)).date().isoformat()
    _remove(store, done, now - timedelta(seconds=grace_s), act)
    found = list(listing.tapes(store))
    chosen = _chosen(found, before, keep)
    by_date: dict[str, list[str]] = defaultdict(list)
    for named, one in chosen:
        by_date[named.date].append(named.identity)
        done.marked += 1
        done.marked_bytes += one.size
    done.tapes = len(found) - done.marked
    done.bytes = sum(one.size for _, one in found) - done.marked_bytes
    if act:
        for date, identities in sorted(by_date.items()):
            listing.put_mark(store, date, now, sorted(identities))
    return done


def _remove(store: Store, done: Pruned, until: datetime, act: bool) -> None:
    """Remove the objects of old marks, then the marks."""
    marks = listing.marks(store)
    old = {mark.name: mark for mark in marks if mark.at <= until}
    gone = {identity for mark in old.values() for identity in mark.identities}
    waiting = {identity for mark in marks if mark.name not in old for identity in mark.identities}
    done.waiting = len(waiting - gone)
    if not marks:
        return
    for one in store.list(names.prefix()):
        named = names.parse(one.name)
        if named is not None and named.identity in gone:
            done.removed += 1
            if act:
                store.delete(one.name)
    if act:
        for name in old:
            store.delete(name)
