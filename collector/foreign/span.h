/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h - bytes of a file that are still to be read.
 *
 * Reading beyond the end gives zeros and sets `bad`.
 */
#pragma once

#include "words.h"

struct span {
	const uint8_t *at, *end;
	bool bad;
};

static inline uint64_t span_left(const struct span *s)
{
	return (uint64_t)(s->end - s->at);
}

/* The next `size` bytes as a span of their own. */
static inline struct span span_take(struct span *s, uint64_t size)
{
	struct span taken = {s->at, s->at, s->bad || size > span_left(s)};

	s->bad = taken.bad;
	if (!taken.bad)
		s->at = taken.end = s->at + size;
	return taken;
}

/* The next number of 1, 2, 4 or 8 bytes, in this machine's byte order. */
static inline uint64_t span_number(struct span *s, int size)
{
	struct span taken = span_take(s, (uint64_t)size);
	uint64_t value = 0;

	if (!taken.bad)
		memcpy(&value, taken.at, (size_t)size);
	return value;
}

/* The part of a span from `offset`, `size` bytes; bad if it has fewer. */
static inline struct span span_part(struct span of, uint64_t offset, uint64_t size)
{
	span_take(&of, offset);
	return span_take(&of, size);
}

/* The rest of a span as a text, up to a NUL in it. */
static inline struct words span_words(struct span s)
{
	const char *text = (const char *)s.at;

	return (struct words){text, text ? strnlen(text, span_left(&s)) : 0};
}

/* A text up to its NUL, which is skipped; NULL: it has no end. */
static inline const char *span_text(struct span *s)
{
	const uint8_t *begin = s->at, *nul = memchr(s->at, 0, span_left(s));

	s->bad |= !nul;
	if (!nul)
		return NULL;
	s->at = nul + 1;
	return (const char *)begin;
}
