// SPDX-License-Identifier: Apache-2.0
/*
 * Pages that left their PCP lists long before their alloc events, because the kernel preempted
 * their tasks in between: see tape/departures.h.
 */
#include "whereabouts.h"

static uint64_t running_row(const struct whereabouts *where)
{
	return window_at(where->window, where->window->done)->at;
}

bool may_be_at(const struct departure *d, uint64_t at)
{
	return at >= d->since && at <= d->until;
}

const struct departure *preempted_alloc(struct whereabouts *where, list_nr list, frame_nr entry)
{
	const struct model *m = where->m;
	uint64_t row = running_row(where);
	const struct departure *d = departure_of(&where->next_events.departures, entry, row);

	if (!rule_is_on(RULE_preempted))
		return NULL;
	if (!d || d->kind != EVENT_KIND_ALLOC || !may_be_at(d, row) ||
	    d->order != m->frames[entry].order || d->migratetype > MIGRATETYPE_RECLAIMABLE)
		return NULL;
	return list == pcp_list(m, &m->pcps[m->frames[entry].list], d->order, d->migratetype)
		       ? d
		       : NULL;
}

struct window_event event_of_departure(const struct departure *d, uint16_t cpu)
{
	return (struct window_event){
		.at = d->row,
		.frame = d->frame,
		.gfp_flags = d->gfp_flags,
		.pid = d->pid,
		.cpu = cpu,
		.kind = EVENT_KIND_ALLOC,
		.order = d->order,
		.migratetype = d->migratetype,
	};
}

const struct departure *own_departure(struct whereabouts *where, const struct window_event *alloc)
{
	const struct departure *d =
		departure_of(&where->next_events.departures, alloc->frame, alloc->at - 1);

	if (!rule_is_on(RULE_preempted))
		return NULL;
	return d && d->row == alloc->at && d->since < d->row ? d : NULL;
}

/* Whether later events show that an entry is still on its list. */
static bool stays(struct whereabouts *where, frame_nr entry)
{
	uint64_t row = running_row(where);
	const struct departure *d = departure_of(&where->next_events.departures, entry, row);
	const struct window_event *next;

	if (d)
		return d->kind == EVENT_KIND_PCPU_DRAIN || d->since > row;
	next = window_find_frame(where->window, NULL, entry);
	return next && (next->kind == EVENT_KIND_PCPU_DRAIN || next->kind == EVENT_KIND_ALLOC);
}

frame_nr staying_above(struct whereabouts *where, frame_nr entry)
{
	const struct model *m = where->m;
	frame_nr above = entry;

	while ((above = m->frames[above].prev) < m->nr_frames && may_search(where))
		if (stays(where, above))
			return above;
	return NO_FRAME;
}

const struct departure *refilled_for(struct whereabouts *where, frame_nr frame,
				     const struct window_event *last)
{
	const struct departure *d = departure_of(&where->next_events.departures, frame, last->at);

	if (!rule_is_on(RULE_refilled_for))
		return NULL;
	return d && d->kind == EVENT_KIND_ALLOC && d->since == last->at + 1 &&
			       d->pid == last->pid && d->order == last->order
		       ? d
		       : NULL;
}

/*
 * Whether a page put onto a PCP list by the current event is still there when the event of
 * `below` comes, or is drained: then the page below it on the list left first.
 */
static bool outlasts(struct whereabouts *where, frame_nr page, const struct departure *below)
{
	uint64_t row = running_row(where);
	const struct departure *d = departure_of(&where->next_events.departures, page, row);
	const struct window_event *next;

	if (d)
		return d->kind == EVENT_KIND_PCPU_DRAIN || d->since > below->row;
	next = window_find_frame(where->window, NULL, page);
	return next && (next->kind == EVENT_KIND_PCPU_DRAIN ||
			(next->kind == EVENT_KIND_ALLOC && next->at > below->row));
}

const struct departure *preempted_below(struct whereabouts *where, list_nr list, frame_nr page)
{
	const struct model *m = where->m;
	frame_nr entry = m->frames[list].next;
	const struct departure *d;

	if (!where->next_events.departures.first || entry == list)
		return NULL;
	/* A batch of frees holds the list's lock: no other task has run since the entry came. */
	if (window_at(where->window, where->window->done)->kind == EVENT_KIND_FREE_BATCHED &&
	    where->pushed[entry] == (uint32_t)where->ran[m->now.cpu])
		return NULL;
	d = preempted_alloc(where, list, entry);
	return d && outlasts(where, page, d) ? d : NULL;
}

/* Whether the page was on the list of its task's CPU when the task left that CPU. */
static bool was_there(const struct pcp *pcp, const struct departure *d)
{
	return d->put <= d->since && d->cpu == pcp->cpu;
}

/* The first such entry of a list, or NULL. */
static const struct departure *likely_on(struct whereabouts *where, const struct pcp *pcp,
					 list_nr list)
{
	const struct model *m = where->m;
	int left = FIRST_ENTRIES;

	for (frame_nr entry = m->frames[list].next; entry != list && left--;
	     entry = m->frames[entry].next) {
		const struct departure *d = preempted_alloc(where, list, entry);

		if (d && was_there(pcp, d))
			return d;
	}
	return NULL;
}

const struct departure *likely_preempted(struct whereabouts *where, const struct pcp *pcp)
{
	const struct departure *d = NULL;

	for (int i = 0; i < where->m->nr_pcp_lists && where->preempts && !d; i++)
		d = likely_on(where, pcp, pcp->heads + (uint32_t)i);
	return d;
}
