// SPDX-License-Identifier: Apache-2.0
/*
 * The vmstat ticks of a free run, whose tape records none. The machine is that of free_run.h.
 */
#include "check.h"
#include "free_run.h"

TEST(an_idle_pcp_decays_with_the_ticks)
{
	const struct totals *totals;

	TAPE(t, tape_new, "6.18");
	/* The PCP high grows; then the CPU is idle for a minute. */
	for (int64_t i = 0; i < 1500; i++)
		tape_alloc(&t, 0, 1000 + i, 0);
	for (int64_t i = 0; i < 1500; i++)
		tape_free_page(&t, 0, 1000 + i, 0);
	t.ts += 60000000000;
	tape_alloc(&t, 1, 1000, 0);
	totals = tape_play(&t);
	check(totals->counters.decays > 0);
	check(replay_model(t.r)->pcps[0].high == replay_model(t.r)->pcps[0].high_min);
	check(replay_model(t.r)->pcps[0].count <= replay_model(t.r)->pcps[0].high);
}

TEST(an_idle_remote_pcp_empties_by_a_batch_every_three_ticks)
{
	struct pcp *pcp;

	TAPE(t, tape_new, "6.5");
	/* CPU 0 frees pages of node 1. */
	for (int64_t i = 0; i < 3; i++)
		tape_free_page(&t, 0, ZONE_PAGES + i, 0);
	t.ts += 8000000000;
	tape_alloc(&t, 1, 2000, 0);
	pcp = zone_pcp(replay_model(t.r), &replay_model(t.r)->zones[1], 0);
	pcp->batch = 1;
	tape_play(&t);
	check(pcp->count == 1);
}

TEST(a_cpu_without_events_decays_too)
{
	struct pcp *pcp;

	TAPE(t, tape_new, "6.18");
	pcp = zone_pcp(replay_model(t.r), &replay_model(t.r)->zones[0], 1);
	pcp->high_max = pcp->high = 1000;
	tape_alloc(&t, 0, 2000, 0);
	t.ts += 60000000000;
	tape_alloc(&t, 0, 2001, 0);
	tape_play(&t);
	check(pcp->high == pcp->high_min);
}

TEST(wild_times_make_no_endless_series_of_intervals)
{
	struct batch *none = toy_rows(&event_table, 0);
	struct error err;
	struct pcp *pcp;

	TAPE(t, tape_new, "6.18");
	must(tape_hand_over(t.r, none, true, &err), &err);
	t.r->tick_ns = 36000 * 1000000000ull; /* 36000 intervals */
	pcp = zone_pcp(replay_model(t.r), &replay_model(t.r)->zones[0], 1);
	pcp->high_max = pcp->high = 1000;
	for (int64_t i = 0; i < 4; i++) {
		tape_alloc(&t, 0, 2000 + i, 0);
		t.ts += 1ull << 56; /* 2 years */
	}
	check(tape_play(&t)->counters.allocs == 4);
	check(pcp->high == pcp->high_min);
	check(t.r->quiet_intervals < 1 << 15);
	batch_free(none);
}
