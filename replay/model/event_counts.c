// SPDX-License-Identifier: Apache-2.0
#include "event_counts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

_Static_assert((int)NR_EVENT_COUNT_KIND == EVENT_KIND_ALLOC_EXTFRAG,
	       "the kinds of event, less one");

static int side_init(struct side_counts *side, int nr_cpus, struct error *err)
{
	side->refilling = calloc((size_t)nr_cpus, sizeof(*side->refilling));
	side->draining = calloc((size_t)nr_cpus, sizeof(*side->draining));
	if (!side->refilling || !side->draining)
		return fail(err, ENOMEM, "no memory to count the events of %d CPUs", nr_cpus);
	return 0;
}

static void side_free(struct side_counts *side)
{
	free(side->refilling);
	free(side->draining);
}

int event_counts_init(struct event_counts *t, int nr_cpus, const struct recorder_threads *threads,
		      struct error *err)
{
	*t = (struct event_counts){.threads = *threads};
	return side_init(&t->others, nr_cpus, err) ?: side_init(&t->recorder, nr_cpus, err);
}

void event_counts_free(struct event_counts *t)
{
	side_free(&t->others);
	side_free(&t->recorder);
}

static int compare_pids(const void *a, const void *b)
{
	const int32_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

static bool is_recorder(const struct recorder_threads *threads, int32_t pid)
{
	return threads->nr && bsearch(&pid, threads->pids, threads->nr, sizeof(pid), compare_pids);
}

void event_counts_add(struct event_counts *t, int kind, const struct moment *now, int order,
		      bool has_page)
{
	struct side_counts *side;

	if (now->pid != t->last_pid || !t->last) {
		t->last_pid = now->pid;
		t->last = is_recorder(&t->threads, now->pid) ? &t->recorder : &t->others;
	}
	side = t->last;
	assert(kind < NR_EVENT_COUNT_KIND && order <= NO_ORDER);
	side->nr[kind][order].events++;
	side->nr[kind][order].without_page += !has_page;
	switch (kind) {
	case EVENT_KIND_ALLOC:
		side->refilling[now->cpu] = false;
		break;
	case EVENT_KIND_FREE:
		side->draining[now->cpu] = false;
		break;
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
		side->nr[kind][order].runs += !side->refilling[now->cpu];
		side->refilling[now->cpu] = true;
		break;
	case EVENT_KIND_PCPU_DRAIN:
		side->nr[kind][order].runs += !side->draining[now->cpu];
		side->draining[now->cpu] = true;
		break;
	}
}

static void write_side(const struct event_counts *t, const struct side_counts *side,
		       struct output *out)
{
	for (int kind = 0; kind < NR_EVENT_COUNT_KIND; kind++)
		for (int order = 0; order <= NO_ORDER; order++) {
			struct event_count_columns *columns;
			size_t i;

			if (!side->nr[kind][order].events)
				continue;
			i = output_row(out, &columns);
			columns->kind[i] = (uint8_t)kind;
			columns->events[i] = side->nr[kind][order].events;
			columns->without_page[i] = side->nr[kind][order].without_page;
			if (order != NO_ORDER)
				SET_VALUE(columns, page_order, i, (uint8_t)order);
			if (kind == EVENT_KIND_ALLOC_ZONE_LOCKED || kind == EVENT_KIND_PCPU_DRAIN)
				SET_VALUE(columns, runs, i, side->nr[kind][order].runs);
			if (t->threads.nr)
				SET_VALUE(columns, recorder, i, side == &t->recorder);
		}
}

void event_counts_write(const struct event_counts *t, struct output *out)
{
	write_side(t, &t->others, out);
	write_side(t, &t->recorder, out);
}
