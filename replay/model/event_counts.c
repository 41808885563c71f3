// SPDX-License-Identifier: Apache-2.0
#include "event_counts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

_Static_assert((int)NR_EVENT_COUNT_KIND == EVENT_KIND_ALLOC_EXTFRAG,
	       "the kinds of event, less one");

int event_counts_init(struct event_counts *t, int nr_cpus, struct error *err)
{
	*t = (struct event_counts){
		.refilling = calloc((size_t)nr_cpus, sizeof(*t->refilling)),
		.draining = calloc((size_t)nr_cpus, sizeof(*t->draining)),
	};
	if (!t->refilling || !t->draining)
		return fail(err, ENOMEM, "no memory to count the events of %d CPUs", nr_cpus);
	return 0;
}

void event_counts_free(struct event_counts *t)
{
	free(t->refilling);
	free(t->draining);
}

void event_counts_add(struct event_counts *t, int kind, int cpu, int order, bool has_page)
{
	assert(kind < NR_EVENT_COUNT_KIND && order <= NO_ORDER);
	t->nr[kind][order].events++;
	t->nr[kind][order].without_page += !has_page;
	switch (kind) {
	case EVENT_KIND_ALLOC:
		t->refilling[cpu] = false;
		break;
	case EVENT_KIND_FREE:
		t->draining[cpu] = false;
		break;
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
		t->nr[kind][order].runs += !t->refilling[cpu];
		t->refilling[cpu] = true;
		break;
	case EVENT_KIND_PCPU_DRAIN:
		t->nr[kind][order].runs += !t->draining[cpu];
		t->draining[cpu] = true;
		break;
	}
}

void event_counts_write(const struct event_counts *t, struct output *out)
{
	for (int kind = 0; kind < NR_EVENT_COUNT_KIND; kind++)
		for (int order = 0; order <= NO_ORDER; order++) {
			struct event_count_columns *columns;
			size_t i;

			if (!t->nr[kind][order].events)
				continue;
			i = output_row(out, &columns);
			if (!columns)
				return;
			columns->kind[i] = (uint8_t)kind;
			columns->events[i] = t->nr[kind][order].events;
			columns->without_page[i] = t->nr[kind][order].without_page;
			if (order != NO_ORDER) {
				columns->page_order[i] = (uint8_t)order;
				set_valid(columns->page_order_valid, i);
			}
			if (kind == EVENT_KIND_ALLOC_ZONE_LOCKED || kind == EVENT_KIND_PCPU_DRAIN) {
				columns->runs[i] = t->nr[kind][order].runs;
				set_valid(columns->runs_valid, i);
			}
		}
}
