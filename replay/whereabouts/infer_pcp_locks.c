// SPDX-License-Identifier: Apache-2.0
/* The CPU that holds the lock of a PCP, as far as the tape shows it. */
#include "whereabouts.h"

#include "model/buddy.h"

/* The first event after `event` with an interrupt depth of at most `depth`, or NULL. */
static const struct window_event *after_interrupt(struct whereabouts *where,
						  const struct window_event *event, int depth)
{
	int within = INTERRUPT_WITHIN;

	for (const struct window_event *s = window_next(where->window, event);
	     s && within-- && may_search(where); s = window_next(where->window, s))
		if (event_depth(s) <= depth)
			return s;
	return NULL;
}

/* The next event of a freed page, on the whole tape after a preview, else in the window. */
static enum next_event next_event_of_free(const struct whereabouts *where,
					  const struct window_event *free)
{
	const struct window_event *next;

	if (where->next_events.bits)
		return next_event_of(&where->next_events, first_row(where, free));
	next = window_find_frame(where->window, free, free->frame);
	return next ? next_event_by_kind(next->kind) : NEXT_NONE;
}

/*
 * The destination of the pages that an interrupt freed, by their next events: above 0 the buddy,
 * below 0 the PCP, 0 unknown.
 */
static int frees_went_past(struct whereabouts *where, const struct window_event *first,
			   const struct zone *zone)
{
	int buddy = 0, pcp = 0, within = INTERRUPT_WITHIN, depth = event_depth(first);

	for (const struct window_event *s = first;
	     s && within-- && event_depth(s) >= depth && may_search(where);
	     s = window_next(where->window, s)) {
		enum next_event next_event;

		if (s->kind != EVENT_KIND_FREE || s->batched || !pcp_allowed(where->m, s->order) ||
		    frame_zone(where->m, s->frame) != zone)
			continue;
		next_event = next_event_of_free(where, s);
		buddy += next_event == NEXT_FROM_BUDDY;
		pcp += next_event == NEXT_FROM_PCP;
	}
	return buddy - pcp;
}

bool interrupts_holder(const struct whereabouts *where, const struct window_event *event)
{
	return event_depth(event) && where->preempt_recorded && event->flags & CONTEXT_PREEMPT_OFF;
}

bool pcp_lock_taken(struct whereabouts *where, const struct window_event *event,
		    const struct zone *zone)
{
	struct holder *holder = &where->holders[event->cpu];
	const struct window_event *next;

	if (!rule_is_on(RULE_lock_of_own))
		return false;
	if (!event_depth(event) ||
	    (where->preempt_recorded && !(event->flags & CONTEXT_PREEMPT_OFF)))
		return false;
	if (holder->zone && event_depth(event) > holder->depth && event->ts <= holder->until) {
		/* The holder stands still meanwhile, unless it released the lock before. */
		if (holder->until != UINT64_MAX && holder->locked && holder->zone == zone)
			holder->locked = frees_went_past(where, event, zone) >= 0;
		holder->until = UINT64_MAX;
		return holder->locked && holder->zone == zone;
	}
	if (!where->preempt_recorded || event->kind != EVENT_KIND_FREE)
		return false;
	next = after_interrupt(where, event, 0);
	*holder = (struct holder){
		.zone = zone,
		.until = next ? next->ts : event->ts,
		.locked = frees_went_past(where, event, zone) > 0,
	};
	return holder->locked;
}

void pcp_lock_after_burst(struct whereabouts *where, const struct window_event *last,
			  const struct zone *zone)
{
	where->holders[last->cpu] =
		(struct holder){zone, last->ts + LOCK_NS, event_depth(last), true};
}

void pcp_lock_in_batch(struct whereabouts *where, const struct window_event *event,
		       const struct zone *zone)
{
	const struct window_event *next = window_next(where->window, event);

	if (!next || event_depth(next) <= event_depth(event))
		return;
	next = after_interrupt(where, event, event_depth(event));
	if (next && next->kind == EVENT_KIND_FREE_BATCHED && next->batched &&
	    next->pid == event->pid && frame_zone(where->m, next->frame) == zone)
		where->holders[event->cpu] =
			(struct holder){zone, next->ts, event_depth(event), true};
}

void pcp_lock_release(struct whereabouts *where, const struct window_event *event)
{
	struct holder *holder = &where->holders[event->cpu];

	if (holder->zone && event_depth(event) <= holder->depth)
		holder->zone = NULL;
}

void pcp_lock_remote(struct whereabouts *where, const struct pcp *pcp,
		     const struct window_event *last)
{
	if (pcp->cpu == last->cpu)
		return;
	where->remotes[pcp->cpu].zone = &where->m->zones[pcp->zone];
	where->remotes[pcp->cpu].end = last->ts;
}

/* Whether another CPU begins to drain the PCP of `free` before it, or the next one, is done. */
static bool drain_comes(const struct whereabouts *where, const struct window_event *free,
			const struct zone *zone)
{
	const struct event_window *window = where->window;
	const struct window_event *after = window_next(window, free);
	const struct pcp *pcp = zone_pcp(where->m, zone, free->cpu);
	uint64_t until = free->ts + ATTEMPT_NS, number = window->done + 1;

	if (after && after->ts < until)
		until = after->ts;
	for (int within = REMOTE_WITHIN; number < window->arrived && within--; number++) {
		const struct window_event *s = window_at(window, number);
		const struct frame *f = &where->m->frames[s->frame];

		if (s->ts > until)
			return false;
		if (s->kind == EVENT_KIND_PCPU_DRAIN && !s->taken && s->cpu != free->cpu &&
		    f->state == FRAME_PCP && &where->m->pcps[f->list] == pcp)
			return true;
	}
	return false;
}

enum remote_lock pcp_lock_of_free(const struct whereabouts *where, const struct window_event *free,
				  const struct zone *zone)
{
	const struct remote *remote = &where->remotes[free->cpu];

	if (!rule_is_on(RULE_lock_of_others))
		return REMOTE_NONE;
	if (free->kind != EVENT_KIND_FREE)
		return REMOTE_NONE;
	if (remote->zone == zone && free->ts < remote->end)
		return next_event_of_free(where, free) == NEXT_FROM_PCP ? REMOTE_NONE : REMOTE_HELD;
	if (drain_comes(where, free, zone) && next_event_of_free(where, free) != NEXT_FROM_PCP)
		return REMOTE_COMES;
	/* For any holder: a page that leaves the free lists next was on no PCP list. */
	return where->next_events.bits && next_event_of(&where->next_events,
							first_row(where, free)) == NEXT_FROM_BUDDY
		       ? REMOTE_HELD
		       : REMOTE_NONE;
}
