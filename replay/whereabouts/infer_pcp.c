// SPDX-License-Identifier: Apache-2.0
/* Pages that left a PCP list without an event, or before it. */
#include "whereabouts.h"

#include "model/buddy.h"

void take_early(struct whereabouts *where, struct window_event *alloc)
{
	const struct departure *d =
		departure_at(&where->next_events.departures, alloc->frame, alloc->at);
	/* The task's previous event, or an earlier one of its CPU. */
	uint64_t since = d ? d->since : where->ran[alloc->cpu] + 1;

	remove_entry(where, alloc->frame, REMOVED_EARLY,
		     &(struct removed){.alloc = alloc, .since = since});
	alloc->taken = alloc->exact = true;
}

void take_unseen(struct whereabouts *where, frame_nr entry, int migratetype, uint64_t at)
{
	remove_entry(where, entry, REMOVED_UNSEEN,
		     &(struct removed){.at = at, .migratetype = migratetype});
}

/* The list of a PCP entry, or NO_FRAME if it is not found. */
static list_nr list_of(struct whereabouts *where, frame_nr entry)
{
	while (entry < where->m->nr_frames && may_search(where))
		entry = where->m->frames[entry].prev;
	return entry < where->m->nr_frames ? NO_FRAME : entry;
}

void take_down_to(struct whereabouts *where, frame_nr top, frame_nr entry)
{
	const struct model *m = where->m;
	uint64_t at = left_before(where, top);
	list_nr list = list_of(where, top);

	for (bool last = false; !last;) {
		uint32_t next = m->frames[top].next;
		const struct departure *d = preempted_alloc(where, list, top);

		last = top == entry;
		if (d)
			take_preempted(where, d, at);
		else
			take_unseen(where, top, frame_block(m, top)->migratetype, at);
		top = next;
	}
}

void take_buried(struct whereabouts *where, frame_nr entry)
{
	const struct model *m = where->m;
	frame_nr top = entry, above;

	while ((above = m->frames[top].prev) < m->nr_frames && !where->pushed[above])
		top = above;
	take_down_to(where, top, entry);
}

bool take_inferred(struct whereabouts *where, const struct window_event *event, struct pcp *pcp,
		   frame_nr entry, int migratetype)
{
	int order = where->m->frames[entry].order;
	struct window_event *alloc = find_alloc(where, event, entry, order, LATE_WITHIN);
	const struct departure *d;

	if (alloc) {
		take_early(where, alloc);
		return true;
	}
	d = preempted_alloc(where, pcp_list(where->m, pcp, order, migratetype), entry);
	if (d) {
		take_preempted(where, d, 0);
		return true;
	}
	take_unseen(where, entry, migratetype, 0);
	return is_freed_next(where, entry);
}

/* Whether the free that runs has put an entry onto its list. */
static bool is_just_freed(const struct whereabouts *where, frame_nr entry)
{
	return where->pushed[entry] == (uint32_t)window_at(where->window, where->window->done)->at;
}

/*
 * Find an entry whose next event is a free, below an entry with another next event: the lower one
 * was allocated before the free of the upper one. Entries on top may be allocated later.
 */
static frame_nr find_departed(struct whereabouts *where, const struct pcp *pcp, int type)
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

/* Top entries of the lists whose next event is a free, and soon. */
static void take_freed_next(struct whereabouts *where, struct pcp *pcp)
{
	struct model *m = where->m;

	for (int type = MIGRATETYPE_UNMOVABLE; type <= MIGRATETYPE_RECLAIMABLE; type++) {
		list_nr list = pcp_list(m, pcp, 0, type), next;
		int left = FIRST_ENTRIES;

		for (frame_nr entry = m->frames[list].next; entry != list && left--; entry = next) {
			next = m->frames[entry].next;
			if (is_freed_next(where, entry) && !is_just_freed(where, entry))
				take_unseen(where, entry, type, 0);
		}
	}
}

bool take_proved(struct whereabouts *where, struct pcp *pcp)
{
	static const uint8_t types[] = {MIGRATETYPE_MOVABLE, MIGRATETYPE_UNMOVABLE,
					MIGRATETYPE_RECLAIMABLE};
	int before = pcp->count;

	if (!rule_is_on(RULE_proved))
		return false;
	if (is_size_unknown(where->score, &where->m->zones[pcp->zone]))
		return false;
	for (int i = 0; i < 3 && pcp->count == before; i++) {
		frame_nr entry = find_departed(where, pcp, types[i]);

		if (entry != NO_FRAME)
			take_unseen(where, entry, types[i], left_before(where, entry));
	}
	if (pcp->count == before)
		take_freed_next(where, pcp);
	if (pcp->count == before)
		take_back_latest(where, pcp);
	if (pcp->count == before)
		take_likely_preempted(where, pcp);
	return pcp->count < before;
}

void settle_interrupted(struct whereabouts *where, const struct window_event *event)
{
	int depth = where->depths[event->cpu], within = INTERRUPT_WITHIN;
	struct window_event *s = window_next(where->window, event);
	struct pcp *pcp;

	where->depths[event->cpu] = event_depth(event);
	if (event_depth(event) <= depth || !rule_is_on(RULE_interrupted))
		return;
	while (s && within-- && event_depth(s) >= event_depth(event))
		s = window_next(where->window, s);
	if (!s || within < 0 || s->kind != EVENT_KIND_ALLOC || s->taken ||
	    !is_first_entry(where->m, s, &pcp))
		return;
	take_early(where, s);
}
