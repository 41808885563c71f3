// SPDX-License-Identifier: Apache-2.0
/*
 * validate, of a few events: what the model learns from one it missed shows in the next.
 */
#include "model/pcp.h"
#include "short_tape.h"

static void of_a_whole_chunk_claimed_all_pageblocks_change_their_owner(void)
{
	static const struct chunk chunks[] = {{0, 10, MOVABLE}, {1024, 10, MOVABLE}};
	/* The second chunk, where the model takes the first; then all of its order-9 pages. */
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE, true),
		ALLOC(0, 1024, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1040, 4, UNMOVABLE),
		ALLOC(0, 1040, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1536, 8, UNMOVABLE),
		ALLOC(0, 1536, 8, UNMOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events);

	check(tally_of(v, DECISION_EXTFRAG).nr == 1 && tally_of(v, DECISION_EXTFRAG).exact == 0);
	check(tally_of(v, DECISION_ZONE_LOCKED).nr == 2);
	check(tally_of(v, DECISION_ZONE_LOCKED).exact == 1);
	check(frame_block(validate_model(v), 1024)->migratetype == UNMOVABLE);
	check(frame_block(validate_model(v), 1536)->migratetype == UNMOVABLE);
	check(frame_block(validate_model(v), 0)->migratetype == MOVABLE);
	validate_free(v);
}

static void a_page_of_another_list_shows_its_pageblock_s_type(void)
{
	static const struct chunk chunks[] = {{0, 10, MOVABLE}, {1024, 5, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 1024, 4, UNMOVABLE),
		ALLOC(0, 1024, 4, UNMOVABLE),
		ZONE_LOCKED(0, 1040, 4, UNMOVABLE),
		ALLOC(0, 1040, 4, UNMOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events);

	check(tally_of(v, DECISION_ZONE_LOCKED).nr == 2);
	check(tally_of(v, DECISION_ZONE_LOCKED).exact == 1);
	check(frame_block(validate_model(v), 1024)->migratetype == UNMOVABLE);
	validate_free(v);
}

static void a_drain_that_waits_for_the_zone_s_lock_comes_after_what_holds_it(void)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}, {1024, 0, MOVABLE}};
	/* The last free overflows the PCP, but another CPU has the zone. */
	static const struct row events[] = {
		FREE(0, 512, 0),
		FREE(0, 514, 0),
		FREE(0, 516, 0),
		FREE(0, 518, 0),
		FREE(0, 520, 0),
		FREE(0, 522, 0),
		FREE(0, 524, 0),
		FREE(0, 526, 0),
		ZONE_LOCKED(1, 1024, 0, MOVABLE),
		ALLOC(1, 1024, 0, MOVABLE),
		DRAIN(0, 512, 0, MOVABLE),
		DRAIN(0, 514, 0, MOVABLE),
		DRAIN(0, 516, 0, MOVABLE),
		DRAIN(0, 518, 0, MOVABLE),
		DRAIN(0, 520, 0, MOVABLE),
		DRAIN(0, 522, 0, MOVABLE),
		DRAIN(0, 524, 0, MOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events);

	check(tally_of(v, DECISION_ZONE_LOCKED).nr == 1);
	check(tally_of(v, DECISION_ZONE_LOCKED).exact == 1);
	check(tally_of(v, DECISION_DRAIN).nr == 7 && tally_of(v, DECISION_DRAIN).exact == 7);
	check(tally_of(v, DECISION_DRAIN_SIZE).nr == 1);
	check(tally_of(v, DECISION_DRAIN_SIZE).exact == 1);
	validate_free(v);
}

static void a_drained_page_was_on_the_list_of_the_type_it_was_freed_as(void)
{
	static const struct chunk chunks[] = {{768, 7, MOVABLE}};
	/* Its pageblock is claimed while it waits on the PCP. */
	static const struct row events[] = {
		FREE(0, 512, 0),
		FREE(0, 514, 0),
		FREE(0, 516, 0),
		FREE(0, 518, 0),
		FREE(0, 520, 0),
		FREE(0, 522, 0),
		FREE(0, 524, 0),
		ZONE_LOCKED(0, 768, 4, UNMOVABLE),
		EXTFRAG(0, 768, 4, 7, UNMOVABLE, MOVABLE, true),
		ALLOC(0, 768, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		DRAIN(0, 512, 0, UNMOVABLE),
		DRAIN(0, 514, 0, UNMOVABLE),
		DRAIN(0, 516, 0, UNMOVABLE),
		DRAIN(0, 518, 0, UNMOVABLE),
		DRAIN(0, 520, 0, UNMOVABLE),
		DRAIN(0, 522, 0, UNMOVABLE),
		DRAIN(0, 524, 0, UNMOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events);

	check(tally_of(v, DECISION_EXTFRAG).exact == 1);
	check(tally_of(v, DECISION_DRAIN).nr == 7 && tally_of(v, DECISION_DRAIN).exact == 7);
	check(tally_of(v, DECISION_DRAIN_SIZE).exact == 1);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_DRAINED_ELSEWHERE].nr == 0);
	validate_free(v);
}

