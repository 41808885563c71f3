// SPDX-License-Identifier: Apache-2.0
/*
 * The order in which a run plays requests, inferred rows and reclaim events. The machine is that
 * of free_run.h.
 */
#include "check.h"
#include "free_run.h"

/* An inferred row before row `at` of event: node 0's zone was not below its high watermark. */
static void inferred_mark(struct tape *t, uint64_t at)
{
	struct batch *batch = toy_rows(&inferred_table, 1);
	struct inferred_columns *c = (struct inferred_columns *)batch->slots;
	struct error err;

	c->at[0] = at;
	c->ts[0] = t->ts;
	c->kind[0] = INFERRED_KIND_TUNED;
	c->pfn[0] = BLOCK;
	c->below_high[0] = false;
	set_valid(c->below_high_valid, 0);
	must(tape_hand_over(t->r, batch, false, &err), &err);
	batch_free(batch);
}

TEST(inferred_rows_and_reclaim_events_are_played_in_their_recorded_order)
{
	static const struct {
		uint64_t reclaim_event,
			inferred; /* row before which each happened; the frees are rows 0 and 2 */
		bool marked;      /* the reclaim event came last */
	} cases[] = {{1, 1, false}, {2, 1, true}, {1, 2, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model *m;

		TAPE(t, tape_new, "6.18");
		m = replay_model(t.r);
		m->zones[0].wmark[WMARK_HIGH] = ZONE_PAGES;
		tape_free_page(&t, 1, ZONE_PAGES + 5, 0);
		tape_event(&t, EVENT_KIND_PCPU_DRAIN, 1, ZONE_PAGES + 5, 0);
		tape_free_page(&t, 1, ZONE_PAGES + 6, 0);
		/* Before direct reclaim begins, its request found the zone low and marked it. */
		tape_reclaim_row(&t, cases[i].reclaim_event, RECLAIM_KIND_DIRECT_RECLAIM_BEGIN, 0);
		inferred_mark(&t, cases[i].inferred);
		tape_play(&t);
		check(m->zones[0].below_high == cases[i].marked);
	}
}

TEST(reclaim_events_after_the_last_event_are_played)
{
	const struct model *m;

	TAPE(t, tape_new, "6.18");
	tape_alloc(&t, 0, 2000, 0);
	tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts + 100, ZONE_NORMAL);
	tape_kswapd_row(&t, RECLAIM_KIND_KSWAPD_SLEEP, t.ts + 200, ZONE_NORMAL);
	m = replay_model(t.r);
	m->zones[0].boost = 512;
	tape_play(&t);
	check(m->zones[0].boost == 0);
}
