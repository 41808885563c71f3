// SPDX-License-Identifier: Apache-2.0
/*
 * Splits and merges of the buddy allocator, with test vector TV2 of the specification.
 * Pageblocks of 16 pages, largest order 5.
 */
#include "check.h"
#include "toy.h"

#include <string.h>

TEST(TV2_a_page_about_to_merge_goes_to_the_tail)
{
	for_each_kernel(kernel, "2.6.32", "4.20", "5.0", "6.1.192", "6.12.117", "6.18")
	{
		bool tail = strcmp(*kernel, "2.6.32");

		TOY(t, toy_new, *kernel, toy_small("MM"));
		toy_add_free(&t, 2, 1, 'M');
		toy_add_free(&t, 20, 0, 'M');
		toy_free_one(&t, 0, 0, 'M');
		toy_free_one(&t, 24, 0, 'M');
		check_text(toy_list(&t, 0, 'M'), tail ? "24 20 0" : "24 0 20");
	}
}

TEST(TV2_single_frees_merge_to_the_top)
{
	for_each_kernel(kernel, "2.6.32", "4.20", "5.0", "6.1.192", "6.18")
	{
		TOY(t, toy_new, *kernel, toy_small("MM"));
		toy_add_free(&t, 8, 3, 'M');
		for (uint32_t pfn = 0; pfn < 8; pfn++)
			toy_free_one(&t, pfn, 0, 'M');
		check_text(toy_list(&t, 4, 'M'), "0");
		check(t.zone->nr_free_pages == 16);
	}
}

TEST(TV2_a_split_keeps_the_lower_half)
{
	for_each_kernel(kernel, "4.20", "6.1.192", "6.18")
	{
		TOY(t, toy_new, *kernel, toy_small("MM"));
		toy_add_free(&t, 0, 5, 'M');
		for (uint32_t pfn = 0; pfn < 6; pfn += 2) {
			check(buddy_take_smallest(t.m, t.zone, 1, MIGRATETYPE_MOVABLE) == pfn);
			t.m->frames[pfn].state = FRAME_USED;
		}
		check_text(toy_list(&t, 1, 'M'), "6");
		check_text(toy_list(&t, 3, 'M'), "8");
		check_text(toy_list(&t, 4, 'M'), "16");
	}
}

TEST(the_type_that_a_page_is_freed_to_decides_on_merges)
{
	static const struct {
		const char *kernel, *merged;
	} cases[] = {{"5.19", "0"}, {"6.8", "0"}, {"6.18", ""}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("UM"));
		toy_pcp(&t, 1, 100);
		toy_add_free(&t, 0, 4, 'U');
		/* A THP waits in the PCP while its block becomes HIGHATOMIC. */
		zone_forget_old(t.m, 16, 4);
		zone_free(t.m, 16, 4);
		set_block_type(t.m, 16, 0, MIGRATETYPE_HIGHATOMIC);
		toy_drain(&t);
		check_text(toy_list(&t, 5, 'M'), cases[i].merged);
	}
}

TEST(a_small_movable_chunk_is_captured_for_movable_requests_since_6_12)
{
	static const struct {
		const char *kernel;
		int wanted, freed, order;
		bool captured;
	} cases[] = {
		{"5.10", MIGRATETYPE_MOVABLE, 'M', 2, false},
		{"6.1.192", MIGRATETYPE_MOVABLE, 'M', 2, false},
		{"6.1.192", MIGRATETYPE_MOVABLE, 'M', 4, true},
		{"6.1.192", MIGRATETYPE_UNMOVABLE, 'U', 2, true},
		{"6.12.19", MIGRATETYPE_MOVABLE, 'M', 2, true},
		{"7.3", MIGRATETYPE_MOVABLE, 'M', 2, true},
		{"7.3", MIGRATETYPE_UNMOVABLE, 'M', 2, false},
		{"7.3", MIGRATETYPE_UNMOVABLE, 'M', 4, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct capture capture = {
			.order = cases[i].order, .migratetype = cases[i].wanted, .frame = NO_FRAME};

		TOY(t, toy_new, cases[i].kernel, toy_small(cases[i].freed == 'M' ? "MM" : "UU"));
		capture.zone = t.zone;
		t.capture = &capture;
		toy_free_one(&t, 0, cases[i].order, (char)cases[i].freed);
		check((capture.frame == 0) == cases[i].captured);
	}
}
