// SPDX-License-Identifier: Apache-2.0
/* The recorded scans that the model's reclaim takes its pace and yield from. */
#include "check.h"

#include "model/memory.h"
#include "reclaim_machine.h"
#include "model/vmstat_diff.h"
#include "model/watermark.h"

#include <stdlib.h>

/* A scan in the second half of a millisecond. */
static struct scan_row kswapd_scan(uint64_t ms, uint64_t freed)
{
	return (struct scan_row){
		.ts = ms * MS + MS - 1, .ns = MS / 2, .scanned = 64, .freed = freed};
}

/* Scan i is in millisecond i, and frees i pages. */
static void record_scans(struct scan_row *rows, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		rows[i] = kswapd_scan(i, i);
}

/* When no scan runs. */
static uint64_t next_freed(const struct scan_pace *pace, struct scan_cursor *cursor, uint64_t ms)
{
	return scan_next(pace, cursor, ms * MS)->freed;
}

TEST(a_pass_takes_the_scans_from_its_time_on)
{
	struct scan_row rows[40];
	const struct scan_pace pace = {.rows = rows, .nr = 40};
	struct scan_cursor cursor;

	record_scans(rows, 40);
	rows[11].node = 1;
	rows[12].direct = true;
	scan_begin(&cursor, 0, ZONE_DMA);
	check(next_freed(&pace, &cursor, 10) == 10);
	check(next_freed(&pace, &cursor, 10) == 13);
	scan_begin(&cursor, 1, ZONE_DMA);
	check(next_freed(&pace, &cursor, 0) == 11);
	check(next_freed(&pace, &cursor, 0) == 11);
	/* At the end of the record: its last 16 scans, again and again. */
	scan_begin(&cursor, 0, ZONE_DMA);
	check(next_freed(&pace, &cursor, 1000) == 24);
	for (int i = 25; i < 40; i++)
		check(next_freed(&pace, &cursor, 1000) == (uint64_t)i);
	check(next_freed(&pace, &cursor, 1000) == 24);
}

TEST(while_the_record_scans_a_pass_takes_that_scan)
{
	struct scan_row rows[8];
	const struct scan_pace pace = {.rows = rows, .nr = 8};
	struct scan_cursor cursor;

	record_scans(rows, 8);
	rows[6].class_zone = ZONE_NORMAL;
	scan_begin(&cursor, 0, ZONE_DMA);
	check(next_freed(&pace, &cursor, 0) == 0);
	/* The pass is late: it leaves out scans 1 and 2. */
	check(scan_next(&pace, &cursor, 3 * MS + MS / 2)->freed == 3);
	/* It is early: it takes the next one, and again while that one runs. */
	check(next_freed(&pace, &cursor, 4) == 4);
	check(scan_next(&pace, &cursor, 4 * MS + MS / 2)->freed == 4);
	check(scan_next(&pace, &cursor, 5 * MS - 1)->freed == 4);
	check(next_freed(&pace, &cursor, 5) == 5);
	/* The scan that runs is for other zones. */
	check(scan_next(&pace, &cursor, 6 * MS + MS / 2)->freed == 7);
}

TEST(a_pass_takes_scans_for_its_zones_while_there_are_some)
{
	struct scan_row rows[6];
	const struct scan_pace pace = {.rows = rows, .nr = 6};
	struct scan_cursor cursor;

	record_scans(rows, 6);
	for (uint64_t i = 0; i < 6; i++)
		rows[i].class_zone = i % 2 || i > 3 ? ZONE_NORMAL : ZONE_DMA;
	scan_begin(&cursor, 0, ZONE_DMA);
	check(next_freed(&pace, &cursor, 1) == 2);
	check(cursor.class_zone == ZONE_DMA);
	/* The later ones are for other zones. The scans before this time show another pace. */
	check(next_freed(&pace, &cursor, 3) == 3);
	check(cursor.class_zone < 0);
	check(next_freed(&pace, &cursor, 3) == 4);
	check(next_freed(&pace, &cursor, 5) == 5);
	check(next_freed(&pace, &cursor, 6) == 0);
	/* The record has none for these zones: all scans of the node. */
	scan_begin(&cursor, 0, ZONE_DMA32);
	check(next_freed(&pace, &cursor, 2) == 2);
	check(next_freed(&pace, &cursor, 2) == 3);
	check(cursor.class_zone < 0);
}

