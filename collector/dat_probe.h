/* SPDX-License-Identifier: Apache-2.0 */
/* dat_probe.h - try in a child process whether libtracecmd survives a trace.dat. */
#pragma once

#include "error.h"

/* Open `path` and read all of it; memory and files may leak. Returns 0 or -errno. */
typedef int dat_read_all(const char *path, struct error *err);

/*
 * Check the file's start, then run `read_all` in a child with limits on its CPU time.
 * -ENOENT and the like, -EINVAL (no regular file), -EBADMSG (empty, no trace.dat, damaged:
 * the child failed, crashed or ran out of time).
 */
int dat_probe(const char *path, dat_read_all *read_all, struct error *err);
