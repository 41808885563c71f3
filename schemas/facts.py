# SPDX-License-Identifier: Apache-2.0
"""Machine facts of a tape: checks of the facts that readers compute with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def _number(end: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value < end


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number(1 << 16), value))


def _nodes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(node, dict)
        and _number(1 << 16)(node.get("id"))
        and _numbers(node.get("cpus", []))
        and _numbers(node.get("distance", []))
        for node in value
    )


def _sysctls(value: Any) -> bool:
    return isinstance(value, dict) and all(
        type(setting) is int or isinstance(setting, str) for setting in value.values()
    )


def _replay(value: Any) -> bool:
    clock = value.get("clock") if isinstance(value, dict) else None
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("kernel", "reclaim"))
        and isinstance(value.get("policies"), list)
        and all(map(_text, value["policies"]))
        and type(value.get("own")) is bool
        and value.get("tier") in ("A", "B")
        and (
            clock is None
            or (isinstance(clock, list) and list(map(_number(1 << 64), clock)) == [True, True])
        )
    )


# The check of each known fact. A fact that is None counts as absent.
_KNOWN: dict[str, Callable[[Any], bool]] = {
    "arch": _text,
    "boot_id": _text,
    "host": _text,
    "kernel": _text,
    "version": _text,
    "cpus": _number(1 << 16),
    "nr_orders": _number(64),
    "pageblock_order": _number(64),
    "page_size": _number(1 << 31),
    "nodes": _nodes,
    "instances": _texts,
    "migratetypes": _texts,
    "sysctls": _sysctls,
    "replay": _replay,
}


def parse_facts(text: bytes) -> dict[str, Any]:
    """The facts in the JSON `text`; raises ValueError that names the first malformed fact."""
    facts = json.loads(text)
    if not isinstance(facts, dict):
        raise ValueError("the facts are not an object")
    for name, fits in _KNOWN.items():
        value = facts.get(name)
        if value is not None and not fits(value):
            raise ValueError(f"fact '{name}' is {json.dumps(value)}")
    return facts
