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

static uint8_t low[ROWS], high[ROWS], first[ROWS];
static uint16_t place[ROWS];

/* Rows of random groups; some keys are null. */
static void grouped(unsigned kinds, unsigned cpus)
{
	static uint8_t kinds_of[3 + ROWS], valid_of[ROWS / 8 + 2], valid[ROWS / 8 + 1];
	static uint16_t cpu[ROWS];
	struct group_key keys[] = {
		{.values = kinds_of, .width = 1, .valid = valid_of, .offset = 3},
		{.values = cpu, .width = 2},
	};
	uint8_t *kind = kinds_of + 3;
	uint16_t last = 0;

	memset(valid, 0, sizeof(valid));
	memset(valid_of, 0, sizeof(valid_of));
	for (size_t i = 0; i < ROWS; i++) {
		kind[i] = (uint8_t)any(kinds);
		cpu[i] = (uint16_t)any(cpus);
		if (any(8)) {
			set_valid(valid, i);
			set_valid(valid_of, 3 + i);
		} else {
			kind[i] = 0;
		}
	}
	check(!group_rows(keys, 2, ROWS, low, high, NULL));
	check(!group_order(low, high, ROWS, place, first, NULL));

	/* Each row has one place, rows of a group stand in the order of time, and are equal. */
	for (size_t i = 0; i < ROWS; i++) {
		check(first[i] == (i == 0 || low[place[i]] != low[place[i - 1]] ||
				   high[place[i]] != high[place[i - 1]]));
		check(first[i] || place[i - 1] < place[i]);
		check(first[i] ||
		      (kind[place[i]] == kind[place[i - 1]] && cpu[place[i]] == cpu[place[i - 1]] &&
		       is_valid(valid, place[i]) == is_valid(valid, place[i - 1])));
		if (first[i] && i) {
			check(place[i] > last); /* numbered by their first rows */
			last = place[i];
		}
	}
}

static void rows_of_a_group_stand_together_in_the_order_of_time(void)
{
	grouped(6, 2);
	grouped(6, 700);
	grouped(1, 1);
}

static void values_come_back(void)
{
	static uint64_t in[ROWS], between[ROWS], out[ROWS];
	static uint8_t bits[ROWS / 8 + 2], there[ROWS / 8 + 1], back[ROWS / 8 + 1];

	grouped(6, 50);
	for (int width = 1; width <= 8; width *= 2) {
		for (size_t i = 0; i < ROWS; i++)
			in[i] = random_state * (i + 1);
		group_values(width, in, place, ROWS, between);
		ungroup_values(width, between, place, ROWS, out);
		check(!memcmp(in, out, (size_t)width * ROWS));
	}
	for (size_t i = 0; i < sizeof(bits); i++)
		bits[i] = (uint8_t)any(256);
	memset(there, 0, sizeof(there));
	memset(back, 0, sizeof(back));
	group_bits(bits, 3, place, ROWS, there);
	ungroup_bits(there, 0, place, ROWS, back);
	for (size_t i = 0; i < ROWS; i++)
		check(is_valid(back, i) == is_valid(bits, 3 + i));
}

/* What a pfn beyond 2^32, a pause of an hour or a clock that was set back would need. */
static void differences_of_any_size_come_back(void)
{
	static const uint64_t jumps[] = {1, (uint64_t)1 << 31, (uint64_t)1 << 40, UINT64_MAX};
	static uint64_t in[ROWS], between[ROWS], out[ROWS];
	static uint8_t bytes[GROUPED_LOW_BYTES][ROWS], valid[ROWS / 8 + 1], stored[ROWS / 8 + 1];
	static uint32_t top[ROWS];
	struct differences of = {.high = top};

	for (int b = 0; b < GROUPED_LOW_BYTES; b++)
		of.low[b] = bytes[b];
	grouped(6, 50);
	for (int nulls = 0; nulls < 2; nulls++) {
		memset(valid, 0, sizeof(valid));
		memset(stored, 0, sizeof(stored));
		for (size_t i = 0; i < ROWS; i++) {
			in[i] = (i ? in[i - 1] : any(UINT64_MAX)) + jumps[any(4)] * any(1000);
			if (!nulls || any(3))
				set_valid(valid, i);
		}
		group_bits(valid, 0, place, ROWS, stored);
		of.valid = nulls ? stored : NULL;
		group_values(8, in, place, ROWS, between);
		group_differences(between, first, ROWS, &of);
		ungroup_differences(&of, place, first, ROWS, out);
		for (size_t i = 0; i < ROWS; i++)
			check(out[i] == (is_valid(valid, i) ? in[i] : 0));
	}
}

static void a_steady_column_is_bytes_of_zeros(void)
{
	static uint64_t in[ROWS];
	static uint8_t bytes[GROUPED_LOW_BYTES][ROWS];
	static uint32_t top[ROWS];
	struct differences of = {{bytes[0], bytes[1], bytes[2], bytes[3]}, top, NULL};

	grouped(6, 2);
	for (size_t i = 0; i < ROWS; i++)
		in[i] = 77;
	group_differences(in, first, ROWS, &of);
	for (size_t i = 1; i < ROWS; i++)
		check(!bytes[0][i] && !bytes[1][i] && !bytes[2][i] && !bytes[3][i] && !top[i]);
	check(bytes[0][0] == 154); /* folded: twice, and the sign in the lowest bit */
}

static void any_numbers_give_an_order(void)
{
	static uint8_t seen[ROWS];

	for (size_t i = 0; i < ROWS; i++) {
		low[i] = (uint8_t)any(256);
		high[i] = (uint8_t)any(256);
	}
	memset(seen, 0, sizeof(seen));
	check(!group_order(low, high, ROWS, place, first, NULL));
	for (size_t i = 0; i < ROWS; i++)
		seen[place[i]]++;
	for (size_t i = 0; i < ROWS; i++)
		check(seen[i] == 1);
	check(!group_order(low, high, 0, place, first, NULL));
}

static void a_batch_has_a_limit(void)
{
	struct error err;

	check(group_rows(NULL, 0, GROUPED_ROWS_MOST + 1, NULL, NULL, &err) < 0);
}

int main(void)
{
	test(rows_of_a_group_stand_together_in_the_order_of_time);
	test(values_come_back);
	test(differences_of_any_size_come_back);
	test(a_steady_column_is_bytes_of_zeros);
	test(any_numbers_give_an_order);
	test(a_batch_has_a_limit);
	return check_done();
}
