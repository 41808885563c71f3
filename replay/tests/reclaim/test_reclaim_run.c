// SPDX-License-Identifier: Apache-2.0
/* Direct reclaim of the model, its daemons' delays, and the durations drawn from the record. */
#include "check.h"

#include "model/memory.h"
#include "reclaim_machine.h"
#include "reclaim_vectors.h"

#include <stdlib.h>

static uint64_t direct_reclaims_of(struct reclaim_machine *w, int order, uint32_t gfp_flags)
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

TEST(a_request_reclaims_as_often_as_its_order_and_flags_allow)
{
	static const struct {
		int order;
		uint32_t gfp_flags;
		uint64_t most;
	} cases[] = {
		{9, 0, 1}, {9, GFP_NORETRY, 1}, {3, GFP_NORETRY, 1}, {3, 0, 1}, /* no chunk */
		{0, 0, 2}, /* then 114 pages are free */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t nr;

		RECLAIM_MACHINE(w, reclaim_machine_short);
		nr = direct_reclaims_of(&w, cases[i].order, cases[i].gfp_flags);
		check(nr == cases[i].most);
	}
}

TEST(a_task_that_reclaimed_at_a_recorded_begin_does_not_repeat_it)
{
	RECLAIM_MACHINE(w, reclaim_machine_short);
	w.run.entries = arrays_new(w.toy.m->arrays, 1, sizeof(*w.run.entries));
	w.run.nr_entries = w.run.entries_room = 1;
	w.run.entries[0] = (struct slow_entry){
		.at = 50,
		.ts = 2 * MS,
		.gfp_flags = GFP_MOVABLE | GFP_HIGHMEM | GFP_DIRECT_RECLAIM,
		.pid = 7,
		.node = -1,
		.order = 9,
	};
	reclaim_run_until(&w.run, 50, 3 * MS);
	check(counters(&w, DMA)->direct_reclaims == 1);
	w.toy.m->now = (struct moment){.ts = 4 * MS, .pid = 7};
	check(direct_reclaims_of(&w, 9, 0) == 1);
	check(direct_reclaims_of(&w, 9, 0) == 2);
}

/* No other page is in the queue. */
TEST(direct_reclaim_calls_the_shrinkers)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 100, 0);
	for (int i = 0; i < 100; i++)
		w.run.supply.rows[i].shrunk = true;
	reclaim_machine_start(&w);
	w.serve.at = 50;
	for (uint64_t at = 100; at < 200; at++)
		check(reclaim_supply_withholds(&w.run.supply, at));
	check(counters(&w, NORMAL)->reclaimed_pages == 0);
	check(direct_reclaims_of(&w, 0, 0) == 2); /* of 32 pages each */
	check(counters(&w, NORMAL)->reclaimed_pages == 64);
}

static uint64_t direct_reclaims_at(struct reclaim_machine *w, uint64_t ms, int pid)
{
	w->toy.m->now = (struct moment){.ts = ms * MS, .pid = pid};
	return direct_reclaims_of(w, 9, 0);
}

TEST(a_request_before_the_end_of_its_tasks_reclaim_is_part_of_it)
{
	RECLAIM_MACHINE(w, reclaim_machine_short);
	record_scan(&w,
		    (struct scan_row){.ns = 10 * MS, .freed = 32, .direct = true, .costly = true});
	check(direct_reclaims_at(&w, 1, 7) == 1);
	check(counters(&w, NORMAL)->reclaimed_pages == 32);
	check(direct_reclaims_at(&w, 5, 7) == 1);
	check(counters(&w, NORMAL)->reclaimed_pages == 64);
	check(direct_reclaims_at(&w, 6, 8) == 2); /* another task */
	check(direct_reclaims_at(&w, 11, 7) == 3);
	check(direct_reclaims_at(&w, 11, 7) == 4); /* the same request: for 20 ms */
	check(direct_reclaims_at(&w, 30, 7) == 4);
	check(direct_reclaims_at(&w, 31, 7) == 5);
	check(counters(&w, DMA)->modelled_stall_us == 50000);
}

