/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_internal.h - functions shared by the files behind serve.h.
 *
 *   serve.c             hands each request to one of them; allocs whose block was taken earlier
 *   serve_state.c       struct serve, made and freed; pages that are freed with others; anomalies
 *   serve_alloc.c       allocs
 *   serve_free.c        frees
 *   serve_contig_free.c contiguous pages that are freed together
 *   serve_boundary.c    refills and drains of PCPs that are the boundary of the tape
 *   serve_huge.c        tries of a fault that asks for a huge page
 *   serve_inferred.c    inferred rows
 *   serve_migration.c   pages that recorded compaction moves
 */
#pragma once

#include "serve.h"

/* Which rows a free leaves in the model's own events. */
enum { ROW_FREE = 1, ROW_FREE_BATCHED = 2, ROW_OF_MOVED = 4 /* compaction moved its page */ };

/* Report a request whose page of the model contradicts the record. */
__attribute__((cold)) void serve_report(struct serve *s, const struct waiting *e, int kind,
					int action);

/* Whether the block of an alloc was taken before its event: by an inferred row, or a capture. */
bool serve_has_block(const struct serve *s, const struct waiting *e);

/* A recorded alloc, as a request. */
struct request serve_asked(const struct serve *s, const struct waiting *e);
/* An alloc; `emit`: its event is written as well. */
void serve_alloc(struct serve *s, const struct waiting *e, bool emit);
/* A try of a fault that asks for a huge page. */
void serve_try(struct serve *s, const struct waiting *e);
/* The block that was captured for an alloc, or NO_FRAME. */
frame_nr serve_take_captured(struct serve *s, const struct waiting *e);
/* Record the result of an alloc: its block, or NO_FRAME. */
void serve_settle(struct serve *s, const struct waiting *e, frame_nr head);

/* The record takes pages off the lists: end the model's own use of them. */
void serve_make_free(struct serve *s, const struct waiting *e);
/* Run a free, and write the rows ROW_*. */
void serve_commit_free(struct serve *s, const struct waiting *e, int rows);
/*
 * A request of a row that frees contiguous pages together. Returns whether it is the free of such a
 * page, and done; ends the CPU's run of such pages if it does not continue it.
 */
bool serve_contig_free(struct serve *s, const struct waiting *e);
/* mm_page_free_batched: the free of a page of a batch, or one whose mm_page_free was lost. */
void serve_free_batched(struct serve *s, struct waiting *e);
/* Write the event of a free that has no effect: of a batch, or undone. */
void serve_emit_free(struct serve *s, const struct waiting *e);

/* A request of a tape of the event set zone: zone_requests.h. */
void serve_boundary(struct serve *s, const struct waiting *e);

/*
 * serve_migration.c: the pages that recorded compaction moves. A page that it moved is freed, and
 * its contents stay in use at one of the free pages that the task took. In the model the freed page
 * may be anywhere. So a page of the recorded pageblock moves in its stead: it takes the target's
 * place, the freed page keeps its own. A pageblock that the record empties becomes empty in the
 * model, and its zone keeps its number of free pages.
 */
/* The task took a free block of a zone. */
void serve_migration_target(struct serve *s, int32_t pid, frame_nr frame, int order);
/* Before a free takes effect: if its page was moved, choose the one in the model; whether it was.
 */
bool serve_migration_free(struct serve *s, const struct waiting *e);
/* The task allocates, so it does not compact any more. */
void serve_migration_end(struct serve *s, int32_t pid);
