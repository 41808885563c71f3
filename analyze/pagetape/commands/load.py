# SPDX-License-Identifier: Apache-2.0
"""pagetape load: the loads that come with pagetape. The program pagetape-load runs them."""

from __future__ import annotations

import json
import os
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from pagetape import answer
from pagetape.commands import options

PROGRAM = Path(str(files("pagetape") / "pagetape-load"))


def _loads() -> list[dict[str, str]]:
    """The loads, as the program describes them."""
    found = subprocess.run([PROGRAM], check=True, stdout=subprocess.PIPE).stdout
    loads: list[dict[str, str]] = json.loads(found)["loads"]
    return loads


def _say(loads: list[dict[str, str]]) -> None:
    for one in loads:
        answer.say_line(f"{one['name']}: {one['doc']}")
        for key in ("keeps", "leaves_out", "sampled"):
            answer.say_line(f"  {key.replace('_', ' ')}: {one[key]}")


@click.command("load")
@click.argument("name", required=False, shell_complete=lambda *_: [x["name"] for x in _loads()])
@click.option(
    "--memory",
    type=click.IntRange(16, 1 << 24),
    metavar="MB",
    help="Memory of all its processes.  [default: a quarter of the available memory, at most 4096]",
)
@click.option(
    "--seconds", type=click.FloatRange(0.1, 1e6), metavar="S", help="Duration.  [default: 60]"
)
@click.option(
    "--dir",
    "directory",
    type=options.PATH,
    metavar="D",
    help="Directory for its files, which it removes at the end.  [default: /var/tmp]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << 32) - 1),
    metavar="N",
    help="Seed of sizes and places: equal seeds make equal files.  [default: 1]",
)
@click.option(
    "--leave",
    type=click.IntRange(64, 1 << 24),
    metavar="MB",
    help="First pin memory until only MB are available, for the time of the load.",
)
@click.option(
    "--threads", type=click.IntRange(1, 64), metavar="N", help="Processes.  [default: CPUs]"
)
@click.option("--clean", is_flag=True, help="Undo what a killed load left behind, and do no more.")
@options.json
@click.pass_context
def command(
    ctx: click.Context, /, name: str | None, clean: bool, as_json: bool, **given: Any
) -> None:
    """Run a workload for a recording; without NAME, list the workloads.

    The list says what each one keeps of its original and what it leaves out. A load is bounded in
    memory, disk and time. Its processes are the first that the OOM killer takes. A size for a quick
    look is `--memory 256 --seconds 20`.

    At the end it prints the latencies that it measured; under `pagetape record` they become the
    table `sample_latency` of the tape. It removes its files and undoes mounts, swap files and
    control groups, also on Ctrl-C. After a kill -9 its processes end, and the next load or --clean
    undoes the rest.

    Exit status 3: memory or disk is too short for --memory.

    \b
    Example:
      pagetape load
      pagetape load fioscale --memory 256 --seconds 20
      pagetape record -o kbuild.tape -- pagetape load kbuild --seconds 30
      pagetape report load.latency kbuild.tape
      pagetape load --clean
    """
    values = {"dir": given.pop("directory"), **given}
    set_here = [f"--{key}={value}" for key, value in values.items() if value is not None]
    if name is None and not clean:
        if set_here:
            raise click.UsageError(
                f"{set_here[0]} needs the NAME of a load; `pagetape load` lists them"
            )
        loads = _loads()
        if as_json:
            answer.emit({"loads": loads})
        else:
            _say(loads)
        return
    if clean and name:
        raise click.UsageError(f"--clean runs no load: leave out '{name}'")
    if name and name not in (names := [one["name"] for one in _loads()]):
        raise click.UsageError(f"no load named '{name}'; there are {', '.join(names)}")
    argv = ["--clean"] if clean else [str(name), *set_here]
    argv = [str(PROGRAM), *argv, *(["--json"] if as_json else [])]
    if ctx.obj:  # signals, also SIGKILL, then reach the supervisor itself
        os.execv(PROGRAM, argv)
    ctx.exit(subprocess.call(argv))
