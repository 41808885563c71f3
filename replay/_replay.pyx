# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of the replay engine; _replay.pyi documents them."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

import errno
import os

from pagetape.schemas import TABLES

include "arrow_batch.pxi"


cdef extern from "model/kernel.h" nogil:
    struct kernel:
        const char *name
        const char *doc
    struct feature:
        const char *name
        const char *doc
        size_t offset
        const char *const *words
    const kernel kernel_rows "kernels"[]
    const feature features[]
    int kernel_find(const kernel **out, const char *name, error *err)
    int c_kernel_for_release "kernel_for_release"(const kernel **out, const char *release, error *err)

cdef extern from "model/policy_stack.h" nogil:
    struct policy_param:
        const char *name
        int64_t min, max, initial
        const char *const *values
        const char *doc
    struct policy_ops:
        const char *name
        const char *doc
        const char *kernel
        const char *tier
        const policy_param *params
    struct policy_lib:
        const policy_ops *ops
    struct policy_stack:
        policy_lib *libs
        int nr_libs
    int policy_stack_new(policy_stack **out, const policy_ops *const *known, error *err)
    void policy_stack_free(policy_stack *stack)
    int policy_stack_add(policy_stack *stack, const char *spec, error *err)
    int policy_stack_open(policy_stack *stack, const char *path, error *err)
    const char *policy_choice(const policy_ops *ops, int n)
    const char *policy_notice(const policy_ops *ops, int n)

cdef extern from "policies/policies.h" nogil:
    const policy_ops *policy_table "policies"[]

cdef extern from "run/run.h" nogil:
    struct machine:
        int pageblock_order, max_order
        int nr_cpus, nr_nodes
        const uint16_t *cpu_nodes
        const uint8_t *node_distances
        const uint16_t *cpu_parts
        int pcp_high_fraction
    struct span:
        uint64_t first, end
    struct run_observer:
        pass
    struct run_config:
        const kernel *kernel
        const kernel *recorded
        machine machine
        const char *const *policies
        int nr_policies
        const char *const *policy_libs
        int nr_policy_libs
        uint64_t interval_ns
        const span *spans
        size_t nr_spans
        const run_observer *observer

cdef extern from "explain/explain_validate.h" nogil:
    const int NR_PARTS
    struct explanation:
        const char *text
    struct state_trace_config:
        uint64_t start, first, ran, at, lists
        uint64_t pfns[2]
        uint16_t cpu
        uint8_t order, migratetype
    const int LOOK_ENTRIES, NO_CPU
    struct list_look:
        uint64_t pfns[4]
        uint32_t nr
        uint16_t node, cpu
        uint8_t zone, order, migratetype
    struct state_trace:
        explanation event, before, after
        size_t nr_lists, nr_digests
        const list_look *lists
        const char *digests
    int state_trace_new(state_trace **out, const state_trace_config *config, error *err)
    void state_trace_free(state_trace *w)
    run_observer state_trace_observer(state_trace *w)
    struct validate_explanation:
        explanation miss
        state_trace *trace
    validate_observer validate_explanation_observer(validate_explanation *e)

cdef extern from "freerun/replay.h" nogil:
    enum reclaim_mode:
        RECLAIM_AS_RECORDED
    struct replay_config:
        run_config run
        bint events
        reclaim_mode reclaim
        bint counted
        bint compacts_for_record
        bint explains
    struct wrong_page:
        bint known
        uint64_t at, ts, expected, got
        uint16_t cpu
        uint8_t order, migratetype
    struct totals:
        uint64_t events
        uint64_t requests
        uint64_t recorded_failures
        const uint64_t *anomalies
        double loop_seconds
    struct replay:
        pass
    int replay_new(replay **out, const replay_config *config, error *err)
    void replay_free(replay *r)
    int replay_load(
        replay *r, const char *table, const ArrowSchema *schema, const ArrowArray *array, error *err
    )
    int replay_feed(replay *r, const ArrowSchema *schema, const ArrowArray *array, error *err)
    int replay_finish(replay *r, error *err)
    batch *replay_read(replay *r)
    const totals *replay_totals(const replay *r)
    const wrong_page *replay_wrong_page(const replay *r)
    const char *counter_name(int n)
    uint64_t counter_total(const totals *totals, int n)

