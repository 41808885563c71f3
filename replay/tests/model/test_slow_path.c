// SPDX-License-Identifier: Apache-2.0
/*
 * The slow path, without a model of reclaim: which lists it drains, and when.
 */
#include "check.h"
#include "toy.h"

#include "model/owed.h"
#include "model/slow_path.h"

/* Below min: 16 free pages in the HIGHATOMIC reserve, 8 movable ones, and 3 on the PCP. */
static void all_below_min(struct toy *t)
{
	toy_new(t, "6.18", (struct toy_geometry){4, 5, "HMMM", ZONE_DMA32});
	toy_pcp(t, 1, 8);
	toy_add_free(t, 0, 4, 'H');
	toy_add_free(t, 16, 3, 'M');
	t->zone->nr_reserved_highatomic = 32; /* a reserve of more than one block may release one */
	for (uint32_t pfn = 40; pfn < 43; pfn++)
		toy_free_page(t, pfn, 0);
	toy_events(t);
	t->zone->wmark[WMARK_HIGH] = t->zone->wmark[WMARK_LOW] = t->zone->wmark[WMARK_MIN] = 100;
	t->gfp_flags = GFP_DIRECT_RECLAIM;
}

TEST(below_min_nothing_is_drained_while_the_record_shows_no_reclaim)
{
	TOY(t, all_below_min);
	check(toy_alloc(&t, 2, 'M') == 16);
	check_text(toy_blocks(&t), "HMMM");
	check(t.pcp->count == 3 && t.pcp->counters.below_min == 1);
}

TEST(after_direct_reclaim_the_lists_are_drained_and_a_reserved_block_is_released)
{
	for (int inferred = 0; inferred < 2; inferred++) {
		TOY(t, all_below_min);
		t.reclaimed = true;
		t.m->record->drains_inferred = inferred;
		toy_alloc(&t, 2, 'M');
		check_text(toy_blocks(&t), "MMMM");
		check(t.pcp->count == (inferred ? 3 : 0));
	}
}

TEST(without_a_free_page_the_pcp_lists_are_drained)
{
	TOY(t, all_below_min);
	toy_alloc(&t, 3, 'M');
	check(t.pcp->count == 3);
	toy_alloc(&t, 4, 'M');
	check(t.pcp->count == 0);
	check_text(toy_blocks(&t), "MMMM");
}

/* Two zones of one node, all below min, with 8 free pages each. */
TEST(the_first_zone_with_half_its_mark_or_the_least_short_serves_a_request_that_reclaim_helped)
{
	static const struct {
		int64_t first, second; /* min marks */
		uint64_t pfn;
	} cases[] = {{100, 100, 32}, {100, 99, 0}, {90, 100, 32}, {12, 9, 32}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct machine machine = toy_machine(4, 5);
		const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_DMA32, 0),
						  TOY_ZONE(0, ZONE_NORMAL, 32)};

		TOY(t, toy_new_machine, "6.18", &machine, zones, 2);
		for (uint32_t z = 0; z < 2; z++) {
			toy_add_free(&t, z * 32, 3, 'M');
			for (int mark = WMARK_MIN; mark < NR_WMARK; mark++)
				t.m->zones[z].wmark[mark] = z ? cases[i].first : cases[i].second;
		}
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 3, 'M') == cases[i].pfn);
	}
}

/* 64 free pages, and a min mark of 40. The last requests take pages of refills made before. */
TEST(a_request_below_min_takes_an_advance_for_the_next_ones)
{
	static const struct {
		uint32_t gfp_flags;
		uint64_t below_min; /* one for each request, or for 32 */
	} cases[] = {{0, 42}, {GFP_DIRECT_RECLAIM, 2}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, "6.18", toy_small("MMMM"));
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 5, 'M');
		toy_add_free(&t, 32, 5, 'M');
		t.zone->wmark[WMARK_HIGH] = t.zone->wmark[WMARK_LOW] = 50;
		t.zone->wmark[WMARK_MIN] = 40;
		t.gfp_flags = cases[i].gfp_flags;
		for (int n = 0; n < 64; n++)
			toy_alloc(&t, 0, 'M');
		if (t.pcp->counters.below_min != cases[i].below_min)
			fprintf(stderr, "got %lu owed %lu\n", t.pcp->counters.below_min,
				t.zone->owed);
		check(t.pcp->counters.below_min == cases[i].below_min);
		check(t.zone->owed == t.m->owed);
		forgive_owed(t.m, 0);
		check(t.zone->owed == 0 && t.m->owed == 0);
	}
}

/* An advance lifts the zone to its mark, and 32 pages and those of the request above it. */
TEST(reclaim_pays_back_an_advance)
{
	struct request rq = {.migratetype = MIGRATETYPE_MOVABLE, .gfp_flags = GFP_DIRECT_RECLAIM};

	TOY(t, toy_new, "6.18", toy_small("MMMM"));
	toy_pcp(&t, 1, 8);
	toy_add_free(&t, 0, 4, 'M');
	rq.class_zone = t.zone->type;
	for (int mark = WMARK_MIN; mark < NR_WMARK; mark++)
		t.zone->wmark[mark] = 40;
	t.gfp_flags = GFP_DIRECT_RECLAIM;
	toy_alloc(&t, 2, 'M');
	check(t.zone->owed == 24 + 32 + 4);
	check(pages_owed(t.m, 0, t.zone->type) == 60);
	/* It counted before its reclaim, which counts no more. */
	check(!slow_path_recorded(t.m, &rq) && slow_path_recorded(t.m, &rq));
	pay_owed(t.m, 0, t.zone->type, 20);
	check(t.zone->owed == 40);
	pay_owed(t.m, 0, t.zone->type, 100);
	check(t.zone->owed == 0 && t.m->owed == 0);
}
