# SPDX-License-Identifier: Apache-2.0
"""Tapes through the model and side by side, from the command line."""

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import matrix
import pytest

from pagetape import _replay
from pagetape.replaying import model_error
from pagetape.schemas import GFP_BITS
from pagetape.schemas.tape import Tape, Writer

from .conftest import rewritten

Run = Callable[..., Any]


def as_recorded(model: Path, path: Path) -> Path:
    """A replayed tape turned into a recording: of a kernel that acts exactly like the model."""
    tape = Tape(model)
    facts = {name: value for name, value in tape.facts.items() if name != "replay"}
    with Writer(path, facts) as out:
        for name in tape.tables - {"counter", "anomaly"}:
            for batch in tape.batches(name):
                out.write(name, batch)
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tapes")


@pytest.fixture
def tapes(played: Path, directory: Path, pagetape: Run) -> dict[str, Path]:
    """A recording of a kernel that acts like the model, its replay under its own rules, and a
    what-if. The first test makes them."""
    model, whatif, recorded = (directory / f"{n}.tape" for n in ("model", "whatif", "recorded"))
    if not recorded.exists():
        as_recorded(played, recorded)
        assert pagetape("replay", recorded, "-o", model).status == 0
        policy = ("--policy", "nofragment:mode=always")
        assert pagetape("replay", recorded, *policy, "-o", whatif).status == 0
    return {"recorded": recorded, "model": model, "whatif": whatif}


NO_INTERVAL = dict.fromkeys(("median", "low", "high", "scaled"))  # of a total


def test_every_total_has_a_tier(small: Path, pagetape: Run) -> None:
    run = pagetape("replay", small, "--json").json
    assert (run["kernel"], run["policies"], run["reclaim"]) == ("6.18", ["mainline"], "R0")
    assert run["totals"]["allocs"] == {"value": 6000, "tier": "A"} | NO_INTERVAL
    assert run["totals"]["slowpath_wake_calls"]["tier"] == "B"
    assert {total["tier"] for total in run["totals"].values()} == {"A", "B"}
    assert (run["events"], run["anomalies"], run["lost"]) == (9000, 0, 0)
    assert "kswapd_passes" not in run["totals"] and "refaults" in run["not_modelled"]


def test_the_same_command_gives_the_same_bytes(
    small: Path, played: Path, tmp_path: Path, pagetape: Run
) -> None:
    pagetape("replay", small, "-o", tmp_path / "again.tape")
    assert (tmp_path / "again.tape").read_bytes() == played.read_bytes()


def test_a_replayed_tape_answers_like_a_recorded_one(tapes: dict[str, Path], pagetape: Run) -> None:
    report = ("report", "extfrag.by_migratetype")
    model = pagetape(*report, tapes["model"], "--json").json
    recorded = pagetape(*report, tapes["recorded"], "--json").json
    assert model["rows"] == recorded["rows"] != []
    assert (model["tier"], recorded["tier"]) == ("A", "recorded")
    info = pagetape("info", tapes["model"], "--json").json
    assert info["events"]["mm_page_alloc"] == 6000
    assert info["facts"]["replay"]["own"] is True


def test_the_answer_has_the_metrics_of_its_tape(
    tapes: dict[str, Path], tmp_path: Path, pagetape: Run
) -> None:
    out, policy = tmp_path / "out.tape", ("--policy", "nofragment:mode=always")
    found = pagetape("replay", tapes["recorded"], *policy, "-o", out, "--json").json["metrics"]
    rows = pagetape("report", "metrics", out, "--json").json["rows"]
    of_tape = {row["metric"]: row["value"] for row in rows}
    assert {m["metric"]: m["value"] for m in found if m["metric"] in of_tape} == of_tape
    assert of_tape["allocs"] > 0 and of_tape["refill runs"] > 0


