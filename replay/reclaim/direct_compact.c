// SPDX-License-Identifier: Apache-2.0
#include "direct_compact.h"

#include "node.h"
#include "model/fragmentation.h"
#include "model/reclaim_ops.h"
#include "model/zone.h"

/* compact_zone_order: what the compaction of one zone comes to. */
static enum compact_result compact_zone(const struct reclaim_parts *parts, struct zone *zone,
					const struct compact_goal *goal, const struct request *rq)
{
	struct model *m = parts->model;
	struct deferral *deferral = &parts->compaction->zones[zone->number].deferral;
	struct counters *counters = node_counters(m, zone->node);
	const struct scan_row *row;

	if (!goal->thorough && is_deferred(deferral, goal->order)) {
		counters->direct_compactions_deferred++;
		return COMPACT_DEFERRED;
	}
	switch (compact_suits(m, zone, rq,
			      goal->sync ? COMPACT_BY_REQUEST : COMPACT_BY_REQUEST_ASYNC)) {
	case COMPACT_CANNOT:
		return COMPACT_SKIPPED;
	case COMPACT_SERVES:
		defer_reset(deferral, goal->order, false);
		return COMPACT_SUCCESS;
	case COMPACT_SUITS:
		break;
	}
	row = scan_compaction(parts->pace, m->now.ts, true);
	counters->direct_compactions++;
	counters->modelled_stall_us += row->ns / 1000;
	emit_compaction_run(parts->rows, zone, 0, row->ns);
	if (compact_model(parts->compaction, zone, goal, row)) {
		defer_reset(deferral, goal->order, false);
		return COMPACT_SUCCESS;
	}
	if (goal->sync)
		defer(deferral, goal->order);
	return COMPACT_COMPLETE;
}

enum compact_result direct_compact(const struct reclaim_parts *parts, const struct zonelist *list,
				   const struct request *rq, int order, int priority)
{
	const struct compact_goal goal = {
		.order = order,
		.thorough = priority == COMPACT_PRIO_SYNC_FULL,
		.sync = priority < COMPACT_PRIO_ASYNC,
		.direct = true,
		.migratetype = rq->migratetype,
	};
	struct request promoted = *rq;
	enum compact_result furthest = COMPACT_SKIPPED;

	emit_compaction(parts->rows, &(struct compaction_row){
					     .kind = COMPACTION_KIND_TRY_TO_COMPACT_PAGES,
					     .node = -1,
					     .zone = -1,
					     .order = order,
					     .priority = priority,
					     .gfp_flags = rq->gfp_flags,
				     });
	promoted.order = (uint8_t)order;
	for (int i = 0; i < list->nr && furthest < COMPACT_SUCCESS; i++) {
		enum compact_result result;

		if (list->zones[i]->type > rq->class_zone)
			continue;
		result = compact_zone(parts, list->zones[i], &goal, &promoted);
		furthest = result > furthest ? result : furthest;
	}
	return furthest;
}
