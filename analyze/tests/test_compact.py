# SPDX-License-Identifier: Apache-2.0
"""The compactor: killed anywhere, beside others, after removals; the index is the same."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import archives
import matrix
import pytest
from archives import allocs, fallbacks, made

from pagetape.archive import listing, names, put
from pagetape.archive.policy import Policy
from pagetape.archive.store import Object, Put, Store
from pagetape.asking import archived
from pagetape.indexing import compact, manifest, tape_rows
from pagetape.indexing.compact import Compactor
from pagetape.indexing.fleet_index import FleetIndex
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]
DAY = "2026-11-29"


class Killed(BaseException):
    """The compactor ends at this step, and cleans nothing up."""


class Watched(Store):
    """A store that counts its writes, ends the caller at one of them, or runs something there."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.url, store._objects, store.root)
        self.steps = 0
        self.kill_at = 0  # before this write; negative: after it
        self.at: dict[int, Callable[[], None]] = {}

    def _step(self, write: Callable[[], Any]) -> Any:
        self.steps += 1
        if meanwhile := self.at.pop(self.steps, None):
            meanwhile()
        if self.steps == self.kill_at:
            raise Killed
        done = write()
        if self.steps == -self.kill_at:
            raise Killed
        return done

    def put_new(self, name: str, data: bytes | Path) -> Put:
        put: Put = self._step(lambda: super(Watched, self).put_new(name, data))
        return put

    def delete(self, name: str) -> None:
        self._step(lambda: super(Watched, self).delete(name))


_AGGREGATES: dict[
    str, dict[str, tape_rows.Rows]
] = {}  # of the tapes of this file, by identity: each is read once


class Remembered(tape_rows.Aggregates):
    def of(self, tape: Tape) -> dict[str, tape_rows.Rows]:
        if tape.path.stem not in _AGGREGATES:
            _AGGREGATES[tape.path.stem] = super().of(tape)
        return _AGGREGATES[tape.path.stem]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "_BATCH", 2)
    monkeypatch.setattr(compact, "_SEGMENTS", 2)
    monkeypatch.setattr(tape_rows, "Aggregates", Remembered)


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("tapes")
    return [
        made(place, f"h{i}", f"{DAY}T10:00:00", 60 + i, fallbacks(i) + allocs(2 * i, i))
        for i in range(5)
    ]


def rows(store: Store) -> dict[str, list[Any]]:
    """What the index has, with identities for numbers; in no order."""
    tables = FleetIndex(store).tables([*archived.tables()])
    read = {name: rows.scanner().to_table().to_pylist() for name, rows in tables.items()}
    key = {
        (row["segment"], row["number"]): row["identity"] for row in read[archived.source("tape")]
    }
    assert len({*key.values()}) == len(key), "a tape is twice in the index"

    def named(row: dict[str, Any]) -> str:
        row.pop("etag", None)  # of a directory, the time of the file
        return repr([key[row.pop("segment"), row.pop("number")], *row.items()])

    return {name: sorted(map(named, some)) for name, some in read.items()}


def other(name: Store) -> Store:
    """The same archive, as another process sees it."""
    return Store(name.url, name._objects, name.root)


def compacted(tapes: list[Path], directory: Path) -> tuple[dict[str, list[Any]], int]:
    """The rows of the index that a compactor without a kill makes, and its writes."""
    counter = Watched(archives.archived(directory / "whole", tapes))
    Compactor(counter).run(DAY)
    return rows(counter), counter.steps


@pytest.mark.usefixtures("small_batches")
def test_each_kill_leaves_an_index_that_the_next_one_finishes(
    tapes: list[Path], tmp_path: Path
) -> None:
    """Before each write of a compactor, and after the last: readers see whole generations,
    and the next compactor makes the index that one without a kill makes."""
    expected, steps = compacted(tapes, tmp_path)
    assert steps > 12 and len(expected[archived.source("tape")]) == len(tapes)
    # After a write is before the next.
    for kill_at in (*matrix.some(range(1, steps + 1), 3), -steps):
        store = Watched(archives.archived(tmp_path / f"killed{kill_at}", tapes))
        store.kill_at = kill_at
        with pytest.raises(Killed):
            Compactor(store).run(DAY)
        seen = rows(store)
        for name, some in seen.items():
            assert {*some} <= {*expected[name]}
        Compactor(other(store)).run(DAY)
        assert rows(store) == expected


