// SPDX-License-Identifier: Apache-2.0
/*
 * Reclaim that the model runs itself: when kswapd sleeps, what it takes, what it wakes.
 */
#include "check.h"
#include "reclaim/compact_model.h"
#include "machinery.h"
#include "model/watermark.h"

#include <stdlib.h>
#include <string.h>

/*
 * Zones DMA and NORMAL, balanced or not, for either zone index: 4.10 sleeps only if all
 * are, all others do if one is. Balancing stops at the first in every variant.
 */
static void kswapd_sleeps_by_the_table_of_its_variant(void)
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
		struct machinery w;

		machinery_new(&w, "6.18", variants[variant].policy);
		w.toy.m->zones[DMA].lowmem_reserve[ZONE_NORMAL] = 0;
		make_free(&w, DMA, rows[row].dma ? 100 : 10, true);
		make_free(&w, NORMAL, rows[row].normal ? 400 : 50, true);
		check(kswapd_may_sleep(w.toy.m, 0, 0, rows[row].class_zone) == sleeps);
		check(kswapd_balanced(w.toy.m, 0, 0, rows[row].class_zone) == rows[row].any);
		machinery_free(&w);
	}
}

static void only_keepawake_keeps_the_zone_that_was_asked_for(void)
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
		struct machinery w;

		machinery_new(&w, "6.18", cases[i].policy);
		check(kswapd_default_zone(w.toy.m, ZONE_NORMAL) == cases[i].zone);
		machinery_free(&w);
	}
}

static void a_high_order_is_balanced_by_one_block_and_a_reserve_is_kept(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 400, true);
	check(zone_balanced(w.toy.m, &w.toy.m->zones[NORMAL], 0, ZONE_NORMAL));
	check(!zone_balanced(w.toy.m, &w.toy.m->zones[NORMAL], 3, ZONE_NORMAL));
	make_free(&w, DMA, DMA_PAGES / 2, false);
	check(zone_balanced(w.toy.m, &w.toy.m->zones[DMA], 3, ZONE_DMA));
	check(!zone_balanced(w.toy.m, &w.toy.m->zones[DMA], 0, ZONE_NORMAL));
	machinery_free(&w);
}

static void defrag_mode_counts_whole_pageblocks_only(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", "defrag_mode");
	make_free(&w, NORMAL, 4000, true);
	check(zone_free_for(w.toy.m, &w.toy.m->zones[NORMAL], 0) == 4000);
	check(zone_free_for(w.toy.m, &w.toy.m->zones[NORMAL], 3) == 0);
	toy_add_free(&w.toy, w.toy.m->zones[NORMAL].start + 20 * BLOCK, 9, 'M');
	check(zone_free_for(w.toy.m, &w.toy.m->zones[NORMAL], 3) == BLOCK);
	machinery_free(&w);
}

static void kswapd_takes_from_the_queue_until_a_zone_is_balanced(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 1000, 5000 * MS);
	machinery_start(&w);
	w.serve.at = 50;
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.feedback, 50, 1000 * MS);
	check(zone_balanced(w.toy.m, &w.toy.m->zones[NORMAL], 0, ZONE_NORMAL));
	check(counters(&w, DMA)->kswapd_wakeups == 1);
	check(counters(&w, DMA)->kswapd_passes == 1);
	check(counters(&w, DMA)->kswapd_sleeps == 1);
	check(counters(&w, NORMAL)->reclaimed_pages >= 250);
	check(counters(&w, NORMAL)->reclaimed_pages < 600);
	check(counters(&w, NORMAL)->early_reclaim_pages == counters(&w, NORMAL)->reclaimed_pages);
	check(counters(&w, DMA)->reclaim_deficit_pages == 0);
	check(w.feedback.kswapds[0].state == KSWAPD_ASLEEP);
	machinery_free(&w);
}

static void a_hopeless_kswapd_gives_up_after_16_passes(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	machinery_start(&w);
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.feedback, 50, 1000 * MS);
	check(counters(&w, DMA)->kswapd_passes == 16);
	check(counters(&w, DMA)->kswapd_sleeps == 1);
	check(counters(&w, DMA)->reclaim_deficit_pages > 0);
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	check(counters(&w, DMA)->kswapd_wakeups == 1);
	machinery_free(&w);
}

static void kswapd_takes_only_pages_of_the_zones_it_was_woken_for(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 400, true);
	queue_pages(&w, 1000, 5000 * MS);
	machinery_start(&w);
	w.serve.at = 50;
	check(!reclaim_supply_waits(&w.feedback.supply, 0, ZONE_DMA));
	check(reclaim_supply_waits(&w.feedback.supply, 0, ZONE_NORMAL));
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_DMA);
	reclaim_run_until(&w.feedback, 50, 1000 * MS);
	check(counters(&w, DMA)->kswapd_passes == 16);
	check(counters(&w, DMA)->reclaim_deficit_pages > 0);
	check(counters(&w, NORMAL)->reclaimed_pages == 0);
	machinery_free(&w);
}

