# SPDX-License-Identifier: Apache-2.0
"""Checks of what this machine can record. A check reads files, or tries a feature if it must.

The checks leave nothing behind: they remove their tracing instance and unload the programs
of the exact snapshot.
"""

import contextlib
import mmap
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from pagetape import answer, libraries
from pagetape.recording import eventsets, memory
from pagetape.recording.exact import Exact, ExactSnapshots
from pagetape.schemas import TABLES, VERSION

TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))

# Capabilities that pagetape uses: number and purpose of each.
_CAPABILITIES = {
    "DAC_READ_SEARCH": (2, "kpageflags and pagetypeinfo"),
    "SYS_ADMIN": (21, "mounting tracefs"),
    "SYS_NICE": (23, "an exact snapshot that holds the CPUs still"),
    "SYSLOG": (34, "vmstat ticks, where kernel addresses are hidden"),
    "PERFMON": (38, "an exact snapshot"),
    "BPF": (39, "an exact snapshot"),
}

# The most that an event of a lock costs, ns (analyze/lab/event_cost.py), and how long they are
# counted, s.
_LOCK_EVENT_NS = 500
_LOCKS_S = 0.2

_INSTANCE = re.compile(r"pagetape-(\d+)-(\d+)")
_LITTLE_DISK = 256 << 20

# CPUs in a page-fault storm (1.35 M events/s each) that one decoder can follow, with the writing of
# the tape: 5 M events/s (analyze/lab/import_bench.py).
_DECODER_CPUS = 4