cdef extern from "validate/validate.h" nogil:
    struct accuracy_count:
        uint64_t nr, exact, unknown
    struct repair_count:
        uint64_t nr, pages
    struct zone_accuracy:
        accuracy_count *decisions
        repair_count *repairs
    struct window_event:
        uint64_t at, ts
        uint16_t cpu
    struct zone:
        uint16_t node
        uint8_t type
    struct miss:
        const zone *zone
        int decision, cause
        uint64_t expected, got
    struct divergence:
        bint known
        miss miss
        window_event event
    struct end_state_diff:
        bint known
        uint64_t free_blocks, free_blocks_same, successor_same
        uint64_t pcp_pages, pcp_pages_same, pageblocks, pageblocks_same
    struct validate_observer:
        pass
    struct validate_config:
        run_config run
        uint64_t nr_rows
        int checks
        const validate_observer *observer
    struct validate_totals:
        uint64_t events
        const uint64_t *anomalies
        uint64_t alloc_inferred
        double loop_seconds
        zone_accuracy accuracy
    struct validate:
        pass
    int validate_new(validate **out, const validate_config *config, error *err)
    void validate_free(validate *v)
    int validate_load(
        validate *v, const char *table, const ArrowSchema *schema, const ArrowArray *array,
        error *err
    )
    int validate_preview(
        validate *v, const ArrowSchema *schema, const ArrowArray *array, error *err
    )
    int validate_feed(validate *v, const ArrowSchema *schema, const ArrowArray *array, error *err)
    int validate_finish(validate *v, error *err)
    int validate_compare_end(
        validate *v, const char *table, const ArrowSchema *schema, const ArrowArray *array,
        error *err
    )
    batch *c_validate_read "validate_read"(validate *v)
    const validate_totals *c_validate_totals "validate_totals"(const validate *v)
    const divergence *validate_divergence(const validate *v)
    const end_state_diff *validate_end_state_diff(const validate *v)


class EngineError(OSError):
    pass


Refused = EngineError


cdef list strings(const char *const *words):
    cdef list out = []
    while words and words[len(out)]:
        out.append(words[len(out)].decode())
    return out


def kernels():
    cdef list rows = []
    cdef dict row
    cdef const kernel *k = kernel_rows
    cdef const feature *f
    while k.name:
        row = {"name": k.name.decode(), "doc": k.doc.decode()}
        f = features
        while f.name:
            value = (<const uint8_t *>k)[f.offset]
            words = strings(f.words)
            row[f.name.decode()] = words[value] if words else value
            f += 1
        rows.append(row)
        k += 1
    return rows


def kernel_for_release(str release):
    cdef const kernel *k
    cdef error err
    check(c_kernel_for_release(&k, release.encode(), &err), &err)
    return k.name.decode()


cdef list policy_params(const policy_ops *ops):
    cdef list out = []
    cdef const policy_param *p = ops.params
    while p and p.name:
        values = strings(p.values)
        out.append(
            {
                "name": p.name.decode(),
                "min": p.min,
                "max": p.max,
                "default": values[p.initial] if values else p.initial,
                "values": values,
                "doc": p.doc.decode(),
            }
        )
        p += 1
    return out


cdef dict describe_policy(const policy_ops *ops):
    choices, notices = [], []
    while policy_choice(ops, len(choices)):
        choices.append(policy_choice(ops, len(choices)).decode())
    while policy_notice(ops, len(notices)):
        notices.append(policy_notice(ops, len(notices)).decode())
    return {
        "name": ops.name.decode(),
        "doc": ops.doc.decode(),
        "kernel": ops.kernel.decode(),
        "tier": ops.tier.decode(),
        "choices": choices,
        "notices": notices,
        "params": policy_params(ops),
    }


