# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of the replay engine; _replay.pyi documents them."""

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import errno
import os

from pagetape.schemas import TABLES

include "replay_api.pxi"
include "arrow_batch.pxi"


class EngineError(OSError):
    pass


Refused = EngineError


cdef list strings(const char *const *words):
    cdef list out = []
    while words and words[len(out)]:
        out.append(words[len(out)].decode())
    return out


include "kernels.pxi"
include "usable_memory.pxi"
include "policies.pxi"


# Keywords of Replay and Validate with their defaults; _replay.pyi documents them.
cdef object REQUIRED = object()
cdef dict RUN = SYSCTLS | {
    "nr_cpus": REQUIRED,
    "cpu_nodes": REQUIRED,
    "node_distances": REQUIRED,
    "pageblock_order": REQUIRED,
    "max_order": 10, "page_size": 4096,
    "known_pages": 0,
    "hopeless_nodes": 0,
    "zone_events": False,
    "interval_ns": 1_000_000_000, "interval_ts": 0,
    "spans": (),
    "trace": None,
}
cdef dict REPLAY = RUN | {
    "reclaim": "R0",
    "recorded_kernel": "",
    "events": True,
    "counted": False,
    "recorder_pids": (),
    "compacts_for_record": False,
    "cpu_parts": (),
    "policy_libs": (),
    "explains": False,
    "seed": 0,
    "changes": {},
    "flips": {},
    "moments": False,
    "rewrites": (),
}
cdef dict VALIDATE = RUN | {"nr_rows": 0, "checks": "off"}
cdef dict HINDSIGHT = RUN | {"nr_rows": 0}


cdef dict keywords(dict given, dict known):
    """The keywords of a call over their defaults; TypeError for an unknown or missing one."""
    cdef dict found = known | given
    if unknown := sorted(given.keys() - known.keys()):
        raise TypeError(f"unexpected keyword argument '{unknown[0]}'")
    if missing := sorted(name for name in found if found[name] is REQUIRED):
        raise TypeError(f"missing keyword argument '{missing[0]}'")
    return found


cdef class Machine:
    """The memory of a struct machine and of the spans to play."""

    cdef machine c
    cdef uint16_t *cpu_nodes
    cdef uint16_t *cpu_parts
    cdef uint8_t *distances
    cdef span *spans
    cdef size_t nr_spans

    def __cinit__(self, dict given):
        cdef int nr_cpus = given["nr_cpus"]
        nodes = list(given["cpu_nodes"])
        distances = [list(row) for row in given["node_distances"]]
        spans, cpu_parts = given["spans"], given.get("cpu_parts", ())
        if len(cpu_parts) not in (0, nr_cpus):
            raise EngineError(errno.EINVAL, f"parts for {len(cpu_parts)} CPUs, not {nr_cpus}")
        if len(nodes) != nr_cpus or any(len(row) != len(distances) for row in distances):
            raise EngineError(errno.EINVAL, f"nodes of {len(nodes)} CPUs, not {nr_cpus}, or "
                              "distances that are not square")
        if any(not 0 <= value <= 255 for row in distances for value in row):
            raise EngineError(errno.EINVAL, "a distance between nodes is not in 0..255")
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
        self.c.pageblock_order = given["pageblock_order"]
        self.c.max_order, self.c.page_bytes = given["max_order"], given["page_size"]
        self.c.nr_cpus = nr_cpus
        self.c.nr_nodes = len(distances)
        self.c.cpu_nodes = self.cpu_nodes
        self.c.node_distances = self.distances
        self.c.cpu_parts = self.cpu_parts if cpu_parts else NULL
        self.c.known_pages = given["known_pages"]
        self.c.hopeless_nodes = given["hopeless_nodes"]
        self.c.pcp_high_fraction = given["percpu_pagelist_high_fraction"]
        self.c.zone_events = given["zone_events"]
        self.c.recorded_defrag = given["defrag_mode"] != 0
        self.c.recorded_zone_reclaim = given["zone_reclaim_mode"] & ZONE_RECLAIM_BITS
        self.c.tiers = (given["numa_balancing"] & 2) != 0  # NUMA_BALANCING_MEMORY_TIERING

    def __dealloc__(self):
        free(self.cpu_nodes)
        free(self.cpu_parts)
        free(self.distances)
        free(self.spans)


cdef class Rows:
    """The rows of an Arrow batch as C structs, valid as long as this object lives."""

    cdef object capsules
    cdef const ArrowSchema *schema
    cdef const ArrowArray *array

    def __cinit__(self, batch):
        schema, array = self.capsules = batch.__arrow_c_array__()
        self.schema = <ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema")
        self.array = <ArrowArray *>PyCapsule_GetPointer(array, "arrow_array")


cdef uint64_t NOWHERE = 2**64 - 1  # no pfn


