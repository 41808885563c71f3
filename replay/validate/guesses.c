// SPDX-License-Identifier: Apache-2.0
/* Guesses of the start that no event has replaced so far. */
#include "predict.h"

bool is_guess(const struct validate *v, uint32_t head)
{
	return v->guesses && v->guesses[head / 64] >> head % 64 & 1;
}

bool is_unknown(const struct validate *v, uint32_t frame)
{
	uint32_t head;

	if (!v->guesses)
		return false;
	head = block_head(v->m, frame);
	return v->m->frames[head].state == FRAME_OLD || is_guess(v, head);
}

bool is_size_unknown(const struct validate *v, const struct zone *zone)
{
	return v->guesses && zone->pcp_unseen;
}