static void a_call_after_the_nap_keeps_kswapd_from_sleeping(void)
{
	struct machinery w;
	struct kswapd *k;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 1000, 5000 * MS);
	machinery_start(&w);
	w.serve.at = 50;
	w.feedback.services.wake.nr = 1;
	w.feedback.services.wake.rows[0].ns = 7 * MS;
	k = &w.feedback.kswapds[0];
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	for (uint64_t ms = 1; k->state != KSWAPD_NAPPED; ms++)
		reclaim_run_until(&w.feedback, 50, ms * MS);
	/* As much as it has freed is handed out again. */
	w.toy.m->zones[NORMAL].wmark[WMARK_HIGH] += 400;
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	check(k->state == KSWAPD_NAPPED);
	check(counters(&w, DMA)->kswapd_wakeups == 2);
	reclaim_run_until(&w.feedback, 50, w.toy.m->now.ts + 8 * MS);
	check(counters(&w, DMA)->kswapd_passes == 2);
	check(counters(&w, DMA)->kswapd_sleeps == 0);
	machinery_free(&w);
}

/* The explanation of compact_daemon_wake: 0 in a day and a half, 5160 in ten hours after. */
static void kcompactd_hears_of_high_orders_only_from_keepawake(void)
{
	static const struct {
		const char *policy;
		uint64_t asked;
	} cases[] = {
		{"kswapd_sleep:variant=v4.10", 0},
		{"kswapd_sleep:variant=keepawake", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machinery w;

		machinery_new(&w, "6.18", cases[i].policy);
		/*
		 * Enough in NORMAL to compact, but in single pages. DMA is always free, and
		 * never balanced for NORMAL, for which it keeps a reserve.
		 */
		make_free(&w, DMA, DMA_PAGES, false);
		make_free(&w, NORMAL, 4000, true);
		queue_pages(&w, 3000, 5000 * MS);
		machinery_start(&w);
		w.serve.at = 50;
		reclaim_run_wake_kswapd(&w.feedback, 0, 0, 9, ZONE_NORMAL);
		reclaim_run_until(&w.feedback, 50, 400 * MS);
		check(counters(&w, DMA)->order_resets == 1);
		check(counters(&w, DMA)->kcompactd_asked == cases[i].asked);
		machinery_free(&w);
	}
}

static void a_request_that_needs_no_kswapd_wakes_kcompactd_since_4_17(void)
{
	static const struct {
		const char *policy;
		uint64_t asked;
	} cases[] = {
		{"kswapd_sleep:kcompactd=callers", 1},
		{"kswapd_sleep:kcompactd=kswapd", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machinery w;

		machinery_new(&w, "6.18", cases[i].policy);
		make_free(&w, NORMAL, 4000, true);
		machinery_start(&w);
		/* It has given up. */
		w.feedback.kswapds[0].failures = 16;
		reclaim_run_wake_kswapd(&w.feedback, 0, 0, 9, ZONE_NORMAL);
		check(counters(&w, DMA)->kswapd_wakeups == 0);
		check(counters(&w, DMA)->kcompactd_asked == cases[i].asked);
		machinery_free(&w);
	}
}

static void a_boosted_pass_takes_back_the_boost_and_asks_for_whole_pageblocks(void)
{
	struct machinery w;
	struct zone *zone;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 4000, true);
	queue_pages(&w, 1000, 5000 * MS);
	machinery_start(&w);
	w.serve.at = 50;
	zone = &w.toy.m->zones[NORMAL];
	boost_zone(w.toy.m, zone, 450);
	check(zone->boost == 450);
	w.toy.m->reclaim_ops->wake_boosted(&w.feedback, zone);
	reclaim_run_until(&w.feedback, 50, 400 * MS);
	check(zone->boost == 0);
	check(counters(&w, NORMAL)->reclaimed_pages == 450 ||
	      counters(&w, NORMAL)->reclaimed_pages == 480);
	check(counters(&w, DMA)->kcompactd_asked == 1);
	machinery_free(&w);
}

static void pages_not_needed_are_saved_and_withheld_frees_are_not_served(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 1000, true);
	queue_pages(&w, 10, 5000 * MS);
	machinery_start(&w);
	check(!reclaim_supply_withholds(&w.feedback.supply, 99));
	for (uint64_t at = 100; at < 110; at++)
		check(reclaim_supply_withholds(&w.feedback.supply, at));
	w.serve.at = 120;
	w.toy.m->now.ts = 6000 * MS;
	check(reclaim_supply_take(&w.feedback.supply, 0, ZONE_NORMAL, 4) == 4);
	reclaim_supply_finish(&w.feedback.supply);
	check(counters(&w, NORMAL)->reclaim_saved_pages == 6);
	check(counters(&w, NORMAL)->early_reclaim_pages == 0);
	machinery_free(&w);
}

