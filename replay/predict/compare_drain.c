// SPDX-License-Identifier: Apache-2.0
/* The recorded pages of one drain, beside the model's. */
#include "predict.h"

#include "model/buddy.h"
#include "model/min_max.h"

#include <limits.h>

void drain_as_recorded(struct validate *v, struct zone *zone, const struct window_event *event)
{
	struct model *m = v->m;

	saw_pcp_page(v, event);
	if (m->record->zone_events && place_of(m, event->frame) == PLACE_FREE) {
		emit_isolated(&v->score, event->frame, event->order);
		accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_ISOLATED,
				1ull << event->order);
	}
	force_used(m, event->frame, event->order);
	if (m->kernel->drained_type == DRAINED_BLOCK)
		retype_blocks(m, event->frame, event->order, event->migratetype);
	buddy_free(m, zone, event->frame, event->order, event->migratetype, v->capture);
	no_guess(&v->score, block_head(m, event->frame));
}

/* Whether a later drain or alloc shows an entry of a PCP. */
static bool is_there_later(const struct window_event *next)
{
	return next && (next->kind == EVENT_KIND_PCPU_DRAIN || next->kind == EVENT_KIND_ALLOC);
}

/*
 * Whether a drain that empties one list after the other passed over an entry: then it is not there.
 * Its task took it, or was preempted before it put it there. Of several entries of a list, those
 * that no later event shows there; but a drain in pieces (6.19) begins each with the first list.
 */
static bool is_passed_over(const struct model *m, list_nr list, frame_nr entry,
			   const struct window_event *next)
{
	const struct frame *f = &m->frames[entry];

	return m->kernel->drain_rule == DRAIN_FROM_INDEX &&
	       ((f->prev == list && f->next == list) ||
		(!m->kernel->overflow_pieces && !is_there_later(next)));
}

/* Whether such an entry's task took the page before its alloc event. */
static bool is_taken_late(const struct model *m, list_nr list, frame_nr entry,
			  const struct window_event *next)
{
	return is_passed_over(m, list, entry, next) && next->kind == EVENT_KIND_ALLOC &&
	       next->order == m->frames[entry].order && !next->taken;
}

/* Take an entry before its late alloc, which may come on another CPU. */
static void take_late(struct validate *v, struct window_event *alloc, struct pcp *pcp)
{
	struct window_event there = *alloc;

	there.cpu = pcp->cpu;
	take_early(v, &there);
	alloc->taken = alloc->exact = true;
}

/*
 * The turn of an entry comes soon in the drain that `event` is of: move it behind the entry of its
 * list that is drained before it.
 */
static void move_to_turn(struct validate *v, list_nr list, frame_nr entry,
			 const struct window_event *event, const struct window_event *turn)
{
	struct frame *f = v->m->frames;
	const struct pcp *pcp = &v->m->pcps[f[entry].list];
	frame_nr before = event->frame;

	for (const struct window_event *s = event; s && s->at < turn->at;
	     s = window_next(&v->window, s))
		if (s->kind == EVENT_KIND_PCPU_DRAIN && f[s->frame].state == FRAME_PCP &&
		    f[s->frame].list == f[entry].list &&
		    pcp_list(v->m, pcp, s->order, s->migratetype) == list)
			before = s->frame;
	list_del(f, entry);
	list_add(f, entry, f[before].prev, before);
}

/*
 * An entry that the drain skipped on the list of its own page `event`: it comes later, has another
 * place, or has left. `next`: its next event, or NULL. Returns false if another task drains it.
 */
static bool pass_own(struct validate *v, list_nr list, frame_nr entry,
		     const struct window_event *event, const struct window_event *next)
{
	struct model *m = v->m;
	int order, type;

	if (next && next->kind == EVENT_KIND_PCPU_DRAIN && next->at - event->at < SOON) {
		if (next->pid != event->pid)
			return false;
		move_to_turn(v, list, entry, event, next);
	} else if (is_there_later(next)) {
		pcp_list_of(m, (int)(list - m->pcps[m->frames[entry].list].heads), &order, &type);
		emit_block(&v->score, INFERRED_KIND_MOVED, entry, order, type, 0);
		list_del(m->frames, entry);
		list_add_head(m->frames, list, entry);
	} else {
		take_down_to(v, entry, entry);
	}
	return true;
}

/*
 * The same on another list, which comes before it. `all_lists`: the drain empties them. Returns
 * false if the entry may be there still.
 */
static bool pass_other(struct validate *v, list_nr list, frame_nr entry,
		       const struct window_event *event, struct window_event *next, bool all_lists)
{
	struct pcp *pcp = &v->m->pcps[v->m->frames[entry].list];
	bool soon = next && next->at - event->at < SOON;
	bool late = next && is_taken_late(v->m, list, entry, next);

	if (soon || !is_passed_over(v->m, list, entry, next)) {
		if (!all_lists || (soon && next->kind == EVENT_KIND_PCPU_DRAIN))
			return false;
		if (is_there_later(next) && !late)
			return false;
	}
	if (late)
		take_late(v, next, pcp);
	else
		take_down_to(v, entry, entry);
	return true;
}

