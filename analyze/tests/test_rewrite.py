# SPDX-License-Identifier: Apache-2.0
"""replay --rewrite: other requests in the place of recorded ones, and nothing else changes."""

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

from pagetape.cli import pagetape
from pagetape.conditions import RuleError
from pagetape.replaying import rewrite
from pagetape.replaying.playback import Run, Source, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas import GFP_BITS, MIGRATETYPES
from pagetape.schemas.tape import Tape, TapeError, Writer

SERVER = Path(__file__).parents[1] / "demo/server.tape"


def bits(*names: str) -> int:
    return sum(1 << GFP_BITS.index(name) for name in names)


def orders(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


# The language


def test_a_rule_of_all_conditions() -> None:
    rule = rewrite.parse(
        'task ~ "^db" and cgroup = "/web" and pid = 7 and order >= 2 and order != 3 and order < 6'
        " and migratetype != MOVABLE and gfp has NOWARN|NORETRY and gfp lacks __GFP_IO"
        " and time >= 1.5s and time < 2min : order = 0"
    )
    assert rule.orders == orders(2, 4, 5)
    assert not rule.migratetypes >> MIGRATETYPES.index("MOVABLE") & 1
    assert rule.migratetypes >> MIGRATETYPES.index("UNMOVABLE") & 1
    assert rule.gfp_has == bits("NOWARN", "NORETRY")
    assert rule.gfp_lacks.bit_count() == 1
    assert (rule.since_ns, rule.until_ns) == (1_500_000_000, 120_000_000_000)
    assert [one.column for one in rule.threads] == ["comm", "cgroup", "pid"]
    assert [one.fits("db-writer") for one in rule.threads] == [True, False, False]
    assert (rule.order, rule.times, rule.drop) == (0, 0, False)


def test_changes() -> None:
    rule = rewrite.parse(": migratetype = reclaimable, drop DIRECT_RECLAIM|IO, add NORETRY")
    assert rule.migratetype == MIGRATETYPES.index("RECLAIMABLE")
    assert (rule.gfp_clear, rule.gfp_set) == (bits("DIRECT_RECLAIM", "IO"), bits("NORETRY"))
    assert not rule.drop
    assert rewrite.parse("order > 3 : drop").drop
    assert rewrite.parse("order = 3 : order = 1 x 4").times == 4


def test_a_smaller_request_is_left_out() -> None:
    rule = rewrite.parse(": order = 2")
    assert rule.orders & 0xFF == 0xFC


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("order = 3", "expected 'and' or ':', found the end"),
        ("order = 3 :", "expected 'order' or 'migratetype' or 'drop' or 'add', found the end"),
        ("size = 3 : drop", "expected a condition, found 'size'"),
        ("order ~ 3 : drop", "found '~'"),
        ("order = x : drop", "expected an order below 32, found 'x'"),
        ("order = 2 : order = 0 x 8", "8 requests of order 0 have more pages than one of order 2"),
        ("order < 2 : order = 3", "order = 3 is above the orders of the condition"),
        ("order = 3 : order = 0 x 0", "write ': drop'"),
        ("gfp has NORETRI : drop", "did you mean 'NORETRY'"),
        ("gfp is NORETRY : drop", "found 'is'"),
        (": migratetype = CMA", "a request has the migratetype UNMOVABLE, MOVABLE, RECLAIMABLE"),
        ('task ~ "(" : drop', "no regular expression"),
        ("time > soon : drop", "expected a time such as 5s"),
        ("order = 3 or order = 2 : drop", "found 'or'"),
        ("order = 3 : drop & drop", "no word of a rule"),
        ("order = 3 : drop order = 2", "is no gfp flag"),
    ],
)
def test_a_rule_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(RuleError) as error:
        rewrite.rules([text])
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    found = CliRunner().invoke(pagetape, ["replay", str(SERVER), "--rewrite", text])
    assert found.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "order = 3 : order = 3",
        "order = 3 : order = 3 x 1",
        "migratetype = MOVABLE : migratetype = MOVABLE",
        "gfp lacks IO : drop IO",
        "gfp has IO|FS : add FS",
    ],
)
def test_a_rule_that_changes_nothing_is_left_out(text: str) -> None:
    assert rewrite.rules([text]) == []
    assert rewrite.parse(text).changes_nothing


