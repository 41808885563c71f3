// SPDX-License-Identifier: Apache-2.0
/*
 * Allocs whose tasks were preempted between taking their pages and their events. CPU 0's PCP list
 * of MOVABLE pages is empty at first. A comment names each page that is taken without an event.
 */
#include "short_tape.h"
#include "tape/event_window.h"

#include <stdlib.h>

static const struct chunk chunks[] = {{2048, 10, MOVABLE}};

static bool is_early(const struct found_rows *found, size_t i, uint64_t pfn, uint64_t at,
		     uint64_t event_row)
{
	return i < found->nr && found->rows[i].kind == INFERRED_KIND_EARLY_ALLOC &&
	       found->rows[i].cpu == 0 && found->rows[i].pfn == pfn && found->rows[i].at == at &&
	       found->rows[i].event_row == event_row;
}

TEST(an_alloc_without_preemption_stays_at_its_event)
{
	/* Task 1 sleeps while task 2 runs. */
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 512),
		BY(2, 0, FREE, .pfn = 514),
		BY(2, 0, ALLOC, .pfn = 514),
		BY(1, 0, ALLOC, .pfn = 512),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(all_exact(v, DECISION_ALLOC, 2));
	check(inferred_rows(v).nr == 0);
}

TEST(the_event_may_come_any_number_of_events_later)
{
	static const size_t between[] = {2, 2000, WINDOW_AHEAD + 2};

	for (size_t n = 0; n < COUNT(between); n++) {
		size_t nr = between[n] + 7;
		struct row *events = calloc(nr, sizeof(*events));
		struct found_rows found;
		struct validate *v;

		events[0] = (struct row)BY(1, 0, FREE, .pfn = 512);
		events[1] = (struct row)BY(1, 0, FREE, .pfn = 514);
		/* Task 1 takes 514. */
		events[2] = (struct row)BY(2, 0, FREE, .pfn = 516);
		for (size_t i = 3; i < nr - 4; i += 2) {
			events[i] = (struct row)BY(3, 1, FREE, .pfn = 600);
			events[i + 1] = (struct row)BY(3, 1, ALLOC, .pfn = 600);
		}
		events[nr - 4] = (struct row)BY(1, 0, ALLOC, .pfn = 514);
		events[nr - 3] = (struct row)BY(2, 0, FREE, .pfn = 700, .order = 1);
		events[nr - 2] = (struct row)BY(2, 0, ALLOC, .pfn = 516);
		events[nr - 1] = (struct row)BY(2, 0, ALLOC, .pfn = 512);
		v = validated(&(struct short_tape){.chunks = chunks,
						   .nr_chunks = COUNT(chunks),
						   .events = events,
						   .nr_events = nr});
		check(all_exact(v, DECISION_ALLOC, between[n] / 2 + 3));
		found = inferred_rows(v);
		check(found.nr == 1 && is_early(&found, 0, 514, 2, nr - 4));
		validate_free(v);
		free(events);
	}
}

TEST(the_task_may_continue_on_another_cpu)
{
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 512),
		BY(1, 0, FREE, .pfn = 514),
		/* Task 1 takes 514. */
		BY(2, 0, FREE, .pfn = 516),
		BY(3, 1, FREE, .pfn = 600),
		BY(1, 1, ALLOC, .pfn = 514),
		BY(2, 0, ALLOC, .pfn = 516),
		BY(2, 0, ALLOC, .pfn = 512),
	};
	/* Nothing happens to the list meanwhile. */
	static const struct row quiet[] = {
		BY(1, 0, FREE, .pfn = 512),  BY(1, 0, FREE, .pfn = 514),
		BY(3, 1, FREE, .pfn = 600),  BY(1, 1, ALLOC, .pfn = 514),
		BY(2, 0, ALLOC, .pfn = 512),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 3));
	check(found.nr == 1 && is_early(&found, 0, 514, 2, 4));
	validate_free(v);
	v = VALIDATED(chunks, quiet);
	found = inferred_rows(v);
	check(all_exact(v, DECISION_ALLOC, 2));
	check(found.nr == 1 && is_early(&found, 0, 514, 3, 3));
	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_OTHER_CPU_ALLOC].nr == 0);
}

TEST(an_interrupt_may_take_pages_of_the_list_meanwhile)
{
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 512),
		BY(1, 0, FREE, .pfn = 514),
		/* Task 1 takes 514. */
		BY(2, 0, FREE, .pfn = 516),
		BY(2, 0, ALLOC, .pfn = 516, .flags = CONTEXT_SOFTIRQ),
		BY(2, 0, ALLOC, .pfn = 512, .flags = CONTEXT_SOFTIRQ),
		BY(2, 0, FREE, .pfn = 518),
		BY(1, 0, ALLOC, .pfn = 514),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 3));
	check(found.nr == 1 && is_early(&found, 0, 514, 4, 6));
	check(validate_model(v)->pcps[0].count == 1);
}

