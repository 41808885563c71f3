// SPDX-License-Identifier: Apache-2.0
#include "compact_model.h"

#include "node.h"
#include "model/buddy.h"
#include "model/fragmentation.h"
#include "model/force_state.h"
#include "model/zone.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int compaction_new(struct compaction *c, struct model *m, struct reclaim_supply *supply,
		   struct error *err)
{
	*c = (struct compaction){
		.model = m,
		.supply = supply,
		.zones = calloc((size_t)m->nr_zones, sizeof(*c->zones)),
		.skipped = calloc(m->nr_frames >> m->pageblock_order, sizeof(*c->skipped)),
	};
	if (!c->zones || !c->skipped)
		return fail(err, ENOMEM, "no memory for the compaction of %d zones", m->nr_zones);
	return 0;
}

void compaction_free(struct compaction *c)
{
	free(c->zones);
	free(c->skipped);
}

/* Number of pages to move out of a pageblock, or -1 if some cannot move. */
static int pages_to_move(const struct compaction *c, const struct zone *zone, uint32_t start)
{
	const struct model *m = c->model;
	const struct pageblock *block = frame_block(m, start);
	int pages = 0;

	if (block->migratetype != MIGRATETYPE_MOVABLE || !block_inside(m, zone, start) ||
	    block->old_lru < block->nr_old)
		return -1;
	for (uint32_t frame = start; frame < start + (1u << m->pageblock_order);) {
		const struct frame *f = &m->frames[frame];

		if (f->state != FRAME_FREE &&
		    (f->order || reclaim_supply_pins(c->supply, frame) ||
		     (f->state != FRAME_USED_MOVABLE && f->state != FRAME_OLD)))
			return -1;
		pages += f->state != FRAME_FREE;
		frame += 1u << f->order;
	}
	return pages;
}

/* suitable_migration_target: pages do not move into UNMOVABLE or into free pageblocks. */
static bool is_target(const struct compaction *c, uint32_t start)
{
	const struct model *m = c->model;
	const struct frame *f = &m->frames[block_head(m, start)];

	return frame_block(m, start)->migratetype == MIGRATETYPE_MOVABLE &&
	       !(f->state == FRAME_FREE && f->order >= m->pageblock_order) &&
	       !(c->skipped[start >> m->pageblock_order] & SKIP_TARGET);
}

/* The highest free page of a pageblock below `from`, or NO_FRAME. */
static uint32_t free_page_of_block(const struct model *m, uint32_t start, uint32_t from)
{
	while (from-- > start) {
		uint32_t head = block_head(m, from);

		if (m->frames[head].state == FRAME_FREE)
			return from;
		from = head;
	}
	return NO_FRAME;
}

/*
 * The highest free page below `from`, in a pageblock above that of `start`, or NO_FRAME. A
 * pageblock without free pages is skipped from now on.
 */
static uint32_t free_page_below(struct compaction *c, uint32_t from, uint32_t start)
{
	const struct model *m = c->model;
	uint32_t block;

	for (; (block = block_start(m, from - 1)) > start; from = block) {
		uint32_t page;

		if (!is_target(c, block))
			continue;
		page = free_page_of_block(m, block, from);
		if (page != NO_FRAME)
			return page;
		c->skipped[block >> m->pageblock_order] |= SKIP_TARGET;
	}
	return NO_FRAME;
}

static void move_page(struct compaction *c, struct zone *zone, uint32_t from, uint32_t to,
		      uint32_t name)
{
	struct model *m = c->model;

	force_used(m, to, 0);
	zone_mark_live(m, to, 0, MIGRATETYPE_MOVABLE);
	if (name != NO_FRAME)
		page_map_set(c->supply->pages, name, 0, to + 1, true);
	reclaim_supply_moved(c->supply, from, to);
	if (m->frames[from].state == FRAME_OLD)
		zone_forget_old(m, from, 0);
	else
		zone_unmark_live(m, from, 0);
	buddy_free_direct(m, zone, from, 0, NULL);
	node_counters(m, zone->node)->compacted_pages++;
}

