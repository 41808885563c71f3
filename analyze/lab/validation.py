#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flip switches live under loads, and compare with the predictions.

    validation.py [--build DIR] [--work DIR] [--only CASE]... [--pairs N] [--ensemble N] [--again]

Runs `pagetape ab` for a fixed list of switches and loads on this machine, and the same in virtual
machines with other kernels, which boot anew for each run. Switches, values, loads and metrics were
chosen before the first recording. The results stay in the work directory, one directory per case.
With --again nothing is recorded: the model predicts the existing tapes again. The tables have all
cases, with the results in the work directory.
"""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import guest
import program
from program import BIN, say, table
from programs import hogging

from pagetape.ab.plan import Plan
from pagetape.ab.result import Result, cells
from pagetape.ab.switch import find
from pagetape.schemas.tape import Tape
from pagetape.tapes.info import describe

_LEFT_MIB = 1000  # for a load under pressure; with 1200 a machine with a slow disk had hardly any
_SECONDS = 15
_PAIRS = 3


@dataclass(frozen=True)
class Case:
    """One switch under one load."""

    name: str
    setting: str
    load: str  # kbuild, whose work is fixed, or a load of the laboratory
    pressure_mib: int = _LEFT_MIB  # memory that other processes leave to the latter
    pairs: int = _PAIRS

    def command(self, build: Path, files: str) -> list[str]:
        return program.load(self.load, _SECONDS, files, build)

    @property
    def left_mib(self) -> int:
        """Memory that other processes leave to the load; 0: all."""
        return 0 if self.load == "kbuild" else self.pressure_mib


CASES = (
    Case("high-fraction-8", "percpu_pagelist_high_fraction=0,8", "kbuild", pairs=5),
    Case("high-fraction-64", "percpu_pagelist_high_fraction=0,64", "kbuild", pairs=5),
    Case("high-fraction-512", "percpu_pagelist_high_fraction=0,512", "kbuild", pairs=5),
    Case("defrag-mode", "defrag_mode=0,1", "mixed"),
    Case("boost", "watermark_boost_factor=15000,0", "mixed"),
    # With their higher marks, less memory counts as available, and too little ends the run.
    Case("scale", "watermark_scale_factor=10,100", "mixed", 2000),
    Case("min-free", "min_free_kbytes=67584,270336", "mixed", 1600),
    Case("proactiveness", "compaction_proactiveness=20,80", "mixed"),
)


@dataclass(frozen=True)
class GuestCase:
    """One switch in a virtual machine, which boots for each run."""

    name: str
    switch: str
    values: tuple[str, str]
    machine: guest.Guest
    pairs: int = _PAIRS

    @property
    def load(self) -> str:
        return self.machine.load

    def at(self, value: str) -> guest.Guest:
        """The machine with the switch at a value."""
        return replace(self.machine, set=(f"/{find(self.switch).file}={value}",))


def _in_guest(release: str, name: str, switch: str, values: str, nodes: int = 2) -> GuestCase:
    """A case under file pages and slab pages in a guest of 448 MiB."""
    kernel = f"{release}.*-cloud-amd64"
    machine = guest.Guest(kernel, "files+slab", nodes=nodes, mb=448 // nodes, cache=640)
    a, b = values.split(",")
    return GuestCase(f"guest-{release}-{name}", switch, (a, b), machine)


GUEST_CASES = (
    _in_guest("6.12", "high-fraction", "vm.percpu_pagelist_high_fraction", "0,64"),
    _in_guest("7.3", "defrag-mode", "vm.defrag_mode", "0,1"),
    _in_guest("7.2", "defrag-mode", "vm.defrag_mode", "0,1", nodes=1),
    _in_guest("6.1", "boost", "vm.watermark_boost_factor", "15000,0"),
)

ALL_CASES = (*CASES, *GUEST_CASES)


def record_in_guest(case: GuestCase, work: Path, pairs: int) -> None:
    """Record a switch in a virtual machine: A B A B, each after a boot."""
    guest.check_programs()
    out = work / case.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    plan = Plan(find(case.switch), case.values, case.values[0], pairs, "none", (case.load,), out)
    found = Result.begin(plan)
    with guest.root() as root:
        for run in plan.runs:
            tape = out / run.tape
            began = time.monotonic()
            guest.record(case.at(run.value), root, tape)
            found.facts["kernel"] = describe(Tape(tape))["kernel"]
            found.add(run, time.monotonic() - began)
            found.write()


def record(case: Case, build: Path, work: Path, options: list[str]) -> None:
    """One `pagetape ab`; its error stays beside the tapes."""
    out = work / case.name
    shutil.rmtree(out, ignore_errors=True)
    with TemporaryDirectory(dir=work, prefix="files-") as files, hogging(build, case.left_mib):
        argv = [str(BIN / "pagetape"), "ab", "--set", case.setting, "-o", str(out), *options]
        argv += ["--warm-up", "all" if case.load == "kbuild" else "first"]
        argv += ["--", *case.command(build.absolute(), files)]
        done = subprocess.run(argv, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr)
    out.mkdir(exist_ok=True)
    failed = out / "failed"
    failed.unlink(missing_ok=True)
    if done.returncode:
        failed.write_text(done.stderr.splitlines()[-1] + "\n")


def again(case: Case | GuestCase, work: Path, members: int) -> None:
    """Predict the tapes of a case again."""
    program.run_pagetape("ab", "--again", work / case.name, "--ensemble", members)


def results(work: Path) -> dict[str, Any]:
    """What each case of the work directory came to, in the order of the list."""
    found: dict[str, Any] = {}
    for case in ALL_CASES:
        directory = work / case.name
        if (directory / "failed").exists():
            found[case.name] = {"load": case.load, "failed": (directory / "failed").read_text()}
        elif (directory / "ab.json").exists():
            made = json.loads((directory / "ab.json").read_text())
            if "metrics" not in made:
                made["failed"] = "interrupted"
            found[case.name] = made | {"load": case.load}
        else:
            found[case.name] = {"load": case.load, "failed": "not run yet"}
    return found


def _metrics(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of a case that were predicted."""
    return [metric for metric in found.get("metrics", ()) if metric["verdict"]]


