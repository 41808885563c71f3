# SPDX-License-Identifier: Apache-2.0
"""The systemd units of a recorder that always runs and of its shipper, each with its sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pagetape.recording.eventsets import AUTO, CHEAP, PROC, ZONE

NAME = "pagetape.service"
SHIP = "pagetape-ship.service"
PLACE = Path("etc/systemd/system")  # below the root
ENVIRONMENT = Path("/etc/pagetape/ship.env")  # the keys of the archive's bucket
TAPES = Path("/var/lib/pagetape")  # made by StateDirectory=

DEFAULT = ("--events", "cheap", "--snapshot", "proc", "--rotate", "5min", "--keep", "2GB")

MARK = "# Made by `pagetape install-service`"

# What a recorder may write in tracefs; for zone also the switch of the event with which its BPF
# program prints: printed.py.
_WRITES = ("instances",)
_ZONE_WRITES = (*_WRITES, "events/bpf_trace/bpf_trace_printk/enable")

# Directories that the sandbox hides from a service, and the setting that exposes them.
_HIDDEN = {
    "/home": ("ProtectHome", "read-only"),
    "/root": ("ProtectHome", "read-only"),
    "/run/user": ("ProtectHome", "read-only"),
    "/tmp": ("PrivateTmp", "no"),
    "/var/tmp": ("PrivateTmp", "no"),
}

_MEMORY = 512 << 20  # without the memory of a flight recorder

_NO_NETWORK = """\
PrivateNetwork=yes
IPAddressDeny=any
RestrictAddressFamilies=none
"""

# The end of both units.
_SANDBOX = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={home}
PrivateTmp={tmp}
PrivateMounts=yes
PrivateDevices=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""

_UNIT = """\
{mark}; remove with --uninstall.
[Unit]
Description=pagetape, a recorder of the page allocator
Wants=sys-kernel-tracing.mount
After=sys-kernel-tracing.mount

[Service]
Type=exec
ExecStart={exec}
Restart=on-failure
RestartSec=30
TimeoutStopSec=60
StateDirectory=pagetape
StateDirectoryMode=0700
UMask=0077

# Limits. They do not count the kernel's ring buffers.
CPUWeight=20
{gentle}IOSchedulingClass=idle
MemoryMax={memory}
MemorySwapMax=0

# Rights: {needs}.
CapabilityBoundingSet={capabilities}
ReadWritePaths={writes}
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
{calls}RestrictRealtime={realtime}
{tunables}

# Everything else is forbidden.
ProtectKernelLogs={logs}
{network}{sandbox}"""

# The shipper: its rights are to read the tapes, and to send them.
_SHIP_UNIT = """\
{mark}; remove with --uninstall.
[Unit]
Description=pagetape, sends finished tapes to {url}
Wants=network-online.target
After=network-online.target pagetape.service

[Service]
Type=exec
ExecStart={exec}
EnvironmentFile=-{environment}
Restart=always
RestartSec=30
UMask=0077

# Limits. A tape is in memory while it is sent.
Nice=10
CPUWeight=20
CPUQuota=25%
IOSchedulingClass=idle
MemoryMax=1G
MemorySwapMax=0

# Rights: {needs}.
CapabilityBoundingSet=
{places}
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
RestrictRealtime=yes

# Everything else is forbidden.
ProtectKernelLogs=yes
ProtectKernelTunables=yes
ProtectProc=invisible
{network}{sandbox}"""


def _quoted(word: str) -> str:
    """A word of ExecStart=, with %, $, quotes and backslashes escaped."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if not word or set(word) & set(" \t\"'\\;>") else word


def unit(
    program: Path,
    options: Sequence[str],
    *,
    events: str,
    exact: bool,
    stacks: bool = False,
    ring_memory: float = 0,
) -> str:
    """The text of the unit that runs `program record` with these options.

    Root without capabilities may trace and read /proc. Capabilities are needed for the priority of
    the ring readers, for the kernel addresses of vmstat_update() and stacks, and for BPF and held
    CPUs in exact snapshots. A recorder of /proc over time needs none, and no place in tracefs.
    """
    traces = events != PROC
    capabilities = ["CAP_SYS_NICE"] if traces else []
    needs = ["priority for its readers"] if traces else []
    addresses = exact or stacks or events == "all"
    if addresses:
        capabilities.append("CAP_SYSLOG")
        needs.append("addresses of kernel functions")
    if exact:
        capabilities += ["CAP_BPF", "CAP_PERFMON"]
        needs.append("BPF for exact snapshots")
    places = _ZONE_WRITES if events in (AUTO, ZONE) and exact else _WRITES
    rights = (
        f"its own tracing instance, and {', '.join(needs)}" if traces else "to read /proc as root"
    )
    exec_start = [str(program), "record", "-o", str(TAPES), *options]
    return _UNIT.format(
        mark=MARK,
        exec=" ".join(map(_quoted, exec_start)),
        memory=f"{(_MEMORY + int(ring_memory)) >> 20}M",
        # A recording of every event needs the CPU time.
        gentle="Nice=10\nCPUQuota=25%\n" if events in (CHEAP, PROC) else "",
        needs=rights,
        writes=" ".join(f"-/sys/kernel/tracing/{place}" for place in places if traces),
        capabilities=" ".join(capabilities),
        calls="SystemCallFilter=bpf perf_event_open\n" if exact else "",
        realtime="no" if exact else "yes",
        # ProtectKernelTunables= would hide /proc/kallsyms and forbid loading BPF programs.
        tunables="ReadOnlyPaths=/proc/sys" if addresses else "ProtectKernelTunables=yes",
        logs="no" if addresses else "yes",
        network=_NO_NETWORK,
        sandbox=_sandbox(program),
    )


def _sandbox(*needed: Path) -> str:
    """The end of a unit, whose program needs these paths."""
    shown = dict(
        setting
        for place, setting in _HIDDEN.items()
        if any(Path(place) in path.parents for path in needed)
    )
    return _SANDBOX.format(home=shown.get("ProtectHome", "yes"), tmp=shown.get("PrivateTmp", "yes"))


def ship_unit(program: Path, url: str, directory: Path | None, rate: float | None) -> str:
    """The text of the unit that runs `program ship` to an archive, which may be a directory."""
    limit = () if rate is None else ("--rate", f"{int(rate)}B")
    exec_start = [str(program), "ship", str(TAPES), url, "--follow", *limit]
    places = [f"ReadOnlyPaths=-{TAPES}"]
    if directory is not None:
        places.append(f"ReadWritePaths={_quoted(str(directory))}")
    return _SHIP_UNIT.format(
        mark=MARK,
        url=url.replace("%", "%%"),
        exec=" ".join(map(_quoted, exec_start)),
        environment=ENVIRONMENT,
        needs="the tapes, read only, and "
        + ("the network" if directory is None else "the archive"),
        places="\n".join(places),
        network=_NO_NETWORK if directory else "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\n",
        sandbox=_sandbox(program, *([directory] if directory else [])),
    )
