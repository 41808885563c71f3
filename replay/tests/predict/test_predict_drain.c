// SPDX-License-Identifier: Apache-2.0
/* Predictions of drains: which pages, how many, and after which event. */
#include "short_tape.h"

TEST(a_drain_that_waits_for_the_zone_lock_comes_after_the_events_of_the_holder)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}, {1024, 0, MOVABLE}};
	/* The last free overflows the PCP while another CPU holds the zone lock. */
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 8),
		ZONE_LOCKED(1, 1024, 0, MOVABLE),
		ALLOC(1, 1024, 0, MOVABLE),
		DRAIN(0, 512, 0, MOVABLE, .run = 7),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(all_exact(v, DECISION_ZONE_LOCKED, 1));
	check(all_exact(v, DECISION_DRAIN, 7));
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
}

TEST(a_drained_page_was_on_the_list_of_the_type_it_was_freed_as)
{
	static const struct chunk chunks[] = {{768, 7, MOVABLE}};
	/* The pageblock is claimed while its pages are on the PCP. */
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 7),
		ZONE_LOCKED(0, 768, 4, UNMOVABLE),
		EXTFRAG(0, 768, 4, 7, UNMOVABLE, MOVABLE),
		ALLOC(0, 768, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		DRAIN(0, 512, 0, UNMOVABLE, .run = 7),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_EXTFRAG).exact == 1);
	check(all_exact(v, DECISION_DRAIN, 7));
	check(decision_count(v, DECISION_DRAIN_SIZE).exact == 1);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_DRAINED_ELSEWHERE].nr == 0);
}

TEST(a_drain_that_skips_list_0_does_not_empty_all_lists)
{
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}};
	/* All seven pages are drained, beginning with the list of the last free. */
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		FREE(0, 512, 0, .run = 6),
		DRAIN(0, 512, 0, MOVABLE, .run = 6),
		DRAIN(0, 1024, 0, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(all_exact(v, DECISION_DRAIN, 7));
	check(decision_count(v, DECISION_DRAIN_SIZE).nr == 1);
}

/* Nothing shows the refill of 2048 to 2051, nor two pages that left the list before the drain's. */
TEST(a_drain_shows_a_refill_and_allocs_without_events)
{
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}, {2048, 2, MOVABLE}};
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 0, .run = 2),
		DRAIN(0, 2051, 0, MOVABLE, .task = 2),
		DRAIN(0, 2050, 0, MOVABLE, .task = 2),
		DRAIN(0, 2049, 0, MOVABLE, .task = 2),
		DRAIN(0, 2048, 0, MOVABLE, .task = 2),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_DRAIN).nr == 4 &&
	      decision_count(v, DECISION_DRAIN).exact == 3);
}

/* A virtual CPU may stand still amid a drain. A second drain would begin with the UNMOVABLE list.
 */
TEST(a_pause_ends_no_drain_whose_size_is_a_guess)
{
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}};
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		FREE(0, 512, 0, .run = 4),
		DRAIN(0, 512, 0, MOVABLE),
		DRAIN(0, 514, 0, MOVABLE),
		DRAIN(0, 516, 0, MOVABLE, .pause = 5),
		DRAIN(0, 518, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 2, .unseen = 11);

	check(all_exact(v, DECISION_DRAIN, 4));
	check(decision_count(v, DECISION_DRAIN_SIZE).nr == 1);
	check(decision_count(v, DECISION_DRAIN_SIZE).unknown == 1);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_DRAINED_ELSEWHERE].nr == 0);
}

TEST(another_task_s_work_between_a_free_and_its_drain_does_not_matter)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 8),
		DRAIN(0, 512, 0, MOVABLE, .run = 7),
	};
	VALIDATE *v = VALIDATED(chunks, events, .tick_at = 8);

	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
}

TEST(a_drained_chunk_of_several_pageblocks_sets_the_type_of_each)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {FREE(0, 1024, 10), DRAIN(0, 1024, 10, UNMOVABLE)};
	VALIDATE *v = VALIDATED(chunks, events);

	check(frame_block(validate_model(v), 1024)->migratetype == UNMOVABLE);
	check(frame_block(validate_model(v), 1536)->migratetype == UNMOVABLE);
}