TEST(without_recorded_scans_every_page_is_freed_at_once)
{
	const struct scan_pace pace = {0};
	struct scan_cursor cursor;
	const struct scan_row *row;

	scan_begin(&cursor, 0, ZONE_DMA);
	row = scan_next(&pace, &cursor, MS);
	check(row->freed == row->scanned && row->ns == 0 && row->lru_pages == 0);
	check(scan_direct(&pace, MS, false)->freed == 32);
}

TEST(a_direct_reclaim_is_the_next_one_of_its_kind_of_order)
{
	struct scan_row rows[] = {
		{.ts = 10, .freed = 40, .direct = true},
		{.ts = 20, .freed = 1024, .direct = true, .costly = true},
		{.ts = 30, .freed = 50, .direct = true},
	};
	const struct scan_pace pace = {.rows = rows, .nr = 3};

	check(scan_direct(&pace, 15, false)->freed == 50);
	check(scan_direct(&pace, 15, true)->freed == 1024);
	check(scan_direct(&pace, 25, true)->freed == 1024);
}

static bool frees(const struct scan_pace *pace, uint64_t ts, bool costly)
{
	return scan_frees(pace, ts, scan_direct(pace, ts, costly));
}

TEST(a_record_frees_pages_by_its_direct_reclaims_or_else_by_kswapd)
{
	struct scan_row rows[] = {
		{.ts = 10, .freed = 40, .compacts = true},
		{.ts = 20, .freed = 0},
		{.ts = 30, .freed = 8},
		{.ts = 40, .freed = 50, .direct = true},
	};
	const struct scan_pace compaction = {.rows = rows, .nr = 1};
	const struct scan_pace kswapd = {.rows = rows, .nr = 3};
	const struct scan_pace all = {.rows = rows, .nr = 4};

	check(!frees(&compaction, 5, false));
	check(!frees(&kswapd, 15, false));
	check(frees(&kswapd, 21, false));
	check(frees(&kswapd, 99, true));
	check(frees(&all, 15, false));
	check(!frees(&all, 15, true)); /* of costly orders it has only kswapd's scans */
}

TEST(a_run_of_compaction_is_the_recorded_one_of_that_time)
{
	struct scan_row rows[] = {
		{.ts = 10, .freed = 40, .compacts = true},
		{.ts = 15, .freed = 64, .direct = true},
		{.ts = 20, .freed = 1024, .compacts = true},
		{.ts = 25, .freed = 64},
		{.ts = 30, .freed = 50, .compacts = true, .direct = true},
	};
	const struct scan_pace pace = {.rows = rows, .nr = 5};
	const struct scan_pace daemon = {.rows = rows, .nr = 3};
	const struct scan_pace none = {.rows = rows + 3, .nr = 1};

	check(scan_compaction(&pace, 5, false)->freed == 40);
	check(scan_compaction(&pace, 11, false)->freed == 1024);
	check(scan_compaction(&pace, 21, false)->freed == 1024);
	check(scan_compaction(&pace, 5, true)->freed == 50);
	/* Without runs of its kind, those of the other; without any, 2048 pages at once. */
	check(scan_compaction(&daemon, 11, true)->freed == 1024);
	check(scan_compaction(&none, 11, true)->freed == 2048);
	check(scan_compaction(&none, 11, false)->ns == 0);
	/* They are no scans and no direct reclaim. */
	check(scan_direct(&pace, 20, false)->freed == 64);
}

/* The machine is short, and the record has kswapd's scans: all of its pages take 1 ms each. */
static void short_with_scans(struct reclaim_machine *w, bool generations, uint64_t freed)
{
	reclaim_machine_short(w);
	record_scan(w, (struct scan_row){
			       .ts = MS,
			       .ns = MS,
			       .scanned = 64,
			       .freed = freed,
			       .lru_pages = 1 << 13,
			       .class_zone = ZONE_NORMAL,
		       });
	w->run.pace.generations = generations;
}

