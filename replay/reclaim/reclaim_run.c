// SPDX-License-Identifier: Apache-2.0
#include "reclaim_run.h"

#include "direct_compact.h"
#include "node.h"
#include "model/fragmentation.h"
#include "model/memory.h"
#include "model/slow_path.h"
#include "model/watermark.h"
#include "model/zonelist.h"

#include <errno.h>

enum { CLUSTER = 32 /* SWAP_CLUSTER_MAX */ };
enum { STALL_BOOST = 1 + 6 };  /* pageblocks that the policy stall boosts at once */
#define STALL_NS 20000000ull   /* HZ/50 */
#define TASK_NS  1000000000ull /* an earlier reclaim of the task was for another request */

/*
 * Time of kcompactd's first check for work. Without a check on a tape with compaction events
 * kcompactd pauses; without compaction events at all it checks at once.
 */
static uint64_t first_check(const struct reclaim_run *run, int node, uint64_t ts)
{
	const struct first_step *step = first_step(&run->first_checks, tape_node(run->model, node));

	if (step)
		return step->ts;
	return run->compaction_recorded ? UINT64_MAX : ts;
}

/*
 * The kswapd of a node starts as the record's does, at the first event. One that scans before it
 * begins a pass or sleeps is in a pass; one that sleeps without a scan naps. A request may have
 * woken it already.
 */
static void start_kswapd(struct reclaim_run *run, struct kswapd *k, uint64_t ts)
{
	struct model *m = run->model;
	int node = tape_node(m, k->node);
	const struct first_step *step = first_step(&run->first_steps, node);
	const struct scan_row *scan = scan_from(&run->pace, node, ts);

	if (k->state != KSWAPD_ASLEEP)
		return;
	m->now.ts = ts > m->now.ts ? ts : m->now.ts;
	if (scan && (!step || scan->ts < step->ts))
		kswapd_start_in_pass(&run->parts, k);
	else if (step && step->sleeps)
		kswapd_start_napping(k, step->ts > ts ? step->ts : ts);
}

static int daemons_new(struct reclaim_run *run, struct error *err)
{
	size_t nodes = (size_t)run->model->nr_nodes;

	struct arrays *arrays = run->model->arrays;

	run->kswapds = arrays_new(arrays, nodes, sizeof(*run->kswapds));
	run->kcompactds = arrays_new(arrays, nodes, sizeof(*run->kcompactds));
	run->near_tasks = arrays_new(arrays, nodes, sizeof(*run->near_tasks));
	if (arrays_error(arrays, err))
		return -ENOMEM;
	for (int node = 0; node < (int)nodes; node++) {
		kswapd_init(&run->kswapds[node], run->model, node);
		kcompactd_init(&run->kcompactds[node], run->model, node);
	}
	return 0;
}

/* A daemon is due at `due`: run_daemons() must look by then. */
static void note_due(struct reclaim_run *run, uint64_t due)
{
	run->due = due < run->due ? due : run->due;
}

void reclaim_run_wake_kcompactd(struct reclaim_run *run, int node, struct kcompactd_wake wake)
{
	struct kcompactd *c = &run->kcompactds[node];

	kcompactd_wakeup(&run->parts, c, wake);
	note_due(run, c->due);
}

void reclaim_run_wake_kswapd(struct reclaim_run *run, int node, uint32_t gfp_flags, int order,
			     int class_zone)
{
	struct kswapd *k = &run->kswapds[node];
	struct kcompactd_wake wake = kswapd_wakeup(&run->parts, k, gfp_flags, order, class_zone);

	note_due(run, k->due);
	reclaim_run_wake_kcompactd(run, node, wake);
}

static void step_kswapd(struct reclaim_run *run, struct kswapd *k)
{
	struct kswapd_wants wants = kswapd_step(&run->parts, k);

	reclaim_run_wake_kcompactd(run, k->node, wants.after_boost);
	reclaim_run_wake_kcompactd(run, k->node, wants.before_nap);
}

/* No daemon takes a step before `ts`. */
static void put_off(struct reclaim_run *run, uint64_t ts)
{
	for (int node = 0; node < run->model->nr_nodes; node++) {
		struct kswapd *k = &run->kswapds[node];
		struct kcompactd *c = &run->kcompactds[node];

		k->due = k->due < ts ? ts : k->due;
		c->due = c->due < ts ? ts : c->due;
	}
	run->due = ts;
}

