// SPDX-License-Identifier: Apache-2.0
/*
 * One scan of the zonelist: ALLOC_NOFRAGMENT (test vector TV6 of the specification), and the
 * zone_locked events of a scan. Pageblocks of 16 pages, largest order 5.
 */
#include "check.h"
#include "toy.h"

#include "freerun/zone_lock_queue.h"
#include "model/scan_effects.h"
#include "model/watermark.h"
#include "model/zonelist_scan.h"

TEST(TV6_a_pass_that_refuses_to_mix_leaves_its_mark_on_the_pcp)
{
	static const struct {
		const char *kernel, *events, *pcp, *order1;
		uint64_t retries;
	} cases[] = {
		{"5.0", "x(0,0,3,U,M,1) zl(0,0,U) zl(1,0,U) a(0)", "1", "2", 0},
		{"6.1.0", "x(0,0,3,U,M,1) zl(0,0,U) zl(1,0,U) a(0)", "1", "2", 1},
		{"6.1.192", "x(0,0,3,U,M,1) zl(0,0,U) zl(1,0,U) a(0)", "1", "2", 1},
		{"6.18", "zl(0,0,U) x(0,0,3,U,M,1) zl(1,0,U) zl(2,0,U) zl(3,0,U) a(0)", "1 2 3", "",
		 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy_geometry geometry = toy_small("MM");

		geometry.zone = ZONE_NORMAL;
		TOY(t, toy_new, cases[i].kernel, geometry);
		toy_pcp(&t, 2, 8);
		toy_add_free(&t, 0, 3, 'M');
		toy_alloc(&t, 0, 'U');
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_pcp_list(&t, 0, 'U'), cases[i].pcp);
		check_text(toy_list(&t, 1, 'U'), cases[i].order1);
		check_text(toy_list(&t, 2, 'U'), "4");
		check(t.pcp->counters.nofragment_retries == cases[i].retries);
	}
}

TEST(zone_locked_with_nothing_found_ended_with_5_0)
{
	static const struct {
		const char *kernel, *events;
	} cases[] = {
		{"2.6.33", "zl(-1,1,V) a(-1)"},
		{"5.0", "zl(-1,1,U) a(-1)"},
		{"5.10", "a(-1)"},
		{"5.14", "a(-1)"},
		{"6.18", "a(-1)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("UM"));
		toy_add_free(&t, 0, 0, 'U');
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		toy_alloc(&t, 1, 'U');
		check_text(toy_events(&t), cases[i].events);
	}
}

TEST(zone_locked_of_2_6_reports_pages_of_the_reserve)
{
	TOY(t, toy_new, "2.6.33", toy_small("MV"));
	toy_pcp(&t, 1, 8);
	toy_add_free(&t, 0, 0, 'M');
	toy_add_free(&t, 16, 0, 'V');
	toy_alloc(&t, 0, 'U');
	toy_alloc(&t, 0, 'U');
	check_text(toy_events(&t), "x(0,0,0,U,M,0) zl(0,0,U) a(0) zl(16,0,V) a(16)");
}

TEST(a_boost_wakes_kswapd_for_any_request_up_to_6_1)
{
	static const struct {
		const char *kernel;
		uint64_t wakes;
	} cases[] = {{"5.10", 1}, {"6.1.192", 1}, {"6.5", 0}, {"6.12.117", 0}, {"7.3", 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("UU"));
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 3, 'U');
		t.zone->boosted_watermark = true;
		t.gfp_flags = 0;
		toy_alloc(&t, 0, 'U');
		check(t.pcp->counters.slowpath_wake_calls == cases[i].wakes);
		check(t.zone->boosted_watermark == !cases[i].wakes);
		t.gfp_flags = GFP_KSWAPD_RECLAIM;
		toy_alloc(&t, 0, 'U');
		check(t.pcp->counters.slowpath_wake_calls == 1);
		check(!t.zone->boosted_watermark);
	}
}

static void begin_pass(struct model *m)
{
	kswapd_begin(m, 0, ZONE_NORMAL);
}

static void wake_only(struct model *m)
{
	kswapd_woken(m, 0);
}

TEST(nodes_whose_kswapd_is_awake_are_tried_last_since_6_18)
{
	static const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_NORMAL, 0),
						 TOY_ZONE(1, ZONE_NORMAL, 32)};
	static const struct {
		const char *kernel;
		uint32_t pfn;
		void (*wake)(struct model *m);
	} cases[] = {
		{"6.17", 0, begin_pass}, {"6.18", 32, begin_pass}, {"7.3", 32, begin_pass},
		{"6.17", 0, wake_only},  {"6.18", 32, wake_only},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new_machine, cases[i].kernel, &toy_two_nodes, zones, 2);
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 3, 'U');
		t.zone = &t.m->zones[1];
		toy_add_free(&t, 32, 3, 'U');
		cases[i].wake(t.m);
		check(kswapd_awake(t.m, 0) && !kswapd_awake(t.m, 1));
		check(toy_alloc(&t, 3, 'U') == cases[i].pfn);
		/* Nothing else is left: the other node, awake or not. */
		check(toy_alloc(&t, 3, 'U') == 32 - cases[i].pfn);
		check(t.pcp->counters.below_low == 0);
		kswapd_begin(t.m, 0, ZONE_NORMAL);
		kswapd_end(t.m, 0);
		check(!kswapd_awake(t.m, 0));
	}
}

/* A node that could have served the request was passed over; one that could not was tried. */
TEST(a_scan_leaves_no_trace_on_a_node_that_it_passed_over)
{
	static const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_NORMAL, 0),
						 TOY_ZONE(1, ZONE_NORMAL, 32)};
	static const struct {
		const char *kernel;
		uint64_t high; /* watermark; 8 pages are free */
		int low;
		int free_count; /* of the PCP on node 0, 8 before */
		bool below_high;
	} cases[] = {
		{"6.17", 100, 0, 4, true}, {"6.18", 100, 0, 8, false}, {"6.18", 100, 50, 8, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct request rq = {
			.order = 0, .migratetype = MIGRATETYPE_MOVABLE, .class_zone = ZONE_NORMAL};

		TOY(t, toy_new_machine, cases[i].kernel, &toy_two_nodes, zones, 2);
		toy_pcp(&t, 1, 8);
		t.pcp->free_count = 8;
		toy_add_free(&t, 0, 3, 'M');
		t.m->zones[0].wmark[WMARK_LOW] = cases[i].low;
		t.m->zones[0].wmark[WMARK_HIGH] = (int64_t)cases[i].high;
		zone_scan_effects(t.m, &rq, &t.m->zones[1], true);
		check(t.pcp->free_count == cases[i].free_count);
		check(t.m->zones[0].below_high == cases[i].below_high);
	}
}

TEST(highmem_alone_means_normal_without_a_highmem_zone)
{
	static const struct {
		uint8_t upper;
		uint64_t below_low; /* the lower zone has less than its reserve against Normal */
	} cases[] = {{ZONE_NORMAL, 1}, {ZONE_HIGHMEM, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct zone_spec zones[] = {TOY_ZONE(0, ZONE_DMA32, 0),
					    TOY_ZONE(0, cases[i].upper, 32)};

		zones[0].lowmem_reserve[ZONE_NORMAL] = 100;
		TOY(t, toy_new_machine, "6.18", &toy_two_nodes, zones, 2);
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 3, 'M');
		t.gfp_flags = GFP_HIGHMEM;
		toy_alloc(&t, 0, 'M');
		check(zone_counters(t.m, &t.m->zones[1])->below_low == cases[i].below_low);
	}
}