/* A recorded direct reclaim begins after 2 ms. */
static void play_recorded_begin_of(struct reclaim_machine *w, int order, uint32_t gfp_flags)
{
	w->run.entries = arrays_new(w->toy.m->arrays, 1, sizeof(*w->run.entries));
	w->run.nr_entries = w->run.entries_room = 1;
	w->run.entries[0] = (struct slow_entry){
		.at = 50,
		.ts = 2 * MS,
		.gfp_flags = gfp_flags,
		.node = -1,
		.order = (uint8_t)order,
	};
	reclaim_run_until(&w->run, 50, 3 * MS);
}

static void play_recorded_begin(struct reclaim_machine *w, uint32_t gfp_flags)
{
	play_recorded_begin_of(w, 0, gfp_flags);
}

/* Zone DMA is on a node of its own. Its reserve leaves nothing to requests for NORMAL. */
TEST(a_request_that_names_its_node_reclaims_on_a_node_without_a_page_for_it)
{
	static const struct {
		uint32_t gfp_flags;
		int normal; /* free pages */
		uint64_t on_normal, on_dma;
	} cases[] = {
		{0, 1000, 0, 0},
		{GFP_THISNODE, 1000, 0, 1},
		{GFP_THISNODE, 50, 1, 0}, /* the CPU's own node comes first */
		{GFP_THISNODE | GFP_DMA, 50, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_two_nodes);
		make_free(&w, DMA, 1000, true);
		make_free(&w, NORMAL, cases[i].normal, true);
		reclaim_machine_start(&w);
		play_recorded_begin(&w, cases[i].gfp_flags | GFP_DIRECT_RECLAIM);
		check(counters(&w, NORMAL)->direct_reclaims == cases[i].on_normal);
		check(counters(&w, DMA)->direct_reclaims == cases[i].on_dma);
	}
}

