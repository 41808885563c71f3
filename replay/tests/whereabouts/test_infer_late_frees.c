// SPDX-License-Identifier: Apache-2.0
/*
 * Frees whose tasks were preempted, or interrupted, before the page joined its list. CPU 0's PCP
 * list of MOVABLE pages is empty at first; 8 pages overflow a PCP, and 7 are drained.
 */
#include "short_tape.h"

static const struct chunk chunks[] = {{2048, 10, MOVABLE}};

/* Whether the only inferred rows are those of one late free. */
static bool is_late(const struct found_rows *found, uint64_t pfn, uint64_t free, int cpu,
		    uint64_t at)
{
	return found->nr == 2 && found->rows[0].kind == INFERRED_KIND_UNDONE_FREE &&
	       found->rows[0].pfn == pfn && found->rows[0].at == free &&
	       found->rows[1].kind == INFERRED_KIND_LATE_FREE && found->rows[1].pfn == pfn &&
	       found->rows[1].at == at && found->rows[1].cpu == cpu;
}

TEST(the_order_of_a_drain_shows_when_a_page_joined)
{
	/* 512 joins the list when task 1 continues. */
	static const struct row late[] = {
		BY(1, 0, FREE, .pfn = 512),       BY(2, 0, FREE, .pfn = 514),
		BY(2, 0, FREE, .pfn = 516),       BY(1, 0, FREE, .pfn = 518, .run = 5),
		BY(1, 0, PCPU_DRAIN, .pfn = 514), BY(1, 0, PCPU_DRAIN, .pfn = 516),
		BY(1, 0, PCPU_DRAIN, .pfn = 512), BY(1, 0, PCPU_DRAIN, .pfn = 518, .run = 4),
	};
	/* Task 1 was preempted after that. */
	static const struct row at_once[] = {
		BY(1, 0, FREE, .pfn = 512),
		BY(2, 0, FREE, .pfn = 514),
		BY(2, 0, FREE, .pfn = 516),
		BY(1, 0, FREE, .pfn = 518, .run = 5),
		BY(1, 0, PCPU_DRAIN, .pfn = 512, .run = 7),
	};
	VALIDATE *v = VALIDATED(chunks, late);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_DRAIN, 7) && all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(is_late(&found, 512, 0, 0, 3));
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LATE_FREE].nr == 1);
	validate_free(v);
	v = VALIDATED(chunks, at_once);
	check(all_exact(v, DECISION_DRAIN, 7) && all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(inferred_rows(v).nr == 0);
}

TEST(a_page_joins_between_those_that_show_it)
{
	/* Task 1 runs before row 3, without an event. */
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 512),
		BY(2, 0, FREE, .pfn = 514, .run = 3),
		BY(2, 0, FREE, .pfn = 1024, .order = 4),
		BY(1, 0, FREE, .pfn = 520),
		BY(3, 0, ALLOC, .pfn = 520),
		BY(3, 0, ALLOC, .pfn = 518),
		BY(3, 0, ALLOC, .pfn = 512),
		BY(3, 0, ALLOC, .pfn = 516),
		BY(3, 0, ALLOC, .pfn = 514),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 5));
	check(is_late(&found, 512, 0, 0, 3));
}

TEST(an_alloc_takes_the_page_below_one_that_is_not_there)
{
	static const struct row events[] = {
		BY(2, 0, FREE, .pfn = 510),
		BY(1, 0, FREE, .pfn = 512),
		BY(2, 0, FREE, .pfn = 1024, .order = 4),
		BY(2, 0, ALLOC, .pfn = 510),
		BY(1, 0, FREE, .pfn = 1040, .order = 4),
		BY(1, 0, ALLOC, .pfn = 512),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 2));
	check(is_late(&found, 512, 1, 0, 4));
}

TEST(the_page_overflows_the_pcp_when_its_task_continues)
{
	static const struct row events[] = {
		BY(2, 0, FREE, .pfn = 512, .run = 7),
		BY(1, 0, FREE, .pfn = 526),
		BY(2, 0, FREE, .pfn = 1024, .order = 4),
		BY(1, 0, PCPU_DRAIN, .pfn = 512, .run = 7),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_DRAIN, 7) && all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(is_late(&found, 526, 7, 0, 9));
}

