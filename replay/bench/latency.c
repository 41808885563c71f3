// SPDX-License-Identifier: Apache-2.0
/*
 * latency - measures how many random page frames this machine can visit per second.
 *
 *	latency FRAMES
 *
 * The program follows a random cycle over all FRAMES, linked as in a free list, and prints the
 * steps per second of CPU time. Each step waits for the one before. A replay is as fast if an
 * event costs one access to an unpredictable page, and nothing else.
 */
#include "model/clock.h"
#include "model/memory.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>

/* xorshift64: the same cycle every time. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* One cycle through all frames (Sattolo). */
static void link_frames(struct frame *frames, uint32_t nr)
{
	uint64_t state = 88172645463325252u;

	for (uint32_t i = 0; i < nr; i++)
		frames[i].next = i;
	for (uint32_t i = nr - 1; i > 0; i--) {
		uint32_t j = (uint32_t)(next_random(&state) % i), next = frames[i].next;

		frames[i].next = frames[j].next;
		frames[j].next = next;
	}
}

int main(int argc, char **argv)
{
	long nr = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	uint32_t frame = 0, window = 0;
	struct frame *frames;
	double begin, end;

	if (nr < 2 || nr > INT32_MAX) {
		fprintf(stderr, "usage: latency FRAMES\n");
		return 2;
	}
	frames = memory_new((size_t)nr * sizeof(*frames));
	if (!frames) {
		fprintf(stderr, "no memory for %ld page frames\n", nr);
		return 1;
	}
	link_frames(frames, (uint32_t)nr);
	begin = cpu_seconds();
	do {
		frame = frames[frame].next;
		window++;
	} while (frame);
	end = cpu_seconds();
	printf("%.0f\n", window / (end - begin));
	memory_free(frames, (size_t)nr * sizeof(*frames));
	return 0;
}
