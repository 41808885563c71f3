// SPDX-License-Identifier: Apache-2.0
/*
 * Watermarks, their boost, and the flags that let a request go below them. The figures come from a
 * machine of 24 GiB: vm.min_free_kbytes 67584, vm.watermark_scale_factor 10.
 */
#include "check.h"
#include "toy.h"

#include "model/watermark.h"

TEST(atomic_requests_with_nomemalloc_have_no_access_to_the_reserve_since_4_20)
{
	static const struct {
		const char *kernel;
		uint64_t below_min;
	} cases[] = {{"2.6.32", 0}, {"4.20", 1}, {"6.18", 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, toy_small("UUUU"));
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 4, 'U');
		t.zone->wmark[WMARK_HIGH] = t.zone->wmark[WMARK_LOW] = 100;
		t.zone->wmark[WMARK_MIN] = 32; /* 16 with HIGH, 12 with HARDER */
		t.gfp_flags = GFP_HIGH | GFP_NOMEMALLOC;
		check(toy_alloc(&t, 0, 'U') == 0);
		check(t.pcp->counters.below_min == cases[i].below_min);
	}
}

/* That machine's zone Normal, with vm.watermark_boost_factor 15000. */
TEST(a_large_zone_is_boosted_by_at_most_38337_pages_after_75_fallbacks)
{
	const struct machine machine = toy_machine(9, 10);
	const struct zone_spec zone = {.type = ZONE_NORMAL,
				       .spanned = 2048,
				       .present = 2048,
				       .managed = 2048,
				       .wmark = {14770, 20164, 25558}};
	int64_t most;

	TOY(t, toy_new_machine, "5.10", &machine, &zone, 1);
	t.m->record->boost_acts = true;
	most = boost_limit(t.m, t.zone, 15000);
	check(most == 38337);
	check(boost_limit(t.m, t.zone, 0) == 0);
	check(boost_limit(t.m, t.zone, 1) == 512);
	for (int i = 1; i <= 74; i++)
		boost_zone(t.m, t.zone, most);
	check(t.zone->boost == 74 * 512 && !t.zone->boost_full);
	boost_zone(t.m, t.zone, most);
	check(t.zone->boost == 38337 && t.zone->boost_full);
	check(t.pcp->counters.boost_saturated == 0);
	boost_zone(t.m, t.zone, most);
	check(t.zone->boost == 38337 && t.pcp->counters.boost_saturated == 1);
	check(zone_mark(t.zone, WMARK_LOW) == 20164 + 38337);
	t.zone->managed = 2047;
	check(boost_limit(t.m, t.zone, 15000) == 0);
}

/* That machine's zone DMA32: min 2115, and a reserve of 21071 pages against Normal requests. */
TEST(a_zone_serves_requests_that_leave_its_watermark_and_its_reserve)
{
	static const struct {
		const char *kernel;
		uint32_t flags;
		uint8_t class_zone;
		uint64_t last_refused;
	} cases[] = {
		{"6.18", 0, ZONE_DMA32, 2115},
		{"6.18", 0, ZONE_NORMAL, 2115 + 21071},
		{"6.18", ALLOC_HIGH, ZONE_NORMAL, 1058 + 21071},
		{"6.18", ALLOC_HIGH | ALLOC_HARDER, ZONE_NORMAL, 794 + 21071},
		{"6.18", ALLOC_HARDER, ZONE_NORMAL, 2115 + 21071},
		{"6.1.0", ALLOC_HARDER, ZONE_NORMAL, 1587 + 21071},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct request rq = {.class_zone = cases[i].class_zone,
					   .flags = cases[i].flags};

		TOY(t, toy_new, cases[i].kernel, (struct toy_geometry){4, 5, "MMMM", ZONE_DMA32});
		t.zone->lowmem_reserve[ZONE_NORMAL] = 21071;
		t.zone->nr_free_pages = cases[i].last_refused;
		check(!watermark_ok(t.m, t.zone, &rq, 2115));
		t.zone->nr_free_pages++;
		check(watermark_ok(t.m, t.zone, &rq, 2115));
		t.zone->nr_free_pages = 0;
	}
}

TEST(many_boosts_at_once_are_as_many_single_ones)
{
	static const int64_t most[] = {15, 16, 17, 100, 3};

	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++)
		for (int64_t times = 0; times < 12; times++) {
			struct toy one, all;

			toy_new(&one, "6.18", toy_small("MM"));
			toy_new(&all, "6.18", toy_small("MM"));
			one.m->record->boost_acts = all.m->record->boost_acts = true;
			one.zone->boost = all.zone->boost = 5;
			for (int64_t n = 0; n < times; n++)
				boost_zone(one.m, one.zone, most[i]);
			boost_zone_times(all.m, all.zone, most[i], times);
			check(one.zone->boost == all.zone->boost);
			check(one.zone->boost_full == all.zone->boost_full);
			check(one.pcp->counters.boost_asks == all.pcp->counters.boost_asks);
			check(one.pcp->counters.boost_saturated ==
			      all.pcp->counters.boost_saturated);
			toy_free(&one);
			toy_free(&all);
		}
}

TEST(a_boost_above_min_does_not_count_for_the_row_s_right)
{
	static const struct {
		const char *kernel;
		uint32_t gfp_flags;
		bool ok;
	} cases[] = {
		{"5.0", GFP_HIGH | GFP_ATOMIC, false},
		{"5.10", GFP_HIGH | GFP_ATOMIC, true},
		{"5.10", GFP_HIGH | GFP_DIRECT_RECLAIM, false},
		{"6.1.192", GFP_HIGH | GFP_DIRECT_RECLAIM, false},
		{"6.1.192", GFP_HIGH, true}, /* as a later kernel says GFP_ATOMIC */
		{"6.5", GFP_HIGH | GFP_DIRECT_RECLAIM, true},
		{"7.3", GFP_HIGH | GFP_DIRECT_RECLAIM, true},
		{"7.3", 0, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request rq = {.gfp_flags = cases[i].gfp_flags};

		TOY(t, toy_new, cases[i].kernel, toy_small("UUUU"));
		toy_add_free(&t, 0, 4, 'U');
		t.zone->wmark[WMARK_MIN] = 10;
		t.zone->boost = 100;
		rq.flags = cases[i].gfp_flags & GFP_HIGH ? ALLOC_HIGH : 0;
		check(watermark_fast(t.m, t.zone, &rq, WMARK_MIN) == cases[i].ok);
		check(!watermark_fast(t.m, t.zone, &rq, WMARK_LOW));
	}
}
