// SPDX-License-Identifier: Apache-2.0
#include "kcompactd.h"

#include "node.h"
#include "model/fragmentation.h"
#include "model/pcp.h"
#include "model/zone.h"

#define CHECK_NS 500000000ull /* HPAGE_FRAG_CHECK_INTERVAL_MSEC */
#define DEFERRED 64           /* checks: 1 << COMPACT_MAX_DEFER_SHIFT */
#define PAUSE_NS (DEFERRED * CHECK_NS)

void kcompactd_init(struct kcompactd *c, const struct model *m, int node)
{
	*c = (struct kcompactd){
		.node = node,
		.cpu = node_first_cpu(m, node),
		.class_zone = NR_ZONE - 1,
		.due = UINT64_MAX,
	};
}

/*
 * Whether kcompactd checks for work on a timer. Without proactive compaction it sleeps until woken;
 * in 5.10 it checks all the same.
 */
static bool checks_itself(const struct model *m)
{
	return m->kernel->proactive != PROACTIVE_NONE &&
	       (m->proactiveness || !m->kernel->proactive_pauses);
}

void kcompactd_begin(struct kcompactd *c, const struct model *m, uint64_t ts, uint64_t first_check)
{
	if (checks_itself(m))
		c->due = first_check == UINT64_MAX ? ts + PAUSE_NS : first_check;
}

static bool suits(const struct model *m, const struct zone *zone, int order, int class_zone)
{
	const struct request rq = {
		.order = (uint8_t)order,
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)class_zone,
	};

	return compact_suits(m, zone, &rq, COMPACT_BY_KCOMPACTD) == COMPACT_SUITS;
}

static bool node_suits(const struct model *m, const struct kcompactd *c)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (is_in_class(&m->zones[i], c->node, c->class_zone) &&
		    suits(m, &m->zones[i], c->order, c->class_zone))
			return true;
	return false;
}

static void emit(const struct reclaim_parts *parts, const struct kcompactd *c, int kind, int order,
		 int class_zone)
{
	emit_compaction(parts->rows, &(struct compaction_row){.kind = kind,
							      .node = c->node,
							      .zone = class_zone,
							      .order = order,
							      .priority = -1});
}

void kcompactd_wakeup(const struct reclaim_parts *parts, struct kcompactd *c,
		      struct kcompactd_wake wake)
{
	struct model *m = parts->model;

	if (!wake.order || !m->kernel->compacts)
		return;
	c->order = c->order > wake.order ? c->order : wake.order;
	c->class_zone = c->class_zone < wake.class_zone ? c->class_zone : wake.class_zone;
	if (c->running || c->woken || !node_suits(m, c))
		return;
	c->woken = true;
	node_counters(m, c->node)->kcompactd_asked++;
	emit(parts, c, COMPACTION_KIND_WAKEUP_KCOMPACTD, wake.order, wake.class_zone);
	c->due = m->now.ts + service_draw_wake_ns(parts->service);
}

/* A run begins and takes `ns`. */
static void start(const struct model *m, struct kcompactd *c, int order, uint64_t ns)
{
	c->running = true;
	c->done = order;
	c->due = m->now.ts + ns;
}

/* kcompactd_do_work */
static void work(const struct reclaim_parts *parts, struct kcompactd *c)
{
	struct model *m = parts->model;
	const struct compact_goal goal = {
		.order = c->order,
		.class_zone = (uint8_t)c->class_zone,
	};
	uint64_t ns = 0;

	node_counters(m, c->node)->kcompactd_wakes++;
	emit(parts, c, COMPACTION_KIND_KCOMPACTD_WAKE, c->order, c->class_zone);
	for (int i = 0; i < m->nr_zones; i++) {
		struct deferral *deferral = &parts->compaction->zones[i].deferral;
		struct zone *zone = &m->zones[i];
		const struct scan_row *row;

		if (!is_in_class(zone, c->node, c->class_zone) || is_deferred(deferral, c->order) ||
		    !suits(m, zone, c->order, zone->type))
			continue;
		row = scan_compaction(parts->pace, m->now.ts + ns, false);
		emit_compaction_run(parts->rows, zone, ns, row->ns);
		ns += row->ns;
		if (compact_model(parts->compaction, zone, &goal, row)) {
			defer_reset(deferral, c->order, false);
		} else {
			pcp_drain_zone(m, zone);
			defer(deferral, c->order);
		}
	}
	c->pauses = false;
	start(m, c, c->order, ns);
}

