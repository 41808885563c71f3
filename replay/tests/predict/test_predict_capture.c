// SPDX-License-Identifier: Apache-2.0
/* Blocks that compaction captures. */
#include "check.h"
#include "toy.h"

#include "predict/predict.h"

/*
 * The model captures the block that a page of a drain completes. A later page of the same drain was
 * part of that block, so it was not whole: its pages stay where the drain left them.
 */
TEST(a_block_that_the_same_drain_cut_is_not_captured)
{
	struct capture capture = {.frame = 8, .order = 3};
	struct validate v = {0};

	TOY(t, toy_new, "6.18", toy_small("UU"));
	v.m = t.m;
	toy_free_one(&t, 8, 0, 'U');
	captured(&v, &capture);
	check(capture.frame == NO_FRAME);
	check(t.m->frames[8].state == FRAME_FREE);
	check(t.m->frames[8].list == MIGRATETYPE_UNMOVABLE);
	check(t.zone->nr_free[0][MIGRATETYPE_UNMOVABLE] == 1);
}

static void arrive(struct validate *v, int kind)
{
	*window_slot(&v->window, 0) = (struct window_event){.kind = (uint8_t)kind, .frame = 8};
	window_add(&v->window);
}

/*
 * khugepaged compacts for itself, but a kernel thread captures nothing (task_capc). Its block goes
 * onto a list, where a refill finds it, or a fallback.
 */
TEST(a_block_that_is_on_a_list_later_was_not_captured)
{
	for (int fallback = 0; fallback < 2; fallback++) {
		struct capture capture = {.frame = NO_FRAME, .order = 3};
		struct validate v = {0};

		TOY(t, toy_new, "6.18", toy_small("UU"));
		v.m = t.m;
		window_new(&v.window, t.m->arrays, 1);
		arrive(&v, EVENT_KIND_PCPU_DRAIN);
		if (fallback)
			arrive(&v, EVENT_KIND_ALLOC_EXTFRAG);
		arrive(&v, EVENT_KIND_ALLOC_ZONE_LOCKED);
		capture.zone = t.zone;
		t.capture = &capture;
		toy_free_one(&t, 8, 3, 'U');
		check(capture.frame == 8);
		captured(&v, &capture);
		check(capture.frame == NO_FRAME);
		check(t.m->frames[8].state == FRAME_FREE && t.m->frames[8].order == 3);
		check(t.zone->nr_free[3][MIGRATETYPE_UNMOVABLE] == 1);
	}
}