@pytest.mark.usefixtures("small_batches")
def test_of_two_compactors_at_once_one_wins_each_generation(
    tapes: list[Path], tmp_path: Path
) -> None:
    """The other one runs as a whole before one write of the first: no tape is there twice."""
    expected, steps = compacted(tapes, tmp_path)
    for step in matrix.some(range(2, steps + 1), 3):
        store = Watched(archives.archived(tmp_path / f"raced{step}", tapes))
        store.at[step] = lambda store=store: Compactor(other(store)).run(DAY) and None
        Compactor(store).run(DAY)
        assert rows(store) == expected and not store.at  # the other one ran


def test_compactors_of_different_shards_share_a_day(tapes: list[Path], tmp_path: Path) -> None:
    store = Watched(archives.archived(tmp_path / "fleet", tapes))
    shards = sorted({names.object_name(Tape(path)).split("shard=")[1][:2] for path in tapes})
    store.at[3] = lambda: [Compactor(other(store), one).run(DAY) for one in shards[1:]] and None
    Compactor(store, shards[0]).run(DAY)
    assert not store.at
    whole = archives.archived(tmp_path / "whole", tapes)
    Compactor(whole).run(DAY)
    assert rows(store) == rows(whole)


@pytest.mark.usefixtures("small_batches")
def test_removed_tapes_drop_out_and_others_keep_their_rows(
    tapes: list[Path], tmp_path: Path
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    Compactor(store).run(DAY)
    for path in tapes[1:4]:
        store.delete(names.object_name(Tape(path)))
    done = Compactor(store).run(DAY)
    assert (done.removed, done.added, done.tapes) == (3, 0, 2)
    rest = archives.archived(tmp_path / "rest", [tapes[0], tapes[4]])
    Compactor(rest).run(DAY)
    assert rows(store) == rows(rest)
    for path in (tapes[0], tapes[4]):
        store.delete(names.object_name(Tape(path)))
    assert Compactor(store).run(DAY).tapes == 0
    assert rows(store)[archived.source("tape")] == []


def test_nothing_new_is_no_generation(tapes: list[Path], tmp_path: Path) -> None:
    store = Watched(archives.archived(tmp_path / "fleet", tapes))
    first = Compactor(store).run(DAY)
    steps = store.steps
    again = Compactor(store).run(DAY)
    assert (again.generation, again.added, store.steps) == (first.generation, 0, steps)


def test_a_rebuild_is_the_same_index(tapes: list[Path], tmp_path: Path) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    Compactor(store).run(DAY)
    expected = rows(store)
    done = Compactor(store, rebuild=True).run(DAY)
    assert (done.added, done.tapes, rows(store)) == (len(tapes), len(tapes), expected)
    (root := store.root or Path()).joinpath("index").rename(root / "gone")
    Compactor(store).run(DAY)
    assert rows(store) == expected


def names_of(objects: Iterator[Object]) -> set[str]:
    return {one.name for one in objects}


@pytest.mark.usefixtures("small_batches")
def test_old_files_are_removed_after_the_grace(tapes: list[Path], tmp_path: Path) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    done = Compactor(store).run(DAY)
    assert len(manifest.generations(store)[DAY]) == done.generation > 1
    kept = rows(store)
    Compactor(store, grace_s=0).run(DAY)
    assert [*manifest.generations(store)[DAY]] == [done.generation]
    assert names_of(manifest.data(store, DAY)) == manifest.latest(store, DAY).files
    assert rows(store) == kept


def test_files_of_a_compactor_that_took_too_long_are_not_named(
    tapes: list[Path], tmp_path: Path
) -> None:
    """Another compactor removed them as left ones: the first one begins again."""
    store = Watched(archives.archived(tmp_path / "fleet", tapes))
    done = []

    def removed() -> None:
        for one in names_of(manifest.data(other(store), DAY)):
            other(store).delete(one)
        done.append(True)

    store.at[3] = removed
    Compactor(store, grace_s=1e-9).run(DAY)
    assert done and manifest.latest(store, DAY).files <= names_of(manifest.data(store, DAY))
    assert len(rows(store)[archived.source("tape")]) == len(tapes)


def test_a_reader_of_an_old_generation_takes_the_next_one(
    tapes: list[Path], tmp_path: Path
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    Compactor(store).run(DAY)
    reader = FleetIndex(store)
    Compactor(store, rebuild=True, grace_s=0).run(DAY)
    Compactor(store, grace_s=0).run(DAY)
    table = reader.tables(["tape"])[archived.source("tape")]
    assert table.scanner().to_table().num_rows == len(tapes)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "segments": [{"tapes": 1}]}']
)
def test_a_damaged_manifest_is_one_line(
    text: str, tapes: list[Path], tmp_path: Path, pagetape: Run
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes[:1])
    store.put_new(f"index/v1/manifest/date={DAY}/00000001.json", text.encode())
    for words in (["report", "loss"], ["compact"], ["info"]):
        said = pagetape(*words, store.root)
        assert (said.status, said.err.count("\n")) == (1, 1)
        assert "damaged" in said.err and "--rebuild" in said.err
    assert pagetape("compact", store.root, "--rebuild").status == 0
    assert pagetape("report", "loss", store.root, "--json").json["fleet"]["tapes"] == 1


