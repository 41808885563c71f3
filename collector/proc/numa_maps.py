# SPDX-License-Identifier: Apache-2.0
"""Memory policies of processes, from copies of /proc/PID/numa_maps and status.

One text holds the lines of many processes, as grep prints them:

    grep -H '' /proc/[0-9]*/numa_maps /proc/[0-9]*/task/[0-9]*/numa_maps
    grep -H Mems_allowed_list /proc/[0-9]*/status

A line of numa_maps begins with an address and a policy as mpol_to_str() of the kernel prints
it: default, local, prefer:1, bind=static:0-1, interleave:0-3 and others. Reading numa_maps
makes the kernel walk the page tables of the process.
"""

import contextlib
import re
from pathlib import Path
from typing import Any

from pagetape.procfs import parse_list

Row = dict[str, Any]

_MODES = r"default|local|prefer \(many\)|prefer|bind|weighted interleave|interleave"
_LINE = re.compile(
    r"^.*?/(?:\d+/task/)?(\d{1,9})/(?:"
    rf"numa_maps:[0-9a-f]+ ((?:{_MODES})(?:=[a-z|]+)?(?::[\d,-]+)?)(?: .*)?|"
    r"status:Mems_allowed_list:\s*([\d,-]+))$",
    re.MULTILINE | re.ASCII,
)


_OWN_NODE = {"default", "local"}  # no policy: requests prefer the CPU's node


def preference_of(row: Row, nodes: set[int]) -> str | None:
    """The preferred node of a row of memory_policy, if memory is on `nodes`.

    A label of the table preference: cpu or landed; None if the policy is unknown.
    """
    if row["cpuset"] is not None and not nodes.issubset(parse_list(row["cpuset"])):
        return "landed"
    if row["policy"] is None:
        return None
    return "cpu" if _OWN_NODE.issuperset(row["policy"].split(", ")) else "landed"


def parse(text: str) -> list[Row]:
    """Rows of the table memory_policy; none if no line matches."""
    policies: dict[int, dict[str, None]] = {}
    cpusets: dict[int, str] = {}
    for pid, policy, mems in map(re.Match.groups, _LINE.finditer(text)):
        if mems:
            cpusets[int(pid)] = mems
        else:
            policies.setdefault(int(pid), {})[policy] = None
    return [
        {
            "pid": pid,
            "policy": ", ".join(policies[pid]) if pid in policies else None,
            "cpuset": cpusets.get(pid),
        }
        for pid in sorted(policies.keys() | cpusets.keys())
    ]


def _lines(path: Path) -> list[str]:
    """The lines of a file as grep -H prints them; none if the file is gone or not readable."""
    text = ""
    with contextlib.suppress(OSError):
        text = path.read_text("utf-8", "replace")
    return [f"{path}:{line}\n" for line in text.splitlines()]


class Processes:
    """The memory policies of this machine's processes, each read once."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._seen: set[str] = set()

    def restart(self) -> None:
        """Make the next take() read all processes again."""
        self._seen = set()

    def take(self) -> list[Row]:
        """Rows of memory_policy for processes that are new since the last call."""
        there = {path.name for path in self._proc.iterdir() if path.name.isdigit()}
        new = sorted(there - self._seen, key=int)
        self._seen = there
        lines = (
            line
            for pid in new
            for name in ("numa_maps", "status")
            for line in _lines(self._proc / pid / name)
        )
        return parse("".join(lines))