/*
 * Run the due steps of all daemons up to `ts`: by time, then kswapd first, then by node. Steps that
 * no tape has between two of its rows are put off: a wild time may be centuries away.
 */
static void run_daemons(struct reclaim_run *run, uint64_t ts)
{
	/* Between two rows; checks of kcompactd in a row, per node; further ones in the whole run.
	 */
	enum { STEPS_MOST = 1 << 16, CHECKS_MOST = 64, QUIET_MOST = 1 << 16 };
	struct model *m = run->model;
	int steps = 0, checks = 0;

	while (run->due <= ts) {
		struct kswapd *k = &run->kswapds[0];
		struct kcompactd *c = &run->kcompactds[0];
		uint64_t due;

		for (int node = 1; node < m->nr_nodes; node++) {
			if (run->kswapds[node].due < k->due)
				k = &run->kswapds[node];
			if (run->kcompactds[node].due < c->due)
				c = &run->kcompactds[node];
		}
		due = k->due <= c->due ? k->due : c->due;
		run->due = due;
		if (due > ts)
			break;
		if (steps++ == STEPS_MOST || run->quiet_checks > QUIET_MOST) {
			put_off(run, ts + 1);
			break;
		}
		m->now.ts = due > m->now.ts ? due : m->now.ts;
		m->now.flags = 0;
		if (k->due <= c->due) {
			m->now.cpu = k->cpu;
			m->now.pid = k->pid;
			step_kswapd(run, k);
		} else {
			m->now.cpu = c->cpu;
			m->now.pid = 0;
			kcompactd_step(&run->parts, c, kswapd_runs(&run->kswapds[c->node]));
			run->quiet_checks += ++checks > CHECKS_MOST * m->nr_nodes;
		}
		run->due = 0;
	}
}

static void note_reclaiming(struct reclaim_run *run, const struct slow_entry *e)
{
	struct reclaiming_task *t = run->tasks, *end = run->tasks + RECLAIMING_TASKS;

	while (t < end && (t->pid != e->pid || t->order != e->order))
		t++;
	if (t == end) {
		t = &run->tasks[run->next_task++ % RECLAIMING_TASKS];
		*t = (struct reclaiming_task){.pid = e->pid, .order = e->order};
	}
	t->ts = e->ts;
	t->times++;
}

static int take_tries(void *self, int order)
{
	struct reclaim_run *run = self;

	for (struct reclaiming_task *t = run->tasks; t < run->tasks + RECLAIMING_TASKS; t++)
		if (t->pid == run->model->now.pid && t->order == order) {
			bool recent = run->model->now.ts <= t->ts + TASK_NS;
			int times = recent ? t->times : 0;

			t->times = 0;
			return times;
		}
	return 0;
}

/* wake_all_kswapds, 6.15: under vm.defrag_mode kswapd is asked for at least a whole pageblock. */
static int wake_order(const struct model *m, int order)
{
	return m->kernel->whole_blocks && order < m->pageblock_order ? m->pageblock_order : order;
}

/* A call without GFP_KSWAPD_RECLAIM is not that of a request: of NUMA balancing, for example. */
static void call_kswapd(struct reclaim_run *run, const struct slow_entry *e, struct request *rq)
{
	const struct model *m = run->model;

	for (int node = 0; node < m->nr_nodes; node++)
		if (tape_node(m, node) == e->node &&
		    (!(e->gfp_flags & GFP_KSWAPD_RECLAIM) || slow_path_enters(m, rq, node)))
			reclaim_run_wake_kswapd(run, node, e->gfp_flags, wake_order(m, e->order),
						e->class_zone);
}

/*
 * The node of a request that names one (__GFP_THISNODE) and reclaims: a node without a page for it,
 * the CPU's own first. The event does not record it.
 */
static bool reclaim_there(struct model *m, const struct request *rq)
{
	for (int i = 0; i < m->nr_nodes; i++) {
		struct request there = *rq;

		there.node = (uint16_t)((rq->node + i) % m->nr_nodes);
		if (zone_preferred(m, &there) && slow_path_reclaim_once(m, &there))
			return true;
	}
	return false;
}

