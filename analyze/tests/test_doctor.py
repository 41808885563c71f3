# SPDX-License-Identifier: Apache-2.0
"""pagetape doctor, and recordings by users who are not root but have some capabilities."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.recording import doctor
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]
INSTANCES = Path("/sys/kernel/tracing/instances")


@contextmanager
def instance(name: str) -> Iterator[Path]:
    path = INSTANCES / name
    path.mkdir()
    try:
        yield path
    finally:
        path.rmdir()


def found(pagetape: Run) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in pagetape("doctor", "--json").json["checks"]}


def test_doctor_answers_anybody(pagetape: Run) -> None:
    said = pagetape("doctor", "--json")
    answer = json.loads(said.out)
    assert said.status == (0 if answer["can_record"] else 1)
    names = {check["name"] for check in answer["checks"]}
    assert names >= {"kernel", "capabilities", "tracefs", "exact snapshot", "disk", "versions"}
    assert all(check["found"] for check in answer["checks"])


@livetest.recording
def test_doctor_bounds_the_cost_of_lock_events(pagetape: Run) -> None:
    if not Path("/sys/kernel/tracing/events/lock/contention_begin").is_dir():
        livetest.skip("no lock events")
    fork = "import os\nr, w = os.pipe()\nfor _ in range(2): os.fork()\n"
    storm = fork + "while 1: os.write(w, b'x'), os.read(r, 1)"
    quiet = found(pagetape)["lock events"]["found"]
    with subprocess.Popen([sys.executable, "-c", storm], start_new_session=True) as run:
        try:
            busy = found(pagetape)["lock events"]["found"]
        finally:
            os.killpg(run.pid, 9)
    rates = [int(text.split()[0].replace(",", "")) for text in (quiet, busy)]
    assert all("% of one CPU with --events lock" in text for text in (quiet, busy))
    assert rates[1] > 0


@livetest.recording
def test_doctor_names_other_tracers_and_leftovers_and_touches_none(
    pagetape: Run,
) -> None:
    with instance("pagetape-999999999-1"), instance("test-other"):
        before = set(INSTANCES.iterdir())
        checks = found(pagetape)
        assert set(INSTANCES.iterdir()) == before
    assert "pagetape-999999999-1" in checks["left over"]["found"]
    assert "test-other" in checks["other tracers"]["found"]


@livetest.recording
def test_doctor_shows_every_event_set_and_the_ring_memory(pagetape: Run) -> None:
    checks = found(pagetape)
    assert {"--events page", "--events cheap", "--events all", "clock"} <= checks.keys()
    assert "for each CPU" in checks["ring memory"]["found"]
    if checks["exact snapshot"]["ok"]:
        assert "lock held" in checks["  its cost"]["found"]


@livetest.needs(livetest.why_not_nobody)
def test_doctor_names_the_remedies_of_a_user_without_access() -> None:
    done = subprocess.run(
        [*livetest.as_nobody(), *PAGETAPE, "doctor"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "pagetape record does not work here" in done.stdout
    assert "uid=USER" in done.stdout and "CAP_BPF" in done.stdout


@livetest.alone
@livetest.needs(livetest.why_not_nobody)
@livetest.recording
@pytest.mark.parametrize("capabilities", [(), ("bpf", "perfmon"), ("bpf", "perfmon", "sys_nice")])
def test_capabilities_do_instead_of_root(tmp_path: Path, capabilities: tuple[str, ...]) -> None:
    """CAP_DAC_OVERRIDE stands for tracefs that is given to the user."""
    out = tmp_path / "t.tape"
    os.chown(tmp_path, livetest.NOBODY, livetest.NOBODY)
    record = [*PAGETAPE, "record", "-o", out, "--duration", "0.2"]
    command = [*livetest.as_nobody("dac_override", *capabilities), *record]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stderr.count("\n")) == (0, 3), done.stderr
    tape = Tape(out)
    assert tape.num_rows("event") > 0
    (start, _) = tape.table("snapshot").to_pylist()
    if not capabilities:
        assert "CAP_BPF" in start["why"]
        assert tape.num_rows("block_guess") > 0  # kpageflags needs read access only
    elif start["how"] == "proc":
        livetest.skip(f"no exact snapshot here: {start['why']}")
    if "sys_nice" in capabilities:
        assert "CAP_SYS_NICE" not in (start["why"] or "")
    assert out.stat().st_mode & 0o777 == 0o600
    assert out.stat().st_uid == livetest.NOBODY


def test_the_plan_of_many_cpus_names_what_one_decoder_cannot_follow() -> None:
    few, many = doctor._recorder(2), doctor._recorder(256)
    assert "4 threads, 4 open files" in few.found
    assert few.remedy == ""
    assert "258 threads, 512 open files" in many.found
    assert "--defer" in many.remedy
