# SPDX-License-Identifier: Apache-2.0
"""A sweep over an archive: which tapes it fetches and plays, its results, and its fleet row."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest

from pagetape.archive import names, store
from pagetape.fleet import parts, results
from pagetape.fleet.results import SweepTape
from pagetape.schemas.tape import Tape

from .fleet_archive import archived, copied, fleet, machine

Run = Callable[..., Any]

POLICIES = ("--policy", "nofragment:mode={off,always}", "--reclaim", "R0")
ONE = ("--policy", "nofragment:mode=off", "--reclaim", "R0", "--ensemble", 0)


@pytest.fixture(scope="module")
def root(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of three hosts with one tape each; of one of them the kernel is another one."""
    made = tmp_path_factory.mktemp("fleet")
    kernels = ["6.12.1", "6.12.3", "6.18.2"]
    tapes = [
        copied(small, made / f"{i}.tape", f"host{i}", i + 1, kernel=kernel)
        for i, kernel in enumerate(kernels)
    ]
    archived(made / "archive", *tapes)
    return made / "archive"


@pytest.fixture
def swept(root: Path, tmp_path: Path, pagetape: Run) -> tuple[Path, dict[str, Any]]:
    """The results of a sweep of it, of this test alone, and its answer: made once."""
    kept, out = root.with_name("out"), tmp_path / "out"
    if not kept.exists():
        found = pagetape("sweep", root, *POLICIES, "-o", kept, "--json").json
        root.with_name("found.json").write_text(json.dumps(found))
    shutil.copytree(kept, out)
    return out, json.loads(root.with_name("found.json").read_text())


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects that a sweep fetches."""
    names_of: list[str] = []
    local = store.Store.local

    def noted(self: store.Store, name: str, directory: Path) -> Path:
        names_of.extend([name] * name.endswith(".tape"))  # not of the index
        return local(self, name, directory)

    monkeypatch.setattr(store.Store, "local", noted)
    return names_of


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [
        row for path in out.glob("results/*.parquet") for row in pq.read_table(path).to_pylist()
    ]


def test_every_run_has_a_row_for_each_metric(
    swept: tuple[Path, dict[str, Any]], tmp_path: Path, pagetape: Run, small: Path
) -> None:
    out, found = swept
    assert [found[key] for key in ("tapes", "made", "reused", "failed")] == [3, 6, 0, []]
    alone = pagetape("sweep", small, *POLICIES, "-o", tmp_path / "alone", "--json").json["runs"]
    alike = 0
    for run in found["runs"]:
        (same,) = (one for one in alone if one["policies"] == run["policies"])
        if run["kernel"] == same["kernel"]:
            assert run["metrics"] == same["metrics"] and run["tier"] == same["tier"]
            alike += 1
    assert alike
    rows = rows_of(out)
    assert len(rows) == sum(len(run["metrics"]) for run in found["runs"])
    keys = {(row["identity"], row["policies"][0], row["metric"]) for row in rows}
    assert len(keys) == len(rows)
    assert {row["machine"] for row in rows} == {machine(f"host{i}") for i in range(3)}


def test_the_fleet_row_is_that_of_its_rows(swept: tuple[Path, dict[str, Any]]) -> None:
    out, found = swept
    rows = rows_of(out)
    assert len(found["fleet"]) == 2 * 5
    for row in found["fleet"]:
        same = [r for r in rows if (r["policies"], r["metric"]) == (row["policies"], row["metric"])]
        assert (len(same), row["hosts"]) == (3, 3)
        effects = [r["difference"]["percent"] for r in same if r["difference"]["value"] is not None]
        assert row["with_effect"] == len(effects)
        if effects and None not in effects:
            assert row["effect"] == pytest.approx(median(effects))
        shown = [r["difference"]["value"] for r in same if r["difference"]["shown"]]
        assert (row["less"], row["more"]) == (
            sum(value < 0 for value in shown),
            sum(value > 0 for value in shown),
        )


def test_a_sweep_goes_on_where_it_was(
    root: Path, tmp_path: Path, pagetape: Run, fetched: list[str]
) -> None:
    asked = ("sweep", root, *ONE, "-o", tmp_path / "out", "--json")
    assert pagetape(*asked, "--where", "kernel LIKE '6.18%'").json["made"] == 1
    assert len(fetched) == 1
    found = pagetape(*asked).json
    assert (found["made"], found["reused"], len(fetched)) == (2, 1, 3)
    again = pagetape(*asked).json
    assert (again["made"], again["reused"], len(fetched)) == (0, 3, 3)
    assert (again["runs"], again["fleet"]) == (found["runs"], found["fleet"])


def test_a_shard_fetches_its_own_tapes_only(
    root: Path, tmp_path: Path, pagetape: Run, fetched: list[str]
) -> None:
    asked = ("sweep", root, *ONE, "-o", tmp_path / "out", "--json")
    parts = []
    for i in (1, 2):
        before = len(fetched)
        part = pagetape(*asked, "--shard", f"{i}/2").json
        assert {run["tape"] for run in part["runs"]} == set(fetched[before:])
        parts.append(set(fetched[before:]))
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 3
    assert pagetape(*asked).json["made"] == 0


def test_tapes_that_cannot_be_played_are_failed_rows(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    """The index is of the time when all were whole: one has become random bytes, one has the bytes
    of another, one is gone."""
    root = tmp_path / "archive"
    fleet(root, small, 4)
    broken, renamed, gone, whole = sorted(root.rglob("*.tape"))
    broken.chmod(0o600)
    broken.write_bytes(os.urandom(broken.stat().st_size))
    renamed.chmod(0o600)
    renamed.write_bytes(whole.read_bytes())
    gone.unlink()
    asked = ("sweep", root, *ONE, "-o", tmp_path / "out")
    said = pagetape(*asked, "--json")
    assert said.status == 1
    found = json.loads(said.out)
    assert (found["made"], len(found["runs"])) == (1, 1)
    failed = {one["tape"]: one["reason"] for one in found["failed"]}
    assert failed.keys() == {str(one.relative_to(root)) for one in (broken, renamed, gone)}
    assert f"another recording: {whole.stem}" in failed[str(renamed.relative_to(root))]
    assert "no such object" in failed[str(gone.relative_to(root))]
    assert all(row["hosts"] == 1 for row in found["fleet"])
    said = pagetape(*asked)
    assert said.status == 1 and "3 failed" in said.out and "Traceback" not in said.err


def test_tapes_without_refills_are_not_played(small: Path, tmp_path: Path, pagetape: Run) -> None:
    tapes = [
        copied(small, tmp_path / f"{name}.tape", name, events=events)
        for name, events in (("cheap", ["kmem:mm_page_alloc_extfrag"]), ("page", None))
    ]
    archived(tmp_path / "archive", *tapes)
    found = pagetape("sweep", tmp_path / "archive", *ONE, "-o", tmp_path / "o", "--json").json
    assert (found["tapes"], found["made"]) == (1, 1)
    assert "1 tape recorded without allocations and refills" in found["note"]


def test_a_worker_that_is_killed_changes_no_result(
    root: Path, tmp_path: Path, pagetape: Run
) -> None:
    """It is killed when the second of three parts is played."""
    program = (
        "import os, signal\n"
        "from pagetape.fleet import parts, results\n"
        "parts.PART = 1\n"
        "put, done = results.put, []\n"
        "def noted(*args):\n"
        "    if done:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    done.append(put(*args))\n"
        "results.put = noted\n"
        "from pagetape.cli import main; main()\n"
    )
    asked = ("sweep", root, *ONE, "-o", tmp_path / "out", "--json")
    argv = [sys.executable, "-c", program, *map(str, asked)]
    killed = subprocess.run(argv, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len([*(tmp_path / "out").rglob("*.parquet")]) == 1
    found = pagetape(*asked).json
    assert (found["made"], found["reused"]) == (2, 1)
    whole = pagetape("sweep", root, *ONE, "-o", tmp_path / "whole", "--json").json
    assert (whole["runs"], whole["fleet"]) == (found["runs"], found["fleet"])


def test_two_sweeps_of_one_directory_have_each_result_once(
    root: Path,
    swept: tuple[Path, dict[str, Any]],
    pagetape: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither sees what the other made before it ends."""
    out, first = swept
    asked = ("sweep", root, *POLICIES, "-o", out, "--json")
    with monkeypatch.context() as patch:
        patch.setattr(results, "made", lambda *_: set())
        patch.setattr(parts, "PART", 2)  # other files
        pagetape(*asked)
    assert len(rows_of(out)) == 2 * sum(len(run["metrics"]) for run in first["runs"])
    again = pagetape(*asked).json
    assert (again["runs"], again["fleet"]) == (first["runs"], first["fleet"])


