# SPDX-License-Identifier: Apache-2.0
"""Bindings of the replay engine: no logic, one exception, Arrow batches in and out."""

from collections.abc import Sequence
from typing import Any, TypedDict

class EngineError(OSError):
    """The engine refused: `errno` says what kind of wrong, `strerror` the words."""

class ArrowBatch:
    """Rows of one table; pyarrow.record_batch() takes it without a copy."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

def kernels() -> list[dict[str, Any]]:
    """Rows of the feature matrix: name, doc, and every feature with its value."""

def kernel_for_release(release: str) -> str:
    """The row for a kernel's release string; EngineError names the rows if there is none."""

def policies(libs: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Those of the tree, then those of the shared objects `libs`: name, doc, kernel, tier,
    choices, notices, params [{name, min, max, default, values, doc}]."""

def check_policies(specs: Sequence[str], libs: Sequence[str] = ()) -> None:
    """EngineError if a SPEC is none, or two of them decide the same choice."""

class WrongPage(TypedDict):
    """A page of a free run that is not the one the record has."""

    at: int  # row of event
    ts: int
    cpu: int
    page_order: int
    migratetype: str
    expected: int | None  # the model's pfn; None if it had no page
    got: int  # the record's pfn

class Scene(WrongPage):
    """What a state trace prints: the state before row `first` and after row `ran`."""

    start: int  # row digests begin at; they end at row `at`
    first: int
    ran: int
    lists: int | None  # row before which all lists are looked at

class ListLook(TypedDict):
    """A free list or, with a CPU, a list of its PCP, that is not empty."""

    node: int
    zone: str
    cpu: int | None
    page_order: int
    migratetype: str
    nr: int
    pfns: list[int]  # of the first entries

class Sight(TypedDict):
    """What a state trace saw of a run, in lines of text."""

    event: list[str]  # only of validate: the request, and what its CPU did before
    before: list[str]
    after: list[str]
    lists: list[ListLook]
    digests: bytes  # [row - start] of each part of the state: uint32; 0: no request

class Replay:
    """One free run. load() the snapshot, then feed() the events, then finish()."""

    def __init__(
        self,
        kernel: str,
        policies: Sequence[str],  # SPECs: "name" or "name:key=value,key=value"
        *,
        nr_cpus: int,
        cpu_nodes: Sequence[int],  # node of each CPU
        node_distances: Sequence[Sequence[int]],
        pageblock_order: int,
        watermark_boost_factor: int = 15000,  # vm.watermark_boost_factor
        compaction_proactiveness: int = 20,  # vm.compaction_proactiveness
        percpu_pagelist_high_fraction: int = 0,  # vm.percpu_pagelist_high_fraction
        reclaim: str = "R0",
        recorded_kernel: str = "",  # row of the tape's own kernel, if it is another
        interval_ns: int = 1_000_000_000,  # grain of the counter table
        events: bool = True,  # write the model's own event rows
        counted: bool = False,  # ... of fallbacks only; event_count has the others' numbers
        compacts_for_record: bool = False,  # pages move for a request that the record served, in R0
        spans: Sequence[tuple[int, int]] = (),  # rows to play: [first, end) ...; none: all
        cpu_parts: Sequence[int] = (),  # of the nodes fake_numa makes of one, that of each CPU
        policy_libs: Sequence[str] = (),  # shared objects whose policies may be named
        explains: bool = False,  # find the first wrong page; slower
        scene: Scene | None = None,  # what a state trace prints
    ) -> None: ...
    def load(self, table: str, batch: object) -> None:
        """Rows of snapshot 0: zone, pcp, free_area, block_count, pageblock, and block_guess
        or free_block + pcp_page; besides, all rows of reclaim, of inferred, sorted by at, and of
        preference."""
    def feed(self, batch: object) -> None:
        """One batch of `event`, in tape order. Runs without the GIL."""
    def read(self) -> tuple[str, ArrowBatch] | None:
        """A finished batch of event or anomaly, if any. Call until None after each feed()."""
    def finish(self) -> None:
        """End of the tape: counters are complete, and read() gives the rest: event, anomaly,
        counter, event_count, free_count, block_mix, and the end state (snapshot 1) as zone,
        pcp, free_area, block_count, pageblock, free_block, pcp_page."""
    @property
    def totals(self) -> dict[str, Any]:
        """Sums over the run, by the names of the counter table, and loop_seconds, events."""
    @property
    def wrong_page(self) -> WrongPage | None:
        """With explains: the first page that is not the recorded one, as far as was fed."""
    @property
    def saw(self) -> Sight | None:
        """After finish(), with a scene."""
    @property
    def recorded(self) -> dict[str, int]:
        """Of the input: requests (allocs, frees) and failures (failed allocs, not replayed)."""
    @property
    def anomalies(self) -> dict[str, int]:
        """Anomalies by kind, also those past the million rows the table holds."""

class Validate:
    """One step ahead: at every recorded decision the model predicts, is scored, and takes over
    what was recorded. load() the snapshot, feed() the events, finish()."""

    def __init__(
        self,
        kernel: str,
        *,
        nr_cpus: int,
        cpu_nodes: Sequence[int],
        node_distances: Sequence[Sequence[int]],
        pageblock_order: int,
        watermark_boost_factor: int = 15000,
        compaction_proactiveness: int = 20,
        percpu_pagelist_high_fraction: int = 0,
        interval_ns: int = 1_000_000_000,  # grain of the tables exactness and repair
        spans: Sequence[tuple[int, int]] = (),
        nr_rows: int = 0,  # of event, for preview()
        checks: str = "off",  # invariants of the model: off; cheap, per second; full, per event
        scene: Scene | None = None,  # what a state trace prints
    ) -> None: ...
    def load(self, table: str, batch: object) -> None:
        """As Replay.load(); besides, all rows of reclaim and compaction."""
    def preview(self, batch: object) -> None:
        """Before the first feed(): every batch of `event`, for what shows only much later."""
    def feed(self, batch: object) -> None:
        """One batch of `event`, in tape order. Runs without the GIL."""
    def finish(self) -> None:
        """End of the tape: totals are complete, read() gives the rest."""
    def compare_end(self, table: str, batch: object) -> None:
        """After finish(): rows of the end's exact snapshot, all of zone, pageblock, free_block
        or pcp_page; end_state then holds how far the model's state agrees."""
    def read(self) -> tuple[str, ArrowBatch] | None:
        """A finished batch of exactness, repair, miss, inferred, preference or anomaly, if any.
        Rows of inferred are in the order in which they were found out: sort them by at."""
    @property
    def totals(self) -> dict[str, Any]:
        """allocs, alloc_exact, zone_locked, zone_locked_exact, refills, refill_size_exact,
        drained, drained_exact, drains, drain_size_exact, extfrag, extfrag_exact, unknown (of all
        these), inferred_untraced (pages), alloc_inferred (of alloc_exact: those exact once an
        untraced allocation before them was inferred, which other events prove), repairs
        {cause: nr}, events, loop_seconds."""
    @property
    def first_divergence(self) -> dict[str, Any] | None:
        """at, ts, cpu, node, zone, decision, cause, expected, got, and explanation: lines of what led
        there, and of the PCP and the free lists concerned before and after."""
    @property
    def saw(self) -> Sight | None:
        """After finish(), with a scene."""
    @property
    def end_state(self) -> dict[str, Any] | None:
        """free_blocks (of the snapshot), free_blocks_same (pfn, order and migratetype),
        successor_same (and the next on its list), pcp_pages, pcp_pages_same (on the same list of
        the same CPU), pageblocks, pageblocks_same. None without compare_end()."""
    @property
    def anomalies(self) -> dict[str, int]:
        """Anomalies by kind."""