/* The rest of a run's budget. */
struct budget {
	int64_t pages;
	double share; /* share of the pages that fail */
	struct zone_compaction *zone;
};

/* Whether the move of the next page fails. */
static bool fails(struct budget *budget)
{
	budget->zone->failing += budget->share;
	if (budget->zone->failing < 1)
		return false;
	budget->zone->failing -= 1;
	return true;
}

/* Move the pages out of a pageblock, up to the budget. */
static void empty_block(struct compaction *c, struct zone *zone, uint32_t start,
			struct budget *budget)
{
	struct model *m = c->model;
	uint32_t *names = c->supply->pages->names, *below = &budget->zone->below;

	page_map_names(c->supply->pages, start, names);
	for (uint32_t from = start; from < start + (1u << m->pageblock_order); from++) {
		const struct frame *f = &m->frames[from];
		uint32_t to;

		if ((f->state != FRAME_USED_MOVABLE && f->state != FRAME_OLD) || fails(budget))
			continue;
		if (!budget->pages)
			return;
		to = free_page_below(c, *below, start);
		*below = to == NO_FRAME ? start : to;
		if (to == NO_FRAME)
			return;
		move_page(c, zone, from, to, names[from - start]);
		budget->pages--;
	}
}

static bool is_reached(const struct model *m, const struct zone *zone,
		       const struct compact_goal *goal)
{
	if (goal->order < 0)
		return proactive_score_zone(m, zone) <= goal->score;
	return compact_suits(m, zone, goal->order, zone->type) == COMPACT_SERVES;
}

/*
 * A run continues where the last one ended, or starts at the ends after both scanners met
 * (compact_cached_*_pfn).
 */
static void find_ends(struct zone_compaction *zc, const struct model *m, const struct zone *zone)
{
	if (zc->from < zc->below)
		return;
	zc->from = zone->start & ~((1u << m->pageblock_order) - 1);
	zc->below = zone->end;
}

/* __reset_isolation_suitable */
static void forget(struct compaction *c, const struct zone *zone)
{
	struct zone_compaction *zc = &c->zones[zone->number];
	int order = c->model->pageblock_order;
	uint32_t first = zone->start >> order, end = (zone->end - 1) >> order;

	memset(&c->skipped[first], 0, (end - first + 1) * sizeof(*c->skipped));
	zc->from = zc->below = 0;
	zc->flush = false;
}

void compaction_kswapd_naps(struct compaction *c, int node)
{
	const struct model *m = c->model;

	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node && c->zones[i].flush)
			forget(c, &m->zones[i]);
}

/* Whether the next pageblock has pages to move; if not, it is skipped from now on. */
static bool has_work(struct compaction *c, const struct zone *zone, const struct compact_goal *goal)
{
	uint32_t start = c->zones[zone->number].from;
	uint8_t *skipped = &c->skipped[start >> c->model->pageblock_order];

	if (start < zone->start || (*skipped & SKIP_SOURCE && !goal->thorough))
		return false;
	if (pages_to_move(c, zone, start) > 0)
		return true;
	*skipped |= SKIP_SOURCE;
	return false;
}

bool compact_model(struct compaction *c, struct zone *zone, const struct compact_goal *goal,
		   const struct service_row *row)
{
	struct model *m = c->model;
	struct zone_compaction *zc = &c->zones[zone->number];
	struct budget budget = {
		.pages = (int64_t)row->moved,
		.share = row->failed ? (double)row->failed / (double)(row->moved + row->failed) : 0,
		.zone = zc,
	};

	if (is_restarting(&zc->deferral, goal->order))
		forget(c, zone);
	find_ends(zc, m, zone);
	for (; zc->from < zc->below && budget.pages; zc->from += 1u << m->pageblock_order) {
		if (!has_work(c, zone, goal))
			continue;
		empty_block(c, zone, zc->from, &budget);
		if (is_reached(m, zone, goal))
			return true;
		if (!budget.pages)
			return false;
	}
	zc->flush |= goal->direct && zc->from >= zc->below;
	return false;
}
