// SPDX-License-Identifier: Apache-2.0
/* The model's kswapd: when a zone is balanced, which pages it takes, when it gives up. */
#include "check.h"

#include "model/memory.h"
#include "reclaim_machine.h"
#include "reclaim_vectors.h"

#include "model/fragmentation.h"
#include "model/watermark.h"
#include "model/zonelist_scan.h"

#include <stdlib.h>

TEST(one_free_block_balances_a_high_order_and_the_lowmem_reserve_counts)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 400, true);
	check(zone_balanced(w.toy.m, &w.toy.m->zones[NORMAL], 0, ZONE_NORMAL));
	check(!zone_balanced(w.toy.m, &w.toy.m->zones[NORMAL], 3, ZONE_NORMAL));
	make_free(&w, DMA, DMA_PAGES / 2, false);
	check(zone_balanced(w.toy.m, &w.toy.m->zones[DMA], 3, ZONE_DMA));
	check(!zone_balanced(w.toy.m, &w.toy.m->zones[DMA], 0, ZONE_NORMAL));
}

TEST(kswapd_takes_from_the_queue_until_a_zone_is_balanced)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 1000, 5000 * MS);
	reclaim_machine_start(&w);
	w.serve.at = 50;
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.run, 50, 1000 * MS);
	check(zone_balanced(w.toy.m, &w.toy.m->zones[NORMAL], 0, ZONE_NORMAL));
	check(counters(&w, DMA)->kswapd_wakeups == 1);
	check(counters(&w, DMA)->kswapd_passes == 1);
	check(counters(&w, DMA)->kswapd_sleeps == 1);
	check(counters(&w, NORMAL)->reclaimed_pages >= 250);
	check(counters(&w, NORMAL)->reclaimed_pages < 600);
	check(counters(&w, NORMAL)->early_reclaim_pages == counters(&w, NORMAL)->reclaimed_pages);
	check(counters(&w, DMA)->reclaim_deficit_pages == 0);
	check(w.run.kswapds[0].state == KSWAPD_ASLEEP);
}

TEST(a_hopeless_kswapd_gives_up_after_16_passes)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	reclaim_machine_start(&w);
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.run, 50, 1000 * MS);
	check(counters(&w, DMA)->kswapd_passes == 16);
	check(counters(&w, DMA)->kswapd_sleeps == 1);
	check(counters(&w, NORMAL)->reclaim_deficit_pages > 0);
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	check(counters(&w, DMA)->kswapd_wakeups == 1);
}

TEST(one_that_has_given_up_before_the_start_is_not_woken)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 20, 0);
	w.toy.m->record->hopeless_nodes = 1;
	reclaim_machine_start(&w);
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	check(counters(&w, DMA)->kswapd_wakeups == 0);
}

/* Without the pages of shrinkers, this kswapd gives up after 16 passes. */
TEST(pages_of_shrinkers_are_progress_of_the_pass)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 20, 0);
	for (int i = 0; i < 20; i++)
		w.run.supply.rows[i].shrunk = true;
	reclaim_machine_start(&w);
	w.serve.at = 50;
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	for (uint64_t at = 100; at < 120; at++)
		check(reclaim_supply_withholds(&w.run.supply, at));
	check(counters(&w, NORMAL)->reclaimed_pages == 0);
	reclaim_run_until(&w.run, 200, 1000 * MS);
	check(counters(&w, NORMAL)->reclaimed_pages == 20);
	check(counters(&w, DMA)->kswapd_passes == 17);
	check(counters(&w, DMA)->kswapd_sleeps == 1);
}

