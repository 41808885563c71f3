// SPDX-License-Identifier: Apache-2.0
/* What the zone of a request shows: the end of a boost, limits of dirty pages. */
#include "predict.h"

#include "model/slow_path.h"
#include "model/vmstat_diff.h"
#include "model/watermark.h"
#include "model/zonelist.h"
#include "model/zonelist_scan.h"

/* Whether the low watermark selects the zone. */
static bool is_above(const struct model *m, const struct zone *zone, const struct request *rq)
{
	return zone->type <= rq->class_zone && watermark_fast(m, zone, rq, WMARK_LOW);
}

/* A zone's node reaches its limit of dirty pages, or leaves it. */
static void learn_dirty(struct validate *v, const struct zone *zone, bool dirty)
{
	struct model *m = v->m;
	uint64_t bit = 1ull << (tape_node(m, zone->node) & 63);

	if (!(m->record->dirty_nodes & bit) == !dirty)
		return;
	m->record->dirty_nodes ^= bit;
	emit_inferred(&v->score,
		      (struct inferred){.kind = dirty ? INFERRED_KIND_DIRTY : INFERRED_KIND_CLEAN,
					.cpu = m->now.cpu,
					.frame = zone->start},
		      NULL);
}

static bool any_above_low(const struct model *m, const struct request *rq)
{
	const struct zonelist *list = zonelist_of(m, rq);

	for (int i = 0; i < list->nr; i++)
		if (is_above(m, list->zones[i], rq))
			return true;
	return false;
}

/* Whether any zone is above its min watermark for a request in the slow path. */
static bool any_above_min(const struct model *m, const struct request *slow)
{
	const struct zonelist *list = zonelist_of(m, slow);

	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= slow->class_zone &&
		    watermark_fast(m, list->zones[i], slow, WMARK_MIN))
			return true;
	return false;
}

/*
 * Whether the boost of a zone would have refused a request that another zone could have served: in
 * the first scan by the low watermarks, or, if these refuse all zones, in the scan by the min
 * watermarks. The zone's counter may be off by the differences of its CPUs: requests go to a zone
 * until it reaches its mark, so that many find it close to the mark.
 */
static bool is_refused_by_boost(const struct model *m, const struct request *rq,
				const struct zone *zone)
{
	struct zone unboosted = *zone, full = *zone;
	struct request slow = *rq;

	unboosted.boost = 0;
	full.vmstat_diff = -m->nr_cpus * zone->stat_threshold;
	if (any_above_low(m, rq))
		return !is_above(m, &full, rq) && is_above(m, &unboosted, rq);
	slow.flags = slow_path_rights(m, rq);
	return zone->reclaim_active && !watermark_fast(m, &full, &slow, WMARK_MIN) &&
	       watermark_fast(m, &unboosted, &slow, WMARK_MIN) && any_above_min(m, &slow);
}

/*
 * kswapd removes a boost at the end of its pass, which has no event: at the latest before the zone
 * serves a request that the boost would have refused. One such request may also have come from the
 * slow path, which it entered when no zone was above its low watermark.
 */
static void learn_boost(struct validate *v, const struct request *rq, struct zone *served)
{
	enum { IN_A_ROW = 2 };
	struct model *m = v->m;
	struct refusals *refusals = &v->refusals[served - m->zones];
	uint64_t now = window_at(&v->window, v->window.done)->at;

	if (!served->boost || v->score.guesses)
		return;
	if (!is_refused_by_boost(m, rq, served)) {
		refusals->nr = 0;
		return;
	}
	if (!refusals->nr++)
		refusals->first = now;
	if (refusals->nr < IN_A_ROW && any_above_low(m, rq))
		return;
	refusals->nr = 0;
	/* Before the first of them. */
	learn_unboosted(v, served, refusals->first < now ? refusals->first - 1 : now);
}

void learn_unboosted(struct validate *v, struct zone *zone, uint64_t at)
{
	emit_inferred(&v->score,
		      (struct inferred){.at = at,
					.kind = INFERRED_KIND_UNBOOSTED,
					.cpu = v->m->now.cpu,
					.frame = zone->start},
		      NULL);
	unboost_zone(v->m, zone);
}

/* One scan by a watermark. */
struct scan {
	const struct request *rq;
	int mark;
};

static bool passes(const struct model *m, const struct zone *zone, const struct scan *scan)
{
	return zone->type <= scan->rq->class_zone && watermark_fast(m, zone, scan->rq, scan->mark);
}

