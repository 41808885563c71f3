# SPDX-License-Identifier: Apache-2.0
"""Why a metric of a run gets no verdict.

A verdict is a difference between a run and the tape's own rules. This module alone decides whether
a metric has one; replay, compare, sweep, the pages, ab and the Python API print its reason instead.
The reasons, the first one that applies:

    the run       nothing that the run says is a verdict (key `no_verdict` of its fact `replay`)
    other unit    its fallback events count something else than those of the own rules
    not followed  the recorded value lies outside the own rules' interval: the model does not
                  follow the tape there, so a difference between two runs of it says nothing
    no index      of a zone in which a request would succeed, in some members (success.py)

A metric without a recorded value, or without an interval of the own rules, cannot be checked: it
keeps its difference, and the text says "not checked".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagetape.asking.interval import Interval
from pagetape.asking.success import Success, number
from pagetape.tapes import fallback_unit


@dataclass(frozen=True)
class Rules:
    """What the ensemble of some rules has of a metric."""

    interval: Interval | None  # None if a request would succeed in all members
    success: Success | None  # of a fragmentation index

    @classmethod
    def of(cls, interval: Interval | None, success: Success | None) -> "Rules | None":
        """None without members."""
        return None if interval is None and success is None else cls(interval, success)

    def __str__(self) -> str:
        parts = [str(self.success)] if self.success and self.success.nr else []
        if self.interval is not None:
            parts.append(f"{self.interval.low:,.0f} to {self.interval.high:,.0f}")
        return ", else ".join(parts)


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
    own: Rules | None,
    *,
    other_unit: bool = False,
    this: Success | None = None,
) -> str | None:
    """Why a metric of a run has no verdict; None if it may have one.

    `recorded` is the value of the recording, `own` what the own rules have, None if it is unknown.
    `other_unit`: the fallback events of the two count different things. `this`: of the run.
    """
    if found := of_run(made):
        return found
    if other_unit and fallback_unit.counts(metric):
        return OTHER_UNIT
    if follows(metric, recorded, own) is False:
        assert recorded is not None and own is not None
        known = number(metric, recorded)
        words = "would succeed" if known is None else f"{known:,.0f}"
        return f"not followed: recorded {words}, own rules {own}"
    return of_index(this, own.success if own else None, "own rules")


def of_index(this: Success | None, other: Success | None, name: str) -> str | None:
    """Why a run and another one, of that name, have no index to compare; None if they have."""
    if not any(found and found.nr for found in (this, other)):
        return None
    return f"no index to compare: {this or 'unknown'}, {name} {other or 'unknown'}"


def short(why: str) -> str:
    """A reason for a narrow cell: its text up to the colon."""
    return why.partition(":")[0]


def in_line(why: str) -> str:
    """A reason beside a metric: that of a whole run is short, because its text stands once."""
    return short(why) if why.startswith("no verdict") else why


def follows(metric: str, recorded: float | None, own: Rules | None) -> bool | None:
    """Whether the model follows the tape in a metric; None if that cannot be checked."""
    if recorded is None or own is None:
        return None
    known = number(metric, recorded)
    if own.success is not None and not own.success.has(known is None):
        return False
    return known is None or (own.interval is not None and own.interval.holds(known))
