// SPDX-License-Identifier: Apache-2.0
/*
 * The holder of a PCP lock, inferred from where the frees of an interrupt went.
 */
#include "short_tape.h"

#include "model/force_state.h"

static const struct chunk chunks[] = {{2048, 10, MOVABLE}};

TEST(a_free_that_interrupts_a_refill_goes_past_the_pcp)
{
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		FREE_IN_SOFTIRQ(0, 600, 0),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(place_of(validate_model(v), 600) == PLACE_FREE);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LOCKED_FREE].nr == 1);
}

TEST(once_the_holder_goes_on_an_interrupt_finds_the_lock_free)
{
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ALLOC(0, 2048, 0, MOVABLE),
		ALLOC(0, 700, 0, UNMOVABLE),
		FREE_IN_SOFTIRQ(0, 600, 0),
		FREE(0, 700, 0),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(place_of(validate_model(v), 600) == PLACE_PCP);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LOCKED_FREE].nr == 0);
}

TEST(a_page_that_is_drained_later_was_not_freed_past_a_lock)
{
	/* As above, but the later drain shows that the holder had released the lock. */
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		FREE_IN_SOFTIRQ(0, 600, 0),
		ALLOC(0, 2048, 0, MOVABLE),
		DRAIN(1, 600, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(all_exact(v, DECISION_DRAIN, 1));
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LOCKED_FREE].nr == 0);
}

TEST(another_cpu_s_interrupt_does_not_meet_the_holder)
{
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		FREE_IN_SOFTIRQ(1, 600, 0),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(place_of(validate_model(v), 600) == PLACE_PCP);
}

TEST(a_page_that_next_leaves_a_free_list_was_freed_past_the_pcp)
{
	/* The holder of the lock has no event. */
	static const struct row events[] = {
		FREE(0, 600, 0),
		ZONE_LOCKED(1, 600, 0, MOVABLE),
		ALLOC(1, 600, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LOCKED_FREE].nr == 1);
}

TEST(one_page_shows_where_all_pages_of_its_interrupt_went)
{
	/* The interrupted free holds the lock after its event. */
	static const struct row events[] = {
		FREE(0, 700, 0), FREE_IN_SOFTIRQ(0, 600, 0),      FREE_IN_SOFTIRQ(0, 602, 0),
		FREE(0, 704, 0), ZONE_LOCKED(1, 602, 0, MOVABLE), ALLOC(1, 602, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(place_of(validate_model(v), 600) == PLACE_FREE);
	check(place_of(validate_model(v), 704) == PLACE_PCP);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
}

TEST(a_single_page_is_no_refill_while_more_are_free)
{
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4);

	check(decision_count(v, DECISION_ALLOC).exact == 1 &&
	      decision_count(v, DECISION_REFILL_SIZE).nr == 0);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LOCKED_ALLOC].nr == 1);
}
