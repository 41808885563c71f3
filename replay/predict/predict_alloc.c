// SPDX-License-Identifier: Apache-2.0
/* The page of an alloc. */
#include "predict.h"

#include "model/buddy.h"
#include "model/scan_effects.h"

/* An alloc of another page than the model's, which is at `place` there. */
static struct miss miss_of(const struct model *m, const struct window_event *alloc,
			   uint64_t expected, enum place place)
{
	return (struct miss){
		.event = alloc,
		.zone = frame_zone(m, alloc->frame),
		.decision = DECISION_ALLOC,
		.cause = REPAIR_CAUSE_UNEXPLAINED,
		.order = alloc->order,
		.migratetype = alloc->migratetype,
		.expected = expected,
		.got = frame_pfn(m, alloc->frame),
		.place = place,
	};
}

/* Whether a list has an entry. */
static bool is_on_list(struct validate *v, list_nr list, frame_nr frame)
{
	const struct model *m = v->m;
	int left = DEPTH_MAX;

	for (uint32_t f = m->frames[list].next; f != list && left-- && may_search(&v->whereabouts);
	     f = m->frames[f].next)
		if (f == frame)
			return true;
	return false;
}

/*
 * Take the entries before the page of `miss` on its list. Returns whether the tape already proves
 * that all were taken; else a pending miss waits for the rest.
 */
static bool take_those_before(struct validate *v, struct window_event *event, struct pcp *pcp,
			      list_nr list, struct miss *miss)
{
	struct model *m = v->m;
	struct pending_miss *pending_miss = NULL;
	bool inferred = false;

	miss->cause = REPAIR_CAUSE_UNTRACED_ALLOC;
	while (m->frames[list].next != event->frame) {
		frame_nr entry = m->frames[list].next;
		bool proved = take_inferred(v, event, pcp, entry, event->migratetype);

		inferred |= m->frames[entry].list == NO_ALLOC;
		if (proved)
			continue;
		if (!pending_miss)
			pending_miss = new_pending_miss(&v->score, miss, pcp);
		if (!pending_miss)
			continue;
		pending_miss->waiting++;
		m->frames[entry].next = (uint32_t)(pending_miss - v->score.pending_misses);
	}
	v->score.alloc_inferred += !pending_miss && inferred;
	return !pending_miss;
}

/*
 * Take the page of an alloc whose task was preempted before its event, if entries above the page
 * show when it left its list. Returns whether they do.
 */
static bool take_before_others(struct validate *v, const struct departure *alloc)
{
	frame_nr above = staying_above(&v->whereabouts, alloc->frame);
	uint64_t at;

	if (above == NO_FRAME || !v->whereabouts.pushed[above])
		return false;
	at = row_of(&v->whereabouts, v->whereabouts.pushed[above]);
	if (!may_be_at(alloc, at))
		return false;
	take_preempted(v, alloc, at);
	v->m->frames[alloc->frame].list = 0;
	accuracy_count(&v->score.accuracy, frame_zone(v->m, alloc->frame), DECISION_ALLOC, EXACT);
	return true;
}

/* Play an alloc on the CPU of another PCP. */
static void emit_there(struct validate *v, const struct window_event *alloc, const struct pcp *pcp)
{
	struct window_event there = *alloc;

	there.cpu = pcp->cpu;
	emit_early_alloc(&v->score, &there);
}

/*
 * A page leaves a PCP, and is elsewhere in the model. Returns whether that had more pages than
 * events put there, so that nothing has shown this one on it.
 */
static bool joined_unseen(struct validate *v, const struct pcp *pcp, int order)
{
	int *gone = pcp ? &v->gone[pcp->number] : NULL;

	if (!gone || *gone >= 0)
		return false;
	*gone += 1 << order;
	return true;
}

/* The recorded page is on its list, behind others. */
static void take_behind(struct validate *v, struct window_event *event, struct pcp *pcp,
			list_nr list, struct miss *miss)
{
	bool unknown = is_unknown(&v->score, event->frame);
	bool late = take_those_before(v, event, pcp, list, miss);

	if (pcp->cpu != event->cpu)
		emit_there(v, event, pcp);
	remove_entry(v, event->frame, REMOVED_FOR_ALLOC, NULL);
	if (unknown || late)
		accuracy_count(&v->score.accuracy, miss->zone, DECISION_ALLOC,
			       unknown ? UNKNOWN : EXACT);
}

