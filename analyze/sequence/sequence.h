/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequence.h - what an event makes of an earlier one of its page or CPU: one pass over a tape.
 *
 *   struct page_uses   pairs each allocation of a page with the event that ends it
 *   struct lock_runs   runs of events of a CPU under one hold of the zone lock
 *   struct list_demand pages that a CPU took from its lists, minus those it gave back
 *
 * SQL would sort all events by page or CPU: 10 times the time, and memory in proportion to the
 * tape. A pass reads batches of `event` in the tape's order, column by column, and appends rows to
 * the caller's columns. A batch gives at most one row for each of its events. The CPU, the kind and
 * so on stand once for each group of events that have them in common: a pass decides once for each
 * group, as a branch on the kind of an event is guessed wrong half of the time.
 *
 * A validity bitmap is Arrow's; NULL: no value is null.
 */
#pragma once

#include "grouped.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A batch of events; a pass reads only some of the columns. */
struct sequence_events {
	size_t nr;
	size_t nr_groups;
	const uint64_t *ts;
	const int32_t *pid;   /* NULL: not read */
	const uint8_t *flags; /* NULL: not read */
	const uint64_t *pfn;  /* NULL: not read */
	const uint8_t *pfn_valid;
	const uint16_t *group; /* of each event: its place in the columns below */
	const uint16_t *cpu;
	const uint8_t *kind; /* index of the label */
	const uint8_t *page_order;
	const uint8_t *page_order_valid;
	const uint8_t *migratetype;
	const uint8_t *migratetype_valid;
	const uint32_t *gfp_flags;
	const uint8_t *gfp_flags_valid;
	const uint8_t *percpu_refill;
	const uint8_t *percpu_refill_valid;
	const uint8_t *fallback_order;
	const uint8_t *fallback_order_valid;
	const uint8_t *fallback_migratetype;
	const uint8_t *fallback_migratetype_valid;
	const uint8_t *change_ownership;
	const uint8_t *change_ownership_valid;
};

enum { GROUPS_MOST = GROUPED_ROWS_MOST }; /* of a batch: each has a row */

/* Indices of the labels of `kind`, and the events that count: first_ts <= ts < end_ts. */
struct sequence_kinds {
	uint8_t alloc;
	uint8_t free;
	uint8_t free_batched;
	uint8_t alloc_zone_locked;
	uint8_t pcpu_drain;
	uint64_t first_ts;
	uint64_t end_ts;
};

static inline bool is_in_span(const struct sequence_kinds *kinds, uint64_t ts)
{
	return ts >= kinds->first_ts && ts < kinds->end_ts;
}

/*
 * Which allocations page_uses counts: every one, or those of one migratetype and two orders.
 * The pass does not see other allocations: they end no use. `unended`: only the uses that nothing
 * ends have rows.
 */
struct page_use_choice {
	bool every;
	bool unended;
	uint8_t migratetype;
	uint8_t orders[2];
};

/*
 * Rows, in the order of their ends. The columns of the allocation are null for a free without one,
 * until_ts and freed for a page in use. All bitmaps are 0 before.
 */
struct page_use_rows {
	uint64_t *pfn;
	uint64_t *ts;
	uint16_t *cpu;
	int32_t *pid;
	uint8_t *page_order;
	uint8_t *migratetype;
	uint64_t *until_ts;
	uint8_t *begun; /* bitmap: there is an allocation */
	uint8_t *page_order_valid;
	uint8_t *migratetype_valid;
	uint8_t *until_valid;
	uint8_t *freed;        /* bitmap: a free ended it; otherwise an allocation did */
	uint8_t *freed_before; /* bitmap: of a free without an allocation, a free came before */
};

struct page_uses;

/* -ENOMEM. `most` is the largest number of bytes for the pages of the tape. */
int page_uses_new(struct page_uses **out, struct sequence_kinds kinds,
		  struct page_use_choice choice, size_t most);
void page_uses_free(struct page_uses *uses);

/* The number of rows; -ENOMEM beyond `most`. */
long page_uses_read(struct page_uses *uses, const struct sequence_events *events,
		    struct page_use_rows *rows);

/* After the last batch: up to `nr` rows of pages still in use; 0 at the end. */
long page_uses_end(struct page_uses *uses, size_t nr, struct page_use_rows *rows);

enum lock_run_what { RUN_TAKE, RUN_GIVE, RUN_TRACE };

struct lock_run_rows {
	uint8_t *what; /* an enum lock_run_what */
	uint16_t *cpu;
	uint64_t *blocks; /* events of the run */
	uint64_t *from_ts;
	uint64_t *until_ts; /* of its last event */
};

struct lock_runs;

/*
 * Runs of one CPU without another event between: of alloc_zone_locked for a refill (take), of
 * pcpu_drain (give). Of free_batched (trace), each pair of consecutive events is a run.
 */
int lock_runs_new(struct lock_runs **out, struct sequence_kinds kinds);
void lock_runs_free(struct lock_runs *runs);
long lock_runs_read(struct lock_runs *runs, const struct sequence_events *events,
		    struct lock_run_rows *rows);
/* After the last batch: up to `nr` rows of runs that its end ended; 0 at the end. */
long lock_runs_end(struct lock_runs *runs, size_t nr, struct lock_run_rows *rows);

/* A bin is ts / bin_ns. A CPU has one row for each bin with a net demand. */
struct list_demand_rows {
	uint16_t *cpu;
	uint64_t *bin;
	int64_t *pages; /* allocated minus freed */
};

struct list_demand;

/* -ENOMEM. Orders up to 3 count, and `huge_order`. */
int list_demand_new(struct list_demand **out, struct sequence_kinds kinds, uint64_t bin_ns,
		    uint8_t huge_order);
void list_demand_free(struct list_demand *demand);
long list_demand_read(struct list_demand *demand, const struct sequence_events *events,
		      struct list_demand_rows *rows);
/* After the last batch: up to `nr` rows of the last bins; 0 at the end. */
long list_demand_end(struct list_demand *demand, size_t nr, struct list_demand_rows *rows);
