// SPDX-License-Identifier: Apache-2.0
/* The pages that reclaim takes when the recorded ones are used up: the oldest of their kind. */
#include "check.h"

#include "model/memory.h"
#include "reclaim_machine.h"

#include "model/zone.h"

#include <stdlib.h>

enum { FILE_PAGE = GFP_IO | GFP_FS | GFP_WRITE, OTHER_PAGE = GFP_IO | GFP_FS };

/* The record's reclaim freed pages of one kind of request, and no page that is still in a queue. */
static void machine_new(struct reclaim_machine *w, enum reclaim_mode mode)
{
	reclaim_machine_new(w, "6.18", NULL);
	w->run.supply.mode = mode;
	w->run.supply.ages.kinds = arrays_new(w->toy.m->arrays, 1, sizeof(uint32_t));
	*w->run.supply.ages.kinds = FILE_PAGE;
	w->run.supply.ages.nr_kinds = 1;
	reclaim_machine_start(w);
}

/* A served request: page i of zone NORMAL, or of DMA, with its place `by` pages further on. */
static uint32_t allocated(struct reclaim_machine *w, int zone, uint32_t i, uint32_t by, int order,
			  uint32_t gfp_flags)
{
	uint32_t frame = w->toy.m->zones[zone].start + i;

	zone_forget_old(w->toy.m, frame + by, order);
	zone_mark_live(w->toy.m, frame + by, order, MIGRATETYPE_MOVABLE);
	page_map_set(&w->serve.pages, frame, order, frame + by + 1, true);
	ages_allocated(&w->run.supply.ages, frame, gfp_flags, MIGRATETYPE_MOVABLE);
	return frame;
}

static int64_t take(struct reclaim_machine *w, int class_zone, int64_t pages)
{
	return reclaim_supply_take(&w->run.supply, 0, class_zone, pages);
}

static bool is_taken(const struct reclaim_machine *w, uint32_t frame)
{
	return page_map_place(&w->serve.pages, frame) == NO_FRAME;
}

TEST(the_oldest_pages_of_the_kind_are_taken_first)
{
	uint32_t frames[4];

	RECLAIM_MACHINE(w, machine_new, RECLAIM_QUEUED);
	frames[0] = allocated(&w, NORMAL, 0, 64, 0, OTHER_PAGE);
	for (uint32_t i = 1; i < 4; i++)
		frames[i] = allocated(&w, NORMAL, 8 * i, 64, 0, FILE_PAGE);
	/* The record freed page 1 and has it again: it is the youngest. */
	allocated(&w, NORMAL, 8, 128, 0, FILE_PAGE);
	check(take(&w, ZONE_NORMAL, 1) == 1);
	check(is_taken(&w, frames[2]));
	check(take(&w, ZONE_NORMAL, 1) == 1);
	check(is_taken(&w, frames[3]) && !is_taken(&w, frames[1]));
	check(take(&w, ZONE_NORMAL, 9) == 1);
	check(is_taken(&w, frames[1]) && !is_taken(&w, frames[0]));
	check(counters(&w, NORMAL)->synthetic_pages == 3);
	check(counters(&w, NORMAL)->reclaimed_pages == 0);
	check(counters(&w, NORMAL)->reclaim_deficit_pages == 8);
	check_sound(w.toy.m);
}

TEST(a_page_that_is_gone_or_of_another_kind_now_is_not_taken)
{
	uint32_t frame;

	RECLAIM_MACHINE(w, machine_new, RECLAIM_QUEUED);
	frame = allocated(&w, NORMAL, 0, 64, 0, FILE_PAGE);
	w.serve.pages.map[frame] = MAP_FREED;
	frame = allocated(&w, NORMAL, 8, 64, 0, FILE_PAGE);
	allocated(&w, NORMAL, 8, 128, 0, OTHER_PAGE);
	check(!take(&w, ZONE_NORMAL, 4));
	check(!is_taken(&w, frame));
}

TEST(reclaim_for_low_zones_takes_no_page_of_higher_ones)
{
	uint32_t high, low;

	RECLAIM_MACHINE(w, machine_new, RECLAIM_QUEUED);
	high = allocated(&w, NORMAL, 0, 64, 0, FILE_PAGE);
	low = allocated(&w, DMA, 0, 64, 0, FILE_PAGE);
	check(take(&w, ZONE_DMA, 4) == 1);
	check(is_taken(&w, low) && !is_taken(&w, high));
	low = allocated(&w, DMA, 8, 64, 0, FILE_PAGE);
	check(take(&w, ZONE_NORMAL, 1) == 1);
	check(is_taken(&w, high) && !is_taken(&w, low));
}

