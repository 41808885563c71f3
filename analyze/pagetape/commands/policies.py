# SPDX-License-Identifier: Apache-2.0
"""pagetape policies: list the policies of the model."""

from pathlib import Path
from typing import Any

import click

from pagetape import answer
from pagetape.commands import model_options, options
from pagetape.replaying.presets import PRESETS


def _range(param: dict[str, Any]) -> str:
    if param.get("values"):
        return "|".join(param["values"])
    return f"{param['min']}..{param['max']}"


def _text(policy: dict[str, Any]) -> str:
    lines = [
        f"{policy['name']} (tier {policy['tier']}, {policy['kernel']}): {policy['doc']}",
        f"  decides: {', '.join(policy['choices']) or 'nothing'};"
        f" is notified of: {', '.join(policy['notices']) or 'nothing'}",
    ]
    if policy["params"]:
        rows = [(f"  {p['name']}", _range(p), p["default"], p["doc"]) for p in policy["params"]]
        lines.append(answer.table(("  parameter", "range", "default", "meaning"), rows))
    return "\n".join(lines)


@click.command("policies")
@model_options.policy_libs
@click.option(
    "--include-dir",
    is_flag=True,
    help="Print the directory of the C headers for your own policy.",
)
@options.json
def command(policy_libs: tuple[str, ...], include_dir: bool, as_json: bool) -> None:
    """List the policies of the model.

    Pass a policy to replay as name or name:key=value,key=value. Each choice has one
    owner in a run: pagetape refuses two policies that decide the same choice. Your own
    policy is a shared object; docs/policies.md has an example. The JSON also has the presets,
    and every feature of the kernel rows that `pagetape kernels` lists.

    \b
    Example:
      pagetape policies --json | jq '.policies[].name'
      cc -shared -fPIC -I "$(pagetape policies --include-dir)" mine.c -o mine.so
    """
    from pagetape import _replay

    if include_dir:
        answer.say_line(str(Path(_replay.__file__).parent / "include"))
        return
    policies, kernels = _replay.policies(policy_libs), _replay.kernels()
    if as_json:
        answer.emit({"policies": policies, "kernels": kernels, "presets": PRESETS})
        return
    answer.say("\n\n".join(_text(policy) for policy in policies))
    answer.say("")
    rows = [(name, " + ".join(stack)) for name, stack in PRESETS.items()]
    answer.say(answer.table(("preset", "policies"), rows))