TEST(since_7_0_failures_are_forgotten_only_by_a_balanced_node)
{
	static const struct {
		const char *kernel;
		int failures;
	} cases[] = {{"6.19", 0}, {"7.0", 16}, {"7.3", 16}};
	const struct request rq = {.class_zone = ZONE_NORMAL};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, cases[i].kernel, NULL);
		make_free(&w, NORMAL, 50, true);
		reclaim_machine_start(&w);
		w.run.kswapds[0].failures = 16;
		kswapd_overtaken(w.toy.m, &w.run.kswapds[0], &rq, false);
		check(w.run.kswapds[0].failures == 16);
		kswapd_overtaken(w.toy.m, &w.run.kswapds[0], &rq, true);
		check(w.run.kswapds[0].failures == cases[i].failures);
		make_free(&w, NORMAL, 600, true);
		kswapd_overtaken(w.toy.m, &w.run.kswapds[0], &rq, true);
		check(w.run.kswapds[0].failures == 0);
	}
}

TEST(since_7_2_a_pass_in_vain_for_a_boost_is_no_failure)
{
	static const struct {
		const char *kernel;
		int failures;
	} cases[] = {{"7.1", 1}, {"7.2", 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, cases[i].kernel, NULL);
		make_free(&w, NORMAL, 600, true);
		normal_zone(&w)->boost = 100;
		reclaim_machine_start(&w);
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		reclaim_run_until(&w.run, 50, 1000 * MS);
		check(counters(&w, DMA)->kswapd_passes == 1);
		check(w.run.kswapds[0].failures == cases[i].failures);
	}
}

TEST(kswapd_takes_only_pages_of_the_zones_it_was_woken_for)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 400, true);
	queue_pages(&w, 1000, 5000 * MS);
	reclaim_machine_start(&w);
	w.serve.at = 50;
	check(!reclaim_supply_waits(&w.run.supply, 0, ZONE_DMA));
	check(reclaim_supply_waits(&w.run.supply, 0, ZONE_NORMAL));
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_DMA);
	reclaim_run_until(&w.run, 50, 1000 * MS);
	check(counters(&w, DMA)->kswapd_passes == 16);
	check(counters(&w, DMA)->reclaim_deficit_pages > 0);
	check(counters(&w, NORMAL)->reclaimed_pages == 0);
}

TEST(a_wakeup_after_the_nap_keeps_kswapd_awake)
{
	struct kswapd *k;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 1000, 5000 * MS);
	reclaim_machine_start(&w);
	w.serve.at = 50;
	w.run.service.nr = 1;
	w.run.service.wake_ns[0] = 7 * MS;
	k = &w.run.kswapds[0];
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	for (uint64_t ms = 1; k->state != KSWAPD_NAPPED; ms++)
		reclaim_run_until(&w.run, 50, ms * MS);
	/* The zone is unbalanced again, as if its new pages were allocated. */
	w.toy.m->zones[NORMAL].wmark[WMARK_HIGH] += 400;
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	check(k->state == KSWAPD_NAPPED);
	check(counters(&w, DMA)->kswapd_wakeups == 2);
	reclaim_run_until(&w.run, 50, w.toy.m->now.ts + 8 * MS);
	check(counters(&w, DMA)->kswapd_passes == 2);
	check(counters(&w, DMA)->kswapd_sleeps == 0);
}

TEST(a_boosted_pass_takes_back_the_boost_and_asks_for_whole_pageblocks)
{
	struct zone *zone;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 4000, true);
	queue_pages(&w, 1000, 5000 * MS);
	reclaim_machine_start(&w);
	w.serve.at = 50;
	zone = &w.toy.m->zones[NORMAL];
	boost_zone(w.toy.m, zone, 450);
	check(zone->boost == 450);
	w.toy.m->reclaim_ops->wake_boosted(&w.run, zone);
	reclaim_run_until(&w.run, 50, 400 * MS);
	check(zone->boost == 0);
	/* Rounds of 20480 pages at priorities 12 and 11, then all at 10. */
	check(counters(&w, NORMAL)->reclaimed_pages == 5 + 10 + 22 * 20);
	check(counters(&w, DMA)->kcompactd_asked == 1);
}

