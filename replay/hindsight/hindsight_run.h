/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hindsight_run.h - the state of one run of hindsight, shared by its files.
 *
 *   hindsight.c     the interface; passes rows on
 *   first_events.c  the preview: the first event of every page, and the types of pageblocks
 *   guess_types.c   the types of the other pageblocks
 *   place_counts.c  places for the free blocks of a snapshot that has only their numbers
 *   start_chunks.c  the free chunks at the start, and when each of them left its list
 *   start_pcps.c    the entries of PCP lists at the start, and when each of them left
 *   start_tuning.c  the tuning of PCPs at the start: the sizes of their first refills and drains
 *   start_rows.c    the rows of the start
 */
#pragma once

#include "hindsight.h"
#include "run/rules.h"
#include "tape/next_event.h"

enum { NEVER = UINT32_MAX }; /* a row of `event`, of which only the low 32 bits are stored */

/* One row of `event`. */
struct seen {
	low_row row;
	frame_nr frame;
	int32_t pid;
	uint16_t cpu;
	uint8_t kind, order;
	uint8_t migratetype;
	uint8_t fallback_order, fallback_migratetype; /* of alloc_extfrag */
	bool owner;
};

/*
 * Where the first event of a page shows the page at the start. FIRST_FREED: used, or on a free list
 * from which compaction took it; the snapshot does not say which.
 */
enum first_place { FIRST_UNSEEN, FIRST_FREE, FIRST_PCP, FIRST_USED, FIRST_FREED };

struct first_event {
	uint8_t place;
	bool entry : 1;      /* a PCP entry of the start begins here, which has not left so far */
	bool freed : 1;      /* the last event of the page so far was a free */
	bool pending : 1;    /* in the rows of a drain_run */
	uint16_t home;       /* CPU on whose PCP events put the page last, + 1; 0: unknown */
	uint8_t migratetype; /* of the list there */
};

/* A free chunk at the start, by the frame of its first page. */
struct start_chunk {
	uint32_t left;       /* row at which it left its list, or NEVER */
	uint8_t order;       /* + 1; 0: none begins here */
	uint8_t migratetype; /* of its list */
	bool listed;         /* an event shows its list: it left from the head */
};

/* How well the type of a pageblock at the start is known: not, from a free list, from a free. */
enum evidence { GUESSED, FROM_LIST, FROM_BLOCK };

struct start_block {
	low_row row;    /* of that evidence */
	uint32_t moved; /* row at which its chunks last moved to the lists of another type, or NEVER
			 */
	uint16_t nr_movable, cpu;
	uint8_t evidence, migratetype;
	bool listed, has_movable, claimed;
	bool named; /* place_counts.c: its type is that of an event, or a guess from the counts */
};

/* An entry of a PCP list at the start. */
struct start_entry {
	frame_nr frame;
	low_row row;
	uint32_t list; /* list_number() */
	uint8_t order;
	bool drained; /* left from the tail */
};

/*
 * Drains in a row by one task on one CPU: of the CPU's own PCPs, or of those of all CPUs, one after
 * the other.
 */
struct drain_run {
	struct seen *rows; /* whose CPU is not known yet */
	size_t nr, room;
	int32_t pid;
	bool remote; /* of all CPUs */
	bool ran;    /* a block was handled: its CPU and zone are `home` and `zone` */
	int home, zone;
	uint32_t list;      /* of that block: list_number(), or NEVER */
	bool after_free;    /* a free came before it: it is an overflow of the CPU's own PCP */
	bool batched;       /* the last event before it was a free_batched */
	uint8_t free_order; /* of the last free on the CPU */
	int pages, last;    /* handled so far, and those of the last block */
	uint32_t pcp;       /* of all of them, or NEVER */
	int64_t held;       /* pages of that PCP before the first */
};

enum {
	/* More halvings leave nothing of a count of batch << pcp_scale_max pages. */
	HALVED_MOST = 16,
	FACTORS = 8 /* more than any pcp_scale_max */
};

/* An alloc_factor at the start that explains every refill so far, and what it would be by now. */
struct factor_candidate {
	bool fits;
	uint8_t alloc_factor;
	int32_t high; /* of the PCP */
};

