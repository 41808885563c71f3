/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_writer.h - the tables of one snapshot, being filled. */
#pragma once

#include "snapshot_blocks.h"
#include "snapshot_rows.h"

#include <assert.h>

enum table_nr {
	TABLE_ZONE,
	TABLE_FREE_AREA,
	TABLE_BLOCK_COUNT,
	TABLE_PCP,
	TABLE_FREE_BLOCK,
	TABLE_PCP_PAGE,
	TABLE_PAGEBLOCK,
};

struct writer {
	const struct snapshot_images *im;
	uint16_t snapshot;
	struct snapshot_zone *zones;
	struct snapshot_result *out;
};

#define COLUMNS(w, nr, name) ((struct name##_columns *)(w)->out->tables[nr]->slots)

static inline size_t next_row(struct writer *w, enum table_nr nr)
{
	struct batch *batch = w->out->tables[nr];

	assert(batch->nr < batch->capacity);
	return batch->nr++;
}

/* The columns of a row that say when, and of which zone. */
#define SET_PLACE(w, z, to, row)                                                                   \
	do {                                                                                       \
		(to)->snapshot[row] = (w)->snapshot;                                               \
		(to)->ts[row] = (w)->out->cut_ns;                                                  \
		(to)->node[row] = (w)->zones[z].node;                                              \
		(to)->zone[row] = (w)->zones[z].zone;                                              \
	} while (0)

static inline void check(uint64_t *done, uint64_t *wrong, bool ok)
{
	++*done;
	*wrong += !ok;
}

/* From 6.10 on a free page is on the list of its pageblock's type (account_freepages). */
static inline bool lists_follow_blocks(const struct kernel_layout *l)
{
	return l->zone.nr_free_highatomic.size > 0;
}

/* Rows of free_block and free_area of zone z, with checks. Returns free pages. */
uint64_t write_free_lists(struct writer *w, uint32_t z);

/* Rows of pcp_page of one CPU's PCP. */
void write_pcp_pages(struct writer *w, uint32_t z, uint32_t cpu);

/* Rows of pageblock and block_count of zone z. */
void write_blocks(struct writer *w, uint32_t z);