/*
 * The kernel drained another entry than the model's next one, or, when it emptied all lists, an
 * entry of a later list. The entries before it have left the PCP or, if the tape shows them there
 * later, have another place.
 */
static void skip_phantoms(struct validate *v, struct pcp_drain *drain, frame_nr victim,
			  const struct window_event *event, bool all_lists)
{
	const struct model *m = v->m;
	const struct frame *f = &m->frames[event->frame];
	list_nr list = list_of_entry(m, drain->pcp, event);
	int left = PHANTOMS;

	if (f->state != FRAME_PCP || &m->pcps[f->list] != drain->pcp)
		return;
	for (; victim != event->frame && victim != NO_FRAME && left--;
	     victim = pcp_drain_next(drain, m)) {
		list_nr here = drain->pcp->heads + (uint32_t)drain->list;
		struct window_event *next = window_find_frame(&v->window, event, victim);
		const struct departure *departure = preempted_alloc(&v->whereabouts, here, victim);

		if (departure)
			take_preempted(v, departure, left_before(&v->whereabouts, victim));
		else if (!take_back(v, doubtful_free_of(&v->whereabouts, victim)) &&
			 !(here == list ? pass_own(v, here, victim, event, next)
					: pass_other(v, here, victim, event, next, all_lists)))
			return;
	}
}

/* Progress of the pieces of a drain. */
struct pieces {
	int before; /* wanted pages before the current piece */
	int begin;  /* drained pages at its begin */
	int size;   /* wanted pages of it */
};

static void next_piece(struct pieces *p, int wanted, int most, int drained)
{
	p->before += p->size;
	p->begin = drained;
	p->size = min_int(wanted - p->before, most);
}

/* The comparison of one drain: the model's, the recorded one, and the progress of both. */
struct comparison {
	const struct drain_due *due;
	const struct window_event *first, *last;
	struct zone *zone;
	struct pcp *pcp;
	struct pcp_drain model;
	struct pieces pieces;   /* of the model */
	struct pieces recorded; /* the same, for a drain without end */
	int drained;            /* pages, recorded */
	int over;               /* excess of ended pieces, because entries are drained whole */
	frame_nr guess; /* the next page, if the last one came from a refill without events */
	const struct window_event *piece; /* the next one, before which another CPU had its turn */
};

/* Whether an event may belong to the drain, before the model predicts the next page. */
static bool is_of_drain(const struct comparison *c, const struct window_event *s)
{
	if (s->kind != EVENT_KIND_PCPU_DRAIN || s->taken || s->pid != c->first->pid ||
	    s->at >= c->due->until)
		return false;
	return c->drained < max_int(c->due->pages, c->due->most) || s->ts - c->last->ts <= PAUSE_NS;
}

/*
 * Whether the drain has reached the PCP of the next CPU. A stamp shows where a task turns from
 * other CPUs' PCPs to its own, or back.
 */
static bool is_of_next_cpu(const struct validate *v, const struct comparison *c,
			   const struct window_event *s)
{
	const struct model *m = v->m;
	const struct frame *f = &m->frames[s->frame];
	bool own = c->pcp->cpu == s->cpu;

	if (c->last != c->first &&
	    stamp_before(v, c->zone, c->last, s, own ? STAMP_KIND_REMOTE_DRAIN : STAMP_KIND_DRAIN))
		return true;
	return (c->due->whole_pcp || c->drained >= c->due->pages) && c->last != c->first &&
	       f->state == FRAME_PCP && &m->pcps[f->list] != c->pcp;
}

/*
 * Whether the predicted pages are drained, and the task next drains the page with which a drain of
 * the whole PCP begins: it begins one.
 */
static bool is_of_next_drain(const struct comparison *c, const struct drained *found,
			     const struct model *m, const struct window_event *s, frame_nr victim)
{
	struct pcp_drain whole;

	if (c->due->whole_pcp || !c->drained || found->due != c->drained || victim == s->frame)
		return false;
	pcp_drain_begin(&whole, m, c->pcp, INT_MAX, 0);
	return pcp_drain_next(&whole, m) == s->frame;
}

/*
 * A drained page is free in the model: a refill without events took it. The page that such a refill
 * takes before it, which is the next one from the tail of the PCP list, or NO_FRAME.
 */
