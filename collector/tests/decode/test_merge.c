// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "decode/merge.h"

enum { SOURCES = 7, RECORDS = 100 };

/* A sequence that looks random and is the same in every run. */
static unsigned next_random(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 16;
}

/* SOURCES sorted lists with many equal times, of different lengths. */
static void fill(uint64_t ts[SOURCES][RECORDS], size_t nr[SOURCES])
{
	unsigned state = 1;

	for (size_t s = 0; s < SOURCES; s++) {
		uint64_t at = next_random(&state) % 8;

		nr[s] = s == 3 ? 0 : RECORDS - s;
		for (size_t i = 0; i < nr[s]; i++) {
			ts[s][i] = at;
			at += next_random(&state) % 4;
		}
	}
}

TEST(records_come_out_by_time_and_then_by_source)
{
	struct merge_head heap[SOURCES], last = {0, 0};
	struct merge m = {.heap = heap};
	uint64_t ts[SOURCES][RECORDS];
	size_t nr[SOURCES], taken[SOURCES] = {0}, all = 0, out = 0;

	fill(ts, nr);
	for (size_t s = SOURCES; s-- > 0;) {
		all += nr[s];
		if (nr[s])
			merge_add(&m, s, ts[s][0]);
	}
	while (m.nr) {
		struct merge_head head = m.heap[0];
		size_t s = head.source;

		check(head.ts == ts[s][taken[s]]);
		check(!merge_before(head, last));
		last = head;
		out++;
		if (++taken[s] < nr[s])
			merge_advance(&m, ts[s][taken[s]]);
		else
			merge_drop(&m);
	}
	check(out == all);
}

TEST(a_source_that_was_dropped_can_come_back)
{
	struct merge_head heap[2];
	struct merge m = {.heap = heap};

	merge_add(&m, 0, 10);
	merge_add(&m, 1, 20);
	merge_drop(&m);
	check(m.nr == 1 && m.heap[0].source == 1);
	merge_add(&m, 0, 20);
	check(m.heap[0].source == 0);
}
