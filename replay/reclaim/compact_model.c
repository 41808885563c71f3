// SPDX-License-Identifier: Apache-2.0
#include "compact_model.h"

#include "node.h"
#include "model/buddy.h"
#include "model/fragmentation.h"
#include "model/force_state.h"
#include "model/memory.h"
#include "model/zone.h"

#include <string.h>

void compaction_new(struct compaction *c, struct model *m, struct reclaim_supply *supply)
{
	*c = (struct compaction){
		.model = m,
		.supply = supply,
		.zones = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*c->zones)),
		.skipped = arrays_new(m->arrays, m->nr_frames >> m->pageblock_order,
				      sizeof(*c->skipped)),
	};
}

/*
 * suitable_migration_source: kcompactd and synchronous runs take pages out of any pageblock. An
 * asynchronous run for an allocation takes only those of its migratetype. MOVABLE requests and,
 * since 7.2, those of a whole pageblock count as MOVABLE. Since 7.2 only MOVABLE requests take
 * pages out of CMA pageblocks.
 */
static bool is_source(const struct model *m, uint32_t start, const struct compact_goal *goal)
{
	int type = frame_block(m, start)->migratetype, wanted = goal->migratetype;

	if (m->kernel->compact_cma_right && goal->direct && type == MIGRATETYPE_CMA &&
	    goal->migratetype != MIGRATETYPE_MOVABLE)
		return false;
	if (!goal->direct || goal->sync)
		return type != MIGRATETYPE_ISOLATE;
	if (m->kernel->compact_turn && goal->order >= m->pageblock_order)
		wanted = MIGRATETYPE_MOVABLE;
	return type == wanted || (wanted == MIGRATETYPE_MOVABLE && type == MIGRATETYPE_CMA);
}

/*
 * Whether a used block can move: a page, or a block below the order of the run. Which of the old
 * pages of a pageblock can move is known only if all can.
 */
static bool can_move(const struct compaction *c, frame_nr head, const struct compact_goal *goal)
{
	const struct model *m = c->model;
	const struct frame *f = &m->frames[head];
	int most = goal->order < 0 ? m->pageblock_order : goal->order;

	if (reclaim_supply_pins(c->supply, head))
		return false;
	if (f->state == FRAME_OLD)
		return frame_block(m, head)->old_lru >= frame_block(m, head)->nr_old;
	return f->state == FRAME_USED_MOVABLE &&
	       (!f->order || (m->kernel->compact_folios && f->order < most));
}

/*
 * Number of pages that can move out of an aligned part of a pageblock. An asynchronous run for an
 * allocation gives up a part of its order that has a page which cannot
 * (isolate_migratepages_block).
 */
static int movable_pages(const struct compaction *c, uint32_t from, uint32_t end,
			 const struct compact_goal *goal)
{
	const struct model *m = c->model;
	int pages = 0;

	for (frame_nr frame = from; frame < end; frame += 1u << m->frames[frame].order) {
		if (m->frames[frame].state == FRAME_FREE)
			continue;
		if (can_move(c, frame, goal))
			pages += 1 << m->frames[frame].order;
		else if (goal->direct && !goal->sync)
			return 0;
	}
	return pages;
}

/* Pages of a part of a pageblock that a run takes or leaves as a whole. */
static uint32_t part_pages(const struct model *m, const struct compact_goal *goal)
{
	if (goal->order < 0 || goal->order >= m->pageblock_order)
		return 1u << m->pageblock_order;
	return 1u << goal->order;
}

/* Number of pages that can move out of a pageblock. */
static int pages_to_move(const struct compaction *c, const struct zone *zone, uint32_t start,
			 const struct compact_goal *goal)
{
	const struct model *m = c->model;
	uint32_t end = start + (1u << m->pageblock_order), part = part_pages(m, goal);
	int pages = 0;

	if (!is_source(m, start, goal) || !block_inside(m, zone, start))
		return 0;
	for (uint32_t from = start; from < end; from += part)
		pages += movable_pages(c, from, from + part, goal);
	return pages;
}

/*
 * suitable_migration_target: pages move into MOVABLE and CMA pageblocks, those of a thorough run
 * for an allocation into any. A pageblock does not count if it is free, or since 6.9 if it begins
 * with a free block of the run's order.
 */
static bool is_target(const struct compaction *c, uint32_t start, const struct compact_goal *goal)
{
	const struct model *m = c->model;
	const struct frame *f = &m->frames[block_head(m, start)];
	bool by_order = m->kernel->compact_folios && goal->order > 0;
	int type = frame_block(m, start)->migratetype;

	if (f->state == FRAME_FREE && f->order >= (by_order ? goal->order : m->pageblock_order))
		return false;
	return ((goal->thorough && goal->direct) || type == MIGRATETYPE_MOVABLE ||
		type == MIGRATETYPE_CMA) &&
	       !(c->skipped[start >> m->pageblock_order] & SKIP_TARGET);
}

