// SPDX-License-Identifier: Apache-2.0
/* The migratetypes of pageblocks at the start, as far as events show them. */
#include "hindsight_run.h"

#include "model/force_state.h"

typedef int64_t areas[NR_PAGE_ORDERS][NR_MIGRATETYPE];

/* The free blocks that begin in a pageblock, by order. */
static bool count_block(const struct model *m, uint32_t start, int64_t nr[NR_PAGE_ORDERS])
{
	uint32_t end = start + (1u << m->pageblock_order);
	bool any = false;

	for (int order = 0; order < NR_PAGE_ORDERS; order++)
		nr[order] = 0;
	for (uint32_t f = start; f < end;) {
		const struct frame *frame = &m->frames[f];

		if (frame->state == FRAME_FREE) {
			nr[frame->order]++;
			any = true;
		}
		f += frame->state == FRAME_TAIL ? 1 : 1u << frame->order;
	}
	return any;
}

/* Pages of a pageblock's free blocks that the zone still misses on the lists of `type`. */
static int64_t fit(const areas *missing, const int64_t nr[NR_PAGE_ORDERS], int type)
{
	int64_t pages = 0;

	for (int order = 0; order < NR_PAGE_ORDERS; order++) {
		int64_t left = (*missing)[order][type];

		if (left > 0)
			pages += (left < nr[order] ? left : nr[order]) << order;
	}
	return pages;
}

static void take(areas *missing, const int64_t nr[NR_PAGE_ORDERS], int type)
{
	for (int order = 0; order < NR_PAGE_ORDERS; order++)
		(*missing)[order][type] -= nr[order];
}

static void guess_type(struct hindsight *h, uint32_t start, areas *missing,
		       const int64_t nr[NR_PAGE_ORDERS])
{
	struct start_block *block = &h->blocks[start >> h->m->pageblock_order];
	int best = block->migratetype;

	for (int type = 0; type < NR_MIGRATETYPE; type++)
		if (type != MIGRATETYPE_CMA && type != MIGRATETYPE_ISOLATE &&
		    fit(missing, nr, type) > fit(missing, nr, best))
			best = type;
	take(missing, nr, best);
	block->migratetype = (uint8_t)best;
	retype_block(h->m, start, best);
}

void guess_types(struct hindsight *h)
{
	struct model *m = h->m;
	uint32_t pages = 1u << m->pageblock_order;
	int64_t nr[NR_PAGE_ORDERS];

	if (!h->areas_by_type)
		return;
	for (uint32_t start = 0; start < m->nr_frames; start += pages)
		if (h->blocks[start >> m->pageblock_order].evidence && count_block(m, start, nr))
			take(&h->free_areas[frame_zone(m, start)->number], nr,
			     m->blocks[start >> m->pageblock_order].migratetype);
	for (uint32_t start = 0; start < m->nr_frames; start += pages) {
		const struct start_block *block = &h->blocks[start >> m->pageblock_order];

		if (!block->evidence && block->migratetype != MIGRATETYPE_CMA &&
		    count_block(m, start, nr))
			guess_type(h, start, &h->free_areas[frame_zone(m, start)->number], nr);
	}
}
