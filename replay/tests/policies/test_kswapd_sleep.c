// SPDX-License-Identifier: Apache-2.0
/* The policy kswapd_sleep: when kswapd sleeps, and what wakes kcompactd. */
#include "check.h"
#include "reclaim_machine.h"

#include "model/watermark.h"

/*
 * Zones DMA and NORMAL, balanced or not, for both zone indices. In variant v4.10, kswapd sleeps
 * only if all zones are balanced; in the other variants, one is enough. In every variant, the
 * first balanced zone ends a pass.
 */
TEST(kswapd_sleeps_by_the_table_of_its_variant)
{
	static const struct {
		bool dma, normal; /* balanced */
		int class_zone;
		bool all, any;
	} rows[] = {
		{false, false, ZONE_DMA, false, false},    {true, false, ZONE_DMA, true, true},
		{false, true, ZONE_DMA, false, false},     {true, true, ZONE_DMA, true, true},
		{false, false, ZONE_NORMAL, false, false}, {true, false, ZONE_NORMAL, false, true},
		{false, true, ZONE_NORMAL, false, true},   {true, true, ZONE_NORMAL, true, true},
	};
	static const struct {
		const char *policy;
		bool all;
	} variants[] = {
		{"kswapd_sleep:variant=v4.10", true},
		{"kswapd_sleep:variant=fixcheck", false},
		{"kswapd_sleep:variant=clear", false},
		{"kswapd_sleep:variant=keepawake", false},
	};

	for (size_t i = 0; i < 4 * sizeof(rows) / sizeof(rows[0]); i++) {
		size_t row = i / 4, variant = i % 4;
		bool sleeps = variants[variant].all ? rows[row].all : rows[row].any;

		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", variants[variant].policy);
		w.toy.m->zones[DMA].lowmem_reserve[ZONE_NORMAL] = 0;
		make_free(&w, DMA, rows[row].dma ? 100 : 10, true);
		make_free(&w, NORMAL, rows[row].normal ? 400 : 50, true);
		check(kswapd_may_sleep(w.toy.m, 0, 0, rows[row].class_zone) == sleeps);
		check(kswapd_balanced(w.toy.m, 0, 0, rows[row].class_zone) == rows[row].any);
	}
}

TEST(only_keepawake_uses_the_zone_index_of_the_request)
{
	static const struct {
		const char *policy;
		int zone;
	} cases[] = {
		{"kswapd_sleep:variant=v4.10", ZONE_DMA},
		{"kswapd_sleep:variant=fixcheck", ZONE_DMA},
		{"kswapd_sleep:variant=clear", ZONE_DMA},
		{"kswapd_sleep:variant=keepawake", ZONE_NORMAL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", cases[i].policy);
		check(kswapd_default_zone(w.toy.m, ZONE_NORMAL) == cases[i].zone);
	}
}

/* Why compact_daemon_wake was 0 for 36 hours before the change, and 5160 in 10 hours after it. */
TEST(only_keepawake_wakes_kcompactd_for_high_orders)
{
	static const struct {
		const char *policy;
		uint64_t asked;
	} cases[] = {
		{"kswapd_sleep:variant=v4.10", 0},
		{"kswapd_sleep:variant=keepawake", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", cases[i].policy);
		/*
		 * NORMAL has enough pages to compact, but single ones. DMA is free, but its
		 * lowmem reserve leaves it unbalanced for NORMAL requests.
		 */
		make_free(&w, DMA, DMA_PAGES, false);
		make_free(&w, NORMAL, 4000, true);
		queue_pages(&w, 3000, 5000 * MS);
		reclaim_machine_start(&w);
		w.serve.at = 50;
		reclaim_run_wake_kswapd(&w.run, 0, 0, 9, ZONE_NORMAL);
		reclaim_run_until(&w.run, 50, 400 * MS);
		check(counters(&w, DMA)->order_resets == 1);
		check(counters(&w, DMA)->kcompactd_asked == cases[i].asked);
	}
}

TEST(a_request_wakes_kcompactd_instead_of_a_hopeless_kswapd_since_4_17)
{
	static const struct {
		const char *policy;
		uint64_t asked;
	} cases[] = {
		{"kswapd_sleep:kcompactd=callers", 1},
		{"kswapd_sleep:kcompactd=kswapd", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", cases[i].policy);
		make_free(&w, NORMAL, 4000, true);
		reclaim_machine_start(&w);
		/* kswapd has given up on the node. */
		w.run.kswapds[0].failures = 16;
		reclaim_run_wake_kswapd(&w.run, 0, 0, 9, ZONE_NORMAL);
		check(counters(&w, DMA)->kswapd_wakeups == 0);
		check(counters(&w, DMA)->kcompactd_asked == cases[i].asked);
	}
}
