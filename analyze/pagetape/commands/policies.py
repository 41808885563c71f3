# SPDX-License-Identifier: Apache-2.0
"""pagetape policies: what the model can be played under."""

from __future__ import annotations

from typing import Any

import click

from pagetape import _replay, answer, options


def _range(param: dict[str, Any]) -> str:
    if param.get("values"):
        return "|".join(param["values"])
    return f"{param['min']}..{param['max']}"


def _text(policy: dict[str, Any]) -> str:
    lines = [
        f"{policy['name']} (tier {policy['tier']}, {policy['kernel']}): {policy['doc']}",
        f"  decides: {', '.join(policy['choices']) or 'nothing'};"
        f" hears: {', '.join(policy['notices']) or 'nothing'}",
    ]
    if policy["params"]:
        rows = [(f"  {p['name']}", _range(p), p["default"], p["doc"]) for p in policy["params"]]
        lines.append(answer.table(("  parameter", "range", "default", "meaning"), rows))
    return "\n".join(lines)


@click.command("policies")
@options.json
def command(as_json: bool) -> None:
    """The policies and kernels the model knows.

    A policy is given to replay as name or name:key=value,key=value. Each choice
    has one owner in a run: two policies that decide the same are refused.

    \b
    Example:
      pagetape policies --json | jq '.policies[].name'
    """
    policies, kernels = _replay.policies(), _replay.kernels()
    if as_json:
        answer.emit({"policies": policies, "kernels": kernels})
        return
    click.echo("\n\n".join(_text(policy) for policy in policies))
    click.echo()
    click.echo(answer.table(("kernel", "rules of"), [(k["name"], k["doc"]) for k in kernels]))