TEST(two_tasks_may_be_preempted_in_one_list)
{
	/* Task 1 takes 516 before row 3, and task 2 514 after it. They continue in either order. */
	static const struct row in_turn[] = {
		BY(2, 0, FREE, .pfn = 512),  BY(1, 0, FREE, .pfn = 514),
		BY(1, 0, FREE, .pfn = 516),  BY(2, 0, FREE, .pfn = 600, .order = 1),
		BY(3, 0, FREE, .pfn = 518),  BY(3, 0, ALLOC, .pfn = 518),
		BY(3, 0, ALLOC, .pfn = 512), BY(2, 0, ALLOC, .pfn = 514),
		BY(1, 0, ALLOC, .pfn = 516),
	};
	static const struct row reversed[] = {
		BY(2, 0, FREE, .pfn = 512),  BY(1, 0, FREE, .pfn = 514),
		BY(1, 0, FREE, .pfn = 516),  BY(2, 0, FREE, .pfn = 600, .order = 1),
		BY(3, 0, FREE, .pfn = 518),  BY(3, 0, ALLOC, .pfn = 518),
		BY(3, 0, ALLOC, .pfn = 512), BY(1, 0, ALLOC, .pfn = 516),
		BY(2, 0, ALLOC, .pfn = 514),
	};
	VALIDATE *v = VALIDATED(chunks, in_turn);
	struct found_rows found = inferred_rows(v);

	/* Both might leave after 518 has left. Only the alloc of 512 shows that they are gone. */
	check(all_exact(v, DECISION_ALLOC, 4));
	check(found.nr == 2);
	check(is_early(&found, 0, 516, 6, 8) && is_early(&found, 1, 514, 6, 7));
	validate_free(v);
	v = VALIDATED(chunks, reversed);
	found = inferred_rows(v);
	check(all_exact(v, DECISION_ALLOC, 4));
	check(found.nr == 2);
	check(is_early(&found, 0, 516, 6, 7) && is_early(&found, 1, 514, 6, 8));
}

TEST(a_page_above_that_may_leave_first_proves_nothing)
{
	static const struct row events[] = {
		BY(2, 0, FREE, .pfn = 512),
		BY(2, 0, FREE, .pfn = 514),
		BY(3, 0, FREE, .pfn = 600, .order = 1),
		/* Task 3 takes 514. Only then does task 1 take 512. */
		BY(1, 0, ALLOC, .pfn = 512),
		BY(3, 0, ALLOC, .pfn = 514),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 2));
	check(found.nr == 1 && is_early(&found, 0, 514, 3, 4));
}

TEST(a_drain_does_not_find_the_page)
{
	/* 8 pages overflow the PCP: without 512, one later than the model would count. */
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 512),
		/* Task 1 takes 512. */
		BY(2, 0, FREE, .pfn = 514, .run = 8),
		BY(2, 0, PCPU_DRAIN, .pfn = 514, .run = 7),
		BY(1, 0, ALLOC, .pfn = 512),
	};
	VALIDATE *v = VALIDATED(chunks, events);
	struct found_rows found = inferred_rows(v);

	check(all_exact(v, DECISION_ALLOC, 1));
	check(all_exact(v, DECISION_DRAIN, 7));
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(found.nr == 1 && is_early(&found, 0, 512, 1, 16));
}

TEST(a_refill_may_end_in_a_preemption)
{
	/* Task 1 takes 2048, the first page of its refill. */
	enum { BETWEEN = 200 };
	struct row events[BETWEEN + 5];
	struct found_rows found;
	struct validate *v;

	for (size_t i = 0; i < 4; i++)
		events[i] = (struct row)BY(1, 0, ALLOC_ZONE_LOCKED, .pfn = 2048 + i);
	for (size_t i = 4; i < BETWEEN + 4; i += 2) {
		events[i] = (struct row)BY(2, 0, ALLOC, .pfn = 2049);
		events[i + 1] = (struct row)BY(2, 0, FREE, .pfn = 2049);
	}
	events[BETWEEN + 4] = (struct row)BY(1, 0, ALLOC, .pfn = 2048);
	v = VALIDATED(chunks, events, .pcp_batch = 4);
	found = inferred_rows(v);
	check(all_exact(v, DECISION_ALLOC, BETWEEN / 2 + 1));
	check(all_exact(v, DECISION_REFILL_SIZE, 1));
	check(found.nr == 1 && is_early(&found, 0, 2048, 0, BETWEEN + 4));
	validate_free(v);
}
