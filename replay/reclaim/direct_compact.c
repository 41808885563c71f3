// SPDX-License-Identifier: Apache-2.0
#include "direct_compact.h"

#include "node.h"
#include "model/fragmentation.h"
#include "model/reclaim_ops.h"
#include "model/zone.h"

/* compact_zone_order: whether the zone can serve the order afterwards. */
static bool compact_zone(const struct reclaim_parts *parts, struct zone *zone,
			 const struct request *rq, int priority)
{
	const struct compact_goal goal = {
		.order = rq->order,
		.thorough = priority == COMPACT_PRIO_SYNC_FULL,
		.direct = true,
	};
	struct model *m = parts->model;
	struct deferral *deferral = &parts->compaction->zones[zone->number].deferral;
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
	row = services_draw_compaction(parts->services, true);
	counters->direct_compactions++;
	counters->modelled_stall_us += row->ns / 1000;
	emit_compaction_run(parts->rows, zone, 0, row->ns);
	if (compact_model(parts->compaction, zone, &goal, row)) {
		defer_reset(deferral, rq->order, false);
		return true;
	}
	if (priority < COMPACT_PRIO_ASYNC)
		defer(deferral, rq->order);
	return false;
}

bool direct_compact(const struct reclaim_parts *parts, const struct zonelist *list,
		    const struct request *rq, int priority)
{
	if (!(rq->gfp_flags & GFP_IO))
		return false;
	emit_compaction(parts->rows, &(struct compaction_row){
					     .kind = COMPACTION_KIND_TRY_TO_COMPACT_PAGES,
					     .node = -1,
					     .zone = -1,
					     .order = rq->order,
					     .priority = priority,
					     .gfp_flags = rq->gfp_flags,
				     });
	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone &&
		    compact_zone(parts, list->zones[i], rq, priority))
			return true;
	return false;
}
