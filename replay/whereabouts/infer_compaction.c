// SPDX-License-Identifier: Apache-2.0
/* What the events show of the pages that compaction has. */
#include "whereabouts.h"

int left_for_compaction(const struct whereabouts *where, frame_nr head)
{
	const struct window_event *next = window_find_frame(where->window, NULL, head);

	if (!next)
		return 0;
	return event_frees(where->m, next) ? 1 : -1;
}

/*
 * Whether a freed target of migration was in use: its owner released it while the migrating task
 * still held it, and the free returns it to the allocator. A page that returns to compaction has
 * two frees in a row instead: this one, and a later one.
 */
static bool was_used(const struct whereabouts *where, const struct window_event *free)
{
	enum next_event next_event = next_event_of(&where->next_events, free->at);

	return free->kind == EVENT_KIND_FREE_BATCHED || next_event == NEXT_FROM_PCP ||
	       next_event == NEXT_FROM_BUDDY;
}

bool is_given_back(const struct whereabouts *where, const struct window_event *event,
		   const struct compactor *task)
{
	const struct frame *f = &where->m->frames[block_head(where->m, event->frame)];
	const struct window_event *next;

	if (!task || !task->migrating || f->state == FRAME_OLD)
		return false;
	if (f->state == FRAME_USED)
		return task->run && f->list == ISOLATED && f->next == task->run &&
		       !was_used(where, event);
	/* The model missed that the page was taken. A source stays in use until its free. */
	next = window_find_frame(where->window, NULL, event->frame);
	return !next || next->kind == EVENT_KIND_FREE;
}