def policies(libs=()):
    cdef list out = []
    cdef policy_stack *stack = NULL
    cdef error err
    cdef int i = 0
    while policy_table[i]:
        out.append(describe_policy(policy_table[i]))
        i += 1
    try:
        check(policy_stack_new(&stack, policy_table, &err), &err)
        for path in libs:
            check(policy_stack_open(stack, os.fsencode(path), &err), &err)
        for i in range(stack.nr_libs):
            out.append(describe_policy(stack.libs[i].ops))
    finally:
        policy_stack_free(stack)
    return out


def check_policies(specs, libs=()):
    cdef policy_stack *stack = NULL
    cdef error err
    try:
        check(policy_stack_new(&stack, policy_table, &err), &err)
        for path in libs:
            check(policy_stack_open(stack, os.fsencode(path), &err), &err)
        for spec in specs:
            check(policy_stack_add(stack, spec.encode(), &err), &err)
    finally:
        policy_stack_free(stack)


cdef class Machine:
    """The memory of a struct machine and of the spans to play."""

    cdef machine c
    cdef uint16_t *cpu_nodes
    cdef uint16_t *cpu_parts
    cdef uint8_t *distances
    cdef span *spans
    cdef size_t nr_spans

    def __cinit__(
        self, int nr_cpus, cpu_nodes, node_distances, int pageblock_order, int fraction, spans,
        cpu_parts=(),
    ):
        nodes, distances = list(cpu_nodes), [list(row) for row in node_distances]
        if len(cpu_parts) not in (0, nr_cpus):
            raise EngineError(errno.EINVAL, f"parts for {len(cpu_parts)} CPUs, not {nr_cpus}")
        if len(nodes) != nr_cpus or any(len(row) != len(distances) for row in distances):
            raise EngineError(errno.EINVAL, f"nodes of {len(nodes)} CPUs, not {nr_cpus}, or "
                              "distances that are not square")
        self.cpu_nodes = <uint16_t *>calloc(max(nr_cpus, 1), sizeof(uint16_t))
        self.distances = <uint8_t *>calloc(max(len(distances), 1) ** 2, 1)
        self.spans = <span *>calloc(max(len(spans), 1), sizeof(span))
        self.cpu_parts = <uint16_t *>calloc(max(nr_cpus, 1), sizeof(uint16_t))
        if not self.cpu_nodes or not self.distances or not self.spans or not self.cpu_parts:
            raise MemoryError
        for i, part in enumerate(cpu_parts):
            self.cpu_parts[i] = part
        for i, node in enumerate(nodes):
            self.cpu_nodes[i] = node
        for i, row in enumerate(distances):
            for j, value in enumerate(row):
                self.distances[i * len(distances) + j] = value
        for i, (first, end) in enumerate(spans):
            self.spans[i] = span(first, end)
        self.nr_spans = len(spans)
        self.c.pageblock_order = pageblock_order
        self.c.max_order = 10
        self.c.nr_cpus = nr_cpus
        self.c.nr_nodes = len(distances)
        self.c.cpu_nodes = self.cpu_nodes
        self.c.node_distances = self.distances
        self.c.cpu_parts = self.cpu_parts if cpu_parts else NULL
        self.c.pcp_high_fraction = fraction

    def __dealloc__(self):
        free(self.cpu_nodes)
        free(self.cpu_parts)
        free(self.distances)
        free(self.spans)


cdef const char **c_strings(list strings) except NULL:
    """A C array of the strings, to be freed; the strings must outlive it."""
    cdef const char **array = <const char **>calloc(len(strings) + 1, sizeof(char *))
    if not array:
        raise MemoryError
    for i, string in enumerate(strings):
        array[i] = string
    return array


cdef class Rows:
    """The rows of an Arrow batch as C structs, valid as long as this object lives."""

    cdef object capsules
    cdef const ArrowSchema *schema
    cdef const ArrowArray *array

    def __cinit__(self, batch):
        schema, array = self.capsules = batch.__arrow_c_array__()
        self.schema = <ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema")
        self.array = <ArrowArray *>PyCapsule_GetPointer(array, "arrow_array")


cdef uint64_t NO_PFN = 2**64 - 1


