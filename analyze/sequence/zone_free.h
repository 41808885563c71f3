/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone_free.h - free pages of each zone at every event that changes them: one pass over a tape.
 *
 * The count of a zone begins at a reading and goes on to the next one. The view zone_free says
 * which events change it. The pass merges three inputs by time: the readings, the rows of `event`,
 * and the rows of `compaction`. At equal times they come in this order.
 */
#pragma once

#include "sequence.h"

/* Which rows a pass finds. Each row has one of these bits. */
enum zone_free_rows {
	ROWS_NONE = 0,          /* only the errors of the readings */
	ROWS_CHANGES = 1 << 0,  /* one for each reading and each event that changes a place */
	ROWS_FAILURES = 1 << 1, /* one for each place and each time at which a request failed */
	ROWS_MOMENTS = 1 << 2,  /* one for each place and each given time */
	/*
	 * Those of ROWS_CHANGES that are readings, that are below `low` or follow such a row,
	 * or that are the lowest of their place between two readings. The last ones come late, and
	 * without before_*. Not together with ROWS_CHANGES.
	 */
	ROWS_LOW = 1 << 3,
};

struct zone_free_input {
	/* Pages of the zones; several ranges may name one place. */
	size_t nr_ranges;
	const uint64_t *range_start;
	const uint64_t *range_end;
	const uint32_t *range_place;
	/* Free pages of a place at a time, sorted by time. */
	size_t nr_readings;
	const uint64_t *reading_ts;
	const int64_t *reading_free;
	const uint32_t *reading_place;
	size_t nr_moments;
	const uint64_t *moments; /* sorted */
	/* Blocks on per-CPU lists at the exact start. */
	size_t nr_listed;
	const uint64_t *listed_pfn;
	const uint8_t *listed_order;
	size_t nr_places;
	const int64_t *low;        /* by place, for ROWS_LOW */
	uint8_t extfrag;           /* index of the label of `kind` */
	uint8_t isolate_freepages; /* indices of labels of compaction's `kind` */
	uint8_t fast_isolate_freepages;
	uint8_t begin;
	uint8_t migratepages;
	const uint8_t *has_lists; /* by order, 256 values: the order has per-CPU lists */
	bool fallback_is_page;    /* a fallback takes a page without alloc_zone_locked */
	bool captures;            /* tasks that compact capture blocks */
	bool exact_start;         /* listed_* has all blocks on lists at the start */
	bool unseen;              /* some targets of compaction have no event */
	unsigned int rows;        /* bits of enum zone_free_rows */
};

/* A batch of `compaction`. */
struct zone_free_compaction {
	size_t nr;
	const uint64_t *ts;
	const int32_t *pid;
	const uint8_t *kind;
	const uint64_t *start_pfn;
	const uint8_t *start_pfn_valid;
	const int64_t *nr_taken;
	const uint8_t *nr_taken_valid;
	const int64_t *nr_migrated;
	const uint8_t *nr_migrated_valid;
};

/*
 * Rows in the order of time. `number` is the reading from which the count goes on, from 1 in the
 * order of the input. before_*: the row before of the same place, if has_before; before_number is 0
 * without one. Rows of ROWS_FAILURES and ROWS_MOMENTS have none. All bitmaps are 0 before.
 */
struct zone_free_out {
	size_t nr; /* rows of earlier calls, which stay */
	size_t room;
	uint8_t *why; /* a bit of enum zone_free_rows */
	uint64_t *ts;
	int64_t *free;
	uint32_t *place;
	uint32_t *number;
	uint32_t *changes; /* the row, and those of its place since the row before that have none */
	uint8_t *reading;  /* bitmap: the row is a reading */
	uint64_t *before_ts;
	int64_t *before_free;
	uint32_t *before_number;
	uint8_t *before_reading; /* bitmap */
	uint8_t *has_before;     /* bitmap */
};

struct zone_free;

/* The input is borrowed until zone_free_close(). `most`: bytes for blocks. -ENOMEM. */
int zone_free_open(struct zone_free **out, struct sequence_kinds kinds,
		   const struct zone_free_input *input, size_t most);
void zone_free_close(struct zone_free *z);

/*
 * The number of rows, with out->nr; -ENOMEM beyond `most`. Ends at the end of a batch, which the
 * caller then replaces, or without room for more rows. A batch without rows is the end of its
 * table.
 */
long zone_free_read(struct zone_free *z, const struct sequence_events *events,
		    const struct zone_free_compaction *compaction, struct zone_free_out *out);

/* Begin at the first row of a new batch. */
void zone_free_next_events(struct zone_free *z);
void zone_free_next_compaction(struct zone_free *z);

/* Whether the batch is used up. */
bool zone_free_wants_events(const struct zone_free *z, const struct sequence_events *events);
bool zone_free_wants_compaction(const struct zone_free *z,
				const struct zone_free_compaction *compaction);

/*
 * At the end of a pass: by number, how many pages the count has too many at the next reading.
 * Without a next reading it is not valid. `locked`: there was an alloc_zone_locked; `counted`: an
 * event changed a place with a reading.
 */
struct zone_free_result {
	const int64_t *errors;
	const uint8_t *has_error; /* bitmap */
	bool locked;
	bool counted;
};

struct zone_free_result zone_free_result(const struct zone_free *z);