def test_a_kernel_that_does_what_the_model_does_leaves_no_error(
    tapes: dict[str, Path], pagetape: Run
) -> None:
    found = pagetape("compare", *tapes.values(), "--json").json
    assert [tape["role"] for tape in found["tapes"]] == ["recorded", "model", "what-if"]
    assert found["model_error_of"] == {"recorded": "recorded", "model": "model"}
    shared = [m for m in found["metrics"] if m["values"]["recorded"] is not None]
    assert len(shared) > 20
    # The recording has free pages at its ends alone, the model after the first request too.
    at_rows = [m for m in shared if m["metric"] != "free pages on average in the second half"]
    assert {m["model_error"] for m in at_rows} == {0}
    assert [tape["compared_with"] for tape in found["tapes"]] == [None, "recorded", "model"]


def test_one_run_has_no_interval_and_no_verdict(tmp_path: Path, pagetape: Run) -> None:
    """10 recorded, 7 by the model: the error is 3, which is no interval of a difference."""
    own = {"kernel": "6.18", "policies": ["mainline"], "reclaim": "R0", "own": True}
    own["tier"] = "A"
    runs = {"base": (10, None), "model": (7, own)}
    runs |= {"near": (5, own | {"own": False}), "far": (2, own | {"own": False})}
    free = {"ts": 1, "cpu": 0, "pid": 1, "kind": "free", "flags": 0, "pfn": 1, "page_order": 0}
    for name, (frees, run) in runs.items():
        with Writer(tmp_path / f"{name}.tape", {"replay": run} if run else {}) as tape:
            tape.rows("event", [free] * frees)
    paths = [tmp_path / f"{name}.tape" for name in runs]
    found = pagetape("compare", *paths, "--json").json
    frees_of = next(m for m in found["metrics"] if m["metric"] == "frees")
    assert frees_of["model_error"] == 3
    values = {label: d["value"] for label, d in frees_of["differences"].items()}
    assert values == {"model": -3, "near": -2, "far": -5}
    assert frees_of["differences"]["near"]["percent"] == pytest.approx(-28.57, abs=0.01)
    for difference in frees_of["differences"].values():
        assert {difference[key] for key in ("low", "high", "shown", "followed")} == {None}
    lines = pagetape("compare", *paths).out.splitlines()
    (line,) = (x for x in lines if x.startswith("frees"))
    assert "[" not in line and "-5 (-71.4 %)" in line
    assert any(x.startswith("one run, no interval, so no verdict") for x in lines)


def test_a_what_if_holds_the_model_error(tapes: dict[str, Path], pagetape: Run) -> None:
    """It needs no model among the tapes: it carries that of its recording."""
    alone = pagetape("compare", tapes["recorded"], tapes["whatif"], "--json").json
    given = pagetape("compare", *tapes.values(), "--json").json
    assert alone["model_error_of"] == {"recorded": "recorded", "model": "model"}
    assert alone["tapes"][1]["compared_with"] == "model"

    def whatif(found: Any, name: str) -> list[Any]:
        return [(m["metric"], m[name].get("whatif")) for m in found["metrics"]]

    assert whatif(alone, "differences") == whatif(given, "differences")


