// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <assert.h>

frame_nr block_head(const struct model *m, frame_nr frame)
{
	frame_nr head = frame;

	for (int order = 0; m->frames[head].state == FRAME_TAIL && order <= m->max_order; order++)
		head = frame & ~((1u << order) - 1);
	return head;
}

bool block_split(struct model *m, frame_nr head, int order)
{
	struct frame *f = m->frames;
	uint32_t block = head;

	if (f[head].state == FRAME_TAIL || f[head].order != order)
		block = block_head(m, head);
	assert(f[block].state == FRAME_USED || frame_is_live(f[block].state));
	if (head & ((1u << order) - 1) || f[block].order < order)
		return false;
	while (f[block].order > order) {
		int half = f[block].order - 1;
		frame_nr upper = block + (1u << half);

		f[upper].state = f[block].state;
		f[upper].list = f[block].list;
		f[upper].next = NO_FRAME;
		f[upper].order = f[block].order = (uint8_t)half;
		block = head < upper ? block : upper;
	}
	return true;
}