cdef int read_trace_config(state_trace_config *out, dict trace) except -1:
    expected = trace["expected"]
    lists = trace["lists"]
    out.start, out.first = trace["start"], trace["first"]
    out.ran, out.at = trace["ran"], trace["at"]
    out.lists = NO_PFN if lists is None else lists
    out.pfns[0] = trace["got"]
    out.pfns[1] = NO_PFN if expected is None else expected
    out.cpu, out.order = trace["cpu"], trace["page_order"]
    out.migratetype = TABLES["event"].column("migratetype").labels.index(trace["migratetype"])
    return 0


cdef dict list_state(const list_look *look):
    labels = TABLES["event"].column("migratetype").labels
    return {
        "node": look.node,
        "zone": TABLES["miss"].column("zone").labels[look.zone],
        "cpu": None if look.cpu == NO_CPU else look.cpu,
        "page_order": look.order,
        "migratetype": labels[look.migratetype],
        "nr": look.nr,
        "pfns": [look.pfns[i] for i in range(LOOK_ENTRIES) if look.pfns[i] != NO_PFN],
    }


cdef dict state_trace_dict(const state_trace *w):
    if not w:
        return None
    return {
        "event": w.event.text.decode().splitlines(),
        "before": w.before.text.decode().splitlines(),
        "after": w.after.text.decode().splitlines(),
        "lists": [list_state(&w.lists[i]) for i in range(w.nr_lists)],
        "digests": (<const char *>w.digests)[: w.nr_digests * NR_PARTS * 4],
    }


# By enum reclaim_mode.
RECLAIM_MODES = ("R0", "R1", "R2")


cdef class Trace:
    """The states around one request, and the observers that record them."""

    cdef state_trace *c
    cdef run_observer observer
    cdef validate_explanation explanation
    cdef validate_observer validate_observer

    def __cinit__(self, trace):
        cdef error err
        cdef state_trace_config config
        if trace is not None:
            read_trace_config(&config, trace)
            check(state_trace_new(&self.c, &config, &err), &err)
            self.observer = state_trace_observer(self.c)
        self.explanation.trace = self.c
        self.validate_observer = validate_explanation_observer(&self.explanation)

    def __dealloc__(self):
        state_trace_free(self.c)


cdef int fill_run(run_config *run, str kernel, Machine machine, uint64_t interval_ns,
                  Trace trace) except -1:
    """Fill the part of the config that both kinds of run share; policies are the caller's."""
    cdef error err
    check(kernel_find(&run.kernel, kernel.encode(), &err), &err)
    run.machine = machine.c
    run.interval_ns = interval_ns
    run.spans = machine.spans
    run.nr_spans = machine.nr_spans
    if trace.c:
        run.observer = &trace.observer
    return 0


