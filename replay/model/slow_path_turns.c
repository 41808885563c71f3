// SPDX-License-Identifier: Apache-2.0
#include "slow_path_turns.h"

#include "fragmentation.h"
#include "highatomic.h"
#include "pcp.h"
#include "reclaim_ops.h"
#include "watermark.h"

enum {
	MAX_RETRIES = 16, /* MAX_RECLAIM_RETRIES, MAX_COMPACT_RETRIES */
	MAX_RETRIES_COSTLY = MAX_RETRIES / 4,
	/*
	 * 7.2 ends turns for a whole pageblock only with a page: reclaim that leaves the zone to
	 * compaction is progress, and compaction is deferred up to 63 times. Here no other task
	 * makes that page meanwhile. Four runs of compaction are the most that was recorded.
	 */
	SPINS_MOST = 256,
};

/* A request between its turns. */
struct turns {
	struct model *m;
	struct request *rq;
	struct zonelist_scan *scan;
	int reclaimed_before; /* times that its task reclaimed at recorded entries */
	bool may_compact;
	bool compacts_first; /* this turn compacts, and does not reclaim */
	bool noretry;        /* a single round of reclaim and compaction */
	bool progress;       /* the last reclaim freed pages */
	int priority;        /* COMPACT_PRIO_* */
	enum compact_result compacted;
	int no_progress, compactions; /* turns in a row: without progress, with a success in vain */
	int spins;                    /* turns for a whole pageblock */
};

static bool is_costly(const struct request *rq)
{
	return rq->order > PCP_MAX_ORDER;
}

int promoted_order(const struct model *m, const struct request *rq)
{
	if (m->kernel->defrag_promotes == DEFRAG_PROMOTES_NEVER ||
	    !(rq->flags & ALLOC_NOFRAGMENT) || rq->migratetype == MIGRATETYPE_MOVABLE ||
	    rq->order >= m->pageblock_order)
		return rq->order;
	return m->pageblock_order;
}

static bool is_promoted(const struct turns *t)
{
	return promoted_order(t->m, t->rq) != t->rq->order;
}

/* Whether turns count for a request's higher order (order_defrag_promoted, 7.3). */
static bool has_promoted_turns(const struct turns *t)
{
	return t->m->kernel->defrag_promotes == DEFRAG_PROMOTES_TURNS && is_promoted(t);
}

/* __alloc_pages_direct_reclaim: a frame, or NO_FRAME. */
static uint32_t alloc_reclaiming(struct turns *t)
{
	const struct reclaim_ops *ops = t->m->reclaim_ops;
	frame_nr frame;

	if (t->reclaimed_before)
		t->progress = t->reclaimed_before--;
	else
		t->progress =
			ops->direct(ops->self, t->scan->list, t->rq, promoted_order(t->m, t->rq));
	if (!t->progress)
		return NO_FRAME;
	frame = scan_zones(t->m, t->rq, t->scan);
	if (frame != NO_FRAME)
		return frame;
	/* A tape may request HIGHATOMIC pages: they gain nothing from a block of their own. */
	if (t->rq->migratetype != MIGRATETYPE_HIGHATOMIC)
		unreserve_highatomic(t->m, t->scan->list, t->rq, false);
	pcp_drain_all(t->m);
	return scan_zones(t->m, t->rq, t->scan);
}

/* __alloc_pages_direct_compact: a frame, or NO_FRAME. */
static uint32_t alloc_compacting(struct turns *t)
{
	const struct reclaim_ops *ops = t->m->reclaim_ops;
	int order = promoted_order(t->m, t->rq);
	frame_nr frame;

	t->compacted = COMPACT_SKIPPED;
	if (!order || !t->may_compact)
		return NO_FRAME;
	t->compacted = ops->compact(ops->self, t->scan->list, t->rq, order, t->priority);
	if (t->compacted == COMPACT_SKIPPED ||
	    (t->compacted == COMPACT_DEFERRED && t->m->kernel->compact_turn))
		return NO_FRAME;
	frame = scan_zones(t->m, t->rq, t->scan);
	if (frame != NO_FRAME)
		ops->compacted(ops->self, t->scan->served, order);
	return frame;
}

