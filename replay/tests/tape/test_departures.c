// SPDX-License-Identifier: Apache-2.0
/* When pages leave their PCP lists, if their events come late. Pageblocks are of 16 pages. */
#include "check.h"
#include "tape/event_window.h"
#include "tape/next_event.h"
#include "toy.h"

#include <stdlib.h>

struct row {
	int kind, pfn, pid, cpu, flags;
};

static struct toy toy;
static const struct zone_spec zone = {.spanned = 32, .present = 32, .managed = 32};

static void read_rows(struct next_events *f, const struct row *rows, size_t nr)
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
		c->pfn[i] = (uint64_t)rows[i].pfn;
		c->pid[i] = rows[i].pid;
		c->cpu[i] = (uint16_t)rows[i].cpu;
		c->flags[i] = (uint8_t)rows[i].flags;
		set_valid(c->pfn_valid, i);
		set_valid(c->page_order_valid, i);
	}
	must(next_events_read(f, toy.m, c, nr, &err), &err);
	must(next_events_done(f, &err), &err);
	batch_free(batch);
}

static void done(struct next_events *f)
{
	(void)f;
	toy_free(&toy);
}

static const struct departure *departure(struct next_events *f, int pfn, uint64_t row)
{
	return departure_of(&f->departures, toy.m->zones[0].base + (uint32_t)pfn, row);
}

TEST(a_page_leaves_its_list_after_the_previous_event_of_its_task)
{
	/* Task 7 frees page 1, and its next event is the alloc of page 2. */
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 2, 8, 0, 0},  {EVENT_KIND_FREE, 1, 7, 0, 0},
		{EVENT_KIND_FREE, 3, 8, 0, 0},  {EVENT_KIND_FREE, 4, 8, 0, 0},
		{EVENT_KIND_ALLOC, 2, 7, 0, 0},
	};
	const struct departure *d;

	SCOPED(next_events, done, f, read_rows, rows, sizeof(rows) / sizeof((rows)[0]));
	check(f.departures.nr == 1);
	d = departure(&f, 2, 0);
	check(d && d->row == 4 && d->since == 2 && d->until == 3 && d->pid == 7 && d->cpu == 0);
	check(departure(&f, 2, 3) == d);
	check(!departure(&f, 2, 4));
}

TEST(the_events_of_interrupts_do_not_count)
{
	/* A softirq runs while task 7 has CPU 0: the CPU ran no other task. */
	static const struct row same[] = {
		{EVENT_KIND_FREE, 2, 7, 0, 0},
		{EVENT_KIND_FREE, 1, 7, 0, CONTEXT_SOFTIRQ},
		{EVENT_KIND_ALLOC, 2, 7, 0, 0},
	};
	/* It interrupts task 8, after which task 7 continues. */
	static const struct row other[] = {
		{EVENT_KIND_FREE, 2, 7, 0, 0},
		{EVENT_KIND_FREE, 3, 8, 0, 0},
		{EVENT_KIND_FREE, 1, 7, 0, CONTEXT_SOFTIRQ},
		{EVENT_KIND_ALLOC, 2, 7, 0, 0},
	};
	/* An interrupt is not preempted. */
	static const struct row inside[] = {
		{EVENT_KIND_FREE, 2, 7, 0, 0},
		{EVENT_KIND_FREE, 3, 8, 0, 0},
		{EVENT_KIND_ALLOC, 2, 7, 0, CONTEXT_HARDIRQ},
	};
	const struct departure *d;
	struct next_events f;

	read_rows(&f, same, sizeof(same) / sizeof((same)[0]));
	check(f.departures.nr == 0);
	toy_free(&toy);
	read_rows(&f, other, sizeof(other) / sizeof((other)[0]));
	d = departure(&f, 2, 0);
	check(d && d->row == 3 && d->since == 1);
	toy_free(&toy);
	read_rows(&f, inside, sizeof(inside) / sizeof((inside)[0]));
	check(f.departures.nr == 0);
	toy_free(&toy);
}

