# SPDX-License-Identifier: Apache-2.0
"""A matrix of runs: its cases, its files, and its continuation after an interruption."""

import html
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matrix
import pytest

from pagetape.asking.comparison import metrics
from pagetape.asking.phrase import between
from pagetape.asking.success import number
from pagetape.replaying import sweep
from pagetape.replaying.playback import Run as Playing
from pagetape.schemas.tape import Tape, Writer

from .test_policy_lib import compile_lib

Run = Callable[..., Any]

MODES = ("--policy", "nofragment:mode={off,always}", "--kernel", "{4.20,6.18}")


def files(directory: Path) -> dict[str, bytes]:
    """Every file of a sweep, by its path in it."""
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


EXPANDED = {
    "mainline": ["mainline"],
    "p:a={1,2}": ["p:a=1", "p:a=2"],
    "p:a={1,2},b={x,y}+q": ["p:a=1,b=x+q", "p:a=1,b=y+q", "p:a=2,b=x+q", "p:a=2,b=y+q"],
    "{p,q:c=1}": ["p", "q:c=1"],
}


@pytest.mark.parametrize("text", EXPANDED)
def test_braces_make_every_combination(text: str) -> None:
    assert sweep.expand(text) == EXPANDED[text]


@pytest.mark.parametrize(
    "words",
    [
        ("--policy", "p:a=" + "{0,1}" * 40),  # 2^40: would take the machine's memory
        ("--policy", "p:a=" + "{0,1}" * 14),
        ("--kernel", "{auto,5.0}" * 30),
        ("--policy", "p:a=" + "{0,1}" * 12, "--kernel", "{auto,5.0,6.18}"),  # their product
    ],
)
def test_a_sweep_of_too_many_runs_is_bad_usage(
    words: tuple[str, ...], golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("sweep", *words, golden, "-o", tmp_path / "matrix")
    assert said.status == 2 and "a sweep takes at most 10,000" in said.err
    assert not (tmp_path / "matrix").exists()


@pytest.mark.parametrize("text", ["p:a={1,2", "p:a=1}", "p:a={{1,2}}", "p:a={1,}", "{}"])
def test_braces_that_do_not_match_are_bad_usage(
    text: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("sweep", "--policy", text, small, "-o", tmp_path / "out")
    assert said.status == 2
    assert said.err.count("\n") == 1 and text in said.err


def test_the_order_of_settings_does_not_make_another_run() -> None:
    assert sweep.stack("p:b=2,a=1 + q") == ("p:a=1,b=2", "q") == sweep.stack("p:a=1,b=2+q")


def test_a_preset_is_its_policies_in_a_sweep_too() -> None:
    boosts = ("nofragment:mode=lowzone", "watermark_boost:trigger=every_fallback")
    assert [sweep.stack(spec) for spec in sweep.expand("v5:1-4+p:b=2,a={1,0}")] == [
        (*boosts, "p:a=1,b=2"),
        (*boosts, "p:a=0,b=2"),
    ]


def test_a_run_of_a_sweep_has_the_metrics_of_a_replay(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    """Though it has no rows of its events."""
    one = ("--ensemble", 0, "--json")
    found = pagetape("sweep", *MODES, small, "-o", tmp_path / "out", *one).json
    assert (found["made"], found["reused"]) == (4, 0)
    for run in matrix.some(found["runs"], 3):  # of each policy and each kernel
        whole = tmp_path / f"{run['name']}.tape"
        words = ("--kernel", run["kernel"], "--policy", run["policies"][0])
        replayed = pagetape("replay", small, *words, "-o", whole, *one).json
        assert run["totals"] == replayed["totals"]
        assert run["anomalies"] == replayed["anomalies"]
        values = {m["metric"]: (m["value"], m["unit"], m["tier"]) for m in run["metrics"]}
        assert values == {
            name: (number(name, row["value"]), row["unit"], row["tier"])
            for name, row in metrics(Tape(whole)).items()
        }
        assert Tape(tmp_path / "out" / f"{run['name']}.tape").num_rows("event") < 200


def test_every_run_stands_beside_the_model_of_its_recording(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    words = ("--policy", "mainline", "--policy", "nofragment:mode=always")
    own, always = pagetape("sweep", *words, small, "-o", tmp_path, "--json").json["runs"]
    differences = [m["difference"] for m in own["metrics"]]
    assert {d["value"] for d in differences if d["no_verdict"] is None} == {0}
    assert all(d["value"] is None for d in differences if d["no_verdict"] is not None)
    compared = pagetape("compare", small, tmp_path / f"{always['name']}.tape", "--json").json
    whatif = compared["tapes"][1]["tape"]
    for metric, row in zip(compared["metrics"], always["metrics"], strict=True):
        difference = metric["differences"][whatif]
        if row["model"] is not None and difference is not None:
            assert (row["metric"], row["model_error"]) == (metric["metric"], metric["model_error"])
            assert row["difference"] == difference


def test_jobs_and_models_change_nothing_but_the_time(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    shapes = {"one": ("--jobs", 1), "many": ("--jobs", 3, "--models", 1), "all": ("--models", 99)}
    for name, shape in shapes.items():
        assert pagetape("sweep", *MODES[:2], small, "-o", tmp_path / name, *shape).status == 0
    assert files(tmp_path / "one") == files(tmp_path / "many") == files(tmp_path / "all")


def test_a_sweep_that_was_killed_goes_on(small: Path, tmp_path: Path, pagetape: Run) -> None:
    sweep_it = ("sweep", *MODES, small, "-o", tmp_path, "--json")
    first = pagetape(*sweep_it).json
    whole = files(tmp_path)
    killed, begun, _, _ = [tmp_path / run["name"] for run in first["runs"]]
    killed.with_name(killed.name + ".json").unlink()
    for run in (killed, begun):
        run.with_name(run.name + ".tape").unlink()
        part = run.with_name(f".{run.name}.tape.0123abcd.part")
        part.mkdir()
        (part / "zone.part").touch()
    begun.with_name(begun.name + ".json").rename(
        begun.with_name(f".{begun.name}.json.0123abcd.part")
    )
    again = pagetape(*sweep_it).json
    assert (again["made"], again["reused"]) == (2, 2)
    assert again["runs"] == first["runs"]
    assert files(tmp_path) == whole
    assert pagetape(*sweep_it).json["made"] == 0


def test_shards_are_disjoint_and_together_the_whole(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    parts = [
        pagetape("sweep", *MODES, small, "-o", tmp_path, "--shard", f"{i}/3", "--json").json
        for i in (1, 2, 3)
    ]
    whole = pagetape("sweep", *MODES, small, "-o", tmp_path, "--json").json
    assert [run for part in parts for run in part["runs"]] == whole["runs"]
    assert ([part["made"] for part in parts], whole["made"]) == ([1, 1, 2], 0)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/0", "1", "a/b", "1/2/3"])
def test_a_shard_that_is_none_is_bad_usage(
    text: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("sweep", small, "-o", tmp_path, "--shard", text)
    assert said.status == 2
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "words", "wrong"),
    [
        ("--policy", "{mainline,nofragment:mode=never}", "never"),
        ("--policy", "{mainline,nofragment+nofragment}", "nofragment"),
        ("--kernel", "{auto,nosuch}", "nosuch"),
        ("--reclaim", "{R0,R3}", "R3"),
        ("--prefer", "{auto,near}", "near"),
        ("--nodes", "0/1/2", "CPUs, 0 to 1"),
    ],
)
def test_a_run_that_there_is_not_is_bad_usage_and_none_is_made(
    option: str, words: str, wrong: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("sweep", option, words, small, "-o", tmp_path / "out")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert wrong in said.err
    assert not (tmp_path / "out").exists()


def test_a_damaged_tape_leaves_no_half_result(small: Path, tmp_path: Path, pagetape: Run) -> None:
    torn = tmp_path / "torn.tape"
    shutil.copytree(small, torn)
    event = torn / "event.arrow"
    data = bytearray(event.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 400] = bytes(400)
    event.write_bytes(data)
    said = pagetape("sweep", torn, "-o", tmp_path / "out")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert not (tmp_path / "out").exists() or files(tmp_path / "out") == {}


def test_the_page_of_a_sweep_shows_what_changes(small: Path, tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "sweep.html"
    words = ("--policy", "{mainline,nofragment:mode=always,pcp:batch=4}", "--kernel", "{auto,4.20}")
    runs = pagetape("sweep", *words, small, "-o", tmp_path, "--html", out, "--json").json["runs"]
    page = out.read_text()
    assert (
        "no verdict on nofragment" in page and "(no verdict on nofragment)</td>" in page
    )  # no reclaim recorded
    assert page.count(">nofragment:mode=always (no choice)</td>") == 2 * 2  # and with every metric
    changed = [
        (m, m["difference"]["percent"]) for run in runs for m in run["metrics"] if m["difference"]
    ]
    seen = [(metric, percent) for metric, percent in changed if percent and abs(percent) > 1]
    assert seen
    for metric, percent in seen:
        value = between(metric["median"], metric["low"], metric["high"])
        assert f">{value} ({percent:+.1f} %)</td>" in page
    assert "://" not in page and page.count("<script") == 1  # its own


def test_a_run_of_a_sweep_is_a_tape_for_other_commands(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    words = ("--policy", "nofragment:mode=always", small, "-o", tmp_path, "--json")
    tape = tmp_path / f"{pagetape('sweep', *words).json['runs'][0]['name']}.tape"
    source, made = Tape(small), Tape(tape)
    assert made.clock == source.clock
    info = pagetape("info", tape, "--json").json
    assert info["events"]["mm_page_alloc"] == 6000
    kinds = pagetape("report", "events.by_kind", tape, "--json").json["rows"]
    assert {row["kind"]: row["nr"] for row in kinds}["alloc"] == 6000
    page = tmp_path / "page.html"
    assert pagetape("html", small, tape, "-o", page).status == 0
    assert "stored only its fallbacks" in page.read_text()
    asked = ("sql", tape, "SELECT policy, own FROM machine", "--json")
    assert "nofragment:mode=always" in pagetape(*asked).out


def test_the_table_has_the_own_rules_and_what_stands_in_its_way(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    words = ("--policy", "{mainline,nofragment:mode=always}", "--metric", "fallbacks")
    lines = pagetape("sweep", *words, small, "-o", tmp_path).out.splitlines()
    assert lines[0] == "small: 2 runs; events lost: 0"
    assert lines[2].split() == ["policy", "kernel", "reclaim", "tier", "a"]
    assert re.split("  +", lines[3])[:4] == ["mainline", "6.18 (6.18.y)", "R0", "A"]
    own = ["nofragment:mode=always (no choice)", "6.18 (6.18.y)", "R0", "B"]
    assert re.split("  +", lines[4])[:4] == own
    assert lines[6].startswith("a  fallbacks: events, tier B, recorded 0, own rules ")


def test_a_sweep_plays_preferences_and_maps_of_nodes_as_replay_does(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    words = ("--prefer", "{auto,cpu}", "--nodes", "0/1", "--nodes", "1/0")
    runs = pagetape("sweep", *words, small, "-o", tmp_path, "--json").json["runs"]
    assert [(run["nodes"], run["prefer"]) for run in runs] == [
        ("0/1", "auto"),
        ("0/1", "cpu"),
        ("1/0", "auto"),
        ("1/0", "cpu"),
    ]
    for run in runs:
        asked = ("--nodes", run["nodes"], "--prefer", run["prefer"])
        replayed = pagetape("replay", small, *asked, "--json").json
        assert run["totals"] == replayed["totals"]
        assert run["synthetic"] == replayed["synthetic"] != []
    seen = pagetape("sweep", *words, small, "-o", tmp_path)
    assert [line.split(" 6.18")[0].rstrip() for line in seen.out.splitlines()[3:7]] == [
        "mainline + fake_numa:nodes=2, CPUs 0/1",
        "mainline + fake_numa:nodes=2, prefer cpu, CPUs 0/1",
        "mainline + fake_numa:nodes=2, CPUs 1/0",
        "mainline + fake_numa:nodes=2, prefer cpu, CPUs 1/0",
    ]


def test_ranges_of_cpus_are_printed_as_given() -> None:
    assert Playing("auto", (), cpu_parts=(0, 0, 0, 1, 0, 1, 1)).nodes == "0-2,4/3,5-6"
    assert Playing("auto", ()).nodes is None


# ---- runs that fail


def _damaged(tape: Path) -> None:
    (tape / "event.arrow").write_bytes(b"no table")


def _removed(tape: Path) -> None:
    shutil.rmtree(tape)


def test_bad_tapes_are_failed_rows_and_the_others_go_on(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    tapes = [tmp_path / f"{name}.tape" for name in "abcde"]
    for tape in tapes:
        shutil.copytree(small, tape)
    _damaged(tapes[0])
    _removed(tapes[2])
    _damaged(tapes[4])
    asked = ("sweep", *MODES[:2], *tapes, "--ensemble", 0, "-o", tmp_path / "out")
    said = pagetape(*asked, "--json")
    assert (said.status, said.err.count("\n")) == (1, 3)
    found = json.loads(said.out)
    assert [run["tape"] for run in found["runs"]] == ["b", "b", "d", "d"]
    assert [(row["tape"], row["policies"]) for row in found["failed"]] == [
        (name, None) for name in "ace"
    ]
    text = pagetape(*asked, "--html", tmp_path / "s.html")
    page = (tmp_path / "s.html").read_text()
    assert text.status == 1
    for row, tape in zip(found["failed"], tapes[::2], strict=True):
        assert str(tape) in row["reason"] and str(tape) in said.err
        assert row["reason"] in text.out and html.escape(row["reason"]) in page


def test_an_error_in_mid_run_fails_only_the_runs_on_that_tape(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    """The events break off after some batches: the runs are under way."""
    broken, good = tmp_path / "broken.tape", tmp_path / "good.tape"
    shutil.copytree(small, good)
    events = Tape(small).table("event").to_batches()[0]
    with Writer(broken, Tape(small).facts) as writer:
        for name in Tape(small).tables - {"event"}:
            for batch in Tape(small).batches(name):
                writer.write(name, batch)
        for first in range(0, 9000, 1000):
            writer.write("event", events.slice(first, 1000))
    data = bytearray((broken / "event.arrow").read_bytes())
    data[len(data) * 3 // 4 : len(data) * 3 // 4 + 600] = bytes(600)
    (broken / "event.arrow").write_bytes(data)
    said = pagetape("sweep", *MODES, broken, good, "-o", tmp_path / "out", "--json")
    found = json.loads(said.out)
    assert said.status == 1
    assert {run["tape"] for run in found["runs"]} == {"good"} and len(found["runs"]) == 4
    assert {failed["tape"] for failed in found["failed"]} == {"broken"}
    assert not [name for name in files(tmp_path / "out") if name.startswith(("broken", "."))]


CRASH = r"""
#include <stdlib.h>
#include "policy.h"

static void family(struct policy *self, struct kernel *row)
{
	(void)self;
	(void)row;
	if (PLANNED)
		abort();
}

static void
limits(struct policy *self, const struct model *m, const struct zone *zone, struct pcp *pcp)
{
	(void)self;
	(void)m;
	(void)zone;
	(void)pcp;
	abort();
}

const struct policy_ops pagetape_policy = {
	.abi = POLICY_ABI,
	.name = "crash",
	.doc = "Ends the process.",
	.kernel = "none",
	.tier = "A",
	.fallback_family = family,
	.pcp_limits = limits,
};
"""


@pytest.fixture(params=[True, False], ids=["at the start", "in mid-run"])
def crash(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """Options for a policy that ends the engine's process."""
    source = CRASH.replace("PLANNED", str(int(request.param)))
    return ("--policy-lib", str(compile_lib(tmp_path, source, "crash")), "--policy", "crash")


def test_a_run_that_ends_the_engine_is_a_failed_row(
    crash: tuple[str, ...], small: Path, tmp_path: Path, pagetape: Run
) -> None:
    other = tmp_path / "other.tape"
    shutil.copytree(small, other)
    asked = ("sweep", "--policy", "mainline", *crash, small, other, "-o", tmp_path / "out")
    said = pagetape(*asked, "--json")
    found = json.loads(said.out)
    assert (said.status, said.err.count("\n")) == (1, 2)
    assert [(run["tape"], run["policies"]) for run in found["runs"]] == [
        ("small", ["mainline"]),
        ("other", ["mainline"]),
    ]
    assert [(failed["tape"], failed["policies"]) for failed in found["failed"]] == [
        ("small", ["crash"]),
        ("other", ["crash"]),
    ]
    assert all("ended with signal SIGABRT" in failed["reason"] for failed in found["failed"])
    assert not [name for name in files(tmp_path / "out") if "crash" in name]


def one_run(tape: Path, out: Path, pagetape: Run) -> Any:
    return pagetape("sweep", tape, "--ensemble", 0, "-o", out, "--json")


def changed_number(path: Path) -> None:
    found = json.loads(path.read_text())
    found["metrics"][0]["value"] = 99
    path.write_text(json.dumps(found))


DAMAGED: dict[str, Callable[[Path], object]] = {
    "a number is another": changed_number,
    "only its name is left": lambda path: path.write_text(json.dumps({"name": path.stem})),
    "its end is missing": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "the tape is gone": lambda path: path.with_suffix(".tape").unlink(),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_result_is_made_again(
    how: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    first = one_run(small, tmp_path, pagetape).json
    whole = files(tmp_path)
    DAMAGED[how](tmp_path / f"{first['runs'][0]['name']}.json")
    again = one_run(small, tmp_path, pagetape).json
    assert (again["made"], again["runs"]) == (1, first["runs"])
    assert files(tmp_path) == whole


FOREIGN: dict[str, Callable[[Path], object]] = {
    "object": lambda path: path.write_text("{}"),
    "list": lambda path: path.write_text("[1]"),
    "text": lambda path: path.write_text("mine"),
    "FIFO": os.mkfifo,
    "directory": Path.mkdir,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize(
    ("what", "suffix"), [*((what, ".json") for what in FOREIGN), ("text", ".tape")]
)
def test_a_foreign_file_in_place_of_a_result_is_a_failed_row(
    what: str, suffix: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    name = one_run(small, tmp_path, pagetape).json["runs"][0]["name"]
    (tmp_path / f"{name}.json").unlink()
    (tmp_path / f"{name}.tape").unlink()
    FOREIGN[what](tmp_path / f"{name}{suffix}")
    said = one_run(small, tmp_path, pagetape)
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert [row["tape"] for row in json.loads(said.out)["failed"]] == ["small"]
    assert f"{name}{suffix}: " in said.err


def test_a_tape_is_no_directory_for_results(small: Path, tmp_path: Path, pagetape: Run) -> None:
    tape = tmp_path / "t.tape"
    shutil.copytree(small, tape)
    before = sorted(tape.iterdir())
    for words in (("sweep", small), ("sweep", tape), ("archive", small)):
        for out, why in ((tape, "is a tape"), (tape / "runs", "is inside a tape")):
            said = pagetape(*words, "-o", out)
            assert (said.status, said.err) == (1, f"pagetape: {out}: {why}: choose another place\n")
    assert sorted(tape.iterdir()) == before


def test_a_tape_and_a_link_to_it_are_one(small: Path, tmp_path: Path, pagetape: Run) -> None:
    link = tmp_path / "link.tape"
    link.symlink_to(small)
    for words in (("sweep", "-o", tmp_path / "runs"), ("report", "extfrag.matrix"), ("compare",)):
        said = pagetape(*words, small, link)
        assert (said.status, said.err) == (1, f"pagetape: {link}: is the same tape as {small}\n")
