// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "grouped.h"

#include "batch.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 5000 };

static uint64_t random_state = 1;

static uint64_t any(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

static uint8_t low[ROWS], high[ROWS];
static uint16_t number[ROWS], place[ROWS], first_row[ROWS], back[ROWS], again[ROWS];
static uint32_t rows[ROWS];
static struct groups of = {ROWS, 0, number, place, first_row, rows};

/* order_rows() into `again` and `back`. */
static int ordered(uint32_t *of_groups, size_t nr_groups, size_t nr, struct error *err)
{
	struct groups found = {nr, nr_groups, again, back, NULL, of_groups};

	return order_rows(low, high, &found, err);
}

/* Rows of random groups; some keys are null. */
static void grouped(unsigned kinds, unsigned cpus)
{
	static uint8_t kinds_of[3 + ROWS], valid_of[ROWS / 8 + 2], valid[ROWS / 8 + 1];
	static uint16_t cpu[ROWS];
	static uint32_t flags[ROWS];
	struct group_key keys[] = {
		{.values = kinds_of, .width = 1, .valid = valid_of, .offset = 3},
		{.values = cpu, .width = 2},
		{.values = flags, .width = 4, .valid = valid},
		{.values = flags, .width = 4},
	};
	uint8_t *kind = kinds_of + 3;
	size_t group = 0, end = 0;

	memset(valid, 0, sizeof(valid));
	memset(valid_of, 0, sizeof(valid_of));
	for (size_t i = 0; i < ROWS; i++) {
		kind[i] = (uint8_t)any(kinds); /* also beneath a null */
		cpu[i] = (uint16_t)any(cpus);
		flags[i] = UINT32_MAX - cpu[i];
		set_valid(valid, i);
		if (any(8))
			set_valid(valid_of, 3 + i);
	}
	check(!group_rows(keys, 4, &of, NULL));

	/* Each row has one place, rows of a group stand in the order of time, and are equal. */
	for (size_t i = 0; i < ROWS; i++) {
		bool begins = i == end;

		if (begins) {
			check(place[i] == first_row[group] && rows[group]);
			check(!group || first_row[group] > first_row[group - 1]);
			end += rows[group++];
		}
		check(number[place[i]] == group - 1);
		check(begins || place[i - 1] < place[i]);
		check(begins ||
		      (is_valid(valid_of, 3 + place[i]) == is_valid(valid_of, 3 + place[i - 1]) &&
		       (!is_valid(valid_of, 3 + place[i]) ||
			kind[place[i]] == kind[place[i - 1]]) &&
		       cpu[place[i]] == cpu[place[i - 1]]));
	}
	check(group == of.nr_groups && end == ROWS);
	split_numbers(number, ROWS, low, high);
	check(!ordered(rows, group, ROWS, NULL));
	for (size_t i = 0; i < ROWS; i++)
		check(again[i] == number[i] && back[place[i]] == i);
}

/* Rows that differ in a key, a null or the upper bits of a key are of different groups. */
TEST(groups_are_those_of_the_keys)
{
	static const uint32_t keys[] = {0, 1, 1u << 31, 1, 0, 0};
	uint8_t valid = 0x1f;
	struct group_key key = {.values = keys, .width = 4, .valid = &valid};
	struct groups some = {6, 0, number, place, first_row, rows};

	check(!group_rows(&key, 1, &some, NULL) && some.nr_groups == 4);
	check(number[0] == 0 && number[1] == 1 && number[2] == 2);
	check(number[3] == 1 && number[4] == 0 && number[5] == 3);
}

TEST(rows_of_a_group_stand_together_in_the_order_of_time)
{
	grouped(6, 2);
	grouped(6, 700);
	grouped(1, 1);
}

TEST(values_come_back)
{
	static uint64_t in[ROWS], between[ROWS], out[ROWS];
	static uint8_t bits[ROWS / 8 + 2], there[ROWS / 8 + 1], out_bits[ROWS / 8 + 1];

	grouped(6, 50);
	for (int width = 1; width <= 8; width *= 2) {
		for (size_t i = 0; i < ROWS; i++)
			in[i] = random_state * (i + 1);
		pick_values(width, in, place, ROWS, between);
		pick_values(width, between, back, ROWS, out);
		check(!memcmp(in, out, (size_t)width * ROWS));
	}
	for (size_t i = 0; i < sizeof(bits); i++)
		bits[i] = (uint8_t)any(256);
	for (size_t offset = 0; offset < 9; offset++) {
		check(!pick_bits(bits, offset, ROWS, place, ROWS - offset, there));
		for (size_t i = 0; i < ROWS - offset; i++)
			check(is_valid(there, i) == is_valid(bits, offset + place[i]));
	}
	check(!pick_bits(bits, 3, ROWS, place, ROWS, there));
	check(!pick_bits(there, 0, ROWS, back, ROWS, out_bits));
	for (size_t i = 0; i < ROWS; i++)
		check(is_valid(out_bits, i) == is_valid(bits, 3 + i));
}

/* What a pfn beyond 2^32, a pause of an hour or a clock that was set back would need. */
TEST(differences_of_any_size_come_back)
{
	static const uint64_t jumps[] = {1, (uint64_t)1 << 31, (uint64_t)1 << 40, UINT64_MAX};
	static uint64_t in[ROWS], between[ROWS], out[ROWS];
	static uint8_t bytes[GROUPED_LOW_BYTES][ROWS], valid[ROWS / 8 + 1], stored[ROWS / 8 + 1];
	static uint32_t top[ROWS];
	struct differences parts = {.high = top};

	for (int b = 0; b < GROUPED_LOW_BYTES; b++)
		parts.low[b] = bytes[b];
	grouped(6, 50);
	for (int nulls = 0; nulls < 2; nulls++) {
		memset(valid, 0, sizeof(valid));
		memset(stored, 0, sizeof(stored));
		for (size_t i = 0; i < ROWS; i++) {
			in[i] = (i ? in[i - 1] : any(UINT64_MAX)) + jumps[any(4)] * any(1000);
			if (!nulls || any(3))
				set_valid(valid, i);
		}
		check(!pick_bits(valid, 0, ROWS, place, ROWS, stored));
		parts.valid = nulls ? stored : NULL;
		pick_values(8, in, place, ROWS, between);
		group_differences(between, rows, of.nr_groups, ROWS, &parts);
		ungroup_differences(&parts, rows, of.nr_groups, ROWS, between);
		pick_values(8, between, back, ROWS, out);
		for (size_t i = 0; i < ROWS; i++)
			check(out[i] == (is_valid(valid, i) ? in[i] : 0));
	}
}

TEST(a_steady_column_is_bytes_of_zeros)
{
	static uint64_t in[ROWS];
	static uint8_t bytes[GROUPED_LOW_BYTES][ROWS];
	static uint32_t top[ROWS];
	struct differences parts = {{bytes[0], bytes[1], bytes[2], bytes[3]}, top, NULL};

	grouped(6, 2);
	for (size_t i = 0; i < ROWS; i++)
		in[i] = 77;
	group_differences(in, rows, of.nr_groups, ROWS, &parts);
	for (size_t i = 1; i < ROWS; i++)
		check(!bytes[0][i] && !bytes[1][i] && !bytes[2][i] && !bytes[3][i] && !top[i]);
	check(bytes[0][0] == 154); /* folded: twice, and the sign in the lowest bit */
}

/* Damaged numbers and rows of groups give an order, or an error. */
TEST(any_numbers_give_an_order_or_none)
{
	static uint8_t seen[ROWS];
	struct error err;

	memset(rows, 0, sizeof(rows));
	for (size_t i = 0; i < ROWS; i++) {
		low[i] = (uint8_t)any(256);
		high[i] = (uint8_t)any(2);
		rows[low[i] | high[i] << 8]++;
	}
	memset(seen, 0, sizeof(seen));
	check(!ordered(rows, 512, ROWS, NULL));
	for (size_t i = 0; i < ROWS; i++)
		seen[back[i]]++;
	for (size_t i = 0; i < ROWS; i++)
		check(seen[i] == 1);
	check(ordered(rows, 511, ROWS, &err) < 0);
	check(ordered(rows, 512, ROWS - 1, &err) < 0);
	check(ordered(rows, 0, ROWS, &err) < 0);
	rows[0]--;
	check(ordered(rows, 512, ROWS, &err) < 0);
	rows[1]++; /* as many rows as there are, but another group has them */
	check(ordered(rows, 512, ROWS, &err) < 0);
	rows[1] = UINT32_MAX;
	check(ordered(rows, 512, ROWS, &err) < 0);
	check(!ordered(NULL, 0, 0, &err));
}

TEST(a_batch_has_a_limit)
{
	struct groups many = {.nr = GROUPED_ROWS_MOST + 1};
	struct group_key wide[] = {
		{.width = 4}, {.width = 4}, {.width = 4}, {.width = 4}, {.width = 1}};
	struct error err;

	check(group_rows(NULL, 0, &many, &err) < 0);
	many.nr = 0;
	check(!group_rows(wide, 4, &many, &err) && group_rows(wide, 5, &many, &err) < 0);
}
