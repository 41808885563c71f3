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
 * traced allocator.
 */
#pragma once

#include "error.h"
#include "instance.h"
#include "spool.h"

#include <stdbool.h>
#include <stdint.h>

struct reader;

struct reader_config {
	struct instance *instance;
	struct spool *spool; /* outlives the reader */
	int cpu;
	int stop;     /* an eventfd, readable once recording is switched off */
	int flush_ms; /* how long an event may stay in the ring */
};

/* The thread starts at once. */
int reader_new(struct reader **out, const struct reader_config *config, struct error *err);

/*
 * Whether the spool has no room at the moment: 0, -EDQUOT (its budget is used up) or
 * -ENOSPC (the file system is). The ring overwrites its oldest events then, and counts them.
 */
int reader_full(const struct reader *reader);

/* A full spool stays full from now on: leave the rest in the ring. */
void reader_give_up(struct reader *reader);

/* Wait until the stopped ring is read to its end. Returns why the reader failed, or 0. */
int reader_join(struct reader *reader, struct error *err);

/* Ends the thread at once if it was not joined. */
void reader_free(struct reader *reader);

/*
 * Every event of this CPU before this time (CLOCK_MONOTONIC, ns) is in the
 * spool. UINT64_MAX once the ring was read to its end, or its reader failed.
 */
uint64_t reader_watermark(const struct reader *reader);
