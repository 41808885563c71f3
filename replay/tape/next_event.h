/* SPDX-License-Identifier: Apache-2.0 */
/*
 * next_event.h - the next event of each page after a free, or after it left the free lists.
 *
 * The next event of a page shows where its free put it, and whether a page of a refill was
 * allocated without an event. That event may be anywhere later on the tape. So the whole tape is
 * read once in advance, and 2 bits per row are stored, beside the rows of a few departures.
 */
#pragma once

#include "departures.h"

enum next_event {
	NEXT_NONE,       /* the row is of another kind, or the page has no later event */
	NEXT_FROM_BUDDY, /* the page leaves the free lists again, alone or in a larger block */
	NEXT_FROM_PCP,   /* the page is allocated or drained: it was on a PCP list */
	NEXT_IS_FREE,    /* the page is freed: it was allocated without an event */
};

struct next_events {
	uint8_t *bits;     /* 4 rows to a byte; NULL: unknown */
	uint32_t *pending; /* [frame] number of its last row, + 1, if that row waits for the next
			      event; else 0: no row yet, or NEXT_SETTLED */
	uint64_t nr_rows, read;
	uint32_t nr_frames;
	struct departures departures;
};

enum { NEXT_SETTLED = UINT32_MAX };

/* The state of a page according to its next event, an EVENT_KIND_*. */
static inline enum next_event next_event_by_kind(int kind)
{
	switch (kind) {
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
	case EVENT_KIND_ALLOC_EXTFRAG:
		return NEXT_FROM_BUDDY;
	case EVENT_KIND_ALLOC:
	case EVENT_KIND_PCPU_DRAIN:
		return NEXT_FROM_PCP;
	case EVENT_KIND_FREE:
	case EVENT_KIND_FREE_BATCHED:
		break;
	}
	return NEXT_IS_FREE;
}

/* Allocate for `nr_rows` rows about the pages of a model. -ENOMEM. */
int next_events_new(struct next_events *f, const struct model *m, uint64_t nr_rows,
		    struct error *err);

/*
 * The first frame of a row's 2^order pages, or NO_FRAME if they are in no zone, or in two. `zone`
 * is where the search begins, and the zone of the pages after it.
 */
frame_nr next_event_frame(const struct model *m, const struct zone **zone,
			  const struct event_columns *columns, size_t i, int *order);

/* The next rows of the table. -ENOMEM. */
int next_events_read(struct next_events *f, const struct model *m,
		     const struct event_columns *columns, size_t rows, struct error *err);

/* After the last row: free the memory that only reading needs. -ENOMEM. */
int next_events_done(struct next_events *f, struct error *err);

static inline enum next_event next_event_of(const struct next_events *f, uint64_t row)
{
	if (row >= f->read)
		return NEXT_NONE;
	return (enum next_event)(f->bits[row / 4] >> row % 4 * 2 & 3);
}
