# SPDX-License-Identifier: Apache-2.0
"""One rule: a run of tier B plays under R1 where reclaim was recorded, else it gets no verdict."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pagetape as api
from pagetape import _replay
from pagetape.ab import predict
from pagetape.ab.switch import Switch
from pagetape.console import progress
from pagetape.replaying import RECLAIM_MODES, reclaim_mode
from pagetape.schemas.tape import Tape

from .conftest import rewritten, with_reclaim_rows

Run = Callable[..., Any]

DEMO = Path(__file__).parents[1] / "demo/pressure.tape"
ROWS = [row["name"] for row in _replay.kernels()]
# One of each kind, for the commands that play one run at a time; a sweep plays all of them.
PLAYED = ("nofragment", "nofragment:mode=always", "thp_numa", "zone_reclaim_mode")


def _specs(policy: dict[str, Any]) -> list[str]:
    """A policy by default, and with each value, or the limits, of each parameter."""
    found = [policy["name"]]
    for param in policy["params"]:
        values = param["values"] or dict.fromkeys([param["min"], param["max"]])
        found += [f"{policy['name']}:{param['name']}={value}" for value in values]
    return found


POLICIES = _replay.policies()
SPECS = [spec for policy in POLICIES for spec in _specs(policy)]


@pytest.fixture(scope="module")
def idle(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of the event set `all` on which nothing was reclaimed."""
    rows = [{"ts": 1_000_000, "kind": "vmstat_update"}, {"ts": 2_000_000, "kind": "totalreserve"}]
    return with_reclaim_rows(tmp_path_factory.mktemp("tapes") / "idle.tape", small, rows)


def _acts(spec: str) -> bool:
    row = "6.12.117"
    return bool(_replay.feedback([spec], kernel=row, own=row))


def test_the_tiers_that_are_known() -> None:
    """The walk below asks the engine: these answers are given."""
    for spec in ("nofragment", "nofragment:mode=off", "pcp", "zonelist", "reserve", "fake_numa"):
        assert not _acts(spec), spec
    for spec in (
        "nofragment:mode=always",
        "defrag_mode",
        "kswapd_sleep",
        "mainline:boost_factor=0",
        "order_walk",
        "stall",
        "thp_numa",
        "watermark_boost",
        "watermarks",
        "zone_reclaim_mode",
    ):
        assert _acts(spec), spec


@pytest.mark.parametrize("spec", SPECS)
def test_every_policy_holds_the_rule(spec: str, reclaimed: Path, idle: Path) -> None:
    with_reclaim, without = Tape(reclaimed), Tape(idle)
    about = "auto", (spec,)
    acts = bool(reclaim_mode.acting(with_reclaim, *about))
    assert reclaim_mode.chosen("auto", with_reclaim, *about) == ("R1" if acts else "R0")
    assert reclaim_mode.chosen("auto", without, *about) == "R0"
    for mode in RECLAIM_MODES:
        assert reclaim_mode.chosen(mode, without, *about) == mode
        why = reclaim_mode.no_verdict(mode, without, *about)
        assert (why is not None) == acts
        assert why is None or "the tape recorded none" in why
    why = reclaim_mode.no_verdict("R0", with_reclaim, *about)
    assert (why is not None) == acts and (why is None or "--reclaim R1" in why)
    known = not re.fullmatch(r".*zone_reclaim_mode(:?(mode)?=[1-7]|:distance=\d+)?", spec)
    assert (reclaim_mode.no_verdict("R1", with_reclaim, *about) is None) == known


def test_the_engines_list_names_the_parameters_that_change_the_tier() -> None:
    tiers = {policy["name"]: policy["tier"] for policy in POLICIES}
    assert tiers["nofragment"] == "A; mode=always: B"
    assert tiers["watermark_boost"] == tiers["thp_numa"] == "B"
    assert tiers["pcp"] == "A"
    assert "by boost_factor: B" in tiers["mainline"]


