// SPDX-License-Identifier: Apache-2.0
/* Contiguous pages that are freed together (7.2), in a free run. */
#include "serve_internal.h"

#include "model/contig.h"
#include "model/zone.h"

/*
 * Whether a page is used, and the model's place of it belongs to a larger block. Pages of a block
 * are freed one by one only if the block was split, as vmalloc does: then they are freed together.
 */
static bool is_split(const struct serve *s, frame_nr frame)
{
	uint32_t place = page_map_place(&s->pages, frame), head;

	if (place == NO_FRAME || serve_is_freed_with_others(s, place))
		return false;
	head = block_head(s->model, place);
	return frame_is_live(s->model->frames[head].state) && s->model->frames[head].order;
}

/* The model's place of a page that can be part of a block; else NO_FRAME. */
static uint32_t used_place(const struct serve *s, frame_nr frame)
{
	uint32_t place = page_map_place(&s->pages, frame);
	enum frame_state state;

	if (place == NO_FRAME || serve_is_freed_with_others(s, place))
		return NO_FRAME;
	state = s->model->frames[block_head(s->model, place)].state;
	return state == FRAME_USED || frame_is_live(state) ? place : NO_FRAME;
}

/* Make used pages one block of 2^order, and free it. */
static void free_block(struct serve *s, frame_nr head, int order, bool last)
{
	struct model *m = s->model;

	for (frame_nr frame = head; frame < head + (1u << order); frame++) {
		block_carve(m, frame, 0);
		zone_unmark_live(m, frame, 0);
	}
	block_set_used(m, head, order);
	zone_free_as(m, head, order, last ? &s->request.free : &plain_free);
}

/* Free `pages` pages whose places follow one another, as blocks. */
static void free_places(struct serve *s, uint32_t place, uint32_t pages, bool last)
{
	while (pages) {
		int order = contig_order(s->model, place, pages);

		pages -= 1u << order;
		free_block(s, place, order, last && !pages);
		place += 1u << order;
	}
}

/* The run of a CPU has ended: free its pages. */
static void end_run(struct serve *s, struct contig_run *run, const struct waiting *e)
{
	frame_nr frame = run->first, end = frame + run->pages;

	run->pages = 0;
	while (frame < end) {
		uint32_t place = used_place(s, frame), pages = 1;

		if (place == NO_FRAME) {
			struct waiting single = *e;

			single.frame = frame++;
			single.order = 0;
			serve_commit_free(s, &single, 0);
			continue;
		}
		while (frame + pages < end && used_place(s, frame + pages) == place + pages &&
		       frame_zone(s->model, place + pages) == frame_zone(s->model, place))
			pages++;
		for (uint32_t i = 0; i < pages; i++)
			s->pages.map[frame + i] = MAP_FREED;
		frame += pages;
		free_places(s, place, pages, frame == end);
	}
}

bool serve_contig_free(struct serve *s, const struct waiting *e)
{
	struct contig_run *run = &s->runs[e->moment.cpu];
	bool single = e->kind == EVENT_KIND_FREE && !e->batched && !e->order &&
		      s->undone_at != s->at && !s->request.free.pcp_locked;

	if (run->pages && (!single || run->first + run->pages != e->frame))
		end_run(s, run, e);
	if (!single || !(run->pages || (e->joins && is_split(s, e->frame))))
		return false;
	if (!run->pages)
		run->first = e->frame;
	run->pages++;
	serve_emit_free(s, e);
	if (!e->joins)
		end_run(s, run, e);
	return true;
}
