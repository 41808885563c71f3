// SPDX-License-Identifier: Apache-2.0
#include "grouped.h"

#include "batch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECE = 1 << 10, /* rows whose intermediate values stay in the cache */
	WORDS = GROUPED_KEY_BITS_MOST / 64,
	FIRST_SLOTS = 1 << 8,
};

/* A byte for each bit: 1 or 0. */
static void spread_bits(const uint8_t *bits, size_t offset, size_t nr, uint8_t *bytes)
{
	size_t i = 0;

	for (; i < nr && (offset + i) & 7; i++)
		bytes[i] = is_valid(bits, offset + i);
	for (; i + 8 <= nr; i += 8) {
		uint64_t byte = bits[(offset + i) >> 3];
		uint64_t each = byte * 0x0101010101010101u & 0x8040201008040201u;

		each = (each + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
		memcpy(bytes + i, &each, 8);
	}
	for (; i < nr; i++)
		bytes[i] = is_valid(bits, offset + i);
}

/* The keys of a piece of the rows, as one number each. */
struct piece {
	uint64_t word[WORDS][PIECE];
	uint8_t valid[PIECE];
};

/* Append values to a word of the keys: a null is above all values. */
#define APPENDS(type)                                                                              \
	static void append_##type(const type *values, const uint8_t *valid, size_t nr,             \
				  uint64_t *word)                                                  \
	{                                                                                          \
		const int bits = 8 * sizeof(type);                                                 \
                                                                                                   \
		if (!valid) {                                                                      \
			for (size_t i = 0; i < nr; i++)                                            \
				word[i] = word[i] << bits | values[i];                             \
			return;                                                                    \
		}                                                                                  \
		for (size_t i = 0; i < nr; i++) {                                                  \
			type value = (type)(values[i] & (type) - valid[i]);                        \
			uint64_t null = (uint64_t)(valid[i] ^ 1) << bits;                          \
                                                                                                   \
			word[i] = word[i] << (bits + 1) | null | value;                            \
		}                                                                                  \
	}
APPENDS(uint8_t)
APPENDS(uint16_t)
APPENDS(uint32_t)

static void append_key(const struct group_key *key, size_t first, size_t nr, struct piece *piece,
		       uint64_t *word)
{
	size_t at = key->offset + first;
	const uint8_t *valid = NULL;

	if (key->valid) {
		spread_bits(key->valid, at, nr, piece->valid);
		valid = piece->valid;
	}
	if (key->width == 1)
		append_uint8_t((const uint8_t *)key->values + at, valid, nr, word);
	else if (key->width == 2)
		append_uint16_t((const uint16_t *)key->values + at, valid, nr, word);
	else
		append_uint32_t((const uint32_t *)key->values + at, valid, nr, word);
}

/* A group's key, and its number plus 1; 0: an empty slot. */
struct slot {
	uint64_t word[WORDS];
	uint32_t number;
};

/* The groups found so far: a hash table with open addressing, at most half full. */
struct found {
	struct slot *slots;
	size_t mask; /* number of slots - 1, a power of 2 */
	uint32_t nr;
};

