# SPDX-License-Identifier: Apache-2.0
"""What event sets cost a load, beside no tracing; what stamps add.

    zone_bench.py [--minutes M] [--seconds S] [--load NAME]... [--set NAME]... [--stamps]

Three loads of storm.py: a storm that fits on the per-CPU lists; one that takes pages on one CPU and
frees them on another, so that each passes the lists; and one under pressure, whose pages of files
do not fit into a memory control group, so that each fault reclaims.
For M minutes (4) the loads take turns. A round runs a load for S seconds (2) untraced and with
`record --events SET` for each set (zone and page), in an order that changes, and compares the CPU
time per fault within the round.

Prints one JSON object: for each load the mean of the rounds with its 95 % confidence interval
(bootstrap). `zone_to_page` is the cost of `zone` as a share of the cost of `page`, of the means;
its interval resamples whole rounds. Aims for the storms: 3 % for `zone`, 1 % for `cheap`.

--stamps: rounds compare each set with stamps, without, and without but with an empty BPF program on
each tracepoint that stamps use. Prints medians, in points of the untraced CPU time per fault: what
stamps add (aim: 1 in `fits`, 2 in `crosses`), and what the empty programs add, which no stamp can
fall below; and the bytes of stamps on the tape, in percent of the other bytes (aim: 5). The time of
loads is noisy. `programs` is precise: the kernel counts the time of the programs themselves
(kernel.bpf_stats_enabled), in a run of its own in the set `page`. An empty program of that run
gives the cost of the counting, which is taken off.
"""

import contextlib
import ctypes
import os
import random
import re
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import program
from record_bench import Result, recorded, total_lost, untraced

SETS = ("zone", "page")  # unless others are asked for
STAMPED = ("mm_page_alloc_zone_locked", "mm_page_alloc_extfrag", "mm_page_pcpu_drain")
_RESAMPLES = 1000
_GROUP_MIB, _PRESSED_MIB = 96, 256  # limit of the control group; pages of each process
_GROUPS = (  # of cgroup 1 and 2: where the memory controller is, and the file of its limit
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)


@contextlib.contextmanager
def memory_group(mib: int) -> Iterator[Path]:
    """A memory control group with a limit, for the time of the bench."""
    for place, limit in _GROUPS:
        group = place / f"pagetape-bench-{os.getpid()}"
        if not (place / "cgroup.procs").exists():
            continue
        group.mkdir()
        try:
            if (group / limit).exists():
                (group / limit).write_text(str(mib << 20))
                yield group
                return
        finally:
            group.rmdir()
    sys.exit("zone_bench: no memory controller in /sys/fs/cgroup; leave out --load pressed")


def measure(seconds: float, number: int, load: Sequence[str], sets: Sequence[str]) -> Result:
    """A round: extra CPU time per fault, as a share of the untraced one, of the load alone and with
    that of the recorder."""
    names = ["none", *sets]
    first = number % len(names)
    found = {}
    for name in names[first:] + names[:first]:
        if name == "none":
            found[name] = untraced(seconds, *load)
        else:
            found[name] = recorded(name, seconds, *load)
    base = found["none"]["cpu_ns_per_fault"]
    result: Result = {"untraced_ns": base}
    for name in sets:
        ours = found[name]
        recorder_ns = ours["parent_cpu_s"] * 1e9 / (ours["faults_per_s"] * seconds)
        result[name] = ours["cpu_ns_per_fault"] / base - 1
        result[f"{name} with recorder"] = result[name] + recorder_ns / base
        result[f"{name} info"] = ours["info"]
    return result


