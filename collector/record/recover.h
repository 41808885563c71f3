/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.h - the spools of a former recorder as a source of batches.
 *
 * The directory holds a spool for each CPU (spool.h), the event formats (formats.h) and
 * the names of threads (tasks.h). It may come from another machine with the same byte order
 * and word size; this machine's state does not matter. The directory is not changed.
 */
#pragma once

#include "spool/spool.h"
#include "unspool.h"

struct recovery;

/*
 * Start decoding, from `checkpoint` on or from the beginning (NULL). -ENOENT and the like,
 * -EBADMSG (damaged, or of another version), -EINVAL (from the decoder), -ENOMEM.
 */
int recovery_open(struct recovery **out, const char *dir, const struct decoder_names *names,
		  const struct checkpoint *checkpoint, struct error *err);

/* Stop decoding at once. */
void recovery_close(struct recovery *r);

/* The state of all spools of a directory together; the recording may still run. */
int recovery_look(const char *dir, struct spool_state *out, struct error *err);

/* Its source, the names of its threads, and its progress. */
struct unspool *recovery_unspool(struct recovery *r);

/* How the recording ended, as stored by its recorder; "killed" if nothing is stored. */
const char *recovery_ended(const struct recovery *r);
