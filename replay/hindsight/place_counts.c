// SPDX-License-Identifier: Apache-2.0
/*
 * The free blocks at the start where the snapshot has only their numbers by zone, order and
 * migratetype (pagetypeinfo), as without kpageflags.
 *
 * Each block gets an aligned span of pages that no event shows in use, the largest orders first.
 * Spans come first that hold pages which events show free: those with the largest share of them.
 * The others are guesses: spans without an event, in pageblocks of the block's type if there are
 * any, else in pageblocks whose type is open (block_count has the number of each type). No two
 * blocks are placed that would merge.
 */
#include "hindsight_run.h"

#include "model/buddy.h"
#include "model/force_state.h"

/* The pageblocks that a span may lie in. */
enum allowed { OF_TYPE, OPEN, ANY };

struct placing {
	struct hindsight *h;
	const struct zone *zone;
	int64_t *open; /* [migratetype] pageblocks of that type that are still to be named */
	int order;
	int64_t *left; /* [migratetype] blocks of `order` still to be placed */
	int64_t pages; /* that guesses may place */
};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Steps of this size visit all of `nr` spans, each far from the one before (golden section). */
static uint32_t scatter(uint32_t nr)
{
	uint32_t step = (uint32_t)((uint64_t)nr * 618 / 1000) + 1;

	while (common_divisor(nr, step) != 1)
		step++;
	return step;
}

static struct start_block *block_at(const struct placing *p, frame_nr frame)
{
	return &p->h->blocks[frame >> p->h->m->pageblock_order];
}

static void name_block(const struct placing *p, frame_nr frame, int type)
{
	struct start_block *block = block_at(p, frame);

	retype_block(p->h->m, frame, type);
	block->migratetype = (uint8_t)type;
	block->named = true;
	p->open[type]--;
}

/*
 * Pages of the span that events show free; -1 if a block cannot be there. A span of a guess has no
 * page with an event.
 */
static int pages_shown(const struct placing *p, frame_nr first, bool guess)
{
	const struct model *m = p->h->m;
	const struct frame *buddy = &m->frames[first ^ (1u << p->order)];
	int shown = 0;

	if (first < p->zone->start || p->zone->end - first < 1u << p->order)
		return -1;
	if (p->order < m->max_order && buddy->state == FRAME_FREE && buddy->order == p->order)
		return -1;
	for (frame_nr f = first; f < first + (1u << p->order); f++) {
		int place = p->h->first[f].place;

		if (m->frames[f].state != FRAME_OLD ||
		    (place != FIRST_UNSEEN &&
		     (guess || (place != FIRST_FREE && place != FIRST_FREED))))
			return -1;
		shown += place == FIRST_FREE;
	}
	return shown;
}

/* The type with most blocks to place, of those that a pageblock without a type may get. */
static int open_type(const struct placing *p, bool any)
{
	int best = -1;

	for (int type = 0; type < NR_MIGRATETYPE; type++)
		if (p->left[type] > 0 && (any || p->open[type] > 0) &&
		    (best < 0 || p->left[type] > p->left[best]))
			best = type;
	return best;
}

/* The type of the block that the span may get, or -1. */
static int type_at(const struct placing *p, frame_nr first, enum allowed allowed)
{
	const struct model *m = p->h->m;
	int type = -1;

	for (frame_nr f = first; f < first + (1u << p->order); f = block_end(m, f)) {
		const struct start_block *block = block_at(p, f);

		if (!block->named)
			continue;
		if (type >= 0 && block->migratetype != type)
			return -1;
		type = block->migratetype;
	}
	if (type >= 0 && (allowed == ANY || p->left[type] > 0))
		return type;
	return type >= 0 || allowed == OF_TYPE ? -1 : open_type(p, allowed == ANY);
}

