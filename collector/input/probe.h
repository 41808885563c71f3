/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - tries in a child process whether a library survives a file.
 *
 * libtracecmd and libtraceevent trust the sizes, offsets and expressions in a file, so a damaged
 * one may make them crash, run forever or take all memory. The child makes the same calls as the
 * caller will; its death is one message.
 */
#pragma once

#include "error.h"

#include <stdint.h>

struct probe {
	const char *path;    /* of the file, for messages */
	const char *library; /* that reads it */
	uint64_t bytes;      /* of the file on disk: CPU time and disk space are limited by it */

	/* Read everything; memory and files may leak. 0, or -errno: the file is refused. */
	int (*read_all)(void *arg, struct error *err);
	void *arg;
};

/*
 * Run p->read_all in a child with limits. 0, -EBADMSG (it failed, or wanted too much memory),
 * -ETIME (it ran too long), -EFAULT (it crashed). The last line that the library printed is in the
 * message.
 */
int probe(const struct probe *p, struct error *err);