TEST(what_the_task_before_leaves_behind_is_freed_in_the_switch)
{
	/* Task 7 was preempted in the alloc of page 2. Before its event, it frees for task 8. */
	struct row rows[] = {
		{EVENT_KIND_FREE, 2, 7, 0, 0},
		{EVENT_KIND_FREE, 3, 8, 0, 0},
		{EVENT_KIND_FREE, 1, 7, 0, CONTEXT_PREEMPT_OFF},
		{EVENT_KIND_ALLOC, 2, 7, 0, 0},
	};
	const struct departure *d;
	struct next_events f;

	read_rows(&f, rows, sizeof(rows) / sizeof((rows)[0]));
	d = departure(&f, 2, 0);
	check(d && d->row == 3 && d->since == 1 && d->until == 1);
	toy_free(&toy);
	/* A free with preemption on is the task's own, before its alloc. */
	rows[2].flags = 0;
	read_rows(&f, rows, sizeof(rows) / sizeof((rows)[0]));
	check(f.departures.nr == 0);
	toy_free(&toy);
}

TEST(a_task_may_change_its_cpu)
{
	/* CPU 0 has no event of another task when task 7 continues on CPU 1. */
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 2, 7, 0, 0},  {EVENT_KIND_FREE, 3, 7, 0, 0},
		{EVENT_KIND_FREE, 4, 8, 1, 0},  {EVENT_KIND_ALLOC, 3, 7, 1, 0},
		{EVENT_KIND_FREE, 5, 8, 0, 0},  {EVENT_KIND_FREE, 6, 8, 1, 0},
		{EVENT_KIND_ALLOC, 2, 7, 1, 0},
	};
	const struct departure *d;

	SCOPED(next_events, done, f, read_rows, rows, sizeof(rows) / sizeof((rows)[0]));
	d = departure(&f, 3, 2);
	check(d && d->row == 3 && d->since == 2 && d->cpu == 0);
	d = departure(&f, 2, 4);
	check(d && d->row == 6 && d->since == 4 && d->cpu == 1);
}

TEST(a_page_has_one_departure_for_each_stay)
{
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 2, 7, 0, 0},  {EVENT_KIND_FREE, 3, 8, 0, 0},
		{EVENT_KIND_ALLOC, 2, 7, 0, 0}, {EVENT_KIND_FREE, 2, 7, 0, 0},
		{EVENT_KIND_FREE, 4, 8, 0, 0},  {EVENT_KIND_ALLOC, 2, 7, 0, 0},
	};
	const struct departure *d;

	SCOPED(next_events, done, f, read_rows, rows, sizeof(rows) / sizeof((rows)[0]));
	d = departure(&f, 2, 0);
	check(d && d->row == 2 && d->put == 1);
	/* Between the alloc and the next free, the page is on no list. */
	check(!departure(&f, 2, 2));
	d = departure(&f, 2, 3);
	check(d && d->row == 5 && d->put == 4);
	check(!departure(&f, 2, 5));
}

TEST(a_long_stay_on_a_list_is_known_to_its_end)
{
	enum { LONG = WINDOW_AHEAD + 2 };
	struct row *rows = calloc(LONG + 1, sizeof(*rows));
	const struct departure *d;
	struct next_events f;

	for (int i = 0; i < LONG; i++)
		rows[i] = (struct row){EVENT_KIND_FREE, 4 + i % 8, 8, 0, 0};
	rows[0].pfn = 2;
	rows[3].pfn = 3;
	rows[4] = (struct row){EVENT_KIND_PCPU_DRAIN, 3, 8, 0, 0};
	rows[LONG] = (struct row){EVENT_KIND_PCPU_DRAIN, 2, 8, 0, 0};
	read_rows(&f, rows, LONG + 1);
	check(f.departures.nr == 1);
	d = departure(&f, 2, 0);
	check(d && d->row == LONG && d->since == LONG && d->kind == EVENT_KIND_PCPU_DRAIN);
	toy_free(&toy);
	free(rows);
}

TEST(cpus_and_tasks_outside_the_machine_are_passed_over)
{
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 2, 7, 0, 0},      {EVENT_KIND_FREE, 3, -5, 0, 0},
		{EVENT_KIND_ALLOC, 3, 8, 60000, 0}, {EVENT_KIND_FREE, 4, 0, 0, 0},
		{EVENT_KIND_ALLOC, 2, 7, 0, 0},
	};

	SCOPED(next_events, done, f, read_rows, rows, sizeof(rows) / sizeof((rows)[0]));
	check(f.departures.nr == 0);
}