/* 1000 single pages are free, far above the watermarks. */
TEST(a_request_that_may_not_mix_reclaims_at_a_recorded_begin_without_a_page_of_its_type)
{
	static const struct {
		const char *policy;
		char free;
		uint64_t reclaims;
	} cases[] = {{"defrag_mode", 'U', 1}, {"defrag_mode", 'M', 0}, {NULL, 'U', 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", cases[i].policy);
		w.toy.zone = normal_zone(&w);
		for (uint32_t page = 0; page < 1000; page++)
			toy_add_free(&w.toy, w.toy.zone->start + 2 * page, 0, cases[i].free);
		reclaim_machine_start(&w);
		play_recorded_begin(&w, GFP_MOVABLE | GFP_HIGHMEM | GFP_DIRECT_RECLAIM);
		check(counters(&w, DMA)->direct_reclaims == cases[i].reclaims);
	}
}

/* 1000 single pages are free: enough for a request of order 0, and none for a pageblock. */
TEST(a_reclaim_for_a_pageblock_was_promoted_where_the_record_had_defrag_mode)
{
	static const struct {
		const char *kernel, *policy;
		bool recorded;
		uint32_t gfp_flags;
		uint64_t reclaims;
	} cases[] = {
		{"7.2", NULL, true, 0, 0},  {"7.2", "defrag_mode", true, 0, 1},
		{"7.2", NULL, false, 0, 1}, {"7.2", NULL, true, GFP_MOVABLE, 1},
		{"6.18", NULL, true, 0, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, cases[i].kernel, cases[i].policy);
		w.toy.m->record->defrag_mode = cases[i].recorded;
		make_free(&w, DMA, 1000, true);
		make_free(&w, NORMAL, 1000, true);
		reclaim_machine_start(&w);
		play_recorded_begin_of(&w, w.toy.m->pageblock_order,
				       cases[i].gfp_flags | GFP_DIRECT_RECLAIM);
		check(counters(&w, DMA)->direct_reclaims == cases[i].reclaims);
	}
}

/* A request below the high watermark of the rules at hand calls no kswapd: it is above low. */
TEST(a_recorded_call_wakes_kswapd_if_its_node_is_short)
{
	static const struct {
		int free;
		uint32_t gfp_flags;
		uint64_t woken;
	} cases[] = {
		{50, GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM, 1},
		{250, GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM, 0},
		{250, 0, 1}, /* not of a request */
		{1000, GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM, 0},
		{1000, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
		make_free(&w, NORMAL, cases[i].free, true);
		reclaim_machine_start(&w);
		w.run.entries = arrays_new(w.toy.m->arrays, 1, sizeof(*w.run.entries));
		w.run.nr_entries = w.run.entries_room = 1;
		w.run.entries[0] = (struct slow_entry){
			.at = 50,
			.ts = 2 * MS,
			.gfp_flags = GFP_MOVABLE | cases[i].gfp_flags,
			.class_zone = ZONE_NORMAL,
		};
		reclaim_run_until(&w.run, 50, 3 * MS);
		check(counters(&w, DMA)->kswapd_wakeups == cases[i].woken);
		check(counters(&w, DMA)->direct_reclaims == 0);
	}
}

TEST(a_run_of_direct_reclaim_takes_as_many_pages_as_a_recorded_one)
{
	RECLAIM_MACHINE(w, reclaim_machine_short);
	w.run.pace.rows = arrays_new(w.toy.m->arrays, 1, sizeof(*w.run.pace.rows));
	w.run.pace.rows[0] = (struct scan_row){.freed = 61, .direct = true};
	w.run.pace.nr = w.run.pace.room = 1;
	check(direct_reclaims_of(&w, 0, 0) == 1);
	check(counters(&w, NORMAL)->reclaimed_pages == 61);
}

/* 50 pages of each zone are queued, NORMAL's first. */
static void queue_both_zones(struct reclaim_machine *w)
{
	struct reclaimed *rows;

	queue_pages(w, 100, 5000 * MS);
	rows = w->run.supply.rows;
	for (uint32_t i = 50; i < 100; i++)
		rows[i].frame = w->toy.m->zones[DMA].start + i;
}

TEST(every_node_is_shrunk_by_a_cluster_at_least)
{
	static const struct {
		uint64_t freed; /* by the recorded direct reclaim */
		uint64_t each;
	} cases[] = {{10, 32}, {64, 32}, {90, 45}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_two_nodes);
		make_free(&w, NORMAL, 50, true);
		queue_both_zones(&w);
		reclaim_machine_start(&w);
		w.serve.at = 50;
		record_scan(&w, (struct scan_row){.freed = cases[i].freed, .direct = true});
		check(direct_reclaims_of(&w, 0, 0) == 0); /* counted on the request's node */
		check(counters(&w, NORMAL)->direct_reclaims == 1);
		check(counters(&w, NORMAL)->reclaimed_pages == cases[i].each);
		check(counters(&w, DMA)->reclaimed_pages == cases[i].each);
	}
}

TEST(a_deficit_is_owed_where_kswapd_frees_pages_on_the_record)
{
	static const struct {
		uint64_t freed; /* by the recorded scan of kswapd */
		uint64_t reclaims;
	} cases[] = {{0, 3}, {32, 2}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct request movable = {
			.gfp_flags = GFP_MOVABLE | GFP_HIGHMEM | GFP_DIRECT_RECLAIM,
			.migratetype = MIGRATETYPE_MOVABLE,
			.class_zone = ZONE_MOVABLE,
		};

		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
		make_free(&w, NORMAL, 40, true);
		make_free(&w, DMA, 0, true);
		reclaim_machine_start(&w);
		record_scan(&w,
			    (struct scan_row){.ts = MS, .scanned = 64, .freed = cases[i].freed});
		for (int nr = 0; nr < 3; nr++) {
			struct request rq = movable;

			zone_alloc(w.toy.m, &rq);
		}
		check(counters(&w, DMA)->direct_reclaims == cases[i].reclaims);
	}
}

TEST(daemons_run_as_late_as_on_the_record)
{
	RECLAIM_MACHINE(w, reclaim_machine_short);
	w.run.service.nr = 1;
	w.run.service.wake_ns[0] = 7 * MS;
	reclaim_run_until(&w.run, 50, 1 * MS);
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	reclaim_run_until(&w.run, 50, 6 * MS);
	check(w.run.kswapds[0].state == KSWAPD_WAKING);
	reclaim_run_until(&w.run, 50, 9 * MS);
	check(w.run.kswapds[0].state != KSWAPD_WAKING);
	check(counters(&w, NORMAL)->reclaimed_pages > 0);
}

TEST(services_are_drawn_in_a_fixed_order_that_has_their_mean)
{
	struct service s = {.nr = SERVICE_ROWS};
	uint64_t sum = 0;

	for (uint64_t i = 0; i < SERVICE_ROWS; i++)
		s.wake_ns[i] = i;
	check(service_draw_wake_ns(&s) == 0);
	check(service_draw_wake_ns(&s) == 32);
	check(service_draw_wake_ns(&s) == 16);
	check(service_draw_wake_ns(&s) == 48);
	s.drawn = 0;
	for (int i = 0; i < 8; i++)
		sum += service_draw_wake_ns(&s);
	check(sum == 8 * 28);
}

TEST(a_wild_time_does_not_hold_up_the_daemons)
{
	/* kcompactd would check for work every 500 ms for 146 years. */
	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 4);
	reclaim_run_until(&w.run, 50, 2 * MS);
	for (uint64_t i = 1; i <= 64; i++)
		reclaim_run_until(&w.run, 50 + i, i << 56);
	check(w.run.due > 1ull << 62);
	check(w.toy.m->now.ts < 1ull << 62);
	check(w.run.quiet_checks < 1 << 17);
	check_sound(w.toy.m);
}

