// SPDX-License-Identifier: Apache-2.0
/* try_to_compact_pages, 4.20 to 6.18: an allocation compacts the zones of its zonelist. */
#include "evacuate.h"
#include "feedback.h"
#include "fragmentation.h"
#include "zone.h"

/* compact_zone_order: whether the zone can serve the order now. */
static bool compact_zone(struct feedback *fb, struct zone *zone, const struct request *rq,
			 int priority)
{
	const struct evacuation goal = {
		.order = rq->order,
		.thorough = priority == COMPACT_PRIO_SYNC_FULL,
		.direct = true,
	};
	struct model *m = fb->model;
	struct deferral *deferral = &fb->zones[zone->number].deferral;
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
	row = feedback_draw_compaction(fb, true);
	counters->direct_compactions++;
	counters->modelled_stall_us += row->ns / 1000;
	feedback_tell_run(fb, zone, 0, row->ns);
	if (evacuate(fb, zone, &goal, row)) {
		defer_reset(deferral, rq->order, false);
		return true;
	}
	if (priority < COMPACT_PRIO_ASYNC)
		defer(deferral, rq->order);
	return false;
}

bool feedback_compact(struct feedback *fb, const struct zonelist *list, const struct request *rq,
		      int priority)
{
	if (!(rq->gfp_flags & GFP_IO))
		return false;
	feedback_tell_compaction(fb, &(struct told_compaction){
					     .kind = COMPACTION_KIND_TRY_TO_COMPACT_PAGES,
					     .node = -1,
					     .zone = -1,
					     .order = rq->order,
					     .priority = priority,
					     .gfp_flags = rq->gfp_flags,
				     });
	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone &&
		    compact_zone(fb, list->zones[i], rq, priority))
			return true;
	return false;
}

void feedback_compacted(struct feedback *fb, const struct zone *zone, int order)
{
	defer_reset(&fb->zones[zone->number].deferral, order, true);
}
