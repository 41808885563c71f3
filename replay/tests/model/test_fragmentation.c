// SPDX-License-Identifier: Apache-2.0
/* The fragmentation index and score, by figures that kernels printed. */
#include "check.h"
#include "reclaim_machine.h"

#include "model/fragmentation.h"

/* With proactiveness 20, compaction starts above a score of 90 and ends at 80. */
TEST(the_score_marks_of_proactive_compaction_are_those_of_the_kernel)
{
	static const struct {
		const char *kernel;
		int proactiveness, low, high;
	} rows[] = {
		{"6.18", 20, 80, 90}, {"6.18", 0, 100, 100},   {"6.18", 90, 10, 15},
		{"6.18", 100, 0, 0},  {"6.1.192", 20, 80, 90}, {"6.1.192", 100, 5, 15},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct kernel *kernel;
		struct error err = {""};
		struct score_marks marks;

		must(kernel_find(&kernel, rows[i].kernel, &err), &err);
		marks = score_marks(kernel, rows[i].proactiveness);
		check(marks.low == rows[i].low);
		check(marks.high == rows[i].high);
	}
}

/* Free blocks by order, and the indices that Linux 6.18 printed for them. */
TEST(indices_are_those_that_the_kernel_printed)
{
	static const uint32_t blocks[] = {111, 22, 801, 190, 346, 67, 42, 118, 11, 0, 0};

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	reclaim_machine_start(&w);
	for (int order = 0; order <= 10; order++)
		normal_zone(&w)->nr_free[order][MIGRATETYPE_MOVABLE] = blocks[order];
	check(fragmentation_index(w.toy.m, normal_zone(&w), 8) == -1000);
	check(fragmentation_index(w.toy.m, normal_zone(&w), 9) == 962);
	check(fragmentation_index(w.toy.m, normal_zone(&w), 10) == 981);
	check(fragmentation_score_zone(w.toy.m, normal_zone(&w)) == 100);
	check(fragmentation_score_node(w.toy.m, 0) ==
	      (int)(NORMAL_PAGES * 100ull / (NORMAL_PAGES + DMA_PAGES + 1)));
	for (int order = 0; order <= 10; order++)
		normal_zone(&w)->nr_free[order][MIGRATETYPE_MOVABLE] = 0;
}

TEST(the_gap_of_compaction_is_at_most_32_pages_since_7_2)
{
	static const struct {
		const char *kernel;
		int order;
		int64_t gap;
	} cases[] = {{"6.18", 9, 1024}, {"7.1", 9, 1024}, {"7.2", 9, 32},
		     {"7.3", 9, 32},    {"7.2", 3, 16},   {"7.2", 4, 32}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("MM"));
		check(compact_gap(t.m, cases[i].order) == cases[i].gap);
	}
}

TEST(in_5_10_the_score_of_a_zone_counts_by_its_share_of_the_node)
{
	static const struct zone_spec zones[] = {
		{.type = ZONE_DMA32, .spanned = 32, .present = 32, .managed = 32},
		{.type = ZONE_NORMAL, .start_pfn = 32, .spanned = 96, .present = 96, .managed = 96},
	};
	const struct machine machine = toy_machine(4, 5);
	static const struct {
		const char *kernel;
		int score;
	} cases[] = {{"5.10", 24}, {"5.14", 100}, {"7.3", 100}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new_machine, cases[i].kernel, &machine, zones, 2);
		toy_add_free(&t, 0, 2, 'M');
		/* 32 * 100 / (128 + 1) */
		check(proactive_score_zone(t.m, &t.m->zones[0]) == cases[i].score);
		check(fragmentation_score_zone(t.m, &t.m->zones[0]) == 100);
	}
}
