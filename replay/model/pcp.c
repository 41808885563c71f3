// SPDX-License-Identifier: Apache-2.0
#include "pcp.h"

#include "buddy.h"
#include "fallback.h"
#include "flips.h"
#include "min_max.h"
#include "vmstat_diff.h"
#include "watermark.h"
#include "zone_lock.h"

/* Position of a migratetype among the lists of one order. */
static int type_rank(const struct model *m, int migratetype)
{
	if (migratetype > MIGRATETYPE_RECLAIMABLE)
		migratetype = MIGRATETYPE_MOVABLE;
	if (m->kernel->reclaimable_first && migratetype != MIGRATETYPE_UNMOVABLE)
		return MIGRATETYPE_MOVABLE + MIGRATETYPE_RECLAIMABLE - migratetype;
	return migratetype;
}

/* Whether pages of MIGRATE_RESERVE have a list of their own: the last one, of order 0. */
static bool reserve_listed(const struct model *m)
{
	return m->kernel->reserve_pcp >= RESERVE_PCP_OWN;
}

static int number_of_list(const struct model *m, int order, int migratetype)
{
	enum { THP_LISTS = 3 * (PCP_MAX_ORDER + 1) };

	if (m->kernel->pcp_lists <= PCP_LISTS_3 && order)
		return NO_PCP_LIST;
	if (migratetype == MIGRATETYPE_RESERVE && m->kernel->reserve_pcp != RESERVE_PCP_MOVABLE)
		return reserve_listed(m) && !order ? m->nr_pcp_lists - 1 : NO_PCP_LIST;
	if (m->kernel->pcp_lists == PCP_LISTS_1)
		return 0;
	if (order <= PCP_MAX_ORDER)
		return 3 * order + type_rank(m, migratetype);
	if (order != m->pageblock_order)
		return NO_PCP_LIST;
	switch ((enum kernel_pcp_lists)m->kernel->pcp_lists) {
	case PCP_LISTS_1:
	case PCP_LISTS_3:
		return NO_PCP_LIST;
	case PCP_LISTS_15:
		return THP_LISTS + type_rank(m, migratetype);
	case PCP_LISTS_13:
		return THP_LISTS;
	case PCP_LISTS_14:
		return THP_LISTS + (type_rank(m, migratetype) == MIGRATETYPE_MOVABLE);
	}
	return NO_PCP_LIST;
}

void pcp_number_lists(struct model *m)
{
	for (int order = 0; order < NR_PAGE_ORDERS; order++)
		for (int type = 0; type < NR_MIGRATETYPE; type++)
			m->pcp_lists[order][type] = (uint8_t)number_of_list(m, order, type);
}

void pcp_list_of(const struct model *m, int list, int *order, int *migratetype)
{
	for (*order = 0; *order <= m->max_order; ++*order)
		for (*migratetype = 0; *migratetype <= MIGRATETYPE_RECLAIMABLE; ++*migratetype)
			if (m->pcp_lists[*order][*migratetype] == list)
				return;
	*order = 0;
	*migratetype = MIGRATETYPE_RESERVE;
}

/* Make a block an entry of a PCP and count its pages. */
static inline void make_entry(struct model *m, struct pcp *pcp, frame_nr head, int order,
			      int recorded)
{
	struct frame *f = &m->frames[head];

	f->list = pcp->number;
	f->order = (uint8_t)order;
	f->state = FRAME_PCP;
	f->pcp_migratetype = (uint8_t)recorded & 15;
	pcp->count += 1 << order;
}

void pcp_push_head(struct model *m, struct pcp *pcp, frame_nr head, int order, int list_type,
		   int recorded)
{
	make_entry(m, pcp, head, order, recorded);
	list_add_head(m->frames, pcp_list(m, pcp, order, list_type), head);
}

void pcp_push_tail(struct model *m, struct pcp *pcp, frame_nr head, int order, int list_type,
		   int recorded)
{
	make_entry(m, pcp, head, order, recorded);
	list_add_tail(m->frames, pcp_list(m, pcp, order, list_type), head);
}

void pcp_remove(struct model *m, struct pcp *pcp, frame_nr head)
{
	list_del(m->frames, head);
	pcp->count -= 1 << m->frames[head].order;
}

/* Whether a request takes the tail of a list: cold pages, where the row has them. */
static bool wants_cold(const struct model *m, const struct request *rq)
{
	return m->kernel->cold_pages && rq->gfp_flags & GFP_COLD;
}

/* 2.6.31: the pages of a refill go before the older pages of the mixed list (cold: after). */
static void place_mixed(struct model *m, frame_nr frame, uint32_t last, bool cold)
{
	struct frame *f = m->frames;

	list_del(f, frame);
	if (cold)
		list_add(f, frame, f[last].prev, last);
	else
		list_add(f, frame, last, f[last].next);
}

void pcp_add_refilled(struct model *m, struct pcp *pcp, const struct request *rq, frame_nr frame,
		      uint32_t last)
{
	bool cold = wants_cold(m, rq);
	/* A page off a free list still has the migratetype of that list. */
	int recorded = m->frames[frame].list;

	if (m->kernel->refill_as_asked || recorded == MIGRATETYPE_RESERVE)
		recorded = rq->migratetype;
	if (cold)
		pcp_push_head(m, pcp, frame, rq->order, rq->migratetype, recorded);
	else
		pcp_push_tail(m, pcp, frame, rq->order, rq->migratetype, recorded);
	if (m->kernel->pcp_lists == PCP_LISTS_1)
		place_mixed(m, frame, last == NO_FRAME ? pcp->heads : last, cold);
}

/*
 * Another size for a refill of `want` pages, where the row adapts it and it may be larger as well
 * as smaller: a step of alloc_factor. The mean stays `want`.
 */