TEST(a_block_is_taken_as_a_whole_or_not_at_all)
{
	uint32_t broken, whole;

	RECLAIM_MACHINE(w, machine_new, RECLAIM_QUEUED);
	broken = allocated(&w, NORMAL, 0, 64, 2, FILE_PAGE);
	whole = allocated(&w, NORMAL, 8, 64, 2, FILE_PAGE);
	w.serve.pages.map[broken + 3] = MAP_UNSERVED;
	check(take(&w, ZONE_NORMAL, 1) == 4);
	for (uint32_t i = 0; i < 4; i++)
		check(is_taken(&w, whole + i));
	check(!is_taken(&w, broken));
	check(!take(&w, ZONE_NORMAL, 1));
	check_sound(w.toy.m);
}

TEST(a_moved_page_keeps_its_age)
{
	uint32_t first;

	RECLAIM_MACHINE(w, machine_new, RECLAIM_QUEUED);
	first = allocated(&w, NORMAL, 0, 64, 0, FILE_PAGE);
	allocated(&w, NORMAL, 8, 64, 0, FILE_PAGE);
	zone_forget_old(w.toy.m, first + 256, 0);
	zone_mark_live(w.toy.m, first + 256, 0, MIGRATETYPE_MOVABLE);
	page_map_set(&w.serve.pages, first, 0, first + 256 + 1, true);
	check(take(&w, ZONE_NORMAL, 1) == 1);
	check(is_taken(&w, first));
}

static void old_pages(struct reclaim_machine *w, uint64_t pages)
{
	w->run.supply.ages.files = pages;
	ages_spread_old(&w->run.supply.ages, w->run.supply.waiting);
}

/* Pages of files from before the tape are the oldest: as many as there were, of all zones. */
TEST(pages_from_before_the_start_come_first)
{
	uint32_t frame;

	RECLAIM_MACHINE(w, machine_new, RECLAIM_QUEUED);
	frame = allocated(&w, NORMAL, 3 * BLOCK, 0, 0, FILE_PAGE);
	old_pages(&w, 405);
	check(take(&w, ZONE_DMA, 5) == 5);
	check(take(&w, ZONE_NORMAL, 400) == 400);
	check(counters(&w, DMA)->synthetic_pages > 50 && counters(&w, DMA)->synthetic_pages < 120);
	check(!is_taken(&w, frame));
	check(take(&w, ZONE_NORMAL, 11) == 1);
	check(is_taken(&w, frame));
	check(counters(&w, NORMAL)->reclaim_deficit_pages == 10);
}

TEST(a_low_class_that_found_all_leaves_the_higher_zones_theirs)
{
	RECLAIM_MACHINE(w, machine_new, RECLAIM_QUEUED);
	old_pages(&w, 1 << 20);
	check(take(&w, ZONE_DMA, 1 << 20) > 0);
	check(take(&w, ZONE_NORMAL, 400) == 400);
}

/* Of 100 pages from before the start, the record's reclaim freed ten. */
TEST(pages_of_the_record_are_no_others)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	w.run.supply.ages.files = 100;
	queue_pages(&w, 10, 5000 * MS);
	reclaim_machine_start(&w);
	check(w.run.supply.ages.old[DMA] + w.run.supply.ages.old[NORMAL] == 90);
	check(w.run.supply.ages.old[DMA] < w.run.supply.ages.old[NORMAL] / 4);
}

TEST(R2_takes_pages_of_every_movable_request)
{
	uint32_t frame;

	RECLAIM_MACHINE(w, machine_new, RECLAIM_SYNTHETIC);
	frame = allocated(&w, NORMAL, 0, 64, 0, OTHER_PAGE);
	ages_allocated(&w.run.supply.ages, frame, OTHER_PAGE, MIGRATETYPE_UNMOVABLE);
	check(!take(&w, ZONE_NORMAL, 1));
	ages_allocated(&w.run.supply.ages, frame, OTHER_PAGE, MIGRATETYPE_MOVABLE);
	check(take(&w, ZONE_NORMAL, 1) == 1);
}
