// SPDX-License-Identifier: Apache-2.0
/* A free, and whether it drains its PCP. */
#include "predict.h"

#include "model/buddy.h"
#include "model/min_max.h"

/* Whether a drain follows an earlier block of the pages that were freed together. */
static bool is_of_earlier_block(const struct window_event *event, const struct window_event *drain)
{
	return event->run && drain->kind == EVENT_KIND_PCPU_DRAIN && drain->taken;
}

struct window_event *following_drain(const struct validate *v, const struct window_event *event,
				     const struct zone *zone)
{
	struct window_event *next = window_next(&v->window, event);
	int within = INTERRUPT_WITHIN;

	/* An interrupt may have run between. */
	while (next && within-- &&
	       (event_depth(next) > event_depth(event) || is_of_earlier_block(event, next)))
		next = window_next(&v->window, next);
	if (!next || event_depth(next) > event_depth(event) ||
	    next->kind != EVENT_KIND_PCPU_DRAIN || next->taken || next->pid != event->pid ||
	    rest_of(v, next) || frame_zone(v->m, next->frame) != zone ||
	    stamp_before(v, zone, event, next, STAMP_KIND_REMOTE_DRAIN))
		return NULL;
	return next;
}

/*
 * Whether the task requested a drain after a free by other means than the free's overflow from
 * `list` on: such a drain begins with list 0.
 */
static bool is_drained_elsewhere(const struct validate *v, const struct window_event *event,
				 const struct window_event *drain, const struct pcp *pcp, int list)
{
	const struct recorded_compactions *c = &v->run.load.recorded_compactions;
	const struct reclaim_events *a = &v->run.load.reclaim_events;

	for (size_t i = c->next; i < c->nr && c->rows[i].at <= drain->at; i++)
		if (c->rows[i].at > event->at && c->rows[i].pid == event->pid)
			return true;
	for (size_t i = a->next; i < a->nr && a->rows[i].at <= drain->at; i++)
		if (a->rows[i].at > event->at && a->rows[i].pid == event->pid)
			return true;
	if (v->m->kernel->drain_rule != DRAIN_FROM_INDEX)
		return false;
	/* The list is not empty, for the page just freed is on it. */
	return v->m->frames[pcp->heads + (uint32_t)list].prev != drain->frame &&
	       list_of_entry(v->m, pcp, drain) != pcp->heads + (uint32_t)list;
}

/* Whether a drain passes list 0 over, where drain_all_pages begins. */
static bool begins_later(const struct validate *v, const struct window_event *first,
			 const struct pcp *pcp)
{
	const struct model *m = v->m;

	return m->kernel->drain_rule == DRAIN_FROM_INDEX && !list_empty(m->frames, pcp->heads) &&
	       list_of_entry(m, pcp, first) != pcp->heads;
}

/*
 * Whether a drain predicted to have `pages`, plus the rest of its last entry, empties the PCP
 * instead, as drain_all_pages does.
 */
static bool empties(const struct validate *v, const struct window_event *first,
		    const struct pcp *pcp, int pages)
{
	const struct model *m = v->m;
	int drained = 0, begin = 0, wanted = pages, piece = pcp_overflow_piece(m, pcp, pages);
	bool beyond = false;

	if (is_size_unknown(&v->score, &m->zones[pcp->zone]) || begins_later(v, first, pcp))
		return false;
	for (const struct window_event *s = first; s; s = window_next(&v->window, s)) {
		const struct frame *f = &m->frames[s->frame];

		if (s->kind != EVENT_KIND_PCPU_DRAIN || s->pid != first->pid ||
		    (f->state == FRAME_PCP && &m->pcps[f->list] != pcp))
			break;
		beyond = wanted <= 0;
		drained += 1 << s->order;
		if (!beyond && drained - begin >= min_int(wanted, piece)) {
			wanted -= piece;
			begin = drained;
		}
	}
	/* Whole entries may empty the PCP before the last piece. */
	if (drained == pcp->count)
		return beyond;
	/* The model may hold some pages too many. */
	return drained >= pcp->count - pcp->count / 8 && (wanted > 0 || beyond);
}

/* The state of a freed page in the model. */
static void free_unused(struct validate *v, const struct window_event *event)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, event->frame);
	enum place place = place_of(m, event->frame);

	if (place == PLACE_PCP)
		take_buried(v, block_head(m, event->frame));
	else if (place == PLACE_FREE) {
		emit_isolated(&v->score, event->frame, event->order);
		accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_ISOLATED,
				1ull << event->order);
	}
	no_guess(&v->score, block_head(m, event->frame));
	force_used(m, event->frame, event->order);
}

