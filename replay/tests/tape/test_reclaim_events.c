// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of the reclaim table: how long a pass of kswapd lasts, and which request comes out of
 * direct reclaim. The machine is that of free_run.h.
 */
#include "check.h"
#include "free_run.h"
#include "model/vmstat_diff.h"
#include "model/zone.h"

TEST(a_pass_of_kswapd_without_rows_of_reclaim_lasts_1_ms_longer_than_its_frees)
{
	static const struct {
		int zone;      /* class zone of the pass */
		int nr_frees;  /* of kswapd, 0.5 ms apart */
		uint64_t idle; /* time from there to the last event, ns */
		int64_t boost; /* at the end */
		bool active;
	} cases[] = {
		{ZONE_NORMAL, 0, 500000, 512, true}, {ZONE_NORMAL, 0, 1500000, 0, false},
		{ZONE_NORMAL, 8, 500000, 512, true}, {ZONE_NORMAL, 8, 1500000, 0, false},
		{ZONE_DMA32, 0, 500000, 512, false}, {ZONE_DMA32, 0, 1500000, 512, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct model *m;

		TAPE(t, tape_new, "6.18");
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts, cases[i].zone);
		m = replay_model(t.r);
		m->zones[0].boost = m->zones[1].boost = 512;
		for (int n = 0; n < cases[i].nr_frees; n++) {
			t.ts += 499000;
			tape_free_page(&t, 0, n, 0);
			((struct event_columns *)t.events->slots)->pid[n] = KSWAPD_PID;
		}
		t.ts += cases[i].idle;
		tape_alloc(&t, 0, 2000, 0);
		tape_play(&t);
		check(m->zones[0].boost == cases[i].boost);
		check(m->zones[0].reclaim_active == cases[i].active);
		check(m->zones[1].boost == 512 && !m->zones[1].reclaim_active);
	}
}

TEST(a_pass_of_kswapd_lasts_until_its_last_row)
{
	for (int late = 0; late < 2; late++) {
		const struct model *m;

		TAPE(t, tape_new, "6.1.192");
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts, ZONE_NORMAL);
		tape_kswapd_row_at(&t, 1, RECLAIM_KIND_SHRINK_SLAB_END,
				   t.ts + (late ? 20000000 - 40000 : 1000), ZONE_NORMAL);
		m = replay_model(t.r);
		/* 50 us after the last row the pass is over. */
		t.ts += late ? 20000000 : 60000;
		tape_alloc(&t, 0, 2000, 0);
		tape_play(&t);
		check(m->zones[0].reclaim_active == late);
	}
}

TEST(lists_are_drained_for_the_request_that_comes_out_of_reclaim)
{
	static const struct {
		uint64_t end; /* row before which reclaim ends */
		int order;    /* of the request that reclaimed */
		bool drained;
	} cases[] = {{1, 2, true}, {1, 1, false}, {3, 2, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model *m;

		TAPE(t, tape_new, "6.18");
		tape_reclaim_row(&t, 0, RECLAIM_KIND_DIRECT_RECLAIM_BEGIN, cases[i].order);
		tape_reclaim_row(&t, cases[i].end, RECLAIM_KIND_DIRECT_RECLAIM_END, 0);
		m = replay_model(t.r);
		for (int mark = WMARK_MIN; mark < NR_WMARK; mark++)
			m->zones[0].wmark[mark] = m->zones[1].wmark[mark] = ZONE_PAGES;
		tape_free_page(&t, 1, ZONE_PAGES + 5, 0);
		tape_alloc(&t, 0, 2000, 2);
		tape_play(&t);
		check(zone_pcp(m, &m->zones[1], 1)->count == !cases[i].drained);
	}
}

/* The first request is 512 pages below its mark. A free of task 1 pays while the task is in direct
 * reclaim. */
TEST(frees_of_the_records_reclaim_pay_an_advance)
{
	static const struct {
		uint64_t begin, end; /* rows before which reclaim begins and ends */
		uint64_t paid;
	} cases[] = {{1, 3, 1}, {0, 1, 0}, {2, 3, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model *m;

		TAPE(t, tape_new, "6.18");
		tape_reclaim_row(&t, cases[i].begin, RECLAIM_KIND_DIRECT_RECLAIM_BEGIN, 0);
		tape_reclaim_row(&t, cases[i].end, RECLAIM_KIND_DIRECT_RECLAIM_END, 0);
		m = replay_model(t.r);
		for (int mark = WMARK_MIN; mark < NR_WMARK; mark++)
			m->zones[0].wmark[mark] = m->zones[1].wmark[mark] = ZONE_PAGES;
		tape_alloc(&t, 0, 500, 0);
		tape_free_page(&t, 0, 500, 0);
		tape_play(&t);
		check(m->owed == 512 + 32 - cases[i].paid);
	}
}

TEST(kernels_without_boosts_ignore_a_recorded_boost)
{
	static const struct {
		const char *kernel;
		int64_t boost;
	} cases[] = {{"4.20", 0}, {"5.0", 512}, {"6.18", 512}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TAPE(t, tape_new, cases[i].kernel);
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_SLEEP, t.ts, ZONE_NORMAL);
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts + 500, ZONE_NORMAL);
		replay_model(t.r)->zones[0].boost = 512;
		tape_alloc(&t, 0, 2000, 0);
		tape_play(&t);
		check(replay_model(t.r)->zones[0].boost == cases[i].boost);
	}
}