/* The record: a scan that ends at `scan_ms`, and a begin of a pass or a sleep at 5 ms. */
TEST(kswapd_starts_as_the_record_does)
{
	static const struct {
		uint64_t scan_ms;
		bool sleeps;
		enum kswapd_state state;
		uint64_t new_passes; /* up to 6 ms: a node that is short ends a nap with a pass */
	} cases[] = {
		{2, false, KSWAPD_BALANCING, 0},
		{2, true, KSWAPD_BALANCING, 0},
		{6, true, KSWAPD_NAPPING, 1},
		{6, false, KSWAPD_ASLEEP, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct first_step step = {0, cases[i].sleeps, 5 * MS};

		RECLAIM_MACHINE(w, reclaim_machine_short);
		record_scan(&w, (struct scan_row){
					.ts = cases[i].scan_ms * MS, .ns = 9 * MS, .scanned = 32});
		w.run.first_steps = (struct first_steps){&step, 1, 1};
		reclaim_run_until(&w.run, 50, MS);
		check(w.run.kswapds[0].state == cases[i].state);
		reclaim_run_until(&w.run, 50, 6 * MS);
		check(counters(&w, DMA)->kswapd_passes == cases[i].new_passes);
	}
}

/* CPUs 0 and 1 are of its node. */
TEST(kswapd_runs_on_the_cpu_of_the_recorded_scan)
{
	for (uint16_t cpu = 0; cpu < 3; cpu++) {
		RECLAIM_MACHINE(w, reclaim_machine_two_nodes);
		make_free(&w, NORMAL, 50, true);
		queue_pages(&w, 400, 5000 * MS);
		reclaim_machine_start(&w);
		w.serve.at = 50;
		record_scan(&w, (struct scan_row){.ts = 2 * MS,
						  .ns = MS,
						  .scanned = 32,
						  .freed = 32,
						  .lru_pages = 1 << 12,
						  .cpu = cpu,
						  .class_zone = ZONE_NORMAL});
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		reclaim_run_until(&w.run, 50, 20 * MS);
		check(w.run.kswapds[0].cpu == cpu % 2);
	}
}

TEST(kswapd_spends_time_on_pages_that_are_not_allocated_yet)
{
	RECLAIM_MACHINE(w, reclaim_machine_short);
	for (size_t i = 0; i < w.run.supply.nr; i++)
		w.run.supply.rows[i].since = 80;
	w.run.pace.rows = arrays_new(w.toy.m->arrays, 1, sizeof(*w.run.pace.rows));
	w.run.pace.rows[0] = (struct scan_row){
		.ns = 2 * MS, .scanned = 32, .lru_pages = 1 << 12, .class_zone = ZONE_NORMAL};
	w.run.pace.nr = w.run.pace.room = 1;
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.run, 50, 120 * MS);
	/* Rounds of up to a scan until priority 7, then of 2 to 64 scans: 66 ms until 3. */
	check(counters(&w, DMA)->kswapd_passes == 1);
	check(w.run.kswapds[0].priority == 2);
	reclaim_run_until(&w.run, 50, 400 * MS);
	check(counters(&w, DMA)->kswapd_passes == 2);
}

struct balance {
	const char *kernel;
	int defrag_mode, order, singles, blocks;
	bool balanced;
	char kcompactd, request, async;
	bool ready;
};

static char suits(const struct reclaim_machine *w, int order, enum compact_caller caller)
{
	const struct request rq = {
		.order = (uint8_t)order,
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = ZONE_NORMAL,
	};
	static const char letters[] = {
		[COMPACT_CANNOT] = 'K', [COMPACT_SUITS] = 'C', [COMPACT_SERVES] = 'S'};

	return letters[compact_suits(w->toy.m, &w->toy.m->zones[NORMAL], &rq, caller)];
}