static void a_page_of_the_queue_is_followed_behind_one_that_is_gone(void)
{
	struct machinery w;
	uint32_t place;

	machinery_new(&w, "6.18", NULL);
	queue_pages(&w, 2, 5000 * MS);
	machinery_start(&w);
	w.feedback.supply.rows[0].taken = true;
	check(reclaim_supply_withholds(&w.feedback.supply, 100));
	check(reclaim_supply_withholds(&w.feedback.supply, 101));
	place = w.feedback.supply.rows[1].frame;
	reclaim_supply_moved(&w.feedback.supply, place, place - 1);
	check(w.feedback.supply.rows[1].frame == place - 1);
	machinery_free(&w);
}

static void a_page_is_not_reclaimed_before_it_is_allocated(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	queue_pages(&w, 2, 5000 * MS);
	w.feedback.supply.rows[0].since = 80;
	machinery_start(&w);
	w.serve.at = 50;
	check(reclaim_supply_take(&w.feedback.supply, 0, ZONE_NORMAL, 2) == 1);
	check(counters(&w, DMA)->reclaim_deficit_pages == 1);
	w.serve.at = 81;
	check(reclaim_supply_take(&w.feedback.supply, 0, ZONE_NORMAL, 1) == 1);
	machinery_free(&w);
}

/* Below min, with something to reclaim. */
static void machinery_short(struct machinery *w)
{
	machinery_new(w, "6.18", NULL);
	make_free(w, NORMAL, 50, true);
	queue_pages(w, 400, 5000 * MS);
	machinery_start(w);
	w->serve.at = 50;
}

static uint64_t direct_reclaims_of(struct machinery *w, int order, uint32_t gfp_flags)
{
	struct request rq = {
		.gfp_flags = gfp_flags | GFP_MOVABLE | GFP_HIGHMEM | GFP_DIRECT_RECLAIM,
		.order = (uint8_t)order,
		.migratetype = MIGRATETYPE_MOVABLE,
		.class_zone = ZONE_MOVABLE,
	};

	zone_alloc(w->toy.m, &rq);
	return counters(w, DMA)->direct_reclaims;
}

static void a_request_reclaims_as_often_as_its_order_and_flags_allow(void)
{
	static const struct {
		int order;
		uint32_t gfp_flags;
		uint64_t most;
	} cases[] = {
		{9, 0, 1},           {9, GFP_NORETRY, 0}, {4, GFP_NORETRY, 0},
		{3, GFP_NORETRY, 1}, {3, 0, 14}, /* the queue of 400 pages is empty, and once more
						  */
		{0, 0, 2},                       /* then 114 are free */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machinery w;
		uint64_t nr;

		machinery_short(&w);
		nr = direct_reclaims_of(&w, cases[i].order, cases[i].gfp_flags);
		check(nr == cases[i].most);
		machinery_free(&w);
	}
}

static void who_reclaimed_at_a_recorded_begin_does_not_again(void)
{
	struct machinery w;

	machinery_short(&w);
	w.feedback.entries = calloc(1, sizeof(*w.feedback.entries));
	w.feedback.nr_entries = w.feedback.entries_room = 1;
	w.feedback.entries[0] = (struct slow_entry){
		.at = 50,
		.ts = 2 * MS,
		.gfp_flags = GFP_MOVABLE | GFP_HIGHMEM | GFP_DIRECT_RECLAIM,
		.pid = 7,
		.node = -1,
		.order = 9,
	};
	reclaim_run_until(&w.feedback, 50, 3 * MS);
	check(counters(&w, DMA)->direct_reclaims == 1);
	w.toy.m->now = (struct moment){.ts = 4 * MS, .pid = 7};
	check(direct_reclaims_of(&w, 9, 0) == 1);
	check(direct_reclaims_of(&w, 9, 0) == 2);
	machinery_free(&w);
}

