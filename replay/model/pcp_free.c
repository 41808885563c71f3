// SPDX-License-Identifier: Apache-2.0
/* A free onto the running CPU's lists, and the pages that overflow. */
#include "pcp.h"

#include "flips.h"
#include "min_max.h"
#include "zone_lock.h"

/*
 * Whether a free of orders 1 to 3 empties the list, as one of a run of such frees: the rules
 * of 5.18 to 7.3, and of the patches between 6.6 and 6.7. Notes the order of the free.
 */
static bool run_drains(const struct model *m, struct pcp *pcp, int order)
{
	bool high_order = order >= 1 && order <= PCP_MAX_ORDER;
	bool again = high_order && pcp->flags & PCP_PREV_FREE_HIGH_ORDER;
	bool is_long = !(pcp->flags & PCP_FREE_HIGH_BATCH) || pcp->count >= pcp->batch;

	if (high_order)
		pcp->flags |= PCP_PREV_FREE_HIGH_ORDER;
	else
		pcp->flags &= (uint8_t)~PCP_PREV_FREE_HIGH_ORDER;
	switch ((enum kernel_free_high)m->kernel->free_high) {
	case FREE_HIGH_NONE:
		break;
	case FREE_HIGH_FACTOR:
		return high_order && pcp->free_factor;
	case FREE_HIGH_TWICE:
		return again && pcp->free_factor;
	case FREE_HIGH_LONG_LIST:
		return again && pcp->free_factor && is_long;
	case FREE_HIGH_BATCH:
		return again && pcp->free_count >= pcp->batch && is_long;
	case FREE_HIGH_HALF_MIN:
		return again && pcp->free_count >= pcp->batch + pcp->high_min / 2 && is_long;
	}
	return false;
}

/* nr_pcp_free, 5.14 to 6.6: the pages of an overflow double while nothing is allocated. */
static int double_overflow(const struct model *m, struct pcp *pcp, int high)
{
	int limit = m->kernel->free_factor_max;
	int drain = pcp->free_factor < 31 && pcp->batch <= INT32_MAX >> pcp->free_factor
			    ? pcp->batch << pcp->free_factor
			    : INT32_MAX;

	if (high < pcp->batch)
		return 1;
	if (drain < high - pcp->batch && (!limit || pcp->free_factor < limit))
		pcp->free_factor++;
	return clamp_int(drain, pcp->batch, high - pcp->batch);
}

/*
 * 5.14 to 6.6: free_unref_page_commit with nr_pcp_high. The patch before the one that scales
 * refills also limits what a run drains.
 */
static int overflow_free_factor(const struct model *m, const struct zone *zone, struct pcp *pcp,
				int order)
{
	int high = zone->reclaim_active ? min_int(4 * pcp->batch, pcp->high) : pcp->high;

	if (run_drains(m, pcp, order))
		return m->kernel->refill_scaling == REFILL_PLAIN
			       ? pcp->count
			       : min_int(pcp->count, pcp->batch << m->kernel->pcp_scale_max);
	return pcp->count < high ? 0 : double_overflow(m, pcp, high);
}

/*
 * nr_pcp_high, 6.8 to 6.18: the count at which this free drains; adapts pcp->high. `freed`: pages
 * freed in a row.
 */
static int high_auto(const struct model *m, const struct zone *zone, struct pcp *pcp, int freed,
		     bool free_high)
{
	int high = pcp->high = clamp_int(pcp->high, pcp->high_min, pcp->high_max);
	int shrunk = max_int(high - max_int(freed, pcp->batch), pcp->high_min);

	if (!high)
		return 0;
	if (free_high) {
		pcp->high = max_int(high - (pcp->batch << m->kernel->pcp_scale_max), pcp->high_min);
		return 0;
	}
	if (zone->reclaim_active) {
		pcp->high = shrunk;
		return min_int(4 * pcp->batch, pcp->high);
	}
	if (pcp->high_min == pcp->high_max)
		return high;
	if (zone->below_high) {
		pcp->high = shrunk;
		return max_int(pcp->count, pcp->high_min);
	}
	if (pcp->count >= high && pcp->high < freed + pcp->batch)
		pcp->high = clamp_int(freed + pcp->batch, pcp->high_min, pcp->high_max);
	return high;
}

/* 6.8 to 6.18: free_unref_page_commit with nr_pcp_free. Before free_count there was free_factor. */
static int overflow_auto(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	bool counts = m->kernel->free_count, free_high = run_drains(m, pcp, order);
	int freed, high;

	if (counts && pcp->free_count < pcp->batch << m->kernel->pcp_scale_max)
		pcp->free_count += 1 << order;
	freed = counts ? pcp->free_count : pcp->batch << pcp->free_factor;
	high = high_auto(m, zone, pcp, freed, free_high);
	if (pcp->count < high)
		return 0;
	if (free_high)
		return min_int(pcp->count, pcp->batch << m->kernel->pcp_scale_max);
	if (!counts)
		return double_overflow(m, pcp, high);
	if (high < pcp->batch)
		return 1;
	return clamp_int(freed, pcp->batch, high - pcp->batch);
}

