# SPDX-License-Identifier: Apache-2.0
"""The switches: settings of the kernel that `pagetape ab` changes, and what is compared for each.

The metrics of a switch were chosen before its first recording: what the kernel's rule acts on.
A switch with a policy is predicted, in the reclaim mode of the policy's tier (reclaim_mode.py).
"""

import errno
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagetape import _replay
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes.machine import SYSCTLS

_SYSCTL = "proc/sys/vm"
_THP = "sys/kernel/mm/transparent_hugepage"

_MOST = (1 << 31) - 1  # of a sysctl that is an int
_MOST_SHARE = 1 / 4  # of the memory, for vm.min_free_kbytes: more ends in the OOM killer


@dataclass(frozen=True)
class Switch:
    """One setting, as a file below the root directory."""

    name: str
    file: str  # without the leading slash
    doc: str
    metrics: tuple[str, ...]
    values: range | tuple[str, ...]
    policy: str | None = None  # SPEC with {value} and sysctls of the tape; None: not predicted
    gap: range = range(0)  # numbers in `values` that the kernel refuses
    settle_s: float = 0  # from a write until its own effects are over
    follows: str | None = None  # a file that the kernel may change with the setting
    note: str = ""  # what else a write does
    per_alloc: bool = False  # its metrics grow with the load, and are compared per allocation

    def check(self, value: str, memory_kb: int) -> str:
        """The value as the kernel shows it; raises ValueError with the reason for a bad one."""
        if isinstance(self.values, tuple):
            if value not in self.values:
                raise ValueError(f"'{value}' is not one of {', '.join(self.values)}")
            return value
        if not re.fullmatch(r"\d{1,12}", value):
            raise ValueError(f"'{value}' is not a number")
        number, least, most = int(value), self.values[0], self.values[-1]
        if self.name == "vm.min_free_kbytes":
            most = int(memory_kb * _MOST_SHARE)
        if not least <= number <= most:
            raise ValueError(f"{number} is not in {least} to {most}")
        if number in self.gap:
            raise ValueError(f"{number} is not 0, and not {self.gap.stop} or more")
        return str(number)

    def reclaim(self, value: str, recorded: str) -> str | None:
        """The reclaim mode of the prediction of a value from tapes of another; None without one.

        It is that of the policy's tier, if the tapes recorded reclaim.
        """
        if self.policy is None:
            return None
        known = {self.name.partition(".")[2]: int(recorded)} if self.name in SYSCTLS else {}
        spec = self.policy.format(value=value, scale="-1")
        newest = str(_replay.kernels()[-1]["name"])
        with suppress(_replay.EngineError):  # a value out of the policy's range
            return "R1" if _replay.feedback((spec,), kernel=newest, sysctls=known) else "R0"
        return None

    def policies(self, value: str, tape: Tape) -> tuple[str, ...]:
        """The policies of the model for this value, on a tape recorded under another."""
        assert self.policy is not None
        sysctls: Mapping[str, Any] = tape.facts.get("sysctls") or {}
        scale = str(sysctls.get("vm.watermark_scale_factor", ""))
        return (self.policy.format(value=value, scale=scale if scale.isdecimal() else "-1"),)


