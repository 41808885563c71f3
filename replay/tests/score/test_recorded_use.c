// SPDX-License-Identifier: Apache-2.0
/* How the zones stood at recorded requests. */
#include "check.h"
#include "reclaim_machine.h"

#include "score/recorded_use.h"

static struct window_event event_of(int kind, struct reclaim_machine *w, int zone)
{
	return (struct window_event){
		.kind = (uint8_t)kind,
		.frame = w->toy.m->zones[zone].start,
		.gfp_flags = GFP_MOVABLE | GFP_DIRECT_RECLAIM,
		.migratetype = MIGRATETYPE_MOVABLE,
	};
}

/* An alloc, after its CPU took pages of the zone one by one. */
static struct recorded_use seen(struct reclaim_machine *w, int zone, int taken, int order)
{
	struct reclaim_events events = {0};
	struct recorded_use use = {0};
	struct window_event alloc = event_of(EVENT_KIND_ALLOC, w, zone);
	const struct window_event took = event_of(EVENT_KIND_ALLOC_ZONE_LOCKED, w, zone);

	recorded_use_new(&use, w->toy.m);
	for (int i = 0; i < taken; i++)
		recorded_use_see(&use, w->toy.m, &events, &took);
	alloc.order = (uint8_t)order;
	recorded_use_see(&use, w->toy.m, &events, &alloc);
	return use;
}

/* The marks of NORMAL are 100, 200 and 300; DMA has less than its reserve against others. */
TEST(a_request_is_below_a_mark_if_every_zone_was)
{
	static const struct {
		int free, taken;
		uint64_t below_low, below_min;
	} cases[] = {
		{250, 0, 0, 0},  {200, 0, 1, 0}, {190, 11, 0, 0},
		{190, 10, 1, 0}, {100, 0, 1, 1}, {90, 11, 1, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct recorded_use use;

		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
		make_free(&w, NORMAL, cases[i].free, true);
		reclaim_machine_start(&w);
		use = seen(&w, NORMAL, cases[i].taken, 0);
		check(use.allocs == 1);
		check(use.below_low == cases[i].below_low);
		check(use.below_min == cases[i].below_min);
	}
}

/* Enough pages, but none in a chunk of the order: only the zone that served it had one. */
TEST(a_request_for_an_order_needs_a_chunk)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 1000, true);
	reclaim_machine_start(&w);
	check(seen(&w, NORMAL, 0, 3).below_min == 1);
	check(seen(&w, NORMAL, 1, 3).below_low == 0);
}

/* A reclaim frees 32 pages, which 33 requests show in a row. */
TEST(requests_that_one_reclaim_covers_count_once)
{
	static const struct {
		uint32_t gfp_flags;
		uint64_t below_min;
	} cases[] = {{GFP_MOVABLE | GFP_DIRECT_RECLAIM, 2}, {GFP_MOVABLE, 34}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reclaim_events events = {0};
		struct recorded_use use = {0};
		struct window_event alloc;

		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
		make_free(&w, NORMAL, 50, true);
		reclaim_machine_start(&w);
		recorded_use_new(&use, w.toy.m);
		alloc = event_of(EVENT_KIND_ALLOC, &w, NORMAL);
		alloc.gfp_flags = cases[i].gfp_flags;
		for (int n = 0; n < 34; n++)
			recorded_use_see(&use, w.toy.m, &events, &alloc);
		check(use.below_low == 34);
		check(use.below_min == cases[i].below_min);
	}
}

/* Enough pages, but the task began direct reclaim for its next request of order 1. */
TEST(a_request_that_reclaimed_was_below_min)
{
	struct reclaim_events events = {
		.direct_recorded = true, .reclaimed = {{7, 1}}, .nr_reclaimed = 1};
	struct recorded_use use = {0};
	struct window_event alloc;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 1024, false);
	reclaim_machine_start(&w);
	recorded_use_new(&use, w.toy.m);
	alloc = event_of(EVENT_KIND_ALLOC, &w, NORMAL);
	alloc.pid = 7;
	for (int order = 0; order < 2; order++) {
		alloc.order = (uint8_t)order;
		recorded_use_see(&use, w.toy.m, &events, &alloc);
		check(use.below_min == (uint64_t)order);
	}
	recorded_use_see(&use, w.toy.m, &events, &alloc);
	check(use.below_min == 1);
}

TEST(a_page_of_another_zone_counts_for_it)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 1000, true);
	reclaim_machine_start(&w);
	check(seen(&w, NORMAL, 0, 0).lower_zone == 0);
	check(seen(&w, DMA, 0, 0).lower_zone == 1);
	check(seen(&w, DMA, 0, 0).remote_node == 0);
}
