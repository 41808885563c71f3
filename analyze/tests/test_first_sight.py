# SPDX-License-Identifier: Apache-2.0
"""What pagetape says at first sight must not mislead: counts of other units, R0, empty tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import needs, query
from pagetape.replaying import reclaim_mode
from pagetape.schemas.tape import Tape
from pagetape.tapes import fallback_unit

Run = Callable[..., Any]

DEMO = Path(__file__).parents[1] / "demo/pressure.tape"


# ---- fallback events of other kernels


@pytest.mark.parametrize(
    ("row", "policies", "unit"),
    [
        ("2.6.32", (), "block"),
        ("6.8", (), "block"),
        ("6.12.19", (), "page"),
        ("7.3", (), "page"),
        ("6.1.192", ("fallback:kernel=6.18",), "page"),
        ("6.18", ("nofragment", "fallback:kernel=5.0"), "block"),
    ],
)
def test_the_unit_of_a_fallback_event(row: str, policies: tuple[str, ...], unit: str) -> None:
    assert fallback_unit.of_run(row, policies) == unit


def test_counts_of_another_unit_are_not_compared(pagetape: Run, tmp_path: Path) -> None:
    """6.18 emits 70 times as many events as 6.1 here, and leaves as many mixed pageblocks."""
    out = tmp_path / "run.tape"
    run = pagetape("replay", DEMO, "--kernel", "6.18", "-o", out, "--json").json
    assert run["fallback_events"] == {"own": "block", "this": "page"}
    metrics = {m["metric"]: m for m in run["metrics"]}
    for name in ("fallbacks", "fallbacks steal", "mixing UNMOVABLE from MOVABLE"):
        assert metrics[name]["comparable"] is False
        assert metrics[name]["difference"] is None and metrics[name]["scaled"] is None
    assert metrics["fallbacks"]["value"] > 10 * metrics["fallbacks"]["recorded"]
    for name in ("mixed pageblocks at the end", "foreign pages at the end", "fallbacks claim"):
        assert metrics[name]["difference"] is not None

    compared = pagetape("compare", DEMO, out, "--json").json
    assert "not compared" in compared["tapes"][1]["incomparable"]
    found = {m["metric"]: m["differences"]["run"] for m in compared["metrics"]}
    assert found["fallbacks"] is None and found["mixed pageblocks at the end"] is not None
    assert "other unit" in pagetape("compare", DEMO, out).out


def test_a_sweep_over_kernels_compares_harm(pagetape: Run, tmp_path: Path) -> None:
    words = ("sweep", DEMO, "--kernel", "{auto,6.18}", "-o", tmp_path / "runs")
    said = pagetape(*words).out
    assert "fallbacks below pageblock order" not in said
    assert "a  mixed pageblocks at the end" in said and "b  foreign pages at the end" in said
    assert "fallback counts are not compared" in said


def test_kernels_of_one_unit_are_compared(pagetape: Run) -> None:
    run = pagetape("replay", DEMO, "--kernel", "6.8", "--json").json
    assert all(m["comparable"] for m in run["metrics"])


# ---- policies that act through reclaim


@pytest.mark.parametrize(
    ("policy", "mode"),
    [
        ("watermarks:min_free_kbytes=16000", "R1"),
        ("watermark_boost:factor=0", "R1"),
        ("kswapd_sleep", "R1"),
        ("stall", "R1"),
        ("defrag_mode", "R1"),
        ("zone_reclaim_mode", "R1"),
        ("nofragment", "R0"),
        ("pcp:mode=fixed", "R0"),
    ],
)
def test_the_reclaim_mode_follows_the_policy(policy: str, mode: str) -> None:
    tapes = [Tape(DEMO)]
    assert reclaim_mode.chosen("auto", (policy,), tapes, ()) == mode
    assert reclaim_mode.chosen("R0", (policy,), tapes, ()) == "R0"
    assert (reclaim_mode.no_verdict("R0", (policy,)) is None) == (mode == "R0")
    assert reclaim_mode.no_verdict("R1", (policy,)) is None


def test_without_recorded_reclaim_there_is_no_verdict(small: Path, pagetape: Run) -> None:
    run = pagetape("replay", small, "--policy", "watermarks:min_free_kbytes=16000")
    assert "reclaim R0" in run.out and "no verdict on watermarks" in run.out


def test_the_baseline_has_the_mode_of_the_run(pagetape: Run) -> None:
    words = ("replay", DEMO, "--policy", "watermarks:min_free_kbytes=16000", "--json")
    run = pagetape(*words).json
    assert run["reclaim"] == "R1"
    own = pagetape("replay", DEMO, "--reclaim", "R1", "--json").json
    fallbacks = [next(m for m in r["metrics"] if m["metric"] == "fallbacks") for r in (run, own)]
    assert fallbacks[0]["own"] == fallbacks[1]["own"]


def test_own_rules_of_another_mode_are_no_baseline(pagetape: Run, tmp_path: Path) -> None:
    own, defrag = tmp_path / "own.tape", tmp_path / "defrag.tape"
    assert pagetape("replay", DEMO, "-o", own).status == 0  # R0
    assert pagetape("replay", DEMO, "--policy", "defrag_mode", "-o", defrag).status == 0  # R1
    found = pagetape("compare", own, defrag, "--json").json
    assert found["tapes"][1]["compared_with"] == "model"
    head = pagetape("compare", own, defrag).out.splitlines()[0]
    assert "own rules" in head and "against own" not in head


# ---- reports on tapes of the wrong kind


@pytest.mark.parametrize(
    ("report", "command"),
    [
        ("frag.mixed_blocks", "pagetape replay {tape} -o run.tape"),
        ("model.exactness", "pagetape validate {tape} -o checked.tape"),
        ("zone_lock", "--policy zone_lock"),
        ("reserve.integrity", "--policy reserve"),
    ],
)
def test_a_report_names_what_it_needs(report: str, command: str, pagetape: Run) -> None:
    said = pagetape("report", report, DEMO)
    assert said.status == 1 and said.out == ""
    assert f"{report} needs a" in said.err and command.format(tape=DEMO) in said.err


def test_an_empty_table_says_why(pagetape: Run) -> None:
    said = pagetape("report", "extfrag.captures", DEMO)
    assert said.status == 0 and "no rows: nothing of the kind is on this tape" in said.out


def test_a_replay_without_anomalies_is_no_error(small: Path, tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "run.tape"
    assert pagetape("replay", small, "-o", out).status == 0
    said = pagetape("report", "model.anomalies", out)
    assert said.status == 0


@pytest.mark.parametrize("name", query.reports())
def test_every_report_reads_a_table(name: str) -> None:
    """Tables are found in the text of the query, through views."""
    assert needs.tables(query.reports()[name])
