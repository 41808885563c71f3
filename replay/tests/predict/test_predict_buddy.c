// SPDX-License-Identifier: Apache-2.0
/* Predictions of pages from the free lists; a miss corrects the model for the next prediction. */
#include "short_tape.h"

TEST(a_claim_of_a_whole_chunk_changes_all_its_pageblocks)
{
	static const struct chunk chunks[] = {{0, 10, MOVABLE}, {1024, 10, MOVABLE}};
	/* The kernel claims the second chunk, the model would take the first. */
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE), ALLOC(0, 1024, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1040, 4, UNMOVABLE),          ALLOC(0, 1040, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1536, 8, UNMOVABLE),          ALLOC(0, 1536, 8, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_EXTFRAG).nr == 1 &&
	      decision_count(v, DECISION_EXTFRAG).exact == 0);
	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 2);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
	check(frame_block(validate_model(v), 1024)->migratetype == UNMOVABLE);
	check(frame_block(validate_model(v), 1536)->migratetype == UNMOVABLE);
	check(frame_block(validate_model(v), 0)->migratetype == MOVABLE);
}

TEST(a_page_of_another_list_shows_its_pageblock_s_type)
{
	static const struct chunk chunks[] = {{0, 10, MOVABLE}, {1024, 5, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 1024, 4, UNMOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1040, 4, UNMOVABLE),
		ALLOC(0, 1040, 4, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 2);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
	check(frame_block(validate_model(v), 1024)->migratetype == UNMOVABLE);
}

TEST(a_claim_that_shows_empty_lists_fills_them)
{
	static const struct chunk chunks[] = {{1024, 5, UNMOVABLE}, {2048, 9, MOVABLE}};
	/* The claim shows that no UNMOVABLE chunk was free. */
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 4, UNMOVABLE), EXTFRAG(0, 2048, 4, 9, UNMOVABLE, MOVABLE),
		ALLOC(0, 2048, 4, UNMOVABLE),       ZONE_LOCKED(0, 2064, 4, UNMOVABLE),
		ALLOC(0, 2064, 4, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 2);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
}

TEST(a_single_page_proves_nothing_against_the_small_chunks_that_follow)
{
	static const struct chunk chunks[] = {
		{1024, 0, MOVABLE}, {1026, 0, MOVABLE}, {2048, 1, MOVABLE}, {3072, 9, MOVABLE}};
	/* Page 2049 is not free, so 2048 was on the same list as the other two pages. */
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ZONE_LOCKED(0, 1024, 0, MOVABLE),
		ZONE_LOCKED(0, 1026, 0, MOVABLE),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4);

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 3);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 2);
	check(validate_model(v)->frames[2049].state == FRAME_USED);
}

TEST(a_chunk_that_merges_with_a_phantom_s_buddy_is_no_list_s_first)
{
	static const struct chunk chunks[] = {
		{2048, 0, MOVABLE}, {1024, 1, MOVABLE}, {2050, 1, MOVABLE}, {1536, 1, MOVABLE}};
	/* Page 2048 was not free alone: 2049 was freed without an event, and both are one chunk. */
	static const struct row events[] = {
		ZONE_LOCKED(0, 2050, 0, MOVABLE),
		ZONE_LOCKED(0, 2049, 0, MOVABLE),
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ALLOC(0, 2050, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .pcp_batch = 4);

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 3);
	check(validate_model(v)->frames[2050].state == FRAME_USED);
}

TEST(a_fallback_moves_the_recorded_chunk_s_block_and_no_other)
{
	static const struct chunk chunks[] = {
		{512, 6, MOVABLE}, {1024, 6, MOVABLE}, {1088, 4, MOVABLE}};
	/* The kernel moves the free pages of 1024's block, the model would move those of 512's. */
	static const struct row events[] = {
		PAGE(0, ALLOC_EXTFRAG, .pfn = 1024, .order = 4, .migratetype = UNMOVABLE,
		     .fallback_order = 6, .fallback_migratetype = MOVABLE),
		ZONE_LOCKED(0, 1088, 4, UNMOVABLE),
		ALLOC(0, 1088, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1024, 4, UNMOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1040, 4, UNMOVABLE),
		ALLOC(0, 1040, 4, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "6.1.192");

	check(decision_count(v, DECISION_EXTFRAG).nr == 1 &&
	      decision_count(v, DECISION_EXTFRAG).exact == 0);
	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 3 &&
	      decision_count(v, DECISION_ZONE_LOCKED).exact == 2);
	check(validate_model(v)->frames[512].state == FRAME_FREE);
	check(validate_model(v)->frames[512].list == MOVABLE);
	check(frame_block(validate_model(v), 1024)->migratetype == MOVABLE);
}

/* A fallback of 5.10 takes the smaller of two chunks: the kernel would prefer the larger one. */
static const struct chunk two_sizes[] = {{2048, 9, MOVABLE}, {1024, 6, MOVABLE}};
#define SMALLER_TAKEN                                                                              \
	PAGE(0, ALLOC_EXTFRAG, .pfn = 1024, .order = 4, .migratetype = UNMOVABLE,                  \
	     .fallback_order = 6, .fallback_migratetype = MOVABLE),                                \
		ZONE_LOCKED(0, 1024, 4, UNMOVABLE), ALLOC(0, 1024, 4, UNMOVABLE)