/*
 * The order of a request that began direct reclaim. With vm.defrag_mode a small one that is not
 * MOVABLE reclaims for a whole pageblock (__alloc_pages_direct_reclaim, 7.2). Without, it would
 * reclaim for its own order, which the event does not show and is mostly 0.
 */
static uint8_t asked_order(const struct model *m, const struct slow_entry *e)
{
	bool was_promoted = m->record->defrag_mode &&
			    m->kernel->defrag_promotes != DEFRAG_PROMOTES_NEVER &&
			    e->order == m->pageblock_order &&
			    gfp_migratetype(e->gfp_flags) != MIGRATETYPE_MOVABLE;

	return was_promoted && !m->kernel->whole_blocks ? 0 : e->order;
}

static void enter_slow_path(struct reclaim_run *run, const struct slow_entry *e)
{
	struct model *m = run->model;
	struct request rq = {
		.gfp_flags = e->gfp_flags,
		.order = asked_order(m, e),
		.migratetype = (uint8_t)gfp_migratetype(e->gfp_flags),
		.class_zone = (uint8_t)gfp_class_zone(m, e->gfp_flags),
		.node = m->cpu_nodes[e->cpu],
	};

	m->now = (struct moment){e->ts > m->now.ts ? e->ts : m->now.ts, e->pid, e->cpu, 0};
	run->at_entry = true;
	if (e->node >= 0)
		call_kswapd(run, e, &rq);
	else if (rq.gfp_flags & GFP_THISNODE ? reclaim_there(m, &rq)
					     : slow_path_reclaim_once(m, &rq))
		note_reclaiming(run, e);
	run->at_entry = false;
}

void reclaim_run_until(struct reclaim_run *run, uint64_t at, uint64_t ts)
{
	if (!run->due) {
		/* Start at the first event. */
		for (int node = 0; node < run->model->nr_nodes; node++) {
			start_kswapd(run, &run->kswapds[node], ts);
			kcompactd_begin(&run->kcompactds[node], run->model, ts,
					first_check(run, node, ts));
		}
	}
	while (run->next_entry < run->nr_entries && run->entries[run->next_entry].at <= at) {
		const struct slow_entry *e = &run->entries[run->next_entry++];

		run_daemons(run, e->ts < ts ? e->ts : ts);
		enter_slow_path(run, e);
	}
	run_daemons(run, ts);
}

void reclaim_run_finish(struct reclaim_run *run, uint64_t ts)
{
	run_daemons(run, ts);
	reclaim_supply_finish(&run->supply);
}

/*
 * The next zone of a list, from *i on, that the request may use and that is not of node `last`, or
 * of any node with -1; NULL at the end. In zone order (up to 4.13) a node may come up again.
 */
static const struct zone *next_zone(const struct zonelist *list, const struct request *rq, int last,
				    int *i)
{
	while (*i < list->nr) {
		const struct zone *zone = list->zones[(*i)++];

		if (zone->type <= rq->class_zone && zone->node != last)
			return zone;
	}
	return NULL;
}

static void wake_all(void *self, const struct zonelist *list, const struct request *rq)
{
	struct reclaim_run *run = self;
	const struct zone *zone;
	int i = 0, last = -1;

	while ((zone = next_zone(list, rq, last, &i))) {
		last = zone->node;
		reclaim_run_wake_kswapd(run, last, rq->gfp_flags, wake_order(run->model, rq->order),
					rq->class_zone);
	}
}

static void wake_boosted(void *self, const struct zone *zone)
{
	reclaim_run_wake_kswapd(self, zone->node, 0, 0, zone->type);
}

/* The nodes whose zones a request may use. */
static int nr_nodes_of(const struct zonelist *list, const struct request *rq)
{
	int nodes = 0, i = 0, last = -1;
	const struct zone *zone;

	for (; (zone = next_zone(list, rq, last, &i)); nodes++)
		last = zone->node;
	return nodes;
}

/*
 * shrink_zones: every node is shrunk by a cluster at least, also after the first has given one
 * (shrink_node, 6.18), together by `pages` at least. Returns the pages freed; *ready: compaction
 * has enough.
 */