def test_an_index_of_a_later_pagetape_is_refused(
    tapes: list[Path], tmp_path: Path, pagetape: Run
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes[:1])
    store.put_new(f"index/v1/manifest/date={DAY}/00000001.json", b'{"version": 2}')
    said = pagetape("report", "loss", store.root)
    assert said.status == 1 and "version 2; this pagetape reads 1" in said.err


def test_a_damaged_file_is_one_line(tapes: list[Path], tmp_path: Path, pagetape: Run) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    Compactor(store).run(DAY)
    for one in [*manifest.data(store, DAY)]:
        (store.root or Path()).joinpath(one.name).write_bytes(b"PAR1" + b"x" * (one.size - 4))
    said = pagetape("report", "extfrag.by_order", store.root)
    assert (said.status, said.err.count("\n")) == (1, 1), said.err
    assert "pagetape compact" in said.err and "--rebuild" in said.err


LATER = datetime(2026, 12, 10, tzinfo=UTC)  # DAY is over, for ten days


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Sets the clock of compactors and of those that put tapes."""

    def at(moment: datetime) -> None:
        class Fixed(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return moment.astimezone(tz)

        for module in (compact, listing):
            monkeypatch.setattr(module, "datetime", Fixed)

    at(LATER)
    return at


Clock = Callable[[datetime], None]


def closed(store: Store, shard: str | None = None) -> None:
    Compactor(store, shard, closes=True).run(DAY)


@pytest.mark.usefixtures("small_batches")
def test_a_day_that_is_over_is_listed_again_when_it_is_twice_as_old(
    tapes: list[Path], tmp_path: Path, clock: Clock
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    assert compact.due(store) == ([DAY], 0)
    closed(store)
    assert compact.due(store) == ([], 1)
    clock(LATER + timedelta(days=9))
    assert compact.due(store) == ([], 1)
    clock(LATER + timedelta(days=11))
    assert compact.due(store) == ([DAY], 0)


@pytest.mark.usefixtures("small_batches", "clock")
def test_a_late_tape_makes_its_day_due(tapes: list[Path], tmp_path: Path, clock: Clock) -> None:
    store = archives.archived(tmp_path / "fleet", tapes[1:])
    closed(store)
    clock(LATER + timedelta(days=3))
    assert compact.due(store) == ([], 1)
    put.put(tapes[0], store, Policy())
    assert compact.due(store) == ([DAY], 0)
    closed(store)
    assert len(rows(store)[archived.source("tape")]) == len(tapes)
    clock(LATER + timedelta(days=6))
    assert compact.due(store) == ([DAY], 0)  # clocks may differ by a day
    closed(store)
    assert compact.due(store) == ([], 1)


@pytest.mark.usefixtures("small_batches", "clock")
def test_pruned_tapes_make_their_day_due(tapes: list[Path], tmp_path: Path) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    closed(store)
    marks = listing.tapes(store, DAY)
    listing.put_mark(store, DAY, LATER, [named.identity for named, _ in marks][:1])
    os.utime(next((tmp_path / "fleet/pruned").rglob("*.json")), (LATER.timestamp(),) * 2)
    assert compact.due(store) == ([DAY], 0)


@pytest.mark.usefixtures("small_batches", "clock")
def test_the_list_of_a_shard_is_no_list_of_the_others(tapes: list[Path], tmp_path: Path) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    closed(store, "ab")
    assert compact.due(store, "ab") == ([], 1)
    assert compact.due(store, "cd") == ([DAY], 0) == compact.due(store)
    closed(store)
    assert compact.due(store, "cd") == ([], 1)


def test_a_day_that_is_not_over_is_always_due(
    tapes: list[Path], tmp_path: Path, clock: Clock
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    clock(datetime(2026, 11, 30, tzinfo=UTC))
    closed(store)
    assert compact.due(store) == ([DAY], 0)
    assert not manifest.latest(store, DAY).listed


def test_a_clock_far_ahead_and_foreign_marks_stop_no_compactor(
    tapes: list[Path], tmp_path: Path, pagetape: Run
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes[:1])
    last = made(tmp_path, "ahead", "9999-12-31T23:59:59", 60)
    assert put.put(last, store, Policy()).put == "made"
    for mark in ("soon", "9999-12-31"):
        store.put_new(f"late/v1/{mark}/date={DAY}", b"")
    for _ in range(2):
        assert pagetape("compact", store.root).status == 0
    days = pagetape("report", "fleet.coverage", store.root, "--json").json["rows"]
    assert [(row["date"], row["tapes"]) for row in days] == [(DAY, 1), ("9999-12-31", 1)]


def test_the_command_says_what_it_did(tapes: list[Path], tmp_path: Path, pagetape: Run) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    store.put_new(f"v1/date={DAY}/shard=ab/ab{'0' * 30}.tape", b"PK\3\4 torn")
    said = pagetape("compact", store.root, "--json")
    (day,) = said.json["days"]
    assert (day["date"], day["tapes"], day["added"], len(day["unreadable"])) == (DAY, 6, 6, 1)
    assert f"ab{'0' * 30}.tape" in said.err and said.err.count("\n") == 1
    bad = {
        "--shard 5g": "is not two hexadecimal digits",
        "--date 2026-13-01": "is not a day",
        "--shard 5f --rebuild": "leave out --shard",
    }
    for options, why in bad.items():
        said = pagetape("compact", store.root, *options.split())
        assert (said.status, said.err.count("\n"), why in said.err) == (2, 1, True)
    none = tmp_path / "none"
    said = pagetape("compact", none)
    assert (said.status, said.err.count("\n")) == (1, 1)
    none.mkdir()
    assert "no tapes in this archive" in pagetape("compact", none).out


def test_the_command_lists_what_may_have_changed(
    tapes: list[Path], tmp_path: Path, pagetape: Run, clock: Clock
) -> None:
    store = archives.archived(tmp_path / "fleet", tapes)
    assert len(pagetape("compact", store.root, "--json").json["days"]) == 1
    clock(LATER + timedelta(days=3))
    said = pagetape("compact", store.root)
    assert said.out == "1 day unchanged since listed (--all lists each)\n"
    assert len(pagetape("compact", store.root, "--all", "--json").json["days"]) == 1
