# SPDX-License-Identifier: Apache-2.0
# The collector's C headers, as far as _collector.pyx calls them.

cdef extern from "proc/kpageflags.h" nogil:
    struct zone_span:
        uint16_t node
        uint8_t zone
        uint64_t start_pfn, spanned
    struct page_layout:
        const zone_span *zones
        int nr_zones, pageblock_order, max_order
    int free_blocks_c "free_blocks"(
        const char *path, const page_layout *layout, batch **blocks, batch **pageblocks,
        error *err)

cdef extern from "ring/instance.h" nogil:
    size_t instance_default_ring_kb()

cdef extern from "event-parse.h" nogil:
    struct tep_handle:
        pass
    const char *tep_data_comm_from_pid(tep_handle *tep, int pid)

cdef extern from "decode/stacks.h" nogil:
    enum:
        STACK_FRAMES
    struct stacks:
        pass
    int stacks_get(stacks *s, uint32_t number, uint64_t *frames)

cdef extern from "decode/decode.h" nogil:
    struct decoder:
        pass
    struct decoder_names:
        int nr_migratetypes
        const char **migratetypes
        uint64_t vmstat_update
    struct decoder_count:
        const char *system
        const char *name
        const char *stored
        const char *unreadable
        uint64_t events
    const decoder_count *decoder_counts(decoder *d, size_t *nr)
    int32_t *decoder_pids(const decoder *d, size_t *nr)
    const char *decoder_gfp_name(const decoder *d, int bit)
    int decoder_pageblock_order(const decoder *d)
    uint64_t decoder_bad_records(const decoder *d)

    stacks *decoder_stacks(const decoder *d)

cdef extern from "decode/source.h" nogil:
    uint64_t UNKNOWN_COUNT
    struct gap:
        int cpu
        uint64_t from_ts, to_ts, events
    struct ring:
        int cpu
        const char *instance
        uint64_t read, overrun, commit_overrun, dropped, bytes, first_ts, last_ts
        uint64_t spool_peak, spool_full
    struct checkpoint_c "checkpoint":
        size_t nr
        uint64_t words[]
    struct item:
        const table *table
        ArrowArray array
        checkpoint_c *checkpoint
    struct source:
        tep_handle *tep
        decoder *decoder
        gap *gaps
        size_t nr_gaps
        ring *rings
        size_t nr_rings
        uint64_t progress
    int source_read(source *s, int timeout_ms, item *out, error *err)
    bint source_next(source *s)

cdef extern from "decode/dat.h" nogil:
    struct dat:
        pass
    struct dat_facts_c "dat_facts":
        const char *kernel
        const char *host
        const char *arch
        const char *clock
        int cpus, page_size, nr_instances
        const char **instances
    struct dat_page:
        int32_t instance, cpu
        uint64_t offset
    struct dat_pages:
        dat_page *reading
        const dat_page *bad
        size_t nr_bad
    int dat_open(
        dat **out, const char *path, const decoder_names *names, const dat_pages *pages,
        error *err)
    void dat_close(dat *d)
    source *dat_source(dat *d)
    const dat_facts_c *dat_facts(const dat *d)
    const char *dat_kallsyms(const dat *d)
    uint64_t dat_bad_records(const dat *d)


cdef extern from "ring/instance.h" nogil:
    struct instance:
        pass
    const char *instance_name(const instance *instance)
    size_t instance_ring_bytes(const instance *instance)
    size_t instance_subbuf_bytes(const instance *instance)
    struct instance_config:
        size_t ring_kb
        const char *guard
        int spool

cdef extern from "decode/tasks.h" nogil:
    struct tasks_c "tasks":
        pass
    struct task:
        int32_t tgid
        signed char kthread
        char comm[16]
        const char *cgroup
    const task *tasks_find(tasks_c *tasks, int32_t pid)

cdef extern from "record/record.h" nogil:
    struct recorder:
        pass
    struct recorder_config:
        const char **events
        const char *spool
        uint64_t spool_max, spool_memory
        bint keep, defer
        instance_config instance
        bint prompt
        const char *free_filter
        bint stacks
        decoder_names names
    int recorder_new(recorder **out, const recorder_config *config, error *err)
    void recorder_cancel(recorder *r)
    void recorder_free(recorder *r)
    int recorder_start(recorder *r, error *err)
    int recorder_stop(recorder *r, error *err)
    int recorder_hold(recorder *r, error *err)
    void recorder_cut(recorder *r, uint64_t ts)
    source *recorder_source(recorder *r)
    double recorder_progress(const recorder *r)
    instance *recorder_instance(recorder *r)
    int recorder_cpus(const recorder *r)
    const char **recorder_skipped(const recorder *r, size_t *nr)
    tasks_c *recorder_tasks(recorder *r)
    enum disturbance:
        pass
    struct recorder_look_c "recorder_look":
        uint64_t events, lost, waiting
        disturbance disturbance
        char what[128]
    void recorder_look(recorder *r, recorder_look_c *out)
    void recorder_release(recorder *r, const checkpoint_c *checkpoint)
    const char *recorder_ended(const recorder *r)
    void recorder_say_ended(recorder *r, const char *how)

cdef extern from "record/plan.h" nogil:
    struct plan_input:
        int cpus
        size_t subbuf_bytes
        uint64_t memory, disk, spool_max, spool_memory
    struct plan_c "plan":
        size_t slots
        uint64_t memory, disk
        int threads, files
    int plan_make(plan_c *out, const plan_input *machine, error *err)
    uint64_t plan_memory()
    int plan_allow_files(int files, error *err)
    void plan_small_heap()
    void plan_give_back()

cdef extern from "record/recover.h" nogil:
    struct recovery:
        pass
    int recovery_open(
        recovery **out, const char *dir, const decoder_names *names,
        const checkpoint_c *checkpoint, error *err)
    void recovery_close(recovery *r)
    source *recovery_source(recovery *r)
    tasks_c *recovery_tasks(recovery *r)
    double recovery_progress(const recovery *r)
    const char *recovery_ended(const recovery *r)
    uint64_t recovery_bad(const recovery *r)
    struct spool_state:
        uint64_t waiting
        char ended[64]
    int recovery_look(const char *dir, spool_state *state, error *err)