/* should_proactive_compact_node */
static bool is_fragmented(const struct model *m, const struct kcompactd *c)
{
	return m->proactiveness &&
	       fragmentation_score_node(m, c->node) > score_marks(m->kernel, m->proactiveness).high;
}

/* compact_node, proactively */
static void work_ahead(const struct reclaim_parts *parts, struct kcompactd *c)
{
	struct model *m = parts->model;
	const struct compact_goal goal = {
		.order = -1,
		.score = score_marks(m->kernel, m->proactiveness).low,
		.thorough = true,
	};
	int before = fragmentation_score_node(m, c->node);
	uint64_t ns = 0;
	bool in_vain;

	node_counters(m, c->node)->proactive_compactions++;
	for (int i = 0; i < m->nr_zones; i++) {
		const struct scan_row *row;

		if (m->zones[i].node != c->node ||
		    proactive_score_zone(m, &m->zones[i]) <= goal.score)
			continue;
		row = scan_compaction(parts->pace, m->now.ts + ns, false);
		emit_compaction_run(parts->rows, &m->zones[i], ns, row->ns);
		ns += row->ns;
		compact_model(parts->compaction, &m->zones[i], &goal, row);
	}
	in_vain = fragmentation_score_node(m, c->node) >= before;
	c->pauses = in_vain && m->kernel->proactive_pauses;
	c->left_out = in_vain && !m->kernel->proactive_pauses ? DEFERRED : 0;
	start(m, c, 0, ns);
}

/* End of a run. A request from meanwhile is dropped, unless its order was higher. */
static void stop(struct kcompactd *c)
{
	c->running = false;
	if (c->order > c->done)
		return;
	c->order = 0;
	c->class_zone = NR_ZONE - 1;
}

/*
 * The end of a pause after proactive compaction in vain: after 32 s, or with the first recorded
 * check later than the usual one. Whether compaction is in vain may depend on one pageblock of a
 * small zone, and the record shows when the kernel's kcompactd does not pause.
 */
static uint64_t pause_end(const struct reclaim_parts *parts, struct kcompactd *c)
{
	const struct recorded_checks *checks = parts->checks;
	uint64_t now = parts->model->now.ts, end = now + PAUSE_NS;
	int node = tape_node(parts->model, c->node);

	while (c->check < checks->nr &&
	       (checks->rows[c->check].ts <= now + CHECK_NS || checks->rows[c->check].node != node))
		c->check++;
	if (c->check < checks->nr && checks->rows[c->check].ts < end)
		return checks->rows[c->check].ts;
	return end;
}

/* When a kcompactd without work looks for some again. */
static uint64_t next_check(const struct reclaim_parts *parts, struct kcompactd *c, bool timed_out)
{
	if (!checks_itself(parts->model))
		return UINT64_MAX;
	if (c->pauses && !timed_out)
		return pause_end(parts, c);
	return parts->model->now.ts + CHECK_NS;
}

void kcompactd_step(const struct reclaim_parts *parts, struct kcompactd *c, bool kswapd_runs)
{
	const struct model *m = parts->model;
	bool timed_out = !c->running && !c->woken;
	bool wanted;

	c->woken = false;
	if (c->running)
		stop(c);
	wanted = !c->order && timed_out && checks_itself(m) && !kswapd_runs && is_fragmented(m, c);
	if (c->order) {
		work(parts, c);
	} else if (wanted && !c->left_out) {
		work_ahead(parts, c);
	} else {
		c->left_out -= wanted;
		emit(parts, c, COMPACTION_KIND_KCOMPACTD_SLEEP, -1, -1);
		c->due = next_check(parts, c, timed_out);
	}
}