static struct slot *slot_of(const struct found *found, const uint64_t *word)
{
	uint64_t hash = (word[0] ^ word[1] * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u;
	size_t at = (size_t)(hash >> 32) & found->mask;
	struct slot *slot = &found->slots[at];

	while (slot->number && (slot->word[0] != word[0] || slot->word[1] != word[1])) {
		at = (at + 1) & found->mask;
		slot = &found->slots[at];
	}
	return slot;
}

/* Make room for one more group. */
static bool grow(struct found *found)
{
	struct found more = {.mask = 2 * found->mask + 1, .nr = found->nr};

	if (2 * (size_t)found->nr < found->mask)
		return true;
	more.slots = calloc(more.mask + 1, sizeof(*more.slots));
	if (!more.slots)
		return false;
	for (size_t i = 0; i <= found->mask; i++)
		if (found->slots[i].number)
			*slot_of(&more, found->slots[i].word) = found->slots[i];
	free(found->slots);
	*found = more;
	return true;
}

/* Number the rows of a piece, which begins at the row `first`. */
static bool number_rows(const struct piece *piece, size_t first, size_t nr, struct found *found,
			struct groups *to)
{
	for (size_t i = 0; i < nr; i++) {
		uint64_t word[WORDS] = {piece->word[0][i], piece->word[1][i]};
		struct slot *slot = slot_of(found, word);
		uint32_t group = slot->number - 1;

		if (!slot->number) {
			group = found->nr;
			*slot = (struct slot){.word = {word[0], word[1]}, .number = ++found->nr};
			to->first[group] = (uint16_t)(first + i);
			if (!grow(found))
				return false;
		}
		to->number[first + i] = (uint16_t)group;
	}
	return true;
}

/* The number of the word that has each key; -EINVAL if there are too many bits. */
static int spread_keys(const struct group_key *keys, int nr_keys, int *word, struct error *err)
{
	int bits = 0, at = 0;

	if (nr_keys > GROUPED_KEYS_MOST)
		return fail(err, EINVAL, "%d keys", nr_keys);
	for (int k = 0; k < nr_keys; k++) {
		int more = 8 * keys[k].width + (keys[k].valid != NULL);

		bits += more;
		if (bits > 64) {
			bits = more;
			at++;
		}
		if (at == WORDS)
			return fail(err, EINVAL, "keys of more than %d bits",
				    GROUPED_KEY_BITS_MOST);
		word[k] = at;
	}
	return 0;
}

/* Rows of a group in each half of the batch; then where the next one of each goes. */
struct halves {
	uint32_t of[2];
};

/*
 * The rows of each group and their places, from their numbers. A count waits for the one
 * before it if both are of the same group: the two halves need not wait for each other.
 */
static bool place_rows(struct groups *to)
{
	struct halves *halves = calloc(to->nr_groups + 1, sizeof(*halves));
	size_t half = to->nr / 2;
	const uint16_t *number = to->number;
	uint32_t before = 0;

	if (!halves)
		return false;
	for (size_t row = 0; row < half; row++) {
		halves[number[row]].of[0]++;
		halves[number[half + row]].of[1]++;
	}
	if (to->nr & 1)
		halves[number[to->nr - 1]].of[1]++;
	for (size_t group = 0; group < to->nr_groups; group++) {
		uint32_t first = halves[group].of[0];

		to->rows[group] = first + halves[group].of[1];
		halves[group] = (struct halves){{before, before + first}};
		before += to->rows[group];
	}
	for (size_t row = 0; row < half; row++) {
		to->place[halves[number[row]].of[0]++] = (uint16_t)row;
		to->place[halves[number[half + row]].of[1]++] = (uint16_t)(half + row);
	}
	if (to->nr & 1)
		to->place[halves[number[to->nr - 1]].of[1]] = (uint16_t)(to->nr - 1);
	free(halves);
	return true;
}

int group_rows(const struct group_key *keys, int nr_keys, struct groups *to, struct error *err)
{
	struct found found = {.mask = FIRST_SLOTS - 1};
	struct piece *piece;
	int ret, word[GROUPED_KEYS_MOST];
	bool done;

	if (to->nr > GROUPED_ROWS_MOST)
		return fail(err, EINVAL, "%zu rows", to->nr);
	ret = spread_keys(keys, nr_keys, word, err);
	if (ret < 0)
		return ret;
	piece = malloc(sizeof(*piece));
	found.slots = calloc(FIRST_SLOTS, sizeof(*found.slots));
	done = piece && found.slots;
	for (size_t first = 0; done && first < to->nr; first += PIECE) {
		size_t nr = to->nr - first < PIECE ? to->nr - first : PIECE;

		memset(piece->word, 0, sizeof(piece->word));
		for (int k = 0; k < nr_keys; k++)
			append_key(&keys[k], first, nr, piece, piece->word[word[k]]);
		done = number_rows(piece, first, nr, &found, to);
	}
	to->nr_groups = found.nr;
	done = done && place_rows(to);
	free(piece);
	free(found.slots);
	return done ? 0 : fail(err, ENOMEM, "no memory for %zu rows", to->nr);
}

void split_numbers(const uint16_t *number, size_t nr, uint8_t *low, uint8_t *high)
{
	for (size_t row = 0; row < nr; row++) {
		low[row] = (uint8_t)number[row];
		high[row] = (uint8_t)(number[row] >> 8);
	}
}

/* The places that the rows of a group have. */
struct places {
	uint32_t next, end;
};

static bool find_places(const uint32_t *rows, size_t nr_groups, size_t nr, struct places *places)
{
	uint64_t before = 0;

	for (size_t group = 0; group < nr_groups; group++) {
		places[group].next = (uint32_t)before;
		before += rows[group];
		places[group].end = (uint32_t)before;
		if (before > nr)
			return false;
	}
	return before == nr;
}

int order_rows(const uint8_t *low, const uint8_t *high, struct groups *of, struct error *err)
{
	struct places *places;
	size_t nr = of->nr, row = 0;

	assert(nr <= GROUPED_ROWS_MOST);
	places = malloc((of->nr_groups + 1) * sizeof(*places));
	if (!places)
		return fail(err, ENOMEM, "no memory for %zu rows", nr);
	for (size_t i = 0; i < nr; i++)
		of->number[i] = (uint16_t)(low[i] | high[i] << 8);
	if (find_places(of->rows, of->nr_groups, nr, places)) {
		for (; row < nr; row++) {
			uint32_t group = of->number[row];

			if (group >= of->nr_groups || places[group].next == places[group].end)
				break;
			of->place[row] = (uint16_t)places[group].next++;
		}
	} else {
		row = nr + 1;
	}
	free(places);
	if (row != nr)
		return fail(err, EINVAL, "the groups of %zu rows have another number of rows", nr);
	return 0;
}

size_t choose_rows(struct groups *of, const uint8_t *wanted)
{
	size_t nr = 0;

	for (size_t row = 0; row < of->nr; row++) {
		uint16_t group = of->number[row];

		of->number[nr] = group;
		of->place[nr] = of->place[row];
		nr += wanted[group] != 0;
	}
	return nr;
}

size_t find_rows(const uint16_t *number, const uint8_t *valid, size_t nr, const uint8_t *wanted,
		 uint16_t *to)
{
	size_t found = 0;

	for (size_t row = 0; row < nr; row++) {
		to[found] = (uint16_t)row;
		found += wanted[number[row]] > is_valid(valid, row);
	}
	return found;
}

#define PICKS(type)                                                                                \
	static void pick_##type(const type *from, const uint16_t *at, size_t nr, type *to)         \
	{                                                                                          \
		for (size_t i = 0; i < nr; i++)                                                    \
			to[i] = from[at[i]];                                                       \
	}
PICKS(uint8_t)
PICKS(uint16_t)
PICKS(uint32_t)
PICKS(uint64_t)

void pick_values(int width, const void *from, const uint16_t *at, size_t nr, void *to)
{
	if (width == 1)
		pick_uint8_t(from, at, nr, to);
	else if (width == 2)
		pick_uint16_t(from, at, nr, to);
	else if (width == 4)
		pick_uint32_t(from, at, nr, to);
	else
		pick_uint64_t(from, at, nr, to);
}

int pick_bits(const uint8_t *from, size_t offset, size_t nr_from, const uint16_t *at, size_t nr,
	      uint8_t *to)
{
	uint8_t *bytes = malloc(nr_from + 1);
	size_t i = 0;

	if (!bytes)
		return -ENOMEM;
	spread_bits(from, offset, nr_from, bytes);
	for (; i + 8 <= nr; i += 8) {
		uint8_t byte = 0;

		for (int bit = 0; bit < 8; bit++)
			byte |= (uint8_t)(bytes[at[i + bit]] << bit);
		to[i >> 3] = byte;
	}
	if (i < nr)
		to[i >> 3] = 0;
	for (; i < nr; i++)
		to[i >> 3] |= (uint8_t)(bytes[at[i]] << (i & 7));
	free(bytes);
	return 0;
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

static void split_difference(uint64_t stored, size_t i, const struct differences *to)
{
	for (int byte = 0; byte < GROUPED_LOW_BYTES; byte++)
		to->low[byte][i] = (uint8_t)(stored >> (8 * byte));
	to->high[i] = (uint32_t)(stored >> 32);
}

/* Nulls get the value before them in their group. */
static void fill_nulls(uint64_t *values, const uint32_t *rows, size_t nr_groups,
		       const uint8_t *valid)
{
	uint64_t begin = is_valid(valid, 0) ? values[0] : 0;
	size_t i = 0;

	for (size_t group = 0; group < nr_groups; group++) {
		uint64_t last = group ? begin : 0;

		for (size_t end = i + rows[group]; i < end; i++) {
			if (is_valid(valid, i))
				last = values[i];
			else
				values[i] = last;
		}
	}
}

void group_differences(uint64_t *values, const uint32_t *rows, size_t nr_groups, size_t nr,
		       const struct differences *to)
{
	uint32_t low[PIECE];
	size_t i = 0;

	if (to->valid && nr)
		fill_nulls(values, rows, nr_groups, to->valid);
	for (size_t first = 1; first < nr; first += PIECE) {
		size_t most = nr - first < PIECE ? nr - first : PIECE;
		const uint64_t *value = values + first;

		for (size_t k = 0; k < most; k++) {
			uint64_t stored = folded(value[k] - value[k - 1]);

			low[k] = (uint32_t)stored;
			to->high[first + k] = (uint32_t)(stored >> 32);
		}
		for (int byte = 0; byte < GROUPED_LOW_BYTES; byte++) {
			uint8_t *plane = to->low[byte] + first;

			for (size_t k = 0; k < most; k++)
				plane[k] = (uint8_t)(low[k] >> (8 * byte));
		}
	}
	for (size_t group = 0; group < nr_groups; i += rows[group++])
		split_difference(folded(values[i] - (group ? values[0] : 0)), i, to);
}

/* The values of one group, which begins at the row `i`; returns the row after it. */
static size_t add_up(const struct differences *from, bool wide, size_t i, size_t end, uint64_t last,
		     uint64_t *values)
{
	uint32_t low[PIECE];

	while (i < end) {
		size_t most = end - i < PIECE ? end - i : PIECE;

		for (size_t k = 0; k < most; k++)
			low[k] = from->low[0][i + k] | (uint32_t)from->low[1][i + k] << 8 |
				 (uint32_t)from->low[2][i + k] << 16 |
				 (uint32_t)from->low[3][i + k] << 24;
		if (wide)
			for (size_t k = 0; k < most; k++)
				values[i + k] = last +=
					unfolded((uint64_t)from->high[i + k] << 32 | low[k]);
		else
			for (size_t k = 0; k < most; k++)
				values[i + k] = last += unfolded(low[k]);
		i += most;
	}
	return end;
}

void ungroup_differences(const struct differences *from, const uint32_t *rows, size_t nr_groups,
			 size_t nr, uint64_t *values)
{
	uint32_t high = 0;
	size_t i = 0;

	for (size_t k = 0; k < nr; k++)
		high |= from->high[k];
	for (size_t group = 0; group < nr_groups; group++)
		i = add_up(from, high != 0, i, i + rows[group], i ? values[0] : 0, values);
	if (from->valid)
		for (size_t k = 0; k < nr; k++)
			values[k] &= -(uint64_t)is_valid(from->valid, k);
}