static int64_t shrink_zones(struct reclaim_run *run, const struct zonelist *list,
			    const struct request *rq, int order, int64_t pages, bool *ready)
{
	int nodes = nr_nodes_of(list, rq), i = 0, last = -1;
	int64_t freed = 0, each = nodes ? pages / nodes : 0, got;
	const struct zone *zone;

	each = each > CLUSTER ? each : CLUSTER;
	*ready = false;
	while ((zone = next_zone(list, rq, -1, &i))) {
		if (order > PCP_MAX_ORDER && rq->gfp_flags & GFP_IO &&
		    compact_ready(run->model, zone, order, rq->class_zone)) {
			*ready = true;
			continue;
		}
		if (zone->node == last)
			continue;
		last = zone->node;
		got = reclaim_supply_take(&run->supply, last, rq->class_zone, each);
		if (got < each)
			got += reclaim_supply_shrink(&run->supply, last, each - got);
		freed += got;
		kswapd_overtaken(run->model, &run->kswapds[last], rq, freed > 0);
	}
	return freed;
}

/*
 * The task, if a reclaim of `ns` begins, or goes on for its request; else NULL. The task's next
 * request keeps its recorded time, also where that is before the end; what it needs is part of the
 * reclaim. A recorded entry begins one of its own.
 */
static struct stalled_task *begins_reclaim(struct reclaim_run *run, uint64_t ns)
{
	const struct moment *now = &run->model->now;
	struct stalled_task *t = run->stalled_tasks, *end = t + RECLAIMING_TASKS;

	while (t < end && t->pid != now->pid)
		t++;
	if (t == end) {
		t = &run->stalled_tasks[run->next_stalled++ % RECLAIMING_TASKS];
		*t = (struct stalled_task){.pid = now->pid};
	}
	if (now->ts != t->begin) {
		if (now->ts < t->end && !run->at_entry)
			return NULL;
		t->begin = t->end = now->ts;
	}
	t->end += ns;
	return t;
}

static bool direct(void *self, const struct zonelist *list, const struct request *rq, int order)
{
	struct reclaim_run *run = self;
	const struct scan_row *row =
		scan_direct(&run->pace, run->model->now.ts, order > PCP_MAX_ORDER);
	int64_t pages = row->freed > CLUSTER ? (int64_t)row->freed : CLUSTER, freed;
	struct stalled_task *task;
	struct counters *counters;
	bool ready;

	if (!list->nr)
		return false;
	freed = shrink_zones(run, list, rq, order, pages, &ready);
	if (freed < pages && !ready && scan_frees(&run->pace, run->model->now.ts, row))
		reclaim_supply_owe(&run->supply, list->zones[0]->node, rq->class_zone,
				   pages - freed);
	task = begins_reclaim(run, row->ns);
	if (!task)
		return freed || ready;
	counters = node_counters(run->model, list->zones[0]->node);
	counters->direct_reclaims++;
	counters->modelled_stall_us += row->ns / 1000;
	task->row_end = emit_direct_reclaim(&run->rows,
					    &(struct reclaim_row){.order = order,
								  .gfp_flags = rq->gfp_flags,
								  .nr_reclaimed = freed},
					    task->row_end, row->ns);
	return freed || ready;
}

/*
 * Whether the LRU of the recording frees nothing in a reclaim with these rights:
 * lru_gen_shrink_node, 6.3 to 7.3. On the older LRU it frees clean and unmapped pages. The tape
 * does not show which these are, so without both rights the model has none to free.
 */
static bool may_free(const struct model *m)
{
	int whole = ZONE_RECLAIM_WRITE | ZONE_RECLAIM_UNMAP;

	return (m->zone_reclaim.mode & whole) == whole;
}

/* The recorded try that a try of the model follows; NULL if the recording had another mode. */
static const struct scan_row *recorded_try(const struct reclaim_run *run, int node)
{
	const struct model *m = run->model;

	if (m->zone_reclaim.mode != m->record->zone_reclaim_mode)
		return NULL;
	return scan_near(&run->pace, m->now.ts, tape_node(m, node));
}

/* PGDAT_RECLAIM_LOCKED: one task at a time reclaims on a node. */
static bool others_reclaim(struct reclaim_run *run, int node, uint64_t ns)
{
	const struct moment *now = &run->model->now;
	struct stalled_task *t = &run->near_tasks[node];

	if (now->ts < t->end && now->pid != t->pid)
		return true;
	*t = (struct stalled_task){.begin = now->ts, .end = now->ts + ns, .pid = now->pid};
	return false;
}

