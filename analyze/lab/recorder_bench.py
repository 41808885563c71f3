#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a recorder itself takes: at its start, and while nothing happens.

    recorder_bench.py [--before DIR] [--rounds N] [--idle SECONDS]

Starts: the time of the first line, and the CPU time of the recorder and its children until the
kernel traces and until they end, for recordings of one second. Medians of the rounds.

Idle: a recorder of the cheap set, long after its start: its memory by kind, its context switches
and its CPU time, and what a machine of 256 CPUs adds to them.

--before names the tree of another build, with its own .venv. Its recorders take turns with those of
this one at the start, and run beside them when idle. Needs root, and a machine without other work.
"""

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import program

from pagetape._collector import plan
from pagetape.recording.memory import Demand, Limit, fit

SETS = ("cheap", "zone", "page")
MANY_CPUS = 256
_LOOK_S = 0.002
_SETTLED_S = 16  # from the start to the first measurement of an idle recorder
_DEMAND = Demand(0, exact=False, defer=False, may_defer=False)
_TICKS = os.sysconf("SC_CLK_TCK")

# Of a thread: switches of its own will, other switches, CPU seconds.
Costs = tuple[int, int, float]

# Kinds of mappings in smaps, by the end of their names; the first that matches.
_KINDS = {
    "Python and C heap": r"|\[.*\]",
    "spools in memory": r".*/spool/cpu\d+",
    "Arrow": r".*/(libarrow|libparquet|lib\.cpython)[^/]*",
    "other libraries": r".*",
}


@contextmanager
def _recorder(pagetape: Path, events: str, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """A recorder that runs, with its lines in a pipe."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        command = [pagetape, "record", "--events", events, "-o", f"{directory}/t.tape"]
        process = subprocess.Popen([*command, "--duration", f"{seconds}s"], stderr=subprocess.PIPE)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
            assert process.stderr
            process.stderr.close()


def _cpu(pid: int) -> tuple[float, float]:
    """CPU seconds of a process and its ended children so far: in all, and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    user, kernel, of_children, of_children_kernel = (int(field) / _TICKS for field in fields)
    return user + kernel + of_children + of_children_kernel, kernel + of_children_kernel


@dataclass(frozen=True)
class Start:
    """One recording of a second."""

    line_s: float  # until the first line
    traced: tuple[float, float]  # CPU s until the kernel traces: in all, and in the kernel
    whole: tuple[float, float]  # CPU s until the end
    memory: float  # most, MiB


def start(pagetape: Path, events: str) -> Start:
    began = time.monotonic()
    with _recorder(pagetape, events, 1) as process:
        assert process.stderr
        os.set_blocking(process.stderr.fileno(), False)
        line_s, said = None, b""
        while not program.tracing(process.pid):
            said += process.stderr.read() or b""
            if said and line_s is None:
                line_s = time.monotonic() - began
            if process.poll() is not None:
                raise ValueError(said.decode().strip() or f"{pagetape} recorded nothing")
            time.sleep(_LOOK_S)
        traced = _cpu(process.pid)
        os.set_blocking(process.stderr.fileno(), True)
        process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    whole = usage.ru_utime + usage.ru_stime, usage.ru_stime
    return Start(line_s or 0.0, traced, whole, usage.ru_maxrss / 1024)


def starts(builds: dict[str, Path], rounds: int) -> Iterator[list[object]]:
    """Rows of medians, by build and event set."""
    found: dict[tuple[str, str], list[Start]] = {(b, s): [] for s in SETS for b in builds}
    for number in range(rounds):
        program.say(f"start {number + 1} of {rounds}")
        for (build, events), those in found.items():
            those.append(start(builds[build], events))
    for (build, events), those in found.items():
        figures = [(s.line_s, *s.traced, *s.whole, s.memory) for s in those]
        yield [build, events, *(round(statistics.median(x), 3) for x in zip(*figures, strict=True))]


def _memory(pid: int) -> dict[str, float]:
    """Resident memory, also by kind, MiB."""
    found: Counter[str] = Counter()
    kind = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if place := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(.*)", line):
            kind = next(kind for kind, names in _KINDS.items() if re.fullmatch(names, place[1]))
        elif line.startswith("Rss:"):
            found[kind] += int(line.split()[1])
    of_kinds = {f"of it {kind}": found[kind] / 1024 for kind in _KINDS}
    return {"memory, MiB": sum(of_kinds.values()), **of_kinds}


def _threads(pid: int) -> dict[str, Costs]:
    """What each thread took so far."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        own, other = re.findall(r"ctxt_switches:\s+(\d+)", (task / "status").read_text())
        cpu = int((task / "schedstat").read_text().split()[0]) / 1e9
        name = (task / "comm").read_text().strip()
        found[f"{name} {task.name}"] = int(own), int(other), cpu
    return found


