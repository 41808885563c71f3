/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamps.h - the state of PCPs and zones that the recorder read at refills and drains: table
 * `stamp`.
 *
 * A stamp stands right before the event that it belongs to: that is the next event of its CPU.
 */
#pragma once

#include "model/model.h"
#include "tables.h"

struct stamp {
	uint64_t at;    /* rows of `event` before it */
	uint32_t later; /* 1 + the next stamp of its CPU; 0: none */
	uint16_t zone;  /* in model->zones */
	uint8_t kind;
	bool below_high, reclaim_active; /* flags of the zone */
	/* The PCP. All are 0 at a drain of other CPUs' PCPs. */
	int32_t count; /* before the refill or drain */
	/* As the refill or drain has set them, before its first page moves. */
	int32_t high, high_min, high_max, batch, free_count;
	uint8_t alloc_factor, free_factor;
	/* Of the zone: its counter of free pages, this CPU's difference, and the boost. */
	int8_t vmstat_diff;
	int32_t boost;
	int32_t counted_free;
};

struct stamps {
	struct stamp *rows;
	size_t nr, room;
	uint32_t *coming; /* [cpu] 1 + its oldest stamp whose event has not run; 0: none */
	uint32_t *last;   /* [cpu] while rows are loaded: 1 + its latest */
};

/*
 * Load the rows of a model's CPUs and zones, from row `first` of `event` on. -EINVAL for rows out
 * of order; -ENOMEM.
 */
int stamps_load(struct stamps *s, const struct model *m, const struct stamp_columns *columns,
		size_t rows, uint64_t first, struct error *err);

/*
 * The latest stamp of a CPU before its event at row `at`, and not before row `since`; NULL: none.
 * The event has not run.
 */
const struct stamp *stamp_of(const struct stamps *s, int cpu, uint64_t since, uint64_t at);

/* The next stamp of a CPU after its event at row `at`, which runs; NULL: none. */
const struct stamp *stamp_after(const struct stamps *s, int cpu, uint64_t at);

/* The event of a CPU at row `at` has run. */
void stamps_ran(struct stamps *s, int cpu, uint64_t at);

/* The first block of a MOVABLE free list after a search of compaction: a row of `list_head`. */
struct list_head_row {
	uint64_t at;
	frame_nr frame; /* or NO_FRAME */
	int32_t pid;
	uint8_t order;
};

struct list_heads {
	struct list_head_row *rows;
	size_t nr, room, next;
};

/* Load the rows from row `first` of `event` on. -ENOMEM. */
int list_heads_load(struct list_heads *h, const struct model *m,
		    const struct list_head_columns *columns, size_t rows, uint64_t first,
		    struct error *err);