static frame_nr refilled_before(const struct model *m, const struct zone *zone,
				const struct window_event *s)
{
	const struct frame *f = m->frames;
	frame_nr chunk = block_head(m, s->frame), last = f[chunk].prev;
	uint32_t pages = 1u << s->order;

	if (f[chunk].state != FRAME_FREE || f[chunk].order < s->order ||
	    m->kernel->drain_rule != DRAIN_FROM_INDEX || !rule_is_on(RULE_unseen_refills))
		return NO_FRAME;
	if (chunk < s->frame)
		return s->frame - pages;
	for (int order = f[chunk].order; last >= m->nr_frames; last = f[last].prev) {
		if (--order < s->order)
			return NO_FRAME;
		last = free_list(zone, order, f[chunk].list);
	}
	return last + (1u << f[last].order) - pages;
}

/*
 * The recorded page is not `victim`, the model's next one, or NO_FRAME. It may be the page of a
 * refill without events that comes after the last one.
 */
static void drain_other(struct validate *v, struct comparison *c, const struct window_event *s,
			frame_nr victim)
{
	const struct model *m = v->m;
	bool guessed = c->guess != NO_FRAME;
	struct miss miss = {
		.event = s,
		.zone = c->zone,
		.decision = DECISION_DRAIN,
		.cause = place_of(m, s->frame) == PLACE_PCP ? REPAIR_CAUSE_UNEXPLAINED
							    : REPAIR_CAUSE_UNTRACED_ALLOC,
		.order = s->order,
		.migratetype = s->migratetype,
		.expected = pfn_or_none(m, guessed ? c->guess : victim),
		.got = frame_pfn(m, s->frame),
		.place = place_of(m, s->frame),
	};
	bool unknown = v->score.guesses && (is_unknown(&v->score, s->frame) || victim == NO_FRAME);

	if (c->guess == s->frame || unknown)
		accuracy_count(&v->score.accuracy, c->zone, DECISION_DRAIN,
			       unknown ? UNKNOWN : EXACT);
	else
		missed(&v->score, &miss);
	skip_phantoms(v, &c->model, victim, s, c->due->all_lists);
	c->guess = refilled_before(m, c->zone, s);
	if (miss.place != PLACE_PCP && v->run.load.stamps.nr)
		v->gone[c->pcp->number] += 1 << s->order;
	drain_as_recorded(v, c->zone, s);
	if (!c->due->whole_pcp || miss.place == PLACE_PCP)
		c->model.left -= 1 << s->order;
	repaired(&v->score);
}

/* One recorded page, beside `victim`, the model's. */
static void compare_page(struct validate *v, struct comparison *c, const struct window_event *s,
			 frame_nr victim)
{
	struct model *m = v->m;

	v->prediction = (struct prediction){0};
	if (victim == s->frame && c->guess == NO_FRAME && m->frames[victim].order == s->order) {
		pcp_drain_take(&c->model, m, c->zone, victim);
		no_guess(&v->score, block_head(m, victim));
		accuracy_count(&v->score.accuracy, c->zone, DECISION_DRAIN, EXACT);
	} else {
		drain_other(v, c, s, victim);
	}
}

/* Advance the model's pieces by a drained page of 2^order. */
static void count_page(struct comparison *c, struct drained *found, int order)
{
	struct pieces *model = &c->pieces, *recorded = &c->recorded;

	found->above = recorded->before + c->drained - recorded->begin;
	c->drained += 1 << order;
	found->most = recorded->before + min_int(c->drained - recorded->begin, recorded->size);
	if (c->drained - recorded->begin >= recorded->size)
		next_piece(recorded, INT_MAX, c->due->piece, c->drained);
	while (!found->due && c->drained - model->begin >= model->size) {
		if (model->before + model->size >= c->due->pages)
			found->due = c->drained;
		c->over += c->drained - model->begin - model->size;
		next_piece(model, c->due->pages, c->due->piece, c->drained);
	}
	found->rest = !found->due && c->drained == model->begin ? c->due->pages - model->before : 0;
}

/*
 * The task of a drain drains on after an interruption between two pieces: that event, or NULL. What
 * a task frees with preemption off right after others ran belongs to the switch
 * (finish_task_switch).
 */
static struct window_event *resumed_drain(const struct validate *v, const struct comparison *c)
{
	const struct window_event *last = c->last;
	struct window_event *s = window_next(&v->window, last);
	int within = INTERRUPT_WITHIN;
	bool switched = false;

	for (; s && within--; s = window_next(&v->window, s)) {
		bool own = s->pid == last->pid;

		if (own && event_depth(s) <= event_depth(last) &&
		    !(switched && s->kind == EVENT_KIND_FREE && s->flags & CONTEXT_PREEMPT_OFF))
			break;
		switched |= !own;
	}
	if (!s || within < 0 || s == window_next(&v->window, last) ||
	    event_depth(s) < event_depth(last) || s->kind != EVENT_KIND_PCPU_DRAIN || s->taken ||
	    frame_zone(v->m, s->frame) != c->zone)
		return NULL;
	return s;
}

