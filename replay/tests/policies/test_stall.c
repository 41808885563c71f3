// SPDX-License-Identifier: Apache-2.0
/* The policy stall: which requests it counts, and which pages it would have refused. */
#include "check.h"
#include "toy.h"

static void stall_counts_the_slow_path_allocations_that_it_would_refuse(void)
{
	static const struct {
		const char *policy;
		int64_t low;
		uint32_t gfp_flags;
		char type;
		uint64_t stalls, refusals;
	} cases[] = {
		{"stall", 100, GFP_DIRECT_RECLAIM, 'M', 1, 2},
		{"stall:order=2", 100, GFP_DIRECT_RECLAIM, 'M', 1, 1},
		{"stall:order=0", 100, GFP_DIRECT_RECLAIM, 'M', 0, 0},
		{"stall", -100, GFP_DIRECT_RECLAIM, 'M', 0, 0},
		{"stall", 100, 0, 'M', 0, 0},
		{"stall", 100, GFP_DIRECT_RECLAIM, 'R', 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new_under(&t, "6.18", cases[i].policy,
			      (struct toy_geometry){4, 5, "UUUU", ZONE_DMA32});
		/* A refill of 2: a page of order 0, then one of order 2. */
		toy_pcp(&t, 2, 8);
		t.zone->wmark[WMARK_LOW] = t.zone->wmark[WMARK_HIGH] = cases[i].low;
		t.gfp_flags = cases[i].gfp_flags;
		toy_add_free(&t, 0, 0, 'U');
		toy_add_free(&t, 4, 2, 'U');
		t.m->now.ts = 5;
		check(toy_alloc(&t, 0, cases[i].type) != UINT64_MAX);
		check(t.pcp->counters.stalls == cases[i].stalls);
		check(t.pcp->counters.stall_refusals == cases[i].refusals);
		toy_free(&t);
	}
}

int main(void)
{
	test(stall_counts_the_slow_path_allocations_that_it_would_refuse);
	return check_done();
}
