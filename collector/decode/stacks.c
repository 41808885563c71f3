// SPDX-License-Identifier: Apache-2.0
#include "stacks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 * MAX_STACKS };

struct stack {
	uint64_t hash;
	size_t first; /* in frames[] */
	int nr;
};

struct stacks {
	uint32_t slots[SLOTS]; /* open addressing by hash: number + 1, or 0 */
	uint32_t nr;
	size_t nr_frames, room; /* of frames[] */
	uint64_t *frames;
	struct stack stacks[MAX_STACKS];
	pthread_mutex_t lock; /* frames[] moves as it grows */
};

struct stacks *stacks_new(void)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (stacks)
		pthread_mutex_init(&stacks->lock, NULL);
	return stacks;
}

void stacks_free(struct stacks *stacks)
{
	if (!stacks)
		return;
	pthread_mutex_destroy(&stacks->lock);
	free(stacks->frames);
	free(stacks);
}

static uint64_t hash_of(const uint64_t *frames, int nr)
{
	uint64_t hash = (uint64_t)nr;

	for (int i = 0; i < nr; i++) {
		hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash;
}

static uint32_t append(struct stacks *s, uint64_t hash, const uint64_t *frames, int nr)
{
	size_t needed = s->nr_frames + (size_t)nr;

	if (s->nr == MAX_STACKS)
		return STACK_UNKNOWN;
	pthread_mutex_lock(&s->lock);
	if (needed > s->room) {
		size_t room = 2 * needed;
		uint64_t *more = reallocarray(s->frames, room, sizeof(*more));

		if (!more) {
			pthread_mutex_unlock(&s->lock);
			return STACK_UNKNOWN;
		}
		s->frames = more;
		s->room = room;
	}
	memcpy(s->frames + s->nr_frames, frames, (size_t)nr * sizeof(*frames));
	s->stacks[s->nr] = (struct stack){hash, s->nr_frames, nr};
	s->nr_frames = needed;
	s->nr++;
	pthread_mutex_unlock(&s->lock);
	return s->nr - 1;
}

uint32_t stacks_add(struct stacks *s, const uint64_t *frames, int nr)
{
	uint64_t hash;
	size_t at;

	nr = nr < STACK_FRAMES ? nr : STACK_FRAMES;
	if (nr <= 0)
		return STACK_UNKNOWN;
	hash = hash_of(frames, nr);
	for (at = hash % SLOTS; s->slots[at]; at = (at + 1) % SLOTS) {
		const struct stack *known = &s->stacks[s->slots[at] - 1];

		if (known->hash == hash && known->nr == nr &&
		    !memcmp(s->frames + known->first, frames, (size_t)nr * sizeof(*frames)))
			return s->slots[at] - 1;
	}
	s->slots[at] = append(s, hash, frames, nr) + 1; /* STACK_UNKNOWN leaves it free */
	return s->slots[at] - 1;
}

int stacks_get(struct stacks *s, uint32_t number, uint64_t frames[STACK_FRAMES])
{
	int nr = -1;

	pthread_mutex_lock(&s->lock);
	if (number < s->nr) {
		const struct stack *known = &s->stacks[number];

		nr = known->nr;
		memcpy(frames, s->frames + known->first, (size_t)nr * sizeof(*frames));
	}
	pthread_mutex_unlock(&s->lock);
	return nr;
}
