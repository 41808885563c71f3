// SPDX-License-Identifier: Apache-2.0
/*
 * How an allocation is served: its node, and the effects of a failure. The machine is that of
 * free_run.h.
 */
#include "check.h"
#include "free_run.h"

TEST(a_machine_that_is_full_fails_requests_and_ignores_their_frees)
{
	const struct totals *totals;

	TAPE(t, tape_new, "6.18");
	for (int64_t i = 0; i < 9; i++)
		tape_alloc(&t, 0, 512 * i, 9);
	for (int64_t i = 9; i < 16; i++)
		tape_alloc(&t, 1, 512 * i, 9);
	for (int64_t i = 0; i < 16; i++)
		tape_free_page(&t, 0, 512 * i, 9);
	totals = tape_play(&t);
	/* Two requests got pages that were in use at the start, so those pages were free. */
	check(totals->counters.allocs == 16 - totals->anomalies[ANOMALY_KIND_NO_FREE_PAGE]);
	check(totals->counters.allocs == totals->counters.frees);
	check(totals->counters.failed == totals->anomalies[ANOMALY_KIND_NO_FREE_PAGE]);
}

TEST(thisnode_requests_stay_on_the_node_they_named)
{
	struct event_columns *c;
	uint64_t pfns[2];

	TAPE(t, tape_new, "6.18");
	c = (struct event_columns *)t.events->slots;
	tape_alloc(&t, 0, 5000, 0);
	tape_alloc(&t, 0, 5001, 0);
	c->gfp_flags[1] |= GFP_THISNODE;
	tape_play(&t);
	check(tape_model_allocs(&t, pfns) == 2);
	check(pfns[0] < ZONE_PAGES && pfns[1] >= ZONE_PAGES);
}

TEST(requests_of_a_thread_under_a_memory_policy_ask_first_the_node_of_their_page)
{
	struct batch *rows = toy_rows(&preference_table, 1);
	struct preference_columns *p = (struct preference_columns *)rows->slots;
	struct event_columns *c;
	struct error err;
	uint64_t pfns[3];

	TAPE(t, tape_new, "6.18");
	p->pid[0] = 2;
	p->preferred[0] = PREFERENCE_PREFERRED_LANDED;
	must(tape_hand_over(t.r, rows, false, &err), &err);
	c = (struct event_columns *)t.events->slots;
	for (int i = 0; i < 3; i++)
		tape_alloc(&t, 0, 5000 + i, 0);
	c->pid[1] = c->pid[2] = 2;
	c->flags[2] = CONTEXT_SOFTIRQ; /* an interrupt, not the thread */
	tape_play(&t);
	check(tape_model_allocs(&t, pfns) == 3);
	check(pfns[0] < ZONE_PAGES && pfns[1] >= ZONE_PAGES && pfns[2] < ZONE_PAGES);
	batch_free(rows);
}

TEST(a_request_that_failed_marks_the_zones_that_are_low)
{
	for (int low = 0; low < 2; low++) {
		struct model *m;

		TAPE(t, tape_new, "6.18");
		m = replay_model(t.r);
		if (low)
			m->zones[0].wmark[WMARK_HIGH] = ZONE_PAGES;
		tape_alloc(&t, 0, -1, 0);
		tape_play(&t);
		check(m->zones[0].below_high == low && !m->zones[1].below_high);
	}
}
