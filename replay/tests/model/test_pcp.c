// SPDX-License-Identifier: Apache-2.0
/*
 * The per-CPU page lists (PCPs): small situations, worked out by hand, in which kernels differ.
 * Pageblocks of 16 pages and a largest order of 5, unless a test says otherwise. TV1, TV7 to
 * TV10, TV12 and TV13 are the test vectors of the specification.
 */
#include "check.h"
#include "toy.h"

#include <string.h>

TEST(TV1_a_refill_hands_out_in_the_order_of_the_buddy)
{
	for_each_kernel(kernel, "4.20", "5.0", "5.10", "6.1.0", "6.1.192", "6.8", "6.18")
	{
		TOY(t, toy_new, *kernel, toy_small("MM"));
		toy_pcp(&t, 4, 8);
		toy_add_free(&t, 0, 4, 'M');
		toy_alloc(&t, 0, 'M');
		toy_alloc(&t, 0, 'M');
		check_text(toy_events(&t), "zl(0,0,M) zl(1,0,M) zl(2,0,M) zl(3,0,M) a(0) a(1)");
		check_text(toy_pcp_list(&t, 0, 'M'), "2 3");
		check_text(toy_list(&t, 2, 'M'), "4");
		check_text(toy_list(&t, 3, 'M'), "8");
	}
}

TEST(TV7_a_full_pcp_drains_by_the_rule_of_the_row)
{
	static const struct {
		const char *kernel, *drained, *m, *u, *r;
	} cases[] = {
		{"4.20", "d(0,M) d(32,R)", "2", "18 16", "36 34"},
		{"5.0", "d(0,M) d(32,R)", "2", "18 16", "36 34"},
		{"6.1.192", "d(32,R) d(34,R)", "2 0", "18 16", "36"},
		{"6.18", "d(32,R) d(34,R) d(16,U) d(18,U)", "2 0", "", "36"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static const uint32_t pfns[] = {0, 2, 16, 18, 32, 34};

		TOY(t, toy_new, cases[i].kernel, toy_small("MURM"));
		toy_pcp(&t, 2, 6);
		for (size_t f = 0; f < 5; f++)
			toy_free_page(&t, pfns[f], 0);
		check_text(toy_events(&t), "f(0) f(2) f(16) f(18) f(32)");
		zone_free(t.m, pfns[5], 0);
		check_text(toy_events(&t), cases[i].drained);
		zone_free(t.m, 36, 0);
		check_text(toy_events(&t), "");
		check_text(toy_pcp_list(&t, 0, 'M'), cases[i].m);
		check_text(toy_pcp_list(&t, 0, 'U'), cases[i].u);
		check_text(toy_pcp_list(&t, 0, 'R'), cases[i].r);
		if (!strcmp(cases[i].kernel, "6.18")) {
			check_text(toy_list(&t, 0, 'R'), "34 32");
			check_text(toy_list(&t, 0, 'U'), "18 16");
		}
	}
}

TEST(TV8_refills_grow_while_nothing_is_freed)
{
	for_each_kernel(kernel, "6.8", "6.12.19", "6.12.117", "6.18")
	{
		TOY(t, toy_new, *kernel, (struct toy_geometry){9, 10, "MM", ZONE_DMA32});
		t.pcp->batch = 4;
		t.pcp->high = t.pcp->high_min = 8;
		t.pcp->high_max = 64;
		toy_add_free(&t, 0, 10, 'M');
		for (uint64_t pfn = 0; pfn < 20; pfn++)
			check(toy_alloc(&t, 0, 'M') == pfn);
		check(t.pcp->counters.refills == 3 && t.pcp->counters.refill_pages == 28);
		check(t.pcp->alloc_factor == 3);
		check(t.pcp->high == 36);
		check(t.pcp->count == 8);
		check_text(toy_pcp_list(&t, 0, 'M'), "20 21 22 23 24 25 26 27");
		for (uint32_t pfn = 0; pfn < 16; pfn++)
			zone_free(t.m, pfn, 0);
		check(t.pcp->counters.drains == 0);
		check_text(toy_pcp_list(&t, 0, 'M'),
			   "15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 20 21 22 23 24 25 26 27");
		check(t.pcp->free_count == 16);
		check(t.pcp->alloc_factor == 0);
	}
}

TEST(TV9_high_orders_refill_by_pages)
{
	for_each_kernel(kernel, "6.1.0", "6.1.192", "6.18")
	{
		static const uint64_t pfns[] = {0, 64, 128, 192};
		static const int counts[] = {62, 122, 178, 226};
		struct toy t;

		toy_new(&t, *kernel, (struct toy_geometry){9, 10, "UUUU", ZONE_DMA32});
		toy_pcp(&t, 63, 378);
		toy_add_free(&t, 0, 10, 'U');
		for (int order = 0; order <= 3; order++) {
			check(toy_alloc(&t, order, 'U') == pfns[order]);
			check(t.pcp->count == counts[order]);
		}
		toy_events(&t);
		toy_add_free(&t, 1024, 9, 'U');
		toy_alloc(&t, 9, 'U');
		check_text(toy_events(&t), "zl(512,9,U) zl(1024,9,U) a(512)");
		check_text(toy_pcp_list(&t, 9, 'U'), "1024");
		toy_end(&t);
	}
	for_each_kernel(kernel, "4.20", "5.0", "5.10")
	{
		struct toy t;

		toy_new(&t, *kernel, (struct toy_geometry){9, 10, "UU", ZONE_DMA32});
		toy_add_free(&t, 0, 10, 'U');
		toy_alloc(&t, 1, 'U');
		check_text(toy_events(&t), "zl(0,1,U) a(0)");
		check(t.pcp->count == 0);
		toy_end(&t);
	}
}

TEST(TV10_a_block_that_changed_owner_and_its_pcp_pages)
{
	static const struct {
		const char *kernel, *events, *u, *m;
	} cases[] = {
		{"5.0", "d(0,M) d(2,U)", "2", "0"},
		{"6.1.0", "d(2,U) d(0,M)", "2", "0"},
		{"6.1.192", "d(2,U) d(0,M)", "2", "0"},
		{"6.18", "d(2,U) d(0,U)", "0 2", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("MM"));
		toy_pcp(&t, 2, 8);
		zone_free(t.m, 0, 0);
		set_block_type(t.m, 0, 0, MIGRATETYPE_UNMOVABLE);
		zone_free(t.m, 2, 0);
		toy_drain(&t);
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_list(&t, 0, 'U'), cases[i].u);
		check_text(toy_list(&t, 0, 'M'), cases[i].m);
	}
}

