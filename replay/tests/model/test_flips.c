// SPDX-License-Identifier: Apache-2.0
/* Decisions taken otherwise: the draws, and each other choice. Pageblocks of 16 pages. */
#include "check.h"
#include "toy.h"

#include "model/flips.h"

#include <string.h>

enum { ROWS = 200000 };

/* A toy whose decisions of one kind are all taken otherwise. */
static struct flips always(const uint64_t *at, enum flip_kind kind)
{
	struct flips flips = {.seed = 1, .at = at, .row = UINT64_MAX};

	flips.rates[kind] = FLIPS_PER;
	return flips;
}

TEST(a_draw_depends_on_its_decision_only)
{
	uint64_t at = 0;
	struct flips one = {.seed = 5, .at = &at, .row = UINT64_MAX}, other = one;
	int drawn = 0;

	one.rates[FLIP_DRAIN] = other.rates[FLIP_DRAIN] = FLIPS_PER / 10;
	one.rates[FLIP_ZONE_LOCKED] = FLIPS_PER / 2;
	for (; at < 1000; at++) {
		/* Draws of another kind, and a row that only one of them has, change nothing. */
		for (uint64_t i = 0; i < at % 5; i++)
			flips_draw(&one, FLIP_ZONE_LOCKED);
		if (at % 3 == 0) {
			flips_draw(&one, FLIP_DRAIN);
			continue;
		}
		for (int i = 0; i < 3; i++) {
			uint64_t got = flips_draw(&one, FLIP_DRAIN);

			check(got == flips_draw(&other, FLIP_DRAIN));
			drawn += got != 0;
		}
	}
	check(drawn > 100 && drawn < 300);
}

TEST(the_rate_is_met_and_seeds_differ)
{
	static const uint32_t rates[] = {0, FLIPS_PER / 1000, FLIPS_PER / 50, FLIPS_PER};
	uint64_t at;
	int differ = 0;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct flips flips = {.seed = 7, .at = &at, .row = UINT64_MAX}, next = flips;
		double wanted = (double)ROWS * 2 * rates[i] / FLIPS_PER;
		int drawn = 0;

		next.seed = 8;
		flips.rates[FLIP_EXTFRAG] = next.rates[FLIP_EXTFRAG] = rates[i];
		for (at = 0; at < ROWS; at++) {
			for (int n = 0; n < 2; n++) {
				bool is_drawn = flips_draw(&flips, FLIP_EXTFRAG) != 0;

				drawn += is_drawn;
				differ += is_drawn != (flips_draw(&next, FLIP_EXTFRAG) != 0);
			}
		}
		/* Four standard deviations. */
		check((drawn - wanted) * (drawn - wanted) <= 16 * wanted);
		check(rates[i] < FLIPS_PER || drawn == ROWS * 2);
	}
	check(differ > 10000);
}

TEST(a_page_comes_from_the_other_end_of_a_free_list)
{
	uint64_t at = 0;
	struct flips flips = always(&at, FLIP_ZONE_LOCKED);

	TOY(t, toy_new, "6.18", toy_small("MM"));
	toy_pcp(&t, 1, 8);
	toy_add_free(&t, 0, 0, 'M');
	toy_add_free(&t, 2, 0, 'M');
	toy_add_free(&t, 4, 0, 'M');
	t.m->flips = &flips;
	check(toy_alloc(&t, 0, 'M') == 4);
	check(toy_alloc(&t, 0, 'M') == 2);
	/* The last page has no other end. */
	check(toy_alloc(&t, 0, 'M') == 0);
	check(flips.drawn[FLIP_ZONE_LOCKED] == 2);
}

