// SPDX-License-Identifier: Apache-2.0
/*
 * When a free takes effect: at its event, or at the free_batched that follows it. The machine is
 * that of free_run.h.
 */
#include "check.h"
#include "free_run.h"

TEST(a_batched_free_takes_effect_with_its_second_event)
{
	for (int batched = 0; batched < 2; batched++) {
		uint64_t pfns[3];

		TAPE(t, tape_new, "6.12.117");
		tape_alloc(&t, 0, 1000, 0);
		tape_free_page(&t, 0, 1000, 0);
		tape_alloc(&t, 0, 1001, 0);
		if (batched)
			tape_free_batched(&t, 0, 1000);
		tape_alloc(&t, 0, 1002, 0);
		tape_play(&t);
		check(tape_model_allocs(&t, pfns) == 3);
		/* The next alloc after the free takes its page: the second alloc, or the third. */
		check(pfns[batched ? 2 : 1] == pfns[0]);
	}
}

TEST(a_lone_free_batched_is_a_free)
{
	const struct totals *totals;

	TAPE(t, tape_new, "6.18");
	tape_alloc(&t, 0, 1000, 0);
	tape_free_batched(&t, 0, 1000);
	tape_free_batched(&t, 0, 1000);
	totals = tape_play(&t);
	check(totals->counters.frees == 1);
	check(tape_anomalies(totals) == 0);
}
