/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - the reader of one CPU's ring buffer.
 *
 * A thread on that CPU takes sub-buffers out of the ring into a spool: full ones
 * when the ring is half full, and five times a second whatever there is, so that
 * the merge of all CPUs can go on. After each round it says how far the spool is
 * complete: the watermark.
 *
 * Sub-buffers are read into memory that is there already. splice() would give
 * and take pages of the very allocator that is traced.
 */
#pragma once

#include "error.h"
#include "instance.h"
#include "spool.h"

#include <stdbool.h>
#include <stdint.h>

struct reader;

/*
 * `stop` is an eventfd that becomes readable when recording was switched off.
 * The reader owns the spool that it makes in `dir`. The thread starts at once.
 */
int reader_new(struct reader **out, struct instance *instance, int cpu, int stop, const char *dir,
	       struct error *err);

/* Wait until the stopped ring is read to its end. Returns why the reader failed, or 0. */
int reader_join(struct reader *reader, struct error *err);

/* Ends the thread at once if it was not joined. */
void reader_free(struct reader *reader);

int reader_cpu(const struct reader *reader);
struct spool *reader_spool(struct reader *reader);

/*
 * Every event of this CPU before this time (CLOCK_MONOTONIC, ns) is in the
 * spool. UINT64_MAX once the ring was read to its end, or its reader failed.
 */
uint64_t reader_watermark(const struct reader *reader);
