// SPDX-License-Identifier: Apache-2.0
#include "grouped.h"

#include "batch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Append a column to the keys: its value, or a null above all values. */
static void add_key(const struct group_key *column, size_t nr, uint64_t *keys)
{
	int bits = 8 * column->width;
	const uint8_t *bytes = column->values;
	const uint16_t *pairs = column->values;

	for (size_t row = 0; row < nr; row++) {
		size_t at = column->offset + row;
		uint64_t value = column->width == 1 ? bytes[at] : pairs[at];

		if (!is_valid(column->valid, at))
			value = (uint64_t)1 << bits;
		keys[row] = keys[row] << (bits + 1) | value;
	}
}

/* A hash table of the groups found so far, open addressing. */
struct groups {
	unsigned bits;
	uint32_t nr;
	uint32_t *numbers; /* of 1 << bits slots: a group's number plus 1; 0: empty */
	uint64_t *keys;    /* by group */
};

static uint32_t number_of(struct groups *groups, uint64_t key)
{
	size_t mask = ((size_t)1 << groups->bits) - 1;
	size_t slot = (size_t)(key * 0x9e3779b97f4a7c15u >> (64 - groups->bits));

	while (groups->numbers[slot]) {
		if (groups->keys[groups->numbers[slot] - 1] == key)
			return groups->numbers[slot] - 1;
		slot = (slot + 1) & mask;
	}
	groups->keys[groups->nr] = key;
	groups->numbers[slot] = ++groups->nr;
	return groups->nr - 1;
}

int group_rows(const struct group_key *keys, int nr_keys, size_t nr, uint8_t *low, uint8_t *high,
	       struct error *err)
{
	struct groups groups = {.bits = 4};
	uint64_t *of_row;
	int ret, bits = 0;

	for (int k = 0; k < nr_keys; k++)
		bits += 8 * keys[k].width + 1;
	if (nr > GROUPED_ROWS_MOST || bits > 64)
		return fail(err, EINVAL, "%zu rows, keys of %d bits", nr, bits);
	while ((size_t)1 << groups.bits < 2 * nr)
		groups.bits++;
	groups.numbers = calloc((size_t)1 << groups.bits, sizeof(*groups.numbers));
	groups.keys = malloc((nr + 1) * sizeof(*groups.keys));
	of_row = calloc(nr + 1, sizeof(*of_row));
	if (groups.numbers && groups.keys && of_row) {
		for (int k = 0; k < nr_keys; k++)
			add_key(&keys[k], nr, of_row);
		for (size_t row = 0; row < nr; row++) {
			uint32_t group = number_of(&groups, of_row[row]);

			low[row] = (uint8_t)group;
			high[row] = (uint8_t)(group >> 8);
		}
		ret = 0;
	} else {
		ret = fail(err, ENOMEM, "no memory for %zu rows", nr);
	}
	free(groups.numbers);
	free(groups.keys);
	free(of_row);
	return ret;
}

static uint32_t group_of(const uint8_t *low, const uint8_t *high, size_t row)
{
	return low[row] | (uint32_t)high[row] << 8;
}

int group_order(const uint8_t *low, const uint8_t *high, size_t nr, uint16_t *place, uint8_t *first,
		struct error *err)
{
	uint32_t *next; /* for each group: its number of rows, then where its next row goes */
	uint32_t nr_groups = 0, before = 0;

	assert(nr <= GROUPED_ROWS_MOST);
	for (size_t row = 0; row < nr; row++)
		if (group_of(low, high, row) >= nr_groups)
			nr_groups = group_of(low, high, row) + 1;
	next = calloc(nr_groups + 1, sizeof(*next));
	if (!next)
		return fail(err, ENOMEM, "no memory for %zu rows", nr);
	for (size_t row = 0; row < nr; row++)
		next[group_of(low, high, row)]++;
	memset(first, 0, nr);
	for (uint32_t group = 0; group < nr_groups; group++) {
		uint32_t rows = next[group];

		next[group] = before;
		if (rows)
			first[before] = 1;
		before += rows;
	}
	for (size_t row = 0; row < nr; row++)
		place[next[group_of(low, high, row)]++] = (uint16_t)row;
	free(next);
	return 0;
}