def _by_switch(results: dict[str, Any]) -> dict[str, Any]:
    """How often the live value lies in the interval and the sign is right, by switch."""
    found: dict[str, list[dict[str, Any]]] = {}
    for case in results.values():
        if compared := _metrics(case):
            found.setdefault(case["switch"], []).extend(compared)
    rows = []
    for switch, metrics in found.items():
        inside = [metric for metric in metrics if metric["low"] <= metric["live"] <= metric["high"]]
        rows.append([switch, len(metrics), len(inside), sum(m["sign"] for m in inside)])
    columns = ("switch", "comparisons", "live value in the interval", "and the right sign")
    return table(columns, rows)


def _case(name: str, found: dict[str, Any]) -> list[Any]:
    if "failed" in found:
        return [name, *[None] * 2, found["load"], *[None] * 4, None, found["failed"].strip()]
    facts = (found["switch"], found["kernel"], found["load"], len(found["runs"]), found["ensemble"])
    partial = ", ".join(found["partial"]) or None
    return [name, *facts, found["values"]["A"], found["values"]["B"], partial, None]


def tables(results: dict[str, Any]) -> dict[str, Any]:
    """The tables of all cases."""
    verdicts = Counter(m["verdict"] for found in results.values() for m in _metrics(found))
    rows = [
        [name, metric["metric"], *cells(metric)[1:]]
        for name, found in results.items()
        for metric in (() if "failed" in found else found["metrics"])
    ]
    facts = ("case", "switch", "kernel", "load", "runs", "members", "A", "B")
    columns = ("case", "metric", "A", "B", "ratio", "live", "predicted", "signs", "verdict")
    return {
        "verdicts": table(("verdict", "comparisons"), sorted(verdicts.items())),
        "by_switch": _by_switch(results),
        "cases": table(
            (*facts, "lost events or no exact start", "no result"),
            [_case(name, found) for name, found in results.items()],
        ),
        "metrics": table(columns, rows),
    }


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path, default=Path("build/validation"))
    parser.add_argument("--only", action="append", choices=[case.name for case in ALL_CASES])
    parser.add_argument("--pairs", type=int, help="instead of those of the case")
    parser.add_argument("--ensemble", type=int, default=4)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    for case in ALL_CASES:
        if arguments.only and case.name not in arguments.only:
            continue
        say(f"== {case.name}")
        pairs = arguments.pairs or case.pairs
        if arguments.again:
            again(case, work, arguments.ensemble)
        elif isinstance(case, GuestCase):
            record_in_guest(case, work, pairs)
            again(case, work, arguments.ensemble)
        else:
            options = ["--pairs", str(pairs), "--ensemble", str(arguments.ensemble)]
            record(case, arguments.build, work, options)
    program.give(tables(results(work)))


if __name__ == "__main__":
    program.run(main)
