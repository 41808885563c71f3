# SPDX-License-Identifier: Apache-2.0
"""Generations of the index: which files hold the rows of a day's tapes.

    index/v1/manifest/date=2026-11-29/00000007.json             the seventh generation of that day
    index/v1/data/date=2026-11-29/00000007-1f0c88a2.event.parquet

A generation is one object, put if absent: of two compactors that make the same one, one wins, and
the other begins again from it. It names segments. A segment has some tapes: their rows of the index
(table `tape`) and of each aggregate (archived.tables()). The files of a segment never change. All
of index/ is derived from the tapes, and can be made anew.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pagetape.archive.store import Object, Put, Store, StoreError

VERSION = 1
_MANIFESTS = "index/v1/manifest"
_DATA = "index/v1/data"
_NAME = re.compile(r"index/v1/manifest/date=(\d{4}-\d\d-\d\d|unknown)/(\d{8})\.json")


@dataclass(frozen=True)
class Segment:
    """Some tapes of a day; the files of its tables, which may lack tables without rows."""

    identity: str
    tapes: int
    files: dict[str, int]  # bytes, by table


@dataclass(frozen=True)
class Manifest:
    """One generation of a day; generation 0 is that of a day without an index."""

    date: str
    generation: int
    segments: tuple[Segment, ...]
    # When a compactor listed the tapes of the day, which was over: ISO, UTC; by shard, "" for all.
    listed: Mapping[str, str] = field(default_factory=dict)

    @property
    def tapes(self) -> int:
        return sum(segment.tapes for segment in self.segments)

    @property
    def files(self) -> set[str]:
        """The names of all its files."""
        return {
            data_name(self.date, segment.identity, table)
            for segment in self.segments
            for table in segment.files
        }


def data_name(date: str, segment: str, table: str) -> str:
    """The name of a file of a segment."""
    return f"{_DATA}/date={date}/{segment}.{table}.parquet"


def data(store: Store, date: str) -> Iterator[Object]:
    """All files of a day, of any generation."""
    return store.list(f"{_DATA}/date={date}")


def _name(date: str, generation: int) -> str:
    return f"{_MANIFESTS}/date={date}/{generation:08d}.json"


def generations(store: Store, date: str | None = None) -> dict[str, dict[int, Object]]:
    """The generations of each day, or of one."""
    found: dict[str, dict[int, Object]] = {}
    for one in store.list(_MANIFESTS if date is None else f"{_MANIFESTS}/date={date}"):
        if named := _NAME.fullmatch(one.name):
            found.setdefault(named[1], {})[int(named[2])] = one
    return found


def read(store: Store, date: str, generation: int) -> Manifest:
    """One generation; raises StoreError if it is damaged or of a newer pagetape."""
    name = _name(date, generation)
    where = store.where(name)
    try:
        known = json.loads(store.get(name))
        version = known["version"]
        if version != VERSION:
            why = f"index of version {version}; this pagetape reads {VERSION}"
            raise StoreError(errno.EPROTO, f"{where}: {why}")
        segments = tuple(
            Segment(str(one["identity"]), int(one["tapes"]), dict(one["files"]))
            for one in known["segments"]
        )
        listed = {str(shard): str(at) for shard, at in known.get("listed", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        again = f"pagetape compact {store.url} --date {date} --rebuild"
        raise StoreError(errno.EBADMSG, f"{where}: damaged; {again}") from e
    return Manifest(date, generation, segments, listed)


def latest(store: Store, date: str, *, anew: bool = False) -> Manifest:
    """The newest generation of a day; with `anew`, an empty one in place of a damaged one."""
    newest = max(generations(store, date).get(date, ()), default=0)
    try:
        return read(store, date, newest) if newest else Manifest(date, 0, ())
    except StoreError as e:
        if not anew or e.errno != errno.EBADMSG:
            raise
        return Manifest(date, newest, ())


def put(store: Store, manifest: Manifest, about: dict[str, Any]) -> bool:
    """Put a new generation; False if another compactor was first. `about` makes it unlike any
    other, so that a repeated request finds its own."""
    known = {"version": VERSION, **asdict(manifest), **about}
    name = _name(manifest.date, manifest.generation)
    return store.put_new(name, json.dumps(known, indent=1).encode()) != Put.OTHER