SWITCHES = (
    Switch(
        "vm.percpu_pagelist_high_fraction",
        f"{_SYSCTL}/percpu_pagelist_high_fraction",
        "size of the per-CPU lists: 0 tuned by load, 8 and more that share of the zone",
        (
            "pages taken under the zone lock",
            "pages drained to the zone",
            "refill runs",
            "drain runs",
        ),
        range(_MOST + 1),
        policy="pcp:percpu_pagelist_high_fraction={value}",
        gap=range(1, 8),
        per_alloc=True,
    ),
    Switch(
        "vm.defrag_mode",
        f"{_SYSCTL}/defrag_mode",
        "1 keeps pageblocks whole at the cost of reclaim and compaction (6.15 and later)",
        ("fallbacks", "fallbacks below pageblock order", "direct reclaims", "kcompactd runs"),
        range(2),
        policy="mainline:defrag_mode={value}",
    ),
    Switch(
        "vm.watermark_boost_factor",
        f"{_SYSCTL}/watermark_boost_factor",
        "largest boost of the watermarks after a fallback, in 1/10000 of high; 0: none",
        ("fallbacks below pageblock order", "kcompactd calls", "kcompactd runs", "kswapd passes"),
        range(_MOST + 1),
        policy="mainline:boost_factor={value}",
    ),
    Switch(
        "vm.watermark_scale_factor",
        f"{_SYSCTL}/watermark_scale_factor",
        "distance between two watermarks, in 1/10000 of the zone",
        (
            "kswapd passes",
            "kswapd sleeps",
            "direct reclaims",
            "free pages on average in the second half",
        ),
        range(1, 3001),
        policy="watermarks:watermark_scale_factor={value}",
    ),
    Switch(
        "vm.min_free_kbytes",
        f"{_SYSCTL}/min_free_kbytes",
        "memory below which only urgent requests are served, KiB",
        (
            "kswapd passes",
            "kswapd sleeps",
            "direct reclaims",
            "free pages on average in the second half",
        ),
        range(128, _MOST + 1),
        policy="watermarks:min_free_kbytes={value},watermark_scale_factor={scale}",
        note="from the first write on, the kernel no longer adjusts the value by itself",
    ),
    Switch(
        "vm.compaction_proactiveness",
        f"{_SYSCTL}/compaction_proactiveness",
        "how low kcompactd keeps fragmentation on its own, 0 to 100",
        ("kcompactd runs", "free pageblocks at the end", "fallbacks below pageblock order"),
        range(101),
        policy="mainline:proactiveness={value}",
        settle_s=10,
        note="a write above 0 starts one run of kcompactd on every node at once",
    ),
    Switch(
        "thp.enabled",
        f"{_THP}/enabled",
        "which faults ask for huge pages",
        ("fallbacks", "direct reclaims", "kcompactd runs", "free pageblocks at the end"),
        ("always", "madvise", "never"),
        follows=f"{_SYSCTL}/min_free_kbytes",
        note="the kernel may adjust vm.min_free_kbytes with it",
    ),
    Switch(
        "thp.defrag",
        f"{_THP}/defrag",
        "how hard a fault tries for a huge page",
        ("fallbacks", "direct reclaims", "kcompactd runs", "free pageblocks at the end"),
        ("always", "defer", "defer+madvise", "madvise", "never"),
    ),
)


def find(name: str) -> Switch:
    """The switch of that name, also without `vm.`; raises ValueError for an unknown one."""
    for switch in SWITCHES:
        if name in (switch.name, switch.name.removeprefix("vm.")):
            return switch
    known = ", ".join(switch.name for switch in SWITCHES)
    raise ValueError(f"no switch named '{name}'; there are {known}")


@dataclass(frozen=True)
class Host:
    """The files of a machine, below `root`."""

    root: Path = Path("/")

    def read(self, file: str) -> str:
        """The value of a setting; of a list with one value in brackets, that value."""
        text = self._text(file).strip()
        chosen = re.search(r"\[([^\]]*)\]", text)
        return chosen[1] if chosen else text

    def write(self, file: str, value: str) -> None:
        """Change a setting; raises TapeError if the kernel does not take the value."""
        path = self.root / file
        try:
            path.write_text(f"{value}\n")
        except OSError as e:
            raise TapeError(e.errno, f"/{file}: cannot write {value}: {e.strerror}") from e
        found = self.read(file)
        if found != value:
            raise TapeError(errno.EIO, f"/{file}: is '{found}' after a write of '{value}'")

    def _text(self, file: str) -> str:
        try:
            return (self.root / file).read_text()
        except OSError as e:
            raise TapeError(e.errno, f"/{file}: {e.strerror}") from e

    @property
    def boot_id(self) -> str:
        return self._text("proc/sys/kernel/random/boot_id").strip()

    def meminfo(self) -> dict[str, int]:
        """/proc/meminfo, in KiB."""
        lines = re.finditer(r"^(\w+): +(\d+)", self._text("proc/meminfo"), re.M)
        return {line[1]: int(line[2]) for line in lines}

    def oom_kills(self) -> int:
        """Processes that the OOM killer has ended since the boot."""
        found = re.search(r"^oom_kill (\d+)", self._text("proc/vmstat"), re.M)
        return int(found[1]) if found else 0