/* Run the machine until its kswapd comes to a priority, or sleeps. */
static void run_to_priority(struct reclaim_machine *w, int priority)
{
	const struct kswapd *k = &w->run.kswapds[0];

	while (k->priority != priority && k->state != KSWAPD_ASLEEP)
		reclaim_run_until(&w->run, 50, w->run.due);
}

TEST(a_round_scans_the_share_of_its_priority)
{
	static const struct {
		bool generations;
		int64_t first; /* pages of the first round */
		int priority;  /* then */
	} cases[] = {{false, 2, 11}, {true, 1 << 7, 5}};

	for (size_t i = 0; i < 2; i++) {
		RECLAIM_MACHINE(w, short_with_scans, cases[i].generations, 64);
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		run_to_priority(&w, cases[i].priority);
		check(w.run.kswapds[0].scanned == cases[i].first);
		check(w.run.kswapds[0].got == cases[i].first);
	}
}

/*
 * lruvec_lru_size: zone DMA has a fifth of the node's pages, so 1638 of the 8192 pages on its
 * lists; from priority 9 on the share. A zone without memory makes no other class.
 */
TEST(a_pass_scans_the_lists_of_its_zones)
{
	static const struct {
		int class_zone, priority;
		int64_t scanned;
	} cases[] = {
		{ZONE_DMA, 9, 3}, {ZONE_DMA, 8, 6}, {ZONE_NORMAL, 12, 2}, {ZONE_MOVABLE, 12, 2}};

	for (size_t i = 0; i < 4; i++) {
		struct kswapd *k;

		RECLAIM_MACHINE(w, short_with_scans, false, 64);
		k = &w.run.kswapds[0];
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, cases[i].class_zone);
		run_to_priority(&w, cases[i].priority - 1);
		check(k->scanned == cases[i].scanned);
	}
}

/* should_run_aging, 6.12: generations count the pages of all zones, and DMA has none to free. */
TEST(with_generations_the_lists_of_all_zones_count)
{
	struct kswapd *k;

	RECLAIM_MACHINE(w, short_with_scans, true, 64);
	k = &w.run.kswapds[0];
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_DMA);
	run_to_priority(&w, 11);
	check(k->scanned == 2);
	check(k->got == 0);
}

/* The record's kswapd passed 12 rounds in 12 ms over lists without a page. */
TEST(a_pass_over_empty_lists_scans_nothing_and_fails)
{
	RECLAIM_MACHINE(w, reclaim_machine_short);
	record_scan(&w, (struct scan_row){.ts = MS, .ns = 12 * MS, .class_zone = ZONE_NORMAL});
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	/* The last round ends the pass as it begins, 11 ms after the first. */
	reclaim_run_until(&w.run, 50, 11 * MS);
	check(counters(&w, DMA)->kswapd_passes == 1);
	reclaim_run_until(&w.run, 50, 12 * MS);
	check(counters(&w, DMA)->kswapd_passes == 2);
	check(w.run.kswapds[0].failures == 1);
	reclaim_run_until(&w.run, 50, 16 * 12 * MS + MS);
	check(w.run.kswapds[0].failures == 16);
	check(counters(&w, NORMAL)->reclaimed_pages == 0);
	check(counters(&w, NORMAL)->reclaim_deficit_pages == 0);
}

