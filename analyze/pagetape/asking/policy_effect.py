# SPDX-License-Identifier: Apache-2.0
"""What the policies of a replay decided: rows of the table policy_effect, in words."""

from collections.abc import Sequence
from typing import Any

Effects = Sequence[dict[str, Any]]


def lines(effects: Effects) -> list[str]:
    """One sentence for each policy; mainline's only if it is alone."""
    others = _besides_mainline(effects)
    return [f"{effect['policy']} {effect['text']}" for effect in others or effects]


def without_choice(effects: Effects) -> list[str]:
    """The sentences of the policies, besides mainline, that never had a choice."""
    return lines([effect for effect in _besides_mainline(effects) if not effect["choices"]])


def _besides_mainline(effects: Effects) -> list[dict[str, Any]]:
    return [effect for effect in effects if effect["policy"] != "mainline"]
