# SPDX-License-Identifier: Apache-2.0
"""Machine facts of a tape: checks of the facts that readers compute with."""

import json
from collections.abc import Callable
from typing import Any


def _number(end: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value < end


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _numbers(value: Any, end: int) -> bool:
    return isinstance(value, list) and all(map(_number(end), value))


def _amount(value: Any) -> bool:
    """Whether `value` is a number that can be computed with as a float."""
    return type(value) in (int, float) and abs(value) < 1e18


_WORDS = 100  # most characters of a fact in a message
_MAX_DISTANCES = 1 << 20  # from each CPU to each node


def _nodes(value: Any) -> bool:
    if not isinstance(value, list) or not all(
        isinstance(node, dict)
        and _number(1 << 16)(node.get("id"))
        and _numbers(node.get("cpus", []), 1 << 16)
        and _numbers(node.get("distance", []), 1 << 8)
        for node in value
    ):
        return False
    cpus = [cpu for node in value for cpu in node.get("cpus", [])]
    return (
        len({node["id"] for node in value}) == len(value)
        and len(set(cpus)) == len(cpus)
        and len(cpus) * len(value) <= _MAX_DISTANCES
    )


def _sysctls(value: Any) -> bool:
    return isinstance(value, dict) and all(
        type(setting) is int or isinstance(setting, str) for setting in value.values()
    )


def _validate(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("kernel"), str)
        and _texts(value.get("kernel_warnings", []))
    )


def _fallback_events(value: Any) -> bool:
    return isinstance(value, dict) and {value.get("own"), value.get("this")} <= {"block", "page"}


def _replay(value: Any) -> bool:
    clock = value.get("clock") if isinstance(value, dict) else None
    return (
        _validate(value)
        and isinstance(value.get("reclaim"), str)
        and isinstance(value.get("policies"), list)
        and all(map(_text, value["policies"]))
        and type(value.get("own")) is bool
        and value.get("tier") in ("A", "B")
        and ("fallback_events" not in value or _fallback_events(value["fallback_events"]))
        and (
            clock is None
            or (isinstance(clock, list) and list(map(_number(1 << 64), clock)) == [True, True])
        )
    )


def _flight(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(map(_text, map(value.get, ("trigger", "unit"))))
        and all(map(_amount, map(value.get, ("holds_s", "wanted_s"))))
        and (value.get("value") is None or _amount(value["value"]))
    )


def _private(value: Any) -> bool:
    return isinstance(value, dict) and value.get("names") in ("hash", "drop")


def _import(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("of"), str)
        and type(value.get("counts_loss")) is bool
    )


# The check of each known fact. A fact that is None counts as absent.
_KNOWN: dict[str, Callable[[Any], bool]] = {
    "arch": _text,
    "boot_id": _text,
    "ended": _text,
    "flight": _flight,
    "host": _text,
    "kernel": _text,
    "version": _text,
    "cpus": _number(1 << 16),
    "nr_orders": _number(64),
    "pageblock_order": _number(64),
    "page_size": _number(1 << 31),
    "nodes": _nodes,
    "events": _texts,
    "event_set": _text,
    "stacks": _texts,
    "no_stamps": _text,
    "skipped_events": _texts,
    "import": _import,
    "instances": _texts,
    "limits": _texts,
    "machine": _text,
    "machine_key": _text,
    "migratetypes": _texts,
    "private": _private,
    "recorded_at": _text,
    "recorder_pid": _number(1 << 31),
    "sysctls": _sysctls,
    "replay": _replay,
    "validate": _validate,
}


_DEPTH = 16  # of lists and objects in each other


def _shallow(value: Any, depth: int = _DEPTH) -> bool:
    inner = list(value.values()) if isinstance(value, dict) else value
    return not isinstance(inner, list) or (
        depth > 0 and all(_shallow(item, depth - 1) for item in inner)
    )


def parse_facts(text: bytes) -> dict[str, Any]:
    """The facts in the JSON `text`, without the known ones that are null.

    Raises ValueError that names the first malformed fact.
    """
    try:
        facts = json.loads(text)
    except RecursionError:
        raise ValueError("too many levels of lists and objects") from None
    if not isinstance(facts, dict):
        raise ValueError("the facts are not an object")
    if not _shallow(facts):
        raise ValueError(f"more than {_DEPTH} levels of lists and objects")
    json.dumps(facts, ensure_ascii=False).encode()  # a lone surrogate is no text
    for name, fits in _KNOWN.items():
        value = facts.get(name)
        if value is not None and not fits(value):
            raise ValueError(f"fact '{name}' is {json.dumps(value)[:_WORDS]}")
    return {name: value for name, value in facts.items() if value is not None or name not in _KNOWN}