/* The rows before the first event take effect. */
static void run_rows(struct reclaim_events *a, struct model *m)
{
	const struct reclaim_event *row;

	while ((row = reclaim_events_next(a, 0))) {
		m->now.ts = row->ts;
		reclaim_events_kswapd(a, m, row);
	}
}

/*
 * Passes of 1 ms (without rows of their reclaim). The model alone has a boost of both zones 10 ms
 * after the first; only node 0's woke kswapd.
 */
TEST(a_boost_that_only_the_model_has_ends_with_a_pass_of_its_own)
{
	static const struct {
		uint64_t next; /* the next recorded pass, ns after the boost; 0: none */
		uint64_t looks;
		int64_t boost; /* then */
		bool active;
	} cases[] = {
		{0, 500000, 512, true},           {0, 1500000, 0, false},
		{50000000, 1500000, 512, false},  /* waits for the recorded one */
		{110000000, 1500000, 512, false}, /* which may come after a nap */
		{500000000, 1500000, 0, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reclaim_events *a;
		struct model *m;
		uint64_t ts;

		TAPE(t, tape_new, "6.18");
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts, ZONE_NORMAL);
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_SLEEP, t.ts + 1000000, ZONE_NORMAL);
		ts = t.ts + 10000000;
		if (cases[i].next)
			tape_kswapd_row_at(&t, 5, RECLAIM_KIND_KSWAPD_WAKE, ts + cases[i].next,
					   ZONE_NORMAL);
		a = &t.r->run.load.reclaim_events;
		m = replay_model(t.r);
		run_rows(a, m);
		m->zones[0].boost = m->zones[1].boost = 512;
		m->record->boosted_nodes = 1;
		reclaim_events_boosts(a, m, ts);
		reclaim_events_boosts(a, m, ts + cases[i].looks);
		check(m->zones[0].boost == cases[i].boost);
		check(m->zones[0].reclaim_active == cases[i].active);
		check(m->zones[1].boost == 512 && !m->record->boosted_nodes);
	}
}

/* A pass from row 0 to the sleep, 400 ms later. The boost comes before the nap, or in it. */
TEST(a_boost_does_not_wake_a_kswapd_that_is_awake)
{
	static const struct {
		uint64_t boosted; /* ns after the begin */
		int64_t above;    /* pages of the zone above its high mark with the boost */
		bool after_sleep; /* looks when kswapd sleeps */
		int planned;
		uint64_t reserved; /* of these, HIGHATOMIC */
		int64_t held_back; /* of these, from requests of the pass's class zone */
	} cases[] = {
		{100000000, 1, false, 0, 0, 0},
		{100000000, 1, true, 0, 0, 0}, /* balanced: it sleeps, and the boost stays */
		{100000000, 0, true, 1, 0, 0},
		{100000000, 8, true, 0, 7, 0},
		{100000000, 8, true, 1, 8, 0}, /* kswapd does not count the reserve as free */
		{100000000, 8, true, 0, 0, 7},
		{100000000, 8, true, 1, 0, 8},
		{350000000, 1, false, 1, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reclaim_events *a;
		struct model *m;
		struct zone *zone;

		TAPE(t, tape_new, "6.18");
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts, ZONE_MOVABLE);
		tape_kswapd_row_at(&t, 5, RECLAIM_KIND_KSWAPD_SLEEP, t.ts + 400000000, ZONE_NORMAL);
		a = &t.r->run.load.reclaim_events;
		m = replay_model(t.r);
		run_rows(a, m);
		for (int z = 0; z < m->nr_zones; z++) {
			zone = &m->zones[z];
			zone->boost = 512;
			zone->wmark[WMARK_HIGH] =
				(int64_t)zone_counted_free(zone) - 512 - cases[i].above;
			zone->nr_free_highatomic = cases[i].reserved;
			zone->lowmem_reserve[ZONE_MOVABLE] = cases[i].held_back;
		}
		m->record->boosted_nodes = 1;
		reclaim_events_boosts(a, m, t.ts + cases[i].boosted);
		if (cases[i].after_sleep) {
			reclaim_events_kswapd(a, m, reclaim_events_next(a, 5));
			reclaim_events_boosts(a, m, t.ts + 400000000);
		}
		check(a->nr_own_passes == cases[i].planned);
		check(m->zones[0].boost == 512);
	}
}

