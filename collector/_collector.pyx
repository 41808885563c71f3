# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of the collector; _collector.pyi documents them."""

from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import os
import threading
import time
from collections import namedtuple
from datetime import UTC, datetime

include "_collector_api.pxi"
include "arrow_batch.pxi"

cdef extern from "<event-parse.h>" nogil:
    const char *tep_data_comm_from_pid(tep_handle *tep, int pid)

cdef extern from "decode/source.h" nogil:
    uint64_t UNKNOWN_COUNT

cdef enum:
    MAX_KALLSYMS = 256 << 20  # characters; a kernel has some 20 million
    SIGNAL_MS = 200  # longest wait of a signal for the main thread in read(), ms
    UNSIGNALLED_MS = 10_000  # other threads have no signals


class CollectorError(OSError):
    """An error of the collector: `errno` is its kind, `strerror` its message."""

    def __str__(self):
        return self.strerror


Refused = CollectorError

cdef object text(const char *s):
    return s.decode(errors="replace") if s else None

cdef object count(uint64_t n):
    return None if n == UNKNOWN_COUNT else n

cdef object moment(uint64_t ns):
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).isoformat() if ns else None


cdef class Names:
    """A decoder_names and the strings it points to."""

    cdef decoder_names c
    cdef Strings migratetypes

    def __cinit__(self, migratetypes, zone_locks=()):
        self.migratetypes = Strings([name.encode() for name in migratetypes])
        self.c.nr_migratetypes = len(self.migratetypes.strings)
        self.c.migratetypes = self.migratetypes.c
        for nr, (address, node, zone) in enumerate(zone_locks[:MAX_ZONE_LOCKS], 1):
            self.c.addresses.zone_locks[nr - 1] = zone_lock_address(address, node, zone)
            self.c.addresses.nr_zone_locks = nr


cdef class Source:
    cdef source *source  # NULL once closed
    cdef int reading  # threads that wait in read()

    cdef source *opened(self) except NULL:
        if not self.source:
            raise ValueError("the source is closed")
        return self.source

    cdef object pageblock_order(self):
        cdef int order = decoder_pageblock_order(self.opened().decoder)
        return None if order < 0 else order

    cdef dict gfp_bits(self):
        cdef const char *name
        bits = {}
        for bit in range(32):
            name = decoder_gfp_name(self.opened().decoder, bit)
            if name:
                bits[text(name)] = bit
        return bits

    cdef void passed(self, checkpoint_c *checkpoint) except *:
        """Called once the caller of read() has all rows before this checkpoint."""

    def read(self):
        cdef source *s = self.opened()
        cdef ArrowBatch batch = ArrowBatch()
        cdef item item
        cdef error err
        cdef int ret
        cdef bint signalled = threading.current_thread() is threading.main_thread()
        cdef int wait_ms = SIGNAL_MS if signalled else UNSIGNALLED_MS
        self.reading += 1
        try:
            while True:
                with nogil:
                    ret = source_read(s, wait_ms, &item, &err)
                if ret == 1 and not item.table:
                    try:
                        self.passed(item.checkpoint)
                    finally:
                        free(item.checkpoint)
                elif ret != -EAGAIN:
                    break
                PyErr_CheckSignals()
        finally:
            self.reading -= 1
        if check(ret, &err) == 0:
            return None
        batch.table, batch.array = item.table, item.array
        return batch.table.name.decode(), batch

    @property
    def progress(self):
        return self.opened().progress / (1 << 20)

    @property
    def bad_records(self):
        return source_bad_records(self.opened())

    def tracepoints(self):
        cdef size_t nr
        cdef const decoder_count *counts = decoder_counts(self.opened().decoder, &nr)
        return [
            {
                "name": text(counts[i].name),
                "system": text(counts[i].system),
                "events": counts[i].events,
                "stored": text(counts[i].stored),
                "unreadable": text(counts[i].unreadable),
            }
            for i in range(nr)
        ]

    def rings(self):
        cdef source *s = self.opened()
        return [
            {
                "cpu": s.rings[i].cpu,
                "instance": text(s.rings[i].instance),
                "read": s.rings[i].read,
                "overrun": count(s.rings[i].overrun),
                "commit_overrun": count(s.rings[i].commit_overrun),
                "dropped": count(s.rings[i].dropped),
                "bytes": count(s.rings[i].bytes),
                "first_ts": count(s.rings[i].first_ts),
                "last_ts": count(s.rings[i].last_ts),
            }
            for i in range(s.nr_rings)
        ]

    def spools(self):
        cdef source *s = self.opened()
        return [
            {"cpu": ring.cpu, "peak": ring.spool_peak, "full": ring.spool_full}
            for ring in s.rings[: s.nr_rings]
            if ring.spool_peak != UNKNOWN_COUNT
        ]

    def lost(self):
        cdef source *s = self.opened()
        return [
            {
                "cpu": s.gaps[i].cpu,
                "from_ts": count(s.gaps[i].from_ts),
                "to_ts": count(s.gaps[i].to_ts),
                "events": count(s.gaps[i].events),
            }
            for i in range(s.nr_gaps)
        ]

    def stack(self, uint32_t number):
        cdef stacks *known = decoder_stacks(self.opened().decoder)
        cdef uint64_t frames[STACK_FRAMES]
        cdef int nr = stacks_get(known, number, frames) if known else -1
        if nr < 0:
            raise IndexError(number)
        return [frames[i] for i in range(nr)]

    def tasks(self):
        cdef source *s = self.opened()
        cdef size_t nr
        cdef int32_t *pids = decoder_pids(s.decoder, &nr)
        if not pids:
            raise MemoryError
        try:
            return [
                {"pid": pids[i], "comm": text(tep_data_comm_from_pid(s.tep, pids[i]))}
                for i in range(nr)
            ]
        finally:
            free(pids)


