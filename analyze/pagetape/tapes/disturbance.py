# SPDX-License-Identifier: Apache-2.0
"""The disturbances of a recording, in words."""

from typing import Any

# By kind of the table `disturbance`.
WORDS = {
    "ring_resized": "another user resized the rings to {what}; the recording goes on",
    "tracing_off": "another user switched tracing off in this recorder's instance",
    "event_off": "another user switched {what} off in this recorder's instance",
    "ring_cleared": "another user emptied this recorder's rings",
    "clock_changed": "another user changed the clock of this recorder's instance",
    "subbuf_changed": "another user changed the sub-buffers of this recorder's instance to {what}",
    "instance_removed": "another user removed this recorder's tracing instance",
    "suspended": "the machine slept for {seconds:.1f} s, which the tape does not show",
    "late_cut": "the tape ends {seconds:.1f} s late: the machine is too slow for --rotate",
    "moved": "the tape was renamed to {what}; the recording goes on there",
    "removed": "the tape was removed",
}

# After these, events are missing that nothing counts.
GAPS = (
    "tracing_off",
    "event_off",
    "ring_cleared",
    "clock_changed",
    "subbuf_changed",
    "instance_removed",
)

ENDINGS = (*GAPS, "removed")


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """Each row of the table `disturbance` in words."""
    return [
        WORDS[row["kind"]].format(what=row["detail"], seconds=(row["length"] or 0) / 1e9)
        for row in rows
    ]
