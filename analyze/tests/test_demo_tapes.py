# SPDX-License-Identifier: Apache-2.0
"""Bundled tapes: each has a choice that policies of the kernel's history need."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from pagetape.schemas.tape import Tape
from pagetape.tapes.demo import demo_names, demo_tape

Run = Callable[..., Any]

_MOST = 4 << 20  # bytes
_DEMO = Path(__file__).parents[1] / "demo"


def _played(pagetape: Run, tape: str, out: Path, *policies: str, reclaim: str = "auto") -> Path:
    """One run, without members."""
    specs = [word for policy in policies for word in ("--policy", policy)]
    more = ("--reclaim", reclaim, "--ensemble", 0, "-o", out)
    pagetape("replay", _DEMO / f"{tape}.tape", *specs, *more)
    return out


def _sum(tape: Path, *names: str, table: str = "counter") -> int:
    rows = Tape(tape).table(table)
    return sum(pc.sum(rows[name]).as_py() or 0 for name in names)


@pytest.mark.parametrize("name", demo_names())
def test_a_bundled_tape_is_small_and_has_its_own_host(name: str) -> None:
    path = demo_tape(name)
    files = [path] if path.is_file() else list(path.iterdir())
    assert sum(file.stat().st_size for file in files) < _MOST
    tape = Tape(path)
    assert tape.facts["host"] == name
    assert not tape.rows("lost")


def test_lists_of_the_authors_machine_show_the_tuning(pagetape: Run, tmp_path: Path) -> None:
    fixed = _played(pagetape, "kbuild", tmp_path / "fixed.tape", "pcp:mode=fixed,profile=paper")
    tuned = _played(pagetape, "kbuild", tmp_path / "auto.tape", "pcp:mode=auto,profile=paper")
    rows = pagetape("report", "pcp.traffic", fixed, tuned, "--json").json["rows"]
    assert rows[0]["traffic"] == 100
    assert rows[1]["traffic"] < 60 and rows[1]["locking"] < 40


def test_the_steps_of_the_series_come_to_the_tuning(pagetape: Run, tmp_path: Path) -> None:
    taken = {}
    for step in ("base", "5", "7", "9"):
        out = tmp_path / f"{step}.tape"
        _played(pagetape, "kbuild", out, f"pcp:series={step},profile=paper")
        taken[step] = _sum(out, "refill_pages"), _sum(out, "refills")
    assert taken["5"][1] < taken["base"][1]  # larger refills
    assert abs(taken["5"][0] / taken["base"][0] - 1) < 0.1  # of as many pages
    assert taken["7"][0] < taken["base"][0] / 2  # lists that grow
    assert taken["9"][0] < taken["base"][0] / 2


@pytest.mark.parametrize("mode", ["fixed", "auto"])
def test_batches_save_work_on_a_calm_machine(mode: str, pagetape: Run, tmp_path: Path) -> None:
    """Without the two rules; hardly a page is freed that was in use before the start."""
    lists = ("zone_lock", f"pcp:mode={mode}")
    base = _played(pagetape, "kbuild", tmp_path / "base.tape", *lists)
    out, spec = tmp_path / "lifted.tape", "alloc_batch:refill=scaled,free=whole"
    lifted = _played(pagetape, "kbuild", out, *lists, spec)
    rows = pagetape("report", "zone_lock.per_mb", base, lifted, "--json").json["rows"]
    cost = {row["tape"]: row["ns_per_mb"] for row in rows if row["kind"] == "all"}
    assert cost["lifted"] < 0.6 * cost["base"]


def test_two_rules_make_the_sign_of_batches(pagetape: Run, tmp_path: Path) -> None:
    """Under the kernel's rules a MB costs more with batches; without the two rules it does not."""
    lists = ("zone_lock", "pcp:mode=fixed")
    base = _played(pagetape, "server", tmp_path / "base.tape", *lists, reclaim="R1")
    out = tmp_path / "kernel.tape"
    kernel = _played(pagetape, "server", out, *lists, "alloc_batch", reclaim="R1")
    out, spec = tmp_path / "lifted.tape", "alloc_batch:refill=scaled,free=whole"
    lifted = _played(pagetape, "server", out, *lists, spec, reclaim="R1")
    rows = pagetape("report", "zone_lock.per_mb", base, kernel, lifted, "--json").json["rows"]
    whole = {row["tape"]: row for row in rows if row["kind"] == "all"}
    assert whole["lifted"]["ns_per_mb"] < whole["base"]["ns_per_mb"] < whole["kernel"]["ns_per_mb"]
    assert not whole["base"]["unused_mb"] and whole["lifted"]["unused_mb"] > 0
    assert _sum(lifted, "alloc_batch_split") > 0
    for path in (base, kernel, lifted):
        kinds = [row for row in rows if row["tape"] == path.stem and row["kind"] != "all"]
        held = _sum(path, "hold_ns", table="zone_lock")
        assert sum(row["hold_ns"] for row in kinds) == held == whole[path.stem]["hold_ns"]


