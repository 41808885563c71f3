// SPDX-License-Identifier: Apache-2.0
/* Refills and allocations without events, inferred from later ones. */
#include "short_tape.h"

TEST(a_free_shows_that_a_page_of_the_refill_was_allocated_without_an_event)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE, .run = 4, .step = 1),
		ALLOC(0, 2050, 0, MOVABLE),
		FREE(0, 2048, 0),
		FREE(0, 2049, 0),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4);

	check(all_exact(v, DECISION_ALLOC, 1));
	/* None is inferred only because the alloc got another page than predicted. */
	check(validate_totals(v)->alloc_inferred == 0);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_UNTRACED_ALLOC].pages == 2);
	check(validate_model(v)->pcps[0].count == 3);
}
