/* SPDX-License-Identifier: Apache-2.0 */
/*
 * untold.h - what the kernel did that no event told, or told late: the table untold.
 *
 * validate infers it where the tape contradicts the model, and writes it down. A free run
 * has no such contradiction to infer from, so it takes the rows as further requests:
 * each happens before the row of `event` that it names.
 */
#pragma once

#include "model.h"
#include "output.h"
#include "tables.h"

/* Which of its columns a row has: those of tuned; and `pages`, of drain as well. */
enum {
	TELLS_ALLOC_FACTOR = 1,
	TELLS_BELOW_HIGH = 2,
	TELLS_HIGH = 4,
	TELLS_FREE_COUNT = 8,
	TELLS_FREE_FACTOR = 16,
	TELLS_RECLAIM_ACTIVE = 32,
	TELLS_PAGES = 64,
};

struct untold {
	uint64_t at, ts;
	uint64_t told_at; /* early_alloc, direct_alloc: row of its event; else UINT64_MAX */
	uint32_t frame, gfp_flags;
	int32_t pid;
	uint16_t cpu;
	uint8_t kind; /* UNTOLD_KIND_* */
	uint8_t order, migratetype;
	uint8_t behind; /* cut: so many entries stay before the block */
	uint8_t tells;
	uint8_t alloc_factor, free_factor;
	bool below_high, reclaim_active;
	int32_t high, free_count;
	int32_t pages; /* drained */
};

/* Whether it is an alloc that happened before its event. */
static inline bool untold_is_early(int kind)
{
	return kind == UNTOLD_KIND_EARLY_ALLOC || kind == UNTOLD_KIND_DIRECT_ALLOC;
}

/* Whether it is what compaction did to the free lists. */
static inline bool untold_is_compaction(int kind)
{
	return kind == UNTOLD_KIND_ISOLATED || kind == UNTOLD_KIND_CUT ||
	       kind == UNTOLD_KIND_CAPTURED;
}

/* Write one row to a table of untold. */
void untold_write(struct output *o, const struct model *m, const struct untold *row);

/* Rows for a free run, in order. */
struct untolds {
	struct untold *rows;
	size_t nr, room, next;
};

/*
 * Keep the rows; those before row `first` of `event` are over. -EINVAL for rows that no
 * model could take, or that go back in time.
 */
int untolds_load(struct untolds *u, const struct model *m, const struct untold_columns *columns,
		 size_t rows, uint64_t first, struct error *err);
void untolds_free(struct untolds *u);

/* The next row that happened before row `at` of `event`, or NULL. */
static inline const struct untold *untolds_next(struct untolds *u, uint64_t at)
{
	if (u->next == u->nr || u->rows[u->next].at > at)
		return NULL;
	return &u->rows[u->next++];
}
