# SPDX-License-Identifier: Apache-2.0
"""Bindings of the replay engine: no logic, one exception, Arrow batches in and out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Required, TypedDict, Unpack

class EngineError(OSError):
    """The engine refused: `errno` is the kind of error, `strerror` the message."""

class ArrowBatch:
    """Rows of one table; pyarrow.record_batch() takes it without a copy."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

def give_back_memory() -> None:
    """Give what is freed by now back to the kernel: model/memory.h."""

def kernels() -> list[dict[str, Any]]:
    """Rows of the feature matrix: name, doc, and every feature with its value."""

def kernel_rules(name: str) -> dict[str, str | int | bool]:
    """The features of a row; values are the constants of kernel_rows.h, numbers and
    booleans. EngineError if there is no such row."""

class UsableMemory(TypedDict):
    """What one zone has for a request: with the rights of its gfp flags in the slow path."""

    allowed: bool  # the request may take the zone
    pages: int  # free pages less those that the request may not use; may be negative
    exact: bool  # every count that is subtracted is known; otherwise there are at most `pages`
    block: bool  # it has a free block that is large enough, of a type that the request may take
    above: bool  # the kernel's test (zone_watermark_fast) passes at the min watermark

def usable_memory(
    release: str,
    zone_row: dict[str, Any],
    wanted: dict[str, Any],
    blocks: Collection[tuple[int, str, int]] = (),
    has_highmem: bool = False,
) -> UsableMemory:
    """The engine's own rules by the row of `release`, on a row of the table `zone` at its min
    watermark. Unknown counts (None) count as 0. `wanted`: gfp_flags, page_order and migratetype of
    the request. `blocks`: number of free blocks by order and migratetype. EngineError if no row has
    the release."""

def features() -> list[dict[str, str]]:
    """The columns of the feature matrix: name, doc."""

def kernel_for_release(release: str) -> str:
    """The row for a kernel's release string; EngineError names the rows if there is none."""

