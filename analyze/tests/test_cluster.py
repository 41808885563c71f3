# SPDX-License-Identifier: Apache-2.0
"""A sweep on a local Dask cluster: one worker with two threads."""

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from pagetape.archive import names
from pagetape.fleet import parts
from pagetape.tapes import cache

from .fleet_archive import fleet
from .test_policy_lib import compile_lib
from .test_sweep import CRASH, MODES, files

Run = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own are not ours


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Its address; the worker is a thread of this process, and has its files and cache."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_a_cluster_makes_the_same_files(
    scheduler: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    asked = ("sweep", *MODES[:2], small, "-o")
    there = pagetape(*asked, tmp_path / "there", "--cluster", scheduler)
    here = pagetape(*asked, tmp_path / "here")
    assert (there.status, there.out) == (here.status, here.out)
    assert files(tmp_path / "there") == files(tmp_path / "here") != {}


def test_a_cluster_sweeps_an_archive(
    scheduler: str, small: Path, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_OF_CLUSTER", 2)
    fleet(tmp_path / "archive", small, 3)
    asked = ("sweep", tmp_path / "archive", "--policy", "nofragment:mode=off", "--json")
    asked += ("--ensemble", 0, "-o")
    there = pagetape(*asked, tmp_path / "there", "--cluster", scheduler).json
    here = pagetape(*asked, tmp_path / "here").json
    assert (there["made"], there["runs"], there["fleet"]) == (3, here["runs"], here["fleet"])
    assert len([*(tmp_path / "there").rglob("*.parquet")]) == 2  # parts of two tapes


def test_a_run_that_ends_the_engine_does_not_end_the_worker(
    scheduler: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    """The worker is a thread of this process."""
    lib = compile_lib(tmp_path, CRASH.replace("PLANNED", "0"), "crash")
    crash = ("--policy", "mainline", "--policy-lib", lib, "--policy", "crash")
    other = tmp_path / "other.tape"
    shutil.copytree(small, other)
    asked = ("sweep", *crash, small, other, "-o", tmp_path / "out", "--cluster", scheduler)
    said = pagetape(*asked, "--json")
    assert said.status == 1
    found = json.loads(said.out)
    assert [run["policies"] for run in found["runs"]] == [["mainline"], ["mainline"]]
    assert [failed["policies"] for failed in found["failed"]] == [["crash"], ["crash"]]
    assert all("signal SIGABRT" in failed["reason"] for failed in found["failed"])


def test_a_worker_with_another_pagetape_is_refused(
    scheduler: str, small: Path, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "build", lambda: threading.current_thread().name)
    said = pagetape("sweep", small, "-o", tmp_path, "--cluster", scheduler)
    assert said.status == 1
    assert "its pagetape is another version or build" in said.err.splitlines()[-1]


def test_a_worker_with_another_tape_at_the_path_has_failed_runs(
    scheduler: str, small: Path, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "identity", lambda _: "another")  # of the engine's process not
    said = pagetape("sweep", small, *MODES, "--cluster", scheduler, "-o", tmp_path / "runs")
    assert said.status == 1 and f"{small}: on {gethostname()} another recording: " in said.err


def test_no_scheduler_is_one_line(
    small: Path, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr(parts, "_CONNECT_S", 0.5)
    said = pagetape("sweep", small, "-o", tmp_path, "--cluster", "tcp://127.0.0.1:1")
    assert said.status == 1
    assert said.err == "pagetape: tcp://127.0.0.1:1: no Dask scheduler at this address\n"


def test_without_dask_one_line_says_how_to_get_it(
    small: Path, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = pagetape("sweep", small, "-o", tmp_path, "--cluster", "tcp://127.0.0.1:1")
    assert (said.status, said.out) == (1, "")
    assert said.err == "pagetape: --cluster needs Dask: pip install 'pagetape[fleet]'\n"