def test_kernel_rows_act_through_reclaim_where_its_features_differ() -> None:
    """A new feature of reclaim or compaction has `reclaim` in schemas/kernels.toml."""
    of_reclaim = re.compile(r"boost|kswapd|kcompactd|compact|proactive|whole|node_reclaim")
    rows = _replay.kernels()
    skip = {"highatomic_whole_chunk", "retype_whole_chunk", "skip_awake_nodes"}
    names = [n for n in rows[0] if of_reclaim.search(n) and n not in skip]
    assert len(names) > 15
    for one, other in itertools.product(rows, rows):
        differ = any(one[name] != other[name] for name in names)
        acts = _replay.feedback([], kernel=one["name"], own=other["name"])
        assert acts == ([f"kernel {one['name']}"] if differ else []), (one["name"], other["name"])


def _played(pagetape: Run, tape: Path, *words: object) -> dict[str, Any]:
    found: dict[str, Any] = pagetape("replay", tape, *words, "--ensemble", 0, "--json").json
    return found


def test_every_command_picks_the_same_mode(
    reclaimed: Path, idle: Path, pagetape: Run, tmp_path: Path
) -> None:
    specs = [policy["name"] for policy in POLICIES] + ["nofragment:mode=always"]
    words = [word for spec in specs for word in ("--policy", spec)]
    swept = pagetape(
        "sweep", reclaimed, idle, *words, "--ensemble", 0, "--json", "-o", tmp_path / "runs"
    ).json
    assert not swept["failed"]
    found = {(run["tape"], run["policies"][-1]): run for run in swept["runs"]}
    assert len(found) == 2 * len(specs)
    for tape, spec in itertools.product((reclaimed, idle), specs):
        acts = _acts(spec)
        expected = "R1" if acts and tape == reclaimed else "R0"
        judged = not acts or (tape == reclaimed and spec != "zone_reclaim_mode")
        runs = [found[tape.stem, spec]]
        if spec in PLAYED:
            runs.append(_played(pagetape, tape, "--policy", spec))
        for run in runs:
            assert (spec, run["reclaim"]) == (spec, expected)
            assert run["tier"] == ("B" if acts else "A")
            assert (run["no_verdict"] is None) == judged, spec
            if not judged:
                assert all(m["difference"]["value"] is None for m in run["metrics"])
                assert {m["no_verdict"] for m in run["metrics"]} == {run["no_verdict"]}
        if spec in PLAYED:
            result = api.open(tape).replay(spec, ensemble=0)
            assert result.json()["reclaim"] == expected
            assert ("no verdict" in repr(result)) == (not judged)


