// SPDX-License-Identifier: Apache-2.0
#include "model_check.h"

#include "buddy.h"

/* The pages of a zone's blocks, by state. */
struct block_pages {
	uint64_t free, pcp;
};

static const char *check_free_block(const struct model *m, frame_nr head)
{
	const struct frame *f = m->frames;
	frame_nr buddy = head ^ (1u << f[head].order);
	int type = frame_block(m, head)->migratetype;

	if (f[head].order < m->pageblock_order && f[buddy].state == FRAME_FREE &&
	    f[buddy].order == f[head].order)
		return "merged: two free buddies did not merge";
	if (m->kernel->drained_type == DRAINED_BLOCK && f[head].list != type &&
	    !(m->kernel->reserve_leaks && type == MIGRATETYPE_RESERVE))
		return "free_type: a free block is on a list of another migratetype";
	return NULL;
}

static const char *check_blocks(const struct model *m, const struct zone *zone,
				struct block_pages *sum)
{
	const struct frame *f = m->frames;

	for (frame_nr head = zone->base; head < zone->end;) {
		uint32_t pages = 1u << f[head].order;
		const char *wrong = NULL;

		if (f[head].state == FRAME_TAIL)
			return "tiles: a block begins with a tail";
		if (f[head].order > m->max_order || head & (pages - 1))
			return "tiles: a block is too large or not aligned";
		for (uint32_t i = 1; i < pages; i++)
			if (f[head + i].state != FRAME_TAIL)
				return "tiles: two blocks overlap";
		if (f[head].state == FRAME_OLD && pages != 1)
			return "old_order: an old page has an order";
		if (f[head].state == FRAME_PCP)
			sum->pcp += pages;
		if (f[head].state == FRAME_FREE) {
			sum->free += pages;
			wrong = check_free_block(m, head);
		}
		if (wrong)
			return wrong;
		head += pages;
	}
	return NULL;
}

static const char *check_free_list(const struct model *m, const struct zone *zone, int order,
				   int type)
{
	list_nr list = free_list(zone, order, type), nr = 0;

	for (uint32_t i = m->frames[list].next; i != list; i = m->frames[i].next) {
		const struct frame *f = &m->frames[i];

		if (f->state != FRAME_FREE || f->order != order || f->list != type ||
		    m->frames[f->next].prev != i)
			return "free_list: a free list holds a foreign block";
		if (++nr > zone->nr_free[order][type])
			return "nr_free: is less than the blocks of the list";
	}
	return nr == zone->nr_free[order][type] ? NULL
						: "nr_free: is more than the blocks of the list";
}

static const char *check_free(const struct model *m, const struct zone *zone, uint64_t free)
{
	uint64_t pages = 0, cma = 0, highatomic = 0;

	for (int order = 0; order < NR_PAGE_ORDERS; order++) {
		for (int type = 0; type < NR_MIGRATETYPE; type++) {
			const char *wrong = check_free_list(m, zone, order, type);

			if (wrong)
				return wrong;
			pages += (uint64_t)zone->nr_free[order][type] << order;
		}
		cma += (uint64_t)zone->nr_free[order][MIGRATETYPE_CMA] << order;
		highatomic += (uint64_t)zone->nr_free[order][MIGRATETYPE_HIGHATOMIC] << order;
	}
	if (pages != zone->nr_free_pages)
		return "nr_free_pages: is not the sum of nr_free";
	if (pages != free)
		return "nr_free_pages: a free block is on no list";
	if (cma != zone->nr_free_cma)
		return "nr_free_cma: is not the sum of nr_free";
	if (highatomic != zone->nr_free_highatomic)
		return "nr_free_highatomic: is not the sum of nr_free";
	return NULL;
}

static const char *check_pcp(const struct model *m, const struct zone *zone, const struct pcp *pcp)
{
	int64_t pages = 0;

	for (int list = 0; list < m->nr_pcp_lists; list++) {
		frame_nr head = pcp->heads + (uint32_t)list;

		for (uint32_t i = m->frames[head].next; i != head; i = m->frames[i].next) {
			const struct frame *f = &m->frames[i];

			if (f->state != FRAME_PCP || f->list != pcp->number ||
			    frame_zone(m, i) != zone || m->frames[f->next].prev != i)
				return "pcp_list: a PCP list holds a foreign block";
			pages += 1 << f->order;
		}
	}
	return pages == pcp->count ? NULL : "pcp_count: is not the pages of the lists";
}

static const char *check_pcps(const struct model *m, const struct zone *zone, uint64_t pages)
{
	uint64_t on_lists = 0;
	int64_t diff = 0, cma_diff = 0;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		const struct pcp *pcp = zone_pcp(m, zone, cpu);
		const char *wrong = check_pcp(m, zone, pcp);

		if (wrong)
			return wrong;
		on_lists += (uint64_t)pcp->count;
		diff += pcp->vmstat_diff;
		cma_diff += pcp->cma_diff;
	}
	if (on_lists != pages)
		return "pcp_count: a PCP block is on no list";
	if (cma_diff != zone->cma_diff)
		return "cma_diff: is not the sum of the PCPs'";
	return diff == zone->vmstat_diff ? NULL : "vmstat_diff: is not the sum of the PCPs'";
}

static const char *check_pageblock(const struct model *m, uint32_t start)
{
	const struct pageblock *block = frame_block(m, start);
	uint32_t old = 0, live[MIGRATETYPE_RECLAIMABLE + 1] = {0};

	for (frame_nr frame = start; frame < start + (1u << m->pageblock_order); frame++) {
		enum frame_state state = m->frames[block_head(m, frame)].state;

		old += state == FRAME_OLD;
		if (frame_is_live(state))
			live[state - FRAME_USED_UNMOVABLE]++;
	}
	if (old != block->nr_old)
		return "nr_old: is not the old pages of the pageblock";
	if (block->old_lru > old)
		return "old_lru: is more than nr_old";
	for (int type = 0; type <= MIGRATETYPE_RECLAIMABLE; type++)
		if (live[type] != block->nr_live[type])
			return "nr_live: is not the pages of the pageblock";
	return NULL;
}

static const char *check_pageblocks(const struct model *m, const struct zone *zone)
{
	const char *wrong = NULL;

	for (uint32_t start = zone->base; start < zone->end && !wrong;
	     start += 1u << m->pageblock_order)
		wrong = check_pageblock(m, start);
	return wrong;
}

const char *model_check(const struct model *m)
{
	const char *wrong = NULL;

	for (int i = 0; i < m->nr_zones && !wrong; i++) {
		const struct zone *zone = &m->zones[i];
		struct block_pages sum = {0};

		wrong = check_blocks(m, zone, &sum);
		if (!wrong)
			wrong = check_free(m, zone, sum.free);
		if (!wrong)
			wrong = check_pcps(m, zone, sum.pcp);
		if (!wrong)
			wrong = check_pageblocks(m, zone);
	}
	return wrong;
}
