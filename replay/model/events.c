// SPDX-License-Identifier: Apache-2.0
#include "events.h"

#include "event_counts.h"

/* Fill in the columns common to all events; NULL if the event is only counted. */
static struct event_columns *event_row(struct events *e, const struct moment *now, int kind,
				       int64_t pfn, int order, size_t *row)
{
	struct event_columns *columns;
	size_t i;

	if (e->event_counts && kind != EVENT_KIND_ALLOC_EXTFRAG) {
		event_counts_add(e->event_counts, kind, now, order, pfn != NO_PFN);
		return NULL;
	}
	i = output_row(e->output, &columns);
	e->rows++;
	columns->ts[i] = now->ts;
	columns->cpu[i] = now->cpu;
	columns->pid[i] = now->pid;
	columns->kind[i] = (uint8_t)kind;
	columns->flags[i] = now->flags;
	if (pfn != NO_PFN)
		SET_VALUE(columns, pfn, i, (uint64_t)pfn);
	if (order != NO_ORDER)
		SET_VALUE(columns, page_order, i, (uint8_t)order);
	*row = i;
	return columns;
}

void write_alloc(struct events *e, const struct moment *now, int64_t pfn, int order,
		 uint32_t gfp_flags, int migratetype)
{
	size_t i;
	struct event_columns *columns = event_row(e, now, EVENT_KIND_ALLOC, pfn, order, &i);

	if (!columns)
		return;
	SET_VALUE(columns, migratetype, i, (uint8_t)migratetype);
	SET_VALUE(columns, gfp_flags, i, gfp_flags);
}

void write_free(struct events *e, const struct moment *now, int64_t pfn, int order)
{
	size_t i;

	event_row(e, now, EVENT_KIND_FREE, pfn, order, &i);
}

void write_free_batched(struct events *e, const struct moment *now, int64_t pfn)
{
	size_t i;

	event_row(e, now, EVENT_KIND_FREE_BATCHED, pfn, NO_ORDER, &i);
}

void write_zone_locked(struct events *e, const struct moment *now, int64_t pfn, int order,
		       int migratetype, int refill)
{
	size_t i;
	struct event_columns *columns =
		event_row(e, now, EVENT_KIND_ALLOC_ZONE_LOCKED, pfn, order, &i);

	if (!columns)
		return;
	SET_VALUE(columns, migratetype, i, (uint8_t)migratetype);
	if (refill >= 0)
		SET_VALUE(columns, percpu_refill, i, (uint8_t)refill);
}

void write_pcpu_drain(struct events *e, const struct moment *now, int64_t pfn, int order,
		      int migratetype)
{
	size_t i;
	struct event_columns *columns = event_row(e, now, EVENT_KIND_PCPU_DRAIN, pfn, order, &i);

	if (!columns)
		return;
	SET_VALUE(columns, migratetype, i, (uint8_t)migratetype);
}

void write_extfrag(struct events *e, const struct moment *now, const struct extfrag *extfrag)
{
	size_t i;
	struct event_columns *columns =
		event_row(e, now, EVENT_KIND_ALLOC_EXTFRAG, extfrag->pfn, extfrag->alloc_order, &i);

	SET_VALUE(columns, migratetype, i, (uint8_t)extfrag->alloc_migratetype);
	SET_VALUE(columns, fallback_order, i, (uint8_t)extfrag->fallback_order);
	SET_VALUE(columns, fallback_migratetype, i, (uint8_t)extfrag->fallback_migratetype);
	SET_VALUE(columns, change_ownership, i, extfrag->change_ownership);
}