def test_several_tapes_have_the_same_fleet_row_as_their_archive(
    root: Path, swept: tuple[Path, dict[str, Any]], tmp_path: Path, pagetape: Run
) -> None:
    tapes = sorted(root.rglob("*.tape"))
    here = pagetape("sweep", *tapes, *POLICIES, "-o", tmp_path / "here", "--json").json

    def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{k: v for k, v in row.items() if k != "worst"} for row in rows]

    assert plain(here["fleet"]) == plain(swept[1]["fleet"])
    said = pagetape("sweep", *tapes, *POLICIES, "-o", tmp_path / "here").out
    assert "no verdict" in said and "80 % interval, from the hosts" in said


def test_the_text_has_the_fleet_table(
    root: Path, swept: tuple[Path, dict[str, Any]], tmp_path: Path, pagetape: Run
) -> None:
    page = tmp_path / "sweep.html"
    said = pagetape("sweep", root, *POLICIES, "-o", swept[0], "--html", page)
    assert said.status == 0 and f"{root}: 3 tapes; 0 runs made, 6 reused, 0 failed" in said.out
    assert "nofragment:mode=always" in said.out and "no choice" in said.out
    assert "fewer than 4 hosts have none" in said.out
    assert "<h2>Fleet</h2>" in page.read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--where", "kernel ="), "--where 'kernel ='"),
        (("--where", "nosuch = 1"), "nosuch"),
        (("--nodes", "0/1"), "--nodes: needs tapes, not an archive"),
        (("--policy", "nosuch"), "nosuch"),
        (("--since", "yesterday"), "yesterday"),
    ],
)
def test_a_bad_choice_is_bad_usage(
    words: tuple[str, ...], why: str, root: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("sweep", root, *words, "-o", tmp_path / "out")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert why in said.err and not (tmp_path / "out").exists()


def test_a_choice_of_tapes_needs_an_archive(small: Path, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("sweep", small, "--where", "true", "-o", tmp_path / "out")
    assert said.status == 2 and "--where: chooses tapes of an archive" in said.err


def test_the_shards_of_a_tape_do_not_depend_on_the_others(root: Path) -> None:
    found = [SweepTape(names.identity(Tape(p)), p.name, "", None) for p in root.rglob("*.tape")]
    for of in (1, 2, 3):
        shards = [parts.shard(found, i + 1, of) for i in range(of)]
        assert sorted(itertools.chain(*shards)) == sorted(found)
        for i, shard in enumerate(shards):
            assert all(parts.shard([tape], i + 1, of) == [tape] for tape in shard)