class DatPage(namedtuple("DatPage", "instance cpu offset", module=__name__)):
    __slots__ = ()

    @classmethod
    def loading(cls, const unsigned char[::1] memory):
        cdef const dat_page *page = <const dat_page *>&memory[0]
        return None if page.cpu < 0 else cls(page.instance, page.cpu, page.offset)

    @staticmethod
    def clear(unsigned char[::1] memory):
        (<dat_page *>&memory[0]).cpu = -1


cdef class DatReader(Source):
    cdef dat *dat
    cdef object loading

    def __init__(self, path, migratetypes, unsigned char[::1] loading, bad):
        cdef Names names = Names(migratetypes)
        cdef bytes name = os.fsencode(path)
        cdef const char *c_name = name
        cdef dat_pages pages
        cdef dat_page *c_bad = <dat_page *>malloc((len(bad) + 1) * sizeof(dat_page))
        cdef error err
        cdef int ret
        if self.dat:
            raise ValueError("opened before")
        if not c_bad:
            raise MemoryError
        for i, (instance, cpu, offset) in enumerate(bad):
            c_bad[i] = dat_page(instance, cpu, offset)
        self.loading = loading
        pages = dat_pages(<dat_page *>&loading[0], c_bad, len(bad))
        with nogil:
            ret = dat_open(&self.dat, c_name, &names.c, &pages, &err)
        free(c_bad)
        check(ret, &err)
        self.source = dat_source(self.dat)

    def __dealloc__(self):
        dat_close(self.dat)

    @property
    def facts(self):
        self.opened()
        cdef const dat_facts_c *facts = dat_facts(self.dat)
        return {
            "kernel": text(facts.kernel),
            "host": text(facts.host),
            "arch": text(facts.arch),
            "clock": text(facts.clock),
            "recorded_at": moment(facts.began),
            "cpus": facts.cpus,
            "page_size": facts.page_size or None,
            "pageblock_order": self.pageblock_order(),
            "gfp_bits": self.gfp_bits(),
            "instances": [text(facts.instances[i]) for i in range(facts.nr_instances)],
        }

    @property
    def kallsyms(self):
        self.opened()
        return text(dat_kallsyms(self.dat))

    def close(self):
        self.source = NULL
        with nogil:
            dat_close(self.dat)
        self.dat = NULL


include "foreign/foreign_reader.pxi"


cdef dict task_row(tasks_c *tasks, int32_t pid):
    cdef const task *task = tasks_find(tasks, pid)
    if pid == 0:
        return {"pid": 0, "tgid": 0, "comm": "<idle>", "kthread": True}
    if not task:
        return {"pid": pid, "tgid": None, "comm": "<...>", "kthread": None}
    return {
        "pid": pid,
        "tgid": task.tgid or None,
        "comm": text(task.comm),
        "kthread": None if task.kthread < 0 else task.kthread == 1,
        "cgroup": text(task.cgroup),
    }