/* Whether a request stops after its first compaction failed. */
static bool gives_up_first(const struct turns *t)
{
	const struct request *rq = t->rq;

	if (!t->noretry)
		return false;
	if (t->m->kernel->compact_turn)
		return rq->gfp_flags & GFP_THISNODE;
	return is_costly(rq) && (t->compacted <= COMPACT_DEFERRED || rq->gfp_flags & GFP_THISNODE);
}

/* The priority of compaction after the first one: NORETRY keeps to the cheap kind. */
static int next_priority(const struct turns *t)
{
	bool cheap = t->noretry && (t->m->kernel->compact_turn || is_costly(t->rq));

	return cheap ? COMPACT_PRIO_ASYNC : COMPACT_PRIO_SYNC_LIGHT;
}

/* should_reclaim_retry: whether reclaim of all that is left would help. */
static bool retries_reclaim(struct turns *t)
{
	const struct zonelist *list = t->scan->list;
	struct model *m = t->m;

	if (t->progress && !is_costly(t->rq) && !has_promoted_turns(t))
		t->no_progress = 0;
	else
		t->no_progress++;
	/* A queue without pages for this request stays so: further turns would free nothing. */
	for (int i = 0; i < list->nr && t->progress && t->no_progress <= MAX_RETRIES; i++) {
		const struct zone *zone = list->zones[i];
		uint64_t most;

		if (zone->type > t->rq->class_zone)
			continue;
		most = zone_counted_free(zone) +
		       m->reclaim_ops->reclaimable(m->reclaim_ops->self, zone);
		if (watermark_ok_of(m, zone, most, t->rq, zone_mark(zone, WMARK_MIN)))
			return true;
	}
	return t->rq->migratetype != MIGRATETYPE_HIGHATOMIC &&
	       unreserve_highatomic(m, list, t->rq, true);
}

/* compaction_zonelist_suitable: whether reclaim can free enough targets for compaction. */
static bool reclaim_helps_compaction(const struct turns *t)
{
	const struct zonelist *list = t->scan->list;
	struct model *m = t->m;
	int order = t->rq->order;

	for (int i = 0; i < list->nr; i++) {
		const struct zone *zone = list->zones[i];
		uint64_t most;

		if (zone->type > t->rq->class_zone)
			continue;
		most = zone_counted_free(zone) +
		       m->reclaim_ops->reclaimable(m->reclaim_ops->self, zone) / (uint64_t)order;
		if (has_compact_gap(m, zone, most, order, t->rq->class_zone, WMARK_MIN))
			return true;
	}
	return false;
}

/* should_compact_retry: whether compaction gets another turn, and at which priority. */
static bool retries_compaction(struct turns *t)
{
	bool costly = is_costly(t->rq);

	if (!t->rq->order && !has_promoted_turns(t))
		return false;
	if (t->compacted == COMPACT_SKIPPED)
		return !has_promoted_turns(t) && reclaim_helps_compaction(t);
	if (t->compacted == COMPACT_SUCCESS &&
	    ++t->compactions <= (costly ? MAX_RETRIES_COSTLY : MAX_RETRIES))
		return true;
	if (t->priority <= (costly ? COMPACT_PRIO_SYNC_LIGHT : COMPACT_PRIO_SYNC_FULL))
		return false;
	t->priority--;
	t->compactions = 0;
	return true;
}