@pytest.mark.parametrize("value", ["always", "lowzone"])
def test_ab_predicts_in_the_mode_of_the_tier(
    value: str, reclaimed: Path, idle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch("x", "x", "", ("fallbacks",), ("always", "lowzone"), "nofragment:mode={value}")
    modes = []
    made_of = predict.ensemble.Members

    def seen(source: Any, name: str, run: Any, *given: Any, **more: Any) -> Any:
        modes.append(run.reclaim)
        return made_of(source, name, run, *given, **more)

    monkeypatch.setattr(predict.ensemble, "Members", seen)
    assert predict.predict(switch, [reclaimed], value, False, 2, progress)
    mode = "R1" if value == "always" else "R0"
    assert set(modes) == {mode} and switch.reclaim(value, "") == mode
    made = predict.predict(switch, [idle], value, False, 2, progress)
    lines = predict.unjudged(switch, [idle], value)
    assert bool(made) == (mode == "R0") and bool(lines) == (mode == "R1")
    if lines:
        assert lines[0].startswith("idle.tape: no verdict on nofragment")


def test_a_forced_mode_is_honoured_and_gets_no_verdict(
    reclaimed: Path, pagetape: Run, tmp_path: Path
) -> None:
    out, page = tmp_path / "whatif.tape", tmp_path / "page.html"
    words = ("replay", reclaimed, "--policy", "nofragment:mode=always", "--reclaim", "R0")
    said = pagetape(*words, "-o", out)
    assert "reclaim R0" in said.out and "no verdict on nofragment: under R0" in said.out
    assert ": no verdict on nofragment\n" in said.out and "no difference shown" not in said.out
    table = pagetape("compare", reclaimed, out)
    assert "no verdict on nofragment" in table.out and "no difference shown" not in table.out
    found = pagetape("compare", reclaimed, out, "--json").json
    assert all(m["differences"]["whatif"]["value"] is None for m in found["metrics"])
    assert found["tapes"][1]["run"]["no_verdict"].startswith("no verdict on nofragment")
    assert pagetape("html", reclaimed, out, "-o", page).status == 0
    assert "no verdict on nofragment" in page.read_text()


def test_a_kernel_that_reclaims_otherwise_gets_no_verdict_without_reclaim(
    idle: Path, reclaimed: Path, pagetape: Run
) -> None:
    own = _played(pagetape, idle)["kernel"]
    other = next(r for r in ROWS if _replay.feedback([], kernel=r, own=own))
    run = _played(pagetape, idle, "--kernel", other)
    assert run["reclaim"] == "R0" and run["no_verdict"].startswith(f"no verdict on kernel {other}")
    run = _played(pagetape, reclaimed, "--kernel", other)
    assert (run["reclaim"], run["no_verdict"]) == ("R1", None)


def test_the_settings_of_the_recording_are_not_a_what_if(tmp_path: Path, reclaimed: Path) -> None:
    sysctls = dict(Tape(reclaimed).facts.get("sysctls") or {}) | {"vm.defrag_mode": "1"}
    path = rewritten(reclaimed, tmp_path / "defrag.tape", {"sysctls": sysctls})
    assert not reclaim_mode.acting(Tape(path), "auto", ("mainline:defrag_mode=1",))
    assert reclaim_mode.acting(Tape(path), "auto", ("mainline:defrag_mode=0",)) == ("mainline",)


# ---- vm.zone_reclaim_mode: which pages may be freed


def _of_mode(path: Path, source: Path, recorded: int, requested: int) -> Tape:
    """The tape with that mode recorded; kswapd asked for `requested` pages at once."""
    rows = [
        {"ts": 3_000_000, "kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0},
        {"ts": 3_050_000, "kind": "lru_isolate", "nr_requested": requested, "nr_scanned": 32}
        | {"nr_taken": 32, "nr_skipped": 0, "lru": 2},
        {"ts": 3_100_000, "kind": "lru_shrink_inactive", "nr_scanned": 32, "nr_reclaimed": 32},
        {"ts": 3_200_000, "kind": "kswapd_sleep"},
    ]
    made = Tape(with_reclaim_rows(path.with_suffix(".first.tape"), source, rows))
    sysctls = dict(made.facts.get("sysctls") or {}) | {"vm.zone_reclaim_mode": str(recorded)}
    return Tape(rewritten(made.path, path, {"sysctls": sysctls}))


@pytest.mark.parametrize(
    (
        "kernel",
        "made",
        "mode",
        "known",
    ),  # made: with which mode, and how many pages kswapd asks for
    [
        ("6.12.117", (0, 4096), 1, True),  # lru_gen_shrink_node frees nothing
        ("6.12.117", (0, 4096), 5, True),
        ("6.1.192", (0, 4096), 1, False),  # it does not look at the rights yet
        (
            "6.12.117",
            (0, 32),
            1,
            False,
        ),  # the older LRU: clean and unmapped pages, which are unknown
        ("6.12.117", (0, 32), 3, False),
        ("6.12.117", (0, 32), 7, False),  # how long a try keeps others from the node
        ("6.12.117", (0, 4096), 7, False),
        ("6.12.117", (7, 32), 7, True),
        ("6.12.117", (1, 32), 1, True),  # the tape has its tries
        ("6.12.117", (7, 32), 1, False),
        ("6.12.117", (1, 32), 0, True),
    ],
)
def test_the_yield_of_zone_reclaim_is_known_or_there_is_no_verdict(
    kernel: str, made: tuple[int, int], mode: int, known: bool, small: Path, tmp_path: Path
) -> None:
    tape = _of_mode(tmp_path / "near.tape", small, *made)
    why = reclaim_mode.no_verdict("R1", tape, kernel, (f"zone_reclaim_mode:mode={mode}",))
    assert (why is None) == known
    if why:
        assert f"no verdict on zone_reclaim_mode: the tape was recorded without mode {mode}" in why