TEST(a_fallback_shows_that_larger_chunks_are_not_free)
{
	static const struct row events[] = {
		SMALLER_TAKEN,
		ZONE_LOCKED(0, 1040, 4, UNMOVABLE),
		ALLOC(0, 1040, 4, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(two_sizes, events, .kernel = "5.10");

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 2 &&
	      decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
	check(validate_model(v)->frames[2048].state == FRAME_USED);
	check(frame_block(validate_model(v), 2048)->migratetype == MOVABLE);
}

TEST(a_chunk_that_seemed_to_be_gone_is_whole_if_a_page_of_it_is_taken)
{
	/* 2048 was not free then. Later it is. */
	static const struct row events[] = {
		SMALLER_TAKEN,
		ZONE_LOCKED(0, 2048, 4, MOVABLE),
		ALLOC(0, 2048, 4, MOVABLE),
		ZONE_LOCKED(0, 2064, 4, MOVABLE),
		ALLOC(0, 2064, 4, MOVABLE),
	};
	VALIDATE *v = VALIDATED(two_sizes, events, .kernel = "5.10");

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 3 &&
	      decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
	check(validate_model(v)->frames[2080].state == FRAME_FREE);
}

TEST(a_reported_pageblock_is_movable)
{
	static const struct chunk chunks[] = {{1024, 9, MOVABLE}, {2048, 9, MOVABLE}};
	/* The second fallback shows that the first block is not UNMOVABLE; nothing compacts. */
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 9, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 4),
		EXTFRAG(0, 2048, 4, 9, UNMOVABLE, MOVABLE),
		ALLOC(0, 2048, 4, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows rows;

	check(validate_model(v)->frames[1024].state == FRAME_FREE);
	check(validate_model(v)->frames[1024].list == MOVABLE);
	rows = inferred_rows(v);
	check(rows.rows[1].kind == INFERRED_KIND_RETYPED && rows.rows[1].pfn == 1024);
}

TEST(reported_chunks_come_last_in_the_order_of_their_frees)
{
	static const struct chunk chunks[] = {
		{512, 9, MOVABLE}, {1024, 9, MOVABLE}, {2048, 9, MOVABLE}, {3072, 9, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 3072, 8, MOVABLE), ALLOC(0, 3072, 8, MOVABLE),
		ZONE_LOCKED(0, 3328, 8, MOVABLE), ALLOC(0, 3328, 8, MOVABLE),
		ZONE_LOCKED(0, 2048, 8, MOVABLE), ALLOC(0, 2048, 8, MOVABLE),
		ZONE_LOCKED(0, 2304, 8, MOVABLE), ALLOC(0, 2304, 8, MOVABLE),
		ZONE_LOCKED(0, 1024, 8, MOVABLE), ALLOC(0, 1024, 8, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 5 &&
	      decision_count(v, DECISION_ZONE_LOCKED).exact == 4);
}

/* A page is stolen from a chunk of a MOVABLE block, which keeps its type. */
#define STOLEN(p, from)                                                                            \
	ZONE_LOCKED(0, p, 0, UNMOVABLE),                                                           \
		PAGE(0, ALLOC_EXTFRAG, .pfn = p, .migratetype = UNMOVABLE, .fallback_order = from, \
		     .fallback_migratetype = MOVABLE),                                             \
		ALLOC(0, p, 0, UNMOVABLE)

TEST(a_steal_shows_which_chunks_are_not_first)
{
	static const struct chunk one_list[] = {
		{1024, 0, MOVABLE}, {1026, 0, MOVABLE}, {1028, 0, MOVABLE}};
	static const struct row turned[] = {STOLEN(1026, 0), STOLEN(1028, 0), STOLEN(1024, 0)};
	/* The smallest chunk would be stolen first. */
	static const struct chunk two_lists[] = {{1024, 0, MOVABLE}, {1028, 1, MOVABLE}};
	static const struct row vanished[] = {STOLEN(1028, 1), STOLEN(1029, 0)};
	VALIDATE *v = VALIDATED(one_list, turned);

	check(decision_count(v, DECISION_EXTFRAG).nr == 3);
	check(decision_count(v, DECISION_EXTFRAG).exact == 2);
	validate_free(v);
	v = VALIDATED(two_lists, vanished);
	check(decision_count(v, DECISION_EXTFRAG).nr == 2);
	check(decision_count(v, DECISION_EXTFRAG).exact == 1);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_ISOLATED].nr == 1);
}

/* A page of a MOVABLE block that its request claims, because of a free chunk of order `from`. */
#define CLAIMED(p, o, from)                                                                        \
	ZONE_LOCKED(0, p, o, UNMOVABLE),                                                           \
		PAGE(0, ALLOC_EXTFRAG, .pfn = p, .order = o, .migratetype = UNMOVABLE,             \
		     .fallback_order = from, .fallback_migratetype = MOVABLE, .owner = true),      \
		ALLOC(0, p, o, UNMOVABLE)

TEST(a_claim_shows_which_chunk_was_first_and_moves_no_other_block)
{
	/* The model would claim 512's block. The smallest chunk of 1024's block is used first. */
	static const struct chunk chunks[] = {
		{512, 6, MOVABLE}, {1024, 6, MOVABLE}, {1088, 4, MOVABLE}, {1536, 6, MOVABLE}};
	static const struct row events[] = {
		CLAIMED(1088, 4, 6),
		ZONE_LOCKED(0, 1024, 6, UNMOVABLE),
		ALLOC(0, 1024, 6, UNMOVABLE),
		CLAIMED(1536, 6, 6),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_EXTFRAG).nr == 2);
	check(decision_count(v, DECISION_EXTFRAG).exact == 1);
	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 3);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 2);
	check(validate_model(v)->frames[512].state == FRAME_FREE);
	check(frame_block(validate_model(v), 512)->migratetype == MOVABLE);
}

