// SPDX-License-Identifier: Apache-2.0
#include "next_event.h"

#include "model/memory.h"

int next_events_new(struct next_events *f, const struct model *m, uint64_t nr_rows,
		    struct error *err)
{
	*f = (struct next_events){.nr_rows = nr_rows, .nr_frames = m->nr_frames};
	f->bits = arrays_new(m->arrays, nr_rows / 4 + 1, 1);
	f->pending = arrays_map(m->arrays, m->nr_frames, sizeof(*f->pending));
	departures_new(&f->departures, m);
	return arrays_error(m->arrays, err);
}

int next_events_done(struct next_events *f, struct error *err)
{
	if (!f->bits)
		return 0;
	arrays_drop(f->departures.arrays, f->pending);
	f->pending = NULL;
	return departures_done(&f->departures, f->nr_frames, err);
}

static void settle(struct next_events *f, frame_nr frame, enum next_event next_event)
{
	uint32_t row = f->pending[frame];

	f->pending[frame] = NEXT_SETTLED;
	if (!row || row == NEXT_SETTLED)
		return;
	row--;
	f->bits[row / 4] |= (uint8_t)((unsigned)next_event << row % 4 * 2);
}

/* Whether a row of this kind waits for the next event of its page. */
static bool waits(int kind)
{
	return kind == EVENT_KIND_FREE || kind == EVENT_KIND_ALLOC_ZONE_LOCKED ||
	       kind == EVENT_KIND_ALLOC_EXTFRAG;
}

/* An event of 2^order pages; of a batched free the last event, its free_batched, counts. */
static void read_row(struct next_events *f, uint64_t row, int kind, frame_nr frame, int order)
{
	if (kind == EVENT_KIND_FREE_BATCHED) {
		if (f->pending[frame] && f->pending[frame] != NEXT_SETTLED)
			f->pending[frame] = (uint32_t)row + 1;
		return;
	}
	settle(f, frame, next_event_by_kind(kind));
	/* A page inside was part of a larger free block. */
	for (uint32_t i = 1; i < 1u << order; i++)
		settle(f, frame + i, kind == EVENT_KIND_FREE ? NEXT_IS_FREE : NEXT_FROM_BUDDY);
	if (waits(kind))
		f->pending[frame] = (uint32_t)row + 1;
}

frame_nr next_event_frame(const struct model *m, const struct zone **zone,
			  const struct event_columns *c, size_t i, int *order)
{
	uint64_t pfn = VALUE_OR(c, pfn, i, UINT64_MAX);
	frame_nr frame;

	*order = VALUE_OR(c, page_order, i, 0);
	if (!zone_has(*zone, pfn)) {
		const struct zone *other = pfn_zone(m, pfn);

		if (!other)
			return NO_FRAME;
		*zone = other;
	}
	frame = (*zone)->base + (uint32_t)(pfn - (*zone)->base_pfn);
	return *order <= m->max_order && (*zone)->end - frame >= 1u << *order ? frame : NO_FRAME;
}

/* Prefetch the memory that a row will need, most often of the zone of the row at hand. */
static void prefetch(const struct next_events *f, const struct zone *zone,
		     const struct event_columns *c, size_t i)
{
	if (is_valid(c->pfn_valid, i) && zone_has(zone, c->pfn[i]))
		__builtin_prefetch(&f->pending[zone->base + (c->pfn[i] - zone->base_pfn)], 1);
}

int next_events_read(struct next_events *f, const struct model *m, const struct event_columns *c,
		     size_t rows, struct error *err)
{
	/* Rows have 32 bits; the last two numbers are marks. */
	uint64_t end = f->nr_rows < NEXT_SETTLED - 1 ? f->nr_rows : NEXT_SETTLED - 1;
	const size_t ahead = 64;
	const struct zone *zone = &m->zones[0];

	for (size_t i = 0; i < rows && f->read < end; i++, f->read++) {
		int order, ret;
		frame_nr frame = next_event_frame(m, &zone, c, i, &order);

		if (i + ahead < rows)
			prefetch(f, zone, c, i + ahead);
		ret = departures_read(&f->departures, c, i, frame,
				      frame == NO_FRAME ? NEXT_SETTLED : f->pending[frame], err);
		if (ret)
			return ret;
		if (frame != NO_FRAME)
			read_row(f, f->read, c->kind[i], frame, order);
	}
	return 0;
}
