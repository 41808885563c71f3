/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - the common part of a trace.dat and a live recording.
 *
 *   struct source   a decoder, and a short queue of full batches between the
 *                   thread that feeds it (the writer) and the one that consumes
 *                   tables (the reader), so that decoding overlaps writing.
 *
 * The writer calls source_add for each record in the tape's order, source_lose
 * for each gap, and source_end once. The reader calls source_read until it returns
 * the end; only then are gaps, rings and the decoder's counts complete.
 *
 * A writer may divide its records into segments: source_read returns the end of each, and
 * source_next begins the next. Gaps, rings and counts are those of the segment.
 */
#pragma once

#include "decode.h"
#include "error.h"

#include <pthread.h>

enum { SOURCE_QUEUE = 4 }; /* items that may wait for the reader */

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer: many small files */
#define SMALL_BATCHES true
#else
#define SMALL_BATCHES false
#endif

enum { SOURCE_ROWS = SMALL_BATCHES ? 64 : 1 << 17 }; /* in a batch of `event` */

#define UNKNOWN_COUNT UINT64_MAX /* a null of the tables `lost` and `ring` */

/* A row of the table `lost`. */
struct gap {
	int cpu;
	uint64_t from_ts, to_ts, events; /* UNKNOWN_COUNT where null */
};

/* A row of the table `ring`. */
struct ring {
	int cpu;
	const char *instance; /* owned by the writer; "" is the top instance */
	uint64_t read;
	uint64_t overrun, commit_overrun, dropped, bytes, first_ts, last_ts; /* or UNKNOWN_COUNT */
	uint64_t spool_peak, spool_full;                                     /* bytes, ns */
};

/* Nothing of the ring was read, and no count of it is known. */
static inline struct ring ring_unread(int cpu, const char *instance)
{
	const uint64_t no = UNKNOWN_COUNT;

	return (struct ring){cpu, instance, 0, no, no, no, no, no, no, no, no};
}

/*
 * The writer's state at a place in its input, with all counts, in the writer's own format. It
 * follows the rows before that place.
 */
struct checkpoint {
	size_t nr;
	uint64_t words[];
};

/*
 * An item for the reader: rows of a table or, if `table` is NULL, a checkpoint, which the reader
 * frees.
 */
struct item {
	const struct table *table;
	struct ArrowArray array;
	struct checkpoint *checkpoint;
};

struct source {
	struct tep_handle *tep;
	struct decoder *decoder; /* NULL until the owner makes it */
	struct gap *gaps;
	size_t nr_gaps;
	struct ring *rings; /* `nr_rings` of them, made and freed by the owner */
	size_t nr_rings;
	uint64_t bad;      /* pages, sub-buffers and lines that the writer left out as damaged */
	uint64_t progress; /* atomic: decoded share of the input, in units of 1 / (1 << 20) */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct item queue[SOURCE_QUEUE];
	int head, waiting;
	bool cut; /* the writer waits at the end of a segment */
	bool ended, cancelled;
	int ret; /* error of the writer, after its end */
	struct error err;
};

void source_init(struct source *s);

/* Frees the queue, the gaps and the decoder. No thread may use `s` any more. */
void source_destroy(struct source *s);

/*
 * The writer's side. source_add waits while the queue is full. Both return -ECANCELED after
 * source_cancel, or -ENOMEM.
 */
int source_add(struct source *s, int cpu, uint64_t ts, const void *record, int size,
	       struct error *err);
int source_lose(struct source *s, struct gap gap, struct error *err);

/* Hand over the batches that are not full as well. */
int source_flush(struct source *s, struct error *err);

/* Hand over a checkpoint, which the source owns from now on. */
int source_checkpoint(struct source *s, struct checkpoint *checkpoint, struct error *err);

/*
 * End the segment here and wait until the reader continues; then the counts start at 0. The owner's
 * rings must be complete.
 */
int source_cut(struct source *s, struct error *err);

/* No more records. A negative `ret` and the message in `err` go to the reader. */
void source_end(struct source *s, int ret, const struct error *err);

/*
 * The reader's side. source_read waits for an item: 1 with *out set
 * (release its array), 0 at the end of a segment, -EAGAIN if there is neither for `timeout_ms`, or
 * the writer's error. After source_cancel the writer's next call that would wait returns
 * -ECANCELED.
 */
int source_read(struct source *s, int timeout_ms, struct item *out, struct error *err);
void source_cancel(struct source *s);

/* At the end of a segment: begin the next one, or return false after the last. */
bool source_next(struct source *s);

/* What was left out as damaged, with the decoder's records (also in `lost`); complete at the end.
 */
uint64_t source_bad_records(const struct source *s);
