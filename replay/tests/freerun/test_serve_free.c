// SPDX-License-Identifier: Apache-2.0
/*
 * Which of the model's pages a recorded free gives back. The machine is that of free_run.h.
 */
#include "check.h"
#include "free_run.h"

/* Free and PCP pages of a zone. */
static uint64_t unused_pages(struct tape *t, int node)
{
	const struct model *m = replay_model(t->r);
	uint64_t pages = m->zones[node].nr_free_pages;

	for (int cpu = 0; cpu < 2; cpu++)
		pages += (uint64_t)zone_pcp(m, &m->zones[node], cpu)->count;
	return pages;
}

TEST(frees_give_back_the_pages_that_were_allocated)
{
	for (const struct kernel *k = kernels; k->name; k++) {
		const struct totals *totals;

		TAPE(t, tape_new, k->name);
		/* The model uses other pages than the record. */
		for (int64_t i = 0; i < 100; i++)
			tape_alloc(&t, 0, 2000 + i, 0);
		tape_alloc(&t, 0, 3072, 9);
		for (int64_t i = 0; i < 100; i++)
			tape_free_page(&t, 1, 2000 + i, 0);
		tape_free_page(&t, 0, 3072, 9);
		totals = tape_play(&t);
		check(totals->counters.allocs == 101 && totals->counters.frees == 101);
		check(totals->counters.alloc_pages == 612 && totals->counters.free_pages == 612);
		check(tape_anomalies(totals) == 0);
		check(unused_pages(&t, 0) == ZONE_PAGES - BLOCK);
	}
}

TEST(pages_are_freed_in_other_pieces_than_allocated)
{
	const struct totals *totals;

	TAPE(t, tape_new, "6.18");
	tape_alloc(&t, 0, 1024, 3);
	tape_free_page(&t, 0, 1028, 2);
	tape_free_page(&t, 0, 1024, 0);
	tape_free_page(&t, 0, 1025, 0);
	tape_free_page(&t, 0, 1026, 1);
	totals = tape_play(&t);
	check(totals->counters.frees == 4 && totals->counters.free_pages == 8);
	check(tape_anomalies(totals) == 0);
	check(unused_pages(&t, 0) == ZONE_PAGES - BLOCK);
}

TEST(a_free_larger_than_its_allocs_goes_page_by_page)
{
	const struct totals *totals;

	TAPE(t, tape_new, "6.18");
	for (int64_t i = 0; i < 4; i++)
		tape_alloc(&t, (int)(i % 2), 1024 + i, 0);
	tape_free_page(&t, 0, 1024, 2);
	totals = tape_play(&t);
	check(totals->counters.free_pages == 4);
	check(tape_anomalies(totals) == 1);
	check(totals->anomalies[ANOMALY_KIND_ORDER_MISMATCH] == 1);
}

TEST(pages_older_than_the_tape_are_freed_where_they_are)
{
	const struct totals *totals;

	TAPE(t, tape_new, "6.18");
	tape_free_page(&t, 0, 64, 3);
	tape_free_page(&t, 0, 100, 0);
	totals = tape_play(&t);
	check(tape_anomalies(totals) == 0);
	check(totals->counters.free_pages == 9);
	check(unused_pages(&t, 0) == ZONE_PAGES - BLOCK + 9);
}
