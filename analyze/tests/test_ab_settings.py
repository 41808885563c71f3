# SPDX-License-Identifier: Apache-2.0
"""Settings of `pagetape ab`: switches, and the journal that restores them whatever happens."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pagetape.ab.journal import changing, restore_left
from pagetape.ab.memory import shortage
from pagetape.ab.plan import parse_set
from pagetape.ab.switch import SWITCHES, Host, Switch, find
from pagetape.schemas.tape import TapeError

FILE = "proc/sys/vm/defrag_mode"
JOURNAL = "run/pagetape/ab.journal"


@pytest.fixture
def host(fake_host: Host) -> Host:
    return fake_host


# ---- switches


@pytest.mark.parametrize("one", SWITCHES, ids=lambda one: one.name)
def test_a_switch_has_a_file_a_reason_and_metrics(one: Switch) -> None:
    assert one.file.startswith(("proc/sys/vm/", "sys/kernel/mm/transparent_hugepage/"))
    assert one.doc and one.metrics
    assert find(one.name) == find(one.name.removeprefix("vm.")) == one


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("percpu_pagelist_high_fraction=0,8", ("0", "8")),
        ("vm.defrag_mode=1,0", ("1", "0")),
        ("vm.watermark_scale_factor=0010,3000", ("10", "3000")),
        ("min_free_kbytes=128,262144", ("128", "262144")),
        ("thp.defrag=defer+madvise, never", ("defer+madvise", "never")),
    ],
)
def test_values_of_a_switch(host: Host, text: str, values: tuple[str, str]) -> None:
    assert parse_set(text, host)[1] == values


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("swappiness=0,60", "no switch named 'swappiness'; there are vm.percpu"),
        ("defrag_mode", "not NAME=A,B"),
        ("defrag_mode=0", "not NAME=A,B"),
        ("defrag_mode=0,1,2", "not NAME=A,B"),
        ("defrag_mode=0,2", "vm.defrag_mode: 2 is not in 0 to 1"),
        ("defrag_mode=0,-1", "'-1' is not a number"),
        ("defrag_mode=1,1", "both values are 1"),
        ("percpu_pagelist_high_fraction=0,7", "7 is not 0, and not 8 or more"),
        ("watermark_scale_factor=0,10", "0 is not in 1 to 3000"),
        ("min_free_kbytes=4096,262145", "262145 is not in 128 to 262144"),  # a quarter of memory
        ("thp.enabled=always,sometimes", "'sometimes' is not one of always, madvise, never"),
    ],
)
def test_wrong_settings_have_their_reason(host: Host, text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_set(text, host)
    assert reason in str(caught.value)


def test_the_value_in_brackets_is_the_one_of_a_list(host: Host) -> None:
    assert host.read(find("thp.enabled").file) == "madvise"


def test_a_write_that_has_no_effect_is_an_error(host: Host) -> None:
    path = host.root / find("thp.defrag").file
    path.unlink()
    path.symlink_to("/dev/null")
    with pytest.raises(TapeError, match="is '' after a write of 'never'"):
        host.write(find("thp.defrag").file, "never")


# ---- the journal


def value(host: Host) -> str:
    return host.read(FILE)


def test_a_setting_is_restored_at_the_end(host: Host) -> None:
    said: list[str] = []
    with changing(host, find("defrag_mode"), ("0", "1"), said.append) as changed:
        changed.set("1")
        assert value(host) == "1"
        assert json.loads((host.root / JOURNAL).read_text())["settings"][0]["before"] == "0"
    assert value(host) == "0"
    assert said == ["vm.defrag_mode is 0 again (it was 1)"]
    assert not (host.root / JOURNAL).exists()


def test_the_journal_is_on_the_disk_before_the_first_write(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, write = os.fsync, Host.write
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(
        Host, "write", lambda self, *args: (order.append("write"), write(self, *args))[1]
    )
    with changing(host, find("defrag_mode"), ("0", "1"), order.append) as changed:
        del order[: order.index("fsync")]  # of the journal that was empty before
        before = len(order)
        changed.set("1")
    assert before >= 2 and "write" not in order[:before]
    assert order[before] == "write"


@pytest.mark.parametrize("error", [TapeError(5, "broken"), KeyboardInterrupt(), SystemExit(143)])
def test_a_setting_is_restored_after_an_error(host: Host, error: BaseException) -> None:
    with (
        contextlib.suppress(TapeError, KeyboardInterrupt, SystemExit),
        changing(host, find("defrag_mode"), ("0", "1"), print) as changed,
    ):
        changed.set("1")
        raise error
    assert value(host) == "0"


def test_a_value_of_another_process_stays(host: Host) -> None:
    boost = find("watermark_boost_factor")
    said: list[str] = []
    with changing(host, boost, ("15000", "0"), said.append) as changed:
        changed.set("15000")
        (host.root / boost.file).write_text("7\n")
        with pytest.raises(TapeError, match="another process changed it"):
            changed.check()
    assert host.read(boost.file) == "7"
    assert said == [
        "vm.watermark_boost_factor is 7 and stays so: another process changed it "
        "(it was 0 before, pagetape wrote 15000 and 0)"
    ]


def test_a_change_between_two_writes_is_noticed_and_not_overwritten(host: Host) -> None:
    boost = find("watermark_boost_factor")
    with changing(host, boost, ("15000", "0"), print) as changed:
        changed.set("15000")
        (host.root / boost.file).write_text("7\n")
        with pytest.raises(TapeError, match="was 15000 and is 7"):
            changed.set("0")
    assert host.read(boost.file) == "7"


def test_a_setting_that_the_kernel_changed_along_is_reported(host: Host) -> None:
    said: list[str] = []
    enabled = find("thp.enabled")
    with changing(host, enabled, ("never", "always"), said.append):
        (host.root / "proc/sys/vm/min_free_kbytes").write_text("1024\n")
    assert "vm.min_free_kbytes was 4096 and is 1024: pagetape did not write it" in said


def test_a_setting_that_cannot_be_restored_stays_in_the_journal(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: Host, file: str, value: str) -> None:
        raise TapeError(1, f"/{file}: cannot write {value}")

    with (
        pytest.raises(TapeError, match="cannot write 0; `pagetape ab --restore` tries again"),
        changing(host, find("defrag_mode"), ("0", "1"), print) as changed,
    ):
        changed.set("1")
        monkeypatch.setattr(Host, "write", refuse)
    monkeypatch.undo()
    assert restore_left(host) == ["vm.defrag_mode is 0 again (it was 1)"]
    assert value(host) == "0" and not (host.root / JOURNAL).exists()


def left_behind(host: Host, **changes: object) -> None:
    """The journal of a killed `ab`, which left defrag_mode at 1."""
    entry = {"name": "vm.defrag_mode", "file": FILE, "before": "0", "written": ["0", "1"]}
    found = {"pid": 1, "boot_id": "this-boot", "settings": [entry | changes]}
    (host.root / JOURNAL).parent.mkdir(parents=True, exist_ok=True)
    (host.root / JOURNAL).write_text(json.dumps(found))
    (host.root / FILE).write_text("1\n")


def test_the_next_run_restores_what_a_killed_one_left(host: Host) -> None:
    left_behind(host)
    said: list[str] = []
    with changing(host, find("watermark_boost_factor"), ("0", "1"), said.append):
        assert value(host) == "0"
    assert said[0] == "left by a killed pagetape ab: vm.defrag_mode is 0 again (it was 1)"


def test_a_journal_of_an_earlier_boot_restores_nothing(host: Host) -> None:
    left_behind(host)
    (host.root / "proc/sys/kernel/random/boot_id").write_text("next-boot\n")
    assert restore_left(host) == ["the journal is of an earlier boot: there is nothing to restore"]
    assert value(host) == "1" and not (host.root / JOURNAL).exists()


@pytest.mark.parametrize(
    "changes",
    [{"file": "etc/passwd"}, {"name": "vm.panic"}, {"before": 0}, {"written": [1]}, {"written": 3}],
)
def test_a_journal_that_pagetape_did_not_write_restores_nothing_and_stays(
    host: Host, changes: dict[str, object]
) -> None:
    left_behind(host, **changes)
    before = (host.root / JOURNAL).read_text()
    with pytest.raises(TapeError, match=r"ab\.journal: was edited, or is of another version of"):
        restore_left(host)
    assert value(host) == "1" and (host.root / JOURNAL).read_text() == before


@pytest.mark.parametrize(
    "text", ["[]", "[1]", "x", "{}", '{"pid": 1}', '{"settings": []}', "[" * 9999]
)
def test_a_journal_of_another_form_is_named_and_stays(host: Host, text: str) -> None:
    left_behind(host)
    (host.root / JOURNAL).write_text(text)
    with pytest.raises(TapeError, match="restore the settings in it by hand, then remove it"):
        restore_left(host)
    assert (host.root / JOURNAL).read_text() == text


def test_half_a_journal_restores_nothing(host: Host) -> None:
    left_behind(host)
    text = (host.root / JOURNAL).read_text()
    (host.root / JOURNAL).write_text(text[:40])
    assert restore_left(host) == []


def test_the_journal_of_a_running_ab_is_not_taken(host: Host) -> None:
    with changing(host, find("defrag_mode"), ("0", "1"), print) as changed:
        changed.set("1")
        with pytest.raises(TapeError, match=f"another pagetape ab runs .process {os.getpid()}."):
            restore_left(host)
        with (
            pytest.raises(TapeError, match="wait for its end"),
            changing(host, find("watermark_boost_factor"), ("0", "1"), print),
        ):
            raise AssertionError("two at once")
        assert value(host) == "1"


def test_without_a_journal_there_is_nothing_to_restore(host: Host) -> None:
    assert restore_left(host) == []
    assert not (host.root / "run").exists()


# ---- kills and signals, in a process of its own

SCRIPT = """
import sys
from pathlib import Path
from pagetape import cli
from pagetape.ab import live
from pagetape.ab.plan import Plan
from pagetape.ab.switch import Host, find

