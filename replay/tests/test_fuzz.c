// SPDX-License-Identifier: Apache-2.0
/*
 * Hostile tapes, the same in each run: random bytes, mostly small ones, and such inputs with a
 * few bytes changed. `replay_test_fuzz N` plays N tapes; `make fuzz` searches with libFuzzer.
 */
#include "check.h"
#include "hostile_tape.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS = 500, MAX_SIZE = 12288 };

static uint64_t state = 88172645463325252u;
static int runs = RUNS;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void make(uint8_t *data, size_t size)
{
	uint64_t mask = next_random() % 4 ? 0xff : 0x1f;

	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(next_random() >> 32 & mask);
}

static void change(uint8_t *data, size_t size)
{
	for (uint64_t n = 1 + next_random() % 16; n; n--)
		data[next_random() % size] = (uint8_t)(next_random() >> 32);
}

TEST(hostile_tapes_are_refused_or_played)
{
	uint8_t data[MAX_SIZE] = {0};
	size_t size = 1;

	for (int i = 0; i < runs; i++) {
		if (i % (4 * NR_HOSTILE_RUN) == 0) {
			size = 1 + next_random() % MAX_SIZE;
			make(data, size);
		} else {
			change(data, size);
		}
		check(!hostile_tape_play(i % NR_HOSTILE_RUN, data, size));
	}
}

int main(int argc, char **argv)
{
	if (argc == 2)
		runs = atoi(argv[1]);
	return check_run();
}