TEST(a_refill_is_a_step_larger_or_smaller_where_the_row_adapts_it)
{
	static const struct {
		const char *kernel;
		int alloc_factor, counts[2]; /* of the PCP, after the alloc */
	} cases[] = {
		{"6.18", 1, {1, 7}},
		{"6.18", 0, {1, 1}},  /* no step below a batch, so none above it */
		{"6.1.0", 0, {1, 1}}, /* always a batch */
		{"5.10", 0, {1, 1}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool seen[2] = {false, false};

		for (uint64_t at = 0; at < 50; at++) {
			struct flips flips = always(&at, FLIP_REFILL_SIZE);

			TOY(t, toy_new, cases[i].kernel, toy_small("MMMM"));
			toy_pcp(&t, 2, 40);
			for (uint32_t pfn = 0; pfn < 64; pfn += 16)
				toy_add_free(&t, pfn, 4, 'M');
			t.pcp->alloc_factor = (uint8_t)cases[i].alloc_factor;
			t.m->flips = &flips;
			toy_alloc(&t, 0, 'M');
			for (int n = 0; n < 2; n++)
				seen[n] |= t.pcp->count == cases[i].counts[n];
			check(t.pcp->count == cases[i].counts[0] ||
			      t.pcp->count == cases[i].counts[1]);
			check(flips.drawn[FLIP_REFILL_SIZE] == (uint64_t)!i);
		}
		check(seen[0] && seen[1]);
	}
}

TEST(a_drain_takes_the_entry_above_the_last_one)
{
	uint64_t at = 0;
	struct flips flips = always(&at, FLIP_DRAIN);

	TOY(t, toy_new, "6.18", toy_small("MM"));
	toy_pcp(&t, 2, 8);
	for (uint32_t pfn = 0; pfn < 6; pfn += 2)
		toy_free_page(&t, pfn, 0);
	toy_events(&t);
	t.m->flips = &flips;
	pcp_drain_piece(t.m, t.zone, t.pcp, 3);
	check_text(toy_events(&t), "d(2,M) d(4,M) d(0,M)");
	check(flips.drawn[FLIP_DRAIN] == 2);
}

TEST(a_drain_is_one_page_larger_or_smaller_where_the_row_adapts_it)
{
	for_each_kernel(kernel, "6.18", "6.1.192", "5.10")
	{
		bool adapts = strcmp(*kernel, "5.10") != 0;
		int sizes[4] = {0};

		for (uint64_t at = 0; at < 50; at++) {
			struct flips flips = always(&at, FLIP_DRAIN_SIZE);
			int left;

			TOY(t, toy_new, *kernel, toy_small("MM"));
			toy_pcp(&t, 2, 4);
			t.m->flips = &flips;
			for (uint32_t pfn = 0; pfn < 8; pfn += 2)
				toy_free_page(&t, pfn, 0);
			left = t.pcp->count;
			check(left >= 1 && left <= 3);
			sizes[4 - left]++;
			check((flips.drawn[FLIP_DRAIN_SIZE] == 1) == adapts);
		}
		check(adapts ? sizes[1] && !sizes[2] && sizes[3] : sizes[2] == 50);
	}
}

TEST(a_fallback_takes_the_other_end_of_the_list)
{
	uint64_t at = 0;
	struct flips flips = always(&at, FLIP_EXTFRAG);

	TOY(t, toy_new, "6.18", toy_small("UUMM"));
	toy_pcp(&t, 1, 8);
	toy_add_free(&t, 0, 0, 'U');
	toy_add_free(&t, 18, 0, 'U');
	t.m->flips = &flips;
	check(toy_alloc(&t, 0, 'M') == 18);
	check_text(toy_events(&t), "x(18,0,0,M,U,0) a(18)");
	check(flips.drawn[FLIP_EXTFRAG] == 1);
}

/*
 * A MOVABLE request claims a pageblock of 16 pages if 8 of them are free or movable. Here 4 are
 * free.
 */
TEST(a_claim_is_made_otherwise_if_old_pages_leave_it_open)
{
	static const struct {
		int movable, lru; /* of 12 old pages */
		bool claims;
		uint64_t drawn;
	} cases[] = {
		{0, 0, true, 1},   /* none seems movable, but all may be */
		{12, 0, false, 1}, /* all seem movable, but perhaps none is */
		{12, 12, true, 0}, /* all are */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t at = 0;
		struct flips flips = always(&at, FLIP_EXTFRAG);
		struct pageblock *block;

		TOY(t, toy_new, "6.18", toy_small("UM"));
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 2, 'U');
		block = frame_block(t.m, 0);
		block->old_movable = (uint16_t)cases[i].movable;
		block->old_lru = (uint16_t)cases[i].lru;
		t.m->flips = &flips;
		check(toy_alloc(&t, 2, 'M') == 0);
		check_text(toy_blocks(&t), cases[i].claims ? "MM" : "UM");
		check(flips.drawn[FLIP_EXTFRAG] == cases[i].drawn);
	}
}