cdef int read_trace_config(state_trace_config *out, dict trace) except -1:
    expected = trace["expected"]
    lists = trace["lists"]
    out.start, out.first = trace["start"], trace["first"]
    out.ran, out.at = trace["ran"], trace["at"]
    out.lists = NOWHERE if lists is None else lists
    out.pfns[0] = trace["got"]
    out.pfns[1] = NOWHERE if expected is None else expected
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
        "pfns": [look.pfns[i] for i in range(LOOK_ENTRIES) if look.pfns[i] != NOWHERE],
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
# By enum variation_kind.
VARIATIONS = ("moved", "sized", "counted")


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


cdef int fill_run(
    run_config *run, str kernel, dict config, Strings policies, Machine machine, Trace trace
) except -1:
    """Fill the part of the config that all kinds of run share."""
    cdef error err
    check(kernel_find(&run.kernel, kernel.encode(), &err), &err)
    run.interval_ns = config["interval_ns"]
    run.interval_ts = config["interval_ts"]
    run.policies = policies.c
    run.nr_policies = len(policies.strings)
    run.machine = machine.c
    run.spans = machine.spans
    run.nr_spans = machine.nr_spans
    if trace.c:
        run.observer = &trace.observer
    return 0


cdef class Rewrites:
    """The memory of rules of rewrite.h: dicts with the names of struct rewrite_rule; `stacks` is
    None, or the bytes of stack_ts and stack_cpus."""

    cdef rewrite_rule *rules
    cdef list kept

    def __cinit__(self, rules):
        cdef Threads pids
        cdef bytes times, cpus
        cdef rewrite_rule *out
        self.kept = []
        self.rules = <rewrite_rule *>calloc(max(len(rules), 1), sizeof(rewrite_rule))
        if not self.rules:
            raise MemoryError
        for i, rule in enumerate(rules):
            out = &self.rules[i]
            if rule["pids"] is not None:
                pids = Threads(rule["pids"])
                self.kept.append(pids)
                out.pids, out.nr_pids = pids.pids, len(rule["pids"])
            if rule["stacks"] is not None:
                times, cpus = rule["stacks"]
                self.kept.append((times, cpus))
                out.stack_ts = <const uint64_t *><const char *>times
                out.stack_cpus = <const uint16_t *><const char *>cpus
                out.nr_stacks = len(cpus) // sizeof(uint16_t)
            out.orders, out.migratetypes = rule["orders"], rule["migratetypes"]
            out.gfp_has, out.gfp_lacks = rule["gfp_has"], rule["gfp_lacks"]
            out.since, out.until = rule["since"], rule["until"]
            out.drop, out.order, out.times = rule["drop"], rule["order"], rule["times"]
            out.migratetype = rule["migratetype"]
            out.gfp_clear, out.gfp_set = rule["gfp_clear"], rule["gfp_set"]

    def __dealloc__(self):
        free(self.rules)


cdef class Threads:
    """The memory of a struct recorder_threads."""

    cdef recorder_threads c
    cdef int32_t *pids

    def __cinit__(self, pids):
        self.pids = <int32_t *>calloc(max(len(pids), 1), sizeof(int32_t))
        if not self.pids:
            raise MemoryError
        for i, pid in enumerate(sorted(pids)):
            self.pids[i] = pid
        self.c = recorder_threads(self.pids, len(pids))

    def __dealloc__(self):
        free(self.pids)