def test_rules_of_huge_pages_differ(pagetape: Run, tmp_path: Path) -> None:
    modes = ("thisnode", "spill", "local_then_spill", "local_then_spill_noretry")
    huge = {}
    for mode in modes:
        out = _played(pagetape, "thp2", tmp_path / f"{mode}.tape", f"thp_numa:mode={mode}")
        huge[mode] = _sum(out, "thp_local", "thp_remote")
    assert len(set(huge.values())) == len(modes), huge


def test_too_few_fallbacks_show_no_more_than_single_stalls(pagetape: Run, tmp_path: Path) -> None:
    out = tmp_path / "stall.tape"
    stack = ("fallback:kernel=4.20", "watermark_boost", "stall")
    specs = [word for policy in stack for word in ("--policy", policy)]
    made = ("replay", _DEMO / "lowzone.tape", *specs, "--ensemble", 0, "-o", out)
    assert "n too small" in pagetape(*made).out
    rows = pagetape("report", "boost.stalls", out, "--json").json["rows"]
    assert rows[0]["verdict"] == "n too small" and rows[0]["stall_ms"] is not None
    assert rows[0]["movable"] < 10_000
    (plain,) = pagetape("report", "boost.stalls", _DEMO / "lowzone.tape", "--json").json["rows"]
    assert plain["verdict"] == "no policy"


def test_columns_of_one_family_are_compared(pagetape: Run, tmp_path: Path) -> None:
    """A tape of 6.12 under the fallbacks of 4.20, with and without the lower zones."""
    paths = []
    for mode in ("lowzone", "off"):
        out = tmp_path / f"{mode}.tape"
        specs = ("--policy", "fallback:kernel=4.20", "--policy", f"nofragment:mode={mode}")
        pagetape("replay", _DEMO / "lowzone.tape", *specs, "--ensemble", 1, "-o", out)
        paths.append(out)
    found = pagetape("compare", *paths, "--json").json
    metrics = {row["metric"]: row["differences"]["off"] for row in found["metrics"]}
    assert all(one["no_verdict"] != "other unit" for one in metrics.values() if one)
    assert metrics["fallbacks below pageblock order"]["value"] is not None


def test_a_zone_held_back_keeps_kcompactd_asleep_under_4_10(pagetape: Run, tmp_path: Path) -> None:
    asked, runs = {}, {}
    for variant in ("v4.10", "keepawake"):
        out = tmp_path / f"{variant}.tape"
        spec = f"kswapd_sleep:variant={variant},kcompactd=kswapd"
        rules = ("--kernel", "4.20", "--reclaim", "R1", "--policy", spec, "--ensemble", 2)
        pagetape("replay", _DEMO / "held-back.tape", *rules, "-o", out)
        rows = Tape(out).table("counter")
        first = rows.filter(pc.equal(rows["node"], 0))  # its zone DMA is held back
        asked[variant] = pc.sum(first["kcompactd_asked"]).as_py()
        members = [row for row in Tape(out).rows("member") if row["run"] == "this"]
        runs[variant] = {
            row["seed"]: row["value"] for row in members if row["metric"] == "kcompactd runs"
        }
    assert asked["v4.10"] == 0 and asked["keepawake"] > 15
    assert len(runs["keepawake"]) == 2 and min(runs["keepawake"].values()) > 20
    assert all(runs["v4.10"][seed] < nr for seed, nr in runs["keepawake"].items())
