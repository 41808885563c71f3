/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.h - what compaction did to the free lists, from the compaction table.
 *
 * Its free scanner takes pages off the lists and no page event tells: but its own events
 * say from which range, and how many. Its quick search takes one chunk and cuts the list
 * there like a deck of cards.
 */
#pragma once

#include "model.h"

struct compact_row {
	uint64_t at;
	uint64_t start_pfn, end_pfn; /* of the range scanned */
	int64_t nr_scanned, nr_taken;
	int32_t pid;
	uint8_t kind;
};

struct compactions {
	struct compact_row *rows;
	size_t nr, room, next;
};

/* Keep the rows from row `first` of `event` on that tell of free pages and migrations. */
int compactions_load(struct compactions *c, const struct compaction_columns *columns, size_t rows,
		     uint64_t first, struct error *err);
void compactions_free(struct compactions *c);

/* The next row that was before row `at` of `event`, or NULL. */
static inline const struct compact_row *compactions_next(struct compactions *c, uint64_t at)
{
	if (c->next == c->nr || c->rows[c->next].at > at)
		return NULL;
	return &c->rows[c->next++];
}

/*
 * A free chunk leaves its list, and is a used block; most of a pageblock is MOVABLE from then
 * on (__isolate_free_page, 2.6.35 to 6.18).
 */
void compact_take(struct model *m, uint32_t head);

/* Who hears of the chunks that compact_isolate() takes, while they are still free. */
struct compact_listener {
	void (*taking)(void *self, uint32_t head);
	void *self;
};

/*
 * The pages of a compact_isolate_freepages or a fast_isolate_freepages leave the free lists
 * (isolate_freepages_block, fast_isolate_freepages, 5.1 to 6.18); `mark` is what frame.list
 * of their heads becomes. Returns the pages found: nr_taken if the model has them all.
 */
int64_t compact_isolate(struct model *m, const struct compact_row *row, int mark,
			const struct compact_listener *listener);
