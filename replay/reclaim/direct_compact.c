// SPDX-License-Identifier: Apache-2.0
/* try_to_compact_pages, 4.20 to 6.18: an allocation compacts the zones of its zonelist. */
#include "compact_model.h"
#include "reclaim_run.h"
#include "model/fragmentation.h"
#include "model/zone.h"

/* compact_zone_order: whether the zone can serve the order now. */
static bool compact_zone(struct reclaim_run *run, struct zone *zone, const struct request *rq,
			 int priority)
{
	const struct compact_goal goal = {
		.order = rq->order,
		.thorough = priority == COMPACT_PRIO_SYNC_FULL,
		.direct = true,
	};
	struct model *m = run->model;
	struct deferral *deferral = &run->zones[zone->number].deferral;
	struct counters *counters = node_counters(m, zone->node);
	const struct service_row *row;

	if (priority > COMPACT_PRIO_SYNC_FULL && is_deferred(deferral, rq->order)) {
		counters->direct_compactions_deferred++;
		return false;
	}
	switch (compact_suits(m, zone, rq->order, rq->class_zone)) {
	case COMPACT_CANNOT:
		return false;
	case COMPACT_SERVES:
		defer_reset(deferral, rq->order, false);
		return true;
	case COMPACT_SUITS:
		break;
	}
	row = reclaim_run_draw_compaction(run, true);
	counters->direct_compactions++;
	counters->modelled_stall_us += row->ns / 1000;
	reclaim_run_emit_run(run, zone, 0, row->ns);
	if (compact_model(run, zone, &goal, row)) {
		defer_reset(deferral, rq->order, false);
		return true;
	}
	if (priority < COMPACT_PRIO_ASYNC)
		defer(deferral, rq->order);
	return false;
}

bool direct_compact(void *self, const struct zonelist *list, const struct request *rq, int priority)
{
	struct reclaim_run *run = self;

	if (!(rq->gfp_flags & GFP_IO))
		return false;
	reclaim_run_emit_compaction(run, &(struct compaction_row){
						 .kind = COMPACTION_KIND_TRY_TO_COMPACT_PAGES,
						 .node = -1,
						 .zone = -1,
						 .order = rq->order,
						 .priority = priority,
						 .gfp_flags = rq->gfp_flags,
					 });
	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone &&
		    compact_zone(run, list->zones[i], rq, priority))
			return true;
	return false;
}

void direct_compacted(void *self, const struct zone *zone, int order)
{
	struct reclaim_run *run = self;

	defer_reset(&run->zones[zone->number].deferral, order, true);
}