static void place_block(const struct placing *p, frame_nr first, int type)
{
	struct model *m = p->h->m;
	int counted = p->left[type] > 0 ? type : open_type(p, true);

	for (frame_nr f = first; f < first + (1u << p->order); f = block_end(m, f))
		if (!block_at(p, f)->named)
			name_block(p, f, type);
	force_used(m, first, p->order);
	buddy_put(m, frame_zone(m, first), first, p->order, type, NULL);
	p->left[counted]--;
}

/* Place blocks where events show at least `shown` pages of each free; none if `shown` is 0. */
static void place_where(struct placing *p, int shown, enum allowed allowed)
{
	uint32_t nr = (p->zone->end - p->zone->base) >> p->order;
	uint32_t step = nr && !shown ? scatter(nr) : 1, at = 0;

	for (uint32_t i = 0; i < nr && open_type(p, true) >= 0; i++) {
		frame_nr first = p->zone->base + (at << p->order);
		int type = type_at(p, first, allowed);
		int pages = type < 0 ? -1 : pages_shown(p, first, !shown);

		at = (uint32_t)(((uint64_t)at + step) % nr);
		if (pages < 0 || pages < shown)
			continue;
		if (!shown && p->pages < 1ll << p->order)
			return;
		place_block(p, first, type);
		if (!shown) {
			p->pages -= 1ll << p->order;
			p->h->coverage.guessed++;
		}
	}
}

/* The types that are left go to pageblocks without one; most of them are MOVABLE. */
static void name_others(const struct placing *p)
{
	uint32_t pages = 1u << p->h->m->pageblock_order;
	uint32_t nr = (p->zone->end - p->zone->base + pages - 1) / pages;
	uint32_t step = nr ? scatter(nr) : 0, at = 0;

	for (uint32_t i = 0; i < nr; i++, at = (uint32_t)(((uint64_t)at + step) % nr)) {
		frame_nr frame = p->zone->base + at * pages;
		int best = MIGRATETYPE_MOVABLE;

		block_at(p, frame)->listed = frame + pages > p->zone->start;
		if (block_at(p, frame)->named)
			continue;
		for (int type = 0; type < NR_MIGRATETYPE; type++)
			if (type != MIGRATETYPE_MOVABLE && p->open[type] > 0)
				best = type;
		name_block(p, frame, best);
	}
}

static void at_order(struct placing *p, int order)
{
	p->order = order;
	p->left = p->h->free_areas[p->zone->number][order];
}

/*
 * Counted pages that are still to be placed, without those that events show free although no count
 * is left for them: the lists changed between the snapshot and the first event.
 */
static int64_t pages_missing(const struct placing *p)
{
	const struct hindsight *h = p->h;
	int64_t pages = 0;

	for (int order = 0; order <= h->m->max_order; order++)
		for (int type = 0; type < NR_MIGRATETYPE; type++) {
			int64_t left = h->free_areas[p->zone->number][order][type];

			pages += left > 0 ? left << order : 0;
		}
	for (frame_nr f = p->zone->start; f < p->zone->end; f++)
		pages -= h->first[f].place == FIRST_FREE && place_of(h->m, f) != PLACE_FREE;
	return pages;
}

static void place_zone(struct hindsight *h, const struct zone *zone)
{
	struct placing p = {.h = h, .zone = zone, .open = h->nr_blocks[zone->number]};

	for (frame_nr f = zone->base; f < zone->end; f = block_end(h->m, f))
		if (block_at(&p, f)->evidence)
			name_block(&p, f, block_at(&p, f)->migratetype);
	for (int order = h->m->max_order; order >= 0; order--) {
		at_order(&p, order);
		for (int shown = 1 << order; shown; shown /= 2)
			place_where(&p, shown, OF_TYPE);
	}
	p.pages = pages_missing(&p);
	for (int order = h->m->max_order; order >= 0; order--) {
		at_order(&p, order);
		for (int allowed = OF_TYPE; allowed <= ANY; allowed++)
			place_where(&p, 0, (enum allowed)allowed);
	}
	name_others(&p);
}

void place_counts(struct hindsight *h)
{
	for (int z = 0; z < h->m->nr_zones; z++)
		place_zone(h, &h->m->zones[z]);
}
