// SPDX-License-Identifier: Apache-2.0
/* Guesses of the start that no event has replaced so far. */
#include "score.h"

#include "model/memory.h"

int guesses_new(struct score *s, struct error *err)
{
	const struct model *m = s->m;
	bool guessed = false;

	for (int i = 0; i < m->nr_zones; i++)
		guessed |= m->zones[i].guessed;
	if (!guessed)
		return 0;
	s->guesses = arrays_new(m->arrays, m->nr_frames / 64 + 1, sizeof(*s->guesses));
	if (!s->guesses)
		return arrays_error(m->arrays, err);
	for (frame_nr head = 0; head < m->nr_frames; head += 1u << m->frames[head].order)
		if (m->frames[head].state == FRAME_FREE && frame_zone(m, head)->guessed)
			s->guesses[head / 64] |= 1ull << head % 64;
	return 0;
}

bool is_guess(const struct score *s, frame_nr head)
{
	return s->guesses && s->guesses[head / 64] >> head % 64 & 1;
}

bool is_unknown(const struct score *s, frame_nr frame)
{
	frame_nr head;

	if (!s->guesses)
		return false;
	head = block_head(s->m, frame);
	return s->m->frames[head].state == FRAME_OLD || is_guess(s, head);
}

bool is_size_unknown(const struct score *s, const struct zone *zone)
{
	return s->guesses && zone->pcp_unseen;
}