cdef class Unspooled(Source):
    """The source of an unspool."""

    cdef unspool *unspool

    cdef void decode(self, unspool *unspool):
        self.unspool = unspool
        self.source = &unspool.source

    @property
    def progress(self):
        self.opened()
        return unspool_progress(self.unspool)

    def tasks(self):
        cdef size_t nr
        cdef int32_t *pids = decoder_pids(self.opened().decoder, &nr)
        if not pids:
            raise MemoryError
        try:
            return [task_row(self.unspool.tasks, pids[i]) for i in range(nr)]
        finally:
            free(pids)


SpoolConfig = namedtuple(
    "SpoolConfig", "directory max_bytes checkpoint defer lock memory",
    defaults=(0, None, False, -1, 0), module=__name__,
)

Look = namedtuple("Look", "events lost waiting disturbance what", module=__name__)

DISTURBANCES = (  # by enum disturbance of record.h
    None, "ring_resized", "tracing_off", "event_off", "ring_cleared", "clock_changed",
    "subbuf_changed", "instance_removed",
)

GUARD = os.path.join(os.path.dirname(__file__), "guard")


cdef class Recorder(Unspooled):
    cdef recorder *recorder
    cdef object checkpoint

    def __init__(
        self, events, spool, migratetypes=(), ring_kb=0, stacks=False, prompt=False,
        filters=None, zone_locks=()
    ):
        cdef Names names = Names(migratetypes, zone_locks)
        cdef bytes directory = os.fsencode(spool.directory), guard = os.fsencode(GUARD)
        cdef Strings c_events = Strings([os.fsencode(event) for event in events])
        cdef Strings c_filters = Strings(
            [os.fsencode(text) for pair in (filters or {}).items() for text in pair]
        )
        cdef recorder_config config
        cdef error err
        if self.recorder:
            raise ValueError("opened before")
        config.events, config.filters = c_events.c, c_filters.c
        config.spool = directory
        config.spool_max, config.spool_memory = spool.max_bytes, spool.memory
        config.keep, config.defer = spool.checkpoint is not None, spool.defer
        config.instance.ring_kb = ring_kb
        config.instance.guard, config.instance.spool = guard, spool.lock
        config.stacks, config.prompt = stacks, prompt
        config.names = names.c
        with nogil:
            check(recorder_new(&self.recorder, &config, &err), &err)
        self.checkpoint = spool.checkpoint
        self.decode(recorder_unspool(self.recorder))

    def __dealloc__(self):
        recorder_free(self.recorder)

    def add_stacks(self, event, filter):
        cdef bytes name = os.fsencode(event), text = os.fsencode(filter)
        cdef error err
        self.opened()
        check(recorder_add_stacks(self.recorder, name, text, &err), &err)

    cdef void passed(self, checkpoint_c *checkpoint) except *:
        self.checkpoint((<char *>checkpoint.words)[: checkpoint.nr * sizeof(uint64_t)])
        with nogil:
            unspool_release(self.unspool, checkpoint)

    @property
    def ended(self):
        self.opened()
        return recorder_ended(self.recorder).decode()

    @property
    def facts(self):
        self.opened()
        cdef size_t nr
        cdef const char *const *skipped = recorder_skipped(self.recorder, &nr)
        cdef instance *instance = recorder_instance(self.recorder)
        uname = os.uname()
        return {
            "kernel": uname.release,
            "host": uname.nodename,
            "arch": uname.machine,
            "clock": "mono",
            "cpus": recorder_cpus(self.recorder),
            "page_size": os.sysconf("SC_PAGESIZE"),
            "pageblock_order": self.pageblock_order(),
            "gfp_bits": self.gfp_bits(),
            "instances": [text(instance_name(instance))],
            "ring_kb": instance_ring_bytes(instance) // 1024,
            "subbuf_kb": instance_subbuf_bytes(instance) // 1024,
            "skipped_events": [text(skipped[i]) for i in range(nr)],
            "recorder_pid": os.getpid(),
        }

    @property
    def kallsyms(self):
        with open("/proc/kallsyms") as file:
            return file.read()

    cdef object take(self, int (*step)(recorder *, error *) noexcept nogil):
        cdef error err
        self.opened()
        with nogil:
            check(step(self.recorder, &err), &err)

    def start(self):
        self.take(recorder_start)

    def stop(self):
        self.take(recorder_stop)

    def look(self):
        cdef recorder_look_c found
        self.opened()
        with nogil:
            recorder_look(self.recorder, &found)
        return Look(
            found.events, found.lost, found.waiting, DISTURBANCES[<int>found.disturbance],
            text(found.what),
        )

    def hold(self):
        self.take(recorder_hold)

    def cut(self, uint64_t ts):
        self.opened()
        recorder_cut(self.recorder, ts)

    def next(self):
        return source_next(self.opened())

    def close(self, ended=None):
        cdef recorder *r = self.recorder
        self.source = NULL
        self.recorder = NULL
        if not r:
            return
        if ended is not None:
            recorder_say_ended(r, ended.encode())
        with nogil:
            recorder_cancel(r)
        while self.reading:  # another thread is in read(); cancelled, it returns
            time.sleep(0.001)
        with nogil:
            recorder_free(r)