/* Lists that the record shows empty from some time on end the round of a pass. */
TEST(a_scan_of_lists_that_are_empty_by_now_ends_the_round)
{
	struct scan_row *rows;
	struct kswapd *k;

	RECLAIM_MACHINE(w, reclaim_machine_short);
	rows = arrays_new(w.toy.m->arrays, 2, sizeof(*rows));
	rows[0] = (struct scan_row){
		.ts = MS,
		.ns = MS,
		.scanned = 64,
		.freed = 64,
		.lru_pages = 1 << 13,
		.class_zone = ZONE_NORMAL,
	};
	rows[1] = (struct scan_row){.ts = 100 * MS, .ns = 98 * MS, .class_zone = ZONE_NORMAL};
	w.run.pace.rows = rows;
	w.run.pace.nr = w.run.pace.room = 2;
	w.run.pace.generations = true;
	k = &w.run.kswapds[0];
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	/* 128 pages are due at priority 6: 64 of them in the first ms. */
	run_to_priority(&w, 5);
	check(k->scanned == 64);
	check(k->got == 64);
}

/* A block of 512 pages is scanned as a whole: it takes as long as in the record. */
TEST(a_large_block_takes_the_time_of_its_pages)
{
	struct kswapd *k;
	struct reclaimed *row;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 50, true);
	queue_pages(&w, 1, 5000 * MS);
	row = &w.run.supply.rows[0];
	row->order = 9;
	row->frame = normal_zone(&w)->end - 512;
	reclaim_machine_start(&w);
	w.serve.at = 50;
	record_scan(&w, (struct scan_row){
				.ts = MS,
				.ns = 8 * MS,
				.scanned = 512,
				.freed = 512,
				.lru_pages = 1 << 13,
				.class_zone = ZONE_NORMAL,
			});
	w.run.pace.generations = true;
	k = &w.run.kswapds[0];
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	while (!k->got && k->state != KSWAPD_ASLEEP)
		reclaim_run_until(&w.run, 50, w.run.due);
	check(k->got == 512);
	check(k->due == w.toy.m->now.ts + 8 * MS);
}

/* 128 pages are due at priority 6, from scans that take 64 pages and keep 32 for later. */
TEST(pages_left_for_later_do_not_count_towards_the_batch)
{
	static const struct {
		uint64_t scanned;
		int64_t first;
	} cases[] = {{96, 96}, {200, 128}, {40, 64}};

	for (size_t i = 0; i < 3; i++) {
		struct kswapd *k;

		RECLAIM_MACHINE(w, short_with_scans, true, 32);
		w.run.pace.rows[0].scanned = cases[i].scanned;
		k = &w.run.kswapds[0];
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		while (!k->scanned && k->state != KSWAPD_ASLEEP)
			reclaim_run_until(&w.run, 50, w.run.due);
		check(k->scanned == cases[i].first);
	}
}

/*
 * Scans that free nothing: the last round, of 4096 pages, takes 64 of 1 ms each. It takes two if
 * the record's pass ended after the first.
 */
TEST(kswapd_gives_up_at_the_last_priority_where_the_record_does)
{
	for (int spent = 0; spent < 2; spent++) {
		struct scan_row *rows;
		uint64_t last;

		RECLAIM_MACHINE(w, reclaim_machine_short);
		rows = arrays_new(w.toy.m->arrays, 2, sizeof(*rows));
		for (int i = 0; i < 2; i++)
			rows[i] = (struct scan_row){
				.ts = (uint64_t)(1 + 9999 * i) * MS,
				.ns = MS,
				.scanned = 64,
				.lru_pages = 1 << 13,
				.pass = 1 + i,
				.spent = !i && spent,
				.class_zone = ZONE_NORMAL,
			};
		w.run.pace.rows = rows;
		w.run.pace.nr = w.run.pace.room = 2;
		w.run.pace.generations = true;
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		run_to_priority(&w, 1);
		last = w.toy.m->now.ts;
		check(counters(&w, DMA)->kswapd_passes == 1);
		reclaim_run_until(&w.run, 50, last + 3 * MS);
		check(counters(&w, DMA)->kswapd_passes == 1 + (uint64_t)spent);
		reclaim_run_until(&w.run, 50, last + 70 * MS);
		check(counters(&w, DMA)->kswapd_passes > 1);
	}
}

/*
 * Scans of 32 pages. The last round of the pass gets above the high watermark before its last scan,
 * which it does not take if the record's pass ended before that.
 */
