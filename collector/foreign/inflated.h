/* SPDX-License-Identifier: Apache-2.0 */
/* inflated.h - what the decompression of a file writes into a temporary one. */
#pragma once

#include "error.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
	MOST_INFLATED = 256, /* times the file: events compress to a tenth */
	INFLATED_CHUNK = 64 << 10,
};

/* Write a piece; `left`: bytes that may still come. -EFBIG, -ENOSPC and the like. */
static inline int inflated_write(FILE *to, const void *piece, size_t size, uint64_t *left)
{
	if (size > *left)
		return -EFBIG;
	*left -= size;
	return fwrite(piece, 1, size, to) < size ? -errno : 0;
}

/* The end of all pieces, or `ret`, the error before it. */
static inline int inflated_end(FILE *to, int ret, struct error *err)
{
	if (!ret && fflush(to))
		ret = -errno;
	return ret ? fail(err, -ret, "cannot decompress it to a temporary file: %s", strerror(-ret))
		   : 0;
}
