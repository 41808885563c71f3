// SPDX-License-Identifier: Apache-2.0
/* Predictions of refills: their size, and the frees that interrupt one. */
#include "short_tape.h"

#include "model/pcp.h"
#include "toy.h"

TEST(frees_before_a_claim_in_a_refill_have_the_old_type)
{
	static const struct chunk chunks[] = {{2048, 8, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 2048, 0, UNMOVABLE),
		FREE(0, 2400, 0),
		EXTFRAG(1, 2048, 0, 8, UNMOVABLE, MOVABLE),
		FREE(0, 2402, 0),
		ZONE_LOCKED(1, 2049, 0, UNMOVABLE),
		ZONE_LOCKED(1, 2050, 0, UNMOVABLE),
		ALLOC(1, 2048, 0, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4);
	const struct model *m = validate_model(v);

	check(decision_count(v, DECISION_EXTFRAG).exact == 1);
	check(m->frames[pcp_list(m, &m->pcps[0], 0, MOVABLE)].next == 2400);
	check(m->frames[pcp_list(m, &m->pcps[0], 0, UNMOVABLE)].next == 2402);
	check(frame_block(m, 2400)->migratetype == UNMOVABLE);
}

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

/* A refill with `size` pages, then `allocs` allocations from it; returns the next row. */
static struct row *refill(struct row *row, const uint64_t *pages, int size, int allocs)
{
	for (int i = 0; i < size; i++)
		*row++ = (struct row)ZONE_LOCKED(0, pages[i], 0, MOVABLE);
	for (int i = 0; i < allocs; i++)
		*row++ = (struct row)ALLOC(0, pages[i], 0, MOVABLE);
	return row;
}

TEST(a_short_refill_shows_the_limit_that_cut_it)
{
	static const struct chunk chunks[] = {{1024, 3, MOVABLE}, {2048, 4, MOVABLE}};
	uint64_t pages[21];
	struct row events[10 + 2 * 4 + 2 * 8 + 9 + 1], *row = events;
	struct validate *v;

	for (uint64_t i = 0; i < 21; i++)
		pages[i] = i < 8 ? 1024 + i : 2048 + i - 8;
	for (uint64_t i = 0; i < 10; i++)
		*row++ = (struct row)FREE(0, 512 + 4 * i, 1);
	row = refill(row, pages, 4, 4);
	row = refill(row, pages + 4, 8, 8);
	/* With 20 pages on the list and a high of 34, the refill would have 10 pages. */
	row = refill(row, pages + 12, 9, 1);
	v = VALIDATED(chunks, events, .pcp_batch = 4, .pcp_high = 34);
	check(row == events + COUNT(events));
	check(decision_count(v, DECISION_REFILL_SIZE).nr == 3);
	check(decision_count(v, DECISION_REFILL_SIZE).exact == 2);
	check(validate_model(v)->zones[0].below_high);
	check(validate_model(v)->pcps[0].high == 33);
	validate_free(v);
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
