# SPDX-License-Identifier: Apache-2.0
"""The compactor: brings the index of an archive up to its tapes, day by day.

It lists the tapes of a day, reads those that the last generation lacks, writes their rows as a new
segment, and puts the next generation. Tapes that were removed since drop out. A killed compactor
leaves at most files that no generation names; they are removed later. Compactors may run at the
same time, on any machine, also on the same day: see Day.commit().

A day that is over, and whose tapes were listed since, is listed again only if a mark of
archive/listing.py names it, or if it has become twice as old: see due().
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
import pyarrow.parquet as pq

from pagetape.archive import listing, names
from pagetape.archive.names import Named
from pagetape.archive.store import Object, Put, Store, StoreError
from pagetape.asking import archived
from pagetape.indexing import host_rows, manifest, tape_rows
from pagetape.indexing.manifest import Manifest, Segment
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import temporary

GRACE_S = 3600.0  # how long a reader, or a compactor before its commit, may take
_BATCH = 500  # tapes of a new segment: what a killed compactor reads again
_SEGMENTS = 8  # of a day; more are merged
_LARGE = 50_000  # tapes of a segment that is merged no more
_ATTEMPTS = 20  # at a day on which other compactors work
_AT_ONCE = 8  # manifests that are read at the same time
_OPEN = timedelta(days=3)  # from the begin of a day: until then tapes come without a mark
_SLACK = timedelta(days=1)  # between the clocks of machines

_Mark = tuple[str | None, int]  # etag and size of an object


@dataclass
class Compacted:
    """What a compactor did for one day."""

    date: str
    listed_at: str = ""  # UTC: it knows the tapes that were there then
    generation: int = 0
    tapes: int = 0  # in the index
    added: int = 0
    removed: int = 0
    unreadable: list[str] = field(default_factory=list)  # of those added: name and reason


class _Lost(Exception):
    """Another compactor put rows of the same tapes, or changed the same segments."""


def dates(store: Store) -> list[str]:
    """The days that have tapes or an index."""
    tapes = [one.removeprefix("date=") for one in store.below(names.TAPES)]
    return sorted({*filter(is_date, tapes), *manifest.generations(store)})


def is_date(text: str) -> bool:
    """Whether an archive can have tapes of a day of this name."""
    return names.parse(f"{names.prefix(text, '00')}/{'0' * 32}.tape") is not None


def is_shard(text: str) -> bool:
    """Whether tapes can have identities that begin so."""
    return names.parse(f"{names.prefix(names.UNKNOWN, text)}/{text}{'0' * 30}.tape") is not None


def due(store: Store, shard: str | None = None) -> tuple[list[str], int]:
    """The days that are not over, or whose tapes may have changed since they were listed; and the
    number of the others."""
    days, known = dates(store), manifest.generations(store)
    touched, now = listing.touched(store), datetime.now(UTC)

    def newest(day: str) -> Manifest:
        try:
            return manifest.read(store, day, max(known[day]))
        except StoreError:  # the day's own run says it
            return Manifest(day, 0, ())

    over = [day for day in days if day in known and _is_over(day, now)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        manifests = {one.date: one for one in pool.map(newest, over)}

    def may_differ(day: str) -> bool:
        listed = manifests[day].listed if day in manifests else {}
        try:
            at = max(
                datetime.fromisoformat(listed[one]) for one in ("", shard or "") if one in listed
            )
            end = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)
            since = datetime.fromisoformat(touched.get(day, "0001-01-02")).replace(tzinfo=UTC)
            return since + _SLACK >= at - _SLACK or now - end >= 2 * (at - end)
        except (ValueError, OverflowError):  # never, or damaged
            return True

    found = [day for day in days if may_differ(day)]
    return found, len(days) - len(found)


def _is_over(day: str, now: datetime) -> bool:
    return day != names.UNKNOWN and datetime.fromisoformat(f"{day}T00:00Z") <= now - _OPEN


@dataclass
class Compactor:
    """Brings days of one archive up to date."""

    store: Store
    shard: str | None = None  # only tapes of this one
    rebuild: bool = False  # read every tape again
    progress: Callable[[float], None] = lambda _: None  # share of a day's new tapes
    grace_s: float = GRACE_S
    closes: bool = False  # note in the index when a day that is over was listed: due()

    def run(self, date: str) -> Compacted:
        """Bring the index of a day up to its tapes; raises StoreError."""
        for _ in range(_ATTEMPTS):
            day = _Day(self, date)
            try:
                day.bring_up()
            except _Lost:
                continue
            day.clean()
            self._close(day.done)
            return day.done
        why = "other compactors of this day came first, again and again; one per day and shard"
        raise StoreError(errno.EAGAIN, f"{self.store.url}: {date}: {why}")

    def _close(self, done: Compacted) -> None:
        """Note in the index of a day that is over when its tapes were listed."""
        if not self.closes or not _is_over(done.date, datetime.fromisoformat(done.listed_at)):
            return
        for _ in range(_ATTEMPTS):
            now = manifest.latest(self.store, done.date)
            others = {} if self.shard is None else now.listed
            listed = {**others, self.shard or "": done.listed_at}
            following = replace(now, generation=now.generation + 1, listed=listed)
            if manifest.put(self.store, following, _about()):
                done.generation = following.generation
                return


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _about() -> dict[str, str]:
    """What makes a generation unlike those of other compactors."""
    return {"by": token_hex(8), "made": _now()}


class _Day:
    """One attempt at one day."""

    def __init__(self, compactor: Compactor, date: str) -> None:
        self._by, self._store, self._date = compactor, compactor.store, date
        self._now = manifest.latest(self._store, date, anew=compactor.rebuild)
        self._since = time.monotonic()  # of the first file that no generation names yet
        self.done = Compacted(date)

    def bring_up(self) -> None:
        listed = self._listed()
        if self._by.rebuild:
            old = {segment.identity for segment in self._now.segments}
            made = [self._segment(batch) for batch in self._batches([*listed.values()])]
            self._commit(old, made, {*listed})
        else:
            known = self._known(self._now.segments)
            mine = {one for one in known if self._by.shard in (None, one[:2])}
            gone = {one for one in mine if one not in listed or known[one] != _mark(listed[one])}
            self._drop(gone)
            new = [listed[one] for one in sorted(listed.keys() - (known.keys() - gone))]
            for batch in self._batches(new):
                self._commit(set(), [self._segment(batch)], {_named(o).identity for o in batch})
            self._merge()
        self.done.generation, self.done.tapes = self._now.generation, self._now.tapes

    def _listed(self) -> dict[str, Object]:
        """The tapes of the day, by identity."""
        self.done.listed_at = _now()
        found = listing.tapes(self._store, self._date, self._by.shard)
        return {named.identity: one for named, one in found}

    def _batches(self, objects: Sequence[Object]) -> Iterator[Sequence[Object]]:
        for first in range(0, len(objects), _BATCH):
            self._by.progress(first / len(objects))
            yield objects[first : first + _BATCH]

    def _known(self, segments: Sequence[Segment]) -> dict[str, _Mark]:
        """The tapes of segments."""
        found: dict[str, _Mark] = {}
        for segment in segments:
            rows = self._read(segment, "tape", ["identity", "etag", "bytes"])
            columns = (rows[name].to_pylist() for name in ("identity", "etag", "bytes"))
            found |= {one: (etag, size) for one, etag, size in zip(*columns, strict=True)}
        return found

    # ---- rows

    def _segment(self, batch: Sequence[Object]) -> Segment:
        """A new segment: the rows of these tapes. A tape that is gone has none."""
        rows: dict[str, list[pa.Table]] = {name: [] for name in archived.tables()}
        aggregates, nr = tape_rows.Aggregates(), 0
        with temporary.scratch("compact") as place:
            for one in batch:
                found = self._rows(one, aggregates, place)
                if found is not None:
                    for name, some in found.items():
                        numbered = [{"number": nr} | row for row in some]
                        rows[name].append(pa.Table.from_pylist(numbered, archived.tables()[name]))
                    nr += 1
        aggregates.close()
        made = ((name, pa.concat_tables(parts)) for name, parts in rows.items() if parts)
        return self._write(nr, made)

    def _rows(
        self, one: Object, aggregates: tape_rows.Aggregates, place: Path
    ) -> dict[str, tape_rows.Rows] | None:
        named = _named(one)
        row = tape_rows.place(named, one.size, one.etag)
        try:
            path = self._store.local(one.name, place)
        except StoreError as e:
            if e.errno == errno.ENOENT:
                return None
            raise
        self.done.added += 1
        try:
            tape = Tape(path)
            return {"tape": [row | tape_rows.index(tape)], **aggregates.of(tape)}
        except TapeError as e:
            why = (e.strerror or str(e)).replace(f"{path}: ", "")
            self.done.unreadable.append(f"{self._store.where(one.name)}: {why}")
            return {"tape": [row | {"problem": why}]}
        finally:
            if self._store.root is None:
                path.unlink(missing_ok=True)

    def _read(self, segment: Segment, table: str, columns: list[str] | None = None) -> pa.Table:
        name = manifest.data_name(self._date, segment.identity, table)
        try:
            rows = pq.read_table(pa.BufferReader(self._store.get(name)), columns=columns)
            archived.check(rows.schema, table)
            return rows
        except pa.ArrowException as e:
            again = f"pagetape compact {self._store.url} --date {self._date} --rebuild"
            raise StoreError(errno.EBADMSG, f"{self._store.where(name)}: damaged; {again}") from e

    def _write(self, tapes: int, tables: Iterator[tuple[str, pa.Table]]) -> Segment:
        identity = f"{self._now.generation + 1:08d}-{token_hex(4)}"
        files = {}
        for name, rows in host_rows.with_hosts(tables):
            content = _parquet(rows)
            where = manifest.data_name(self._date, identity, name)
            if self._store.put_new(where, content) == Put.OTHER:
                raise _Lost
            files[name] = len(content)
        return Segment(identity, tapes, files)

    def _drop(self, gone: Collection[str]) -> None:
        """Write segments anew without these tapes."""
        for segment in self._now.segments if gone else ():
            kept = [one not in gone for one in self._known([segment])]
            if not all(kept):
                made = [self._joined([(segment, kept)])] if any(kept) else []
                self._commit({segment.identity}, made, ())
                self.done.removed += len(kept) - sum(kept)

    def _merge(self) -> None:
        """Make one segment of the smaller half, if there are many."""
        small = sorted((s for s in self._now.segments if s.tapes < _LARGE), key=lambda s: s.tapes)
        if len(self._now.segments) > _SEGMENTS and len(small) > 1:
            some = small[: max(len(small) - _SEGMENTS // 2, 2)]
            merged = self._joined([(segment, [True] * segment.tapes) for segment in some])
            self._commit({segment.identity for segment in some}, [merged], ())

    def _joined(self, parts: Sequence[tuple[Segment, Sequence[bool]]]) -> Segment:
        """A segment of the tapes of others that are kept, in their order."""
        places, first = [], 0
        for _, kept in parts:
            numbers = iter(range(first, first + sum(kept)))
            places.append(pa.array([next(numbers) if keep else None for keep in kept], pa.uint32()))
            first += sum(kept)

        def table(name: str) -> pa.Table:
            found = [archived.tables()[name].empty_table()]
            for (segment, _), place in zip(parts, places, strict=True):
                if name in segment.files:
                    rows = archived.fitted(self._read(segment, name), name)
                    numbered = rows.set_column(0, archived.NUMBER, place.take(rows["number"]))
                    found.append(numbered.filter(numbered["number"].is_valid()))
            return pa.concat_tables(found)

        return self._write(first, ((name, table(name)) for name in archived.tables()))

    # ---- generations

    def _commit(self, old: set[str], new: list[Segment], claimed: Collection[str]) -> None:
        """Put the next generation: with new segments, without those of the names `old`.

        `claimed`: tapes that no other segment may have. Another compactor may have put the next
        generation. Its segments stay, and this one puts the next but one. Raises _Lost if it
        changed the same segments or put some of the same tapes.
        """
        began, about = self._now, _about()
        new = [segment for segment in new if segment.tapes]
        while True:
            kept = tuple(s for s in self._now.segments if s.identity not in old)
            following = replace(
                self._now, generation=self._now.generation + 1, segments=(*kept, *new)
            )
            if len(self._now.segments) - len(kept) < len(old):
                raise _Lost
            others = [s for s in self._now.segments if s not in began.segments]
            if not self._known(others).keys().isdisjoint(claimed):
                raise _Lost
            self._check_there(new)
            if following.segments == self._now.segments:
                return
            if manifest.put(self._store, following, about):
                self._now, self._since = following, time.monotonic()
                return
            self._now = manifest.latest(self._store, self._date, anew=self._by.rebuild)

    def _check_there(self, new: Sequence[Segment]) -> None:
        """Raise _Lost if another compactor may have taken new files for left ones: clean()."""
        if time.monotonic() - self._since < self._by.grace_s / 2:
            return
        named = Manifest(self._date, 0, tuple(new)).files
        if not named <= {one.name for one in manifest.data(self._store, self._date)}:
            raise _Lost

    def clean(self) -> None:
        """Remove what no reader needs any more: old generations, and files that none names."""
        before = datetime.now(UTC) - timedelta(seconds=self._by.grace_s)
        old = manifest.generations(self._store, self._date).get(self._date, {})
        newest = manifest.read(self._store, self._date, max(old)) if old else self._now
        left = [one for number, one in old.items() if number < newest.generation]
        left += [o for o in manifest.data(self._store, self._date) if o.name not in newest.files]
        for one in left:
            if one.modified < before:
                self._store.delete(one.name)


def _named(one: Object) -> Named:
    named = names.parse(one.name)
    assert named is not None
    return named


def _mark(one: Object) -> _Mark:
    return one.etag, one.size


def _parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = {
        "use_dictionary": [*archived.repeated(rows.schema)],
        "column_encoding": {"number": "DELTA_BINARY_PACKED"},
    }
    pq.write_table(rows, sink, compression="zstd", compression_level=3, **options)
    return bytes(sink.getvalue())
