// SPDX-License-Identifier: Apache-2.0
/* Refills and allocations without events, inferred from later ones. */
#include "short_tape.h"

static void allocs_of_what_an_empty_pcp_would_be_refilled_with_show_an_inferred_refill(void)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* It ended before the page that the free lists give later. */
	static const struct row events[] = {
		ALLOC(0, 2048, 0, MOVABLE),
		ALLOC(0, 2049, 0, MOVABLE),
		ZONE_LOCKED(1, 2050, 0, MOVABLE),
		ALLOC(1, 2050, 0, MOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events, .pcp_batch = 4);
	const struct zone_accuracy *score = &validate_totals(v)->accuracy;

	check(decision_count(v, DECISION_ALLOC).exact == 3);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
	check(score->repairs[REPAIR_CAUSE_INFERRED_REFILL].nr == 1);
	check(score->repairs[REPAIR_CAUSE_INFERRED_REFILL].pages == 2);
	validate_free(v);
}

static void a_refill_that_no_alloc_follows_hands_out_what_is_freed_next(void)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ZONE_LOCKED(0, 2049, 0, MOVABLE),
		ZONE_LOCKED(0, 2050, 0, MOVABLE),
		ZONE_LOCKED(0, 2051, 0, MOVABLE),
		ALLOC(0, 2050, 0, MOVABLE),
		FREE(0, 2048, 0),
		FREE(0, 2049, 0),
	};
	struct validate *v = VALIDATED(chunks, events, .pcp_batch = 4);

	check(decision_count(v, DECISION_ALLOC).nr == 1 &&
	      decision_count(v, DECISION_ALLOC).exact == 1);
	/* Not for want of another reason for the alloc to get another page. */
	check(validate_totals(v)->alloc_inferred == 0);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_UNTRACED_ALLOC].pages == 2);
	check(validate_model(v)->pcps[0].count == 3);
	validate_free(v);
}

int main(void)
{
	test(allocs_of_what_an_empty_pcp_would_be_refilled_with_show_an_inferred_refill);
	test(a_refill_that_no_alloc_follows_hands_out_what_is_freed_next);
	return check_done();
}
