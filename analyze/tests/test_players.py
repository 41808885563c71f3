# SPDX-License-Identifier: Apache-2.0
"""One player for ensembles and sweeps: what is decoded, what an error ends, what a run gives."""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from pagetape.replaying import engine_run, ensemble, model_memory, players, run_ahead, sweep
from pagetape.replaying.playback import NewTape, Run, Source, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas import bundle
from pagetape.schemas.memory_tape import MemoryTape
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cache

DEMO = Path(__file__).parents[1] / "demo/server.tape"
RUNS = {name: Run("auto", (f"nofragment:mode={name}",)) for name in ("off", "lowzone", "always")}


@pytest.fixture
def source(small: Path) -> Source:
    return Source(Tape(small), inferred(Tape(small)), preferences(Tape(small)))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The tapes whose events were decoded, with all columns."""
    found: list[Path] = []
    batches = Tape.batches

    def seen(tape: Tape, name: str, columns: Any = None, *how: Any) -> Iterator[pa.RecordBatch]:
        if name == "event" and columns is None:
            found.append(tape.path)
        return batches(tape, name, columns, *how)

    monkeypatch.setattr(Tape, "batches", seen)
    return found


class Totals(players.Task):
    """The results of some runs, one by one."""

    def __init__(self, source: Source, runs: Sequence[Run], directory: Path, **needs: Any) -> None:
        new = [NewTape(directory / f"{uuid4()}.tape", counted=True) for _ in runs]
        parts = [players.Part(source, *one) for one in zip(runs, new, strict=True)]
        super().__init__(parts, **needs)
        self.found: list[dict[str, Any]] = []

    def complete(self) -> None:
        self.found = [part.result["totals"] for part in self.parts]
        for part in self.parts:
            part.whole()


class Broken(Totals):
    def take(self, part: players.Part) -> None:
        raise OSError(f"{part.run.policies[0]} is broken")


@pytest.mark.parametrize(("models", "times"), [(8, 1), (7, 1), (4, 2), (1, 7)])
def test_a_tape_is_decoded_once_for_all_runs_that_fit_into_memory(
    models: int,
    times: int,
    source: Source,
    decoded: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_run, "_FEW", 0)
    members = ensemble.Members(source, "this", RUNS["off"], 3, cached=False)
    tasks = [members, *(Totals(source, [run], tmp_path) for run in RUNS.values())]
    tasks.append(Totals(source, [Run("auto", ())], tmp_path, needs=tasks[:2]))
    players.play(tasks[1:], 2, models)
    assert decoded.count(source.tape.path) == times
    assert members.table.num_rows


def test_a_small_tape_is_decoded_once_for_all_passes(
    source: Source, decoded: list[Path], tmp_path: Path
) -> None:
    tasks = [Totals(source, [run], tmp_path) for run in RUNS.values()]
    players.play(tasks, 2, 1)
    players.play([Totals(source, [RUNS["off"]], tmp_path)], 2, 1)
    assert decoded == [source.tape.path]
    assert tasks[0].found


def test_a_sweep_decodes_a_tape_once_for_its_cases_and_their_members(
    small: Path, decoded: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(model_memory, "_PER_CPU", 32)
    monkeypatch.setattr(engine_run, "_FEW", 0)
    cases = sweep.cases_of([sweep.plan(small, "small", list(RUNS.values()), 2)])
    inferred(cases[0].tape), preferences(cases[0].tape)
    decoded.clear()
    (tmp_path / "out").mkdir()
    assert sweep.play(cases, tmp_path / "out", 2) == []
    assert all(case.result(tmp_path / "out") for case in cases)
    assert decoded == [small]
    assert len(list((tmp_path / "out").iterdir())) == 2 * len(cases)


@pytest.mark.parametrize(
    ("words", "whole"), [(["validate"], 1), (["replay", "--ensemble", 0], 2), (["replay"], 2)]
)
def test_a_command_reads_a_long_tape_this_often(
    words: list[object],
    whole: int,
    pagetape: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cold: a preview without the times, the run of validate, and one pass for all free runs. The
    release's kernel row needs no pass of its own."""
    read: Counter[bool] = Counter()  # rows, with or without the times
    batches = Tape.batches

    def seen(tape: Tape, name: str, columns: Any = None, *how: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(tape, name, columns, *how):
            read[columns is None or "ts" in columns] += batch.num_rows if name == "event" else 0
            yield batch

    monkeypatch.setattr(Tape, "batches", seen)
    monkeypatch.setattr(engine_run, "_FEW", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert pagetape(*words, DEMO).status == 0
    rows = Tape(DEMO).num_rows("event")
    assert read[False] == rows
    assert whole * rows <= read[True] < 1.2 * whole * rows  # the id of a recording reads the first


def test_without_a_cache_a_command_plays_a_recording_once_before_its_runs(
    pagetape: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[Path] = []
    run = run_ahead.run

    def seen(tape: Tape, *how: Any) -> run_ahead.Ahead:
        played.append(tape.path)
        return run(tape, *how)

    monkeypatch.setattr(run_ahead, "run", seen)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").touch()
    assert pagetape("replay", DEMO).status == 0
    assert played == [DEMO]


def test_runs_in_step_give_what_each_gives_alone(source: Source, tmp_path: Path) -> None:
    together = Totals(source, list(RUNS.values()), tmp_path)
    players.play([together])
    alone = [
        play(source, run, NewTape(tmp_path / f"{name}.tape", counted=True))["totals"]
        for name, run in RUNS.items()
    ]
    assert together.found == alone
    for part, name in zip(together.parts, RUNS, strict=True):
        assert part.new
        one, other = Tape(part.new.path), Tape(tmp_path / f"{name}.tape")
        assert one.tables == other.tables
        assert all(one.table(table).equals(other.table(table)) for table in one.tables)


def test_members_do_not_depend_on_the_number_of_models(source: Source) -> None:
    found = []
    for models in (1, 3, 8):
        members = ensemble.Members(source, "this", RUNS["off"], 4, cached=False)
        players.play([members], 2, models)
        found.append(members.table)
    assert found[0].equals(found[1]) and found[0].equals(found[2])


def test_measured_members_leave_no_rows_in_memory(source: Source) -> None:
    members = ensemble.Members(source, "this", RUNS["off"], 3, cached=False)
    players.play([members], 2)
    assert members.table.num_rows
    assert not [one for one in gc.get_objects() if type(one) is MemoryTape and one.tables]


def test_an_error_ends_its_task_and_those_that_need_it(source: Source, tmp_path: Path) -> None:
    bad = Broken(source, [RUNS["off"]], tmp_path)
    needs_it = Totals(source, [RUNS["lowzone"]], tmp_path, needs=[bad])
    good = Totals(source, [RUNS["always"]], tmp_path)
    players.play([needs_it, good], goes_on=True)
    assert bad.error is needs_it.error is not None and good.error is None
    assert good.found and not needs_it.found
    assert [good.parts[0].new.path] == list(tmp_path.iterdir())  # failed runs leave no tape


def test_the_first_error_is_raised_and_nothing_is_left(source: Source, tmp_path: Path) -> None:
    tasks = [kind(source, [RUNS["off"]], tmp_path) for kind in (Totals, Broken)]
    waits = Totals(source, [RUNS["always"]], tmp_path, needs=[tasks[1]])
    with pytest.raises(OSError, match="broken"):
        players.play([tasks[0], waits], 1, 1)
    kept = [part.new.path for part in tasks[0].parts if part.new]
    assert set(tmp_path.iterdir()) <= set(kept) and not waits.found


def test_events_that_break_off_fail_every_run_on_the_tape(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = Tape.batches

    def broken(tape: Tape, name: str, columns: Any = None, *how: Any) -> Iterator[pa.RecordBatch]:
        yield from batches(tape, name, columns, *how)
        if name == "event":
            raise TapeError(5, "breaks off")

    tasks = [Totals(source, [run], tmp_path) for run in RUNS.values()]
    monkeypatch.setattr(Tape, "batches", broken)
    players.play(tasks, goes_on=True)
    assert [str(task.error) for task in tasks] == ["[Errno 5] breaks off"] * 3
    assert list(tmp_path.iterdir()) == []


def test_the_cache_knows_a_tape_in_one_file_by_its_checksums(
    small: Path, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tapes = []
    for directory in (small, golden):
        path = tmp_path / directory.name
        path.touch()
        bundle.write(directory, path)
        tapes.append(Tape(path))
    cache.build()
    monkeypatch.setattr(cache, "digest", lambda _: pytest.fail("a file was read"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = tapes[0].table("zone")
    cache.store(tapes[0], "found", rows)
    assert cache.stored(Tape(tapes[0].path), "found", rows.schema) == rows
    assert cache.stored(tapes[1], "found", rows.schema) is None


def test_a_tape_is_hashed_once_until_it_changes(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Any] = []
    digest = cache.digest
    monkeypatch.setattr(cache, "digest", lambda files: hashed.append(1) or digest(files))
    tape = Tape(small)
    now = cache.time.time_ns() + 10_000_000_000
    monkeypatch.setattr(cache.time, "time_ns", lambda: now)
    first = cache.contents(tape)
    assert cache.contents(Tape(small)) == first
    assert len(hashed) <= 1
    with monkeypatch.context() as soon:  # a file that has just changed may change again
        soon.setattr(cache.time, "time_ns", lambda: (small / "event.arrow").stat().st_ctime_ns)
        assert cache.contents(tape) == first
    assert len(hashed) <= 2
    copy = tmp_path / "copy.tape"
    copy.mkdir()
    for file in small.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert cache.contents(Tape(copy)) == first
    event = copy / "zone.arrow"
    event.write_bytes(event.read_bytes()[:-1] + b"x")
    assert cache.contents(Tape(copy)) != first
