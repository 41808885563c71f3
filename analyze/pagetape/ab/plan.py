# SPDX-License-Identifier: Apache-2.0
"""What an A/B is about to do: the setting, its two values, the runs and their tapes."""

import errno
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pagetape import answer
from pagetape.ab.switch import Host, Switch, find
from pagetape.recording.workload import Workload
from pagetape.schemas.tape import TapeError

RESULT = "ab.json"


@dataclass(frozen=True)
class RunOf:
    """One recorded run."""

    side: str  # A or B
    value: str
    number: int  # from 1 on, of its side

    @property
    def tape(self) -> str:
        return f"{self.side}-{self.number}.tape"


@dataclass(frozen=True)
class Plan:
    """An A/B before its start."""

    switch: Switch
    values: tuple[str, str]
    before: str  # the value on the machine now; warm-ups run under it
    pairs: int
    warm_ups: str
    argv: tuple[str, ...]
    out: Path

    @property
    def runs(self) -> Iterator[RunOf]:
        """In their order: A B A B."""
        for number in range(1, self.pairs + 1):
            for side, value in zip("AB", self.values, strict=True):
                yield RunOf(side, value, number)

    def warms_up(self, number: int) -> bool:
        """Whether a warm-up goes before the run of that place, from 0 on."""
        return self.warm_ups == "all" or (self.warm_ups == "first" and not number)

    def lines(self) -> list[str]:
        """The plan in words."""
        switch = self.switch
        a, b = self.values
        runs = list(self.runs)
        warm = {
            "all": f"each after a warm-up of the command under {self.before}",
            "first": f"after one warm-up of the command under {self.before}",
            "none": "without a warm-up",
        }[self.warm_ups]
        predicted = "recorded, but not predicted: no policy of the model has this setting"
        if switch.policy:
            predicted = "each value from the tapes of the other"
            predicted += f", reclaim {mode}" if (mode := switch.reclaim(b, a)) else ""
        return [
            f"setting     {switch.name} (/{switch.file}): {switch.doc}",
            *([f"note        {switch.note}"] if switch.note else []),
            f"values      A {a}, B {b}; it is {self.before} now",
            f"command     {shlex.join(self.argv)}",
            f"runs        {answer.amount(len(runs), 'recording')}, "
            f"{' '.join(run.side for run in runs)}, {warm}",
            f"tapes       {self.out / runs[0].tape} to {self.out / runs[-1].tape}",
            f"predicted   {predicted}",
            f"compared    {'; '.join(switch.metrics)}",
            f"afterwards  {switch.name} is {self.before} again, also after an error or a signal; "
            "after a kill, by pagetape ab --restore",
        ]

    def json(self) -> dict[str, object]:
        return {
            "switch": self.switch.name,
            "values": dict(zip("AB", self.values, strict=True)),
            "before": self.before,
            "pairs": self.pairs,
            "warm_ups": self.warm_ups,
            "command": list(self.argv),
            "tapes": [run.tape for run in self.runs],
            "compared": list(self.switch.metrics),
            "predicted": self.switch.policy is not None,
            "reclaim": self.switch.reclaim(*reversed(self.values)),
        }


def parse_set(text: str, host: Host) -> tuple[Switch, tuple[str, str]]:
    """NAME=A,B; raises ValueError with the reason if it is wrong."""
    name, equals, values = text.partition("=")
    both = values.split(",")
    if not equals or len(both) != 2:
        raise ValueError(f"'{text}' is not NAME=A,B (example: defrag_mode=0,1)")
    switch = find(name.strip())
    memory = host.meminfo().get("MemTotal", 0)
    try:
        a, b = (switch.check(value.strip(), memory) for value in both)
    except ValueError as e:
        raise ValueError(f"{switch.name}: {e}") from e
    if a == b:
        raise ValueError(f"{switch.name}: both values are {a}")
    return switch, (a, b)


def check_machine(plan: Plan, host: Host) -> None:
    """Raise TapeError if the plan cannot start."""
    Workload(plan.argv, None)  # the command exists
    path = host.root / plan.switch.file
    if not os.access(path, os.W_OK, effective_ids=True):
        raise TapeError(
            errno.EACCES, f"/{plan.switch.file}: cannot be written by this user; run as root"
        )
    if os.path.lexists(plan.out) and (not plan.out.is_dir() or any(plan.out.iterdir())):
        raise TapeError(
            errno.EEXIST, f"{plan.out}: exists already and is not an empty directory; name another"
        )


def current(switch: Switch, host: Host) -> str:
    """The value on the machine; raises TapeError if its kernel does not have the setting."""
    if not (host.root / switch.file).exists():
        raise TapeError(errno.ENOENT, f"/{switch.file}: this kernel has no {switch.name}")
    return host.read(switch.file)
