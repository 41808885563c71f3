/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h - sub-buffers of one ring on their way from its reader to the decoder.
 *
 * A queue, first in first out. Up to `slots` sub-buffers stay in memory, and while the
 * decoder is further behind, newer ones go to a file. A recorder that traces page
 * allocation should allocate no pages: memory is faulted in at the start, and the file
 * is not touched while the decoder keeps up.
 *
 * A spool may outlive its recorder. Its memory is then a shared mapping of a file, so
 * that a killed recorder loses nothing that it took out of the ring (a machine that loses
 * power does); what was popped stays until it is released. spool_open reads what was left.
 *
 * One thread writes, one reads, one releases (or the reader), without locks.
 *
 * On disk, in the directory of all spools, for each CPU:
 *
 *   cpuN        a page with struct spool_header, `slots` sub-buffers of `slot_bytes` each
 *               (number n is in slot n % slots), and one more, of the sub-buffer on its way
 *               to the other file
 *   cpuN.more   the overflow: number n is at (n - file_base) * slot_bytes; holes where it
 *               was released
 *
 * All in the byte order and with the word size of the machine that wrote it.
 */
#pragma once

#include "error.h"
#include "instance.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

/* What all spools of a recording may take of the disk. */
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
	bool keep; /* the files have names, and what was popped is kept until released */
};

/* Sub-buffers taken out of memory and of the overflow: a place in the queue. */
struct spool_place {
	uint64_t memory, file;
};

/* What a spool says of a recording that is over. */
struct spool_past {
	const char *ended;        /* how; "" if its recorder was killed, then the next is unknown */
	struct ring_stats counts; /* of its ring, at the end */
};

/* What can be seen of a spool without reading it. */
struct spool_state {
	uint64_t waiting; /* bytes */
	char ended[64];   /* as in spool_past */
};

/* How full it was: for the table `spool`. */
struct spool_load {
	uint64_t peak_bytes; /* most that waited */
	uint64_t full_ns;    /* time for which the reader could not go on */
};

/* -ENOMEM, -ENOSPC, -EEXIST, or why no file can be made in the directory. */
int spool_new(struct spool **out, const struct spool_config *config, struct error *err);

/*
 * What a recorder left of one CPU, for reading: all that is not released, and the one
 * sub-buffer that its reader may have had in hands. -ENOENT, or -EBADMSG in words: not a
 * spool, of another version or machine, damaged.
 */
int spool_open(struct spool **out, const char *dir, int cpu, struct error *err);

/* Look at what is kept of one CPU, of a recording that is over or not. */
int spool_look(const char *dir, int cpu, struct spool_state *out, struct error *err);

/* The files stay if they have names. */
void spool_free(struct spool *spool);

/* Writer: where to put the next sub-buffer, slot_bytes of room. */
void *spool_slot(struct spool *spool);

/*
 * Writer: hand over what was put there, of which the first `used` bytes matter.
 * -ENOSPC (the file system is full), -EDQUOT (the budget is): nothing was handed over,
 * try again later.
 */
int spool_push(struct spool *spool, size_t used, struct error *err);

/* Writer: for that long it had to wait. */
void spool_waited(struct spool *spool, uint64_t ns);

/* Reader: 1 and the oldest sub-buffer, valid until the next call; or 0, or -errno. */
int spool_pop(struct spool *spool, const void **subbuf, struct error *err);

/* Reader: where the sub-buffer stands that was popped last, or the next one if `next`. */
struct spool_place spool_place(const struct spool *spool, bool next);

/* Go on at a place that was asked for before the recorder ended. -EBADMSG if it is not there. */
int spool_seek(struct spool *spool, struct spool_place place, struct error *err);

/* What is before that place is not needed any more. */
void spool_release(struct spool *spool, struct spool_place place);

/* The recording is over: say how, for spool_past. */
void spool_end(struct spool *spool, const char *how, const struct ring_stats *counts);

struct spool_past spool_past(const struct spool *spool);
struct spool_load spool_load(const struct spool *spool);
size_t spool_slot_bytes(const struct spool *spool);
size_t spool_slots(const struct spool *spool);

/* Sub-buffers written and read so far. */
void spool_progress(const struct spool *spool, uint64_t *written, uint64_t *read);
