// SPDX-License-Identifier: Apache-2.0
#include "next_event.h"

#include "model/memory.h"

#include <errno.h>
#include <stdlib.h>

int next_events_new(struct next_events *f, const struct model *m, uint64_t nr_rows,
		    struct error *err)
{
	*f = (struct next_events){.nr_rows = nr_rows, .nr_frames = m->nr_frames};
	f->bits = calloc(nr_rows / 4 + 1, 1);
	f->pending = memory_new(m->nr_frames * sizeof(*f->pending));
	if (f->bits && f->pending)
		return 0;
	return fail(err, ENOMEM, "no memory for what becomes of %llu frees",
		    (unsigned long long)nr_rows);
}

void next_events_done(struct next_events *f)
{
	if (f->pending)
		memory_free(f->pending, f->nr_frames * sizeof(*f->pending));
	f->pending = NULL;
}

void next_events_free(struct next_events *f)
{
	next_events_done(f);
	free(f->bits);
	f->bits = NULL;
}

static void settle(struct next_events *f, uint32_t frame, enum next_event next_event)
{
	uint32_t row = f->pending[frame];

	if (!row)
		return;
	row--;
	f->bits[row / 4] |= (uint8_t)((unsigned)next_event << row % 4 * 2);
	f->pending[frame] = 0;
}

/* An event of 2^order pages; of a batched free the last event, its free_batched, counts. */
static void read_row(struct next_events *f, uint64_t row, int kind, uint32_t frame, int order)
{
	if (kind == EVENT_KIND_FREE_BATCHED) {
		if (f->pending[frame] && row < UINT32_MAX)
			f->pending[frame] = (uint32_t)row + 1;
		return;
	}
	settle(f, frame, next_event_by_kind(kind));
	/* A page inside was part of a larger free block. */
	for (uint32_t i = 1; i < 1u << order; i++)
		settle(f, frame + i, kind == EVENT_KIND_FREE ? NEXT_IS_FREE : NEXT_FROM_BUDDY);
	if ((kind == EVENT_KIND_FREE || kind == EVENT_KIND_ALLOC_ZONE_LOCKED) && row < UINT32_MAX)
		f->pending[frame] = (uint32_t)row + 1;
}

uint32_t next_event_frame(const struct model *m, const struct zone **zone,
			  const struct event_columns *c, size_t i, int *order)
{
	uint64_t pfn = is_valid(c->pfn_valid, i) ? c->pfn[i] : UINT64_MAX;
	uint32_t frame;

	*order = is_valid(c->page_order_valid, i) ? c->page_order[i] : 0;
	if (!zone_has(*zone, pfn)) {
		const struct zone *other = pfn_zone(m, pfn);

		if (!other)
			return NO_FRAME;
		*zone = other;
	}
	frame = (*zone)->base + (uint32_t)(pfn - (*zone)->base_pfn);
	return *order <= m->max_order && (*zone)->end - frame >= 1u << *order ? frame : NO_FRAME;
}

void next_events_read(struct next_events *f, const struct model *m, const struct event_columns *c,
		      size_t rows)
{
	const struct zone *zone = &m->zones[0];

	for (size_t i = 0; i < rows && f->read < f->nr_rows; i++, f->read++) {
		int order;
		uint32_t frame = next_event_frame(m, &zone, c, i, &order);

		if (frame != NO_FRAME)
			read_row(f, f->read, c->kind[i], frame, order);
	}
}