class WithoutTape(live.Runner):
    def record(self, path, what, prepare):
        prepare()
        self.warm_up(what)

def run(**_):
    host = Host(Path(sys.argv[1]))
    out = Path(sys.argv[1], "out")
    plan = Plan(find("defrag_mode"), ("1", "0"), "0", 2, "none", ("sleep", "60"), out)
    live.record_runs(plan, host, print, print, WithoutTape(plan.argv, host))
    return 0

cli.run = run
cli.main()
"""


@pytest.fixture
def started(host: Host) -> Iterator[subprocess.Popen[bytes]]:
    """An `ab` on the fake machine, whose first run has begun."""
    argv = [sys.executable, "-c", SCRIPT, str(host.root)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, start_new_session=True, **quiet) as process:
        try:
            until(lambda: value(host) == "1" and children(process.pid))
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def until(met: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not met():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def children(pid: int) -> str:
    """The command of the run, in /proc."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_runs_and_restores(
    host: Host, started: subprocess.Popen[bytes], number: int
) -> None:
    started.send_signal(number)
    assert started.wait(30) not in (0, None)
    assert value(host) == "0"
    assert not (host.root / JOURNAL).exists()


def test_a_kill_leaves_a_journal_that_restores(
    host: Host, started: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(TapeError, match=f"process {started.pid}"):
        restore_left(host)
    started.kill()
    started.wait(30)
    assert value(host) == "1"
    assert restore_left(host) == ["vm.defrag_mode is 0 again (it was 1)"]
    assert value(host) == "0"


# ---- memory


def test_the_figure_of_a_shortage() -> None:
    enough = {"MemTotal": 1_000_000, "MemAvailable": 10_000, "SwapTotal": 0, "SwapFree": 0}
    assert shortage(enough) is None
    assert shortage(enough | {"MemAvailable": 9_000, "SwapFree": 2_000, "SwapTotal": 5_000}) is None
    assert (
        shortage(enough | {"MemAvailable": 9_000})
        == "9.2 MB of memory and swap are available, less than 1 % of 1.0 GB"
    )