@dataclass(frozen=True)
class Check:
    """The result of one check. `ok` is None for a fact or a restriction that is not a failure."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""
    needed: bool = False  # `pagetape record` fails without it


def can_record(checks: list[Check]) -> bool:
    """Whether this machine meets all needs of `pagetape record`."""
    return not any(check.needed and check.ok is False for check in checks)


def run() -> list[Check]:
    """All checks, in the order of the report."""
    return [check for checks in _CHECKS for check in checks()]


def _text(path: Path | str) -> str:
    """A small file's text; empty if it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _readable(path: str) -> bool:
    """Whether a file can be read; opens it, because os.access() ignores capabilities."""
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def _start_time(pid: int) -> int:
    """Start time of a process, as in its instance's name; 0 if there is no such process."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


# --- user and kernel


def _lacking() -> str | None:
    """What the collector lacks; None if it works."""
    try:
        import_module("pagetape._collector")
    except ImportError as e:
        return libraries.missing(e) or str(e)
    return None


def _libraries() -> Iterator[Check]:
    if lacking := _lacking():
        yield Check("trace libraries", False, lacking, "all else works without", needed=True)
    else:
        yield Check("trace libraries", True, "libtraceevent, libtracefs, libtracecmd")


def _kernel() -> Iterator[Check]:
    yield Check("kernel", None, platform.release())


def _user() -> Iterator[Check]:
    """Check the capabilities: they decide what a user may record, not the user id."""
    effective = int(re.findall(r"^CapEff:\s*(\w+)", _text("/proc/self/status"), re.M)[0], 16)
    missing = {name: use for name, (bit, use) in _CAPABILITIES.items() if not effective >> bit & 1}
    uid = os.geteuid()
    who = "root" if uid == 0 else f"user {uid}"
    if not missing:
        yield Check("capabilities", True, f"{who}, with all capabilities that pagetape uses")
        return
    held = [f"CAP_{name}" for name in _CAPABILITIES if name not in missing]
    without = ", ".join(f"CAP_{name} ({use})" for name, use in missing.items())
    yield Check(
        "capabilities", None, f"{who}, with {', '.join(held) or 'none'}", f"without {without}"
    )


def _lockdown() -> Iterator[Check]:
    text = _text("/sys/kernel/security/lockdown")
    mode = re.search(r"\[(\w+)\]", text)
    if mode is None:
        yield Check("lockdown", None, "none, or securityfs is not mounted")
    elif mode[1] == "confidentiality":
        words = "confidentiality: the kernel refuses tracing and BPF reads"
        yield Check("lockdown", False, words, "boot with lockdown=integrity", needed=True)
    else:
        yield Check("lockdown", True, mode[1])


# --- tracing


def tracefs() -> Path | None:
    """The mount point of tracefs, if this user may list it."""
    return next((path for path in TRACEFS if _may_list(path / "events")), None)


def _may_list(path: Path) -> bool:
    try:
        next(path.iterdir())
    except OSError:
        return False
    return True


def _tracing() -> Iterator[Check]:
    root = tracefs()
    if root is None:
        yield _no_tracefs()
        return
    events = list(_events(root))
    instance = root / "instances" / f"pagetape-{os.getpid()}-{_start_time(os.getpid())}"
    try:
        instance.mkdir()
    except OSError as e:
        found = f"{root}: cannot make an instance: {e.strerror}"
        yield Check("tracefs", False, found, _GIVE_TRACEFS, needed=True)
        yield from events
        return
    try:
        yield Check("tracefs", True, str(root), needed=True)
        yield from events
        yield from _instance(instance)
    finally:
        instance.rmdir()


_GIVE_TRACEFS = f"run as root, or give it to a user: mount -o remount,uid=USER {TRACEFS[0]}"


def _no_tracefs() -> Check:
    mounted = any(line.split()[2] == "tracefs" for line in _text("/proc/mounts").splitlines())
    if mounted or os.geteuid():
        why = "no access" if mounted else "not mounted"
        return Check("tracefs", False, why, _GIVE_TRACEFS, needed=True)
    return Check("tracefs", None, "not mounted; record mounts it", needed=True)


def _events(root: Path) -> Iterator[Check]:
    for name in eventsets.SETS:
        if name == eventsets.PROC:
            continue
        wanted = set(eventsets.tracepoints(name))
        kinds = [k for table in TABLES.values() for k in table.kinds if wanted & {*k.tracepoints}]
        missing = [
            kind.tracepoints[0]
            for kind in kinds
            if not any((root / "events" / t.replace(":", "/")).is_dir() for t in kind.tracepoints)
        ]
        found = f"{len(kinds) - len(missing)} of {len(kinds)} kinds of events"
        ok = True if not missing else None if len(missing) < len(kinds) else False
        lack = f"this kernel has no {', '.join(missing)}" if missing else ""
        yield Check(f"--events {name}", ok, found, lack, needed=name == "page")


def _proc_files() -> Iterator[Check]:
    """Check the files of /proc over time."""
    names = ("zoneinfo", "buddyinfo", "vmstat", "pagetypeinfo")
    lacking = [name for name in names if not os.access(Path("/proc", name), os.R_OK)]
    found = f"{len(names) - len(lacking)} of {len(names)} files of /proc"
    ok = True if not lacking else None if lacking == ["pagetypeinfo"] else False
    lack = f"this user may not read {', '.join(lacking)}" if lacking else ""
    yield Check(f"--events {eventsets.PROC}", ok, found, lack)


def _instance(instance: Path) -> Iterator[Check]:
    """Check the settings of a tracing instance that this check creates."""
    yield _clock(instance)
    yield _sub_buffer(instance)
    if not _lacking():
        yield from _memory_of(os.cpu_count() or 1)
    yield from _lock_events(instance)
    trigger = _text(instance / "events/kmem/mm_page_alloc_extfrag/trigger")
    if "stacktrace" in trigger:
        yield Check("stacks", True, "the kernel can record them with fallbacks")
    else:
        yield Check("stacks", False, "the kernel has none", "a kernel with CONFIG_STACKTRACE")


def _lock_events(instance: Path) -> Iterator[Check]:
    """What the event set lock costs at the contention of this moment.

    ftrace's filter sees the events of every lock of the kernel, and the ring those of zones.
    """
    switches = [
        instance / "events" / point.replace(":", "/") / "enable"
        for point in eventsets.tracepoints(eventsets.LOCK)
    ]
    switches = [switch for switch in switches if switch.exists()]
    if not switches:
        return
    try:
        for switch in switches:
            switch.write_text("1")
        began = time.monotonic()
        time.sleep(_LOCKS_S)
        for switch in switches:
            switch.write_text("0")
        seconds = time.monotonic() - began
    except OSError as e:
        yield Check("lock events", None, f"unknown: {e.strerror}")
        return
    stats = "\n".join(_text(path) for path in instance.glob("per_cpu/cpu*/stats"))
    events = sum(map(int, re.findall(r"^(?:entries|overrun): (\d+)$", stats, re.M)))
    found = f"{events / seconds:,.0f} events of contended locks per second now"
    share = 100 * events * _LOCK_EVENT_NS / (1e9 * seconds)
    yield Check(
        "lock events", None, f"{found}: at most {share:.2g} % of one CPU with --events lock"
    )


def _memory_of(cpus: int) -> Iterator[Check]:
    from pagetape._collector import default_ring_kb

    rings, whole = default_ring_kb() * 1024 * cpus, memory.machine()
    share = f"{answer.size(rings)} of {answer.size(whole)}, {default_ring_kb():,} kB for each CPU"
    yield Check("ring memory", None, share)
    yield _recorder(cpus)


def _recorder(cpus: int) -> Check:
    """What a recorder takes, and whether its one decoder follows a page-fault storm on all CPUs."""
    from pagetape._collector import plan

    needs = plan(cpus)
    found = (
        f"{answer.size(needs['memory'])} of spool memory, {needs['threads']} threads,"
        f" {needs['files']} open files for the rings and spools"
    )
    if cpus <= _DECODER_CPUS:
        return Check("recorder", None, found)
    behind = f"a page-fault storm on more than {_DECODER_CPUS} CPUs is too much for one decoder"
    return Check("recorder", None, found, f"{behind}: record it with --defer or --events cheap")


def _clock(instance: Path) -> Check:
    try:
        (instance / "trace_clock").write_text("mono")
    except OSError as e:
        return Check(
            "clock", False, f"the kernel refuses mono: {e.strerror}", _GIVE_TRACEFS, needed=True
        )
    return Check("clock", True, "mono, as CLOCK_MONOTONIC", needed=True)


def _sub_buffer(instance: Path) -> Check:
    path, wanted = instance / "buffer_subbuf_size_kb", 64
    if not path.exists():
        return Check("sub-buffers", None, f"{mmap.PAGESIZE // 1024} kB, fixed before Linux 6.8")
    with contextlib.suppress(OSError):
        path.write_text(str(wanted))
    size = int(_text(path) or 0)
    if size >= wanted:
        return Check("sub-buffers", True, f"{size} kB")
    return Check("sub-buffers", None, f"{size} kB", f"{wanted} kB in one piece were refused")


def _tracers() -> Iterator[Check]:
    """Other tracers. A recording and other tracers do not disturb each other."""
    root = tracefs()
    if root is None:
        return
    try:
        names = sorted(entry.name for entry in (root / "instances").iterdir())
    except OSError as e:
        yield Check("other tracers", None, f"unknown: {e.strerror}")
        return
    ours = [match for name in names if (match := _INSTANCE.fullmatch(name))]
    left = [m[0] for m in ours if _start_time(int(m[1])) != int(m[2])]
    busy = [m[0] for m in ours if m[0] not in left and int(m[1]) != os.getpid()]
    others = [name for name in names if not _INSTANCE.fullmatch(name)]
    tracer = _text(root / "current_tracer")
    if tracer not in ("", "nop"):
        others.append(f"tracer {tracer}")
    if enabled := _text(root / "set_event").splitlines():
        others.append(f"{answer.amount(len(enabled), 'event')} of the top instance")
    remedy = "the next recording removes it" if left else ""
    yield Check("left over", None if left else True, ", ".join(left) or "nothing", remedy)
    yield Check("other recorders", None, ", ".join(busy) or "none")
    yield Check("other tracers", None, ", ".join(others) or "none")


# --- state of the machine


def _exact_snapshot() -> Iterator[Check]:
    began = time.monotonic()
    with contextlib.closing(ExactSnapshots()) as snapshots:
        loaded = time.monotonic()
        exact = snapshots.take(0)
        taken = time.monotonic()
    if not exact.facts:
        yield Check("exact snapshot", False, exact.why or "")
        return
    found = f"taken in {1e3 * (taken - loaded):.1f} ms, loaded in {1e3 * (loaded - began):.0f} ms"
    if exact.why is None:
        yield Check("exact snapshot", True, found)
    else:
        yield Check("exact snapshot", None, f"{found}; it is not exact: {exact.why}")
    yield Check("  its cost", None, _cost(exact))


def _cost(exact: Exact) -> str:
    facts, tables = exact.facts, exact.tables
    lock = max(zone["lock_ns"] for zone in facts["zones"]) / 1e6
    blocks, pages = tables["free_block"].num_rows, tables["pcp_page"].num_rows
    return (
        f"zone lock held for {lock:.2f} ms, {facts['held_cpus'] + 1} of {facts['cpus']} CPUs for"
        f" {facts['held_ns'] / 1e6:.2f} ms, to read {answer.amount(blocks, 'free block')} and"
        f" {answer.amount(pages, 'PCP page')}"
    )


def _file(name: str, path: str, lack: str, remedy: str) -> Iterator[Check]:
    if _readable(path):
        yield Check(name, True, path)
    else:
        yield Check(name, False, f"{path} cannot be read: {lack}", remedy)


def _needed_for_exact(name: str, path: str, option: str) -> Iterator[Check]:
    return _file(name, path, "no exact snapshot", f"a kernel with {option}")


def _kallsyms() -> Iterator[Check]:
    """Kernel symbols; the exact snapshot needs none of them."""
    found = re.findall(
        r"^(\w+) (\w) (vmstat_update|node_data|contig_page_data)$", _text("/proc/kallsyms"), re.M
    )
    data = any(kind in "dDbB" for _, kind, _ in found)
    note = "with" if data else "without"
    words = f"{note} data symbols (CONFIG_KALLSYMS_ALL), which pagetape does not need"
    if any(name == "vmstat_update" and int(address, 16) for address, _, name in found):
        yield Check("kallsyms", True, words)
        return
    settings = ", ".join(
        f"kernel.{name}={_text(f'/proc/sys/kernel/{name}')}"
        for name in ("kptr_restrict", "perf_event_paranoid")
    )
    yield Check(
        "kallsyms",
        None,
        f"addresses are hidden ({settings}): vmstat ticks are not recorded",
        "CAP_SYSLOG",
    )


def _sysctls() -> Iterator[Check]:
    names = ("unprivileged_bpf_disabled", "perf_event_paranoid", "kptr_restrict")
    found = ", ".join(f"{name} {_text(f'/proc/sys/kernel/{name}') or 'unknown'}" for name in names)
    yield Check("sysctls", None, f"{found}: a recorder with capabilities works with any value")


def _cgroups() -> Iterator[Check]:
    lines = [line.split() for line in _text("/proc/mounts").splitlines()]
    where = [fields[1] for fields in lines if fields[2] == "cgroup2"]
    yield Check("cgroup v2", bool(where) or None, where[0] if where else "not mounted")


def _disk() -> Iterator[Check]:
    try:
        free = shutil.disk_usage(".").free
    except OSError as e:
        yield Check("disk", None, f"the working directory: {e.strerror}")
        return
    little = free < _LITTLE_DISK
    found = f"{answer.size(free)} free in {Path.cwd()}"
    yield Check("disk", not little, found, "record to another disk with -o" if little else "")


def _versions() -> Iterator[Check]:
    parts = [f"{name} {version(name)}" for name in ("pagetape", "pyarrow", "duckdb")]
    yield Check("versions", None, ", ".join([*parts, f"tape schema {VERSION}"]))


_CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (
    _kernel,
    _user,
    _libraries,
    _lockdown,
    _sysctls,
    _tracing,
    _tracers,
    _exact_snapshot,
    partial(_needed_for_exact, "BTF", "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"),
    partial(_needed_for_exact, "vmcoreinfo", "/sys/kernel/vmcoreinfo", "CONFIG_VMCORE_INFO"),
    partial(
        _file,
        "kpageflags",
        "/proc/kpageflags",
        "without it, movable pages, and free blocks without an exact snapshot, stay unknown",
        "run as root, or with CAP_DAC_READ_SEARCH",
    ),
    partial(
        _file,
        "pagetypeinfo",
        "/proc/pagetypeinfo",
        "without it, migratetypes of free lists stay unknown unless a snapshot is exact",
        "run as root, or with CAP_DAC_READ_SEARCH",
    ),
    _proc_files,
    _kallsyms,
    _cgroups,
    _disk,
    _versions,
)
