// SPDX-License-Identifier: Apache-2.0
/* Contiguous pages that are freed together, as blocks: since 7.2. */
#include "short_tape.h"

static const struct chunk chunks[] = {{2048, 10, MOVABLE}};

/* The order of a page's entry on a PCP list, or -1. */
static int entry_order(struct validate *v, uint64_t pfn)
{
	const struct model *m = validate_model(v);
	const struct frame *f = &m->frames[pfn_frame(m, pfn)];

	return f->state == FRAME_PCP ? f->order : -1;
}

TEST(TVB_a_stack_comes_back_as_one_block)
{
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 4, .step = 1),
		ALLOC(0, 512, 2, MOVABLE),
	};

	for (int i = 0; i < 2; i++) {
		struct validate *v =
			VALIDATED(chunks, events, .kernel = i ? "7.2" : "7.1", .pcp_batch = 63);

		check(decision_count(v, DECISION_ALLOC).nr == 1);
		check(decision_count(v, DECISION_ALLOC).exact == (uint64_t)i);
		validate_free(v);
	}
}

TEST(TVA_a_run_is_freed_as_aligned_blocks)
{
	static const struct row events[] = {
		FREE(0, 513, 0, .run = 10, .step = 1),
		ALLOC(0, 516, 2, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "7.2", .pcp_batch = 63);

	check(decision_count(v, DECISION_ALLOC).exact == 1);
	check(entry_order(v, 513) == 0 && entry_order(v, 514) == 1);
	check(entry_order(v, 520) == 1 && entry_order(v, 522) == 0);
}

TEST(pages_freed_one_by_one_come_back_one_by_one)
{
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 4, .step = 1),
		ALLOC(0, 515, 0, MOVABLE),
		ALLOC(0, 514, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "7.2", .pcp_batch = 63);

	check(decision_count(v, DECISION_ALLOC).exact == 2);
	check(entry_order(v, 512) == 0 && entry_order(v, 513) == 0);
}

TEST(the_pages_of_a_split_block_are_freed_together)
{
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 5, MOVABLE),
		ALLOC(0, 2048, 5, MOVABLE),
		FREE(0, 2052, 0, .run = 4, .step = 1),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "7.2", .pcp_batch = 63);

	check(entry_order(v, 2052) == 2);
}

TEST(a_later_event_separates_two_runs_side_by_side)
{
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 8, .step = 1),
		ALLOC(0, 516, 2, MOVABLE),
		ALLOC(0, 512, 2, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "7.2", .pcp_batch = 63);

	check(decision_count(v, DECISION_ALLOC).exact == 2);
}

TEST(the_drain_of_a_block_comes_before_the_next_block)
{
	/* High is 16: the fourth pair overflows it. The fifth pair stays. */
	static const struct row events[] = {
		FREE(0, 1024, 3),
		FREE(0, 514, 0, .run = 9, .step = 1),
		DRAIN(0, 520, 1, MOVABLE),
		ALLOC(0, 514, 1, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "7.2", .pcp_batch = 2);

	check(decision_count(v, DECISION_ALLOC).exact == 1);
	check(entry_order(v, 516) == 2 && entry_order(v, 522) == 0);
}

TEST(pages_of_a_free_block_are_no_run)
{
	/* Compaction took the first pages without an event; their frees give none back. */
	static const struct chunk targets[] = {{2048, 4, MOVABLE}, {2064, 4, MOVABLE}};
	static const struct row events[] = {
		FREE(1, 512, 0),
		FREE(0, 2048, 0),
		FREE(0, 2049, 0),
	};
	VALIDATE *v = VALIDATED(targets, events, .kernel = "7.2", .pcp_batch = 63, .migrates_at = 1,
				.target = 2064);

	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_FREE_UNDONE].nr == 2);
	check(validate_model(v)->pcps[0].count == 0);
}