/* For each width of a value: the loops that move values of this type. */
#define MOVES(type)                                                                                \
	static void gather_##type(const type *from, const uint16_t *place, size_t nr, type *to)    \
	{                                                                                          \
		for (size_t i = 0; i < nr; i++)                                                    \
			to[i] = from[place[i]];                                                    \
	}                                                                                          \
	static void scatter_##type(const type *from, const uint16_t *place, size_t nr, type *to)   \
	{                                                                                          \
		for (size_t i = 0; i < nr; i++)                                                    \
			to[place[i]] = from[i];                                                    \
	}
MOVES(uint8_t)
MOVES(uint16_t)
MOVES(uint32_t)
MOVES(uint64_t)

void group_values(int width, const void *from, const uint16_t *place, size_t nr, void *to)
{
	if (width == 1)
		gather_uint8_t(from, place, nr, to);
	else if (width == 2)
		gather_uint16_t(from, place, nr, to);
	else if (width == 4)
		gather_uint32_t(from, place, nr, to);
	else
		gather_uint64_t(from, place, nr, to);
}

void ungroup_values(int width, const void *from, const uint16_t *place, size_t nr, void *to)
{
	if (width == 1)
		scatter_uint8_t(from, place, nr, to);
	else if (width == 2)
		scatter_uint16_t(from, place, nr, to);
	else if (width == 4)
		scatter_uint32_t(from, place, nr, to);
	else
		scatter_uint64_t(from, place, nr, to);
}

void group_bits(const uint8_t *from, size_t offset, const uint16_t *place, size_t nr, uint8_t *to)
{
	for (size_t i = 0; i < nr; i++)
		to[i >> 3] |= (uint8_t)(is_valid(from, offset + place[i]) << (i & 7));
}

void ungroup_bits(const uint8_t *from, size_t offset, const uint16_t *place, size_t nr, uint8_t *to)
{
	for (size_t i = 0; i < nr; i++)
		if (is_valid(from, offset + i))
			set_valid(to, place[i]);
}

/* Differences of either sign as small numbers: 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
static uint64_t folded(uint64_t difference)
{
	return difference << 1 ^ -(difference >> 63);
}

static uint64_t unfolded(uint64_t stored)
{
	return stored >> 1 ^ -(stored & 1);
}

void group_differences(const uint64_t *grouped, const uint8_t *first, size_t nr,
		       const struct differences *to)
{
	uint64_t last = 0, begin = 0;

	for (size_t i = 0; i < nr; i++) {
		uint64_t stored = 0;

		if (first[i])
			last = begin;
		if (is_valid(to->valid, i)) {
			stored = folded(grouped[i] - last);
			last = grouped[i];
		}
		if (i == 0)
			begin = last;
		for (int byte = 0; byte < GROUPED_LOW_BYTES; byte++)
			to->low[byte][i] = (uint8_t)(stored >> (8 * byte));
		to->high[i] = (uint32_t)(stored >> 32);
	}
}

void ungroup_differences(const struct differences *from, const uint16_t *place,
			 const uint8_t *first, size_t nr, uint64_t *values)
{
	uint64_t last = 0, begin = 0;

	for (size_t i = 0; i < nr; i++) {
		uint64_t stored = (uint64_t)from->high[i] << 32;
		bool valid = is_valid(from->valid, i);

		if (first[i])
			last = begin;
		for (int byte = 0; byte < GROUPED_LOW_BYTES; byte++)
			stored |= (uint64_t)from->low[byte][i] << (8 * byte);
		if (valid)
			last += unfolded(stored);
		if (i == 0)
			begin = last;
		values[place[i]] = valid ? last : 0;
	}
}
