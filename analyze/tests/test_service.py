# SPDX-License-Identifier: Apache-2.0
"""The systemd unit of a recorder that always runs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.recording import printed, service
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

FULL = ("--events", "all", "--ring", "60s", "--trigger", "extfrag>1000/s")


def setting(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def test_the_unit_is_shown_on_any_machine(pagetape: Run) -> None:
    said = pagetape("install-service", "--print")
    assert said.status == 0
    (start,) = setting(said.out, "ExecStart")
    words = shlex.split(start)
    assert Path(words[0]).is_file()
    assert words[1:4] == ["record", "-o", "/var/lib/pagetape"]
    assert words[4:] == list(service.DEFAULT)
    assert setting(said.out, "CapabilityBoundingSet") == ["CAP_SYS_NICE"]
    assert setting(said.out, "ProtectKernelTunables") == ["yes"]
    assert setting(said.out, "CPUQuota") == ["25%"]


def test_the_sandbox_opens_only_for_options_that_need_it(pagetape: Run) -> None:
    unit = pagetape("install-service", "--print", "--", *FULL).out
    (capabilities,) = setting(unit, "CapabilityBoundingSet")
    assert set(capabilities.split()) == {"CAP_SYS_NICE", "CAP_SYSLOG", "CAP_BPF", "CAP_PERFMON"}
    assert setting(unit, "SystemCallFilter")[-1] == "bpf perf_event_open"
    assert setting(unit, "ProtectKernelTunables") == []
    assert setting(unit, "CPUQuota") == []
    assert setting(unit, "MemoryMax") == ["634M"]
    (writes,) = setting(unit, "ReadWritePaths")
    assert writes == "-/sys/kernel/tracing/instances"
    for events in ("zone", "auto"):
        unit = pagetape(
            "install-service", "--print", "--", "--rotate", "9s", "--events", events
        ).out
        (more,) = setting(unit, "ReadWritePaths")
        assert more == f"{writes} -/sys/kernel/tracing/events/bpf_trace/bpf_trace_printk/enable"
        assert "CAP_BPF" in setting(unit, "CapabilityBoundingSet")[0]
    unit = pagetape("install-service", "--print", "--", *FULL, "--snapshot", "proc").out
    assert setting(unit, "CapabilityBoundingSet") == ["CAP_SYS_NICE CAP_SYSLOG"]
    unit = pagetape("install-service", "--print", "--", *service.DEFAULT, "--stacks", "extfrag").out
    assert setting(unit, "CapabilityBoundingSet") == ["CAP_SYS_NICE CAP_SYSLOG"]
    assert setting(unit, "ProtectKernelTunables") == []


def test_a_service_of_proc_needs_no_capability(pagetape: Run) -> None:
    given = ("--events", "proc", "--interval", "1min", "--rotate", "24h", "--keep", "500MB")
    unit = pagetape("install-service", "--print", "--", *given).out
    assert setting(unit, "CapabilityBoundingSet") == [""]
    assert setting(unit, "ReadWritePaths") == [""]
    assert setting(unit, "ProtectKernelTunables") == ["yes"]
    assert setting(unit, "CPUQuota") == ["25%"]
    assert "--rotate 24h" in setting(unit, "ExecStart")[0]


def test_words_and_places_that_systemd_would_misread() -> None:
    program = Path("/home/me/50% off/bin/pagetape")
    unit = service.unit(program, ["--trigger", "extfrag>1/s"], events="cheap", exact=False)
    assert setting(unit, "ExecStart") == [
        '"/home/me/50%% off/bin/pagetape" record -o /var/lib/pagetape --trigger "extfrag>1/s"'
    ]
    assert setting(unit, "ProtectHome") == ["read-only"]
    unit = service.unit(Path("/tmp/venv/bin/pagetape"), [], events="cheap", exact=False)
    assert (setting(unit, "ProtectHome"), setting(unit, "PrivateTmp")) == (["yes"], ["no"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--events", "page"), "a service needs --rotate or --ring"),
        (("--rotate", "soon"), "'soon' is not a span of time"),
        (("--ring", "9s", "--rotate", "9s"), "--rotate and --ring exclude each other"),
        (("--rotate", "9s", "-o", "here"), "-o is not allowed"),
        (("--rotate", "9s", "make"), "a service runs no command: remove 'make'"),
    ],
)
def test_options_that_record_refuses_are_refused(
    given: tuple[str, ...], words: str, pagetape: Run
) -> None:
    said = pagetape("install-service", "--print", "--", *given)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert words in said.err


def test_a_unit_comes_and_goes_below_a_root(tmp_path: Path, pagetape: Run) -> None:
    path = tmp_path / "etc/systemd/system/pagetape.service"
    said = pagetape("install-service", "--root", tmp_path)
    assert (said.status, said.out.count("\n")) == (0, 1)
    assert path.read_text() == pagetape("install-service", "--print").out
    assert path.stat().st_mode & 0o777 == 0o644
    assert pagetape("install-service", "--root", tmp_path).status == 0  # again, as an update
    assert pagetape("install-service", "--root", tmp_path, "--uninstall").status == 0
    assert not path.exists()
    said = pagetape("install-service", "--root", tmp_path, "--uninstall")
    assert said.status == 1 and said.err.endswith("is not installed\n")
    path.write_text("[Unit]\n")
    for option in ((), ("--uninstall",)):
        said = pagetape("install-service", "--root", tmp_path, *option)
        assert said.status == 1 and said.err.endswith("pagetape did not create this file\n")
    assert path.read_text() == "[Unit]\n"


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="would install it here")
def test_a_machine_without_systemd_is_refused(pagetape: Run) -> None:
    said = pagetape("install-service")
    assert (said.status, said.out) == (1, "")
    assert said.err == "pagetape: this machine does not run systemd; --print prints the unit\n"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize(("given", "most"), [((), 20), (("--", *FULL), 30)])
def test_systemd_finds_no_fault_and_little_exposure(
    given: tuple[str, ...], most: int, tmp_path: Path, pagetape: Run
) -> None:
    """The limit is in tenths of what systemd-analyze security says, 10 being unsafe."""
    unit = tmp_path / "pagetape.service"
    unit.write_text(pagetape("install-service", "--print", *given).out)

    def analyze(*words: object) -> str:
        done = subprocess.run(
            ["systemd-analyze", *map(str, words)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    assert "pagetape.service" not in analyze("verify", "--man=no", unit)
    analyze("security", "--offline=true", f"--threshold={most}", unit)


@livetest.recording
@pytest.mark.parametrize("events", ["cheap", "auto", "proc"])
def test_a_recording_works_within_the_sandbox_of_the_unit(
    events: str, tmp_path: Path, pagetape: Run
) -> None:
    """Its capabilities, and all but what it may write and its tapes read-only."""
    given = ("--events", events, "--rotate", "1s")
    unit = pagetape("install-service", "--print", "--", *given).out
    (places,) = setting(unit, "ReadWritePaths")
    writes = " ".join(place.removeprefix("-") for place in places.split())
    switch = printed._top_switch()
    before = switch.read_text()
    names = setting(unit, "CapabilityBoundingSet")[0].lower().split()
    few = ",".join(["-all", *(f"+{name.removeprefix('cap_')}" for name in names)])
    (tmp_path / "tapes").mkdir()
    tracing = "/sys/kernel/tracing"
    script = f"""set -e
        mount --make-rprivate /
        for path in {writes} {tmp_path}/tapes; do mount --bind $path $path; done
        mount --bind / /mnt 2>/dev/null && umount /mnt
        for path in {tracing} /proc/sys; do
            [ -d $path ] && {{ mountpoint -q $path || mount --bind $path $path; }}
            mount -o remount,bind,ro $path
        done
        exec setpriv --no-new-privs --inh-caps=-all --bounding-set={few} "$@"
    """
    record = [sys.executable, "-c", "from pagetape.cli import main; main()", "record"]
    options = [*given, "--duration", "1.5s"]
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            *record,
            "-o",
            tmp_path / "tapes",
            *options,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        livetest.skip(f"cannot build the sandbox here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert switch.read_text() == before
    tapes = sorted((tmp_path / "tapes").iterdir())
    assert tapes and all(Tape(path).complete for path in tapes)


OTHERS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "directory": Path.mkdir,
    "binary": lambda path: path.write_bytes(b"\xff\x00"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "empty": Path.touch,
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_unit_of_pagetape_stays(what: str, tmp_path: Path, pagetape: Run) -> None:
    path = tmp_path / "etc/systemd/system/pagetape.service"
    path.parent.mkdir(parents=True)
    OTHERS[what](path)
    for option in ((), ("--uninstall",)):
        said = pagetape("install-service", "--root", tmp_path, *option)
        assert said.status == 1 and said.err.endswith("pagetape did not create this file\n")
    assert os.path.lexists(path)


def test_a_masked_unit_is_named(tmp_path: Path, pagetape: Run) -> None:
    path = tmp_path / "etc/systemd/system/pagetape.service"
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/null")
    said = pagetape("install-service", "--root", tmp_path)
    assert (said.status, said.out) == (1, "")
    assert said.err.endswith("the unit is masked: systemctl unmask pagetape.service\n")
