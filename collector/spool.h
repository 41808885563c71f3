/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h - a queue of one ring's sub-buffers between its reader and the decoder.
 *
 * First in, first out. Up to `slots` sub-buffers stay in memory; while the decoder is further
 * behind, newer ones go to a file. A recorder of page allocation should allocate no pages: the
 * memory is faulted in at the start, and the file is used only if the decoder falls behind.
 *
 * A spool may outlive its recorder. Its memory is a shared mapping of a file, so data taken out of
 * the ring survives a killed recorder (but not a power failure). A popped sub-buffer stays until it
 * is released. spool_open reads the spool of a former recorder.
 *
 * One thread writes, one reads, and one (maybe the reader) releases, without locks.
 *
 * On disk, in the directory of all spools, for each CPU:
 *
 *   cpuN        a page with struct spool_header, `slots` sub-buffers of `slot_bytes` each
 *               (number n is in slot n % slots), and one more for a sub-buffer on its way to the
 * other file cpuN.more   the overflow: number n is at (n - file_base) * slot_bytes; holes where it
 *               was released
 *
 * Byte order and word size are those of the machine that wrote it.
 */
#pragma once

#include "error.h"
#include "instance.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

/* The disk space of all spools of a recording. */
struct spool_budget {
	uint64_t max; /* bytes of overflow; 0: no limit */
	_Atomic uint64_t used;
};

struct spool_config {
	const char *dir;
	int cpu;
	size_t slot_bytes; /* a multiple of 4096 */
	size_t slots;
	struct spool_budget *budget;
	bool keep; /* the files have names, and popped sub-buffers stay until released */
};

/* Sub-buffers taken out of memory and of the overflow: a place in the queue. */
struct spool_place {
	uint64_t memory, file;
};

/* The result of a past recording. */
struct spool_past {
	const char
		*ended; /* how it ended; "" if its recorder was killed, then `counts` is unknown */
	struct ring_stats counts; /* of its ring, at the end */
	bool cut;                 /* its last sub-buffers are missing from the file */
};

/* A spool's state, without reading it. */
struct spool_state {
	uint64_t waiting; /* bytes */
	char ended[64];   /* as in spool_past */
};

/* How full a spool was, for the table `spool`. */
struct spool_load {
	uint64_t peak_bytes; /* most bytes that waited */
	uint64_t full_ns;    /* time that the ring's reader waited for room */
};

/* -ENOMEM, -ENOSPC, -EEXIST, or the error of making a file in the directory. */
int spool_new(struct spool **out, const struct spool_config *config, struct error *err);

/*
 * Open one CPU's spool of a former recorder for reading: all sub-buffers not released, including
 * one that the killed reader was taking. -ENOENT, -EBADMSG (not a spool, of another version or
 * machine, damaged).
 */
int spool_open(struct spool **out, const char *dir, int cpu, struct error *err);

/* The state of one CPU's stored spool; the recording may still run. */
int spool_look(const char *dir, int cpu, struct spool_state *out, struct error *err);

/* Free the spool; named files remain. */
void spool_free(struct spool *spool);

/* Writer: the place for the next sub-buffer, slot_bytes of room. */
void *spool_slot(struct spool *spool);

/*
 * Writer: hand over that sub-buffer with `used` valid bytes. On -ENOSPC (file system full) and
 * -EDQUOT (budget used up) nothing was handed over; try again.
 */
int spool_push(struct spool *spool, size_t used, struct error *err);

/* Writer: add `ns` to its waiting time. */
void spool_waited(struct spool *spool, uint64_t ns);

/* Reader: 1 and the oldest sub-buffer, valid until the next call; or 0, or -errno. */
int spool_pop(struct spool *spool, const void **subbuf, struct error *err);

/* Reader: the place of the last popped sub-buffer, or of the next one if `next`. */
struct spool_place spool_place(const struct spool *spool, bool next);

/* Continue at a place of the former recorder. -EBADMSG if the spool lacks that place. */
int spool_seek(struct spool *spool, struct spool_place place, struct error *err);

/* Free everything before that place. */
void spool_release(struct spool *spool, struct spool_place place);

/* Store how the recording ended, for spool_past. */
void spool_end(struct spool *spool, const char *how, const struct ring_stats *counts);

struct spool_past spool_past(const struct spool *spool);
struct spool_load spool_load(const struct spool *spool);
size_t spool_slot_bytes(const struct spool *spool);
size_t spool_slots(const struct spool *spool);

/* Sub-buffers written and read so far. */
void spool_progress(const struct spool *spool, uint64_t *written, uint64_t *read);
