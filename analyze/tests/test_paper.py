# SPDX-License-Identifier: Apache-2.0
"""pagetape paper: every published figure, what is recorded and modelled beside it, and why not."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import papers, query
from pagetape.asking.interval import Paired
from pagetape.replaying import paper_model
from pagetape.schemas.tape import Tape, Writer

from .conftest import beginning, rewritten, write_golden

Run = Callable[..., Any]

ROOT = Path(__file__).parents[2]
PRESSURE = ROOT / "analyze/demo/pressure.tape"
LOWZONE = ROOT / "analyze/demo/lowzone.tape"
THP2 = ROOT / "analyze/demo/thp2.tape"
SHARED = Path(__file__).parents[3] / "shared/data/published"
ONE = ("--ensemble", "1")  # equal runs are played once
NAMES = ["kswapd", "nofragment", "pcp-tuning", "reserve", "thp-numa"]
ROW = {"table", "row", "column", "value", "published", "unit", "machine", "kernel", "source"}
ROW |= {"recorded", "modelled", "low", "high", "verdict", "difference", "ratio", "published_ratio"}
VERDICTS = re.compile(r"same sign|other sign|no difference shown|inert: .+")


def check_cells(rows: list[dict[str, Any]]) -> None:
    """Every cell is a value or one of the reasons."""
    for row in rows:
        assert row.keys() - {"tape"} == ROW | {"remark"}
        for cell in (row["recorded"], row["modelled"]):
            assert isinstance(cell, int | float) or cell.startswith(papers.REASONS), row
        modelled = isinstance(row["modelled"], int | float)
        assert modelled or (row["low"], row["high"], row["ratio"]) == (None, None, None)
        assert row["low"] is None or row["low"] <= row["modelled"] <= row["high"], row
        share = "percentage of faults huge" in row["table"] and "printed" not in row["column"]
        assert not share or row["high"] is None or row["high"] <= 100
        assert row["verdict"] is None or VERDICTS.fullmatch(row["verdict"])


def cell(found: dict[str, Any], **wanted: str) -> dict[str, Any]:
    rows = [*found["rows"], *found["unpublished"]]
    (row,) = (row for row in rows if all(row[k] == v for k, v in wanted.items()))
    return row


def test_the_papers_are_listed(pagetape: Run) -> None:
    found = pagetape("paper", "--json").json["papers"]
    assert [paper["name"] for paper in found] == NAMES == papers.names()
    assert sum(paper["figures"] for paper in found) == 895


@pytest.mark.parametrize("name", NAMES)
def test_no_published_figure_is_lost_or_invented(name: str, pagetape: Run) -> None:
    found = pagetape("paper", name, "--json").json
    check_cells(found["rows"] + found["unpublished"])
    assert all(row["source"] and row["published"] is not None for row in found["rows"])
    assert all(row["value"] == "" for row in found["unpublished"])
    if not SHARED.exists():
        pytest.skip("without the figures as somebody else collected them")
    with (SHARED / f"{name}.csv").open(newline="") as file:
        wanted = [(r["table"], r["row"], r["column"], r["value"]) for r in csv.DictReader(file)]
    ours = [(r["table"], r["row"], r["column"], r["value"]) for r in found["rows"]]
    assert sorted(ours) == sorted(wanted)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return beginning(PRESSURE, tmp_path_factory.mktemp("short") / PRESSURE.name)


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_is_empty_on_a_tape(name: str, short: Path, pagetape: Run) -> None:
    found = pagetape("paper", name, short, *ONE, "--json").json
    check_cells(found["rows"] + found["unpublished"])
    assert {row["tape"] for row in found["rows"]} == {"pressure"}
    assert (found["tapes"][0]["members"], found["tapes"][0]["lost"]) == (1, 0)


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_is_empty_on_a_tape_of_little(name: str, golden: Path, pagetape: Run) -> None:
    found = pagetape("paper", name, golden, "--ensemble", "0", "--json").json
    check_cells(found["rows"] + found["unpublished"])
    text = pagetape("paper", name, golden, "--ensemble", "0").out
    for row in found["rows"]:
        assert row["value"] in text and row["column"] in text


def test_an_empty_tape_has_reasons(empty: Path, pagetape: Run) -> None:
    found = pagetape("paper", "nofragment", empty, "--json").json
    check_cells(found["rows"])
    assert not any(isinstance(row["recorded"], int | float) for row in found["rows"])


@pytest.mark.parametrize("name", NAMES)
def test_every_binding_names_something(name: str) -> None:
    paper = papers.paper(name)
    known = query.reports().keys()
    stacks = paper_model.stacks(paper)
    assert paper.about["baseline"] in stacks
    for figure in paper.every:
        recorded, modelled = figure.keys["recorded"], figure.keys["modelled"]
        assert isinstance(recorded, str) or recorded["report"] in known
        assert figure.keys.get("stack", paper.about["baseline"]) in stacks
        assert isinstance(modelled, str) or "parameter" in modelled or "stack" in figure.keys
    for rule in paper.about["cell"]:
        names = ("table", "row", "column", "machine")
        globs = {key: rule[key] for key in names if key in rule}
        hit = any(
            all(papers.matches(getattr(f, key), glob) for key, glob in globs.items())
            for f in paper.every
        )
        assert hit, f"no figure matches {globs}"


def test_a_recorded_cell_moves_by_the_events_that_are_added(tmp_path: Path, pagetape: Run) -> None:
    nr = 7

    def more(name: str, rows: Any) -> Any:
        if name != "event":
            return rows
        import pyarrow as pa
        import pyarrow.compute as pc

        kinds, types = rows["kind"].cast(pa.string()), rows["migratetype"].cast(pa.string())
        small = pc.less(rows["fallback_order"], 9)
        wanted = pc.and_(pc.equal(kinds, "alloc_extfrag"), pc.equal(types, "UNMOVABLE"))
        (first, *_) = pc.indices_nonzero(pc.and_(wanted, pc.fill_null(small, False))).to_pylist()
        return pa.concat_tables(
            [rows.slice(0, first + 1), *[rows.slice(first, 1)] * nr, rows.slice(first + 1)]
        )

    changed = rewritten(PRESSURE, tmp_path / "more.tape", change=more)
    about = ("--table", "extfrag events < order 9", "--ensemble", "0", "--json")
    before = pagetape("paper", "nofragment", PRESSURE, *about).json["rows"]
    after = pagetape("paper", "nofragment", changed, *about).json["rows"]
    moved = 0
    for old, new in zip(before, after, strict=True):
        assert old["published"] == new["published"]
        if old["column"] in ("+1-4 (boost)", "+1-3 (boost)"):
            assert new["recorded"] - old["recorded"] == nr
            moved += 1
        else:
            assert old["recorded"] == new["recorded"]
    assert moved == 5


def test_a_breakdown_moves_with_its_type_alone(
    golden_with: Any, tmp_path: Path, pagetape: Run
) -> None:
    """The golden tape has a zone NORMAL above DMA32, and a kernel with +1 and boosts at claims."""
    found = pagetape("paper", "nofragment", golden_with({}), "--ensemble", "0", "--json").json
    by_type = {
        row["row"].split()[0]: row["recorded"]
        for row in found["rows"]
        if row["table"].startswith("events by migratetype") and row["column"] == "+1 (lowzone)"
    }
    report = pagetape("report", "extfrag.by_migratetype", tmp_path / "plain.tape", "--json").json
    for name, nr in by_type.items():
        rows = [
            r for r in report["rows"] if r["alloc_migratetype"] == name and r["below_pageblock"]
        ]
        assert nr == sum(row["nr"] for row in rows)
    assert sum(by_type.values()) > 0
    row = cell(found, table="extfrag events < order 9", row="1S-plain", column="+1 (lowzone)")
    assert row["recorded"] >= sum(by_type.values())
    assert "attempts to claim" in row["remark"]


def test_a_machine_without_normal_says_so_in_each_cell_of_patch_1(pagetape: Run) -> None:
    lack = "this machine lacks NORMAL above DMA32"
    found = pagetape("paper", "nofragment", PRESSURE, *ONE, "--json").json
    rows = [row for row in found["rows"] if row["column"].startswith("+1 (")]
    assert len(rows) == 37
    assert {row["recorded"] for row in rows} == {row["modelled"] for row in rows} == {lack}


def test_patch_1_changes_nothing_on_such_a_machine(tmp_path: Path, pagetape: Run) -> None:
    tapes = [tmp_path / "vanilla.tape", tmp_path / "lowzone.tape"]
    stacks = ("nofragment:mode=off", "watermark_boost:factor=0"), ("v5:1",)
    for out, stack in zip(tapes, stacks, strict=True):
        specs = [w for policy in ("fallback:kernel=4.20", *stack) for w in ("--policy", policy)]
        more = ("--reclaim", "R1", "--ensemble", 0, "-o", out)
        assert pagetape("replay", PRESSURE, *specs, *more).status == 0
    vanilla, lowzone = (Tape(out).table("event") for out in tapes)
    assert vanilla.equals(lowzone)


def test_only_a_patch_that_acts_through_reclaim_is_inert_without_it(
    golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    tape = rewritten(
        golden,
        tmp_path / "calm.tape",
        change=lambda name, rows: rows.slice(0, 0) if name in ("reclaim", "compaction") else rows,
    )
    about = ("--table", "extfrag events < order 9", *ONE, "--json")
    found = pagetape("paper", "nofragment", tape, *about).json
    where = {"table": "extfrag events < order 9", "row": "1S-plain"}
    lowzone, boost = (cell(found, **where, column=c) for c in ("+1 (lowzone)", "+1-4 (boost)"))
    assert lowzone["verdict"].startswith("inert: never had a choice here")
    assert boost["verdict"] == "inert: the tape recorded no reclaim"


def test_samples_of_one_kind_are_no_missing_load(tmp_path: Path, pagetape: Run) -> None:
    """All faults got huge pages: there is no latency of a base fault, though the load ran."""
    tape = write_golden(tmp_path / "huge.tape", tables=set())
    with Writer(tmp_path / "sampled.tape", Tape(tape).facts) as out:
        about = {"name": "fault", "ts": 10**9, "ns": 9000, "flags": 3, "page_order": 9}
        out.rows("sample_latency", [about])
    about = ("--table", "latencies, Amean", "--ensemble", "0", "--json")
    for path, base, huge in (
        (tape, *["not recorded: --events page -- pagetape load fioscale"] * 2),
        (tmp_path / "sampled.tape", "n too small (0)", 9),
    ):
        found = pagetape("paper", "nofragment", path, *about).json
        rows = {row["row"]: row for row in found["rows"] if row["column"] == "+1 (lowzone)"}
        assert rows["1S-plain fault-base-1"]["recorded"] == base
        assert rows["1S-plain fault-huge-1"]["recorded"] == huge


def test_the_columns_have_their_signs(pagetape: Run) -> None:
    found = pagetape(
        "paper", "nofragment", PRESSURE, "--ensemble", "8", "--table", "order 9", "--json"
    ).json
    where = {"table": "extfrag events < order 9", "row": "2S-plain"}
    vanilla, boost = (cell(found, **where, column=c) for c in ("vanilla", "+1-4 (boost)"))
    assert vanilla["verdict"] is None and vanilla["recorded"] == papers.NOT_THIS_KERNEL
    assert boost["recorded"] == 118  # as extfrag.by_order counts them
    assert boost["verdict"] == "same sign" and boost["difference"]["high"] < 0
    assert boost["modelled"] < vanilla["modelled"]
    printed = cell(found, **where, column="+1-4 (boost), printed reduction")
    assert printed["modelled"] == pytest.approx(100 * (1 - boost["ratio"]["value"]))
    assert boost["published_ratio"] == pytest.approx(14263 / 215698)


def test_patch_1_acts_where_a_lower_zone_has_room(pagetape: Run) -> None:
    about = ("--table", "extfrag events < order 9", "--ensemble", "4", "--json")
    found = pagetape("paper", "nofragment", LOWZONE, *about).json
    check_cells(found["rows"])
    where = {"table": "extfrag events < order 9", "row": "1S-plain"}
    columns = ("vanilla", "+1 (lowzone)", "+1-4 (boost)", "+1-5 (stall)")
    vanilla, *patches = (cell(found, **where, column=c) for c in columns)
    for row in patches:
        assert row["high"] < vanilla["low"]
        assert row["verdict"] == "same sign" and row["difference"]["high"] < 0
    assert patches[0]["ratio"]["high"] < 0.7
    assert not any(str(row["modelled"]).startswith(papers.LACKS) for row in found["rows"])
    report = pagetape("report", "extfrag.by_order", LOWZONE, "--json").json["rows"]
    assert patches[0]["recorded"] == sum(row["nr"] for row in report if row["below_pageblock"])


def test_faults_that_may_try_other_nodes_get_more_huge_pages(pagetape: Run) -> None:
    """The model counts faults, as the recording does; where it misses the recording it says so."""
    about = ("--table", "percentage of faults huge", "--ensemble", "4", "--json")
    found = pagetape("paper", "thp-numa", THP2, *about).json
    column = "5.4.0-rc6 + thptweak (local, then spill)"
    row = cell(found, row="huge-5", column=column)
    (faults,) = pagetape("report", "numa.faults", THP2, "--json").json["rows"]
    assert row["recorded"] == 100 * (faults["local"] + faults["remote"]) / faults["faults"]
    assert row["verdict"] == "same sign" and row["difference"]["low"] > 0
    followed = row["low"] <= row["recorded"] <= row["high"]
    assert followed == (row["remark"] is None)


def test_few_fallbacks_are_no_basis_for_stalls(pagetape: Run) -> None:
    found = pagetape("paper", "nofragment", PRESSURE, *ONE, "--table", "stalls", "--json").json
    cells = [r["modelled"] for r in found["rows"] if r["column"] == "stalls"]
    assert len(cells) == 4 and all(re.fullmatch(r"n too small \(\d+\)", c) for c in cells)
    assert cell(found, row="stalls", source=papers.NEVER_PUBLISHED)["modelled"] == 0


def test_kswapd_without_a_zone_held_back_is_inert(pagetape: Run) -> None:
    found = pagetape("paper", "kswapd", PRESSURE, *ONE, "--table", "by rule", "--json").json
    assert found["rows"] == []
    wakes = cell(found, row="wakes of kcompactd", column="keepawake")
    assert wakes["verdict"] == "inert: no zone held back"
    (balance,) = (
        sum(
            r["kcompactd_wakes"]
            for r in pagetape("report", "kswapd.balance", PRESSURE, "--json").json["rows"]
        ),
    )
    assert wakes["recorded"] == balance
    assert (
        cell(found, row="wakes of kcompactd", column="vanilla")["recorded"]
        == papers.NOT_THIS_KERNEL
    )


def test_a_relative_figure_needs_a_tape_of_each_side(tmp_path: Path, pagetape: Run) -> None:
    facts = {"kernel": "6.1.0", "host": "other"}
    fixed = write_golden(tmp_path / "fixed.tape", facts)
    auto = write_golden(tmp_path / "auto.tape")
    lists = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "cpu": 0, "count": 0, "high": 64}
    lists |= {"batch": 16, "high_min": 64, "high_max": 128}
    for path in (fixed, auto):
        tape = Tape(path)
        tables = {name: tape.table(name) for name in tape.tables}
        with Writer(path.with_name(f"{path.stem}2.tape"), tape.facts) as out:
            for name, rows in tables.items():
                for batch in rows.to_batches():
                    out.write(name, batch)
            out.rows("pcp", [lists])
    pair = tmp_path / "fixed2.tape", tmp_path / "auto2.tape"
    about = ("--table", "slides: test results", "--ensemble", "0", "--json")
    where = {"row": "buddy allocation (normalised)", "column": "optimized"}
    alone = cell(pagetape("paper", "pcp-tuning", pair[1], *about).json, **where)
    assert alone["recorded"] == "n too small (1)" and "tape of each side" in alone["remark"]
    both = pagetape("paper", "pcp-tuning", *pair, *about).json
    assert cell(both, **where, tape="auto2")["recorded"] == 100  # the same events
    assert cell(both, **where, tape="fixed2")["recorded"] == papers.NOT_THIS_KERNEL
    base = {"row": where["row"], "column": "base"}
    assert cell(both, **base, tape="fixed2")["recorded"] == 100


@pytest.mark.parametrize(
    ("change", "low", "high", "verdict"),
    [
        (-50, -80, -20, "same sign"),
        (50, 20, 80, "other sign"),
        (-50, -80, 10, "no difference shown"),
    ],
)
def test_the_verdict_is_about_the_sign(
    change: float, low: float, high: float, verdict: str
) -> None:
    paper = papers.paper("nofragment")
    (figure,) = (
        f
        for f in paper.figures
        if (f.table, f.row, f.column) == ("extfrag events < order 9", "1S-plain", "+1-4 (boost)")
    )
    (printed,) = (
        f
        for f in paper.figures
        if (f.table, f.row, f.column)
        == ("extfrag events < order 9", "1S-plain", "+1-4 (boost), printed reduction")
    )
    paired = Paired(change, low, high, None)
    assert paper_model.verdict(paper, figure, paired) == verdict
    assert paper_model.verdict(paper, printed, paired) == verdict


def test_a_page_has_every_figure(tmp_path: Path, pagetape: Run) -> None:
    page = tmp_path / "reserve.html"
    assert pagetape("paper", "reserve", "-o", page).status == 0
    text = page.read_text()
    assert all(f.value.split(";")[0] in text for f in papers.paper("reserve").figures)
    other = tmp_path / "notes.html"
    other.write_text("mine")
    assert pagetape("paper", "reserve", "-o", other).status == 1
    assert other.read_text() == "mine"


def test_bad_arguments_are_one_line(tmp_path: Path, played: Path, pagetape: Run) -> None:
    for args, status, words in (
        (["nofragmnt"], 2, "did you mean 'nofragment'"),
        (["--table", "order"], 2, "need the NAME of a paper"),
        (["nofragment", "--table", "nothing"], 2, "patch 5 parameters"),
        (["nofragment", tmp_path / "absent.tape"], 1, "absent.tape"),
    ):
        said = pagetape("paper", *args)
        assert said.status == status and words in said.err
        assert said.err.count("\n") == 1
    said = pagetape("paper", "nofragment", played)
    assert said.status == 1 and "is a replay" in said.err
