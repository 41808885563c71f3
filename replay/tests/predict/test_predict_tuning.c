// SPDX-License-Identifier: Apache-2.0
/* The tuning of a PCP, as drains, ticks and refills show it. */
#include "short_tape.h"

TEST(a_drain_below_high_shows_reclaim_and_a_missing_drain_shows_its_end)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* During reclaim the PCP holds at most 4 pages, after it 8. */
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 4), DRAIN(0, 512, 0, MOVABLE, .run = 3),
		FREE(0, 520, 0, .run = 3), DRAIN(0, 518, 0, MOVABLE, .run = 3),
		FREE(0, 526, 0, .run = 6),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	/* The begin and the end of reclaim are one miss each. */
	check(all_exact(v, DECISION_DRAIN, 6));
	check(decision_count(v, DECISION_DRAIN_SIZE).nr == 3);
	check(decision_count(v, DECISION_DRAIN_SIZE).exact == 1);
	check(!validate_model(v)->zones[0].reclaim_active);
	check(validate_model(v)->pcps[0].high == 8);
}

TEST(a_start_of_proc_learns_from_drains_once_its_pcp_pages_were_seen)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* The PCPs begin with a page each, which leaves them first; then as above. */
	static const struct row events[] = {
		ALLOC(0, 256, 0, MOVABLE), ALLOC(1, 258, 0, MOVABLE),
		FREE(0, 512, 0, .run = 4), DRAIN(0, 512, 0, MOVABLE, .run = 3),
		FREE(0, 520, 0, .run = 3), DRAIN(0, 518, 0, MOVABLE, .run = 3),
	};
	VALIDATE *v = VALIDATED(chunks, events, .unseen = 1);

	check(decision_count(v, DECISION_DRAIN_SIZE).nr == 2);
	check(decision_count(v, DECISION_DRAIN_SIZE).exact == 1);
	check(validate_model(v)->zones[0].reclaim_active);
}

TEST(a_drain_of_a_batch_shows_that_few_pages_were_freed_in_a_row)
{
	enum { FREES = 16, BATCH = 4 };
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	struct row events[FREES + BATCH];
	struct validate *v;

	for (int i = 0; i < FREES; i++)
		events[i] = (struct row)FREE(0, 512 + 2 * (uint64_t)i, 0);
	for (int i = 0; i < BATCH; i++)
		events[FREES + i] = (struct row)DRAIN(0, 512 + 2 * (uint64_t)i, 0, MOVABLE);
	v = VALIDATED(chunks, events, .pcp_batch = BATCH, .pcp_high = FREES);
	check(decision_count(v, DECISION_DRAIN_SIZE).nr == 1);
	check(decision_count(v, DECISION_DRAIN_SIZE).exact == 0);
	/* Any count up to a batch explains it; the next frees would show a larger one. */
	check(validate_model(v)->pcps[0].free_count == 1);
	validate_free(v);
}

TEST(a_decay_shows_that_the_lists_before_its_own_are_empty)
{
	enum { FREES = 36 };
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}};
	static struct row events[FREES + 7];
	struct row *next = events;
	struct validate *v;

	*next++ = (struct row)EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE);
	*next++ = (struct row)ALLOC(0, 1024, 4, UNMOVABLE);
	/* Two of the three pages leave the list UNMOVABLE without an event. */
	*next++ = (struct row)FREE(1, 1024, 0);
	*next++ = (struct row)FREE(1, 1026, 0);
	*next++ = (struct row)FREE(1, 1028, 0);
	for (uint8_t i = 0; i < FREES; i++)
		*next++ = (struct row)FREE(1, 512u + 2u * i, 0);
	*next++ = (struct row)DRAIN(1, 1024, 0, UNMOVABLE, .worker = true);
	*next++ = (struct row)DRAIN(1, 512, 0, MOVABLE, .worker = true);
	v = VALIDATED(chunks, events, .pcp_batch = 1, .pcp_high = 40, .tick_at = FREES + 5);
	check(validate_model(v)->pcps[1].count == FREES - 1);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_UNTRACED_ALLOC].nr == 2);
	validate_free(v);
}

TEST(a_drain_as_large_as_that_of_a_tick_shows_a_tick)
{
	enum { FREES = 23 };
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	struct row events[FREES + 2];
	struct validate *v;

	for (int i = 0; i < FREES; i++)
		events[i] = (struct row)FREE(0, 512 + 2 * (uint64_t)i, 0);
	events[FREES] = (struct row)ALLOC(0, 512 + 2 * (FREES - 1), 0, MOVABLE);
	/* The tick lowers high from 24 by an eighth to 21: of 22 pages it drains one. */
	events[FREES + 1] = (struct row)DRAIN(0, 512, 0, MOVABLE);
	v = VALIDATED(chunks, events, .pcp_batch = 1, .pcp_high = 24);
	check(validate_model(v)->pcps[0].count == 21);
	check(validate_model(v)->pcps[0].high == 21);
	validate_free(v);
}

TEST(an_idle_pcp_of_another_node_s_zone_is_drained_by_the_third_tick)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* The refill makes the list active; the worker drains one batch, oldest page first. */
	static const struct row events[] = {
		ZONE_LOCKED(1, 2048, 0, MOVABLE),
		ZONE_LOCKED(1, 2049, 0, MOVABLE),
		ALLOC(1, 2048, 0, MOVABLE),
		FREE(1, 512, 0),
		FREE(1, 514, 0),
		DRAIN(1, 2049, 0, MOVABLE, .worker = true),
		DRAIN(1, 512, 0, MOVABLE, .worker = true),
	};
	static const struct {
		size_t ticks;
		bool remote, expected;
	} cases[] = {{3, true, true}, {2, true, false}, {4, true, false}, {3, false, false}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct validate *v =
			VALIDATED(chunks, events, .pcp_batch = 2, .tick_at = 5,
				  .nr_ticks = cases[i].ticks, .remote = cases[i].remote);
		const struct zone_accuracy *score = &validate_totals(v)->accuracy;

		check(decision_count(v, DECISION_DRAIN_SIZE).nr == cases[i].expected);
		check(decision_count(v, DECISION_DRAIN_SIZE).exact == cases[i].expected);
		check(score->repairs[REPAIR_CAUSE_DRAINED_ELSEWHERE].nr == !cases[i].expected);
		check(zone_pcp(validate_model(v), validate_model(v)->zones, 1)->count == 1);
		validate_free(v);
	}
}

TEST(an_idle_pcp_that_no_tick_drained_counts_its_ticks_anew)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 2048, 0, MOVABLE),
		ZONE_LOCKED(1, 2049, 0, MOVABLE),
		ALLOC(1, 2048, 0, MOVABLE),
		FREE(1, 512, 0),
		FREE(0, 1024, 0),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 2, .tick_at = 4, .nr_ticks = 3,
				.remote = true);
	const struct pcp *pcp = zone_pcp(validate_model(v), validate_model(v)->zones, 1);

	check(pcp->count == 2);
	check(pcp->expire == 2);
}