def idle(builds: dict[str, Path], seconds: float) -> list[list[object]]:
    """Rows of figures with a column for each build; the recorders run at the same time."""
    with ExitStack() as stack:
        pids = {}
        for build, pagetape in builds.items():
            recorder = stack.enter_context(_recorder(pagetape, "cheap", seconds + 60))
            pids[build] = recorder.pid
        program.say(f"idle for {seconds:.0f} s")
        time.sleep(_SETTLED_S)
        before = {build: _threads(pid) for build, pid in pids.items()}
        time.sleep(seconds)
        found = [
            _costs(before[build], _threads(pid), seconds) | _memory(pid)
            for build, pid in pids.items()
        ]
    return [[name, *(round(figures[name], 3) for figures in found)] for name in found[0]]


def _costs(then: dict[str, Costs], now: dict[str, Costs], seconds: float) -> dict[str, float]:
    """Switches and CPU time per second, here and on a machine of many CPUs."""
    each = {
        name: [(after - before) / seconds for before, after in zip(then[name], costs, strict=True)]
        for name, costs in now.items()
        if name in then
    }
    readers = [costs for name, costs in each.items() if re.match(r"pagetape/\d+ ", name)]
    own, other, cpu = (sum(costs) for costs in zip(*each.values(), strict=True))
    reader, _, reader_cpu = (statistics.fmean(costs) for costs in zip(*readers, strict=True))
    more = MANY_CPUS - len(readers)
    return {
        "switches/s": own,
        "switches/s that others cause": other,
        "CPU, %": 100 * cpu,
        f"switches/s on {MANY_CPUS} CPUs": own + more * reader,
        f"CPU on {MANY_CPUS} CPUs, %": 100 * (cpu + more * reader_cpu),
    }


def planned() -> Iterator[list[object]]:
    """Rows about what the CPUs of a machine add to a recorder, as it plans it."""
    for cpus in (2, 16, 64, MANY_CPUS):
        rare, all_events = (
            fit(replace(_DEMAND, cpus=cpus, rare=rare), Limit(1 << 40, "", whole=False))
            for rare in (True, False)
        )
        spools = (rare.spools, all_events.spools)
        yield [cpus, *(round(size / 2**20, 1) for size in spools), plan(cpus)["threads"]]


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--before", type=Path, metavar="DIR", help="the tree of another build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=60, metavar="SECONDS")
    given = parser.parse_args()
    builds = {"before": given.before / ".venv/bin/pagetape"} if given.before else {}
    builds["this"] = program.BIN / "pagetape"
    cpu = ["tracing, CPU s", "tracing, kernel", "all, CPU s", "all, kernel", "most memory, MiB"]
    planning = ["CPUs", "spools of rare events, MiB", "spools, MiB", "threads"]
    program.give(
        {
            "starts": program.table(
                ["build", "events", "first line, s", *cpu], starts(builds, given.rounds)
            ),
            "idle": program.table(["figure", *builds], idle(builds, given.idle)),
            "planned": program.table(planning, planned()),
        }
    )


if __name__ == "__main__":
    program.run(main)