/* pcp_overflow(), inline in pcp_free(): every free of a free run passes here. */
static inline __attribute__((always_inline)) int
overflow(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	switch ((enum kernel_pcp_tuning)m->kernel->pcp_tuning) {
	case PCP_FIXED:
		break;
	case PCP_FREE_FACTOR:
		return overflow_free_factor(m, zone, pcp, order);
	case PCP_AUTO:
		return overflow_auto(m, zone, pcp, order);
	}
	return pcp->count >= pcp->high ? pcp->batch : 0;
}

int pcp_overflow(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	return overflow(m, zone, pcp, order);
}

/*
 * nr_pcp_free clamps to high less a batch; since 6.8 free_count ends at batch << scale_max. The
 * drain of a whole PCP by a free of higher order (5.19 to 6.6) may be larger.
 */
int pcp_overflow_most(const struct model *m, const struct pcp *pcp)
{
	switch ((enum kernel_pcp_tuning)m->kernel->pcp_tuning) {
	case PCP_FIXED:
		break;
	case PCP_FREE_FACTOR:
		return max_int(pcp->high - pcp->batch, pcp->batch);
	case PCP_AUTO:
		return clamp_int(pcp->batch << m->kernel->pcp_scale_max, pcp->batch,
				 max_int(pcp->high_max - pcp->batch, pcp->batch));
	}
	return pcp->batch;
}

bool pcp_takes(const struct model *m, frame_nr head, int order)
{
	int migratetype = frame_block(m, head)->migratetype;

	return m->pcp_lists[order][migratetype] != NO_PCP_LIST &&
	       migratetype != MIGRATETYPE_ISOLATE;
}

/* pcp_commit(), for the same reason. */
static inline __attribute__((always_inline)) int commit(struct model *m, struct zone *zone,
							frame_nr head, int order, int *list)
{
	int migratetype = frame_block(m, head)->migratetype;
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);

	pcp->alloc_factor >>= 1;
	pcp_push_head(m, pcp, head, order, migratetype, migratetype);
	*list = m->pcp_lists[order][migratetype];
	return overflow(m, zone, pcp, order);
}

int pcp_commit(struct model *m, struct zone *zone, frame_nr head, int order, int *list)
{
	return commit(m, zone, head, order, list);
}

/* One page more or less for the drain of an overflow, where the row adapts it and both may be. */
static int flip_drain(const struct model *m, const struct pcp *pcp, int pages)
{
	bool less = pages > 1, more = pages < pcp->count;
	uint64_t random;

	if (m->kernel->pcp_tuning == PCP_FIXED)
		return pages;
	random = flip_draw(m, FLIP_DRAIN_SIZE);
	if (!random || !less || !more)
		return pages;
	m->flips->drawn[FLIP_DRAIN_SIZE]++;
	return random >> 63 ? pages - 1 : pages + 1;
}

void pcp_free(struct model *m, struct zone *zone, frame_nr head, int order,
	      const struct free_request *how)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	int pages, piece, list;

	if (how->drained) {
		pcp_drain_recorded(m, zone, head, order, how->drains_on);
		return;
	}
	pcp->touched = true;
	if (how->pcp_locked || !pcp_takes(m, head, order)) {
		pcp->counters.buddy_frees++;
		pcp->counters.lock_holds++;
		pcp->counters.reserve_past_pcp +=
			m->kernel->reserve_pcp != RESERVE_PCP_MOVABLE && pcp_allowed(m, order) &&
			frame_block(m, head)->migratetype == MIGRATETYPE_RESERVE;
		buddy_free_direct(m, zone, head, order, NULL);
		zone_lock_held(m, zone, ZONE_LOCK_KIND_FREE, 1);
		return;
	}
	pages = commit(m, zone, head, order, &list);
	if (pages && m->flips)
		pages = flip_drain(m, pcp, pages);
	piece = pcp_overflow_piece(m, pcp, pages);
	/* The recorded number includes the rests of entries that ended its pieces. */
	if (how->drain_pages >= 0)
		pages = piece = how->drain_pages;
	/* An earlier drain may still wait. */
	if (!pages)
		return;
	pcp->put_off = pages;
	pcp->put_off_piece = piece;
	pcp->put_off_list = (uint8_t)list;
	if (!how->drain_waits)
		pcp_drain_put_off(m, zone, pcp);
}
