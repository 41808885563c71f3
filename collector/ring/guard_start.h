/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard_start.h - a process that clears up after a killed recorder.
 *
 * The guard (spool/guard.c) is a small program in a session of its own. It sleeps until the
 * recorder ends, however it ends: then its end of a pipe closes. If the recorder's tracing instance
 * still exists, the guard switches it off, stores the rest of the rings beside the spool
 * (spool_rest.h), and removes it.
 */
#pragma once

#include "error.h"

#include <sys/types.h>

struct guard {
	pid_t pid; /* 0: none */
	int pipe;  /* its write end */
};

/*
 * Start `program` for the tracing instance at `path`, which need not exist yet. `spool` is a
 * descriptor of the spool's directory that stores the rest of the rings, or -1. The guard holds
 * its lock, if it has one, until the rest is stored. -ENOENT, -EACCES, -EAGAIN, -ENOMEM, -EMFILE.
 */
int guard_start(struct guard *guard, const char *program, const char *path, int spool,
		struct error *err);

/* The instance is gone, or the guard shall remove it. Waits a moment for the guard's end. */
void guard_end(struct guard *guard);
