/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.h - what a recorder left in its spools, as a source of batches.
 *
 * The directory holds a spool for each CPU (spool.h), the event formats (formats.h) and
 * the names of threads (tasks.h). It may come from another machine with the same byte order
 * and word size; of this one nothing is needed. Nothing is changed in it.
 */
#pragma once

#include "source.h"
#include "spool.h"
#include "tasks.h"

struct recovery;

/*
 * Start decoding, from `checkpoint` on or from the beginning (NULL). -ENOENT and the like,
 * -EBADMSG (damaged, or of another version), -EINVAL (from the decoder), -ENOMEM.
 */
int recovery_open(struct recovery **out, const char *dir, const struct decoder_names *names,
		  const struct checkpoint *checkpoint, struct error *err);

/* Stops decoding wherever it is. */
void recovery_close(struct recovery *r);

/* Look at the spools of a directory together, of a recording that is over or not. */
int recovery_look(const char *dir, struct spool_state *out, struct error *err);

struct source *recovery_source(struct recovery *r);
struct tasks *recovery_tasks(struct recovery *r);

/* Share decoded, 0 to 1. */
double recovery_progress(const struct recovery *r);

/* How the recording ended, as its recorder said; "killed" if it could not. */
const char *recovery_ended(const struct recovery *r);

/* Sub-buffers left out as damaged (also in `lost`), once the source is at its end. */
uint64_t recovery_bad(const struct recovery *r);
