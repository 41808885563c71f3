// SPDX-License-Identifier: Apache-2.0
/* Entries of the PCP lists: the events that show their place. */
#include "whereabouts.h"

#include "model/zone.h"

struct window_event *find_alloc(const struct whereabouts *where, const struct window_event *after,
				frame_nr frame, int order, int within)
{
	for (struct window_event *s = window_next(where->window, after); s && within--;
	     s = window_next(where->window, s)) {
		if (s->frame != frame || s->taken)
			continue;
		return s->kind == EVENT_KIND_ALLOC && s->order == order ? s : NULL;
	}
	return NULL;
}

bool is_freed_next(const struct whereabouts *where, frame_nr frame)
{
	const struct window_event *next = window_find_frame(where->window, NULL, frame);

	return next && event_frees(where->m, next);
}

list_nr list_of_entry(const struct model *m, const struct pcp *pcp,
		      const struct window_event *drain)
{
	const struct frame *f = m->frames;
	frame_nr up = drain->frame, down = up;

	if (f[up].state != FRAME_PCP || &m->pcps[f[up].list] != pcp)
		return pcp_list(m, pcp, drain->order, drain->migratetype);
	/* Both ways: most drained pages are at the tail of a list that may be long. */
	while (up < m->nr_frames && down < m->nr_frames) {
		up = f[up].prev;
		down = f[down].next;
	}
	return up < m->nr_frames ? down : up;
}

/*
 * Whether an entry may have left its list by now: it has no later event, or its next event is a
 * free. If so, lower entries could leave after it was added.
 */
static bool may_have_left(const struct whereabouts *where, frame_nr entry)
{
	enum next_event next_event;

	if (!where->next_events.bits)
		return false;
	next_event = next_event_of(&where->next_events, row_of(where, where->pushed[entry]));
	return next_event == NEXT_IS_FREE || next_event == NEXT_NONE;
}

uint64_t left_before(const struct whereabouts *where, frame_nr entry)
{
	frame_nr above = where->m->frames[entry].prev;

	while (above < where->m->nr_frames && where->pushed[above] && may_have_left(where, above))
		above = where->m->frames[above].prev;
	if (above >= where->m->nr_frames || !where->pushed[above])
		return 0;
	return row_of(where, where->pushed[above]);
}

bool is_first_entry(const struct model *m, const struct window_event *alloc)
{
	struct request rq = {.gfp_flags = alloc->gfp_flags,
			     .order = alloc->order,
			     .migratetype = alloc->migratetype};

	if (!pcp_allowed(m, alloc->order) || alloc->migratetype > MIGRATETYPE_RECLAIMABLE)
		return false;
	return pcp_first(m, zone_pcp(m, frame_zone(m, alloc->frame), alloc->cpu), &rq) ==
		       alloc->frame &&
	       m->frames[alloc->frame].order == alloc->order;
}