TEST(a_drain_in_pieces_goes_on_after_an_interrupt_between_two_of_them)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* 16 pages overflow: 14 of them, in pieces of 2. The interrupt's page stays on the list. */
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 16), DRAIN(0, 512, 0, MOVABLE, .run = 4),
		FREE_IN_SOFTIRQ(0, 700, 0), DRAIN(0, 520, 0, MOVABLE, .run = 10),
		ALLOC(0, 700, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "6.19", .pcp_batch = 2);

	check(all_exact(v, DECISION_DRAIN, 14));
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(decision_count(v, DECISION_ALLOC).exact == 1);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_DRAINED_ELSEWHERE].nr == 0);
	validate_free(v);
	v = VALIDATED(chunks, events, .kernel = "6.18", .pcp_batch = 2);
	check(decision_count(v, DECISION_DRAIN_SIZE).exact == 0);
}

/* The page that the task frees after the other's, with preemption off, is of the switch back. */
TEST(a_drain_in_pieces_goes_on_after_another_task_between_two_of_them)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 16),           DRAIN(0, 512, 0, MOVABLE, .run = 4),
		FREE(0, 700, 0, .worker = true),      FREE(0, 702, 0, .flags = CONTEXT_PREEMPT_OFF),
		DRAIN(0, 520, 0, MOVABLE, .run = 10),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "6.19", .pcp_batch = 2);

	check(all_exact(v, DECISION_DRAIN, 14));
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(validate_model(v)->pcps[0].count == 4);
}

/* The drain shows the place of 516, which is the only miss. */
TEST(an_entry_gets_the_place_in_which_a_drain_reaches_it)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 16),          DRAIN(0, 512, 0, MOVABLE, .run = 2),
		DRAIN(0, 518, 0, MOVABLE, .run = 2), DRAIN(0, 516, 0, MOVABLE),
		DRAIN(0, 522, 0, MOVABLE, .run = 9),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 2);

	check(decision_count(v, DECISION_DRAIN).nr == 14);
	check(decision_count(v, DECISION_DRAIN).exact == 13);
}

/* A CPU has a place for each of them. The first one's rest is 10 pages, the second one's all. */
TEST(two_drains_in_pieces_go_on_after_each_other)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 16),
		DRAIN(0, 512, 0, MOVABLE, .run = 4),
		FREE(0, 700, 0, .run = 4, .worker = true),
		DRAIN(0, 520, 0, MOVABLE, .run = 2, .worker = true),
		DRAIN(0, 524, 0, MOVABLE, .run = 10),
		DRAIN(0, 700, 0, MOVABLE, .run = 4, .worker = true),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "6.19", .pcp_batch = 2);

	check(all_exact(v, DECISION_DRAIN, 20));
	check(all_exact(v, DECISION_DRAIN_SIZE, 2));
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_DRAINED_ELSEWHERE].nr == 0);
}

TEST(another_cpu_refills_between_two_pieces_of_a_drain)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 16),           DRAIN(0, 512, 0, MOVABLE, .run = 4),
		ZONE_LOCKED(1, 518, 0, MOVABLE),      ZONE_LOCKED(1, 516, 0, MOVABLE),
		DRAIN(0, 520, 0, MOVABLE, .run = 10), ALLOC(1, 518, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "6.19", .pcp_batch = 2);

	check(all_exact(v, DECISION_ZONE_LOCKED, 2));
	check(all_exact(v, DECISION_DRAIN, 14));
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
}

/* 14 of 17 pages, in pieces of 2: with a chunk of 8 pages in one of them, that is all. */
TEST(a_drain_in_pieces_ends_when_the_lists_are_empty)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 9),
		FREE(0, 1024, 3),
		DRAIN(0, 1024, 3, MOVABLE),
		DRAIN(0, 512, 0, MOVABLE, .run = 9),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "6.19", .pcp_batch = 2);

	check(all_exact(v, DECISION_DRAIN, 10));
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
}

