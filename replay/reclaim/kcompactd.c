// SPDX-License-Identifier: Apache-2.0
#include "kcompactd.h"

#include "compact_model.h"
#include "reclaim_run.h"
#include "model/fragmentation.h"
#include "model/pcp.h"
#include "model/watermark.h"
#include "model/zone.h"

#define LOOK_NS  500000000ull   /* HPAGE_FRAG_CHECK_INTERVAL_MSEC */
#define PAUSE_NS (LOOK_NS << 6) /* COMPACT_MAX_DEFER_SHIFT */

void kcompactd_init(struct kcompactd *c, const struct model *m, int node)
{
	*c = (struct kcompactd){
		.node = node,
		.class_zone = NR_ZONE - 1,
		.due = UINT64_MAX,
		.timeout = LOOK_NS,
	};
	while (c->cpu < m->nr_cpus - 1 && m->cpu_nodes[c->cpu] != node)
		c->cpu++;
	if (m->cpu_nodes[c->cpu] != node)
		c->cpu = 0;
}

/* Before proactive compaction, and without it, it sleeps until it is woken. */
static bool looks_by_itself(const struct model *m)
{
	return m->kernel->proactive != PROACTIVE_NONE && m->proactiveness;
}

void kcompactd_begin(struct kcompactd *c, const struct model *m, uint64_t ts, uint64_t look)
{
	if (looks_by_itself(m))
		c->due = look == UINT64_MAX ? ts + PAUSE_NS : look;
}

static bool node_suits(const struct model *m, const struct kcompactd *c)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == c->node && m->zones[i].type <= c->class_zone &&
		    compact_suits(m, &m->zones[i], c->order, c->class_zone) == COMPACT_SUITS)
			return true;
	return false;
}

static void emit(struct reclaim_run *run, const struct kcompactd *c, int kind, int order,
		 int class_zone)
{
	reclaim_run_emit_compaction(run, &(struct compaction_row){.kind = kind,
								  .node = c->node,
								  .zone = class_zone,
								  .order = order,
								  .priority = -1});
}

void kcompactd_wakeup(struct reclaim_run *run, struct kcompactd *c, int order, int class_zone)
{
	struct model *m = run->model;

	if (!order)
		return;
	c->order = c->order > order ? c->order : order;
	c->class_zone = c->class_zone < class_zone ? c->class_zone : class_zone;
	if (c->running || c->woken || !node_suits(m, c))
		return;
	c->woken = true;
	node_counters(m, c->node)->kcompactd_asked++;
	emit(run, c, COMPACTION_KIND_WAKEUP_KCOMPACTD, order, class_zone);
	c->due = m->now.ts + reclaim_run_wake_ns(run);
	reclaim_run_hurry(run, c->due);
}

/* A run begins. */
static void start(struct reclaim_run *run, struct kcompactd *c, int order, uint64_t ns)
{
	c->running = true;
	c->done = order;
	c->due = run->model->now.ts + ns;
}

/* kcompactd_do_work */
static void work(struct reclaim_run *run, struct kcompactd *c)
{
	struct model *m = run->model;
	const struct compact_goal goal = {.order = c->order};
	uint64_t ns = 0;

	node_counters(m, c->node)->kcompactd_wakes++;
	emit(run, c, COMPACTION_KIND_KCOMPACTD_WAKE, c->order, c->class_zone);
	for (int i = 0; i < m->nr_zones; i++) {
		struct deferral *deferral = &run->zones[i].deferral;
		struct zone *zone = &m->zones[i];
		const struct service_row *row;

		if (zone->node != c->node || zone->type > c->class_zone ||
		    is_deferred(deferral, c->order) ||
		    compact_suits(m, zone, c->order, zone->type) != COMPACT_SUITS)
			continue;
		row = reclaim_run_draw_compaction(run, false);
		reclaim_run_emit_run(run, zone, ns, row->ns);
		ns += row->ns;
		if (compact_model(run, zone, &goal, row)) {
			defer_reset(deferral, c->order, false);
		} else {
			pcp_drain_all(m);
			defer(deferral, c->order);
		}
	}
	c->timeout = LOOK_NS;
	start(run, c, c->order, ns);
}

/* should_proactive_compact_node */
static bool is_fragmented(const struct reclaim_run *run, const struct kcompactd *c)
{
	const struct model *m = run->model;

	return !kswapd_runs(&run->kswapds[c->node]) &&
	       fragmentation_score_node(m, c->node) > score_marks(m->kernel, m->proactiveness).high;
}

/* compact_node, proactively */
static void work_ahead(struct reclaim_run *run, struct kcompactd *c)
{
	struct model *m = run->model;
	const struct compact_goal goal = {
		.order = -1,
		.score = score_marks(m->kernel, m->proactiveness).low,
		.thorough = true,
	};
	int before = fragmentation_score_node(m, c->node);
	uint64_t ns = 0;

	node_counters(m, c->node)->proactive_compactions++;
	for (int i = 0; i < m->nr_zones; i++) {
		const struct service_row *row;

		if (m->zones[i].node != c->node ||
		    fragmentation_score_zone(m, &m->zones[i]) <= goal.score)
			continue;
		row = reclaim_run_draw_compaction(run, false);
		reclaim_run_emit_run(run, &m->zones[i], ns, row->ns);
		ns += row->ns;
		compact_model(run, &m->zones[i], &goal, row);
	}
	c->timeout = fragmentation_score_node(m, c->node) >= before ? PAUSE_NS : LOOK_NS;
	start(run, c, 0, ns);
}

/* A run is over. What it was asked for meanwhile it forgets, unless that was more. */
static void stop(struct kcompactd *c)
{
	c->running = false;
	if (c->order > c->done)
		return;
	c->order = 0;
	c->class_zone = NR_ZONE - 1;
}

void kcompactd_step(struct reclaim_run *run, struct kcompactd *c)
{
	const struct model *m = run->model;
	bool looks = !c->running && !c->woken;

	c->woken = false;
	if (c->running)
		stop(c);
	if (c->order) {
		work(run, c);
	} else if (looks && looks_by_itself(m) && is_fragmented(run, c)) {
		work_ahead(run, c);
	} else {
		emit(run, c, COMPACTION_KIND_KCOMPACTD_SLEEP, -1, -1);
		c->due = looks_by_itself(m) ? m->now.ts + (looks ? LOOK_NS : c->timeout)
					    : UINT64_MAX;
	}
}