TEST(a_stall_boosts_by_7_pageblocks_up_to_the_limit)
{
	static const struct {
		int64_t before, most, after;
	} vectors[] = {
#define VECTOR(...) {__VA_ARGS__},
		FOR_EACH_STALL(VECTOR)
#undef VECTOR
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct request rq = {.gfp_flags = GFP_KSWAPD_RECLAIM};

		RECLAIM_MACHINE(w, reclaim_machine_short);
		normal_zone(&w)->boost = vectors[i].before;
		w.run.ops.stall(&w.run, normal_zone(&w), &rq, vectors[i].most);
		check(normal_zone(&w)->boost == vectors[i].after);
		check(counters(&w, DMA)->kswapd_wakeups == 1);
	}
}

/* A task tries to reclaim on the node of zone NORMAL. Returns the pages that it freed. */
static uint64_t reclaims_near(struct reclaim_machine *w, uint64_t ms, int pid, int order)
{
	uint64_t before = counters(w, NORMAL)->reclaimed_pages, freed;
	const struct request rq = {
		.gfp_flags = GFP_HIGHMEM | GFP_MOVABLE | GFP_DIRECT_RECLAIM,
		.order = (uint8_t)order,
		.class_zone = ZONE_MOVABLE,
	};

	w->toy.m->now = (struct moment){.ts = ms * MS, .pid = pid};
	check(w->run.ops.node_reclaim(&w->run, normal_zone(w), &rq) ==
	      (counters(w, NORMAL)->reclaimed_pages > before));
	freed = counters(w, NORMAL)->reclaimed_pages - before;
	return freed;
}

TEST(a_try_on_a_near_node_frees_what_its_rights_and_the_record_allow)
{
	static const struct {
		int mode, recorded, yield, order;
		uint64_t freed;
	} vectors[] = {
#define VECTOR(mode, recorded, yield, order, freed) {mode, recorded, yield, order, freed},
		FOR_EACH_NEAR(VECTOR)
#undef VECTOR
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		RECLAIM_MACHINE(w, reclaim_machine_short);
		w.toy.m->zone_reclaim = (struct zone_reclaim){vectors[i].mode, RECLAIM_DISTANCE};
		w.toy.m->record->zone_reclaim_mode = (uint8_t)vectors[i].recorded;
		if (vectors[i].yield >= 0)
			record_scan(&w, (struct scan_row){.freed = (uint64_t)vectors[i].yield,
							  .near = true});
		check(reclaims_near(&w, 1, 7, vectors[i].order) == vectors[i].freed);
		check(counters(&w, NORMAL)->node_reclaims == 1);
	}
}

TEST(one_task_at_a_time_reclaims_on_a_near_node)
{
	RECLAIM_MACHINE(w, reclaim_machine_short);
	w.toy.m->zone_reclaim = (struct zone_reclaim){1, RECLAIM_DISTANCE};
	w.toy.m->record->zone_reclaim_mode = 1;
	record_scan(&w, (struct scan_row){.ns = 10 * MS, .freed = 20, .near = true});
	check(reclaims_near(&w, 1, 7, 0) == 20);
	check(reclaims_near(&w, 5, 8, 0) == 0); /* while task 7 reclaims there */
	check(counters(&w, NORMAL)->node_reclaims == 1);
	check(reclaims_near(&w, 6, 7, 0) == 20); /* its next request, which came later */
	check(reclaims_near(&w, 17, 8, 0) == 20);
	check(counters(&w, NORMAL)->node_reclaims == 3);
}