TEST(kswapd_looks_at_the_watermarks_where_a_pass_of_the_record_ends)
{
	for (int ended = 0; ended < 2; ended++) {
		enum { SCANS = 100, FIRST = 8 };
		struct scan_row *rows;
		struct zone *zone;

		RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
		rows = arrays_new(w.toy.m->arrays, SCANS, sizeof(*rows));
		make_free(&w, NORMAL, 50, true);
		queue_pages(&w, 2000, 5000 * MS);
		reclaim_machine_start(&w);
		w.serve.at = 50;
		for (int i = 0; i < SCANS; i++)
			rows[i] = (struct scan_row){
				.ts = (uint64_t)(1 + i) * MS,
				.ns = MS,
				.scanned = 32,
				.freed = 32,
				.lru_pages = 1 << 18,
				.pass = i < FIRST || !ended ? 1 : 2,
				.class_zone = ZONE_NORMAL,
			};
		w.run.pace.rows = rows;
		w.run.pace.nr = w.run.pace.room = SCANS;
		zone = normal_zone(&w);
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		reclaim_run_until(&w.run, 50, 200 * MS);
		check(counters(&w, DMA)->kswapd_passes == 1);
		check(counters(&w, NORMAL)->reclaimed_pages == (ended ? 283 : 315));
		check(zone_counted_free(zone) > (uint64_t)zone_mark(zone, WMARK_HIGH));
	}
}

TEST(a_scan_frees_the_recorded_share)
{
	RECLAIM_MACHINE(w, short_with_scans, true, 16);
	reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
	while (w.run.kswapds[0].priority != 5)
		reclaim_run_until(&w.run, 50, w.run.due);
	check(w.run.kswapds[0].scanned == 128);
	check(w.run.kswapds[0].got == 32);
}

/* The record's lists have generations: lru_gen_shrink_node leaves without a scan. */
TEST(lists_with_generations_are_not_scanned_for_a_boost)
{
	for (int generations = 0; generations < 2; generations++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.12.117", NULL);
		make_free(&w, NORMAL, 600, true);
		queue_pages(&w, 400, 5000 * MS);
		normal_zone(&w)->boost = 100;
		reclaim_machine_start(&w);
		w.serve.at = 50;
		w.run.pace.generations = generations;
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		reclaim_run_until(&w.run, 50, 1000 * MS);
		check((counters(&w, NORMAL)->reclaimed_pages > 0) == !generations);
		check(normal_zone(&w)->boost == 0);
		check(w.run.kswapds[0].failures == generations);
	}
}

/*
 * should_abort_scan, 6.12 and 7.2: a scan of lists with generations ends 64 pages above the high
 * watermark, with memory tiering above the promo watermark. 250 pages are free before it.
 */
TEST(memory_tiering_scans_generations_up_to_the_promo_watermark)
{
	static const struct {
		bool tiers;
		unsigned promo;
		uint64_t reclaimed;
	} cases[] = {{false, 340, 128}, {true, 340, 192}, {true, 0, 128}};

	for (size_t i = 0; i < 3; i++) {
		RECLAIM_MACHINE(w, reclaim_machine_new, "6.12.117", NULL);
		w.toy.m->zones[DMA].managed = 0;
		make_free(&w, NORMAL, 250, true);
		queue_pages(&w, 400, 5000 * MS);
		w.toy.m->tiers = cases[i].tiers;
		normal_zone(&w)->wmark_promo = cases[i].promo;
		reclaim_machine_start(&w);
		w.serve.at = 50;
		record_scan(&w, (struct scan_row){
					.ts = MS,
					.ns = MS,
					.scanned = 64,
					.freed = 64,
					.lru_pages = NORMAL_PAGES,
					.class_zone = ZONE_NORMAL,
				});
		w.run.pace.generations = true;
		reclaim_run_wake_kswapd(&w.run, 0, 0, 0, ZONE_NORMAL);
		reclaim_run_until(&w.run, 50, 1000 * MS);
		check(counters(&w, NORMAL)->reclaimed_pages == cases[i].reclaimed);
	}
}