/* A free that found the PCP's lock taken; `kind` is for its inferred row. */
static void free_past_lock(struct validate *v, const struct window_event *event, int kind)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, event->frame);

	accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_LOCKED_FREE, 1ull << event->order);
	emit_block(&v->score, kind, event->frame, event->order,
		   frame_block(m, event->frame)->migratetype, 0);
	buddy_free_direct(m, zone, event->frame, event->order, v->capture);
	no_guess(&v->score, block_head(m, event->frame));
}

void predict_waiting(struct validate *v, int cpu)
{
	struct remote *remote = &v->whereabouts.remotes[cpu];
	const struct frame *f = &v->m->frames[remote->free.frame];

	if (!remote->waits)
		return;
	remote->waits = false;
	/* Another event may have named the page since then. */
	if (f->state == FRAME_USED && f->order == remote->free.order)
		free_past_lock(v, &remote->free, INFERRED_KIND_FREE);
}

/*
 * Whether the stamp of the next drain shows that the PCP holds fewer pages than in the model: they
 * left it without an event, and are gone from now on.
 */
static bool are_gone(struct validate *v, const struct window_event *event, struct pcp *pcp)
{
	const struct zone *zone = &v->m->zones[pcp->zone];
	const struct stamp *stamp = stamp_after(&v->run.load.stamps, event->cpu, event->at);
	int count = pcp->count - pages_gone(v, pcp), joined = 0;

	if (!stamp || stamp->kind != STAMP_KIND_DRAIN || stamp->zone != pcp->zone ||
	    stamp->at - event->at >= STAMP_WITHIN || !rule_is_on(RULE_stamps))
		return false;
	for (event = window_next(&v->window, event); event && event->at < stamp->at;
	     event = window_next(&v->window, event)) {
		int pages = 1 << event->order;

		if (frame_zone(v->m, event->frame) != zone ||
		    !pcp_takes(v->m, event->frame, event->order))
			continue;
		if (event->kind == EVENT_KIND_ALLOC)
			joined -= pages;
		else if (event->kind == EVENT_KIND_FREE_BATCHED ||
			 (event->kind == EVENT_KIND_FREE && !event->batched))
			joined += pages;
	}
	if (!event || joined <= 0 || count + joined <= stamp->count)
		return false;
	v->gone[pcp->number] += count + joined - stamp->count;
	return true;
}

/* The PCP did not overflow when predicted: it may hold fewer pages than in the model. */
static void predict_no_drain(struct validate *v, const struct window_event *event, struct pcp *pcp,
			     const struct freed *free, int pages)
{
	struct zone *zone = &v->m->zones[pcp->zone];

	if (!take_proved(v, pcp) && !are_gone(v, event, pcp))
		count_size(&v->score, event, zone,
			   &(struct size_check){DECISION_DRAIN_SIZE, pages, 0, false});
	tune_overflow(v, pcp, free, &(struct drained){0});
}

/* pcp_commit of the page. */
static int commit(struct validate *v, const struct window_event *event, struct zone *zone,
		  int *list)
{
	struct pcp *pcp = zone_pcp(v->m, zone, event->cpu);
	int gone = pages_gone(v, pcp), pages;

	pcp->count -= gone;
	pages = pcp_commit(v->m, zone, event->frame, event->order, list);
	pcp->count += gone;
	return pages;
}

/*
 * The page of a free joins the list of its PCP before row `at`. Returns the drain that follows, of
 * which `drain` may be the first event; `asked` describes it.
 */
static struct window_event *join_list(struct validate *v, const struct window_event *event,
				      uint64_t at, struct window_event *drain,
				      struct asked_drain *asked)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, event->frame);
	struct pcp *pcp = zone_pcp(m, zone, event->cpu);
	uint8_t type = frame_block(m, event->frame)->migratetype;
	const struct stamp *stamp = NULL;
	int pages = 0, before_clear = 0;

	v->whereabouts.pushed[event->frame] = (uint32_t)first_row(&v->whereabouts, event);
	take_preempted_below(v, pcp_list(m, pcp, event->order, type), event->frame);
	if (drain)
		stamp = stamp_before(v, zone, event, drain, STAMP_KIND_DRAIN);
	if (stamp)
		pages = follow_free(v, pcp, stamp, event->order, at, &before_clear);
	asked->free = (struct freed){at,         pcp->high,   pcp->free_count, pcp->free_factor,
				     pcp->flags, event->order};
	asked->pages = commit(v, event, zone, &asked->list);
	if (stamp)
		asked->pages = pages;
	if (drain && (is_drained_elsewhere(v, event, drain, pcp, asked->list) ||
		      empties(v, drain, pcp, asked->pages)))
		drain = NULL;
	if (drain && !asked->pages)
		asked->pages = before_clear;
	if ((asked->pages && drain) || stamp || (!zone->below_high && !zone->reclaim_active))
		trust_high(v, pcp);
	if (drain) {
		asked->at = drain->at;
		v->asked[event->cpu] = *asked;
	} else if (asked->pages) {
		predict_no_drain(v, event, pcp, &asked->free, asked->pages);
	}
	return drain;
}