/* What the refills and overflows of a PCP show of its tuning at the start. */
struct start_tuning {
	bool refilled; /* refills show nothing more of alloc_factor */
	bool drained;  /* the same of overflows, and of free_count or free_factor */
	bool has_alloc_factor, has_free;
	bool touched;          /* an event, or a drain of a tick, has changed it */
	uint8_t ticks, expire; /* ticks before that; of the one that drained it, or 0 */
	uint8_t free_factor;
	struct factor_candidate factors[FACTORS]; /* [alloc_factor] */
	int32_t least, most; /* every free_count that explains the overflows so far */
	int32_t waiting;     /* pages of frees that may be parts of a batch in progress */
	bool batching;       /* pages of that batch have been put there */
	uint8_t nr_halved;   /* allocs, to HALVED_MOST: each halves free_count and free_factor */
	int freed[HALVED_MOST + 1]; /* [allocs before] pages of the frees */
};

/* A refill in progress on a CPU. */
struct refill {
	int nr; /* pages so far; 0: none */
	uint16_t pcp;
	uint32_t last; /* frame of the last page */
	int64_t held;  /* pages of the PCP before it */
};

/* A row of `pcp` of the snapshot. */
struct given_pcp {
	bool listed, limits; /* it has high_min and high_max */
	uint32_t count, high, batch, high_min, high_max;
};

struct hindsight {
	struct run run;
	struct model *m; /* once started */
	bool previewed;  /* the start is built */
	uint64_t nr_previewed;
	uint32_t *last_rows; /* [cpu] row + 1 of its last event */
	uint8_t *last_kinds; /* [cpu] its kind */
	struct next_events next_events;
	struct first_event *first;  /* [frame] */
	struct start_chunk *chunks; /* [frame] */
	struct start_block *blocks; /* [pageblock] */
	struct start_entry *entries;
	size_t nr_entries, room_entries;
	struct drain_run *drains; /* [cpu] */
	uint32_t *counts;         /* [pcp] pages by the snapshot, without those of known entries */
	int64_t *held;            /* [pcp] pages by the events so far */
	struct given_pcp *given;  /* [pcp] */
	struct start_tuning *tunings; /* [pcp] */
	bool *ticked;                 /* [cpu] a tick was the last but drains */
	struct refill *refills;       /* [cpu] */
	uint32_t *emptied;            /* [list_number()] row by which it was empty once, or NEVER */
	/*
	 * [zone][order][migratetype] free blocks by the snapshot; after guess_types(), less those
	 * on the lists of their pageblocks' types
	 */
	int64_t (*free_areas)[NR_PAGE_ORDERS][NR_MIGRATETYPE];
	bool areas_by_type;
	bool counts_only;                     /* the snapshot does not show which pages are free */
	int64_t (*nr_blocks)[NR_MIGRATETYPE]; /* [zone][migratetype] pageblocks by the snapshot */
	struct output *free_block, *pcp_page, *pageblock, *pcp;
	struct hindsight_coverage coverage;
};

static inline uint32_t list_number(const struct pcp *pcp, int list)
{
	return pcp->number * (uint32_t)MAX_PCP_LISTS + (uint32_t)list;
}

/* first_events.c: note what a row shows about the start. */
void note_first(struct hindsight *h, const struct seen *s);

/* guess_types.c: types of the pageblocks that no event shows, from the counts of free blocks. */
void guess_types(struct hindsight *h);

/* place_counts.c: free blocks and types of pageblocks from their numbers, with counts_only. */
void place_counts(struct hindsight *h);

/* start_chunks.c: the start, after the last row of the preview; then each row in turn. */
void build_start(struct hindsight *h);
void follow_chunks(struct hindsight *h, const struct seen *s);

/* start_pcps.c: the same for the PCPs; after the last row, the end of every run. -ENOMEM. */
int follow_pcps(struct hindsight *h, const struct seen *s, struct error *err);
int end_drains(struct hindsight *h, int cpu, struct error *err);

/*
 * start_tuning.c: before the first row; after follow_pcps() of the same row; a refill ends; the
 * ticks of the vmstat worker before a row; an overflow of a PCP has drained pages.
 */
void begin_tuning(struct hindsight *h);
void follow_tuning(struct hindsight *h, const struct seen *s);
void end_refill(struct hindsight *h, int cpu);
void follow_ticks(struct hindsight *h, uint64_t row);
void note_overflow(struct hindsight *h, const struct drain_run *d);
/* After the last row: the likeliest of those that explain every event, where one was shown. */
uint8_t start_alloc_factor(const struct start_tuning *t);
/* The likely ones, the likeliest first; their number. */
int start_free_counts(const struct hindsight *h, int pcp, uint32_t counts[HINDSIGHT_COUNTS]);

/* start_rows.c: write the rows of the start. -ENOMEM. */
int write_start(struct hindsight *h, struct error *err);
