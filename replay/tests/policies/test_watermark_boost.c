// SPDX-License-Identifier: Apache-2.0
/* The policy watermark_boost: which fallbacks ask for a boost, and the limit of the boost. */
#include "check.h"
#include "toy.h"

#include "model/watermark.h"

TEST(a_boost_stops_at_its_limit_and_its_time_is_counted)
{
	TOY(t, toy_new_under, "4.20", "watermark_boost:factor=20000",
	    (struct toy_geometry){4, 5, "MMMM", ZONE_DMA32});
	toy_pcp(&t, 1, 8);
	t.m->record->boost_acts = true;
	t.zone->wmark[WMARK_HIGH] = 20;
	for (uint32_t i = 0; i < 4; i++) {
		t.m->now.ts = 100 * i;
		toy_add_free(&t, 2 * i, 0, 'M');
		check(toy_alloc(&t, 0, 'R') == 2 * i);
		check(t.zone->boost == (i < 2 ? 16 * (int64_t)(i + 1) : 40));
	}
	check(t.pcp->counters.boost_asks == 4);
	check(t.pcp->counters.boost_saturated == 1);
	kswapd_begin(t.m, 0, ZONE_MOVABLE);
	t.m->now.ts = 1000;
	kswapd_end(t.m, 0);
	check(t.zone->boost == 0);
	check(t.pcp->counters.boosted_ns == 1000);
	check(t.pcp->counters.boost_saturated_ns == 800);
}

/* A fallback that cannot claim: one free page in a pageblock of used ones. */
TEST(trigger_claim_attempt_boosts_only_for_attempts_to_claim)
{
	static const struct {
		const char *kernel, *policy;
		char type;
		uint64_t asks;
	} cases[] = {
		{"4.20", "watermark_boost:trigger=every_fallback", 'M', 1},
		{"4.20", "watermark_boost:trigger=claim_attempt", 'M', 0},
		{"4.20", "watermark_boost:trigger=claim_attempt", 'R', 1},
		{"6.18", "watermark_boost:trigger=every_fallback", 'M', 1},
		{"6.18", "watermark_boost:trigger=claim_attempt", 'M', 0},
		{"6.18", "watermark_boost:trigger=claim_attempt", 'R', 1},
		{"6.18", "mainline", 'M', 0},
		{"6.18", "mainline", 'R', 1},
		{"6.14", "mainline", 'M', 1},
		{"4.20", "mainline", 'R', 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new_under, cases[i].kernel, cases[i].policy,
		    (struct toy_geometry){4, 5, "UUUU", ZONE_DMA32});
		toy_pcp(&t, 1, 8);
		t.zone->wmark[WMARK_HIGH] = 20;
		toy_add_free(&t, 0, 0, 'U');
		check(toy_alloc(&t, 0, cases[i].type) == 0);
		check(t.pcp->counters.boost_asks == cases[i].asks);
	}
}