static void a_drain_below_high_shows_reclaim_and_none_above_four_batches_its_end(void)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* Reclaim limits the PCP to 4 pages; after it, 8. */
	static const struct row events[] = {
		FREE(0, 512, 0),           FREE(0, 514, 0),           FREE(0, 516, 0),
		FREE(0, 518, 0),           DRAIN(0, 512, 0, MOVABLE), DRAIN(0, 514, 0, MOVABLE),
		DRAIN(0, 516, 0, MOVABLE), FREE(0, 520, 0),           FREE(0, 522, 0),
		FREE(0, 524, 0),           DRAIN(0, 518, 0, MOVABLE), DRAIN(0, 520, 0, MOVABLE),
		DRAIN(0, 522, 0, MOVABLE), FREE(0, 526, 0),           FREE(0, 528, 0),
		FREE(0, 530, 0),           FREE(0, 532, 0),           FREE(0, 534, 0),
		FREE(0, 536, 0),
	};
	struct validate *v = VALIDATED(chunks, events);

	/* Both turns are missed once. */
	check(tally_of(v, DECISION_DRAIN).nr == 6 && tally_of(v, DECISION_DRAIN).exact == 6);
	check(tally_of(v, DECISION_DRAIN_SIZE).nr == 3);
	check(tally_of(v, DECISION_DRAIN_SIZE).exact == 1);
	check(!validate_model(v)->zones[0].reclaim_active);
	check(validate_model(v)->pcps[0].high == 8);
	validate_free(v);
}

static void a_drain_that_passes_list_0_over_is_no_emptying_of_all_lists(void)
{
	static const struct chunk chunks[] = {{1024, 10, MOVABLE}};
	/* Of seven pages all are drained, but from the list of the last free on. */
	static const struct row events[] = {
		EXTFRAG(0, 1024, 4, 10, UNMOVABLE, MOVABLE, true),
		ALLOC(0, 1024, 4, UNMOVABLE),
		FREE(0, 1024, 0),
		FREE(0, 512, 0),
		FREE(0, 514, 0),
		FREE(0, 516, 0),
		FREE(0, 518, 0),
		FREE(0, 520, 0),
		FREE(0, 522, 0),
		DRAIN(0, 512, 0, MOVABLE),
		DRAIN(0, 514, 0, MOVABLE),
		DRAIN(0, 516, 0, MOVABLE),
		DRAIN(0, 518, 0, MOVABLE),
		DRAIN(0, 520, 0, MOVABLE),
		DRAIN(0, 522, 0, MOVABLE),
		DRAIN(0, 1024, 0, UNMOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events);

	check(tally_of(v, DECISION_DRAIN).nr == 7 && tally_of(v, DECISION_DRAIN).exact == 7);
	check(tally_of(v, DECISION_DRAIN_SIZE).nr == 1);
	validate_free(v);
}

static void another_task_s_work_between_a_free_and_its_drain_does_not_matter(void)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0),           FREE(0, 514, 0),           FREE(0, 516, 0),
		FREE(0, 518, 0),           FREE(0, 520, 0),           FREE(0, 522, 0),
		FREE(0, 524, 0),           FREE(0, 526, 0),           DRAIN(0, 512, 0, MOVABLE),
		DRAIN(0, 514, 0, MOVABLE), DRAIN(0, 516, 0, MOVABLE), DRAIN(0, 518, 0, MOVABLE),
		DRAIN(0, 520, 0, MOVABLE), DRAIN(0, 522, 0, MOVABLE), DRAIN(0, 524, 0, MOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events, .tick_at = 8);

	check(tally_of(v, DECISION_DRAIN_SIZE).nr == 1);
	check(tally_of(v, DECISION_DRAIN_SIZE).exact == 1);
	validate_free(v);
}

static void a_decay_that_drains_nothing_shows_a_high_that_was_higher(void)
{
	enum { FREES = 38 };
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static struct row events[FREES + 1];
	struct validate *v;

	for (uint8_t i = 0; i < FREES; i++)
		events[i] = (struct row)FREE(1, 512u + 2u * i, 0);
	events[FREES] = (struct row)FREE(0, 1024, 0);
	/* From 40 it should fall to 35, and 3 of the 38 pages be drained. */
	v = VALIDATED(chunks, events, .pcp_batch = 1, .pcp_high = 40, .tick_at = FREES);
	check(validate_model(v)->pcps[1].count == FREES);
	check(validate_model(v)->pcps[1].high == FREES);
	validate_free(v);
}

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

	check(tally_of(v, DECISION_ALLOC).exact == 3);
	check(tally_of(v, DECISION_ZONE_LOCKED).exact == 1);
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

	check(tally_of(v, DECISION_ALLOC).nr == 1 && tally_of(v, DECISION_ALLOC).exact == 1);
	/* Not for want of another reason for the alloc to get another page. */
	check(validate_totals(v)->alloc_inferred == 0);
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_UNTRACED_ALLOC].pages == 2);
	check(validate_model(v)->pcps[0].count == 3);
	validate_free(v);
}