TEST(zones_are_balanced_and_suit_compaction_by_the_vectors)
{
#define VECTOR(...) {__VA_ARGS__},
	static const struct balance vectors[] = {FOR_EACH_BALANCE(VECTOR)};
#undef VECTOR

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct balance *v = &vectors[i];

		RECLAIM_MACHINE(w, reclaim_machine_new, v->kernel,
				v->defrag_mode ? "mainline:defrag_mode=1" : NULL);
		make_free(&w, NORMAL, v->singles, true);
		for (int block = 0; block < v->blocks; block++)
			toy_add_free(&w.toy,
				     normal_zone(&w)->start + (uint32_t)(28 + 2 * block) * BLOCK, 9,
				     'M');
		check(zone_balanced(w.toy.m, normal_zone(&w), v->order, ZONE_NORMAL) ==
		      v->balanced);
		check(suits(&w, v->order, COMPACT_BY_KCOMPACTD) == v->kcompactd);
		check(suits(&w, v->order, COMPACT_BY_REQUEST) == v->request);
		check(suits(&w, v->order, COMPACT_BY_REQUEST_ASYNC) == v->async);
		if (v->order > PCP_MAX_ORDER)
			check(compact_ready(w.toy.m, normal_zone(&w), v->order, ZONE_NORMAL) ==
			      v->ready);
	}
}

/* With memory tiering kswapd goes on to the promo watermark (5.18). */
TEST(memory_tiering_balances_at_the_promo_watermark)
{
#define VECTOR(...) {__VA_ARGS__},
	static const struct {
		bool tiers;
		unsigned promo;
		int boost, singles;
		bool balanced;
	} vectors[] = {FOR_EACH_TIER(VECTOR)};
#undef VECTOR

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.12.117", NULL);
		w.toy.m->tiers = vectors[i].tiers;
		normal_zone(&w)->wmark_promo = vectors[i].promo;
		normal_zone(&w)->boost = vectors[i].boost;
		make_free(&w, NORMAL, vectors[i].singles, true);
		check(zone_balanced(w.toy.m, normal_zone(&w), 0, ZONE_NORMAL) ==
		      vectors[i].balanced);
	}
}

/* Under vm.defrag_mode kswapd is asked for at least a pageblock (6.15). */
TEST(defrag_mode_asks_kswapd_for_whole_pageblocks)
{
	static const struct {
		const char *policy;
		int order, asked;
	} cases[] = {{NULL, 0, 0}, {"defrag_mode", 0, 9}, {"defrag_mode", 10, 10}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request rq = {
			.gfp_flags = GFP_KSWAPD_RECLAIM,
			.order = (uint8_t)cases[i].order,
			.class_zone = ZONE_NORMAL,
		};

		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", cases[i].policy);
		reclaim_machine_start(&w);
		zone_alloc(w.toy.m, &rq);
		check(w.run.kswapds[0].want_order == cases[i].asked);
	}
}

/* Two requests call it: both calls count, and one wakeup. From then on it is off its wait queue. */
TEST(calls_and_wakeups_are_counted_apart_and_a_woken_kswapd_is_awake)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	reclaim_machine_start(&w);
	check(!kswapd_awake(w.toy.m, 0));
	for (int i = 0; i < 2; i++) {
		struct request rq = {.gfp_flags = GFP_KSWAPD_RECLAIM, .class_zone = ZONE_NORMAL};

		check(zone_alloc(w.toy.m, &rq) == NO_FRAME);
		check(kswapd_awake(w.toy.m, 0));
	}
	check(counters(&w, NORMAL)->slowpath_wake_calls == 2);
	check(counters(&w, DMA)->kswapd_wakeups == 1);
	/* It gives up on a node without pages, and sleeps. */
	reclaim_run_until(&w.run, 50, 1000 * MS);
	check(w.run.kswapds[0].state == KSWAPD_ASLEEP);
	check(!kswapd_awake(w.toy.m, 0));
}
