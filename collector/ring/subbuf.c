// SPDX-License-Identifier: Apache-2.0
#include "subbuf.h"

#include <kbuffer.h>
#include <string.h>

static uint32_t word_at(const char *subbuf, size_t at, bool swapped)
{
	uint32_t word;

	memcpy(&word, subbuf + at, sizeof(word));
	return swapped ? __builtin_bswap32(word) : word;
}

bool subbuf_is_sound(const void *subbuf, size_t size, struct subbuf_layout layout)
{
	bool big = layout.big_endian, swapped = big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	bool low = big && layout.header == 16; /* which half of a long comes second */
	uint32_t commit = word_at(subbuf, low ? 12 : 8, swapped);
	uint64_t at = layout.header;
	uint64_t end = at + (commit & SUBBUF_BYTES);
	uint64_t lost = commit & SUBBUF_STORED ? layout.header - sizeof(uint64_t) : 0;

	if (end + lost > size)
		return false;
	while (at + 4 <= end) {
		uint32_t entry = word_at(subbuf, at, swapped);
		uint32_t type = big ? entry >> 27 : entry & 31;
		uint64_t length = 4 + 4 * (uint64_t)type;

		if (end - at < 8) /* the shortest entry */
			return false;
		if (type == KBUFFER_TYPE_PADDING)
			length = 4 + (uint64_t)word_at(subbuf, at + 4, swapped);
		else if (type == KBUFFER_TYPE_TIME_EXTEND || type == KBUFFER_TYPE_TIME_STAMP)
			length = 8;
		else if (!type)
			length = 4 + (((uint64_t)word_at(subbuf, at + 4, swapped) + 3) & ~3ull);
		if (length < 8 || length > end - at)
			return false;
		at += length;
	}
	return at == end; /* kbuffer would read an entry at any byte before the end */
}
