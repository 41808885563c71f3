/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - the thread that moves sub-buffers from the memory of all spools to their files.
 *
 * It sleeps while the decoder keeps up. The reader that finds its spool a quarter full wakes it.
 * Then it writes, one spool after the other, until no spool is.
 */
#pragma once

#include "error.h"
#include "spool.h"

struct writer;

struct writer_config {
	struct spool **spools; /* they outlive the writer; the array need not */
	int nr;

	/* Called by the thread after each round, with the use of all spools together. */
	void (*watch)(void *context, const struct spool_use *use); /* NULL: not at all */
	void *context;
};

/* The thread starts at once. -ENOMEM, or the error of making an eventfd or a thread. */
int writer_new(struct writer **out, const struct writer_config *config, struct error *err);

/* There is something to write. From any thread; cheap if the writer is awake. */
void writer_wake(struct writer *writer);

/* End the thread. Nobody may fill the spools any more; what is in memory stays there. */
void writer_free(struct writer *writer);
