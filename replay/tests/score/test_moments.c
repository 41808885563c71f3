// SPDX-License-Identifier: Apache-2.0
/* The windows of inferred rows: after the last event that proves the old state. */
#include "short_tape.h"

/* Whether the only row of a kind is about a page, with that window; since 0: without a window. */
static bool has_window(struct validate *v, int kind, uint64_t pfn, uint64_t since, uint64_t at)
{
	struct found_rows found = inferred_rows(v);
	int nr = 0;
	bool same = false;

	for (size_t i = 0; i < found.nr && i < COUNT(found.rows); i++) {
		if (found.rows[i].kind != kind)
			continue;
		nr++;
		same = found.rows[i].pfn == pfn && found.rows[i].since == since &&
		       found.rows[i].at == at;
	}
	return same && nr == 1;
}

static const struct chunk none[] = {{2048, 0, MOVABLE}};

TEST(an_entry_left_after_its_own_free)
{
	static const struct row events[] = {
		FREE(0, 2100, 0), FREE(0, 2102, 0),           FREE(1, 2104, 0),
		FREE(1, 2106, 0), ALLOC(0, 2100, 0, MOVABLE), FREE(0, 2102, 0),
	};
	VALIDATE *v = VALIDATED(none, events, .pcp_batch = 4);

	check(has_window(v, INFERRED_KIND_ALLOC, 2102, 2, 4));
}

TEST(a_drain_of_the_list_shows_that_the_entry_was_there)
{
	static const struct row events[] = {
		FREE(0, 2100, 0, .run = 8), DRAIN(0, 2100, 0, MOVABLE), FREE(1, 2120, 0),
		FREE(1, 2122, 0),           ALLOC(0, 2112, 0, MOVABLE), FREE(0, 2114, 0),
	};
	VALIDATE *v = VALIDATED(none, events);

	check(has_window(v, INFERRED_KIND_ALLOC, 2114, 9, 11));
}

TEST(an_early_alloc_came_after_the_last_event_of_its_cpu)
{
	static const struct row events[] = {
		FREE(0, 2100, 0), FREE(0, 2102, 0),           FREE(1, 2104, 0),
		FREE(1, 2106, 0), ALLOC(0, 2100, 0, MOVABLE), ALLOC(0, 2102, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(none, events, .pcp_batch = 4);

	check(has_window(v, INFERRED_KIND_EARLY_ALLOC, 2102, 2, 4));
}

TEST(a_block_was_isolated_after_the_last_event_of_it_or_its_buddy)
{
	static const struct chunk chunks[] = {{2048, 0, MOVABLE}, {2052, 0, MOVABLE}};
	static const struct row events[] = {
		FREE(1, 2104, 0),
		FREE(0, 2049, 0),
		FREE(1, 2106, 0),
		FREE(1, 2108, 0),
		ZONE_LOCKED(1, 2052, 0, MOVABLE),
		ALLOC(1, 2052, 0, MOVABLE),
		FREE(1, 2048, 0),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4);

	check(has_window(v, INFERRED_KIND_ISOLATED, 2048, 2, 4));
}

/* The refill has events of its own: the alloc that caused it was there. */
TEST(an_alloc_that_caused_a_refill_has_no_window)
{
	static const struct chunk chunks[] = {{2048, 2, MOVABLE}};
	static const struct row events[] = {
		FREE(1, 2104, 0),
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		FREE(1, 2106, 0),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(has_window(v, INFERRED_KIND_EARLY_ALLOC, 2048, 0, 1));
}