cdef class Replay:
    cdef replay *c
    cdef replay_config config
    cdef Threads recorder
    cdef Rewrites rewrites
    cdef Machine machine
    cdef Trace trace

    def __cinit__(self, str kernel, policies, **given):
        cdef error err
        cdef dict config = keywords(given, REPLAY)
        cdef Strings specs = Strings(mainline_spec(config) + [spec.encode() for spec in policies])
        cdef Strings libs = Strings([os.fsencode(path) for path in config["policy_libs"]])
        if config["reclaim"] not in RECLAIM_MODES:
            modes = ", ".join(RECLAIM_MODES)
            raise EngineError(errno.EINVAL, f"reclaim '{config['reclaim']}': there are {modes}")
        self.machine = Machine(config)
        self.trace = Trace(config["trace"])
        self.recorder = Threads(config["recorder_pids"])
        self.rewrites = Rewrites(config["rewrites"])
        fill_run(&self.config.run, kernel, config, specs, self.machine, self.trace)
        if recorded := config["recorded_kernel"]:
            check(kernel_find(&self.config.run.recorded, recorded.encode(), &err), &err)
        self.config.run.policy_libs = libs.c
        self.config.run.nr_policy_libs = len(libs.strings)
        self.config.events = config["events"]
        self.config.reclaim = <reclaim_mode><int>RECLAIM_MODES.index(config["reclaim"])
        self.config.counted = config["counted"]
        self.config.recorder = self.recorder.c
        self.config.compacts_for_record = config["compacts_for_record"]
        self.config.variation.seed = config["seed"]
        for i, kind in enumerate(VARIATIONS):
            self.config.variation.changes[i] = config["changes"].get(kind, 0)
        for i, kind in enumerate(TABLES["exactness"].column("decision").labels):
            self.config.variation.flips[i] = config["flips"].get(kind, 0)
        self.config.variation.moments = config["moments"]
        self.config.rewrites = self.rewrites.rules
        self.config.nr_rewrites = len(config["rewrites"])
        self.config.explains = config["explains"] or config["trace"] is not None
        check(replay_new(&self.c, &self.config, &err), &err)

    def __dealloc__(self):
        replay_free(self.c)

    def load(self, str table, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        check(replay_load(self.c, table.encode(), rows.schema, rows.array, &err), &err)

    def feed(self, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        with nogil:
            check(replay_feed(self.c, rows.schema, rows.array, &err), &err)

    def read(self):
        return exported(replay_read(self.c))

    def finish(self):
        cdef error err
        with nogil:
            check(replay_finish(self.c, &err), &err)

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
    def drawn(self):
        cdef dict out = {}
        while variation_name(len(out)):
            out[variation_name(len(out)).decode()] = replay_drawn(self.c, len(out))
        return out

    @property
    def policies_effect(self):
        return run_policies_effect(self.c)

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
            "expected": None if w.expected == NOWHERE else w.expected,
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
    def rewritten(self):
        cdef const totals *t = replay_totals(self.c)
        return {"requests": t.rewritten, "kept": t.kept}

    @property
    def anomalies(self):
        cdef const totals *t = replay_totals(self.c)
        kinds = TABLES["anomaly"].column("kind").labels
        return {kind: t.anomalies[i] for i, kind in enumerate(kinds)}


def give_back_memory():
    memory_give_back()


cdef dict CHECKS = {"off": 0, "cheap": 1, "full": 2}


cdef class Validate:
    cdef validate *c
    cdef validate_config config
    cdef Machine machine
    cdef Trace trace

    def __cinit__(self, str kernel, **given):
        cdef error err
        cdef dict config = keywords(given, VALIDATE)
        cdef Strings specs = Strings(mainline_spec(config))
        if config["checks"] not in CHECKS:
            levels = ", ".join(CHECKS)
            raise EngineError(errno.EINVAL, f"checks '{config['checks']}': there are {levels}")
        self.machine = Machine(config)
        self.trace = Trace(config["trace"])
        fill_run(&self.config.run, kernel, config, specs, self.machine, self.trace)
        self.config.nr_rows = config["nr_rows"]
        self.config.checks = CHECKS[config["checks"]]
        self.config.observer = &self.trace.validate_observer
        check(validate_new(&self.c, &self.config, &err), &err)

    def __dealloc__(self):
        validate_free(self.c)

    def load(self, str table, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        check(validate_load(self.c, table.encode(), rows.schema, rows.array, &err), &err)

    def preview(self, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        with nogil:
            check(validate_preview(self.c, rows.schema, rows.array, &err), &err)

    def feed(self, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        with nogil:
            check(validate_feed(self.c, rows.schema, rows.array, &err), &err)

    def finish(self):
        cdef error err
        with nogil:
            check(validate_finish(self.c, &err), &err)

    def compare_end(self, str table, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        check(
            validate_compare_end(self.c, table.encode(), rows.schema, rows.array, &err),
            &err,
        )

    def read(self):
        return exported(validate_read(self.c))

    @property
    def totals(self):
        cdef const validate_totals_c *t = validate_totals(self.c)
        cdef dict out = {"unknown": 0}
        names = {
            "alloc": ("allocs", "alloc"), "zone_locked": ("zone_locked", "zone_locked"),
            "refill_size": ("refills", "refill_size"), "drain": ("drained", "drained"),
            "drain_size": ("drains", "drain_size"), "extfrag": ("extfrag", "extfrag"),
        }
        for i, decision in enumerate(TABLES["exactness"].column("decision").labels):
            nr, kind = names[decision]
            out[nr] = t.accuracy.decisions[i].nr
            out[f"{kind}_exact"] = t.accuracy.decisions[i].exact
            out[f"{kind}_unknown"] = t.accuracy.decisions[i].unknown
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
        cdef dict found = a[0]
        del found["known"]
        return found

    @property
    def anomalies(self):
        cdef const validate_totals_c *t = validate_totals(self.c)
        kinds = TABLES["anomaly"].column("kind").labels
        return {kind: t.anomalies[i] for i, kind in enumerate(kinds)}


include "hindsight.pxi"
include "recorded_counts.pxi"