def interval(rounds: Sequence[Result], figure: Callable[[Sequence[Result]], float]) -> list[float]:
    """A figure of the rounds, and its 95 % confidence interval; the same on every call."""
    dice = random.Random(1)
    drawn = sorted(figure(dice.choices(rounds, k=len(rounds))) for _ in range(_RESAMPLES))
    return [figure(rounds), drawn[_RESAMPLES // 40], drawn[-_RESAMPLES // 40]]


def mean(name: str, factor: float = 1) -> Callable[[Sequence[Result]], float]:
    return lambda rounds: factor * statistics.fmean(one[name] for one in rounds)


def zone_to_page(rounds: Sequence[Result]) -> float:
    page = mean("page")(rounds)
    return mean("zone")(rounds) / page if page else float("inf")


def words(found: Sequence[float], digits: int) -> str:
    """A figure and its interval."""
    value, low, high = (f"{one:.{digits}f}" for one in found)
    return f"{value} [{low} to {high}]"


class EmptyProgram:
    """A BPF program on a tracepoint that does nothing: its calls are all that it costs."""

    _LOAD, _ATTACH, _RAW_TRACEPOINT = 5, 17, 17  # bpf(2)
    _SYSCALL = {"x86_64": 321, "aarch64": 280}[os.uname().machine]

    def __init__(self, tracepoint: str) -> None:
        code = struct.pack("=QQ", 0xB7, 0x95)  # r0 = 0; exit
        self._keep = [ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")]
        code_at, license_at = map(ctypes.addressof, self._keep)
        load = struct.pack("=IIQQ104x", self._RAW_TRACEPOINT, 2, code_at, license_at)
        self._program = self._bpf(self._LOAD, load)
        name = ctypes.create_string_buffer(tracepoint.encode())
        attach = struct.pack("=QI116x", ctypes.addressof(name), self._program)
        self._link = self._bpf(self._ATTACH, attach)

    def _bpf(self, command: int, attributes: bytes) -> int:
        given = ctypes.create_string_buffer(attributes, len(attributes))
        libc = ctypes.CDLL(None, use_errno=True)
        fd = int(libc.syscall(self._SYSCALL, command, given, len(attributes)))
        if fd < 0:
            raise OSError(ctypes.get_errno(), "the kernel refuses an empty BPF program")
        return fd

    def runs(self) -> tuple[int, int]:
        text = Path(f"/proc/self/fdinfo/{self._program}").read_text()
        found = dict(re.findall(r"^(run_cnt|run_time_ns):\s*(\d+)$", text, re.M))
        return int(found["run_cnt"]), int(found["run_time_ns"])

    def close(self) -> None:
        os.close(self._link)
        os.close(self._program)


@contextlib.contextmanager
def bpf_stats() -> Iterator[None]:
    """The kernel counts the runs of BPF programs, and their time."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


@contextlib.contextmanager
def empty_programs() -> Iterator[None]:
    """Empty programs where stamps have theirs."""
    with contextlib.ExitStack() as stack:
        for tracepoint in STAMPED:
            stack.enter_context(contextlib.closing(EmptyProgram(tracepoint)))
        yield


def counted_programs(seconds: float, load: Sequence[str], base: float) -> Result:
    """The time of the programs of stamps, as the kernel counts it; `base`: ns a fault untraced."""
    with bpf_stats(), contextlib.closing(EmptyProgram("mm_page_pcpu_drain")) as empty:
        found = recorded("page", seconds, *load, stamps="on")
        empty_runs, empty_ns = empty.runs()
    counting = empty_ns / max(empty_runs, 1)
    faults = found["faults_per_s"] * seconds
    runs, ns = (found[f"bpf_{figure}"] / faults for figure in ("runs", "ns"))
    return {"empty": counting, "programs": 100 * (ns - runs * counting) / base, "runs": runs}


def measure_stamps(seconds: float, number: int, load: Sequence[str], sets: Sequence[str]) -> Result:
    """A round: the points and bytes that stamps add to each set."""
    base = untraced(seconds, *load)["cpu_ns_per_fault"]
    result: Result = {"untraced_ns": base} | counted_programs(seconds, load, base)
    ways = ("off", "on", "empty")
    for name in sets:
        found = {}
        for way in ways[number % 3 :] + ways[: number % 3]:
            with empty_programs() if way == "empty" else contextlib.nullcontext():
                found[way] = recorded(name, seconds, *load, stamps="on" if way == "on" else "off")
        cpu = {way: one["cpu_ns_per_fault"] for way, one in found.items()}
        info, size = found["on"]["info"], found["on"]["stamp_bytes"]
        result[f"{name} points"] = 100 * (cpu["on"] - cpu["off"]) / base
        result[f"{name} empty"] = 100 * (cpu["empty"] - cpu["off"]) / base
        result[f"{name} bytes"] = 100 * size / (info["bytes"] - size)
        result[f"{name} events"] = info["stored"] / max(info["stamps"], 1)
    return result


def median(name: str) -> Callable[[Sequence[Result]], float]:
    return lambda rounds: statistics.median(one[name] for one in rounds)


def row_of_stamps(load: str, rounds: Sequence[Result], sets: Sequence[str]) -> dict[str, Any]:
    """What stamps add to a load, with 95 % intervals of the medians."""
    found: dict[str, Any] = {"load": load, "rounds": len(rounds)}
    found["untraced, ns a fault"] = median("untraced_ns")(rounds)
    found["programs, points"] = words(interval(rounds, median("programs")), 2)
    found["programs, runs a fault"] = round(median("runs")(rounds), 2)
    found["an empty run, ns"] = round(median("empty")(rounds), 1)
    for name in sets:
        found[f"{name}, points more"] = words(interval(rounds, median(f"{name} points")), 1)
        found[f"{name}, points of empty programs"] = words(
            interval(rounds, median(f"{name} empty")), 1
        )
        found[f"{name}, bytes, % more"] = words(interval(rounds, median(f"{name} bytes")), 1)
        found[f"{name}, events a stamp"] = round(median(f"{name} events")(rounds))
    return found


def row(load: str, rounds: Sequence[Result], sets: Sequence[str]) -> dict[str, Any]:
    """The figures of a load."""
    found: dict[str, Any] = {"load": load, "rounds": len(rounds)}
    found["untraced, ns a fault"] = statistics.median(one["untraced_ns"] for one in rounds)
    for name in sets:
        infos = [one[f"{name} info"] for one in rounds]
        for who in (name, f"{name} with recorder"):
            found[f"{who}, % more"] = words(interval(rounds, mean(who, 100)), 1)
        found[f"{name}, events/s"] = statistics.median(
            sum(info["events"].values()) / info["duration_s"] for info in infos
        )
        found[f"{name}, lost"] = total_lost(infos)
    if set(SETS) <= set(sets):
        found["zone / page"] = words(interval(rounds, zone_to_page), 2)
    return found


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--set", action="append", choices=("cheap", *SETS))
    parser.add_argument("--stamps", action="store_true")
    loads: dict[str, list[str]] = {"fits": ["1"], "crosses": ["16", "cross"], "pressed": []}
    parser.add_argument("--load", action="append", choices=loads)
    args = parser.parse_args()
    sets = SETS if args.stamps else args.set or SETS
    one_round, as_row = (measure_stamps, row_of_stamps) if args.stamps else (measure, row)
    rounds: dict[str, list[Result]] = {name: [] for name in args.load or loads}
    until = time.monotonic() + 60 * args.minutes
    with contextlib.ExitStack() as stack:
        if "pressed" in rounds:
            group = stack.enter_context(memory_group(_GROUP_MIB))
            loads["pressed"] = [str(_PRESSED_MIB), str(group)]
        while time.monotonic() < until or not all(rounds.values()):
            name = min(rounds, key=lambda name: len(rounds[name]))
            rounds[name].append(one_round(args.seconds, len(rounds[name]), loads[name], sets))
    program.give({"loads": [as_row(name, those, sets) for name, those in rounds.items()]})


if __name__ == "__main__":
    program.run(main)
