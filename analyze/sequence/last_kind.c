/* SPDX-License-Identifier: Apache-2.0 */
/* last_kind.c - a hash table of words: pfn, order and kind of a block. */
#include "last_kind.h"

#include <errno.h>
#include <stdlib.h>

enum {
	FIRST_BLOCKS = 1 << 14, /* capacity; a power of two */
	KIND_BITS = 3,
	ORDER_BITS = 5,
};

struct last_kinds {
	uint64_t *words; /* 0: free */
	size_t capacity;
	size_t nr;
	size_t most; /* words */
};

struct last_kinds *last_kinds_new(size_t most)
{
	struct last_kinds *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->most = most / sizeof(*k->words);
	k->capacity = FIRST_BLOCKS;
	k->words = calloc(k->capacity, sizeof(*k->words));
	if (!k->words) {
		free(k);
		return NULL;
	}
	return k;
}

void last_kinds_free(struct last_kinds *k)
{
	if (!k)
		return;
	free(k->words);
	free(k);
}

/* The block's word, or the free one for it. */
static uint64_t *word_of(uint64_t *words, size_t capacity, uint64_t block)
{
	uint64_t x = block * 0x9e3779b97f4a7c15u;
	size_t at = (x ^ x >> 32) & (capacity - 1);

	while (words[at] && words[at] >> KIND_BITS != block)
		at = (at + 1) & (capacity - 1);
	return &words[at];
}

static int grow(struct last_kinds *k)
{
	size_t capacity = 2 * k->capacity;
	uint64_t *words;

	if (k->capacity + capacity > k->most)
		return -ENOMEM;
	words = calloc(capacity, sizeof(*words));
	if (!words)
		return -ENOMEM;
	for (size_t i = 0; i < k->capacity; i++) {
		if (k->words[i])
			*word_of(words, capacity, k->words[i] >> KIND_BITS) = k->words[i];
	}
	free(k->words);
	k->words = words;
	k->capacity = capacity;
	return 0;
}

int last_kinds_put(struct last_kinds *k, uint64_t pfn, uint8_t order, enum last_kind now)
{
	uint64_t block = (pfn << ORDER_BITS | order) & UINT64_MAX >> KIND_BITS;
	uint64_t *word = word_of(k->words, k->capacity, block);
	int last;

	if (!*word && 4 * (k->nr + 1) > 3 * k->capacity) {
		if (grow(k))
			return -ENOMEM;
		word = word_of(k->words, k->capacity, block);
	}
	k->nr += !*word;
	last = (int)(*word & ((1u << KIND_BITS) - 1));
	*word = block << KIND_BITS | now;
	return last;
}