@pytest.mark.parametrize("text", ["order = 3 : order = 2", ": drop IO", "order > 2 : order = 3"])
def test_other_rules_stay(text: str) -> None:
    assert len(rewrite.rules([text])) == 1


# The engine


@pytest.fixture(scope="module")
def source() -> Source:
    tape = Tape(SERVER)
    return Source(tape, inferred(tape), preferences(tape))


def played(source: Source, out: Path, *rules: str) -> tuple[Tape, dict[str, Any]]:
    result = play(source, Run("auto", (), rewrite=rules), out)
    return Tape(out), result


@pytest.fixture(scope="module")
def own(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Tape:
    return played(source, tmp_path_factory.mktemp("own") / "own.tape")[0]


def allocs(tape: Tape) -> pa.Table:
    events = tape.table("event")
    return events.filter(pc.equal(events["kind"].cast(pa.utf8()), "alloc"))


def in_use(tape: Tape) -> pa.Table:
    """Pages allocated minus pages freed after each time that has an event of them, by time."""
    events = tape.table("event").select(["ts", "kind", "page_order", "pfn"])
    kinds = events["kind"].cast(pa.utf8())
    of_pages = pc.and_(pc.is_in(kinds, pa.array(["alloc", "free"])), pc.is_valid(events["pfn"]))
    events, kinds = events.filter(of_pages), kinds.filter(of_pages)
    pages = pc.shift_left(pa.scalar(1, pa.int64()), events["page_order"].cast(pa.int64()))
    signed = pc.if_else(pc.equal(kinds, "alloc"), pages, pc.negate(pages))
    sums = (
        pa.table({"ts": events["ts"], "pages": signed}).group_by("ts").aggregate([("pages", "sum")])
    )
    sums = sums.sort_by("ts")
    return pa.table({"ts": sums["ts"], "pages": pc.cumulative_sum(sums["pages_sum"])})


def test_a_rule_that_fits_nothing_leaves_every_table_as_it_is(
    source: Source, own: Tape, tmp_path: Path
) -> None:
    tape, result = played(source, tmp_path / "a.tape", 'task = "nobody" : drop')
    assert result["rewritten"] == {"requests": 0, "kept": 0}
    assert sorted(tape.tables) == sorted(own.tables)
    for name in tape.tables:
        assert tape.table(name).equals(own.table(name)), name


def test_an_engine_whose_rule_is_the_identity(
    source: Source, own: Tape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine plays other requests, which are the recorded ones."""
    monkeypatch.setattr(rewrite.Rule, "changes_nothing", False)
    tape, result = played(source, tmp_path / "a.tape", "order = 3 : order = 3")
    late = {"early_alloc", "direct_alloc"} & set(
        source.all_inferred["kind"].cast(pa.utf8()).unique().to_pylist()
    )
    assert result["rewritten"]["requests"] > 0
    if not late:
        for name in tape.tables:
            assert tape.table(name).equals(own.table(name)), name
    assert in_use(tape).equals(in_use(own))


def test_an_identity_writes_the_same_bytes(tmp_path: Path) -> None:
    for name, more in (("own", []), ("same", ["--rewrite", "order = 3 : order = 3"])):
        out = ["-o", str(tmp_path / f"{name}.tape")]
        args = ["replay", str(SERVER), "--ensemble", "0", *out, *more]
        found = CliRunner().invoke(pagetape, args)
        assert found.exit_code == 0, found.output
    assert (tmp_path / "own.tape").read_bytes() == (tmp_path / "same.tape").read_bytes()


def with_stacks(small: Path, out: Path, requests: dict[str, int]) -> Tape:
    """The tape `small` with stacks: every so many requests, by function."""
    tape = Tape(small)
    events = [row for row in tape.rows("event") if row["kind"] == "alloc"]
    rows, frames = [], []
    for number, (function, every) in enumerate(requests.items()):
        frames += [
            {"stack": number, "depth": 0, "function": function, "offset": 8},
            {"stack": number, "depth": 1, "address": 0xFFFF800000001000},
        ]
        for event in events[number::every]:
            place = {name: event[name] for name in ("cpu", "pid", "ts")}
            rows.append(place | {"at": 0, "event_ts": event["ts"], "stack": number})
    with Writer(out, tape.facts) as made:
        for name in sorted(tape.tables):
            for batch in tape.batches(name):
                made.write(name, batch)
        made.rows("stack", sorted(rows, key=lambda row: row["ts"]))
        made.rows("frame", frames)
    return Tape(out)


def test_a_condition_on_stacks_fits_requests_with_such_a_stack(small: Path, tmp_path: Path) -> None:
    tape = with_stacks(small, tmp_path / "s.tape", {"net_rx": 10, "ext4_read": 30})
    source = Source(tape, inferred(tape), preferences(tape))
    for rule, nr in (
        ('stack ~ "net_rx" : drop', 600),
        ('stack ~ "^0xffff800000001000;ext4" : drop', 200),
        ('stack ~ "." : drop', 800),
        ('stack ~ "net" and stack ~ "ext4" : drop', 0),
        ('stack ~ "net" and pid = 100 : drop', 600),
        ('stack ~ "net" and pid = 101 : drop', 0),
    ):
        _, result = played(source, tmp_path / "a.tape", rule)
        assert result["rewritten"] == {"requests": nr, "kept": 0}, rule
        (tmp_path / "a.tape").unlink()


def test_a_tape_without_stacks_has_none_to_ask_for(small: Path) -> None:
    with pytest.raises(TapeError, match="has no stacks for a condition on them"):
        rewrite.compiled(Tape(small), ['stack ~ "x" : drop'])
    with pytest.raises(RuleError, match="found '='"):
        rewrite.rules(['stack = "x" : drop'])


@pytest.mark.parametrize(
    "rule",
    ["order = 3 : order = 0 x 8", "order = 3 : order = 1", "order >= 1 : order = 0"],
)
def test_pieces_have_the_pages_of_the_whole_at_each_instant(
    source: Source, own: Tape, tmp_path: Path, rule: str
) -> None:
    tape, result = played(source, tmp_path / "a.tape", rule)
    assert result["rewritten"]["requests"] > 900
    assert result["rewritten"]["kept"] == 0
    failed = pc.sum(pc.is_null(allocs(tape)["pfn"])).as_py()
    assert failed == pc.sum(pc.is_null(allocs(own)["pfn"])).as_py()
    assert in_use(tape).equals(in_use(own))
    most = pc.max(allocs(tape)["page_order"]).as_py()
    assert most == pc.max(allocs(own)["page_order"]).as_py() or rule.startswith("order >=")


def test_fewer_pages_than_before(source: Source, own: Tape, tmp_path: Path) -> None:
    tape, _ = played(source, tmp_path / "a.tape", "order = 3 : order = 0 x 5")
    fewer = pc.subtract(in_use(own)["pages"], in_use(tape)["pages"])
    assert pc.min(fewer).as_py() >= 0
    assert pc.max(fewer).as_py() > 0


def pids(tape: Tape, comm: str) -> pa.Array:
    return pa.array([t["pid"] for t in tape.rows("task") if t["comm"] == comm], pa.int32())


def test_dropped_requests_are_neither_served_nor_freed(
    source: Source, own: Tape, tmp_path: Path
) -> None:
    tape, result = played(source, tmp_path / "a.tape", 'task = "frontend" : drop')
    mine = pids(source.tape, "frontend")
    of_task = allocs(own).filter(pc.is_in(allocs(own)["pid"], mine))
    assert result["rewritten"]["requests"] == len(of_task)
    assert pc.sum(pc.is_in(allocs(tape)["pid"], mine)).as_py() == 0
    assert len(allocs(tape)) == len(allocs(own)) - len(of_task)
    assert result["anomalies"] <= play(source, Run("auto", ()))["anomalies"]


def test_another_migratetype_and_other_flags(source: Source, own: Tape, tmp_path: Path) -> None:
    rule = 'task = "frontend" : migratetype = RECLAIMABLE, drop DIRECT_RECLAIM'
    tape, _ = played(source, tmp_path / "a.tape", rule)
    mine = pids(source.tape, "frontend")
    made = allocs(tape).filter(pc.is_in(allocs(tape)["pid"], mine))
    assert len(made) == len(allocs(own).filter(pc.is_in(allocs(own)["pid"], mine)))
    assert made["migratetype"].cast(pa.utf8()).unique().to_pylist() == ["RECLAIMABLE"]
    flags = pc.bit_wise_and(made["gfp_flags"], bits("DIRECT_RECLAIM", "RECLAIMABLE", "MOVABLE"))
    assert flags.unique().to_pylist() == [bits("RECLAIMABLE")]
    assert in_use(tape).equals(in_use(own))


def test_the_first_rule_that_fits_counts(source: Source, tmp_path: Path) -> None:
    rules = ('task = "frontend" and order = 3 : order = 3, add NORETRY', "order = 3 : order = 0")
    tape, _ = played(source, tmp_path / "a.tape", *rules)
    made = allocs(tape)
    of_three = made.filter(pc.equal(made["page_order"], 3))
    assert set(of_three["pid"].unique().to_pylist()) == set(
        pids(source.tape, "frontend").to_pylist()
    )
    assert pc.all(pc.not_equal(pc.bit_wise_and(of_three["gfp_flags"], bits("NORETRY")), 0)).as_py()


def test_a_part_of_the_time(source: Source, own: Tape, tmp_path: Path) -> None:
    tape, _ = played(source, tmp_path / "a.tape", "order = 3 and time >= 10s : order = 0")
    begin, _ = source.tape.clock or (0, 0)
    for one, before in ((allocs(tape), True), (allocs(own), False)):
        three = one.filter(pc.equal(one["page_order"], 3))
        late = pc.sum(pc.greater_equal(three["ts"], begin + 10_000_000_000)).as_py()
        assert (late == 0) is before


def test_a_member_of_the_ensemble_has_the_rule_too(source: Source, tmp_path: Path) -> None:
    found = CliRunner().invoke(
        pagetape,
        [
            *("replay", str(SERVER), "--ensemble", "2", "-o", str(tmp_path / "a.tape")),
            *("--rewrite", "order = 3 : order = 0 x 8"),
        ],
    )
    assert found.exit_code == 0, found.output
    assert "rewritten: " in found.output
    assert "[" in found.output
    assert Tape(tmp_path / "a.tape").facts["replay"]["rewrite"] == ["order = 3 : order = 0 x 8"]
    assert source.tape.num_rows("event")


def test_diagnose_proposes_a_rule_where_the_order_is_the_cause() -> None:
    said = CliRunner().invoke(pagetape, ["diagnose", str(SERVER), "--json"])
    found = {f["id"]: f for f in json.loads(said.output)["findings"]}
    assert "whatif" not in found["mixing"], "most of its fallbacks are of order 0"
    proposed = found["pinned"]["whatif"]
    assert found["pinned"]["evidence"]["task"] == "frontend"
    words = shlex.split(proposed)
    assert words[-1] == 'task = "frontend" and order > 0 : order = 0'
    run = CliRunner().invoke(pagetape, [*words[1:], "--ensemble", "0"])
    assert run.exit_code == 0
    assert "rewritten: 3,316 requests" in run.output


def test_a_tape_without_each_allocation_is_refused(tmp_path: Path) -> None:
    made = ["import", str(SERVER), "--events", "zone", "-o", str(tmp_path / "zone.tape")]
    assert CliRunner().invoke(pagetape, made).exit_code == 0
    found = CliRunner().invoke(
        pagetape, ["replay", str(tmp_path / "zone.tape"), "--rewrite", ": drop"]
    )
    assert isinstance(found.exception, TapeError)
    assert "--rewrite needs each allocation" in str(found.exception)
