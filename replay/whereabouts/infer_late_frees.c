// SPDX-License-Identifier: Apache-2.0
/*
 * Freed pages that joined their lists after other events, because the kernel preempted their tasks
 * in between (tape/preempted_frees.h), or an interrupt came. What later leaves a PCP list, and from
 * which end, shows when the page joined it.
 */
#include "whereabouts.h"

#include "model/buddy.h"

/* How a page leaves its PCP list: by an event, and between which rows. */
struct leaving {
	uint64_t from, to; /* UINT64_MAX: after the events of the window */
	int kind;          /* EVENT_KIND_ALLOC, EVENT_KIND_PCPU_DRAIN, or NOT_SHOWN */
	uint16_t cpu;
};
enum { NOT_SHOWN = -1 }; /* before the event: its next one is a free, or of a larger block */

static struct leaving leaving_of(const struct whereabouts *where, const struct window_event *after,
				 const struct window_event *free)
{
	const struct window_event *event = window_find_frame(where->window, after, free->frame);
	const struct departure *d;

	if (!event)
		return (struct leaving){UINT64_MAX, UINT64_MAX, EVENT_KIND_PCPU_DRAIN, 0};
	if (event->order != free->order ||
	    (event->kind != EVENT_KIND_ALLOC && event->kind != EVENT_KIND_PCPU_DRAIN))
		return (struct leaving){event->at, event->at, NOT_SHOWN, 0};
	d = departure_at(&where->next_events.departures, event->frame, event->at);
	return (struct leaving){d ? d->since : event->at, event->at, event->kind, event->cpu};
}

/* What a page of the same list, which joined it meanwhile, shows about the page of a free. */
enum shown { SHOWN_NOTHING, SHOWN_THERE, SHOWN_ABSENT };

/*
 * Allocs take the first page of a list, drains the last. `page`: of the free; `other`: the page
 * that was put before it, if it was there.
 */
static enum shown compare_leaving(const struct leaving *page, const struct leaving *other,
				  uint64_t by)
{
	if (page->kind == NOT_SHOWN || other->kind == NOT_SHOWN)
		return SHOWN_NOTHING;
	if (page->to < other->from)
		return page->kind == EVENT_KIND_PCPU_DRAIN ? SHOWN_THERE : SHOWN_ABSENT;
	if (other->to >= page->from)
		return SHOWN_NOTHING;
	if (other->kind == EVENT_KIND_PCPU_DRAIN)
		return SHOWN_ABSENT;
	return other->from > by ? SHOWN_THERE : SHOWN_NOTHING;
}

/* The free whose page may join late, and its list. */
struct waiting_free {
	const struct window_event *event;
	const struct zone *zone;
	const struct pcp *pcp;
	list_nr list;
	struct leaving leaving;
	uint64_t by; /* the row before which it is on the list */
};

static list_nr list_of_free(const struct whereabouts *where, const struct pcp *pcp,
			    const struct window_event *free)
{
	const struct model *m = where->m;

	if (&m->zones[pcp->zone] != frame_zone(m, free->frame) ||
	    !pcp_takes(m, free->frame, free->order))
		return NO_FRAME;
	return pcp_list(m, pcp, free->order, frame_block(m, free->frame)->migratetype);
}

/* Whether a free has its effect before another task runs on its CPU. */
static bool is_at_once(const struct whereabouts *where, const struct window_event *free)
{
	const struct window_event *next = window_next(where->window, free);

	return free->kind == EVENT_KIND_FREE_BATCHED || event_depth(free) ||
	       free->flags & (CONTEXT_PREEMPT_OFF | CONTEXT_IRQS_OFF) ||
	       (next && (next->pid == free->pid || event_depth(next)));
}