static int flip_refill(const struct model *m, const struct pcp *pcp, int order, int want)
{
	int less = max_int(want / 2, pcp->batch), most = pcp->batch << m->kernel->pcp_scale_max;
	int more = min_int(2 * want, min_int(most, pcp->high - pcp->count - pcp->batch));
	uint64_t random;

	if (m->kernel->pcp_tuning != PCP_AUTO || order || pcp->high < pcp->batch)
		return want;
	random = flip_draw(m, FLIP_REFILL_SIZE);
	if (!random || less >= want || more <= want)
		return want;
	m->flips->drawn[FLIP_REFILL_SIZE]++;
	return (int)((random >> 32) * (uint32_t)(more - less) >> 32) < more - want ? less : more;
}

/*
 * The entries of a refill that the record had with `refill` entries. In its zone one refill takes
 * at most what the PCP may grow to: the record shows several as one if no other CPU took the zone's
 * lock between them. In another zone, such as a small one, it takes `want`, which is for that zone.
 */
static int recorded_refill(const struct model *m, const struct zone *zone, const struct pcp *pcp,
			   const struct request *rq, int want)
{
	if (zone->number == rq->refill_zone)
		want = pcp_refill_most(m, pcp, rq->order);
	return rq->refill < (uint32_t)want ? (int)rq->refill : want;
}

/* rmqueue_bulk: the first page off the free lists is handed out first. */
void pcp_refill(struct model *m, struct zone *zone, struct pcp *pcp, const struct request *rq)
{
	int want = pcp_refill_size(m, zone, pcp, rq->order), before = pcp->count;
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	uint32_t last = NO_FRAME;
	int i;

	if (rq->refill)
		want = recorded_refill(m, zone, pcp, rq, want);
	else if (m->flips)
		want = flip_refill(m, pcp, rq->order, want);
	for (i = 0; i < want; i++) {
		frame_nr frame = rmqueue_core(m, zone, rq, &mode);

		if (frame == NO_FRAME)
			break;
		vmstat_diff_taken(m, zone, frame_block(m, frame)->migratetype, rq->order);
		pcp_add_refilled(m, pcp, rq, frame, last);
		last = frame;
	}
	vmstat_diff_refill(m, zone, i, rq->order);
	pcp->counters.refills++;
	pcp->counters.lock_holds++;
	pcp->counters.refill_pages += (uint32_t)(pcp->count - before);
	zone_lock_held(m, zone, ZONE_LOCK_KIND_REFILL, (uint64_t)i);
}

frame_nr pcp_first(const struct model *m, const struct pcp *pcp, const struct request *rq)
{
	const struct frame *f = m->frames;
	list_nr list = pcp_list(m, pcp, rq->order, rq->migratetype);
	bool cold = wants_cold(m, rq);
	frame_nr entry = cold ? f[list].prev : f[list].next;

	/* 2.6.31: of the one list, the first of the right type. */
	if (m->kernel->pcp_lists == PCP_LISTS_1)
		while (entry != list && f[entry].pcp_migratetype != rq->migratetype)
			entry = cold ? f[entry].prev : f[entry].next;
	return entry == list ? NO_FRAME : entry;
}

/* The entry for a request after its refill; NO_FRAME if the refill found nothing. */
static uint32_t first_refilled(const struct model *m, const struct pcp *pcp,
			       const struct request *rq, bool was_empty)
{
	list_nr list = pcp_list(m, pcp, rq->order, rq->migratetype);
	/* 2.6.31 takes the head if the PCP had other pages before. */
	bool tail = wants_cold(m, rq) && (was_empty || m->kernel->pcp_lists != PCP_LISTS_1);
	frame_nr entry = tail ? m->frames[list].prev : m->frames[list].next;

	return entry == list ? NO_FRAME : entry;
}

/* The last resort: an entry of the RESERVE list, where the row allows it. */
static uint32_t first_reserved(const struct model *m, const struct pcp *pcp,
			       const struct request *rq)
{
	list_nr list = pcp->heads + (uint32_t)m->nr_pcp_lists - 1;
	frame_nr entry = wants_cold(m, rq) ? m->frames[list].prev : m->frames[list].next;
	bool allowed =
		m->kernel->reserve_pcp == RESERVE_PCP_OWN || rq->migratetype == MIGRATETYPE_MOVABLE;

	if (!reserve_listed(m) || !allowed || rq->order || rq->flags & ALLOC_NOFRAGMENT)
		return NO_FRAME;
	return entry == list ? NO_FRAME : entry;
}

frame_nr pcp_alloc(struct model *m, struct zone *zone, const struct request *rq)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	frame_nr frame = pcp_first(m, pcp, rq);

	pcp->touched = true;
	pcp->free_factor >>= 1;
	pcp->free_count >>= 1;
	if (frame != NO_FRAME) {
		pcp->counters.pcp_hits++;
	} else {
		bool was_empty = !pcp->count;

		if (!pcp_refills(m, rq)) {
			pcp_refill_size(m, zone, pcp, rq->order);
			return NO_FRAME;
		}
		pcp_refill(m, zone, pcp, rq);
		frame = first_refilled(m, pcp, rq, was_empty);
		if (frame == NO_FRAME)
			frame = first_reserved(m, pcp, rq);
		if (frame == NO_FRAME)
			return NO_FRAME;
	}
	pcp_remove(m, pcp, frame);
	m->frames[frame].state = FRAME_USED;
	return frame;
}

void pcp_committed(const struct model *m, struct zone *zone)
{
	static const struct request any = {.class_zone = ZONE_MOVABLE};

	if (zone->below_high && watermark_ok(m, zone, &any, zone_mark(zone, WMARK_HIGH)))
		zone->below_high = false;
}
