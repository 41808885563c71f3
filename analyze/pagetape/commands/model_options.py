# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that play a tape: the kernel, policies, nodes and the ensemble.

They are apart from options.py because they load the engine, which a recorder on a small machine has
no memory for.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from pagetape import console, did_you_mean
from pagetape.commands import completion
from pagetape.commands.options import Command
from pagetape.replaying import MEMBERS

if TYPE_CHECKING:
    from pagetape.schemas.tape import Tape


def _known_kernel(_: click.Context, __: click.Parameter, value: str) -> str:
    """The value of --kernel; raises BadParameter for an unknown kernel."""
    check_kernel(value)
    return value


def check_kernel(kernel: str) -> None:
    """Raise BadParameter unless the kernel names one row; a note on stderr if it may mean more."""
    from pagetape import _replay
    from pagetape.tapes import kernel_rows

    try:
        if kernel != "auto":
            kernel_rows.asked(kernel)
            console.report(kernel_rows.about_name(kernel))
    except _replay.EngineError as e:
        raise click.BadParameter(str(e.strerror), param_hint="--kernel") from e


def check_policies(policies: Sequence[str], libs: Sequence[str]) -> None:
    """Raise BadParameter for an unknown policy or a conflict. Unreadable files raise OSError."""
    from pagetape import _replay

    _replay.policies(libs)
    try:
        _replay.check_policies(policies, libs)
    except _replay.EngineError as e:
        raise click.BadParameter(
            f"{e.strerror}{_near(policies, libs)}", param_hint="--policy"
        ) from e


def _near(policies: Sequence[str], libs: Sequence[str]) -> str:
    """The policy that the first unknown name of `policies` resembles."""
    from pagetape import _replay

    known = [policy["name"] for policy in _replay.policies(libs)]
    names = (spec.partition(":")[0] for spec in policies)
    return next((did_you_mean.hint(name, known) for name in names if name not in known), "")


def node_map(tape: "Tape", text: str) -> tuple[int, tuple[int, ...]]:
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
    tapes: "Sequence[Tape]", text: str | None, policies: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The policies of a run with --nodes, and the node of each CPU; empty without --nodes.

    The map must be the same for all tapes. Raises BadParameter for a bad map.
    """
    if text is None:
        return policies, ()
    ((nodes, parts),) = {node_map(tape, text) for tape in tapes}
    return (*policies, f"fake_numa:nodes={nodes}"), parts


def members(name: str, text: str, default: int = MEMBERS) -> Callable[[Command], Command]:
    """The option --ensemble as the parameter `name`, with that help and default."""
    return click.option(
        "--ensemble",
        name,
        type=click.IntRange(0, 1000),
        default=default,
        show_default=True,
        envvar="PAGETAPE_ENSEMBLE",
        show_envvar=True,
        metavar="N",
        help=text,
    )


ensemble = members(
    "ensemble_size",
    "Members of the ensemble, which give each number its interval: each plays the tape again "
    "with other small changes that no event shows. 0: one run, without intervals.",
)
policy_libs = click.option(
    "--policy-lib",
    "policy_libs",
    multiple=True,
    metavar="FILE.so",
    help="Shared object with your own policy, for --policy. Repeatable.",
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