static void a_call_of_the_record_wakes_kswapd_where_its_node_is_short(void)
{
	static const struct {
		int free;
		uint64_t woken;
	} cases[] = {{50, 1}, {1000, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machinery w;

		machinery_new(&w, "6.18", NULL);
		make_free(&w, NORMAL, cases[i].free, true);
		machinery_start(&w);
		w.feedback.entries = calloc(1, sizeof(*w.feedback.entries));
		w.feedback.nr_entries = w.feedback.entries_room = 1;
		w.feedback.entries[0] = (struct slow_entry){
			.at = 50,
			.ts = 2 * MS,
			.gfp_flags = GFP_MOVABLE | GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM,
			.class_zone = ZONE_NORMAL,
		};
		reclaim_run_until(&w.feedback, 50, 3 * MS);
		check(counters(&w, DMA)->kswapd_wakeups == cases[i].woken);
		check(counters(&w, DMA)->direct_reclaims == 0);
		machinery_free(&w);
	}
}

static void a_run_of_direct_reclaim_takes_as_much_as_one_of_the_record(void)
{
	struct machinery w;

	machinery_short(&w);
	w.feedback.services.direct.nr = 1;
	w.feedback.services.direct.rows[0].moved = 61;
	check(direct_reclaims_of(&w, 0, 0) == 1);
	check(counters(&w, NORMAL)->reclaimed_pages == 61);
	machinery_free(&w);
}

static void kswapd_takes_its_time_over_pages_that_it_cannot_have_yet(void)
{
	struct machinery w;

	machinery_short(&w);
	for (size_t i = 0; i < w.feedback.supply.nr; i++)
		w.feedback.supply.rows[i].since = 80;
	w.feedback.services.kswapd.nr = 1;
	w.feedback.services.kswapd.rows[0] = (struct service_row){8 * MS, 32, 96};
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.feedback, 50, 20 * MS);
	/* 12 rounds of 2 ms, a quarter of what 32 pages take. */
	check(counters(&w, DMA)->kswapd_passes == 1);
	reclaim_run_until(&w.feedback, 50, 30 * MS);
	check(counters(&w, DMA)->kswapd_passes == 2);
	machinery_free(&w);
}

static void daemons_run_as_late_as_on_the_record(void)
{
	struct machinery w;

	machinery_short(&w);
	w.feedback.services.wake.nr = 1;
	w.feedback.services.wake.rows[0].ns = 7 * MS;
	reclaim_run_until(&w.feedback, 50, 1 * MS);
	reclaim_run_wake_kswapd(&w.feedback, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.feedback, 50, 6 * MS);
	check(w.feedback.kswapds[0].state == KSWAPD_WAKING);
	reclaim_run_until(&w.feedback, 50, 9 * MS);
	check(w.feedback.kswapds[0].state != KSWAPD_WAKING);
	check(counters(&w, NORMAL)->reclaimed_pages > 0);
	machinery_free(&w);
}

static void services_are_drawn_in_a_fixed_order_that_has_their_mean(void)
{
	struct service s = {.nr = SERVICE_ROWS};
	uint64_t sum = 0;

	for (uint64_t i = 0; i < SERVICE_ROWS; i++)
		s.rows[i].ns = i;
	check(service_draw(&s)->ns == 0);
	check(service_draw(&s)->ns == 32);
	check(service_draw(&s)->ns == 16);
	check(service_draw(&s)->ns == 48);
	s.drawn = 0;
	for (int i = 0; i < 8; i++)
		sum += service_draw(&s)->ns;
	check(sum == 8 * 28);
}

int main(void)
{
	test(kswapd_sleeps_by_the_table_of_its_variant);
	test(only_keepawake_keeps_the_zone_that_was_asked_for);
	test(a_high_order_is_balanced_by_one_block_and_a_reserve_is_kept);
	test(defrag_mode_counts_whole_pageblocks_only);
	test(kswapd_takes_from_the_queue_until_a_zone_is_balanced);
	test(a_hopeless_kswapd_gives_up_after_16_passes);
	test(kswapd_takes_only_pages_of_the_zones_it_was_woken_for);
	test(a_call_after_the_nap_keeps_kswapd_from_sleeping);
	test(kcompactd_hears_of_high_orders_only_from_keepawake);
	test(a_request_that_needs_no_kswapd_wakes_kcompactd_since_4_17);
	test(a_boosted_pass_takes_back_the_boost_and_asks_for_whole_pageblocks);
	test(pages_not_needed_are_saved_and_withheld_frees_are_not_served);
	test(a_page_of_the_queue_is_followed_behind_one_that_is_gone);
	test(a_page_is_not_reclaimed_before_it_is_allocated);
	test(a_request_reclaims_as_often_as_its_order_and_flags_allow);
	test(who_reclaimed_at_a_recorded_begin_does_not_again);
	test(a_call_of_the_record_wakes_kswapd_where_its_node_is_short);
	test(a_run_of_direct_reclaim_takes_as_much_as_one_of_the_record);
	test(kswapd_takes_its_time_over_pages_that_it_cannot_have_yet);
	test(daemons_run_as_late_as_on_the_record);
	test(services_are_drawn_in_a_fixed_order_that_has_their_mean);
	return check_done();
}