/* What an event of the CPU shows, between the free and the task's next event. */
static enum shown shown_by(const struct whereabouts *where, const struct waiting_free *w,
			   const struct window_event *s)
{
	const struct model *m = where->m;
	const struct frame *f = &m->frames[s->frame];
	struct leaving other;

	switch (s->kind) {
	case EVENT_KIND_FREE:
	case EVENT_KIND_FREE_BATCHED:
		if (s->batched != (s->kind == EVENT_KIND_FREE_BATCHED) ||
		    s->order != w->event->order || list_of_free(where, w->pcp, s) != w->list ||
		    !is_at_once(where, s))
			return SHOWN_NOTHING;
		other = leaving_of(where, s, s);
		return compare_leaving(&w->leaving, &other, w->by);
	case EVENT_KIND_ALLOC: {
		/* A page below it was first. */
		const struct departure *d =
			departure_at(&where->next_events.departures, s->frame, s->at);

		return f->state == FRAME_PCP && f->order == s->order &&
				       &m->pcps[f->list] == w->pcp &&
				       s->migratetype <= MIGRATETYPE_RECLAIMABLE &&
				       pcp_list(m, w->pcp, s->order, s->migratetype) == w->list &&
				       (!d || d->since > w->event->at)
			       ? SHOWN_ABSENT
			       : SHOWN_NOTHING;
	}
	}
	return SHOWN_NOTHING;
}

/* The row before which the page joined its list, or 0: at its event. */
static uint64_t joined_before(struct whereabouts *where, const struct waiting_free *w)
{
	const struct window_event *s = w->event;
	bool absent = false;
	int left = RESUME_WITHIN;

	while ((s = window_next(where->window, s)) && s->at < w->by && left-- &&
	       may_search(where)) {
		enum shown shown = shown_by(where, w, s);

		if (shown == SHOWN_THERE)
			return absent ? s->at : 0;
		absent |= shown == SHOWN_ABSENT;
	}
	return absent ? w->by : 0;
}

/* The next event of the task of a free, or NULL if it is not in the window. */
static struct window_event *resumed_event(const struct whereabouts *where, uint64_t row)
{
	const struct event_window *s = where->window;
	uint64_t low = s->done, high = s->arrived;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (window_at(s, middle)->at < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->arrived && window_at(s, low)->at == row ? window_at(s, low) : NULL;
}

static void wait_for(struct whereabouts *where, const struct window_event *free, uint64_t row,
		     uint16_t cpu)
{
	struct late_frees *late = &where->late_frees;

	late->all[late->nr] = (struct late_free){row, *free};
	late->all[late->nr++].free.cpu = cpu;
	if (row < late->next)
		late->next = row;
}

/* A free whose page is put onto its list at its event, but might join it later. */
static void note_doubtful(struct whereabouts *where, const struct window_event *free, uint64_t by)
{
	struct late_frees *late = &where->late_frees;

	late->doubtful[late->nr_doubtful++ % DOUBTFUL_FREES] = (struct doubtful_free){*free, by};
}

/* Whether the task's next event is a drain: its page caused that. */
static bool is_own_overflow(const struct whereabouts *where, const struct waiting_free *w,
			    const struct window_event *next)
{
	return next->kind == EVENT_KIND_PCPU_DRAIN && frame_zone(where->m, next->frame) == w->zone;
}

/*
 * Whether the page was on the list of the CPU to which its task has moved, as its alloc there
 * shows, or the pages that joined that list after it. Any CPU may drain the list of another.
 */
static bool is_of_other_cpu(struct whereabouts *where, const struct waiting_free *w,
			    const struct window_event *next)
{
	struct waiting_free there = *w;
	int left = RESUME_WITHIN;

	if (next->cpu == w->event->cpu || w->leaving.kind == NOT_SHOWN ||
	    w->leaving.to == UINT64_MAX || w->leaving.cpu != next->cpu)
		return false;
	if (w->leaving.kind == EVENT_KIND_ALLOC)
		return true;
	there.pcp = zone_pcp(where->m, w->zone, next->cpu);
	there.list = list_of_free(where, there.pcp, w->event);
	there.by = next->at;
	for (const struct window_event *s = next; s && s->at < w->leaving.from && left--;
	     s = window_next(where->window, s)) {
		enum shown shown = shown_by(where, &there, s);

		if (shown != SHOWN_NOTHING || !may_search(where))
			return shown == SHOWN_THERE;
	}
	return false;
}

/* The next event of the task, or interrupt, of a free that was interrupted; else NULL. */
static struct window_event *after_interrupts(const struct whereabouts *where,
					     const struct window_event *free)
{
	struct window_event *next = window_next(where->window, free);
	int within = INTERRUPT_WITHIN;

	if (!next || event_depth(next) <= event_depth(free) || free->flags & CONTEXT_IRQS_OFF ||
	    interrupts_holder(where, next))
		return NULL;
	while (next && within-- && event_depth(next) > event_depth(free))
		next = window_next(where->window, next);
	return next && event_depth(next) <= event_depth(free) && next->pid == free->pid ? next
											: NULL;
}

bool joins_late(struct whereabouts *where, const struct window_event *free, const struct pcp *pcp)
{
	uint64_t resumed = preempted_free_resumed(&where->next_events.departures.frees, free->at);
	bool is_preempted = resumed, overflows;
	const struct window_event *next;
	struct waiting_free w = {.event = free, .pcp = pcp};
	uint64_t row;

	if (!rule_is_on(RULE_late_frees))
		return false;
	if (free->kind != EVENT_KIND_FREE || free->run || where->late_frees.nr == MAX_LATE_FREES)
		return false;
	next = is_preempted ? resumed_event(where, resumed) : after_interrupts(where, free);
	if (!is_preempted && !next)
		return false;
	resumed = is_preempted ? resumed : next->at;
	w.zone = &where->m->zones[pcp->zone];
	w.list = list_of_free(where, pcp, free);
	w.leaving = leaving_of(where, NULL, free);
	w.by = resumed < w.leaving.from ? resumed : w.leaving.from;
	overflows = next && w.leaving.to >= resumed && is_own_overflow(where, &w, next);
	where->preempts |= is_preempted && overflows;
	if (overflows || (next && w.leaving.from >= resumed && is_of_other_cpu(where, &w, next))) {
		wait_for(where, free, resumed, next->cpu);
		return true;
	}
	row = joined_before(where, &w);
	if (row)
		wait_for(where, free, row, free->cpu);
	else
		note_doubtful(where, free, w.by);
	return row;
}

/* Whether one of 2^order pages is one of a free's. */
static bool is_freed_by(const struct window_event *free, frame_nr head, int order)
{
	return head - free->frame < 1u << free->order || free->frame - head < 1u << order;
}

bool late_free_due(struct late_frees *late, uint64_t at, frame_nr of, int order,
		   struct window_event *free)
{
	bool found = false;
	int left = 0;

