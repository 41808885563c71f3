# SPDX-License-Identifier: Apache-2.0
"""Ensembles: members that differ, are the same again, and give numbers their intervals."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pagetape.asking import interval
from pagetape.asking.comparison import members_of
from pagetape.replaying import ensemble, model_error, players
from pagetape.replaying.playback import Run, Source
from pagetape.replaying.validation import inferred, miss_rates, preferences
from pagetape.schemas import TABLES
from pagetape.schemas.form import BATCH_ROWS
from pagetape.schemas.tape import Tape, Writer

from .conftest import beginning

DEMO = Path(__file__).parent / "data/pressure.tape"
MIXING = Run("auto", ("nofragment:mode=always",))


@pytest.fixture
def source() -> Source:
    tape = Tape(DEMO)
    return Source(tape, inferred(tape), preferences(tape))


def test_every_kind_of_inferred_row_is_a_request_or_an_outcome() -> None:
    kind = TABLES["inferred"].column("kind")
    assert {value.group for value in kind.values} == {"request", "outcome"}
    assert set(kind.labels_of("outcome")) >= {"tuned", "cut", "retyped", "unboosted", "landed"}


def asked_of(source: Source) -> pa.Table:
    """The rows of `inferred` that a what-if takes as input."""
    batches = source.inferred(Run("auto", ()))
    return pa.Table.from_batches(batches, source.all_inferred.schema)


def test_requests_have_no_outcomes_and_no_sizes_of_drains(source: Source) -> None:
    rows = source.all_inferred
    asked = asked_of(source)
    kinds = set(asked["kind"].to_pylist())
    assert kinds <= set(TABLES["inferred"].column("kind").labels_of("request"))
    assert {"early_alloc", "drain", "isolated"} <= kinds < set(rows["kind"].to_pylist())
    assert asked.filter(pa.compute.equal(asked["kind"].cast("utf8"), "drain"))["pages"].null_count
    assert [*source.inferred(Run("auto", (), assisted=True))] == rows.to_batches()


def test_an_assisted_run_takes_more_rows_than_a_batch_has(source: Source) -> None:
    """The engine takes no slices of a batch."""
    rows = source.all_inferred
    many = pa.concat_tables([rows] * (BATCH_ROWS // rows.num_rows + 1)).combine_chunks()
    batches = [*Source(source.tape, many).inferred(Run("auto", (), assisted=True))]
    assert sum(batch.num_rows for batch in batches) == many.num_rows > BATCH_ROWS
    assert not any(column.offset for batch in batches for column in batch.columns)


def test_the_same_seeds_give_the_same_members(source: Source) -> None:
    runs = {"own": Run("auto", ()), "this": MIXING}
    one = ensemble.play(source, runs, 3, threads=1)
    other = ensemble.play(source, runs, 3, threads=2)
    key = [("run", "ascending"), ("seed", "ascending"), ("metric", "ascending")]
    plain = [rows.cast(_plain(rows)).sort_by(key) for rows in (one, other)]
    assert plain[0] == plain[1]


def _plain(rows: pa.Table) -> pa.Schema:
    """The schema without dictionaries."""
    types = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in rows.schema]
    return pa.schema(list(zip(rows.schema.names, types, strict=True)))


def test_members_differ_and_their_median_is_near_the_run(source: Source) -> None:
    rows = ensemble.own(source, MIXING, 8).to_pylist()
    fallbacks = [row["value"] for row in rows if row["metric"] == "fallbacks"]
    assert len(fallbacks) == 8 and len(set(fallbacks)) > 2
    assert 60 < sorted(fallbacks)[4] < 180  # recorded: 123
    allocs = {row["value"] for row in rows if row["metric"] == "allocs"}
    assert len(allocs) == 1


def test_the_run_without_changes_is_like_its_members(source: Source) -> None:
    """Changes keep the mean: 7 of 9 values of one more member lie within those of 8."""
    own = members_of(ensemble.own(source, MIXING, 8))["own"]
    plain = model_error.measure(source, MIXING.own).to_pylist()
    found = [(own[row["metric"]], row["model"]) for row in plain if row["metric"] in own]
    changing = [(values, value) for values, value in found if len(set(values)) > 1]
    within = [min(values) <= value <= max(values) for values, value in changing]
    assert len(within) > 50 and sum(within) > 0.65 * len(within)


def test_changes_come_as_often_as_the_tape_shows_them(source: Source) -> None:
    tape = source.tape
    rows = tape.num_rows("event")
    none = ensemble.changes(tape, source.all_inferred.slice(0, 0))
    assert set(none.values()) == {0}
    found = ensemble.changes(tape, source.all_inferred)
    assert found["sized"] > 0 and max(found.values()) <= 201e6 / rows


def _members(
    source: Source, monkeypatch: pytest.MonkeyPatch, **varied: Any
) -> dict[str, list[int]]:
    """The metrics of members of the own rules with these changes only."""
    only = {"changes": {}, "flips": {}, "moments": False} | varied
    monkeypatch.setattr(ensemble, "variation", lambda *_: only)
    return members_of(ensemble.play(source, {"own": Run("auto", ())}, 4))["own"]


def _differ(members: dict[str, list[int]]) -> set[str]:
    return {name for name, values in members.items() if len(set(values)) > 1}


def test_other_moments_alone_make_members_differ(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _differ(_members(source, monkeypatch))
    found = _members(source, monkeypatch, moments=True)
    assert "pages taken under the zone lock" in _differ(found)
    drawn = found[ensemble.DRAWN + "moments"]
    rows = sum(row["since"] is not None for row in asked_of(source).to_pylist())
    assert all(rows / 2 < nr <= rows for nr in drawn)
    assert len(set(found["allocs"])) == 1


@pytest.mark.parametrize("decision", ["alloc", "zone_locked", "drain", "drain_size", "extfrag"])
def test_decisions_taken_otherwise_alone_make_members_differ(
    decision: str, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = 100_000_000 if decision == "extfrag" else 1_000_000
    found = _members(source, monkeypatch, flips={decision: rate})
    assert _differ(found) - {name for name in found if name.startswith(ensemble.DRAWN)}
    assert len(set(found["allocs"])) == 1


def test_decisions_are_taken_otherwise_at_the_rate_of_their_misses(source: Source) -> None:
    rates = miss_rates(source.tape)
    assert rates["zone_locked"] == rates["refill_size"] == 0
    assert 0 < rates["alloc"] < 0.001 and 0 < rates["drain_size"] < 0.01
    flips = ensemble.variation(source.tape, source.all_inferred)["flips"]
    assert flips["drain_size"] == round(rates["drain_size"] * 1e9)


def test_windows_end_at_their_rows_and_those_of_a_page_do_not_overlap(source: Source) -> None:
    rows = asked_of(source).to_pylist()
    windows = [row for row in rows if row["since"] is not None]
    assert len(windows) > 400 and {row["kind"] for row in windows} == {"alloc", "early_alloc"}
    last: dict[int, int] = {}
    for row in rows:
        since = row["at"] if row["since"] is None else row["since"]
        assert last.get(row["pfn"], 0) <= since <= row["at"]
        last[row["pfn"]] = row["at"]


def test_members_say_how_many_changes_they_had(pagetape: Callable[..., Any]) -> None:
    words = ("replay", DEMO, "--policy", "nofragment:mode=always", "--json")
    changes = pagetape(*words, "--ensemble", 2).json["changes"]
    own, this = changes["own"], changes["this"]
    assert own.keys() == this.keys() >= {"moved", "moments", "other page", "other fallback"}
    # These do not depend on what the rules make of the requests.
    for kind in ("moved", "sized", "counted", "moments"):
        assert own[kind] == this[kind] > 0
    assert "changes" not in pagetape(*words, "--ensemble", 0).json


def test_a_what_if_has_intervals(pagetape: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "out.tape"
    spec = "nofragment:mode=always"
    run = pagetape("replay", DEMO, "--policy", spec, "--ensemble", 4, "-o", out, "--json").json
    assert run["seeds"] == [1, 2, 3, 4]
    steal = run["totals"]["fallback_steal"]
    assert steal["low"] <= steal["median"] <= steal["high"]
    (below,) = (m for m in run["metrics"] if m["metric"] == "fallbacks below pageblock order")
    assert below["own"]["low"] < below["own"]["high"]
    assert below["difference"]["shown"] and below["difference"]["high"] < 0
    assert below["scaled"] < below["recorded"]
    rows = Tape(out).rows("member")
    assert {row["run"] for row in rows} == {"own", "this"}

    found = pagetape("compare", DEMO, out, "--json").json
    (metric,) = (m for m in found["metrics"] if m["metric"] == "fallbacks below pageblock order")
    assert metric["differences"]["out"] == below["difference"]
    assert metric["intervals"]["out"] == {key: below[key] for key in ("median", "low", "high")}
    text = pagetape("compare", DEMO, out).out
    assert "own rules" in text and "no difference shown" in text


def test_the_members_of_the_same_rules_are_played_once(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    play = players.play

    def counting(tasks: Sequence[ensemble.Members], *more: Any, **named: Any) -> None:
        played.extend(task.label for task in tasks for _ in task.parts)
        play(tasks, *more, **named)

    monkeypatch.setattr(players, "play", counting)
    first = ensemble.with_own(source, MIXING, 1)
    assert ensemble.with_own(source, MIXING, 1) == first
    assert played == ["own", "this"]
    other = ensemble.with_own(source, Run("auto", ("nofragment:mode=off",)), 1)
    assert played == ["own", "this", "this"]
    assert other != first


def test_compare_plays_the_members_that_a_tape_lacks(
    pagetape: Callable[..., Any], tmp_path: Path
) -> None:
    one, many = tmp_path / "one.tape", tmp_path / "many.tape"
    words = ("replay", DEMO, "--policy", "nofragment:mode=always")
    pagetape(*words, "--ensemble", 0, "-o", one)
    pagetape(*words, "--ensemble", 3, "-o", many)
    assert Tape(one).num_rows("member") == 0
    played = pagetape("compare", DEMO, one, "--ensemble", 3, "--json").json["metrics"]
    stored = pagetape("compare", DEMO, many, "--json").json["metrics"]
    for a, b in zip(played, stored, strict=True):
        assert a["intervals"]["one"] == b["intervals"]["many"]
        assert a["differences"]["one"] == b["differences"]["many"]


def test_one_run_says_that_it_is_one(pagetape: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "out.tape"
    pagetape("replay", DEMO, "--policy", "nofragment:mode=always", "--ensemble", 0, "-o", out)
    said = pagetape("compare", DEMO, out, "--ensemble", 0)
    assert "one run" in said.out
    found = pagetape("compare", DEMO, out, "--ensemble", 0, "--json").json
    assert not any(any(metric["intervals"].values()) for metric in found["metrics"])


def test_without_the_recording_compare_works_from_the_members(
    pagetape: Callable[..., Any], tmp_path: Path
) -> None:
    own, other = tmp_path / "own.tape", tmp_path / "other.tape"
    pagetape("replay", DEMO, "--ensemble", 3, "-o", own)
    pagetape("replay", DEMO, "--policy", "pcp:mode=fixed", "--ensemble", 3, "-o", other)
    found = pagetape("compare", own, other, "--json").json
    (metric,) = (m for m in found["metrics"] if m["metric"] == "fallbacks")
    assert metric["intervals"]["own"] and metric["intervals"]["other"]
    assert metric["differences"]["other"]["low"] is not None


def test_two_what_ifs_alone_are_compared_with_each_other_beside_the_own_rules(
    pagetape: Callable[..., Any], tmp_path: Path
) -> None:
    for name, policy in (("one", "nofragment:mode=always"), ("two", "nofragment:mode=off")):
        argv = ("replay", DEMO, "--policy", policy, "--ensemble", 2, "-o", tmp_path / name)
        assert pagetape(*argv).status == 0
    done = pagetape("compare", tmp_path / "one", tmp_path / "two")
    assert done.status == 0, done.err
    head = done.out.splitlines()[0].split()
    assert head == ["metric", "unit", "tier", "one", "own", "rules", "two", "against", "one"]


def test_the_error_of_a_run_with_feedback_is_measured_with_feedback(
    pagetape: Callable[..., Any], tmp_path: Path
) -> None:
    models = []
    for mode in ("R0", "R1"):
        out = tmp_path / f"{mode}.tape"
        words = ("--policy", "nofragment:mode=always", "--reclaim", mode, "--ensemble", 2)
        pagetape("replay", DEMO, *words, "-o", out)
        rows = {row["metric"]: row["model"] for row in Tape(out).rows("model_error")}
        models.append(rows["PCP drains"])
    assert models[0] != models[1]


def without_two_pages(tape: Tape, path: Path) -> Tape:
    """The tape without two allocations of its first third, and without their frees."""
    events = tape.table("event")
    kinds, pfns = (events[name].to_pylist() for name in ("kind", "pfn"))
    gone: set[int] = set()
    row = len(kinds) // 9
    while len(gone) < 4:
        row += 1
        if kinds[row] == "alloc" and pfns[row] is not None:
            rest = range(row + 1, len(kinds) // 2)
            freed = (at for at in rest if kinds[at] == "free" and pfns[at] == pfns[row])
            if (free := next(freed, None)) is not None:
                gone |= {row, free}
                row += len(kinds) // 20
    stays = pa.array([at not in gone for at in range(len(kinds))])
    with Writer(path, tape.facts) as out:
        for name in tape.tables:
            batches = tape.batches(name)
            if name == "event":
                batches = iter(events.filter(stays).combine_chunks().to_batches())
            for batch in batches:
                out.write(name, batch)
    return Tape(path)


def test_two_pages_less_move_no_median_out_of_the_interval(source: Source, tmp_path: Path) -> None:
    short = Tape(beginning(source.tape.path, tmp_path / "short.tape", 100_000))
    less = without_two_pages(short, tmp_path / "less.tape")
    source, other = (Source(tape, inferred(tape), preferences(tape)) for tape in (short, less))
    runs = {"own": Run("auto", ()), "this": MIXING}
    played = [members_of(ensemble.play(one, runs, 8)) for one in (source, other)]
    for metric in ("fallbacks", "fallbacks below pageblock order"):
        for run in runs:
            one, two = (
                interval.interval(metric, "events", members[run][metric], "whole")
                for members in played
            )
            assert one.low <= two.median <= one.high
            assert two.low <= one.median <= two.high


def test_each_line_of_a_comparison_has_the_unit_of_its_metric(
    pagetape: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "one"
    assert pagetape("replay", DEMO, "--ensemble", 0, "-o", out).status == 0
    argv = ("compare", DEMO, out, "--ensemble", 0)
    units = {m["metric"]: m["unit"] for m in pagetape(*argv, "--json").json["metrics"]}
    head, *lines = pagetape(*argv).out.split("\n\n")[0].splitlines()
    place = head.index("unit")
    assert len(lines) > 20
    for line in lines:
        assert line[place:].split()[0] == units[line[:place].rstrip()]