TEST(the_task_may_continue_on_another_cpu)
{
	static const struct row taken_there[] = {
		BY(1, 0, FREE, .pfn = 512),  BY(2, 0, FREE, .pfn = 514),
		BY(1, 1, FREE, .pfn = 516),  BY(1, 1, ALLOC, .pfn = 516),
		BY(1, 1, ALLOC, .pfn = 512), BY(2, 0, ALLOC, .pfn = 514),
	};
	/* CPU 1 drains CPU 0's list. */
	static const struct row drained_there[] = {
		BY(1, 0, FREE, .pfn = 512),       BY(2, 0, FREE, .pfn = 514),
		BY(1, 1, FREE, .pfn = 516),       BY(1, 1, FREE, .pfn = 518),
		BY(3, 1, PCPU_DRAIN, .pfn = 516), BY(3, 1, PCPU_DRAIN, .pfn = 518),
		BY(3, 1, PCPU_DRAIN, .pfn = 512), BY(3, 1, PCPU_DRAIN, .pfn = 514),
	};
	VALIDATE *v = VALIDATED(chunks, taken_there);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 3));
	check(is_late(&found, 512, 0, 1, 2));
	validate_free(v);
	v = VALIDATED(chunks, drained_there);
	check(all_exact(v, DECISION_DRAIN, 4));
	check(!validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LATE_FREE].nr);
}

TEST(an_interrupt_may_free_a_page_first)
{
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 512),  BY(1, 0, FREE, .pfn = 514, .flags = CONTEXT_SOFTIRQ),
		BY(1, 0, FREE, .pfn = 516),  BY(1, 0, ALLOC, .pfn = 516),
		BY(1, 0, ALLOC, .pfn = 512), BY(1, 0, ALLOC, .pfn = 514),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 3));
	check(is_late(&found, 512, 0, 0, 2));
}

TEST(a_task_with_preemption_off_is_not_preempted)
{
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 512, .flags = CONTEXT_PREEMPT_OFF),
		BY(2, 0, FREE, .pfn = 514),
		BY(2, 0, FREE, .pfn = 516),
		BY(1, 0, FREE, .pfn = 518),
		BY(3, 0, ALLOC, .pfn = 518),
		BY(3, 0, ALLOC, .pfn = 512),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(!validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LATE_FREE].nr);
}

/*
 * A page is taken off its list if the PCP does not overflow with it, once the tape has shown that
 * the kernel preempts: here, by the drain of the free before it.
 */
TEST(an_overflow_that_does_not_come_shows_a_page_that_is_not_there)
{
	static const struct row preempted[] = {
		BY(2, 0, FREE, .pfn = 512, .run = 7),
		BY(1, 0, FREE, .pfn = 526),
		BY(2, 0, FREE, .pfn = 1024, .order = 4),
		BY(1, 0, PCPU_DRAIN, .pfn = 512, .run = 7),
		BY(1, 0, FREE, .pfn = 600),
		BY(2, 0, FREE, .pfn = 528, .run = 6),
		/* The first drain has shown a high of 9. */
		BY(2, 0, FREE, .pfn = 540),
		BY(2, 0, ALLOC, .pfn = 540),
		BY(1, 0, FREE, .pfn = 1040, .order = 4),
	};
	static const struct row perhaps_not[] = {
		BY(1, 0, FREE, .pfn = 600),
		BY(2, 0, FREE, .pfn = 528, .run = 7),
		BY(1, 0, FREE, .pfn = 1040, .order = 4),
	};
	VALIDATE *v = VALIDATED(chunks, preempted);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_DRAIN, 7) && all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(found.nr >= 3 && found.rows[2].kind == INFERRED_KIND_UNDONE_FREE);
	check(found.rows[2].pfn == 600 && found.rows[2].at == 16);
	validate_free(v);
	v = VALIDATED(chunks, perhaps_not);
	check(decision_count(v, DECISION_DRAIN_SIZE).nr == 1);
	check(!validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_LATE_FREE].nr);
}