/* The recorded page is not on its list. */
static void take_elsewhere(struct validate *v, const struct window_event *event,
			   const struct pcp *pcp, struct miss *miss)
{
	struct model *m = v->m;
	frame_nr head = block_head(m, event->frame);
	bool unknown = is_unknown(&v->score, event->frame);

	if (miss->place == PLACE_PCP) {
		emit_there(v, event, &m->pcps[m->frames[head].list]);
		miss->cause = REPAIR_CAUSE_OTHER_CPU_ALLOC;
	} else if (miss->place == PLACE_FREE) {
		miss->cause = REPAIR_CAUSE_CAPTURED;
		emit_captured(v, event->frame, event->order, event->at);
	} else if (miss->place == PLACE_USED)
		miss->cause = REPAIR_CAUSE_MISSED_FREE;
	unknown |= miss->place != PLACE_PCP && joined_unseen(v, pcp, event->order);
	saw_pcp_page(v, event);
	no_guess(&v->score, head);
	force_used(m, event->frame, event->order);
	m->frames[event->frame].list = 0;
	if (unknown) {
		accuracy_count(&v->score.accuracy, miss->zone, DECISION_ALLOC, UNKNOWN);
		return;
	}
	accuracy_repair(&v->score.accuracy, miss->zone, miss->cause, 1ull << event->order);
	missed(&v->score, miss);
	repaired(&v->score);
}

/* The recorded page is not first on the model's list: take it anyway. */
static void take_misplaced(struct validate *v, struct window_event *event, struct pcp *pcp)
{
	struct model *m = v->m;
	const struct frame *f = &m->frames[event->frame];
	list_nr list = pcp ? pcp_list(m, pcp, event->order, event->migratetype) : NO_FRAME;
	bool empty = !pcp || m->frames[list].next == list;
	struct miss miss = miss_of(m, event, empty ? NONE : frame_pfn(m, m->frames[list].next),
				   place_of(m, event->frame));
	const struct departure *departure = own_departure(&v->whereabouts, event);

	if (pcp && f->state == FRAME_PCP && f->order == event->order) {
		if (departure && m->pcps[f->list].cpu == departure->cpu) {
			pcp = &m->pcps[f->list];
			list = pcp_list(m, pcp, event->order, event->migratetype);
		}
		if (&m->pcps[f->list] == pcp && is_on_list(v, list, event->frame)) {
			if (!departure || !take_before_others(v, departure))
				take_behind(v, event, pcp, list, &miss);
			return;
		}
	}
	take_elsewhere(v, event, pcp, &miss);
}

/* The PCP that an alloc takes its page from, or NULL: it takes pages past the PCPs. */
static struct pcp *pcp_of(const struct model *m, const struct window_event *alloc)
{
	return pcp_allowed(m, alloc->order) && alloc->migratetype <= MIGRATETYPE_RECLAIMABLE
		       ? zone_pcp(m, frame_zone(m, alloc->frame), alloc->cpu)
		       : NULL;
}

/* Whether a page was taken before its alloc event: the event then only counts. */
static bool is_taken_already(struct validate *v, struct window_event *event, const struct pcp *pcp)
{
	struct zone *zone = frame_zone(v->m, event->frame);
	struct frame *f = &v->m->frames[event->frame];
	struct miss miss = miss_of(v->m, event, NONE, PLACE_USED);

	if (f->state != FRAME_USED || f->order != event->order)
		return false;
	if (f->list == NO_ALLOC) {
		resolve_pending_miss(&v->score, event->frame, true);
		joined_unseen(v, pcp, event->order);
		accuracy_count(&v->score.accuracy, zone, DECISION_ALLOC, EXACT);
		accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_LATE_ALLOC,
				1ull << event->order);
		return true;
	}
	if (f->list < AWAITS_ALLOC_MISSED)
		return false;
	if (v->whereabouts.pushed[event->frame])
		emit_direct(&v->score, event,
			    row_of(&v->whereabouts, v->whereabouts.pushed[event->frame]));
	if (f->list == AWAITS_ALLOC)
		accuracy_count(&v->score.accuracy, zone, DECISION_ALLOC, EXACT);
	else if (v->score.guesses)
		accuracy_count(&v->score.accuracy, zone, DECISION_ALLOC, UNKNOWN);
	else
		missed(&v->score, &miss);
	f->list = 0;
	return true;
}

void predict_alloc(struct validate *v, struct window_event *event)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, event->frame);
	struct pcp *pcp = pcp_of(m, event);
	struct request rq;
	bool late;

	pcp_lock_release(&v->whereabouts, event);
	if (!event->taken)
		settle_interrupted(v, event);
	if (event->taken) {
		accuracy_count(&v->score.accuracy, zone, DECISION_ALLOC, EXACT);
		return;
	}
	if (is_taken_already(v, event, pcp))
		return;
	emit_asked_node(&v->score, event);
	rq = request_of(m, event);
	predict_list_order(v, &rq, zone);
	late = v->whereabouts.ran[event->cpu] + 1 < event->at && missed_turn(v, &rq, zone);
	rq.flags = zone_scan_effects(m, &rq, zone, false);
	if (is_first_entry(m, event)) {
		if (late)
			emit_inferred(&v->score,
				      (struct inferred){.at = v->whereabouts.ran[event->cpu] + 1},
				      event);
		remove_entry(v, event->frame, REMOVED_FOR_ALLOC, NULL);
		accuracy_count(&v->score.accuracy, zone, DECISION_ALLOC, EXACT);
		return;
	}
	take_misplaced(v, event, pcp);
}