TEST(a_drain_in_pieces_stops_when_its_task_moves_to_another_cpu)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* 16 pages overflow: 14 of them, in pieces of 2. The second piece is the last one. */
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 15),
		FREE(0, 542, 0, .worker = true),
		DRAIN(0, 512, 0, MOVABLE, .run = 4, .worker = true),
		FREE(1, 700, 0, .worker = true),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "6.19", .pcp_batch = 2);
	struct accuracy_count size = decision_count(v, DECISION_DRAIN_SIZE);

	check(size.nr == 1 && size.unknown == 1);
	check(validate_model(v)->pcps[0].count == 12);
	validate_free(v);
	/* Up to 6.18 a drain has no pieces. */
	v = VALIDATED(chunks, events, .kernel = "6.18", .pcp_batch = 2);
	size = decision_count(v, DECISION_DRAIN_SIZE);
	check(size.nr == 1 && size.unknown == 0 && size.exact == 0);
}

/* A page of a drain of all lists, by another task. */
#define DRAIN_ALL(p, ...) DRAIN(0, p, 0, MOVABLE, .task = 2, __VA_ARGS__)

TEST(a_list_that_a_drain_of_all_lists_passes_over_was_empty)
{
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}};
	/* A task takes 1024 before the drain, and waits until its alloc event. */
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		FREE(0, 512, 0, .run = 3),
		DRAIN_ALL(512, .run = 3),
		ALLOC(0, 1024, 0, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_DRAIN).nr == 3 &&
	      decision_count(v, DECISION_DRAIN).exact == 2);
	check(decision_count(v, DECISION_ALLOC).exact == 2);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LATE_ALLOC].nr == 1);
	check(validate_model(v)->pcps[0].count == 0);
}

TEST(several_pages_of_a_list_that_a_drain_passes_over_are_still_there)
{
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}};
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		FREE(0, 1025, 0),
		FREE(0, 512, 0),
		FREE(0, 514, 0),
		DRAIN_ALL(512),
		DRAIN_ALL(514),
		ALLOC(0, 1025, 0, UNMOVABLE),
		ALLOC(0, 1024, 0, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ALLOC).exact == 3);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LATE_ALLOC].nr == 0);
}

TEST(the_only_entry_of_a_list_passed_over_has_left_if_it_never_comes_again)
{
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}};
	/* After the list of the last free comes that of 1024, whose task waits until the end. */
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		FREE(0, 512, 0, .run = 4),
		FREE(0, 520, 1),
		DRAIN(0, 520, 1, MOVABLE),
		DRAIN(0, 512, 0, MOVABLE, .run = 4),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_DRAIN).nr == 5 &&
	      decision_count(v, DECISION_DRAIN).exact == 4);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_UNTRACED_ALLOC].nr == 1);
	check(validate_model(v)->pcps[0].count == 0);
}

TEST(a_drain_of_the_whole_pcp_may_follow_an_overflow)
{
	static const struct chunk chunks[] = {{768, 7, MOVABLE}};
	static const struct row events[] = {
		/* The pageblock of page 512 becomes UNMOVABLE. */
		ZONE_LOCKED(0, 768, 4, UNMOVABLE),
		EXTFRAG(0, 768, 4, 7, UNMOVABLE, MOVABLE),
		ALLOC(0, 768, 4, UNMOVABLE),
		FREE(0, 512, 0),
		FREE(0, 1030, 0, .run = 6),
		ALLOC(0, 1040, 0, MOVABLE),
		FREE(0, 1042, 0),
		FREE(0, 1044, 0),
		/* 7 pages freed in a row, halved by the alloc, and 2 more. */
		DRAIN(0, 1030, 0, MOVABLE, .run = 5),
		/* The same task drains the PCP, from the first list on. */
		DRAIN(0, 512, 0, UNMOVABLE),
		DRAIN(0, 1042, 0, MOVABLE),
		DRAIN(0, 1044, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(all_exact(v, DECISION_DRAIN, 8));
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
}
