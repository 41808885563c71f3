// SPDX-License-Identifier: Apache-2.0
/* Predictions of refills: their size, and their pages. */
#include "short_tape.h"

#include "toy.h"

/* CMA goes first while it is more than half of the free pages (__rmqueue, 6.12). */
TEST(a_refill_mixes_MOVABLE_and_CMA_pages)
{
	static const struct chunk chunks[] = {{1024, 1, MOVABLE}, {2048, 2, CMA}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, CMA),     ZONE_LOCKED(0, 2049, 0, CMA),
		ZONE_LOCKED(0, 1024, 0, MOVABLE), ZONE_LOCKED(0, 2050, 0, CMA),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4, .cma = 2048);

	check(all_exact(v, DECISION_ZONE_LOCKED, 4));
	check(all_exact(v, DECISION_REFILL_SIZE, 1));
	check(decision_count(v, DECISION_ALLOC).exact == 1);
}

TEST(a_page_that_a_refill_takes_twice_is_on_the_list_once)
{
	static const struct chunk chunks[] = {{2048, 4, MOVABLE}};
	/* In the order of later kernels, the two events of a fallback are two pages for 2.6.31. */
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, UNMOVABLE),
		EXTFRAG(0, 2048, 0, 4, UNMOVABLE, MOVABLE),
		DRAIN(0, 2048, 0, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4, .kernel = "2.6.31");

	check_sound(validate_model(v));
}
