/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h - a queue of one ring's sub-buffers between its reader and the decoder.
 *
 *   ring reader -> memory -----------------> decoder
 *                    '-> spool_store -> file --'
 *
 * First in, first out; sub-buffers are numbered from 0. The ring's reader only fills memory, which
 * has `slots` slots. While the decoder is behind, a third thread moves the oldest sub-buffers from
 * memory to a file, many in one write. So everything in the file is older than everything in
 * memory, and a slow disk delays nobody while memory has room. A recorder of page allocation should
 * allocate no pages: the memory is faulted in at the start, and the file bypasses the page cache.
 *
 * A spool may outlive its recorder. Its memory is a shared mapping of a file, so data taken out of
 * the ring survives a killed recorder (but not a power failure). A popped sub-buffer stays until it
 * is released. spool_open reads the spool of a former recorder.
 *
 * One thread fills, one stores, one reads, and one (maybe the reader) releases, without locks.
 *
 * On disk, in the directory of all spools, for each CPU:
 *
 *   cpuN        a page with struct spool_header, then `slots` sub-buffers of `slot_bytes` each:
 *               number n is in slot n % slots
 *   cpuN.more   the overflow: number n is at (n - file_base) % file_slots * slot_bytes; holes
 *               where it was released
 *
 * Byte order and word size are those of the machine that wrote it.
 */
#pragma once

#include "error.h"
#include "ring/instance.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct iovec;
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

	/* Writes to the overflow file: pwritev() if NULL. Tests make it slow, or fail. */
	ssize_t (*write)(int fd, const struct iovec *parts, int nr, off_t at);
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

/* How full spools are now, in bytes. */
struct spool_use {
	uint64_t memory, memory_size;
	uint64_t file;
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

/* Memory that a spool of that many slots takes, in bytes. */
size_t spool_memory(size_t slot_bytes, size_t slots);

/*
 * Ring's reader: the place for the next sub-buffer, slot_bytes of room. NULL if memory is full;
 * then spool_problem() has the reason.
 */
void *spool_slot(struct spool *spool);

/* Ring's reader: hand over that sub-buffer. */
void spool_push(struct spool *spool);

/* Ring's reader: add `ns` to its waiting time. */
void spool_waited(struct spool *spool, uint64_t ns);

/*
 * Storing thread: free the file space of released sub-buffers. Then, if memory is a quarter full of
 * sub-buffers not yet read, or three quarters full in all, write the oldest to the file, about 1 MB
 * at once. Returns 1 (call again), 0 (nothing to write), or -errno, which spool_problem() returns,
 * too, until a later call succeeds: -EDQUOT (budget used up), -ENOSPC (file system full), others.
 */
int spool_store(struct spool *spool, struct error *err);

/* Whether spool_store has something to write; from any thread. */
bool spool_should_store(const struct spool *spool);

/* The result of the last spool_store, if it was an error; else 0. */
int spool_problem(const struct spool *spool);

/* Add this spool's use to *use. */
void spool_add_use(const struct spool *spool, struct spool_use *use);

/*
 * Reader: call `disk` before and after each read of the file. The file system holds the file's lock
 * meanwhile, so a reader that gets no CPU time in between would keep the storing thread from
 * writing.
 */
void spool_on_disk_read(struct spool *spool, void (*disk)(void *context, bool begin),
			void *context);

/* Reader: 1 and the oldest sub-buffer, valid until the next call; or 0, or -errno. */
int spool_pop(struct spool *spool, const void **subbuf, struct error *err);

/* Reader: the number of the last popped sub-buffer, or of the next one if `next`. */
uint64_t spool_place(const struct spool *spool, bool next);

/* Continue at a place of the former recorder. -EBADMSG if the spool lacks that place. */
int spool_seek(struct spool *spool, uint64_t place, struct error *err);

/* Free everything before that place. */
void spool_release(struct spool *spool, uint64_t place);

/* Store how the recording ended, for spool_past. */
void spool_end(struct spool *spool, const char *how, const struct ring_stats *counts);

struct spool_past spool_past(const struct spool *spool);
struct spool_load spool_load(const struct spool *spool);
size_t spool_slot_bytes(const struct spool *spool);
size_t spool_slots(const struct spool *spool);

/* Sub-buffers put in and read so far. */
void spool_progress(const struct spool *spool, uint64_t *in, uint64_t *out);
