# SPDX-License-Identifier: Apache-2.0
"""The page allocator's whole state at one instant, read with BPF.

A separate extension module: importing it raises ImportError, with the reason, if it was
built without libbpf or clang or if libbpf is missing now.
"""

from typing import Any

class ArrowBatch:
    """Rows of one table; pyarrow.record_batch() takes it without a copy."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class Snapshot:
    """The loaded programs: make it before a recording, take() at its start and end.

    Loading allocates megabytes, so do it outside the recorded window. CollectorError with
    errno EPERM (CAP_BPF and CAP_PERFMON are needed) or ENOTSUP (the kernel lacks something).
    """

    # Each hold in the last take(), ns: of a CPU, with the part that it ran; of a zone's lock.
    holds: list[tuple[int, int]]
    locks: list[int]

    def __init__(self, max_ms: float = 0.2, locked: bool = False) -> None:
        """A zone lock is held, and the CPUs are held still, no longer than about `max_ms`.

        Normally the lists are copied beforehand, so that this is enough for any machine. With
        `locked`, all lists are walked while the lock and the CPUs are held, which may take
        20 ms and more, and leaves zones out that take longer.
        """
    def take(self, snapshot: int) -> tuple[dict[str, Any], list[tuple[str, ArrowBatch]]]:
        """Facts, and rows of zone, free_area, block_count, pcp, free_block, pcp_page, pageblock.

        `snapshot` goes into the column of that name. The facts:

        exact        everything below is the state at one instant, and no check failed
        ts           that instant, the cut (trace clock mono)
        pfn, cpu, pid, order   of the alloc_zone_locked event that marks it: the last one with
                     this pfn and pid not later than `ts`; the state is the one right after it,
                     so the `alloc` event of the same page that follows is in it already.
                     pfn is None if there was no such event: align by `ts` then
        cpus, held_cpus, held_ns   CPUs, how many were held still besides pid's, for how long
                     at most
        attempts     locked: cuts made until nothing moved; otherwise images made until one agreed
                     with the counters
        meetings     times that all CPUs were held; 0 if locked
        checks       {kind: how often it was checked}; kinds are list_sums (entries of an order
                     are nr_free), free_counters (pages are NR_FREE_PAGES with all deltas),
                     pcp_sums (pages are count), list_types (list and pageblock agree; 6.12 and
                     later), places (pages lie in their zone, aligned), pcp_types (PCP list
                     and pageblock agree)
        mismatches   {kind: how often it was wrong}, empty if never; pcp_types is no such kind
        pcp_types_differ   how often those differed: a page taken from a block of another type,
                     or whose block was claimed since, does
        zones        [{node, zone, how, walk_ns, lock_ns, free_blocks, lists_moved,
                     pcps_moved, pcps_refused}]; how is
                     "precopied"  exact: copied beforehand, brought up to the cut while its lock
                                or all CPUs were held
                     "locked"   exact: walked under the zone's lock
                     "still"    exact: walked without it, unchanged from the cut to the end
                     "pieces"   too large for max_ms: list by list, each exact at its own time
                                but for lists_moved of them, which have no rows; rows carry
                                their own ts, and no page is in two of them
                     "refused"  too large for the memory: no free_block rows
                     lock_ns is the longest time its lock was held; PCPs that moved and
                     refused ones have no pcp_page rows
        """
    def hold_only(self, ns: int) -> list[tuple[int, int]]:
        """Hold all CPUs for so long without any work: (ns, part that it ran) of each."""
    def close(self) -> None:
        """Unload. It frees megabytes: do it outside the recorded window."""
