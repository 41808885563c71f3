/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - the reader of one CPU's ring buffer.
 *
 * A thread on that CPU takes sub-buffers out of the ring into a spool: full ones
 * when the ring is half full, and partial ones at intervals, so that the merge of all CPUs
 * makes progress. After each round it publishes the time up to which the spool is complete:
 * the watermark.
 *
 * Sub-buffers are read into existing memory. splice() would allocate and free pages of the
 * traced allocator. The thread never writes to a disk: see writer.h.
 */
#pragma once

#include "error.h"
#include "ring/instance.h"
#include "spool.h"
#include "writer.h"

#include <stdint.h>

struct reader;

struct reader_config {
	struct instance *instance;
	struct spool *spool;   /* outlives the reader, as does the writer */
	struct writer *writer; /* of that spool */
	int cpu;
	int stop;     /* an eventfd, readable after recording is switched off */
	int flush_ms; /* how long an event may stay in the ring */
};

/* The thread starts at once. */
int reader_new(struct reader **out, const struct reader_config *config, struct error *err);

/*
 * State of the spool: 0 if it has room or will have some soon, -EDQUOT (budget used up) or -ENOSPC
 * (file system full). Without room the ring overwrites its oldest events, and counts them.
 */
int reader_full(const struct reader *reader);

/* From now on a full spool stays full: leave the rest in the ring. */
void reader_give_up(struct reader *reader);

/* Wait until the stopped ring is read to its end. Returns 0 or the reader's error. */
int reader_join(struct reader *reader, struct error *err);

/* Free the reader; a thread not joined ends at once. */
void reader_free(struct reader *reader);

/*
 * Every event of this CPU before this time (CLOCK_MONOTONIC, ns) is in the spool. UINT64_MAX after
 * the end of the ring or a failure of its reader.
 */
uint64_t reader_watermark(const struct reader *reader);