static void a_claim_that_shows_empty_lists_fills_them(void)
{
	static const struct chunk chunks[] = {{1024, 5, UNMOVABLE}, {2048, 9, MOVABLE}};
	/* The UNMOVABLE chunk is none: the kernel claims the other's pageblock. */
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 4, UNMOVABLE),
		EXTFRAG(0, 2048, 4, 9, UNMOVABLE, MOVABLE, true),
		ALLOC(0, 2048, 4, UNMOVABLE),
		ZONE_LOCKED(0, 2064, 4, UNMOVABLE),
		ALLOC(0, 2064, 4, UNMOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events);

	check(tally_of(v, DECISION_ZONE_LOCKED).nr == 2);
	check(tally_of(v, DECISION_ZONE_LOCKED).exact == 1);
	validate_free(v);
}

static void a_page_by_itself_leaves_the_smaller_chunks_that_come_after_it(void)
{
	static const struct chunk chunks[] = {
		{1024, 0, MOVABLE}, {1026, 0, MOVABLE}, {2048, 1, MOVABLE}, {3072, 9, MOVABLE}};
	/* Page 2049 is not free, so 2048 was on the list of the other two. */
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ZONE_LOCKED(0, 1024, 0, MOVABLE),
		ZONE_LOCKED(0, 1026, 0, MOVABLE),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events, .pcp_batch = 4);

	check(tally_of(v, DECISION_ZONE_LOCKED).nr == 3);
	check(tally_of(v, DECISION_ZONE_LOCKED).exact == 2);
	check(validate_model(v)->frames[2049].state == FRAME_USED);
	validate_free(v);
}

static void what_is_freed_before_the_claim_of_a_running_refill_is_of_the_type_before(void)
{
	static const struct chunk chunks[] = {{2048, 8, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 2048, 0, UNMOVABLE),
		FREE(0, 2400, 0),
		EXTFRAG(1, 2048, 0, 8, UNMOVABLE, MOVABLE, true),
		FREE(0, 2402, 0),
		ZONE_LOCKED(1, 2049, 0, UNMOVABLE),
		ZONE_LOCKED(1, 2050, 0, UNMOVABLE),
		ALLOC(1, 2048, 0, UNMOVABLE),
	};
	struct validate *v = VALIDATED(chunks, events, .pcp_batch = 4);
	const struct model *m = validate_model(v);

	check(tally_of(v, DECISION_EXTFRAG).exact == 1);
	check(m->frames[pcp_list(m, &m->pcps[0], 0, MOVABLE)].next == 2400);
	check(m->frames[pcp_list(m, &m->pcps[0], 0, UNMOVABLE)].next == 2402);
	check(frame_block(m, 2400)->migratetype == UNMOVABLE);
	validate_free(v);
}

static void a_target_of_migration_that_was_in_use_is_freed_and_not_given_back(void)
{
	static const struct chunk chunks[] = {{2048, 4, MOVABLE}};
	/* The first is handed out next; the second is freed again, the task still migrates. */
	static const struct row events[] = {
		FREE(1, 512, 0),  FREE(0, 2048, 0), FREE(0, 2049, 0), ALLOC(0, 2048, 0, MOVABLE),
		FREE(0, 2049, 0),
	};
	struct validate *v = VALIDATED(chunks, events, .migrates_at = 1, .target = 2048);

	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_FREE_UNDONE].nr == 2);
	check(tally_of(v, DECISION_ALLOC).nr == 1 && tally_of(v, DECISION_ALLOC).exact == 1);
	check(validate_model(v)->pcps[0].count == 0);
	validate_free(v);
}

static void a_drain_of_what_a_tick_drains_shows_one(void)
{
	enum { FREES = 23 };
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	struct row events[FREES + 2];
	struct validate *v;

	for (int i = 0; i < FREES; i++)
		events[i] = (struct row)FREE(0, 512 + 2 * (uint64_t)i, 0);
	events[FREES] = (struct row)ALLOC(0, 512 + 2 * (FREES - 1), 0, MOVABLE);
	/* Of 22 pages one: an eighth less than 24 are 21. */
	events[FREES + 1] = (struct row)DRAIN(0, 512, 0, MOVABLE);
	v = VALIDATED(chunks, events, .pcp_batch = 1, .pcp_high = 24);
	check(validate_model(v)->pcps[0].count == 21);
	check(validate_model(v)->pcps[0].high == 21);
	validate_free(v);
}