/* A pass ends where the next begins, the last with the sleep. Then only the model has a boost. */
TEST(a_boost_wakes_no_kswapd_that_the_record_shows_hopeless)
{
	static const struct {
		const char *kernel;
		int passes;
		int frees;      /* the pass in which the task has an event, from 1 on; 0: none */
		bool for_boost; /* the passes begin with a boost */
		bool direct;    /* then a direct reclaim finds pages */
		bool balanced;  /* the node is, by then */
		bool wakes;
	} cases[] = {
		{"6.18", 15, 0, false, false, false, true},
		{"6.18", 16, 0, false, false, false, false},
		{"6.18", 16, 16, false, false, false, true},
		{"6.18", 16, 2, false, false, false, true},
		{"6.18", 18, 2, false, false, false, false},
		{"6.18", 16, 0, true, false, false, false},
		{"6.18", 16, 0, false, true, false, true},
		{"7.0", 16, 0, false, true, false, false},
		{"7.0", 16, 0, false, true, true, true},
		{"7.2", 16, 0, true, false, false, true},
		{"7.2", 16, 0, false, false, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct reclaim_event direct_end = {.progress = cases[i].direct};
		const struct reclaim_event *row;
		struct reclaim_events *a;
		struct model *m;
		int pass = 0;

		TAPE(t, tape_new, cases[i].kernel);
		for (int n = 0; n < cases[i].passes; n++)
			tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts + 100000 * (uint64_t)n,
					ZONE_NORMAL);
		tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_SLEEP, t.ts + 5000000, ZONE_NORMAL);
		a = &t.r->run.load.reclaim_events;
		m = replay_model(t.r);
		for (int z = 0; !cases[i].balanced && z < m->nr_zones; z++)
			m->zones[z].wmark[WMARK_HIGH] = ZONE_PAGES;
		while ((row = reclaim_events_next(a, 0))) {
			m->now.ts = row->ts;
			m->zones[0].boost = cases[i].for_boost ? 512 : 0;
			reclaim_events_kswapd(a, m, row);
			if (++pass == cases[i].frees)
				reclaim_events_seen(a, m, KSWAPD_PID, m->now.ts);
		}
		reclaim_events_direct_end(a, m, &direct_end);
		m->record->boosted_nodes = 1;
		reclaim_events_boosts(a, m, m->now.ts + 1000000000);
		check(a->nr_own_passes == cases[i].wakes);
	}
}

TEST(a_kswapd_that_has_given_up_before_the_start_leaves_its_boosts)
{
	for (int hopeless = 0; hopeless < 2; hopeless++) {
		struct reclaim_events a = {0};
		struct error err;
		struct model *m;

		TAPE(t, tape_new, "6.18");
		m = replay_model(t.r);
		m->record->hopeless_nodes = (uint64_t)hopeless;
		tape_alloc(&t, 0, 2000, 0);
		tape_play(&t);
		check(m->record->boost_acts == hopeless);
		check(reclaim_events_new(&a, m, &err) == 0);
		m->zones[0].boost = 512;
		m->record->boosted_nodes = 1;
		reclaim_events_boosts(&a, m, t.ts);
		check(m->zones[0].boost == (hopeless ? 512 : 0));
	}
}

TEST(a_recorded_pass_takes_the_place_of_the_models_own)
{
	struct reclaim_events *a;
	struct model *m;

	TAPE(t, tape_new, "6.18");
	tape_kswapd_row_at(&t, 5, RECLAIM_KIND_KSWAPD_WAKE, t.ts + 300000000, ZONE_NORMAL);
	a = &t.r->run.load.reclaim_events;
	m = replay_model(t.r);
	m->zones[0].boost = 512;
	m->record->boosted_nodes = 1;
	reclaim_events_boosts(a, m, t.ts);
	check(a->nr_own_passes == 1 && m->zones[0].boost_seen == 512);
	reclaim_events_kswapd(a, m, reclaim_events_next(a, 5));
	check(a->nr_own_passes == 0 && a->nr_passes == 1);
	check(m->zones[0].boost == 0 && m->zones[0].reclaim_active);
}