/* Whether another CPU had the zone's lock between the last page of a drain and the next. */
static bool is_interleaved(const struct validate *v, const struct comparison *c,
			   const struct window_event *next)
{
	const struct event_window *w = &v->window;
	size_t slot = (size_t)(c->last - w->ring);

	for (uint32_t i = 1; i < c->last->next && i < PIECE_WITHIN; i++) {
		const struct window_event *s = &w->ring[(slot + i) % WINDOW_ROOM];

		if (s->cpu != next->cpu && s->frame != NO_FRAME &&
		    (is_taking(s) || s->kind == EVENT_KIND_PCPU_DRAIN) &&
		    frame_zone(v->m, s->frame) == c->zone)
			return true;
	}
	return false;
}

/* Whether the next event of a drain's task is on another CPU. */
static bool moved_on(const struct validate *v, const struct window_event *last)
{
	const struct event_window *w = &v->window;

	if (event_depth(last) || !last->pid)
		return false;
	for (uint64_t i = w->done; i < w->arrived && i - w->done < MOVES_WITHIN; i++) {
		const struct window_event *s = window_at(w, i);

		if (s->at > last->at && s->pid == last->pid)
			return s->cpu != last->cpu;
	}
	return false;
}

/* End of the drain: release its lock, compare its size. */
static void end_comparison(struct validate *v, struct comparison *c, struct drained *found)
{
	int pages = c->due->pages;

	pcp_lock_after_burst(&v->whereabouts, c->last, c->zone);
	c->pcp->touched = true;
	pcp_lock_remote(&v->whereabouts, c->pcp, c->last);
	found->all = c->pcp->count <= 0;
	if (found->all && !found->due && c->drained >= pages)
		found->due = c->drained; /* before the last piece */
	if (c->due->resumes && found->rest && !found->all) {
		found->resumed = c->piece ? c->piece : resumed_drain(v, c);
		found->stopped = !found->resumed && moved_on(v, c->last);
	}
	/* The scheduler ended it, not the size of the drain. */
	if (found->stopped)
		accuracy_count(&v->score.accuracy, c->zone, DECISION_DRAIN_SIZE, UNKNOWN);
	else if (!c->due->whole_pcp && !found->resumed)
		count_size(&v->score, c->first, c->zone,
			   &(struct size_check){
				   .decision = DECISION_DRAIN_SIZE,
				   .expected = pages,
				   .got = c->drained,
				   .exact = c->drained <= pages + c->over &&
					    (found->all ||
					     (c->drained >= pages && c->model.left <= 0)),
			   });
	found->pages = c->drained;
	v->gone[c->pcp->number] = pages_gone(v, c->pcp);
	if (!pages || c->drained < pages)
		found->due = pages;
}

struct drained compare_drain(struct validate *v, struct window_event *first, struct pcp *pcp,
			     const struct drain_due *due)
{
	struct comparison c = {
		.due = due,
		.first = first,
		.last = first,
		.zone = &v->m->zones[pcp->zone],
		.pcp = pcp,
		.guess = NO_FRAME,
	};
	struct drained found = {0};

	note_drained(&v->score, pcp);
	next_piece(&c.pieces, due->pages, due->piece, 0);
	next_piece(&c.recorded, INT_MAX, due->piece, 0);
	pcp_drain_begin(&c.model, v->m, pcp, due->whole_pcp ? INT_MAX : due->pages, due->list);
	c.model.capture = v->capture;
	for (struct window_event *s = first; s; s = window_next(&v->window, s)) {
		frame_nr victim;

		if (is_captured(v, s) && s->pid == first->pid && !s->taken) {
			predict_capture(v, s);
			s->taken = true;
			continue;
		}
		if (!is_of_drain(&c, s) || frame_zone(v->m, s->frame) != c.zone)
			break;
		/* Up to the end of the piece; or more than predicted. */
		if (c.model.left <= 0 && !due->whole_pcp)
			c.model.left = found.due || !due->pages
					       ? INT_MAX
					       : c.pieces.begin + c.pieces.size - c.drained;
		victim = pcp_drain_next(&c.model, v->m);
		if (is_of_next_cpu(v, &c, s) || is_of_next_drain(&c, &found, v->m, s, victim)) {
			c.model.left = found.due ? 0 : c.model.left;
			break;
		}
		if (due->resumes && found.rest && is_interleaved(v, &c, s)) {
			c.piece = s;
			break;
		}
		compare_page(v, &c, s, victim);
		count_page(&c, &found, s->order);
		s->taken = true;
		c.last = s;
		if (due->whole_pcp && (pcp->count <= 0 || c.drained >= due->piece))
			break;
	}
	end_comparison(v, &c, &found);
	return found;
}
