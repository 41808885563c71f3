// SPDX-License-Identifier: Apache-2.0
#include "recorded_use.h"

#include "tables.h"
#include "model/memory.h"
#include "model/owed.h"
#include "model/slow_path.h"
#include "model/watermark.h"
#include "model/zonelist.h"
#include "model/zonelist_scan.h"
#include "tape/node_preference.h"

void recorded_use_new(struct recorded_use *use, const struct model *m)
{
	use->taken = arrays_new(m->arrays, (size_t)m->nr_cpus, sizeof(*use->taken));
}

/* Whether a zone, as it stood before its last pages were taken, could serve the request. */
static bool could_serve(const struct model *m, const struct zone *zone, const struct request *rq,
			const struct taken *taken, int wmark)
{
	struct request asked = *rq;
	uint64_t free = zone_counted_free(zone);
	bool served = zone == taken->zone;

	if (wmark == WMARK_LOW && dirty_node(m, zone, rq->gfp_flags))
		return false;
	if (!(rq->flags & ALLOC_NOFRAGMENT) && watermark_fast(m, zone, rq, wmark))
		return true;
	if (served) { /* it had a chunk of the order */
		free += taken->pages;
		asked.order = 0;
	}
	return watermark_ok_of(m, zone, free, &asked, zone_mark(zone, wmark)) &&
	       (served ? !(rq->flags & ALLOC_NOFRAGMENT && taken->mixed)
		       : has_unmixed(m, zone, rq));
}

static bool any_could_serve(const struct model *m, const struct request *rq,
			    const struct taken *taken, int wmark)
{
	const struct zonelist *list = zonelist_of(m, rq);

	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone &&
		    could_serve(m, list->zones[i], rq, taken, wmark))
			return true;
	return false;
}

static void see_min(struct recorded_use *use, const struct model *m, const struct request *rq,
		    const struct taken *taken)
{
	int64_t pages = 1 << rq->order;

	if (any_could_serve(m, rq, taken, WMARK_MIN)) {
		use->advance = 0;
	} else if (use->advance >= pages) {
		use->advance -= pages;
	} else {
		use->below_min++;
		use->advance = rq->gfp_flags & GFP_DIRECT_RECLAIM ? SWAP_CLUSTER : 0;
	}
}

static void see_alloc(struct recorded_use *use, const struct model *m,
		      struct reclaim_events *reclaim_events, const struct window_event *event)
{
	const struct zone *zone = frame_zone(m, event->frame), *preferred;
	const struct taken *taken = &use->taken[event->cpu];
	bool reclaimed =
		reclaim_events->nr_reclaimed &&
		reclaim_events_take_reclaimed(reclaim_events, event->pid, event->order, NULL);
	struct request rq = request_of(m, event);

	preferred = zone_preferred(m, &rq);
	if (!preferred)
		return;
	use->allocs++;
	use->remote_node += zone->node != preferred->node;
	use->lower_zone += zone_is_lower(zone, preferred);
	rq.flags = slow_path_rights_at_once(m, &rq) | (never_mixes(m, &rq) ? ALLOC_NOFRAGMENT : 0u);
	if (reclaimed) {
		use->below_low++;
		use->below_min++;
		return;
	}
	if (any_could_serve(m, &rq, taken, WMARK_LOW)) {
		use->advance = 0;
		return;
	}
	use->below_low++;
	rq.flags = slow_path_rights(m, &rq) | (rq.flags & ALLOC_NOFRAGMENT);
	if (!reclaim_events->direct_recorded || !(rq.gfp_flags & GFP_DIRECT_RECLAIM))
		see_min(use, m, &rq, taken);
}

void recorded_use_see(struct recorded_use *use, const struct model *m,
		      struct reclaim_events *reclaim_events, const struct window_event *event)
{
	struct taken *taken = &use->taken[event->cpu];

	if (event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED) {
		const struct zone *zone = frame_zone(m, event->frame);

		if (taken->zone != zone)
			*taken = (struct taken){.zone = zone, .mixed = taken->mixed};
		taken->pages += 1ull << event->order;
		return;
	}
	if (event->kind == EVENT_KIND_ALLOC_EXTFRAG) {
		taken->mixed = true;
		return;
	}
	if (event->kind == EVENT_KIND_ALLOC)
		see_alloc(use, m, reclaim_events, event);
	*taken = (struct taken){0};
}

void recorded_use_write(const struct recorded_use *use, struct output *output, uint64_t ts)
{
	struct recorded_use_columns *columns;
	size_t row;

	if (!use->allocs)
		return;
	row = output_row(output, &columns);
	columns->ts[row] = ts;
	columns->lower_zone[row] = use->lower_zone;
	columns->remote_node[row] = use->remote_node;
	columns->below_low[row] = use->below_low;
	columns->below_min[row] = use->below_min;
}