cdef class Replay:
    cdef replay *c
    cdef replay_config config
    cdef Machine machine
    cdef Trace trace

    def __cinit__(
        self,
        str kernel,
        policies,
        *,
        int nr_cpus,
        cpu_nodes,
        node_distances,
        int pageblock_order,
        int watermark_boost_factor=15000,
        int compaction_proactiveness=20,
        int percpu_pagelist_high_fraction=0,
        str reclaim="R0",
        str recorded_kernel="",
        uint64_t interval_ns=1_000_000_000,
        bint events=True,
        bint counted=False,
        bint compacts_for_record=False,
        spans=(),
        cpu_parts=(),
        policy_libs=(),
        bint explains=False,
        trace=None,
    ):
        cdef error err
        cdef list specs = [
            f"mainline:boost_factor={watermark_boost_factor},"
            f"proactiveness={compaction_proactiveness}".encode()
        ]
        cdef list paths = [os.fsencode(path) for path in policy_libs]
        cdef const char **array
        cdef const char **libs
        if reclaim not in RECLAIM_MODES:
            raise EngineError(
                errno.EINVAL, f"reclaim '{reclaim}': there are {', '.join(RECLAIM_MODES)}"
            )
        specs += [spec.encode() for spec in policies]
        self.machine = Machine(
            nr_cpus, cpu_nodes, node_distances, pageblock_order, percpu_pagelist_high_fraction, spans,
            cpu_parts
        )
        self.trace = Trace(trace)
        array = c_strings(specs)
        libs = c_strings(paths)
        try:
            fill_run(&self.config.run, kernel, self.machine, interval_ns, self.trace)
            if recorded_kernel:
                check(kernel_find(&self.config.run.recorded, recorded_kernel.encode(), &err), &err)
            self.config.run.policies = array
            self.config.run.nr_policies = len(specs)
            self.config.run.policy_libs = libs
            self.config.run.nr_policy_libs = len(paths)
            self.config.events = events
            self.config.reclaim = <reclaim_mode><int>RECLAIM_MODES.index(reclaim)
            self.config.counted = counted
            self.config.compacts_for_record = compacts_for_record
            self.config.explains = explains or trace is not None
            check(replay_new(&self.c, &self.config, &err), &err)
        finally:
            free(array)
            free(libs)

    def __dealloc__(self):
        replay_free(self.c)

    def load(self, str table, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        check(replay_load(self.c, table.encode(), rows.schema, rows.array, &err), &err)

    def feed(self, batch):
        cdef error err
        cdef int ret
        cdef Rows rows = Rows(batch)
        with nogil:
            ret = replay_feed(self.c, rows.schema, rows.array, &err)
        check(ret, &err)

    def read(self):
        cdef error err
        cdef ArrowBatch out = ArrowBatch()
        cdef batch *rows = replay_read(self.c)
        if not rows:
            return None
        out.table = rows.table
        check(batch_export(rows, &out.array, &err), &err)
        return rows.table.name.decode(), out

    def finish(self):
        cdef error err
        cdef int ret
        with nogil:
            ret = replay_finish(self.c, &err)
        check(ret, &err)

    @property
    def totals(self):
        cdef const totals *t = replay_totals(self.c)
        cdef dict out = {}
        while counter_name(len(out)):
            out[counter_name(len(out)).decode()] = counter_total(t, len(out))
        out["loop_seconds"] = t.loop_seconds
        out["events"] = t.events
        return out

    @property
    def wrong_page(self):
        cdef const wrong_page *w = replay_wrong_page(self.c)
        if not w.known:
            return None
        return {
            "at": w.at,
            "ts": w.ts,
            "cpu": w.cpu,
            "page_order": w.order,
            "migratetype": TABLES["event"].column("migratetype").labels[w.migratetype],
            "expected": None if w.expected == NO_PFN else w.expected,
            "got": w.got,
        }

    @property
    def state_trace(self):
        return state_trace_dict(self.trace.c)

    @property
    def recorded(self):
        cdef const totals *t = replay_totals(self.c)
        return {"requests": t.requests, "failures": t.recorded_failures}

    @property
    def anomalies(self):
        cdef const totals *t = replay_totals(self.c)
        kinds = TABLES["anomaly"].column("kind").labels
        return {kind: t.anomalies[i] for i, kind in enumerate(kinds)}


cdef dict CHECKS = {"off": 0, "cheap": 1, "full": 2}


cdef class Validate:
    cdef validate *c
    cdef validate_config config
    cdef Machine machine
    cdef Trace trace

    def __cinit__(
        self,
        str kernel,
        *,
        int nr_cpus,
        cpu_nodes,
        node_distances,
        int pageblock_order,
        int watermark_boost_factor=15000,
        int compaction_proactiveness=20,
        int percpu_pagelist_high_fraction=0,
        uint64_t interval_ns=1_000_000_000,
        spans=(),
        uint64_t nr_rows=0,
        str checks="off",
        trace=None,
    ):
        cdef error err
        cdef list specs = [
            f"mainline:boost_factor={watermark_boost_factor},"
            f"proactiveness={compaction_proactiveness}".encode()
        ]
        cdef const char **array
        if checks not in CHECKS:
            raise EngineError(errno.EINVAL, f"checks '{checks}': there are {', '.join(CHECKS)}")
        self.machine = Machine(
            nr_cpus, cpu_nodes, node_distances, pageblock_order, percpu_pagelist_high_fraction, spans
        )
        self.trace = Trace(trace)
        array = c_strings(specs)
        try:
            fill_run(&self.config.run, kernel, self.machine, interval_ns, self.trace)
            self.config.run.policies = array
            self.config.run.nr_policies = len(specs)
            self.config.nr_rows = nr_rows
            self.config.checks = CHECKS[checks]
            self.config.observer = &self.trace.validate_observer
            check(validate_new(&self.c, &self.config, &err), &err)
        finally:
            free(array)

    def __dealloc__(self):
        validate_free(self.c)

    def load(self, str table, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        check(validate_load(self.c, table.encode(), rows.schema, rows.array, &err), &err)

    def preview(self, batch):
        cdef error err
        cdef int ret
        cdef Rows rows = Rows(batch)
        with nogil:
            ret = validate_preview(self.c, rows.schema, rows.array, &err)
        check(ret, &err)

    def feed(self, batch):
        cdef error err
        cdef int ret
        cdef Rows rows = Rows(batch)
        with nogil:
            ret = validate_feed(self.c, rows.schema, rows.array, &err)
        check(ret, &err)

    def finish(self):
        cdef error err
        cdef int ret
        with nogil:
            ret = validate_finish(self.c, &err)
        check(ret, &err)

    def compare_end(self, str table, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        check(
            validate_compare_end(self.c, table.encode(), rows.schema, rows.array, &err),
            &err,
        )

    def read(self):
        cdef error err
        cdef ArrowBatch out = ArrowBatch()
        cdef batch *rows = c_validate_read(self.c)
        if not rows:
            return None
        out.table = rows.table
        check(batch_export(rows, &out.array, &err), &err)
        return rows.table.name.decode(), out

    @property
    def totals(self):
        cdef const validate_totals *t = c_validate_totals(self.c)
        cdef dict out = {"unknown": 0}
        names = {
            "alloc": ("allocs", "alloc_exact"),
            "zone_locked": ("zone_locked", "zone_locked_exact"),
            "refill_size": ("refills", "refill_size_exact"),
            "drain": ("drained", "drained_exact"),
            "drain_size": ("drains", "drain_size_exact"),
            "extfrag": ("extfrag", "extfrag_exact"),
        }
        for i, decision in enumerate(TABLES["exactness"].column("decision").labels):
            out[names[decision][0]] = t.accuracy.decisions[i].nr
            out[names[decision][1]] = t.accuracy.decisions[i].exact
            out["unknown"] += t.accuracy.decisions[i].unknown
        causes = TABLES["repair"].column("cause").labels
        out["inferred_untraced"] = t.accuracy.repairs[causes.index("untraced_alloc")].pages
        out["alloc_inferred"] = t.alloc_inferred
        out["repairs"] = {cause: t.accuracy.repairs[i].nr for i, cause in enumerate(causes)}
        out["events"] = t.events
        out["loop_seconds"] = t.loop_seconds
        return out

    @property
    def first_divergence(self):
        cdef const divergence *d = validate_divergence(self.c)
        if not d.known:
            return None
        none = 2**64 - 1
        miss = TABLES["miss"]
        return {
            "at": d.event.at,
            "ts": d.event.ts,
            "cpu": d.event.cpu,
            "node": d.miss.zone.node,
            "zone": miss.column("zone").labels[d.miss.zone.type],
            "decision": miss.column("decision").labels[d.miss.decision],
            "cause": miss.column("cause").labels[d.miss.cause],
            "expected": None if d.miss.expected == none else d.miss.expected,
            "got": None if d.miss.got == none else d.miss.got,
            "explanation": self.trace.explanation.miss.text.decode().splitlines(),
        }

    @property
    def state_trace(self):
        return state_trace_dict(self.trace.c)

    @property
    def end_state(self):
        cdef const end_state_diff *a = validate_end_state_diff(self.c)
        if not a.known:
            return None
        return {
            "free_blocks": a.free_blocks,
            "free_blocks_same": a.free_blocks_same,
            "successor_same": a.successor_same,
            "pcp_pages": a.pcp_pages,
            "pcp_pages_same": a.pcp_pages_same,
            "pageblocks": a.pageblocks,
            "pageblocks_same": a.pageblocks_same,
        }

    @property
    def anomalies(self):
        cdef const validate_totals *t = c_validate_totals(self.c)
        kinds = TABLES["anomaly"].column("kind").labels
        return {kind: t.anomalies[i] for i, kind in enumerate(kinds)}
