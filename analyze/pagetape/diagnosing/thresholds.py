# SPDX-License-Identifier: Apache-2.0
"""Every threshold of the diagnosis, with its baseline and its reason.

docs/diagnose.md has the same numbers; a test compares them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Threshold:
    """The least values of low, medium and high severity, all in the same unit."""

    low: float
    medium: float
    high: float
    unit: str
    reason: str

    def severity(self, value: float) -> str:
        """The severity of `value`."""
        if value >= self.high:
            return "high"
        if value >= self.medium:
            return "medium"
        return "low" if value >= self.low else "none"

    def rank(self, value: float) -> float:
        """How far `value` is above the threshold of its own severity, as a ratio."""
        bound = {"high": self.high, "medium": self.medium, "low": self.low}
        return value / bound.get(self.severity(value), self.low)


MIXING = Threshold(
    0.1, 1, 5, "% of the MOVABLE pageblocks that still hold a page that cannot move",
    "Each such pageblock is a huge page less. As long as each migratetype has free pages of its "
    "own, no request takes pages of another one: normal is 0.",
)  # fmt: skip
HUGE_PAGES = Threshold(
    5, 20, 50, "% of the huge page faults that got single pages",
    "With free blocks of pageblock order every fault gets a huge page: normal is 0.",
)  # fmt: skip
FRAGMENTED = 90  # % of free memory in smaller blocks: kcompactd starts there by default (score)
HUGE_PAGE_REQUESTS = 10  # fewer requests are no rate
KSWAPD_AWAKE = Threshold(
    1, 10, 30, "% of the tape with kswapd awake",
    "kswapd sleeps while memory is above the low watermark: normal is 0.",
)  # fmt: skip
KSWAPD_WASTE = Threshold(
    60, 60, 95, "% of the scanned pages not freed",
    "The kernel's own limits for memory pressure (vmpressure: medium 60, critical 95).",
)  # fmt: skip
KCOMPACTD_BUSY = Threshold(
    1, 10, 30, "% of the tape with kcompactd of a node compacting",
    "kcompactd sleeps while a block of each wanted order is free: normal is 0.",
)  # fmt: skip
EXPLICIT_COMPACTION = Threshold(
    0.1, 10, 50, "% of the tape with compaction that a task asked for",
    "The kernel compacts by itself when a request needs it: normal is 0. Only the task waits.",
)  # fmt: skip
STALLS = Threshold(
    0.1, 1, 10, "% of the tape with at least one task stalled",
    "This is `some` of /proc/pressure/memory; a machine with free memory has 0.",
)  # fmt: skip
LONG_STALL_MS = 100  # one stall of this length is at least medium: a person notices it
PCP_BACK = 50  # % of the pages allocated; lists that fit the load serve most pages themselves
PCP_SAVED = 50  # % of the traffic that larger lists save at most; less is no list too small
PCP_LOCK = Threshold(
    0, 2, 20, "% of the tape with the zone lock held for refills and drains, at most",
    "CPUs begin to wait for each other when the lock is held for a tenth of the time or more; "
    "hold times are those measured on Cascade Lake (commit 52166607ecc9).",
)  # fmt: skip
PCP_LARGE = Threshold(
    1, 2, 4, "times the distance from the min to the high watermark on per-CPU lists",
    "The watermarks do not count pages on the lists: lists with more than this distance start "
    "reclaim although memory is free.",
)  # fmt: skip
WATERMARKS = Threshold(
    1, 25, 75, "% of the shortages that ended below the min watermark",
    "kswapd exists to keep allocations above min. Documentation/admin-guide/sysctl/vm.rst gives "
    "stalled allocations as the sign of a watermark_scale_factor that is too small.",
)  # fmt: skip
RECLAIM_TARGET = 32  # pages that a direct reclaim wants to free (SWAP_CLUSTER_MAX)
PINNED = Threshold(
    1, 5, 20, "% of the managed memory in nearly empty pageblocks that cannot be emptied",
    "Packed together, the pages that hold these blocks would fill a few pageblocks: normal is "
    "that share.",
)  # fmt: skip
FAILURES = Threshold(
    0.0001, 0.0001, 0.1, "% of the allocations that failed without another way",
    "The kernel logs each of them as `page allocation failure`: normal is 0.",
)  # fmt: skip
OPTIONAL_FAILURES = 1  # % of the allocations; their callers have another way
LOSS = Threshold(
    0.0001, 1, 10, "% of the events lost",
    "Every count of the tape lacks the lost events: normal is 0.",
)  # fmt: skip
SHORT_TAPE_S = 5  # rates of shorter tapes say little
