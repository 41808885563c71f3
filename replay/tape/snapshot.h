/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - reads and writes the model's state as snapshot tables.
 */
#pragma once

#include "model/machine.h"

/* Specs of the populated zones of snapshot 0, appended to `specs`; -E2BIG over `room`. */
int snapshot_zones(struct zone_spec *specs, int *nr, int room, const struct zone_columns *columns,
		   size_t rows, struct error *err);

/*
 * Rows of snapshot 0 into a fresh model. `recorded` is the row of the tape's kernel. The model
 * takes over the recorded sizes of PCPs if both rows size PCPs the same way.
 */
int snapshot_load_pcp(struct model *m, const struct kernel *recorded,
		      const struct pcp_columns *columns, size_t rows, struct error *err);
int snapshot_load_pageblock(struct model *m, const struct pageblock_columns *columns, size_t rows,
			    struct error *err);
int snapshot_load_free_block(struct model *m, const struct free_block_columns *columns, size_t rows,
			     struct error *err);
int snapshot_load_pcp_page(struct model *m, const struct pcp_page_columns *columns, size_t rows,
			   struct error *err);
int snapshot_load_block_guess(struct model *m, const struct block_guess_columns *columns,
			      size_t rows, struct error *err);

/*
 * After the last row: adapt the free lists to the rules of the model's row. Lists from free_block
 * keep their order and type if the row allows it. Each block from block_guess goes to its
 * pageblock's list.
 */
void snapshot_complete(struct model *m);

/* Output tables of the end state, in this order; those of pages and pageblocks are last. */
enum {
	END_ZONE,
	END_PCP,
	END_FREE_AREA,
	END_BLOCK_COUNT,
	END_PAGEBLOCK,
	END_FREE_BLOCK,
	END_PCP_PAGE,
	NR_END,
	NR_END_COUNTED = END_PAGEBLOCK, /* without these */
};
extern const struct table *const end_tables[NR_END];

/* Write the model's state as snapshot 1, read at `ts`. The last tables may be NULL: not written. */
void snapshot_write(const struct model *m, struct output *const outputs[NR_END], uint64_t ts);

/*
 * Begin a row of a snapshot table: row `i` of `columns`, with the columns that all these tables
 * have. `of` is the zone.
 */
#define BEGIN_SNAPSHOT_ROW(output, number, at, of)                                                 \
	size_t i = output_row(output, &columns);                                                   \
	columns->snapshot[i] = (number);                                                           \
	columns->ts[i] = (at);                                                                     \
	columns->node[i] = (of)->node;                                                             \
	columns->zone[i] = (of)->type;
