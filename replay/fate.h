/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fate.h - what is heard next of a page that was freed, or left the free lists.
 *
 * Where a free put its page shows when the page appears again, and so does whether a page of
 * a refill was handed out without an event. That may be any time, so a tape is read once
 * before its events run, and 2 bits are kept of each row.
 */
#pragma once

#include "model.h"
#include "tables.h"

enum fate {
	FATE_NONE,  /* the row is of another kind, or nothing more is heard of the page */
	FATE_BUDDY, /* it leaves the free lists again, by itself or in a larger block */
	FATE_PCP,   /* it is handed out or drained: it was on a PCP list */
	FATE_FREE,  /* it is freed: it was handed out, and no event told */
};

struct fates {
	uint8_t *bits;     /* 4 rows to a byte; NULL: nothing is known */
	uint32_t *pending; /* [frame] number of its last row, + 1, if that has a fate; else 0 */
	uint64_t nr_rows, read;
	uint32_t nr_frames;
};

/* What the next event of a page, of an EVENT_KIND_*, says of the page. */
static inline enum fate fate_by(int kind)
{
	switch (kind) {
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
	case EVENT_KIND_ALLOC_EXTFRAG:
		return FATE_BUDDY;
	case EVENT_KIND_ALLOC:
	case EVENT_KIND_PCPU_DRAIN:
		return FATE_PCP;
	default:
		return FATE_FREE;
	}
}

/* Room for so many rows about the pages of a model. -ENOMEM. */
int fates_new(struct fates *f, const struct model *m, uint64_t nr_rows, struct error *err);
void fates_free(struct fates *f);

/*
 * The first frame of a row's 2^order pages; NO_FRAME if they are in no zone, or in two. `zone`
 * is where the search begins, and that of the pages after it.
 */
uint32_t fate_frame(const struct model *m, const struct zone **zone,
		    const struct event_columns *columns, size_t i, int *order);

/* The next rows of the table. */
void fates_read(struct fates *f, const struct model *m, const struct event_columns *columns,
		size_t rows);

/* All rows were read: what only reading needs is given back. */
void fates_done(struct fates *f);

static inline enum fate fate_of(const struct fates *f, uint64_t row)
{
	if (row >= f->read)
		return FATE_NONE;
	return (enum fate)(f->bits[row / 4] >> row % 4 * 2 & 3);
}