	late->next = UINT64_MAX;
	for (int i = 0; i < late->nr; i++) {
		if (!found &&
		    (late->all[i].row <= at || is_freed_by(&late->all[i].free, of, order))) {
			*free = late->all[i].free;
			found = true;
			continue;
		}
		if (late->all[i].row < late->next)
			late->next = late->all[i].row;
		late->all[left++] = late->all[i];
	}
	late->nr = left;
	return found;
}

/* Whether such a page may still join its list after the current event. */
static bool is_doubtful(const struct whereabouts *where, const struct doubtful_free *d)
{
	const struct frame *f = &where->m->frames[d->free.frame];

	return d->by > window_at(where->window, where->window->done)->at && f->state == FRAME_PCP &&
	       f->order == d->free.order && where->m->pcps[f->list].cpu == d->free.cpu &&
	       where->pushed[d->free.frame] == (uint32_t)d->free.at;
}

struct doubtful_free *doubtful_free_of(struct whereabouts *where, frame_nr entry)
{
	struct doubtful_free *all = where->late_frees.doubtful;

	if (!rule_is_on(RULE_take_back) || where->late_frees.nr == MAX_LATE_FREES)
		return NULL;
	for (int i = 0; i < DOUBTFUL_FREES && where->preempts; i++)
		if (all[i].free.frame == entry && is_doubtful(where, &all[i]))
			return &all[i];
	return NULL;
}

struct doubtful_free *latest_doubtful_free(struct whereabouts *where, const struct pcp *pcp)
{
	struct late_frees *late = &where->late_frees;

	if (!rule_is_on(RULE_take_back) || late->nr == MAX_LATE_FREES)
		return NULL;
	for (unsigned i = 1; where->preempts && i <= DOUBTFUL_FREES; i++) {
		struct doubtful_free *d = &late->doubtful[(late->nr_doubtful - i) % DOUBTFUL_FREES];

		if (is_doubtful(where, d) &&
		    &where->m->pcps[where->m->frames[d->free.frame].list] == pcp)
			return d;
	}
	return NULL;
}

void wait_for_doubtful(struct whereabouts *where, struct doubtful_free *d)
{
	wait_for(where, &d->free, d->by, d->free.cpu);
	d->by = 0;
}
