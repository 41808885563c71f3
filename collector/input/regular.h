/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regular.h - opens a file that pagetape did not make, for reading.
 *
 * Opening a FIFO waits for a writer, and a device may have no end: only regular files are opened.
 */
#pragma once

#include "error.h"

#include <stdio.h>
#include <sys/stat.h>

/*
 * The descriptor, or -ENOENT and the like, -EINVAL (not a regular file). `flags`: 0, or O_NOFOLLOW
 * to refuse a symbolic link as well. *out, unless NULL, describes the file.
 */
int regular_open(const char *path, int flags, struct stat *out, struct error *err);

/* The same as a stream without links, refused with -EFBIG above `most` bytes. NULL on errors. */
FILE *regular_stream(const char *path, off_t most, int *ret, struct error *err);
