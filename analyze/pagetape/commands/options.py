# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share.

click does not check paths: the code that opens a file reports better errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pagetape import _replay, console, did_you_mean
from pagetape.commands import completion
from pagetape.replaying.ensemble import DEFAULT
from pagetape.tapes import kernel_rows

if TYPE_CHECKING:
    from pagetape.schemas.tape import Tape


class Quantity(click.ParamType[float]):
    """A number with a unit, such as 90s, 5min or 2GB; without a unit, the first of `units` applies.

    `least` is the smallest allowed value, in that unit.
    """

    def __init__(self, name: str, example: str, units: dict[str, float], least: float) -> None:
        self.name = name
        self._example = example
        self._units = units
        self._least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(value).strip())
        if found is None or (found[2] and found[2] not in self._units):
            self.fail(f"'{value}' is not a {self.name} (example: {self._example})", param, ctx)
        unit = self._units[found[2]] if found[2] else next(iter(self._units.values()))
        number = float(found[1]) * unit
        if number < self._least:
            self.fail(f"'{value}' is too small", param, ctx)
        if math.isinf(number):
            self.fail(f"'{value}' is too large", param, ctx)
        return number


class Moment(click.ParamType[float]):
    """A time on a tape in seconds: from its first event, or with a '-' before it from its end."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        seconds = duration().convert(text.removeprefix("-"), param, ctx)
        return -seconds if text.startswith("-") else seconds


_SECONDS = {"s": 1.0, "ms": 1e-3, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12} | {
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}


def duration(least: float = 0) -> Quantity:
    """The type of an option in seconds."""
    return Quantity("span of time", "90s, 5min or 1h", _SECONDS, least)


def size(least: float = 0) -> Quantity:
    """The type of an option in bytes."""
    return Quantity("size", "500MB or 2GB", _BYTES, least)


def _known_kernel(_: click.Context, __: click.Parameter, value: str) -> str:
    """The value of --kernel; raises BadParameter for an unknown kernel."""
    check_kernel(value)
    return value


def check_kernel(kernel: str) -> None:
    """Raise BadParameter unless the kernel names one row; a note on stderr if it may mean more."""
    try:
        if kernel != "auto":
            kernel_rows.asked(kernel)
            console.report(kernel_rows.about_name(kernel))
    except _replay.EngineError as e:
        raise click.BadParameter(str(e.strerror), param_hint="--kernel") from e


def check_policies(policies: Sequence[str], libs: Sequence[str]) -> None:
    """Raise BadParameter for an unknown policy or a conflict. Unreadable files raise OSError."""
    _replay.policies(libs)
    try:
        _replay.check_policies(policies, libs)
    except _replay.EngineError as e:
        raise click.BadParameter(
            f"{e.strerror}{_near(policies, libs)}", param_hint="--policy"
        ) from e


def _near(policies: Sequence[str], libs: Sequence[str]) -> str:
    """The policy that the first unknown name of `policies` resembles."""
    known = [policy["name"] for policy in _replay.policies(libs)]
    names = (spec.partition(":")[0] for spec in policies)
    return next((did_you_mean.hint(name, known) for name in names if name not in known), "")


def node_map(tape: Tape, text: str) -> tuple[int, tuple[int, ...]]:
    """Parse '0-3/4-7' to the number of nodes and the node of each CPU; raises BadParameter."""
    if len(tape.facts.get("nodes") or []) > 1:
        raise click.BadParameter("the tape already has several nodes", param_hint="--nodes")
    nodes = text.split("/")
    found: dict[int, int] = {}
    for node, cpus in enumerate(nodes):
        for part in cpus.split(","):
            match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip())
            if match is None:
                raise click.BadParameter(
                    f"'{text}' is not a map of CPUs (example: 0-3/4-7)", param_hint="--nodes"
                )
            for cpu in range(int(match[1]), int(match[2] or match[1]) + 1):
                if found.setdefault(cpu, node) != node:
                    raise click.BadParameter(f"CPU {cpu} is on two nodes", param_hint="--nodes")
    nr_cpus = int(tape.facts.get("cpus") or 0)
    if sorted(found) != list(range(nr_cpus)):
        raise click.BadParameter(
            f"'{text}' must name each of the tape's CPUs, 0 to {nr_cpus - 1}", param_hint="--nodes"
        )
    return len(nodes), tuple(found[cpu] for cpu in range(nr_cpus))


def on_nodes(
    tapes: Sequence[Tape], text: str | None, policies: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The policies of a run with --nodes, and the node of each CPU; empty without --nodes.

    The map must be the same for all tapes. Raises BadParameter for a bad map.
    """
    if text is None:
        return policies, ()
    ((nodes, parts),) = {node_map(tape, text) for tape in tapes}
    return (*policies, f"fake_numa:nodes={nodes}"), parts


PATH = click.Path(path_type=Path)

tape = click.argument("tape", metavar="T.tape", type=PATH, shell_complete=completion.tapes)
tapes = click.argument(
    "tapes",
    metavar="T.tape...",
    type=PATH,
    nargs=-1,
    required=True,
    shell_complete=completion.tapes,
)
json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
wide = click.option(
    "--wide", is_flag=True, help="Show all columns of a table, also on a narrow terminal."
)
ensemble = click.option(
    "--ensemble",
    "ensemble_size",
    type=click.IntRange(0, 1000),
    default=DEFAULT,
    show_default=True,
    envvar="PAGETAPE_ENSEMBLE",
    show_envvar=True,
    metavar="N",
    help="Members of the ensemble, which give each number its interval: each plays the tape again "
    "with other small changes that no event shows. 0: one run, without intervals.",
)
policy_libs = click.option(
    "--policy-lib",
    "policy_libs",
    multiple=True,
    metavar="FILE.so",
    help="Shared object with your own policy, for --policy. Repeatable.",
)
force = click.option("--force", is_flag=True, help="Replace an output that pagetape wrote before.")
output = click.option(
    "-o", "--output", "out", type=PATH, metavar="T.tape", required=True, help="Output tape."
)
private = click.option(
    "--private",
    type=click.Choice(["hash", "drop"]),
    help="Make a tape that you can publish: hash or drop names, and move pfns.  [default: names and"
    " pfns unchanged]",
)
kernel = click.option(
    "--kernel",
    default="auto",
    show_default=True,
    metavar="K",
    callback=_known_kernel,
    shell_complete=completion.kernels_or_auto,
    help="Kernel whose rules the model uses: a release, or the name of a row. auto: the row of the"
    " tape's release, unless the recording clearly follows the rules of another row.",
)
