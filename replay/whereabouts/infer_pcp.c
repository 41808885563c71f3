// SPDX-License-Identifier: Apache-2.0
/* Pages that left a PCP list without an event, or before it. */
#include "whereabouts.h"

uint64_t taken_since(const struct whereabouts *where, const struct window_event *alloc)
{
	const struct departure *d =
		departure_at(&where->next_events.departures, alloc->frame, alloc->at);

	/* The task's previous event, or an earlier one of its CPU. */
	return d ? d->since : where->ran[alloc->cpu] + 1;
}

bool is_just_freed(const struct whereabouts *where, frame_nr entry)
{
	return where->pushed[entry] == (uint32_t)window_at(where->window, where->window->done)->at;
}

frame_nr find_departed(struct whereabouts *where, const struct pcp *pcp, int type)
{
	const struct model *m = where->m;
	list_nr list = pcp_list(m, pcp, 0, type);
	bool below = false;

	if (!where->next_events.bits)
		return NO_FRAME;
	for (frame_nr entry = m->frames[list].next; entry != list && may_search(where);
	     entry = m->frames[entry].next) {
		bool departs =
			where->pushed[entry] &&
			next_event_of(&where->next_events, where->pushed[entry]) == NEXT_IS_FREE;

		if (departs && below)
			return entry;
		below |= !departs || is_just_freed(where, entry);
	}
	return NO_FRAME;
}

struct window_event *interrupted_alloc(struct whereabouts *where, const struct window_event *event)
{
	int depth = where->depths[event->cpu], within = INTERRUPT_WITHIN;
	struct window_event *s = window_next(where->window, event);

	where->depths[event->cpu] = event_depth(event);
	if (event_depth(event) <= depth || !rule_is_on(RULE_interrupted))
		return NULL;
	while (s && within-- && event_depth(s) >= event_depth(event))
		s = window_next(where->window, s);
	return s && within >= 0 && s->kind == EVENT_KIND_ALLOC && !s->taken &&
			       is_first_entry(where->m, s)
		       ? s
		       : NULL;
}