def test_a_what_if_of_no_known_kernel_leaves_the_error_unknown(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    nameless = rewritten(small, tmp_path / "nameless.tape", {"kernel": None, "version": ""})
    whatif = tmp_path / "whatif.tape"
    assert pagetape("replay", nameless, "--kernel", "6.1.100", "-o", whatif).status == 0
    assert "one run, no interval" in pagetape("compare", nameless, whatif).out


def test_the_model_error_is_measured_once(
    small: Path, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    measured = []
    measure = model_error.side_by_side
    monkeypatch.setattr(model_error, "side_by_side", lambda *a: measured.append(a) or measure(*a))
    for name in ("a", "b"):
        policy = ("--policy", "nofragment:mode=always")
        assert pagetape("replay", small, *policy, "-o", tmp_path / f"{name}.tape").status == 0
    assert len(measured) == 1
    a, b = (Tape(tmp_path / f"{name}.tape").table("model_error") for name in ("a", "b"))
    assert a.equals(b) and len(a) > 20


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--policy", "nosuch"), "nosuch"),
        (("--policy", "nofragment:mode=perhaps"), "perhaps"),
        (("--policy", "nofragment:nosuch=1"), "nosuch"),
        (("--policy", "nofragment", "--policy", "nofragment"), "nofragment"),
        (("--kernel", "nosuch"), "nosuch"),
    ],
)
def test_what_the_model_does_not_know_is_bad_usage(
    args: tuple[str, ...], words: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("replay", small, *args, "-o", tmp_path / "t.tape")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert words in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_tape_without_a_machine_says_what_is_missing(empty: Path, pagetape: Run) -> None:
    said = pagetape("replay", empty)
    assert said.status == 1 and "--kernel" in said.err
    said = pagetape("replay", empty, "--kernel", "6.18")
    assert said.status == 1 and "--proc" in said.err


def test_the_page_shows_every_tape_and_fetches_nothing(
    tapes: dict[str, Path], tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "page.html"
    assert pagetape("html", *tapes.values(), "-o", out).status == 0
    page = out.read_text()
    assert all(f"<h3>{name} " in page for name in ("recorded", "model", "whatif"))
    assert "nofragment:mode=always" in page
    assert page.count("<script") == 1
    assert "://" not in page
    script = page.split("<script>")[1].split("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert (
        policy.split("; ")[0] == "default-src 'none'" and f"script-src 'sha256-{digest}'" in policy
    )
    assert not re.search(r"<[^>]* on\w+=", page)
    assert "within model error" in page or "same" in page


def test_the_page_shows_a_tape_of_nothing(empty: Path, tmp_path: Path, pagetape: Run) -> None:
    assert pagetape("html", empty, "-o", tmp_path / "page.html").status == 0


def test_the_page_shows_samples_of_a_tape_without_events(
    golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    """As a recorder leaves it that was killed early: no sample has a time after the first event."""
    tape, whole = tmp_path / "t.tape", Tape(golden)
    with Writer(tape, whole.facts) as writer:
        for name in ("sample", "free_count", "vmstat", "zone"):
            for batch in whole.batches(name):
                writer.write(name, batch)
    for name in ("samples.rates", "frag.over_time"):
        rows = pagetape("report", name, tape, "--json").json["rows"]
        assert rows and all(row["at_s"] is None for row in rows)
    for tapes in ((tape,), (golden, tape)):
        assert pagetape("html", *tapes, "-o", tmp_path / "page.html").status == 0


def test_the_page_shows_what_the_kernel_counted(
    golden: Path, tapes: dict[str, Path], tmp_path: Path, pagetape: Run
) -> None:
    """Of tapes with samples; other tapes have none."""
    out = tmp_path / "page.html"
    assert pagetape("html", golden, tapes["recorded"], "-o", out).status == 0
    section = out.read_text().split("The kernel&#x27;s own counters: allocation</h2>")[1]
    section = section.split("</section>")[0]
    assert "allocated 1,000, freed 100, faults 0 per second" in section
    assert "allocated 20, freed 0, faults 0 per second" in section
    assert section.count("<svg") == section.count("No samples.") == 1
    assert pagetape("html", tapes["whatif"], "-o", out).status == 0
    assert "own counters" not in out.read_text()


def test_names_on_the_page_are_text(tmp_path: Path, pagetape: Run) -> None:
    evil = "<script>alert(1)</script>"
    with Writer(tmp_path / "t.tape", {"host": evil, "kernel": evil}) as tape:
        tape.rows("task", [{"pid": 1, "comm": evil}])
        event = {"ts": 1, "cpu": 0, "pid": 1, "flags": 0, "pfn": 1, "page_order": 0}
        tape.rows("event", [event | {"kind": "alloc", "migratetype": "MOVABLE"}])
    pagetape("html", tmp_path / "t.tape", "-o", tmp_path / "page.html")
    assert "<script>alert" not in (tmp_path / "page.html").read_text()


def test_policies_lists_what_replay_takes(pagetape: Run) -> None:
    found = pagetape("policies", "--json").json
    names = {policy["name"] for policy in found["policies"]}
    assert {"mainline", "nofragment"} <= names
    text = pagetape("policies").out
    assert all(name in text for name in names)
    for name in names:
        _replay.check_policies([name])  # raises for a policy that replay refuses


@pytest.mark.parametrize("reclaim", ["R1", "R2"])
def test_reclaim_of_the_models_own_is_tier_b(small: Path, pagetape: Run, reclaim: str) -> None:
    run = pagetape("replay", small, "--reclaim", reclaim, "--json").json
    allocs = {"value": 6000, "tier": "B"} | NO_INTERVAL
    assert (run["reclaim"], run["totals"]["allocs"]) == (reclaim, allocs)
    assert run["totals"]["kswapd_passes"]["tier"] == "B"


def test_reports_on_what_is_not_modelled_are_refused(small: Path, pagetape: Run) -> None:
    asked = pagetape("report", "refaults", small)
    assert asked.status == 1
    assert asked.err.startswith("pagetape: refaults: not modelled: ")


def test_a_preset_is_its_policies(small: Path, pagetape: Run) -> None:
    run = pagetape("replay", small, "--kernel", "4.20", "--policy", "v5:1-4", "--json").json
    assert run["policies"] == ["nofragment:mode=lowzone", "watermark_boost:trigger=every_fallback"]


def test_a_watermark_that_is_set_is_that_of_the_run_and_sizes_its_lists(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    whatif = tmp_path / "w.tape"
    policy = ("--policy", "watermarks:min_free_kbytes=1024,watermark_scale_factor=100")
    run = pagetape("replay", small, *policy, "-o", whatif, "--json").json
    assert run["tier"] == "B"
    zone = next(row for row in Tape(whatif).table("zone").to_pylist() if row["snapshot"] == 1)
    # 1024 kB are 256 pages, a hundredth of the zone is 327.
    assert [zone[f"wmark_{mark}"] for mark in ("min", "low", "high")] == [256, 583, 910]
    lists = [row for row in Tape(whatif).table("pcp").to_pylist() if row["snapshot"] == 1]
    assert {row["high_min"] for row in lists} == {583 // 2}


@pytest.mark.parametrize(
    ("numa_balancing", "wakes"),
    matrix.some([(1, False), (0, False), (2, True), (3, True), (None, False)], 2),
)
def test_a_recorded_memory_tiering_is_that_of_the_run(
    small: Path, tmp_path: Path, pagetape: Run, numa_balancing: int | None, wakes: bool
) -> None:
    """The zone is below its low mark, above its high mark and below its promo mark."""
    changed = {
        "zone": {"wmark_high": 96, "wmark_low": 32000, "wmark_promo": 32700},
        "event": {"gfp_flags": 1 << GFP_BITS.index("KSWAPD_RECLAIM")},
    }
    tape, path = Tape(small), tmp_path / "tiers.tape"
    sysctls = {} if numa_balancing is None else {"kernel.numa_balancing": str(numa_balancing)}
    # Later kernels try the high mark first (ZONE_BELOW_HIGH), and then find the low one passed.
    facts = tape.facts | {"kernel": "6.1.0", "sysctls": sysctls}
    with Writer(path, facts) as out:
        for name in tape.tables:
            out.rows(name, [row | changed.get(name, {}) for row in tape.rows(name)])
    run = pagetape("replay", path, "--reclaim", "R1", "--ensemble", "0", "--json").json
    assert (run["totals"]["kswapd_wakeups"]["value"] > 0) == wakes