/*
 * The smallest change of a zone's counter that moves the zone to the other side of its mark, within
 * what the CPUs' differences may hide; 0: there is none.
 */
static int shift_across(const struct model *m, const struct zone *zone, const struct scan *scan)
{
	bool above = passes(m, zone, scan);
	int sign = above ? -1 : 1, low = 0;
	int high = m->nr_cpus * zone->stat_threshold + sign * zone->vmstat_diff;
	struct zone shifted = *zone;

	while (low < high) {
		int middle = low + (high - low) / 2;

		shifted.vmstat_diff = zone->vmstat_diff - sign * middle;
		if (passes(m, &shifted, scan) == above)
			low = middle + 1;
		else
			high = middle;
	}
	shifted.vmstat_diff = zone->vmstat_diff - sign * low;
	return passes(m, &shifted, scan) == above ? 0 : sign * low;
}

void learn_counter(struct validate *v, struct zone *zone, int pages)
{
	if (!pages)
		return;
	emit_inferred(&v->score,
		      (struct inferred){.kind = pages > 0 ? INFERRED_KIND_COUNTED_MORE
							  : INFERRED_KIND_COUNTED_LESS,
					.cpu = v->m->now.cpu,
					.frame = zone->start,
					.fields = FIELD_PAGES,
					.pages = pages > 0 ? pages : -pages},
		      NULL);
	vmstat_diff_shift(v->m, zone, pages);
}

/* Whether a scan would take a page of the zone. */
static bool takes(const struct model *m, const struct zone *zone, const struct scan *scan)
{
	return passes(m, zone, scan) && has_unmixed(m, zone, scan->rq) &&
	       !(m->kernel->skip_awake_nodes && m->nr_nodes > 1 && kswapd_awake(m, zone->node));
}

static bool any_takes(const struct model *m, const struct scan *scan)
{
	const struct zonelist *list = zonelist_of(m, scan->rq);

	for (int i = 0; i < list->nr; i++)
		if (takes(m, list->zones[i], scan))
			return true;
	return false;
}

/*
 * A scan takes the first zone above its mark, by the zones' counters: the zones before the one that
 * served were not above it, and that zone was. The scan is the first one, by the low marks, if any
 * zone passes it; else one of the slow path, by the min marks.
 */
static void learn_counts(struct validate *v, const struct request *rq, struct zone *served)
{
	struct model *m = v->m;
	const struct zonelist *list = zonelist_of(m, rq);
	struct request own = *rq;
	struct scan scan = {&own, WMARK_LOW};
	bool unmixed = never_mixes(m, rq);

	if (rq->order || v->score.guesses || m->record->dirty_nodes)
		return;
	own.flags = unmixed ? ALLOC_NOFRAGMENT : 0;
	if (!any_takes(m, &scan)) {
		scan.mark = WMARK_MIN;
		own.flags = slow_path_rights(m, rq);
		if (unmixed || own.flags & ALLOC_NO_WATERMARKS || !any_takes(m, &scan))
			return;
	}
	for (int i = 0; i < list->nr && list->zones[i] != served; i++)
		if (takes(m, list->zones[i], &scan))
			learn_counter(v, list->zones[i], shift_across(m, list->zones[i], &scan));
	if (!passes(m, served, &scan))
		learn_counter(v, served, shift_across(m, served, &scan));
}

void predict_list_order(struct validate *v, const struct request *rq, struct zone *served)
{
	const struct model *m = v->m;
	const struct zonelist *list = zonelist_of(m, rq);
	bool above;

	if (!rule_is_on(RULE_list_order))
		return;
	learn_counts(v, rq, served);
	learn_boost(v, rq, served);
	above = is_above(m, served, rq);
	if (!(rq->gfp_flags & GFP_WRITE) || rq->gfp_flags & GFP_THISNODE || m->nr_nodes < 2 ||
	    v->score.guesses)
		return;
	for (int i = 0; i < list->nr && !(above && list->zones[i] == served); i++)
		if ((!above || list->zones[i]->node != served->node) &&
		    is_above(m, list->zones[i], rq))
			learn_dirty(v, list->zones[i], true);
	if (above)
		learn_dirty(v, served, false);
}

bool missed_turn(const struct validate *v, const struct request *rq, const struct zone *served)
{
	return !(rq->gfp_flags & GFP_WRITE) && !v->score.guesses && !is_above(v->m, served, rq) &&
	       any_above_low(v->m, rq);
}
