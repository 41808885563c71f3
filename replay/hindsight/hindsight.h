/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hindsight.h - builds the allocator's state at the start of a tape from its later events.
 *
 * A snapshot from /proc lacks the order of the free lists, the pages of the PCPs, and the types of
 * pageblocks. Later events prove much of it:
 *
 *   free pages   The first event of a page shows where it was: on a free list
 *                (mm_page_alloc_zone_locked, mm_page_alloc_extfrag), on a PCP list (mm_page_alloc
 *                or mm_page_pcpu_drain without an earlier event), or in use (mm_page_free). Pages
 *                without an event are free if the snapshot says so.
 *                Without pages in the snapshot, its numbers of free blocks are placed on pages
 *                that no event shows in use: guesses (place_counts.c).
 *   chunks       Free buddies always merge, so the set of free pages gives the chunks.
 *   list order   Allocations take from the head of a list. So the chunks stood in the order in
 *                which they left. A chunk that never left stands behind all others. One that merged
 *                or moved stood behind those that left before; at the tail if the kernel may have
 *                put it there.
 *   PCP lists    Allocations take from the head, drains from the tail. Entries between them that
 *                no event shows are used pages without any event.
 *   PCP tuning   The sizes of a PCP's refills show its alloc_factor, those of its overflows its
 *                free_count, that of the first its free_factor; a drain of an idle PCP of another
 *                node's zone shows how many ticks it had left.
 *   pageblocks   The first list that a page of the block was seen on shows its type.
 *
 * Read all rows of `event` twice: first hindsight_preview(), then hindsight_feed(). The rows that
 * hindsight_read() returns make an exact snapshot 0: free_block, pcp_page, pageblock, and pcp with
 * the columns of the tuning that events show.
 */
#pragma once

#include "run/run.h"

struct hindsight;

/* Of the state at the start: all entries, and those whose place or type events prove. */
struct proven {
	uint64_t nr, proven;
};
struct hindsight_coverage {
	struct proven free_blocks; /* proven: it left its list at a known row */
	struct proven free_pages;  /* the same in pages */
	struct proven pcp_pages;   /* proven: an event shows the page on the list */
	struct proven pageblocks;  /* proven: an event shows the type */
	uint64_t guessed;          /* free blocks of which the snapshot has only the number,
				      at places without an event */
	uint64_t contradictions;   /* pages where the snapshot and the first event disagree */
};

int hindsight_new(struct hindsight **out, const struct run_config *config, struct error *err);
void hindsight_free(struct hindsight *h);

/* Load rows of one table: see load_rows(). */
int hindsight_load(struct hindsight *h, const char *table, const struct ArrowSchema *schema,
		   const struct ArrowArray *array, struct error *err);

/* The batches of `event` in tape order, the first time; `nr_rows` of all batches. */
int hindsight_preview(struct hindsight *h, uint64_t nr_rows, const struct ArrowSchema *schema,
		      const struct ArrowArray *array, struct error *err);
/* The same batches again. */
int hindsight_feed(struct hindsight *h, const struct ArrowSchema *schema,
		   const struct ArrowArray *array, struct error *err);
/* Write the rows of the start. */
int hindsight_finish(struct hindsight *h, struct error *err);

/* A finished batch of an output table, or NULL. */
struct batch *hindsight_read(struct hindsight *h);

/*
 * After hindsight_finish(): the likely values of free_count in a row of `pcp`, the likeliest first,
 * which the row has. Returns their number: 0 if events show none, -1 beyond the last row.
 */
enum { HINDSIGHT_COUNTS = 16 };
int hindsight_free_counts(const struct hindsight *h, size_t row, uint32_t counts[HINDSIGHT_COUNTS]);
const struct hindsight_coverage *hindsight_coverage(const struct hindsight *h);