def policies(libs: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The built-in policies, then those of the shared objects `libs`: name, doc, kernel, tier,
    choices, notices, params [{name, min, max, default, values, doc}]."""

def check_policies(specs: Sequence[str], libs: Sequence[str] = ()) -> None:
    """EngineError if a SPEC is bad, or if two SPECs own the same choice."""

def feedback(
    specs: Sequence[str],
    libs: Sequence[str] = (),
    *,
    kernel: str,
    own: str | None = None,
    sysctls: Mapping[str, int] = ...,
) -> list[str]:
    """The names of the policies among SPECs that act through reclaim or compaction in a run of the
    row `kernel` (tier B), and "kernel ROW" if its rules of them differ from those of the row `own`.
    `sysctls` are those of the recording, as for Replay."""

def zone_reclaim_mode(
    specs: Sequence[str], libs: Sequence[str] = (), sysctls: Mapping[str, int] = ...
) -> int:
    """vm.zone_reclaim_mode in a run of these SPECs on a recording with these sysctls."""

class PolicyEffect(TypedDict):
    """What the decisions of a policy came to in a run."""

    policy: str  # its SPEC
    choices: int  # times it could choose; 0: never
    changed: int | None  # of them, those that mainline decides otherwise; None: not computed
    text: str  # follows the policy's name in a sentence

class WrongPage(TypedDict):
    """A page of a free run that differs from the recorded page."""

    at: int  # row of event
    ts: int
    cpu: int
    page_order: int
    migratetype: str
    expected: int | None  # the model's pfn; None if it had no page
    got: int  # the recorded pfn

class TraceConfig(WrongPage):
    """The request of a state trace: the state is printed before row `first` and after row `ran`."""

    start: int  # first row with digests; the last is row `at`
    first: int
    ran: int
    lists: int | None  # row before which all lists are recorded

class ListState(TypedDict):
    """A free list or, with a CPU, a list of its PCP. Not empty."""

    node: int
    zone: str
    cpu: int | None
    page_order: int
    migratetype: str
    nr: int
    pfns: list[int]  # of the first entries

class StateTrace(TypedDict):
    """The states around one request, in lines of text."""

    event: list[str]  # only of validate: the request, and the events of its CPU before
    before: list[str]
    after: list[str]
    lists: list[ListState]
    digests: bytes  # uint32 [row - start] [part of the state]; 0: the row is no request

class RunOptions(TypedDict, total=False):
    """Keywords of both kinds of run."""

    nr_cpus: Required[int]
    cpu_nodes: Required[Sequence[int]]  # node of each CPU
    node_distances: Required[Sequence[Sequence[int]]]
    pageblock_order: Required[int]
    max_order: int  # MAX_PAGE_ORDER; 10
    page_size: int  # bytes; 4096
    watermark_boost_factor: int  # vm.watermark_boost_factor; 15000
    compaction_proactiveness: int  # vm.compaction_proactiveness; 20
    defrag_mode: int  # vm.defrag_mode; 0
    known_pages: int  # of the tape's pageblocks; 0. Zones that span much more are refused
    zone_events: bool  # event set zone: PCP lists are the boundary of the tape; False
    hopeless_nodes: int  # bits of nodes whose kswapd has given up before the start; 0
    percpu_pagelist_high_fraction: int  # vm.percpu_pagelist_high_fraction; 0
    numa_balancing: int  # kernel.numa_balancing, of which bit 1 is memory tiering; 0
    interval_ns: int  # interval of the tables over time; 1 s
    interval_ts: int  # when one of a free run begins; 0, at whole seconds
    spans: Sequence[tuple[int, int]]  # rows to play: [first, end) ...; none: all
    trace: TraceConfig | None  # the request of a state trace

class ReplayOptions(RunOptions, total=False):
    """Keywords of Replay."""

    reclaim: str  # R0 (the default), R1 or R2
    recorded_kernel: str  # row of the tape's own kernel, if it differs
    events: bool  # write the model's own event rows; the default
    counted: bool  # ... of fallbacks only; event_count has numbers of the others
    recorder_pids: Collection[int]  # the recorder's threads, which event_count has apart
    compacts_for_record: bool  # in R0: compact for a request that the record served
    cpu_parts: Sequence[int]  # node of each CPU, where fake_numa splits a node
    policy_libs: Sequence[str]  # shared objects with policies
    explains: bool  # find the first wrong page; slower
    seed: int  # of the changes that make a member of an ensemble; 0: none
    changes: Mapping[str, int]  # changes of each kind, per million rows of event
    flips: Mapping[str, int]  # decisions taken otherwise: by exactness.decision, per 10^9
    rewrites: Sequence[Mapping[str, Any]]  # rules with the names of rewrite.h; see rewrite.py
    moments: bool  # inferred rows take other moments within their windows

class ValidateOptions(RunOptions, total=False):
    """Keywords of Validate."""

    nr_rows: int  # of event, for preview()
    checks: str  # invariants of the model: off; cheap, per second; full, per event

class HindsightOptions(RunOptions, total=False):
    """Keywords of Hindsight."""

    nr_rows: int  # of event, for preview()

class Replay:
    """One free run. load() the snapshot, then feed() the events, then finish()."""

    def __init__(
        self,
        kernel: str,
        policies: Sequence[str],  # SPECs: "name" or "name:key=value,key=value"
        **given: Unpack[ReplayOptions],
    ) -> None: ...
    def load(self, table: str, batch: object) -> None:
        """Rows of snapshot 0: zone, pcp, free_area, block_count, pageblock, and block_guess
        or free_block + pcp_page; also all rows of reclaim, of inferred, sorted by at, and of
        preference."""
    def feed(self, batch: object) -> None:
        """One batch of `event`, in tape order. Runs without the GIL."""
    def read(self) -> tuple[str, ArrowBatch] | None:
        """A finished batch of event or anomaly, if any. After each feed(), call until None."""
    def finish(self) -> None:
        """End of the tape: counters are complete, and read() returns the rest: event, anomaly,
        counter, event_count, free_count, block_mix, and the end state (snapshot 1) as zone,
        pcp, free_area, block_count, pageblock, free_block, pcp_page."""
    @property
    def totals(self) -> dict[str, Any]:
        """Sums over the run, by the names of the counter table, and loop_seconds, events."""
    @property
    def drawn(self) -> dict[str, int]:
        """The changes of a member so far, by kind."""
    @property
    def policies_effect(self) -> list[PolicyEffect]:
        """After finish(): each policy of the run, mainline first, that says what it decided."""
    @property
    def wrong_page(self) -> WrongPage | None:
        """With `explains`: the first wrong page of the rows that were fed."""
    @property
    def state_trace(self) -> StateTrace | None:
        """After finish(), with `trace`."""
    @property
    def recorded(self) -> dict[str, int]:
        """Of the input: `requests` (allocs, frees) and `failures` (failed allocs, not replayed)."""
    @property
    def rewritten(self) -> dict[str, int]:
        """Of the requests that a rule fits: `requests` that were rewritten, and `kept`."""
    @property
    def anomalies(self) -> dict[str, int]:
        """Anomalies by kind, including those past the table's limit of a million rows."""

class Validate:
    """One step ahead: at every recorded decision the model predicts, the prediction is scored, and
    the model takes over the record. load() the snapshot, feed() the events, finish()."""

    def __init__(self, kernel: str, **given: Unpack[ValidateOptions]) -> None: ...
    def load(self, table: str, batch: object) -> None:
        """As Replay.load(); also all rows of reclaim and compaction."""
    def preview(self, batch: object) -> None:
        """Before the first feed(): every batch of `event`, for facts that show only much later."""
    def feed(self, batch: object) -> None:
        """One batch of `event`, in tape order. Runs without the GIL."""
    def finish(self) -> None:
        """End of the tape: totals are complete, and read() returns the rest."""
    def compare_end(self, table: str, batch: object) -> None:
        """After finish(): rows of the end's exact snapshot, all of zone, pageblock, free_block
        or pcp_page; end_state then counts the rows that the model's state has as well."""
    def read(self) -> tuple[str, ArrowBatch] | None:
        """A finished batch of exactness, repair, miss, inferred, preference or anomaly, if any.
        Rows of inferred come in the order of their inference: sort them by at."""
    @property
    def totals(self) -> dict[str, Any]:
        """allocs, alloc_exact, zone_locked, zone_locked_exact, refills, refill_size_exact,
        drained, drained_exact, drains, drain_size_exact, extfrag, extfrag_exact, unknown (of all
        these), inferred_untraced (pages), alloc_inferred (of alloc_exact: those that are exact
        only after an untraced allocation before them was inferred), repairs {cause: nr}, events,
        loop_seconds."""
    @property
    def first_divergence(self) -> dict[str, Any] | None:
        """at, ts, cpu, node, zone, decision, cause, expected, got, and explanation: lines about the
        events before, and about the PCP and the free lists concerned, before and after."""
    @property
    def state_trace(self) -> StateTrace | None:
        """After finish(), with `trace`."""
    @property
    def end_state(self) -> dict[str, Any] | None:
        """free_blocks (of the snapshot), free_blocks_same (pfn, order and migratetype),
        successor_same (and the next on its list), pcp_pages, pcp_pages_same (on the same list of
        the same CPU), pageblocks, pageblocks_same. None without compare_end()."""
    @property
    def anomalies(self) -> dict[str, int]:
        """Anomalies by kind."""

class Hindsight:
    """The start of a tape that begins with /proc, from its later events. load() the snapshot,
    preview() all events, feed() them again, finish()."""

    def __init__(self, kernel: str, **given: Unpack[HindsightOptions]) -> None: ...
    def load(self, table: str, batch: object) -> None:
        """Rows of snapshot 0: zone, pcp, free_area, block_count, pageblock, block_guess; all of
        compaction."""
    def preview(self, batch: object) -> None:
        """Before the first feed(): every batch of `event`, in tape order."""
    def feed(self, batch: object) -> None:
        """The same batches again. Runs without the GIL."""
    def finish(self) -> None:
        """End of the tape: read() returns the rows of the start."""
    def read(self) -> tuple[str, ArrowBatch] | None:
        """A finished batch of pageblock, pcp_page or free_block, of snapshot 0 in list order."""
    @property
    def free_counts(self) -> list[list[int]]:
        """For each row of pcp, the likely values of free_count, the likeliest first; none if no
        event shows one."""
    @property
    def coverage(self) -> dict[str, int]:
        """free_blocks, free_pages, pcp_pages and pageblocks of the start, each also with
        `_proven`: those that events prove; free_blocks_guessed: free blocks of which the snapshot
        has only the number and no event shows a page, so that their place is a guess;
        contradictions: pages whose first event disagrees with the snapshot."""

class RecordedCounts:
    """Counts of a recording's events, as event_count and huge_request have those of a model: feed()
    every batch of `event`, then read()."""

    def __init__(self, since: int, until: int, recorder_pids: Collection[int]) -> None:
        """`since`, `until`: times in ns of the first and the last event that counts.
        `recorder_pids`: the recorder's threads, which event_count has apart."""
    def feed(self, batch: object) -> int:
        """The number of fallbacks in the batch, which are not counted."""
    def read(self) -> tuple[str, ArrowBatch] | None:
        """A batch of event_count or huge_request. Call until None."""
    @property
    def complete(self) -> bool:
        """Whether all events were counted: none has an order or kind that no kernel has."""
