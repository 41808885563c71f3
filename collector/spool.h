/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h - sub-buffers of one ring on their way from its reader to the decoder.
 *
 * A queue, first in first out, of bounded memory: up to `slots` sub-buffers stay
 * in memory, and while the decoder is further behind, newer ones go to a file.
 * A recorder that traces page allocation should allocate no pages: memory is
 * faulted in at the start, and the file is not touched while the decoder keeps
 * up. Its space is given back as it is read, and it has no name, so that nothing
 * is left of a killed recorder.
 *
 * One thread writes, one reads, without locks.
 */
#pragma once

#include "error.h"

#include <stddef.h>
#include <stdint.h>

struct spool;

/* `dir` takes the file; a slot is a multiple of 4096 bytes. -ENOMEM, or why no file can be made
 * there. */
int spool_new(struct spool **out, const char *dir, size_t slot_bytes, size_t slots,
	      struct error *err);
void spool_free(struct spool *spool);

/* Writer: where to put the next sub-buffer, slot_bytes of room. */
void *spool_slot(struct spool *spool);

/*
 * Writer: hand over what was put there, of which the first `used` bytes matter.
 * -ENOSPC: the file system is full; nothing was handed over, try again later.
 */
int spool_push(struct spool *spool, size_t used, struct error *err);

/* Reader: 1 and the oldest sub-buffer, valid until the next call; or 0, or -errno. */
int spool_pop(struct spool *spool, const void **subbuf, struct error *err);

/* Sub-buffers written and read so far. */
void spool_progress(const struct spool *spool, uint64_t *written, uint64_t *read);