/* The model has 2048 first. It is taken later: so 1026 is not free, and 1024 a chunk of 2 pages. */
TEST(a_page_that_is_taken_later_shows_that_half_of_a_larger_chunk_is_not_free)
{
	static const struct chunk chunks[] = {{1024, 2, MOVABLE}, {2048, 1, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 1024, 0, MOVABLE),
		ZONE_LOCKED(0, 1025, 0, MOVABLE),
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ALLOC(0, 1024, 0, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ZONE_LOCKED).nr == 3);
	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 2);
	check(validate_model(v)->frames[1026].state == FRAME_USED);
}

/* CPU 1's page is on its list only after CPU 0 has locked the zone and taken another one. */
TEST(a_block_may_join_its_list_after_another_cpu_took_one)
{
	static const struct chunk chunks[] = {{1024, 4, MOVABLE}, {2048, 4, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 1024, 4, MOVABLE),
		ALLOC(1, 1024, 4, MOVABLE),
		FREE(1, 1024, 4),
		ZONE_LOCKED(0, 2048, 4, MOVABLE),
		ALLOC(0, 2048, 4, MOVABLE),
		ZONE_LOCKED(0, 1024, 4, MOVABLE),
		ALLOC(0, 1024, 4, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found;

	check(all_exact(v, DECISION_ZONE_LOCKED, 3) && all_exact(v, DECISION_ALLOC, 3));
	found = inferred_rows(v);
	check(found.rows[1].kind == INFERRED_KIND_UNDONE_FREE && found.rows[1].at == 2);
	check(found.rows[3].kind == INFERRED_KIND_LATE_FREE && found.rows[3].at == 4);
}

/* CPU 1's page merges with its buddy, 1040, only after CPU 0 has taken that. */
TEST(a_block_may_merge_after_another_cpu_took_its_buddy)
{
	static const struct chunk chunks[] = {{1024, 5, MOVABLE}, {2048, 4, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 2048, 4, MOVABLE),
		ALLOC(1, 2048, 4, MOVABLE),
		ZONE_LOCKED(1, 1024, 4, MOVABLE),
		ALLOC(1, 1024, 4, MOVABLE),
		FREE(1, 2048, 4),
		FREE(1, 1024, 4),
		ZONE_LOCKED(0, 2048, 4, MOVABLE),
		ALLOC(0, 2048, 4, MOVABLE),
		ZONE_LOCKED(0, 1040, 4, MOVABLE),
		ALLOC(0, 1040, 4, MOVABLE),
		FREE(1, 4, 0),
		ZONE_LOCKED(0, 1024, 4, MOVABLE),
		ALLOC(0, 1024, 4, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(all_exact(v, DECISION_ZONE_LOCKED, 5) && all_exact(v, DECISION_ALLOC, 5));
}

/* CPU 1's second block merges with its first only after CPU 0 has claimed that. */
TEST(a_claim_shows_that_two_blocks_had_not_merged)
{
	static const struct chunk chunks[] = {{1024, 9, MOVABLE}, {1536, 9, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 1024, 9, MOVABLE),
		ALLOC(1, 1024, 9, MOVABLE),
		ZONE_LOCKED(1, 1536, 9, MOVABLE),
		ALLOC(1, 1536, 9, MOVABLE),
		FREE(1, 1024, 8),
		FREE(1, 1280, 8),
		FREE(1, 1536, 8),
		FREE(1, 1792, 8),
		EXTFRAG(0, 1024, 4, 9, UNMOVABLE, MOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events, .kernel = "7.3");

	check(all_exact(v, DECISION_EXTFRAG, 1));
}

/* The same page on CPU 1 shows that the list was another: its free is over once it goes on. */
TEST(a_block_is_on_its_list_once_its_cpu_goes_on)
{
	static const struct chunk chunks[] = {{1024, 4, MOVABLE}, {2048, 4, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 1024, 4, MOVABLE),
		ALLOC(1, 1024, 4, MOVABLE),
		FREE(1, 1024, 4),
		FREE(1, 4, 0),
		ZONE_LOCKED(0, 2048, 4, MOVABLE),
		ALLOC(0, 2048, 4, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ZONE_LOCKED).exact == 1);
}
