// SPDX-License-Identifier: Apache-2.0
/* Contiguous pages that are freed together (7.2). */
#include "predict.h"

#include "model/contig.h"

/* The free of the next page, if the task may have freed it together with this one; or NULL. */
static struct window_event *next_of_run(const struct validate *v, const struct window_event *event)
{
	struct window_event *next = window_next(&v->window, event);
	int within = INTERRUPT_WITHIN;

	while (next && within-- && event_depth(next) > event_depth(event))
		next = window_next(&v->window, next);
	if (!next || next->kind != EVENT_KIND_FREE || next->order || next->batched || next->taken ||
	    next->pid != event->pid || event_depth(next) != event_depth(event) ||
	    next->frame != event->frame + 1 ||
	    frame_zone(v->m, next->frame) != frame_zone(v->m, event->frame))
		return NULL;
	return next;
}

/* The order of the next event of a page, if that takes the page off a PCP list; or -1. */
static int shown_order(const struct validate *v, const struct window_event *after, frame_nr frame)
{
	const struct window_event *next = window_find_frame(&v->window, after, frame);

	if (!next || (next->kind != EVENT_KIND_ALLOC && next->kind != EVENT_KIND_PCPU_DRAIN))
		return -1;
	return next->order;
}

/*
 * The order of the next block of a run, `pages` before its end. Two runs of adjacent pages look
 * like one; a later event of a smaller block shows it.
 */
static int block_order(const struct validate *v, const struct window_event *last, frame_nr frame,
		       uint32_t pages)
{
	int order = contig_order(v->m, frame, pages), shown = shown_order(v, last, frame);

	return shown >= 0 && shown < order ? shown : order;
}

/*
 * Whether a run was freed together. A later event of one of its blocks shows it. Without such an
 * event, used pages of one larger allocation count as such: they were split, as vmalloc does.
 */
static bool is_freed_together(const struct validate *v, const struct window_event *first,
			      const struct window_event *last)
{
	const struct model *m = v->m;
	const struct frame *block = &m->frames[block_head(m, first->frame)];

	for (frame_nr frame = first->frame; frame <= last->frame;) {
		int order = contig_order(m, frame, last->frame + 1 - frame);
		int shown = order ? shown_order(v, last, frame) : -1;

		if (shown < 0 && order)
			shown = shown_order(v, last, frame + 1) ? -1 : 0;
		if (shown >= 0)
			return shown > 0;
		frame += 1u << order;
	}
	return block->order && (block->state == FRAME_USED || frame_is_live(block->state));
}

/* The first page of a run: judge the run. Returns whether its pages are freed with the last one. */
static bool judge_run(struct validate *v, struct window_event *first)
{
	struct window_event *last = first, *next;
	uint32_t pages = 1;
	bool together;

	for (; pages < RUN_MAX && (next = next_of_run(v, last)); last = next)
		pages++;
	if (last == first)
		return false;
	together = is_freed_together(v, first, last);
	for (struct window_event *s = first;; s = next_of_run(v, s)) {
		s->judged = true;
		if (together)
			v->whereabouts.pushed[s->frame] = (uint32_t)s->at;
		if (s == last)
			break;
	}
	if (!together)
		return false;
	last->run = (uint16_t)pages;
	for (struct window_event *s = first; s != last; s = next) {
		next = next_of_run(v, s);
		s->taken = true;
	}
	return true;
}

/* The pages of a block that the model had in other places were used: the record frees them. */
static void settle_pages(struct validate *v, frame_nr head, int order)
{
	for (frame_nr frame = head; frame < head + (1u << order); frame++) {
		uint32_t block = block_head(v->m, frame);

		if (v->m->frames[block].state == FRAME_PCP)
			take_buried(v, block);
		if (v->m->frames[frame].state == FRAME_USED)
			resolve_pending_miss(&v->score, frame, true);
	}
}

/* The last page of a run: free its blocks. A block's drain comes before the next block. */
static void free_blocks(struct validate *v, struct window_event *last)
{
	uint32_t end = last->frame + 1, frame = end - last->run;
	struct asked_drain *asked = &v->asked[last->cpu];

	while (frame < end) {
		struct window_event *drain;

		last->frame = frame;
		last->order = (uint8_t)block_order(v, last, frame, end - frame);
		frame += 1u << last->order;
		settle_pages(v, last->frame, last->order);
		asked->at = 0;
		predict_free(v, last);
		if (frame == end || !asked->at)
			continue;
		drain = following_drain(v, last, frame_zone(v->m, last->frame));
		if (asked->pages && drain && drain->at == asked->at)
			predict_drain(v, drain);
		asked->at = 0;
	}
	last->frame = end - 1;
	last->order = 0;
}

void predict_contig_free(struct validate *v, struct window_event *event)
{
	if (!event->judged && event->kind == EVENT_KIND_FREE && !event->batched &&
	    judge_run(v, event))
		return;
	if (event->run)
		free_blocks(v, event);
	else
		predict_free(v, event);
}
