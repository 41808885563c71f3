// SPDX-License-Identifier: Apache-2.0
#include "event_counts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

_Static_assert((int)NR_EVENT_COUNT_KIND == EVENT_KIND_ALLOC_EXTFRAG,
	       "the kinds of event, less one");

int event_counts_init(struct event_counts *t, int nr_cpus, const struct recorder_threads *recorder,
		      struct error *err)
{
	*t = (struct event_counts){.recorder = *recorder};
	for (int of_recorder = 0; of_recorder < 2; of_recorder++) {
		t->refilling[of_recorder] = calloc((size_t)nr_cpus, sizeof(bool));
		t->draining[of_recorder] = calloc((size_t)nr_cpus, sizeof(bool));
		if (!t->refilling[of_recorder] || !t->draining[of_recorder])
			return fail(err, ENOMEM, "no memory to count the events of %d CPUs",
				    nr_cpus);
	}
	return 0;
}

void event_counts_free(struct event_counts *t)
{
	for (int of_recorder = 0; of_recorder < 2; of_recorder++) {
		free(t->refilling[of_recorder]);
		free(t->draining[of_recorder]);
	}
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
	bool of_recorder = is_recorder(&t->recorder, now->pid);
	bool *refilling = &t->refilling[of_recorder][now->cpu],
	     *draining = &t->draining[of_recorder][now->cpu];

	assert(kind < NR_EVENT_COUNT_KIND && order <= NO_ORDER);
	t->nr[of_recorder][kind][order].events++;
	t->nr[of_recorder][kind][order].without_page += !has_page;
	switch (kind) {
	case EVENT_KIND_ALLOC:
		*refilling = false;
		break;
	case EVENT_KIND_FREE:
		*draining = false;
		break;
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
		t->nr[of_recorder][kind][order].runs += !*refilling;
		*refilling = true;
		break;
	case EVENT_KIND_PCPU_DRAIN:
		t->nr[of_recorder][kind][order].runs += !*draining;
		*draining = true;
		break;
	}
}

static void write_counts(const struct event_counts *t, bool of_recorder, int kind, int order,
			 struct output *out)
{
	struct event_count_columns *columns;
	size_t i;

	if (!t->nr[of_recorder][kind][order].events)
		return;
	i = output_row(out, &columns);
	if (!columns)
		return;
	columns->kind[i] = (uint8_t)kind;
	columns->events[i] = t->nr[of_recorder][kind][order].events;
	columns->without_page[i] = t->nr[of_recorder][kind][order].without_page;
	if (t->recorder.nr) {
		columns->recorder[i] = of_recorder;
		set_valid(columns->recorder_valid, i);
	}
	if (order != NO_ORDER) {
		columns->page_order[i] = (uint8_t)order;
		set_valid(columns->page_order_valid, i);
	}
	if (kind == EVENT_KIND_ALLOC_ZONE_LOCKED || kind == EVENT_KIND_PCPU_DRAIN) {
		columns->runs[i] = t->nr[of_recorder][kind][order].runs;
		set_valid(columns->runs_valid, i);
	}
}

void event_counts_write(const struct event_counts *t, struct output *out)
{
	for (int of_recorder = 0; of_recorder < 2; of_recorder++)
		for (int kind = 0; kind < NR_EVENT_COUNT_KIND; kind++)
			for (int order = 0; order <= NO_ORDER; order++)
				write_counts(t, of_recorder, kind, order, out);
}