cdef class Spooled(Unspooled):
    cdef recovery *recovery
    cdef str directory

    def __init__(self, directory, migratetypes=(), checkpoint=None):
        cdef Names names = Names(migratetypes)
        cdef bytes path = os.fsencode(directory)
        cdef const char *c_path = path
        cdef checkpoint_c *c_checkpoint = NULL
        cdef error err
        cdef int ret
        if self.recovery:
            raise ValueError("opened before")
        if checkpoint is not None:
            c_checkpoint = <checkpoint_c *>malloc(sizeof(checkpoint_c) + len(checkpoint))
            if not c_checkpoint:
                raise MemoryError
            c_checkpoint.nr = len(checkpoint) // sizeof(uint64_t)
            memcpy(c_checkpoint.words, <char *>checkpoint, c_checkpoint.nr * sizeof(uint64_t))
        with nogil:
            ret = recovery_open(&self.recovery, c_path, &names.c, c_checkpoint, &err)
        free(c_checkpoint)
        check(ret, &err)
        self.decode(recovery_unspool(self.recovery))
        self.directory = os.fsdecode(path)

    def __dealloc__(self):
        recovery_close(self.recovery)

    @property
    def facts(self):
        return {"pageblock_order": self.pageblock_order(), "gfp_bits": self.gfp_bits()}

    @property
    def kallsyms(self):
        path = os.path.join(self.directory, "kallsyms")
        # The recorder makes no link, and a FIFO has no end.
        if os.path.islink(path) or not os.path.isfile(path):
            return ""
        with open(path, errors="replace") as file:
            return file.read(MAX_KALLSYMS)

    @property
    def ended(self):
        self.opened()
        return text(recovery_ended(self.recovery))

    def close(self):
        self.source = NULL
        with nogil:
            recovery_close(self.recovery)
        self.recovery = NULL


def look_into_spool(directory):
    cdef bytes path = os.fsencode(directory)
    cdef spool_state state
    cdef error err
    check(recovery_look(path, &state, &err), &err)
    return state.waiting, text(state.ended) or "killed"


def free_blocks(kpageflags, zones, int pageblock_order, int max_order):
    cdef bytes name = os.fsencode(kpageflags)
    cdef const char *path = name
    cdef list spans = list(zones)
    cdef int nr = len(spans)
    cdef page_layout layout
    cdef batch *blocks, *pageblocks
    cdef error err
    cdef zone_span *c = <zone_span *>malloc((nr + 1) * sizeof(zone_span))
    if not c:
        raise MemoryError
    try:
        for i, (node, zone, start_pfn, spanned) in enumerate(spans):
            c[i] = zone_span(node, zone, start_pfn, spanned)
        layout = page_layout(c, nr, pageblock_order, max_order)
        with nogil:
            check(free_blocks_c(path, &layout, &blocks, &pageblocks, &err), &err)
    finally:
        free(c)
    return owned(blocks), owned(pageblocks)


def tracing_dir():
    cdef const char *found
    cdef error err
    check(instance_tracing_dir(&found, &err), &err)
    return text(found)


def default_ring_kb():
    return instance_default_ring_kb()


def plan(int cpus, size_t subbuf_bytes=65536):
    cdef plan_input machine = plan_input(cpus, subbuf_bytes, plan_memory(), 2**64 - 1, 0, 0)
    cdef plan_c found
    cdef error err
    check(plan_make(&found, &machine, &err), &err)
    return {"memory": found.memory, "threads": found.threads, "files": found.files}


def memory_limit():
    return plan_memory()


def small_heap():
    plan_small_heap()


def give_back():
    plan_give_back()


def allow_files(int files):
    cdef error err
    check(plan_allow_files(files, &err), &err)
