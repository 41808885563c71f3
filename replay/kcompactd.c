// SPDX-License-Identifier: Apache-2.0
#include "kcompactd.h"

#include "evacuate.h"
#include "feedback.h"
#include "pcp.h"
#include "watermark.h"
#include "zone.h"

#include <errno.h>
#include <stdlib.h>

enum {
	MAX_DEFER_SHIFT = 6,
};
#define LOOK_NS 500000000ull /* HPAGE_FRAG_CHECK_INTERVAL_MSEC */

int kcompactd_init(struct kcompactd *c, const struct model *m, int node, struct error *err)
{
	*c = (struct kcompactd){.node = node, .class_zone = NR_ZONE - 1, .due = UINT64_MAX};
	c->shift = calloc((size_t)m->nr_zones, sizeof(*c->shift));
	c->passed = calloc((size_t)m->nr_zones, sizeof(*c->passed));
	if (!c->shift || !c->passed)
		return fail(err, ENOMEM, "no memory for the deferrals of %d zones", m->nr_zones);
	while (c->cpu < m->nr_cpus - 1 && m->cpu_nodes[c->cpu] != node)
		c->cpu++;
	if (m->cpu_nodes[c->cpu] != node)
		c->cpu = 0;
	return 0;
}

void kcompactd_free(struct kcompactd *c)
{
	free(c->shift);
	free(c->passed);
}

int64_t fragmentation_index(const struct model *m, const struct zone *zone, int order)
{
	int64_t blocks = 0, pages = 0, suitable = 0;

	for (int o = 0; o <= m->max_order; o++)
		for (int type = 0; type < NR_MIGRATETYPE; type++) {
			blocks += zone->nr_free[o][type];
			pages += (int64_t)zone->nr_free[o][type] << o;
			if (o >= order)
				suitable += (int64_t)zone->nr_free[o][type] << (o - order);
		}
	if (!blocks)
		return 0;
	if (suitable)
		return -1000;
	return 1000 - (1000 + pages * 1000 / (1ll << order)) / blocks;
}

enum compact_suits compact_suits(const struct model *m, const struct zone *zone, int order,
				 int class_zone)
{
	struct request rq = {
		.order = (uint8_t)order,
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)class_zone,
	};
	/* vm.defrag_mode wants more than the emergency: 6.15. */
	int wmark = m->kernel->whole_blocks ? WMARK_HIGH : WMARK_MIN;
	int64_t mark = zone_mark(zone, wmark), index;

	if (watermark_ok_of(m, zone, zone_free_for(m, zone, order), &rq, mark))
		return COMPACT_SERVES;
	mark += 2ll << order;
	if (order > PCP_MAX_ORDER)
		mark += zone->wmark[WMARK_LOW] - zone->wmark[WMARK_MIN];
	rq.order = 0;
	rq.migratetype = MIGRATETYPE_MOVABLE;
	if (!watermark_ok(m, zone, &rq, mark))
		return COMPACT_CANNOT;
	index = order > PCP_MAX_ORDER ? fragmentation_index(m, zone, order) : -1;
	return index >= 0 && index <= EXTFRAG_THRESHOLD ? COMPACT_CANNOT : COMPACT_SUITS;
}

static bool node_suits(const struct model *m, const struct kcompactd *c)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == c->node && m->zones[i].type <= c->class_zone &&
		    compact_suits(m, &m->zones[i], c->order, c->class_zone) == COMPACT_SUITS)
			return true;
	return false;
}

void kcompactd_wakeup(struct feedback *fb, struct kcompactd *c, int order, int class_zone)
{
	struct model *m = fb->model;

	if (!order)
		return;
	c->order = c->order > order ? c->order : order;
	c->class_zone = c->class_zone < class_zone ? c->class_zone : class_zone;
	if (c->running || c->woken || !node_suits(m, c))
		return;
	c->woken = true;
	node_counters(m, c->node)->kcompactd_asked++;
	feedback_tell_compaction(fb, COMPACTION_KIND_WAKEUP_KCOMPACTD, c->node, order, class_zone);
	c->due = m->now.ts + feedback_wake_ns(fb);
	feedback_hurry(fb, c->due);
}

/* compaction_deferred: whether this attempt is to be passed over. */
static bool is_deferred(struct kcompactd *c, int zone)
{
	if (c->passed[zone] + 1 >= 1 << c->shift[zone])
		return false;
	c->passed[zone]++;
	return true;
}

static void work(struct feedback *fb, struct kcompactd *c)
{
	struct model *m = fb->model;
	int order = c->order, class_zone = c->class_zone;
	uint64_t ns = 0;

	node_counters(m, c->node)->kcompactd_wakes++;
	feedback_tell_compaction(fb, COMPACTION_KIND_KCOMPACTD_WAKE, c->node, order, class_zone);
	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];
		const struct service_row *row;

		if (zone->node != c->node || zone->type > class_zone || is_deferred(c, i) ||
		    compact_suits(m, zone, order, zone->type) != COMPACT_SUITS)
			continue;
		row = service_draw(&fb->compaction_service);
		ns += row->ns;
		if (evacuate(fb, zone, order, row, &c->failing)) {
			c->shift[i] = 0;
		} else {
			pcp_drain_all(m);
			c->shift[i] += c->shift[i] < MAX_DEFER_SHIFT;
		}
		c->passed[i] = 0;
	}
	c->running = order;
	c->due = m->now.ts + ns;
}

void kcompactd_step(struct feedback *fb, struct kcompactd *c)
{
	c->woken = false;
	if (c->running) {
		/* What it was asked for meanwhile it forgets, unless that was more. */
		if (c->order <= c->running) {
			c->order = 0;
			c->class_zone = NR_ZONE - 1;
		}
		c->running = 0;
	}
	if (c->order)
		work(fb, c);
	else
		c->due = fb->model->now.ts + LOOK_NS;
}
