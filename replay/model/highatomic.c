// SPDX-License-Identifier: Apache-2.0
#include "highatomic.h"

#include "buddy.h"

enum { HIGHATOMIC_SHARE = 100 }; /* the reserve is at most 1/100 of a zone */

/* The most pages a zone reserves. */
static uint64_t highatomic_limit(const struct model *m, const struct zone *zone)
{
	uint64_t block = 1ull << m->pageblock_order, share = zone->managed / HIGHATOMIC_SHARE;

	if (m->kernel->highatomic != HIGHATOMIC_PERCENT)
		return share + block;
	return share < block ? 0 : (share + block - 1) / block * block;
}

void reserve_highatomic(struct model *m, struct zone *zone, frame_nr frame, int order)
{
	uint64_t block = 1ull << m->pageblock_order;

	if (zone->nr_reserved_highatomic >= highatomic_limit(m, zone) ||
	    frame_block(m, frame)->migratetype > MIGRATETYPE_RECLAIMABLE)
		return;
	if (!m->kernel->highatomic_whole_chunk || order < m->pageblock_order)
		order = 0;
	else
		block = 1ull << order;
	if (m->kernel->highatomic_whole_chunk && !order && !block_inside(m, zone, frame))
		return;
	zone->nr_reserved_highatomic += block;
	set_block_type(m, frame, order, MIGRATETYPE_HIGHATOMIC);
	move_block(m, zone, frame, MIGRATETYPE_HIGHATOMIC);
}

/* Release the pageblock of a free chunk. Returns whether pages moved. */
static bool unreserve_chunk(struct model *m, struct zone *zone, frame_nr chunk, int migratetype)
{
	uint64_t block = 1ull << m->pageblock_order;
	int order = m->frames[chunk].order;

	if (!m->kernel->highatomic_whole_chunk || order < m->pageblock_order)
		order = 0;
	else
		block = 1ull << order;
	if (frame_block(m, chunk)->migratetype == MIGRATETYPE_HIGHATOMIC)
		zone->nr_reserved_highatomic -=
			zone->nr_reserved_highatomic < block ? zone->nr_reserved_highatomic : block;
	if (m->kernel->highatomic_whole_chunk && !order && !block_inside(m, zone, chunk))
		return false;
	set_block_type(m, chunk, order, migratetype);
	return move_block(m, zone, chunk, migratetype);
}

bool unreserve_highatomic(struct model *m, const struct zonelist *list, const struct request *rq,
			  bool force)
{
	uint64_t block = 1ull << m->pageblock_order;

	for (int i = 0; i < list->nr; i++) {
		struct zone *zone = list->zones[i];

		if (zone->type > rq->class_zone ||
		    (!force && zone->nr_reserved_highatomic <= block))
			continue;
		for (int order = 0; order <= m->max_order; order++) {
			frame_nr head = free_list(zone, order, MIGRATETYPE_HIGHATOMIC);

			if (zone->nr_free[order][MIGRATETYPE_HIGHATOMIC] &&
			    unreserve_chunk(m, zone, m->frames[head].next, rq->migratetype))
				return true;
		}
	}
	return false;
}
