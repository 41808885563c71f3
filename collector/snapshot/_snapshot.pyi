# SPDX-License-Identifier: Apache-2.0
"""The page allocator's whole state at one instant, read with BPF.

A separate extension module: importing it raises ImportError, with the reason, if it was
built without libbpf or clang or if libbpf is missing now.
"""

from collections.abc import Collection
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

    def __init__(self) -> None: ...
    def take(
        self, snapshot: int, max_ms: float = 0.2
    ) -> tuple[dict[str, Any], list[tuple[str, ArrowBatch]]]:
        """Facts, and rows of zone, free_area, block_count, pcp, free_block, pcp_page, pageblock.

        A zone lock is held, and the CPUs are held still, no longer than about `max_ms` each time.
        That is enough for any machine whose CPUs run: but a hypervisor may keep them from meeting.
        `snapshot` goes into the column of that name. The facts:

        exact        everything below is the state at one instant, and no check failed
        ts           that instant, the cut (trace clock mono)
        pfn, cpu, pid, order   of the alloc_zone_locked event that marks it: the last one with
                     this pfn and pid not later than `ts`; the state is the one right after it,
                     so the `alloc` event of the same page that follows is in it already.
                     pfn and order are None if no event marks it: then `ts` alone is the cut
        cpus, held_cpus, held_ns   CPUs, how many were held still besides pid's, for how long
                     at most
        attempts     images made until one agreed with the counters
        meetings     times that all CPUs were called
        hindered     {kind: how often}, what kept meetings and images from giving a snapshot, also
                     of one that is exact: apart (the CPUs did not meet), late (more was new than
                     fits into the time), moved (interrupts changed a list), unmarked (the
                     allocation of the cut took no page of the expected zone), retyped (a
                     pageblock changed its type without an event), contradicted (lists and
                     counters disagree), full (more entries than the maps have room for)
        checks       {kind: how often it was checked}; kinds are list_sums (entries of an order
                     are nr_free), free_counters (pages are NR_FREE_PAGES with all deltas),
                     pcp_sums (pages are count), list_types (list and pageblock agree; 6.12 and
                     later), places (pages lie in their zone, aligned), pcp_types (PCP list
                     and pageblock agree)
        mismatches   {kind: how often it was wrong}, empty if never; pcp_types is no such kind
        pcp_types_differ   how often those differed: a page taken from a block of another type,
                     or whose block was claimed since, does
        zones        [{node, zone, how, walk_ns, lock_ns, free_blocks}]; how is
                     "precopied"  exact: copied beforehand, brought up to the cut while its lock
                                or all CPUs were held
                     "proc"     not read: no attempt succeeded, and no table has rows
                     walk_ns is the time from the begin of the copy to the cut, lock_ns the
                     longest time its lock was held
        """
    def print_events(self, token: int, listed: Collection[int], frees: bool, stamps: bool) -> None:
        """From now on until close(), BPF programs print events bpf_trace:bpf_trace_printk, which a
        Recorder decodes: with `frees` each mm_page_free of an order that is not `listed` or of a
        locked list, with `stamps` the state at the first event of each refill and drain. Their
        texts begin with "pagetape TOKEN ", in hexadecimal. Switches that event on in the top
        instance of ftrace, soon after. CollectorError if the kernel refuses."""
    def zone_locks(self) -> list[tuple[int, int, int]]:
        """The address of each zone's lock, the node, and the number of the zone on a tape."""
    def hold_only(self, ns: int) -> list[tuple[int, int]]:
        """Hold all CPUs as the last take() did, but idle: (ns, part that it ran) of each."""
    def close(self) -> None:
        """Unload. It frees megabytes: do it outside the recorded window."""
