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
