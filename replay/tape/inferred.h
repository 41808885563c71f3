/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inferred.h - kernel activity without an event, or with a late event: the table `inferred`.
 *
 * validate infers the rows where the tape contradicts the model. A free run has no such
 * contradictions, so it plays the rows as further requests, each before the row of `event` that it
 * names.
 */
#pragma once

#include "model/model.h"
#include "output.h"
#include "tables.h"

/* Columns set in a row of kind tuned. FIELD_PAGES and ran_on also apply to drain. */
enum {
	FIELD_ALLOC_FACTOR = 1,
	FIELD_BELOW_HIGH = 2,
	FIELD_HIGH = 4,
	FIELD_FREE_COUNT = 8,
	FIELD_FREE_FACTOR = 16,
	FIELD_RECLAIM_ACTIVE = 32,
	FIELD_PAGES = 64,
	FIELD_RAN_ON = 128,
};

struct inferred {
	uint64_t at, ts;
	uint64_t since;     /* lowest row before which it may have happened; `at`: it is known */
	uint64_t event_row; /* early_alloc, direct_alloc: row of its event; else UINT64_MAX */
	frame_nr frame;
	uint32_t gfp_flags;
	int32_t pid;
	uint16_t cpu;
	uint16_t ran_on; /* CPU that ran the drain */
	uint8_t kind;    /* INFERRED_KIND_* */
	uint8_t order, migratetype;
	uint8_t behind; /* cut: entries that stay before the block */
	uint8_t fields;
	uint8_t alloc_factor, free_factor;
	bool below_high, reclaim_active;
	int32_t high, free_count;
	int32_t pages; /* drained, or on an LRU list */
};

/* Whether the kind is an alloc before its event. */
static inline bool inferred_is_early(int kind)
{
	return kind == INFERRED_KIND_EARLY_ALLOC || kind == INFERRED_KIND_DIRECT_ALLOC;
}

/* Whether the kind is a change of the free lists by compaction. */
static inline bool inferred_is_compaction(int kind)
{
	return kind == INFERRED_KIND_ISOLATED || kind == INFERRED_KIND_CUT ||
	       kind == INFERRED_KIND_CAPTURED;
}

/* Write one row of the table `inferred`. */
void inferred_write(struct output *o, const struct model *m, const struct inferred *row);

/* Rows for a free run, in order. */
struct inferred_rows {
	struct inferred *rows;
	size_t nr, room, next;
};

/*
 * Store the rows of event row `first` and later. -EINVAL for rows with impossible values, or out of
 * order.
 */
int inferred_load(struct inferred_rows *u, const struct model *m,
		  const struct inferred_columns *columns, size_t rows, uint64_t first,
		  struct error *err);

/*
 * Draw another moment for each row with a window, by the seed, the row's number and its page, and
 * sort the rows anew; `*moved` is their number. A moved row has ts 0. No row moves before `first`.
 * -ENOMEM.
 */
int inferred_move(struct inferred_rows *u, uint64_t seed, uint64_t first, uint64_t *moved,
		  struct error *err);

/* The next inferred row to play before row `at` of `event` is played, or NULL. */
static inline const struct inferred *inferred_next(struct inferred_rows *u, uint64_t at)
{
	if (u->next == u->nr || u->rows[u->next].at > at)
		return NULL;
	return &u->rows[u->next++];
}
