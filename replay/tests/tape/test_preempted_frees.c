// SPDX-License-Identifier: Apache-2.0
/* Frees whose tasks may have been preempted, and when the tasks continued. */
#include "check.h"
#include "tape/next_event.h"
#include "toy.h"

struct row {
	int kind, pid, cpu, flags;
};

static struct toy toy;
static const struct zone_spec zone = {.spanned = 32, .present = 32, .managed = 32};

/* Row i is an event of page i. */
static struct preempted_frees *read_rows(struct next_events *f, const struct row *rows, size_t nr)
{
	struct batch *batch;
	struct event_columns *c;
	struct error err;

	toy_new_machine(&toy, "6.18", &toy_two_cpus, &zone, 1);
	must(next_events_new(f, toy.m, nr, &err), &err);
	must(batch_new(&batch, &event_table, nr, &err), &err);
	batch_clear(batch);
	c = (struct event_columns *)batch->slots;
	for (size_t i = 0; i < nr; i++) {
		c->kind[i] = (uint8_t)rows[i].kind;
		c->pfn[i] = i;
		c->pid[i] = rows[i].pid;
		c->cpu[i] = (uint16_t)rows[i].cpu;
		c->flags[i] = (uint8_t)rows[i].flags;
		set_valid(c->pfn_valid, i);
		set_valid(c->page_order_valid, i);
	}
	must(next_events_read(f, toy.m, c, nr, &err), &err);
	must(next_events_done(f, &err), &err);
	batch_free(batch);
	return &f->departures.frees;
}
#define READ(f, rows) read_rows(f, rows, sizeof(rows) / sizeof((rows)[0]))

TEST(a_task_continues_at_its_next_event)
{
	/* Task 7 is the last to continue, but the first to free. */
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 7, 0, 0},  {EVENT_KIND_FREE, 8, 0, 0},
		{EVENT_KIND_ALLOC, 9, 0, 0}, {EVENT_KIND_ALLOC, 8, 0, 0},
		{EVENT_KIND_FREE, 8, 0, 0},  {EVENT_KIND_PCPU_DRAIN, 7, 0, 0},
	};
	struct next_events f;
	struct preempted_frees *p = READ(&f, rows);

	check(p->nr == 2);
	check(preempted_free_resumed(p, 0) == 5);
	check(preempted_free_resumed(p, 1) == 3);
	check(!preempted_free_resumed(p, 2));
	/* Task 8 emits no more events. */
	check(!preempted_free_resumed(p, 4));
	toy_free(&toy);
}

TEST(the_task_may_continue_on_another_cpu)
{
	/* CPU 0 has no event meanwhile. */
	static const struct row idle[] = {
		{EVENT_KIND_FREE, 7, 0, 0},
		{EVENT_KIND_FREE, 8, 1, 0},
		{EVENT_KIND_FREE, 7, 1, 0},
	};
	static const struct row busy[] = {
		{EVENT_KIND_FREE, 7, 0, 0},
		{EVENT_KIND_FREE, 9, 0, 0},
		{EVENT_KIND_FREE, 8, 1, 0},
		{EVENT_KIND_FREE, 7, 1, 0},
	};
	struct next_events f;

	check(preempted_free_resumed(READ(&f, idle), 0) == 2);
	toy_free(&toy);
	check(preempted_free_resumed(READ(&f, busy), 0) == 3);
	toy_free(&toy);
}

TEST(a_free_with_preemption_off_is_not_preempted)
{
	static const int flags[] = {CONTEXT_PREEMPT_OFF, CONTEXT_IRQS_OFF, CONTEXT_SOFTIRQ,
				    CONTEXT_HARDIRQ};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const struct row rows[] = {
			{EVENT_KIND_FREE, 7, 0, flags[i]},
			{EVENT_KIND_FREE, 8, 0, 0},
			{EVENT_KIND_FREE, 7, 0, 0},
		};
		struct next_events f;

		check(READ(&f, rows)->nr == 0);
		toy_free(&toy);
	}
}

TEST(only_another_task_preempts)
{
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 7, 0, 0},
		{EVENT_KIND_FREE, 7, 0, CONTEXT_SOFTIRQ},
		{EVENT_KIND_FREE, 7, 0, 0},
		/* The free of a batch waits for its mm_page_free_batched. */
		{EVENT_KIND_FREE_BATCHED, 7, 0, 0},
		{EVENT_KIND_FREE, 8, 0, 0},
		{EVENT_KIND_FREE, 7, 0, 0},
	};
	struct next_events f;

	check(READ(&f, rows)->nr == 0);
	toy_free(&toy);
}
