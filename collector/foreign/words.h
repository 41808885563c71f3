/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - a part of a text, which no NUL ends, and what its characters are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct words {
	const char *text;
	size_t length;
};

static inline struct words words_of(const char *text)
{
	return (struct words){text, strlen(text)};
}

static inline struct words words_between(const char *begin, const char *end)
{
	return (struct words){begin, (size_t)(end - begin)};
}

static inline bool words_begin(struct words words, const char *text)
{
	return words.length >= strlen(text) && !memcmp(words.text, text, strlen(text));
}

static inline bool words_are(struct words words, const char *text)
{
	return words.length == strlen(text) && words_begin(words, text);
}

static inline uint32_t words_hash(struct words words)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < words.length; i++)
		h = (h ^ (uint8_t)words.text[i]) * 16777619u;
	return h;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static inline const char *skip_spaces(const char *at, const char *end)
{
	while (at < end && is_space(*at))
		at++;
	return at;
}

static inline const char *skip_word(const char *at, const char *end)
{
	while (at < end && !is_space(*at))
		at++;
	return at;
}

/* A hexadecimal number at *text, which moves behind it; false: none, or above 64 bits. */
static inline bool read_hex(const char **text, const char *end, uint64_t *value)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	const char *at = *text, *digit;

	for (*value = 0; at < end && (digit = memchr(digits, *at, sizeof(digits) - 1)); at++) {
		if (*value >> 60)
			return false;
		*value = *value << 4 | (uint64_t)(digit - digits - (digit - digits > 15 ? 6 : 0));
	}
	if (at == *text)
		return false;
	*text = at;
	return true;
}
