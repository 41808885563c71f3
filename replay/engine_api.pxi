# The C declarations behind _replay.pyx: the headers are their documentation.

cdef extern from "model/kernel.h" nogil:
    struct kernel:
        const char *name
        const char *doc
    struct feature:
        const char *name
        const char *doc
        size_t offset
        const char *const *words
        const char *const *constants
    const kernel kernel_rows "kernels"[]
    const feature feature_table "features"[]
    bint kernel_reclaim_same(const kernel *one, const kernel *other)
    int kernel_find(const kernel **out, const char *name, error *err)
    int c_kernel_for_release "kernel_for_release"(const kernel **out, const char *release, error *err)

cdef extern from "model/memory.h" nogil:
    void memory_keep_freed()

cdef extern from "model/model.h" nogil:
    enum: ZONE_RECLAIM_BITS
    struct zone_reclaim:
        int mode, distance

cdef extern from "model/watermark.h" nogil:
    const int MAX_PAGE_ORDER, WMARK_MIN
    struct model:
        const kernel *kernel
        int max_order
        bint has_highmem
    struct zone:
        uint16_t node
        uint8_t type
        uint64_t nr_free_pages, nr_free_cma, nr_free_highatomic, nr_reserved_highatomic
        uint32_t nr_free[32][8]
        int64_t wmark[4]
        int64_t lowmem_reserve[8]
        int64_t boost
    struct request:
        uint32_t gfp_flags
        uint8_t order, migratetype, class_zone
        uint32_t flags
    int gfp_class_zone(const model *m, uint32_t gfp_flags)
    int64_t unusable_pages(const model *m, const zone *z, const request *rq)
    bint zone_has_chunk(const model *m, const zone *z, const request *rq)
    bint watermark_fast(const model *m, const zone *z, const request *rq, int wmark)

cdef extern from "model/slow_path.h" nogil:
    uint32_t slow_path_rights(const model *m, const request *rq)

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
    struct policy:
        const policy_ops *ops
    struct policy_stack:
        policy **all
        int nr
        policy_lib *libs
        int nr_libs
    int policy_stack_new(policy_stack **out, const policy_ops *const *known, error *err)
    void policy_stack_free(policy_stack *stack)
    int policy_stack_add(policy_stack *stack, const char *spec, error *err)
    zone_reclaim policy_stack_zone_reclaim(const policy_stack *stack)
    int policy_stack_record(policy_stack *stack, const char *spec, error *err)
    bint policy_stack_feedback(const policy_stack *stack, int n, const kernel *row)
    int policy_stack_open(policy_stack *stack, const char *path, error *err)
    const char *policy_choice(const policy_ops *ops, int n)
    const char *policy_notice(const policy_ops *ops, int n)

cdef extern from "policies/policies.h" nogil:
    const policy_ops *policy_table "policies"[]

cdef extern from "run/run.h" nogil:
    struct machine:
        int pageblock_order, max_order
        uint32_t page_bytes
        int nr_cpus, nr_nodes
        uint64_t known_pages
        uint64_t hopeless_nodes
        const uint16_t *cpu_nodes
        const uint8_t *node_distances
        const uint16_t *cpu_parts
        int pcp_high_fraction
        bint tiers
        bint recorded_defrag
        bint zone_events
        uint8_t recorded_zone_reclaim
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

cdef extern from "model/policy_effect.h" nogil:
    const int EFFECT_UNKNOWN
    struct policy_effect:
        uint64_t choices
        int64_t changed
        const char *text

cdef extern from "model/event_counts.h" nogil:
    struct recorder_threads:
        const int32_t *pids
        size_t nr

cdef extern from "tape/recorded_counts.h" nogil:
    struct recorded_counts:
        pass
    struct recorded_counts_config:
        uint64_t since, until
        recorder_threads recorder
    int recorded_counts_new(recorded_counts **out, const recorded_counts_config *config, error *err)
    void recorded_counts_free(recorded_counts *c)
    int recorded_counts_feed(recorded_counts *c, const ArrowSchema *schema,
                             const ArrowArray *array, uint64_t *fallbacks, error *err)
    batch *recorded_counts_read(recorded_counts *c)
    bint recorded_counts_complete(const recorded_counts *c)

cdef extern from "freerun/replay.h" nogil:
    enum reclaim_mode:
        RECLAIM_AS_RECORDED
    struct variation_config:
        uint64_t seed
        uint32_t changes[4]
        uint32_t flips[6]
        bint moments
    const char *variation_name(int n)
    struct replay_config:
        run_config run
        bint events
        reclaim_mode reclaim
        bint counted
        recorder_threads recorder
        bint compacts_for_record
        bint explains
        variation_config variation
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
    const char *replay_policy_effect(const replay *r, int n, policy_effect *effect)
    uint64_t replay_drawn(const replay *r, int n)
    const wrong_page *replay_wrong_page(const replay *r)
    const char *counter_name(int n)
    uint64_t counter_total(const totals *totals, int n)

cdef extern from "predict/validate.h" nogil:
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

cdef extern from "hindsight/hindsight.h" nogil:
    struct proven:
        uint64_t nr, proven
    struct c_coverage "hindsight_coverage":
        proven free_blocks, free_pages, pcp_pages, pageblocks
        uint64_t contradictions
    struct hindsight:
        pass
    int hindsight_new(hindsight **out, const run_config *config, error *err)
    void hindsight_free(hindsight *h)
    int hindsight_load(
        hindsight *h, const char *table, const ArrowSchema *schema, const ArrowArray *array,
        error *err
    )
    int hindsight_preview(
        hindsight *h, uint64_t nr_rows, const ArrowSchema *schema, const ArrowArray *array,
        error *err
    )
    int hindsight_feed(hindsight *h, const ArrowSchema *schema, const ArrowArray *array, error *err)
    int hindsight_finish(hindsight *h, error *err)
    batch *hindsight_read(hindsight *h)
    enum:
        HINDSIGHT_COUNTS
    int hindsight_free_counts(const hindsight *h, size_t row, uint32_t *counts)
    const c_coverage *c_hindsight_coverage "hindsight_coverage"(const hindsight *h)