/* Whether another turn follows one that reclaimed. */
static bool retries(struct turns *t)
{
	const struct request *rq = t->rq;
	bool spent;

	if (t->noretry || (is_costly(rq) && !(t->may_compact && rq->gfp_flags & GFP_RETRY_MAYFAIL)))
		return false;
	spent = is_promoted(t) && ++t->spins > SPINS_MOST;
	if (!spent &&
	    (retries_reclaim(t) || (t->progress && t->may_compact && retries_compaction(t))))
		return true;
	if (!(rq->flags & ALLOC_NOFRAGMENT))
		return false;
	/* vm.defrag_mode: reclaim and compaction did not prevent the fallback. */
	if (has_promoted_turns(t))
		t->no_progress = t->compactions = 0;
	t->rq->flags &= ~(uint32_t)ALLOC_NOFRAGMENT;
	zone_counters(t->m, t->scan->preferred)->nofragment_retries++;
	return true;
}

/* One turn: a frame, or NO_FRAME; *more: another turn follows. */
static uint32_t take_turn(struct turns *t, bool *more)
{
	frame_nr frame = t->compacts_first ? NO_FRAME : alloc_reclaiming(t);

	if (frame == NO_FRAME)
		frame = alloc_compacting(t);
	*more = false;
	if (frame != NO_FRAME)
		return frame;
	if (t->compacts_first) {
		*more = !gives_up_first(t);
		t->priority = next_priority(t);
		t->compacts_first = false;
	} else {
		*more = retries(t);
	}
	return NO_FRAME;
}

/*
 * Whether the caller of a request that may not mix asks again, with more patience. The record
 * served the request. Where it fails, its caller does not do without: an allocation of slab pages
 * with NORETRY is a first try for more pages than needed (allocate_slab, 6.18).
 */
static bool asks_again(struct turns *t)
{
	if (!t->noretry || is_costly(t->rq) || !(t->rq->flags & ALLOC_NOFRAGMENT))
		return false;
	t->noretry = false;
	t->priority = COMPACT_PRIO_SYNC_LIGHT;
	return true;
}

/*
 * A request that may not reclaim: under vm.defrag_mode it mixes at once if it may wake kswapd.
 */
static uint32_t alloc_mixing(struct model *m, struct request *rq, struct zonelist_scan *scan)
{
	if (!(rq->flags & ALLOC_NOFRAGMENT) || !(rq->gfp_flags & GFP_KSWAPD_RECLAIM))
		return NO_FRAME;
	rq->flags &= ~(uint32_t)ALLOC_NOFRAGMENT;
	zone_counters(m, scan->preferred)->nofragment_retries++;
	return scan_zones(m, rq, scan);
}

frame_nr slow_path_turns(struct model *m, struct request *rq, struct zonelist_scan *scan)
{
	const struct reclaim_ops *ops = m->reclaim_ops;
	struct turns t = {
		.m = m,
		.rq = rq,
		.scan = scan,
		.may_compact = m->kernel->compacts && rq->gfp_flags & GFP_IO,
		.noretry = rq->gfp_flags & GFP_NORETRY,
		.priority = COMPACT_PRIO_SYNC_LIGHT,
	};
	frame_nr frame = NO_FRAME;
	bool more = true;

	if (!(rq->gfp_flags & GFP_DIRECT_RECLAIM))
		return alloc_mixing(m, rq, scan);
	t.reclaimed_before = ops->take_tries(ops->self, rq->order);
	t.compacts_first = t.may_compact &&
			   (is_costly(rq) || (rq->order && rq->migratetype != MIGRATETYPE_MOVABLE));
	if (t.compacts_first)
		t.priority = COMPACT_PRIO_ASYNC;
	while (frame == NO_FRAME && more) {
		frame = take_turn(&t, &more);
		if (frame == NO_FRAME && !more)
			more = asks_again(&t);
		if (frame != NO_FRAME || !more)
			break;
		if (rq->gfp_flags & GFP_KSWAPD_RECLAIM)
			ops->wake_all(ops->self, scan->list, rq);
		frame = scan_zones(m, rq, scan);
	}
	return frame;
}