/* node_reclaim, 5.10 to 7.3. */
static bool node_reclaim(void *self, const struct zone *zone, const struct request *rq)
{
	struct reclaim_run *run = self;
	const struct scan_row *recorded = recorded_try(run, zone->node);
	int64_t pages = 1ll << rq->order > CLUSTER ? 1ll << rq->order : CLUSTER, freed = 0;
	struct reclaim_row row = {
		.kind = RECLAIM_KIND_NODE_RECLAIM_BEGIN,
		.node = zone->node,
		.zone = -1,
		.order = rq->order,
		.gfp_flags = rq->gfp_flags,
	};

	if (others_reclaim(run, zone->node, recorded ? recorded->ns : 0))
		return false;
	zone_counters(run->model, zone)->node_reclaims++;
	emit_reclaim(&run->rows, &row);
	if (recorded)
		pages = (int64_t)recorded->freed;
	if (pages && (recorded || may_free(run->model)))
		freed = reclaim_supply_take(&run->supply, zone->node, rq->class_zone, pages);
	row.kind = RECLAIM_KIND_NODE_RECLAIM_END;
	row.nr_reclaimed = freed;
	row.order = -1;
	row.after_ns = recorded ? recorded->ns : 0;
	emit_reclaim(&run->rows, &row);
	return freed > 0;
}

static void stall(void *self, struct zone *zone, const struct request *rq, int64_t most)
{
	struct reclaim_run *run = self;
	struct scan_cursor cursor;
	uint64_t ns = STALL_NS;

	if (run->stalled)
		return;
	if (most)
		boost_zone_times(run->model, zone, most, STALL_BOOST);
	reclaim_run_wake_kswapd(run, zone->node, rq->gfp_flags, 0, zone->type);
	/* The wait ends when kswapd has reclaimed a cluster, if the queue has one. */
	if (run->pace.nr && reclaim_supply_waits(&run->supply, zone->node, zone->type)) {
		scan_begin(&cursor, tape_node(run->model, zone->node),
			   node_class(run->model, zone->node, zone->type));
		ns = service_draw_wake_ns(&run->service) +
		     scan_next(&run->pace, &cursor, run->model->now.ts)->ns;
	}
	ns = ns < STALL_NS ? ns : STALL_NS;
	node_counters(run->model, zone->node)->modelled_stall_us += ns / 1000;
	node_counters(run->model, zone->node)->stall_us += ns / 1000;
	run->stalled = true;
}

static enum compact_result compact(void *self, const struct zonelist *list,
				   const struct request *rq, int order, int priority)
{
	struct reclaim_run *run = self;

	return direct_compact(&run->parts, list, rq, order, priority);
}

static uint64_t reclaimable(void *self, const struct zone *zone)
{
	struct reclaim_run *run = self;

	return run->supply.waiting[zone->number];
}

static void compacted(void *self, const struct zone *zone, int order)
{
	struct reclaim_run *run = self;

	compaction_served(&run->compaction, zone, order);
}

static bool stalled(void *self)
{
	struct reclaim_run *run = self;
	bool was = run->stalled;

	run->stalled = false;
	return was;
}

int reclaim_run_start(struct reclaim_run *run, struct page_map *pages, const uint64_t *row,
		      struct error *err)
{
	int ret;

	run->due = 0;
	run->rows.model = run->model;
	run->parts = (struct reclaim_parts){
		.model = run->model,
		.supply = &run->supply,
		.service = &run->service,
		.pace = &run->pace,
		.compaction = &run->compaction,
		.rows = &run->rows,
		.checks = &run->checks,
	};
	ret = reclaim_supply_start(&run->supply, run->model, pages, row, err);
	compaction_new(&run->compaction, run->model, &run->supply);
	ret = ret ?: daemons_new(run, err);
	if (ret)
		return ret;
	run->ops = (struct reclaim_ops){
		.self = run,
		.wake_all = wake_all,
		.wake_boosted = wake_boosted,
		.direct = direct,
		.reclaimable = reclaimable,
		.take_tries = take_tries,
		.compact = compact,
		.compacted = compacted,
		.node_reclaim = node_reclaim,
		.stall = stall,
		.stalled = stalled,
	};
	run->model->reclaim_ops = &run->ops;
	run->model->record->boost_acts = true;
	return 0;
}