TEST(TV12_runs_of_high_order_frees_empty_the_pcp)
{
	static const struct {
		const char *kernel, *first, *second, *third;
	} cases[] = {
		{"6.1.192", "d(64,M)", "d(72,M) d(0,M) d(2,M) d(4,M) d(6,M) d(8,M) d(10,M) d(12,M)",
		 "d(80,M)"},
		{"6.18", "d(64,M) d(0,M) d(2,M)", "d(72,M) d(4,M) d(6,M) d(8,M) d(10,M) d(12,M)",
		 "d(80,M)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("MMMMMM"));
		toy_pcp(&t, 2, 8);
		for (uint32_t pfn = 0; pfn <= 12; pfn += 2)
			zone_free(t.m, pfn, 0);
		check_text(toy_events(&t), "");
		zone_free(t.m, 64, 2);
		check_text(toy_events(&t), cases[i].first);
		zone_free(t.m, 72, 2);
		check_text(toy_events(&t), cases[i].second);
		zone_free(t.m, 80, 2);
		check_text(toy_events(&t), cases[i].third);
	}
}

TEST(TVC_each_piece_of_an_overflow_takes_whole_entries)
{
	static const struct {
		const char *kernel, *events, *left;
		uint32_t lock_holds;
	} cases[] = {
		{"6.18", "f(2048) d(0,M)", "2048 1536 1024 512", 1},
		{"6.19", "f(2048) d(0,M) d(512,M)", "2048 1536 1024", 2},
		{"7.3", "f(2048) d(0,M) d(512,M)", "2048 1536 1024", 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel,
		    (struct toy_geometry){9, 10, "MMMMMM", ZONE_DMA32});
		toy_pcp(&t, 63, 4096);
		for (uint32_t pfn = 0; pfn < 2048; pfn += 512)
			toy_free_page(&t, pfn, 9);
		/* The fifth entry overflows the list by 100 pages: pieces of 63 and 37. */
		toy_pcp(&t, 63, 163);
		toy_events(&t);
		t.pcp->counters.lock_holds = 0;
		toy_free_page(&t, 2048, 9);
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_pcp_list(&t, 9, 'M'), cases[i].left);
		check(t.pcp->counters.drains == 1);
		check(t.pcp->counters.lock_holds == cases[i].lock_holds);
	}
}

