// SPDX-License-Identifier: Apache-2.0
#include "page_contents.h"

#include "model/memory.h"

#include <errno.h>
#include <string.h>

enum { NO_CONTENT, OLD_CONTENT, HAS_TYPE };

int page_contents_new(struct page_contents *c, const struct model *m, struct error *err)
{
	size_t blocks = m->nr_frames >> m->pageblock_order;

	c->pages = arrays_map(m->arrays, m->nr_frames, sizeof(*c->pages));
	c->blocks = arrays_new(m->arrays, blocks, sizeof(*c->blocks));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	for (uint32_t f = 0; f < m->nr_frames; f++)
		c->pages[f] = m->frames[f].state == FRAME_OLD ? OLD_CONTENT : NO_CONTENT;
	memcpy(c->blocks, m->blocks, blocks * sizeof(*c->blocks));
	return 0;
}

static void leave(struct pageblock *block, int content)
{
	if (content == OLD_CONTENT)
		pageblock_forget_old(block, false);
	else if (content >= HAS_TYPE)
		block->nr_live[content - HAS_TYPE]--;
}

void page_contents_event(struct page_contents *c, const struct model *m, int kind, frame_nr frame,
			 int order, int migratetype)
{
	int content = NO_CONTENT;

	if (kind == EVENT_KIND_ALLOC)
		content = HAS_TYPE + live_type(migratetype);
	else if (kind != EVENT_KIND_FREE)
		return;
	for (uint32_t f = frame; f < frame + (1u << order); f++) {
		struct pageblock *block = &c->blocks[f >> m->pageblock_order];

		leave(block, c->pages[f]);
		c->pages[f] = (uint8_t)content;
		if (content)
			block->nr_live[content - HAS_TYPE]++;
	}
}

void page_contents_end(struct page_contents *c, const struct model *m)
{
	for (uint32_t b = 0; b < m->nr_frames >> m->pageblock_order; b++)
		c->blocks[b].migratetype = m->blocks[b].migratetype;
}
