/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subbuf.h - a raw sub-buffer of a ring, as read from trace_pipe_raw.
 *
 * The kernel describes it in events/header_page and events/header_event: a time, a
 * word with the bytes that follow and two flags, then entries, each with its length.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A greater count of events or bytes in a file is damage; sums of counts stay within 64 bits. */
#define MAX_COUNT (1ull << 56)

/* As this machine writes it. */
struct subbuf {
	uint64_t ts;
	unsigned long commit; /* bytes of data, and two flags */
	char data[];
};

/* No time of a trace clock is above, so that readers may calculate with signed 64 bits. */
#define SUBBUF_MAX_TS ((uint64_t)INT64_MAX)

#define SUBBUF_BYTES  ((1ul << 27) - 1) /* of commit */
#define SUBBUF_MISSED (1ul << 31)       /* events before it were lost... */
#define SUBBUF_STORED (1ul << 30)       /* ...and a long behind the data has their number */

/*
 * Whether a read of `bytes` ended at the newest entry of its ring: the page still had room, and is
 * not the rest of the page whose first `before` bytes the last read took (0: nobody knows). While
 * nobody reads, the ring may fill the page after its rest, and more.
 */
static inline bool subbuf_is_newest(size_t before, size_t bytes, size_t page_bytes)
{
	return bytes < page_bytes / 2 && before + bytes > page_bytes;
}

/* The layout of a machine, this one or another. */
struct subbuf_layout {
	size_t header; /* bytes before the first entry: 12, or 16 with longs of 8 bytes */
	bool big_endian;
};

/*
 * Whether all entries of the sub-buffer, and the number of lost events behind them, lie within its
 * `size` bytes: kbuffer trusts their lengths.
 */
bool subbuf_is_sound(const void *subbuf, size_t size, struct subbuf_layout layout);