TEST(a_recorded_number_of_drained_pages_is_not_cut_into_pieces)
{
	const struct free_request recorded = {.drain_pages = 1024};

	TOY(t, toy_new, "6.19", (struct toy_geometry){9, 10, "MMMMMM", ZONE_DMA32});
	toy_pcp(&t, 63, 4096);
	for (uint32_t pfn = 0; pfn < 2048; pfn += 512)
		toy_free_page(&t, pfn, 9);
	zone_free_as(t.m, 2048, 9, &recorded);
	check_text(toy_pcp_list(&t, 9, 'M'), "2048 1536 1024");
}

TEST(TV13_reserve_pages_leak_in_2_6_32_and_no_more_in_2_6_33)
{
	static const struct {
		const char *kernel, *events, *movable, *reserve;
	} cases[] = {
		{"2.6.32", "f(100) d(100,M)", "100", ""},
		{"2.6.33", "f(100) d(100,V)", "", "100"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("MMMMMMVM"));
		toy_pcp(&t, 1, 1);
		toy_free_page(&t, 100, 0);
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_list(&t, 0, 'M'), cases[i].movable);
		check_text(toy_list(&t, 0, 'V'), cases[i].reserve);
	}
}

TEST(only_2_6_kernels_know_cold_pages)
{
	static const struct {
		const char *kernel;
		uint64_t pfn;
	} cases[] = {{"2.6.31", 3}, {"2.6.33", 3}, {"4.20", 1}, {"6.18", 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("MM"));
		toy_pcp(&t, 4, 8);
		toy_add_free(&t, 0, 4, 'M');
		check(toy_alloc(&t, 0, 'M') == 0);
		t.gfp_flags = GFP_COLD;
		check(toy_alloc(&t, 0, 'M') == cases[i].pfn);
	}
}

TEST(a_refill_of_the_mixed_list_goes_before_its_old_pages)
{
	TOY(t, toy_new, "2.6.31", toy_small("UM"));
	toy_pcp(&t, 2, 8);
	toy_add_free(&t, 16, 1, 'M');
	zone_free(t.m, 1, 0);
	check(toy_alloc(&t, 0, 'M') == 16);
	check_text(toy_events(&t), "zl(16,0,M) zl(17,0,M) a(16)");
	check_text(toy_pcp_list(&t, 0, 'U'), "17 1");
}

TEST(draining_all_goes_from_cpu_to_cpu)
{
	static const struct zone_spec zones[] = {
		{.type = ZONE_DMA32, .spanned = 32, .present = 32, .managed = 32},
		{.type = ZONE_NORMAL, .start_pfn = 32, .spanned = 32, .present = 32, .managed = 32},
	};

	for_each_kernel(kernel, "2.6.33", "4.20", "5.19", "6.1.0", "6.18")
	{
		TOY(t, toy_new_machine, *kernel, &toy_two_cpus, zones, 2);
		for (uint16_t cpu = 0; cpu < 2; cpu++) {
			t.m->now.cpu = cpu;
			for (int i = 0; i < 2; i++)
				zone_pcp(t.m, &t.m->zones[i], cpu)->high =
					zone_pcp(t.m, &t.m->zones[i], cpu)->high_min = 8;
			zone_free(t.m, 4u * cpu, 0);
			zone_free(t.m, 32u + 4u * cpu, 0);
		}
		check_text(toy_events(&t), "");
		toy_drain(&t);
		check(t.m->now.cpu == 1);
		/* Up to 5.19 each CPU drains its own lists, later the caller drains all. */
		for (int i = 0; i < 4; i++)
			check(t.m->pcps[i].counters.drains ==
			      (t.m->kernel->drain_all_remote ? 2u * t.m->pcps[i].cpu : 1));
		check_text(toy_events(&t), "d(0,M) d(32,M) d(4,M) d(36,M)");
	}
}

TEST(a_decay_in_a_tick_lets_a_remote_pcp_idle_anew)
{
	static const struct zone_spec zone = {
		.type = ZONE_NORMAL, .spanned = 32, .present = 32, .managed = 32};
	static const uint16_t cpu_nodes[] = {1};
	static const uint8_t distances[] = {10, 20, 20, 10};
	static const struct machine remote = {
		.pageblock_order = 4,
		.max_order = 5,
		.nr_cpus = 1,
		.nr_nodes = 2,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances,
	};
	/* The first tick lowers high to 14 and drains a page. The next three find the PCP idle. */
	static const int counts[] = {14, 14, 14, 12};

	TOY(t, toy_new_machine, "6.18", &remote, &zone, 1);
	toy_pcp(&t, 2, 14);
	t.pcp->high = t.pcp->high_max = 16;
	for (uint32_t pfn = 0; pfn < 15; pfn++)
		toy_free_page(&t, pfn, 0);
	check(t.pcp->count == 15);
	for (size_t tick = 0; tick < sizeof(counts) / sizeof(counts[0]); tick++) {
		pcp_tick(t.m, 0);
		check(t.pcp->count == counts[tick]);
	}
}

