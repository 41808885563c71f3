# SPDX-License-Identifier: Apache-2.0
"""A recorder states its memory, and keeps within its limit."""

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.recording import recorder
from pagetape.recording.memory import Demand, Limit, Memory, fit
from pagetape.schemas import table_file
from pagetape.schemas.tape import Tape, TapeError

Run = Callable[..., Any]

MIB = 1 << 20
DEMO = Path(__file__).parents[1] / "demo/server.tape"


def demand(**given: Any) -> Demand:
    usual: dict[str, Any] = {"cpus": 2, "exact": True, "defer": False, "may_defer": True}
    usual |= {"machine": 24 << 30, "free_blocks": 5000}
    return Demand(**(usual | given))


def limit(mib: int, *, whole: bool = False) -> Limit:
    return Limit(mib * MIB, "--memory", whole)


def total(memory: Memory, *, rings: bool = False) -> int:
    own = memory.process + memory.snapshot + memory.spools + memory.held
    return own + (memory.rings if rings else 0)


@pytest.mark.parametrize("rings", [False, True])
@pytest.mark.parametrize("held", [0, 128 * MIB])
@pytest.mark.parametrize("mib", [200, 260, 400, 1000, 20000])
def test_the_parts_keep_within_the_limit(mib: int, held: int, rings: bool) -> None:
    memory = fit(demand(held=held), limit(mib, whole=rings))
    assert total(memory, rings=rings) <= mib * MIB
    assert not memory.defer


def test_more_memory_gives_larger_buffers_up_to_their_usual_size() -> None:
    found = [fit(demand(), limit(mib, whole=True)) for mib in (180, 200, 300, 1000, 2000)]
    for less, more in itertools.pairwise(found):
        assert less.spools <= more.spools and less.rings <= more.rings
    assert found[0].spools < found[-1].spools and found[-2] == found[-1]


def test_rare_events_take_small_spools() -> None:
    usual, rare = (fit(demand(rare=rare), limit(2000)) for rare in (False, True))
    assert rare.spools < usual.spools / 8
    assert replace(rare, spools=usual.spools) == usual


def test_with_too_little_to_decode_the_tape_is_deferred() -> None:
    memory = fit(demand(), limit(66))
    assert memory.defer and total(memory) <= 66 * MIB


@pytest.mark.parametrize(
    ("given", "mib", "words"),
    [
        ({}, 40, "raise the limit"),
        ({}, 55, "even if it does not decode"),
        ({}, 55, "--snapshot proc needs"),
        ({"may_defer": False}, 100, "--snapshot proc needs"),
        ({"exact": False}, 30, "raise the limit"),
        ({"exact": False, "defer": True}, 30, "raise the limit"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(
    given: dict[str, Any], mib: int, words: str
) -> None:
    with pytest.raises(TapeError) as refused:
        fit(demand(**given), limit(mib))
    said = str(refused.value.strerror)
    assert "this recording needs" in said and "--memory allows" in said and words in said


def test_a_refusal_is_one_line(tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("record", "-o", tmp_path / "t.tape", "--memory", "20MB", "--duration", 1)
    assert (said.status, said.err.count("\n")) == (1, 1) and "raise the limit" in said.err
    assert not (tmp_path / "t.tape").exists()


def test_the_recorder_begins_without_duckdb_and_the_engine() -> None:
    """Its first words come before Arrow, too. It lacks what only some recordings need."""
    code = (
        "import sys; from pagetape.commands import record\n"
        "assert not {'pyarrow', 'pagetape._collector', 'pagetape.schemas'} & set(sys.modules)\n"
        "record._of_recording('recorder')\n"
        "import pyarrow; print(pyarrow.default_memory_pool().backend_name)\n"
        "rare = {'pyarrow.compute', '_hashlib'}\n"
        "print((rare | {'duckdb', 'pagetape._replay'}) & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["system", "set()"]


def test_code_that_was_given_back_runs_again() -> None:
    """Its mappings are gone until the next use: more than half of the code that a start ran."""
    code = (
        "import re; from pathlib import Path; from pagetape._collector import give_back\n"
        "import pyarrow as pa; from pagetape.recording import recorder\n"
        "def mapped():\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    return int(re.search(r'RssFile:\\s+(\\d+)', status)[1])\n"
        "before = mapped(); give_back()\n"
        "print(mapped() < before / 2, pa.array([1]).to_pylist())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True [1]\n"


def test_a_recorder_keeps_nothing_of_a_tape_that_it_has_closed() -> None:
    """A rotating one would otherwise grow with each of its tapes."""
    assert "events in" in recorder._saved(DEMO)
    assert not table_file._known_sizes
    assert not table_file._kept._batches


@pytest.mark.parametrize("rare", [True, False])
def test_the_spools_of_256_cpus_take_no_more_than_256_mib(rare: bool) -> None:
    """They are what grows with the CPUs; everything else of a CPU takes some kB."""
    few, many = (fit(demand(rare=rare, cpus=cpus), limit(100_000)) for cpus in (2, 256))
    assert few.spools < many.spools <= 256 * MIB
    assert replace(many, spools=few.spools, rings=few.rings, cpus=few.cpus) == few


# ---- a control group with little memory


def _fits(machine: Demand, mib: int) -> bool:
    with contextlib.suppress(TapeError):
        return bool(fit(machine, limit(mib)))
    return False


CODE = """
import sys
from pathlib import Path
from pagetape import cli
Path(sys.argv.pop(1)).write_text("0")
cli.main()
"""


def _mine() -> tuple[Path, str] | None:
    """The directory of this process' memory control group, and the name of its limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, place = line.split(":", 2)
        if "memory" in names.split(","):
            return Path(f"/sys/fs/cgroup/memory{place}"), "memory.limit_in_bytes"
        if not names and "memory" in _controllers():
            return Path("/sys/fs/cgroup"), "memory.max"
    return None


def _controllers() -> str:
    file = Path("/sys/fs/cgroup/cgroup.subtree_control")
    return file.read_text() if file.exists() else ""


@pytest.fixture
def group() -> Iterator[Callable[[int], Path]]:
    """Makes the control group with a limit of so many MiB."""
    mine = _mine()
    if mine is None:
        livetest.skip("no memory control group here")
    above, name = mine
    place = above / f"pagetape-test-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as e:
        livetest.skip(f"no control group can be made: {e.strerror}")

    def limited(mib: int) -> Path:
        (place / name).write_text(str(mib * MIB))
        return place

    yield limited
    for _ in range(100):
        try:
            place.rmdir()
            return
        except OSError:  # its processes have ended, but their memory is still counted
            time.sleep(0.05)


@livetest.alone
@livetest.recording
@pytest.mark.parametrize("deferred", [True, False])
def test_a_recorder_in_a_small_control_group_keeps_within_it(
    deferred: bool, group: Callable[[int], Path], tmp_path: Path, pagetape: Run
) -> None:
    """In the least one that takes it: that depends on the machine, and on its free blocks now."""
    out = tmp_path / "t.tape"
    machine = Demand(os.cpu_count() or 1, exact=True, defer=deferred, may_defer=False)
    mib = next(mib for mib in range(40, 4000) if _fits(machine, mib)) + 6  # other work goes on
    argv = [sys.executable, "-c", CODE, group(mib) / "cgroup.procs"]
    argv += ["record", "-o", out, "--duration", "2"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("is deferred, as by --defer" in done.stderr) == deferred
    if deferred:
        assert pagetape("import", out, "-o", tmp_path / "new.tape").status == 0
        out = tmp_path / "new.tape"
    assert Tape(out).num_rows("event") > 0