/* Requests for the pages first, first + 1 ...: a refill, and `allocs` of its pages. */
static struct row *refill(struct row *row, const uint64_t *pages, int size, int allocs)
{
	for (int i = 0; i < size; i++)
		*row++ = (struct row)ZONE_LOCKED(0, pages[i], 0, MOVABLE);
	for (int i = 0; i < allocs; i++)
		*row++ = (struct row)ALLOC(0, pages[i], 0, MOVABLE);
	return row;
}

static void a_refill_cut_short_shows_what_cut_it(void)
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
	/* The list holds 20 pages and a batch is 4: with a high of 34 it were 10. */
	row = refill(row, pages + 12, 9, 1);
	v = VALIDATED(chunks, events, .pcp_batch = 4, .pcp_high = 34);
	check(row == events + COUNT(events));
	check(tally_of(v, DECISION_REFILL_SIZE).nr == 3);
	check(tally_of(v, DECISION_REFILL_SIZE).exact == 2);
	check(validate_model(v)->zones[0].below_high);
	check(validate_model(v)->pcps[0].high == 33);
	validate_free(v);
}

static void an_idle_pcp_of_another_node_s_zone_is_drained_by_the_third_tick(void)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	/* The refill touches the list; the worker gives a batch back, the oldest first. */
	static const struct row events[] = {
		ZONE_LOCKED(1, 2048, 0, MOVABLE),
		ZONE_LOCKED(1, 2049, 0, MOVABLE),
		ALLOC(1, 2048, 0, MOVABLE),
		FREE(1, 512, 0),
		FREE(1, 514, 0),
		WORKER_DRAIN(1, 2049, 0, MOVABLE),
		WORKER_DRAIN(1, 512, 0, MOVABLE),
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

		check(tally_of(v, DECISION_DRAIN_SIZE).nr == cases[i].expected);
		check(tally_of(v, DECISION_DRAIN_SIZE).exact == cases[i].expected);
		check(score->repairs[REPAIR_CAUSE_DRAINED_ELSEWHERE].nr == !cases[i].expected);
		check(zone_pcp(validate_model(v), validate_model(v)->zones, 1)->count == 1);
		validate_free(v);
	}
}

static void an_idle_pcp_that_no_tick_drained_counts_its_ticks_anew(void)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(1, 2048, 0, MOVABLE),
		ZONE_LOCKED(1, 2049, 0, MOVABLE),
		ALLOC(1, 2048, 0, MOVABLE),
		FREE(1, 512, 0),
		FREE(0, 1024, 0),
	};
	struct validate *v = VALIDATED(chunks, events, .pcp_batch = 2, .tick_at = 4, .nr_ticks = 3,
				       .remote = true);
	const struct pcp *pcp = zone_pcp(validate_model(v), validate_model(v)->zones, 1);

	check(pcp->count == 2);
	check(pcp->expire == 2);
	validate_free(v);
}

int main(void)
{
	test(of_a_whole_chunk_claimed_all_pageblocks_change_their_owner);
	test(a_page_of_another_list_shows_its_pageblock_s_type);
	test(a_drain_that_waits_for_the_zone_s_lock_comes_after_what_holds_it);
	test(a_drained_page_was_on_the_list_of_the_type_it_was_freed_as);
	test(a_drain_below_high_shows_reclaim_and_none_above_four_batches_its_end);
	test(a_drain_that_passes_list_0_over_is_no_emptying_of_all_lists);
	test(another_task_s_work_between_a_free_and_its_drain_does_not_matter);
	test(a_decay_that_drains_nothing_shows_a_high_that_was_higher);
	test(allocs_of_what_an_empty_pcp_would_be_refilled_with_show_an_inferred_refill);
	test(a_refill_that_no_alloc_follows_hands_out_what_is_freed_next);
	test(a_claim_that_shows_empty_lists_fills_them);
	test(a_page_by_itself_leaves_the_smaller_chunks_that_come_after_it);
	test(a_target_of_migration_that_was_in_use_is_freed_and_not_given_back);
	test(a_drain_of_what_a_tick_drains_shows_one);
	test(a_refill_cut_short_shows_what_cut_it);
	test(what_is_freed_before_the_claim_of_a_running_refill_is_of_the_type_before);
	test(an_idle_pcp_of_another_node_s_zone_is_drained_by_the_third_tick);
	test(an_idle_pcp_that_no_tick_drained_counts_its_ticks_anew);
	return check_done();
}