/* The highest free part of 2^order pages of a pageblock below `from`, or NO_FRAME. */
static uint32_t free_part_of_block(const struct model *m, uint32_t start, uint32_t from, int order)
{
	while (from > start) {
		frame_nr head = block_head(m, from - 1), to = from & ~((1u << order) - 1);

		if (m->frames[head].state == FRAME_FREE && to >= head + (1u << order))
			return to - (1u << order);
		from = head;
	}
	return NO_FRAME;
}

/*
 * The highest free part of 2^order pages below `from`, in a pageblock above that of `start`, or
 * NO_FRAME. A pageblock without free pages is skipped from now on.
 */
static uint32_t free_part_below(struct compaction *c, uint32_t from, uint32_t start, int order,
				const struct compact_goal *goal)
{
	const struct model *m = c->model;
	uint32_t block;

	for (; (block = block_start(m, from - 1)) > start; from = block) {
		uint32_t part;

		if (!is_target(c, block, goal))
			continue;
		part = free_part_of_block(m, block, from, order);
		if (part != NO_FRAME)
			return part;
		if (!order)
			c->skipped[block >> m->pageblock_order] |= SKIP_TARGET;
	}
	return NO_FRAME;
}

/* `names`: recorded frames of the block's pages. */
static void move_block_to(struct compaction *c, struct zone *zone, uint32_t from, uint32_t to,
			  const uint32_t *names)
{
	struct page_map *pages = c->supply->pages;
	struct model *m = c->model;
	int order = m->frames[from].order;

	force_used(m, to, order);
	zone_mark_live(m, to, order, MIGRATETYPE_MOVABLE);
	for (uint32_t i = 0; i < 1u << order; i++)
		if (names[i] != NO_FRAME)
			page_map_set(pages, names[i], 0, to + i + 1, true);
	if (pages->move_batch)
		pages->move_batch(pages->self, from, to);
	for (uint32_t i = 0; i < 1u << order; i++)
		reclaim_supply_moved(c->supply, from + i, to + i);
	if (m->frames[from].state == FRAME_OLD)
		zone_forget_old(m, from, 0);
	else
		zone_unmark_live(m, from, order);
	buddy_free_direct(m, zone, from, order, NULL);
	node_counters(m, zone->node)->compacted_pages += 1ull << order;
}

/* The goal of a run, and the rest of its budget. */
struct budget {
	const struct compact_goal *goal;
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

/* Whether the pages of a block in the model are one block of the record: names in a row. */
static bool is_named_whole(const uint32_t *names, int order)
{
	for (uint32_t i = 1; i < 1u << order; i++)
		if (names[i] != (names[0] == NO_FRAME ? NO_FRAME : names[0] + i))
			return false;
	return true;
}

/* Move one used block; false if no part of the zone's end is free for it. */
static bool move_one(struct compaction *c, struct zone *zone, uint32_t from, uint32_t start,
		     struct budget *budget)
{
	int order = c->model->frames[from].order;
	uint32_t *below = order ? &budget->zone->below_folios : &budget->zone->below, to;

	to = free_part_below(c, *below, start, order, budget->goal);
	*below = to == NO_FRAME ? start : to;
	if (to == NO_FRAME)
		return false;
	move_block_to(c, zone, from, to, c->supply->pages->names + (from - start));
	budget->pages -= 1ll << order;
	return true;
}

/* Move the pages out of a part of a pageblock, up to the budget; false if there is no target. */
static bool empty_part(struct compaction *c, struct zone *zone, uint32_t start, uint32_t from,
		       uint32_t end, struct budget *budget)
{
	struct model *m = c->model;
	const uint32_t *names = c->supply->pages->names;
	uint32_t next;

	for (; from < end && budget->pages > 0; from = next) {
		const struct frame *f = &m->frames[from];

		next = from + (1u << f->order);
		if (f->state == FRAME_FREE || !can_move(c, from, budget->goal) ||
		    !(is_named_whole(names + (from - start), f->order) ||
		      page_map_is_shared(c->supply->pages, from)) ||
		    fails(budget))
			continue;
		if (!move_one(c, zone, from, start, budget) && next == from + 1)
			return false;
	}
	return true;
}

/* Move the pages out of a pageblock, up to the budget. */
static void empty_block(struct compaction *c, struct zone *zone, uint32_t start,
			struct budget *budget)
{
	uint32_t end = start + (1u << c->model->pageblock_order);
	uint32_t part = part_pages(c->model, budget->goal);