void emit_late_free(struct validate *v, frame_nr frame, int order, uint16_t cpu)
{
	emit_inferred(&v->score,
		      (struct inferred){
			      .kind = INFERRED_KIND_LATE_FREE,
			      .cpu = cpu,
			      .frame = frame,
			      .order = (uint8_t)order,
			      .migratetype = frame_block(v->m, frame)->migratetype,
		      },
		      NULL);
}

/* The drain that `event` begins, if a free of its task that comes right before it asked for it. */
static struct window_event *own_drain(const struct validate *v, const struct window_event *free,
				      struct window_event *event)
{
	return event->kind == EVENT_KIND_PCPU_DRAIN && !event->taken && event->pid == free->pid &&
			       event->cpu == free->cpu && !event_depth(event) &&
			       !rest_of(v, event) &&
			       frame_zone(v->m, event->frame) == frame_zone(v->m, free->frame)
		       ? event
		       : NULL;
}

/* A freed page joins the PCP list of its CPU, before `event`. */
static void predict_late_free(struct validate *v, const struct window_event *free,
			      struct window_event *event)
{
	struct asked_drain asked = {.late = free->frame + 1};
	struct zone *zone = frame_zone(v->m, free->frame);

	v->m->now = (struct moment){event->ts, free->pid, free->cpu, free->flags};
	zone_pcp(v->m, zone, free->cpu)->touched = true;
	if (!pcp_takes(v->m, free->frame, free->order)) {
		emit_late_free(v, free->frame, free->order, free->cpu);
		buddy_free_direct(v->m, zone, free->frame, free->order, NULL);
		return;
	}
	/* A row about the drain's size comes before the page's row. */
	if (!join_list(v, free, event->at, own_drain(v, free, event), &asked))
		emit_late_free(v, free->frame, free->order, free->cpu);
}

/* A late free takes effect before an event, unless another event has named its page since. */
static void join(struct validate *v, const struct window_event *free, struct window_event *event)
{
	const struct frame *f = &v->m->frames[free->frame];

	if (f->state == FRAME_USED && f->order == free->order)
		predict_late_free(v, free, event);
}

void join_late(struct validate *v, struct window_event *event)
{
	struct window_event free;

	while (late_free_due(&v->whereabouts.late_frees, event->at, NO_FRAME, 0, &free))
		join(v, &free, event);
}

void join_before(struct validate *v, frame_nr head, int order, struct window_event *event)
{
	struct window_event free;

	while (v->whereabouts.late_frees.nr && (order || place_of(v->m, head) == PLACE_USED) &&
	       late_free_due(&v->whereabouts.late_frees, 0, head, order, &free))
		join(v, &free, event);
}

void predict_free(struct validate *v, struct window_event *event)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, event->frame);
	const struct frame *f = &m->frames[event->frame];
	struct pcp *pcp = zone_pcp(m, zone, event->cpu);
	struct asked_drain asked = {0};

	pcp_lock_release(&v->whereabouts, event);
	if (is_given_back(&v->whereabouts, event,
			  compactor_of(&v->run.load.recorded_compactions, event->pid))) {
		take_given_back(v, event);
		return;
	}
	settle_interrupted(v, event);
	if (f->state != FRAME_USED || f->order != event->order)
		free_unused(v, event);
	else
		resolve_pending_miss(&v->score, event->frame, true);
	pcp->touched = true;
	if (m->record->zone_events || !pcp_takes(m, event->frame, event->order)) {
		note_direct_free(v, event);
		buddy_free_direct(m, zone, event->frame, event->order, v->capture);
		no_guess(&v->score, block_head(m, event->frame));
		return;
	}
	if (pcp_lock_taken(&v->whereabouts, event, zone)) {
		free_past_lock(v, event, INFERRED_KIND_DIRECT_FREE);
		return;
	}
	switch (pcp_lock_of_free(&v->whereabouts, event, zone)) {
	case REMOTE_HELD:
		free_past_lock(v, event, INFERRED_KIND_DIRECT_FREE);
		return;
	case REMOTE_COMES:
		v->whereabouts.remotes[event->cpu].waits = true;
		v->whereabouts.remotes[event->cpu].free = *event;
		emit_block(&v->score, INFERRED_KIND_UNDONE_FREE, event->frame, event->order,
			   frame_block(m, event->frame)->migratetype, 0);
		return;
	case REMOTE_NONE:
		break;
	}
	if (joins_late(&v->whereabouts, event, pcp)) {
		put_off(v, event);
		return;
	}
	if (event->kind == EVENT_KIND_FREE_BATCHED)
		pcp_lock_in_batch(&v->whereabouts, event, zone);
	join_list(v, event, event->at, following_drain(v, event, zone), &asked);
}
