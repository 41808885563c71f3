// SPDX-License-Identifier: Apache-2.0
#include "flips.h"

#include <string.h>

uint64_t flips_draw(struct flips *flips, enum flip_kind kind)
{
	uint64_t random;

	if (*flips->at != flips->row) {
		flips->row = *flips->at;
		memset(flips->nth, 0, sizeof(flips->nth));
	}
	random = mix64(flips->seed * 0x9e3779b97f4a7c15ull + flips->row);
	random = mix64(random ^ ((uint64_t)kind << 32 | flips->nth[kind]++));
	if ((random >> 32) * FLIPS_PER >> 32 >= flips->rates[kind])
		return 0;
	return mix64(random) | 1;
}

frame_nr flip_first(const struct model *m, list_nr list, enum flip_kind kind)
{
	const struct frame *head = &m->frames[list];

	if (!flip_draw(m, kind) || head->next == head->prev)
		return head->next;
	m->flips->drawn[kind]++;
	return head->prev;
}
