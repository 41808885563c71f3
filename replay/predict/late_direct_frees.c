// SPDX-License-Identifier: Apache-2.0
/* Frees past the PCP whose chunks join the free lists after events of other tasks. */
#include "predict.h"

#include "model/buddy.h"
#include "model/force_state.h"
#include "model/vmstat_diff.h"

void note_direct_free(struct validate *v, const struct window_event *event)
{
	const struct frame *f = v->m->frames;
	const struct window_event *next = window_next(&v->window, event);
	struct direct_free *late = &v->direct_frees[event->cpu];
	frame_nr head = event->frame;

	late->free = *event;
	late->by = preempted_free_resumed(&v->whereabouts.next_events.departures.frees, event->at);
	if (!late->by)
		late->by = next ? next->at : UINT64_MAX;
	for (int order = 0; order < NR_PAGE_ORDERS; order++)
		late->behind[order] = NO_FRAME;
	for (int order = event->order; order < v->m->max_order; order++) {
		frame_nr buddy = head ^ (1u << order);

		if (f[buddy].state != FRAME_FREE || f[buddy].order != order)
			break;
		late->behind[order] = f[buddy].prev;
		head &= buddy;
	}
}

struct direct_free *late_direct_free(const struct validate *v, frame_nr frame,
				     const struct window_event *before)
{
	const struct model *m = v->m;
	frame_nr chunk;

	if (frame == NO_FRAME)
		return NULL;
	chunk = block_head(m, frame);
	for (int other = 0; other < m->nr_cpus; other++) {
		struct direct_free *late = &v->direct_frees[other];

		if (late->by > before->at && m->frames[chunk].state == FRAME_FREE &&
		    m->frames[chunk].order >= late->free.order &&
		    block_head(m, late->free.frame) == chunk)
			return late;
	}
	return NULL;
}

void unmerge_late(struct validate *v, const struct direct_free *late)
{
	struct model *m = v->m;
	frame_nr head = late->free.frame;
	int merged = m->frames[block_head(m, head)].order;

	force_used(m, head, late->free.order);
	vmstat_diff_add(m, frame_zone(m, head), -(1 << late->free.order));
	for (int order = late->free.order; order < merged; order++) {
		frame_nr buddy = head ^ (1u << order);

		move_behind(m, buddy, late->behind[order]);
		head &= buddy;
	}
}
