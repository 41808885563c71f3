// SPDX-License-Identifier: Apache-2.0
/* Entries of the PCP lists: the events that show their place, and their removal. */
#include "whereabouts.h"

#include "model/scan_effects.h"
#include "model/zone.h"

enum { NO_REPAIR = -1 };

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

	return next && (next->kind == EVENT_KIND_FREE || next->kind == EVENT_KIND_FREE_BATCHED);
}

list_nr list_of_entry(const struct model *m, const struct pcp *pcp,
		      const struct window_event *drain)
{
	const struct frame *f = m->frames;
	frame_nr entry = drain->frame;

	if (f[entry].state != FRAME_PCP || &m->pcps[f[entry].list] != pcp)
		return pcp_list(m, pcp, drain->order, drain->migratetype);
	while (entry < m->nr_frames)
		entry = f[entry].prev;
	return entry;
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

bool is_first_entry(const struct model *m, const struct window_event *alloc, struct pcp **pcp)
{
	struct request rq = {.gfp_flags = alloc->gfp_flags,
			     .order = alloc->order,
			     .migratetype = alloc->migratetype};

	if (!pcp_allowed(m, alloc->order) || alloc->migratetype > MIGRATETYPE_RECLAIMABLE)
		return false;
	*pcp = zone_pcp(m, frame_zone(m, alloc->frame), alloc->cpu);
	return pcp_first(m, *pcp, &rq) == alloc->frame &&
	       m->frames[alloc->frame].order == alloc->order;
}

/* What each cause of a removal comes to. */
static const struct {
	bool emits;    /* a row of `inferred` */
	bool is_alloc; /* it counts for the size of the next refill or drain */
	bool marks;    /* the scan effects of its request, which the model has not had yet */
	bool forgets;  /* pushed[] no longer has the last free of the page */
	uint16_t list; /* of the used page: why it is used */
	int repair;    /* REPAIR_CAUSE_*, or NO_REPAIR */
} removals[] = {
	[REMOVED_FOR_ALLOC] = {.is_alloc = true, .repair = NO_REPAIR},
	[REMOVED_EARLY] =
		{
			.emits = true,
			.is_alloc = true,
			.marks = true,
			.repair = REPAIR_CAUSE_LATE_ALLOC,
		},
	[REMOVED_PREEMPTED] =
		{
			.emits = true,
			.is_alloc = true,
			.marks = true,
			.forgets = true,
			.list = AWAITS_ALLOC,
			.repair = REPAIR_CAUSE_LATE_ALLOC,
		},
	[REMOVED_UNSEEN] = {.emits = true, .list = NO_ALLOC, .repair = REPAIR_CAUSE_UNTRACED_ALLOC},
	[REMOVED_LATE_FREE] = {.forgets = true, .repair = NO_REPAIR},
};

/* The later of two rows. */
static uint64_t max_row(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static void emit_removal(struct whereabouts *where, frame_nr entry, const struct removed *removed)
{
	struct inferred row = {.at = removed->at,
			       .since = max_row(removed->since, since_entry(where->score, entry))};

	if (!removed->alloc) {
		row.kind = INFERRED_KIND_ALLOC;
		row.cpu = where->m->pcps[where->m->frames[entry].list].cpu;
		row.frame = entry;
		row.order = where->m->frames[entry].order;
		row.migratetype = removed->migratetype > MIGRATETYPE_RECLAIMABLE
					  ? MIGRATETYPE_MOVABLE
					  : (uint8_t)removed->migratetype;
	}
	emit_inferred(where->score, row, removed->alloc);
}

void remove_entry(struct whereabouts *where, frame_nr entry, enum removal why,
		  const struct removed *removed)
{
	struct model *m = where->m;
	struct frame *f = &m->frames[entry];
	struct pcp *pcp = &m->pcps[f->list];
	struct zone *zone = &m->zones[pcp->zone];

	if (removals[why].emits)
		emit_removal(where, entry, removed);
	if (removals[why].marks) {
		struct request rq = request_of(m, removed->alloc);

		zone_scan_effects(m, &rq, zone, false);
	}
	if (removals[why].is_alloc) {
		pcp->touched = true;
		pcp->free_count >>= 1;
		pcp->free_factor >>= 1;
	}
	pcp_remove(m, pcp, entry);
	f->state = FRAME_USED;
	f->list = removals[why].list;
	if (f->list == NO_ALLOC)
		f->next = NO_FRAME;
	if (removals[why].forgets)
		where->pushed[entry] = 0;
	if (removals[why].repair != NO_REPAIR)
		accuracy_repair(&where->score->accuracy, zone, removals[why].repair,
				1ull << f->order);
}

void saw_pcp_page(struct whereabouts *where, const struct window_event *event)
{
	struct zone *zone = frame_zone(where->m, event->frame);
	uint64_t pages = 1ull << event->order;

	if (place_of(where->m, event->frame) == PLACE_UNKNOWN &&
	    pcp_allowed(where->m, event->order))
		zone->pcp_unseen -= zone->pcp_unseen < pages ? zone->pcp_unseen : pages;
}