	page_map_names(c->supply->pages, start, c->supply->pages->names);
	for (uint32_t from = start; from < end; from += part)
		if (movable_pages(c, from, from + part, budget->goal) &&
		    !empty_part(c, zone, start, from, from + part, budget))
			return;
}

/*
 * __compact_finished, 6.12: a free block of the order that the migratetype owns, or may claim as a
 * fallback. Under vm.defrag_mode kcompactd goes on to the high watermark in whole pageblocks (7.2).
 */
static bool has_block(const struct model *m, const struct zone *zone,
		      const struct compact_goal *goal)
{
	const struct request rq = {
		.order = (uint8_t)goal->order,
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = goal->class_zone,
	};

	if (m->kernel->whole_blocks && !goal->direct)
		return compact_suits(m, zone, &rq, COMPACT_BY_KCOMPACTD) == COMPACT_SERVES;
	for (int order = goal->order; order <= m->max_order; order++) {
		const uint32_t *nr_free = zone->nr_free[order];

		if (nr_free[goal->migratetype] ||
		    (goal->migratetype == MIGRATETYPE_MOVABLE && nr_free[MIGRATETYPE_CMA]))
			return true;
		if (goal->migratetype == MIGRATETYPE_MOVABLE && order < m->pageblock_order / 2)
			continue;
		if (nr_free[MIGRATETYPE_UNMOVABLE] || nr_free[MIGRATETYPE_RECLAIMABLE] ||
		    nr_free[MIGRATETYPE_MOVABLE])
			return true;
	}
	return false;
}

static bool is_reached(const struct model *m, const struct zone *zone,
		       const struct compact_goal *goal)
{
	if (goal->order < 0)
		return proactive_score_zone(m, zone) <= goal->score;
	return has_block(m, zone, goal);
}

/* compact_scanners_met: the search for free pages has come down to the block of the next source. */
static bool have_met(const struct model *m, const struct zone_compaction *zc)
{
	return !zc->below || zc->from >= block_start(m, zc->below);
}

/*
 * A run continues where the last one ended (compact_cached_*_pfn). It starts at the ends if it is
 * thorough, or after both scanners met.
 */
static void find_ends(struct zone_compaction *zc, const struct model *m, const struct zone *zone,
		      bool thorough)
{
	if (!have_met(m, zc) && !thorough)
		return;
	zc->from = zone->start & ~((1u << m->pageblock_order) - 1);
	zc->below = zc->below_folios = zone->end;
}

/* __reset_isolation_suitable */
static void forget(struct compaction *c, const struct zone *zone)
{
	struct zone_compaction *zc = &c->zones[zone->number];
	int order = c->model->pageblock_order;
	uint32_t first = zone->start >> order, end = (zone->end - 1) >> order;

	memset(&c->skipped[first], 0, (end - first + 1) * sizeof(*c->skipped));
	zc->from = zc->below = zc->below_folios = 0;
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
	if (pages_to_move(c, zone, start, goal) > 0)
		return true;
	*skipped |= SKIP_SOURCE;
	return false;
}

/* One run, from where its scanners stand. */
static bool scan(struct compaction *c, struct zone *zone, const struct compact_goal *goal,
		 const struct scan_row *row)
{
	struct model *m = c->model;
	struct zone_compaction *zc = &c->zones[zone->number];
	bool failed = !goal->sync && row->direct && row->spent && row->class_zone == zone->type &&
		      row->node == tape_node(m, zone->node);
	struct budget budget = {
		.goal = goal,
		.pages = goal->direct && !failed ? INT64_MAX : (int64_t)row->freed,
		.share = row->scanned > row->freed
				 ? (double)(row->scanned - row->freed) / (double)row->scanned
				 : 0,
		.zone = zc,
	};

	for (; !have_met(m, zc) && budget.pages > 0; zc->from += 1u << m->pageblock_order) {
		if (!has_work(c, zone, goal))
			continue;
		empty_block(c, zone, zc->from, &budget);
		if (is_reached(m, zone, goal))
			return true;
		if (budget.pages <= 0)
			return false;
	}
	zc->flush |= goal->direct && have_met(m, zc);
	return false;
}

bool compact_model(struct compaction *c, struct zone *zone, const struct compact_goal *goal,
		   const struct scan_row *row)
{
	const struct model *m = c->model;
	struct zone_compaction *zc = &c->zones[zone->number], before;
	bool reached;

	if (is_restarting(&zc->deferral, goal->order))
		forget(c, zone);
	before = *zc;
	find_ends(zc, m, zone, goal->thorough);
	reached = scan(c, zone, goal, row);
	/* A thorough run takes no position back (update_cached_migrate). */
	if (goal->thorough && !have_met(m, &before) && !have_met(m, zc)) {
		zc->from = before.from > zc->from ? before.from : zc->from;
		zc->below = before.below < zc->below ? before.below : zc->below;
		if (before.below_folios < zc->below_folios)
			zc->below_folios = before.below_folios;
	}
	return reached;
}

void compaction_served(struct compaction *c, const struct zone *zone, int order)
{
	defer_reset(&c->zones[zone->number].deferral, order, true);
	c->zones[zone->number].flush = false;
}
