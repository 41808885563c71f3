# SPDX-License-Identifier: Apache-2.0
"""Why a metric of a run gets no verdict.

A verdict is a difference between a run and the tape's own rules. This module alone decides whether
a metric has one; replay, compare, sweep, the pages, ab and the Python API print its reason instead.
The reasons, the first one that applies:

    the run       nothing that the run says is a verdict (key `no_verdict` of its fact `replay`)
    other unit    its fallback events count something else than those of the own rules
    not followed  the recorded value lies outside the own rules' interval: the model does not
                  follow the tape there, so a difference between two runs of it says nothing
    succeeds      a fragmentation index that some members lack, because a request would succeed

A metric without a recorded value, or without an interval of the own rules, cannot be checked: it
keeps its difference, and the text says "not checked".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagetape.asking.interval import Interval
from pagetape.tapes import fallback_unit

OTHER_UNIT = "other unit"

# The note below differences that are not followed.
NOT_FOLLOWED = (
    "not followed: the recorded value lies outside the own rules' interval, so there is no verdict"
)


def of_run(made: Mapping[str, Any] | None) -> str | None:
    """Why no metric of a run has a verdict; None if they may have. `made` is the fact `replay` of
    its tape, or the JSON object of `pagetape replay`."""
    found = (made or {}).get("no_verdict")
    return str(found) if found else None


def of_metric(
    made: Mapping[str, Any] | None,
    metric: str,
    recorded: float | None,
    own: Interval | None,
    *,
    other_unit: bool = False,
) -> str | None:
    """Why a metric of a run has no verdict; None if it may have one.

    `recorded` is the value of the recording, `own` the interval of the own rules; None if it is
    unknown. `other_unit`: the fallback events of the two count different things.
    """
    if found := of_run(made):
        return found
    if other_unit and fallback_unit.counts(metric):
        return OTHER_UNIT
    if recorded is not None and own is not None and not follows(recorded, own):
        words = f"not followed: recorded {recorded:,.0f}, own rules"
        return f"{words} {own.low:,.0f} to {own.high:,.0f}"
    return None


def short(why: str) -> str:
    """A reason for a narrow cell: its text up to the colon."""
    return why.partition(":")[0]


def follows(recorded: float | None, own: Interval | None) -> bool | None:
    """Whether the model follows the tape in a metric; None if that cannot be checked."""
    if recorded is None or own is None:
        return None
    return own.low <= recorded <= own.high
