# SPDX-License-Identifier: Apache-2.0
"""Completions for the shell: tapes, policies, kernels."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem


def tapes(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tapes whose paths begin so; if there are none, the shell completes any path."""
    start = Path(incomplete)
    directory = start if incomplete.endswith("/") else start.parent
    prefix = incomplete[: incomplete.rfind("/") + 1]
    try:
        found = sorted(path.name for path in directory.glob("*.tape"))
    except OSError:
        found = []
    paths = [f"{prefix}{name}" for name in found if f"{prefix}{name}".startswith(incomplete)]
    return [CompletionItem(path) for path in paths] or [CompletionItem(incomplete, type="file")]


def policies(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The policies, also those of --policy-lib; behind a colon or a comma, the parameters."""
    from pagetape import _replay  # the recorder has the completion of paths, and no engine

    known = {p["name"]: p for p in _replay.policies(_libs(ctx))}
    name, colon, parameters = incomplete.partition(":")
    if not colon:
        return [CompletionItem(n, help=p["doc"]) for n, p in known.items() if n.startswith(name)]
    before, comma, last = parameters.rpartition(",")
    return [
        CompletionItem(f"{name}:{before}{comma}{parameter['name']}=", help=parameter["doc"])
        for parameter in known.get(name, {"params": []})["params"]
        if parameter["name"].startswith(last)
    ]


def _libs(ctx: click.Context) -> tuple[str, ...]:
    from pagetape import _replay

    libs = tuple(ctx.params.get("policy_libs") or ())
    try:
        _replay.policies(libs)
    except (OSError, _replay.EngineError):  # the command will report it
        return ()
    return libs


def kernels(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the kernel rows."""
    from pagetape import _replay

    names = [str(row["name"]) for row in _replay.kernels()]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def kernels_or_auto(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The values of --kernel."""
    auto = [CompletionItem("auto")] if "auto".startswith(incomplete) else []
    return auto + kernels(ctx, parameter, incomplete)