TEST(lists_are_sized_by_the_low_watermark_and_an_eighth_of_the_zone)
{
	static const uint16_t cpu_nodes[] = {0, 0};
	struct machine machine = toy_machine(9, 10);
	const struct zone_spec spec = {.type = ZONE_NORMAL,
				       .spanned = 2048,
				       .present = 2048,
				       .managed = 2048,
				       .wmark = {14770, 20164, 25558}};

	machine.nr_cpus = 2;
	machine.cpu_nodes = cpu_nodes;
	TOY(t, toy_new_machine, "6.18", &machine, &spec, 1);
	t.zone->managed = 5394267;
	pcp_size(t.m, t.zone, t.pcp, 0);
	check(t.pcp->batch == 63);
	check(t.pcp->high_min == 10082 && t.pcp->high_max == 337141);
	pcp_size(t.m, t.zone, t.pcp, 8);
	check(t.pcp->high_min == 337141 && t.pcp->high_max == 337141);
}

/* zone_batchsize, 6.18: 1 MiB in pages, a quarter of it, less one below a power of two. */
TEST(a_batch_is_fewer_pages_if_they_are_larger)
{
	static const struct {
		const char *kernel;
		uint32_t page_bytes;
		int batch;
	} cases[] = {
		{"6.18", 4 << 10, 63},   {"6.18", 16 << 10, 15},  {"6.18", 64 << 10, 3},
		{"2.6.33", 4 << 10, 31}, {"2.6.33", 16 << 10, 7}, {"2.6.33", 64 << 10, 1},
	};
	const struct zone_spec spec = {
		.type = ZONE_NORMAL, .spanned = 8192, .present = 8192, .managed = 8192};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine machine = toy_machine(13, 13);

		machine.page_bytes = cases[i].page_bytes;
		TOY(t, toy_new_machine, cases[i].kernel, &machine, &spec, 1);
		t.zone->managed = 5394267;
		pcp_size(t.m, t.zone, t.pcp, 0);
		check(t.pcp->batch == cases[i].batch);
	}
}

/* __rmqueue compares the zone's counters, which lag behind by up to the threshold of 2. */
TEST(a_refill_compares_the_counters_of_free_and_CMA_pages)
{
	TOY(t, toy_new, "6.12.117", toy_small("MC"));
	toy_pcp(&t, 9, 64);
	toy_add_free(&t, 0, 4, 'M');
	toy_add_free(&t, 16, 4, 'C');
	t.zone->stat_threshold = 2;
	toy_alloc(&t, 0, 'M');
	check_text(toy_events(&t), "zl(0,0,M) zl(1,0,M) zl(2,0,M) zl(16,0,C) zl(17,0,C) zl(18,0,C) "
				   "zl(3,0,M) zl(4,0,M) zl(5,0,M) a(0)");
}

TEST(the_largest_drain_of_a_free_depends_on_the_tuning)
{
	static const struct {
		const char *kernel;
		int high, most;
	} cases[] = {
		{"2.6.33", 100, 7},
		{"6.1.192", 100, 93},
		{"6.12.117", 1000, 7 << 5},
		{"6.12.117", 100, 93},
	};
	const struct zone_spec spec = {
		.type = ZONE_NORMAL, .spanned = 1024, .present = 1024, .managed = 1024};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine machine = toy_machine(9, 10);

		TOY(t, toy_new_machine, cases[i].kernel, &machine, &spec, 1);
		t.pcp->batch = 7;
		t.pcp->high = t.pcp->high_min = t.pcp->high_max = cases[i].high;
		check(pcp_overflow_most(t.m, t.pcp) == cases[i].most);
	}
}

TEST(one_zone_is_drained_alone)
{
	const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_DMA, 0), TOY_ZONE(0, ZONE_NORMAL, 32)};
	const struct machine machine = toy_machine(4, 5);

	TOY(t, toy_new_machine, "6.18", &machine, zones, 2);
	for (int i = 0; i < 2; i++) {
		t.m->pcps[i].batch = 4;
		t.m->pcps[i].high = t.m->pcps[i].high_min = t.m->pcps[i].high_max = 8;
		zone_free(t.m, t.m->zones[i].start, 0);
	}
	pcp_drain_zone(t.m, &t.m->zones[1]);
	check(t.m->pcps[0].count == 1);
	check(t.m->pcps[1].count == 0);
}
