# SPDX-License-Identifier: Apache-2.0
"""What one fallback event stands for: a block, or a page. Kernels differ.

Kernels that move a foreign block to the asked list before they split it emit one event for the
block. Kernels that split it in place emit one event for each page that they take of it
(__rmqueue_fallback; the feature `fallback` of a kernel row).
"""

from functools import cache
from typing import Any

from pagetape import _replay
from pagetape.schemas.tape import Tape
from pagetape.tapes import kernel_rows

_OF_BLOCKS = ("largest; remainders keep their type", "largest; moved to the asked list, then split")

# A claim, or a whole pageblock, is one event on all kernels.
_SAME = ("fallbacks claim", "fallbacks whole")

WORDS = {
    "block": "one fallback event for each block taken",
    "page": "one fallback event for each page stolen",
}


@cache
def of_row(row: str) -> str:
    """The unit of a kernel row: "block" or "page"."""
    features = next(kernel for kernel in _replay.kernels() if kernel["name"] == row)
    return "block" if features["fallback"] in _OF_BLOCKS else "page"


def of_run(row: str, policies: tuple[str, ...]) -> str:
    """The unit of a run: the policy `fallback` may have the rules of another kernel."""
    for spec in policies:
        name, _, values = spec.partition(":")
        given = dict(value.partition("=")[::2] for value in values.split(",") if value)
        if name == "fallback":
            row = given.get("kernel") or kernel_rows.default_fallback()
    return of_row(row)


def of_tape(tape: Tape) -> str | None:
    """The unit of the events of a tape; None if it is unknown."""
    made: dict[str, Any] = tape.facts.get("replay") or {}
    if "fallback_events" in made:
        return str(made["fallback_events"]["this"])
    row = None if made else kernel_rows.of_release(kernel_rows.release(tape))
    return of_row(row) if row else None


def counts(metric: str) -> bool:
    """Whether a metric counts fallback events in this unit."""
    named = metric.startswith(("fallbacks", "mixing "))
    return named and metric not in _SAME


def differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def why_not(made: dict[str, Any]) -> str | None:
    """Why the counts of a run are not compared with the own rules'; None if they are.

    `made` is the fact `replay` of its tape, or the JSON object of `pagetape replay`.
    """
    events = made.get("fallback_events") or {}
    own, this = events.get("own"), events.get("this")
    return sentence(own, this) if own and this and own != this else None


def sentence(own: str, this: str) -> str:
    """Why the counts of two runs are not compared."""
    return (
        f"fallback counts are not compared: the tape's own rules emit {WORDS[own]}, this run "
        f"{WORDS[this]}; compare mixed pageblocks, foreign pages and claims, "
        "or give pagetape compare a replay with the same `fallback` as its first tape"
    )
