// SPDX-License-Identifier: Apache-2.0
/* A drain of a PCP, and the vmstat worker. */
#include "predict.h"

#include "model/min_max.h"

#include <limits.h>

/* Write rows for a drain that waited for the zone's lock since its free, while other events ran. */
static void emit_deferred_drain(struct validate *v, const struct window_event *drain,
				uint64_t free_at)
{
	if (drain->at <= free_at + 1)
		return;
	emit_block(&v->score, INFERRED_KIND_PUT_OFF, drain->frame, drain->order, drain->migratetype,
		   free_at);
	emit_block(&v->score, INFERRED_KIND_OVERFLOW, drain->frame, drain->order,
		   drain->migratetype, 0);
}

/* A drain of `pages`, after those of `like`, without a cause on the tape. */
static void emit_drain(struct validate *v, const struct pcp *pcp, const struct window_event *like,
		       int pages)
{
	emit_inferred(&v->score,
		      (struct inferred){
			      .kind = INFERRED_KIND_DRAIN,
			      .cpu = pcp->cpu,
			      .frame = like->frame,
			      .order = like->order,
			      .migratetype = like->migratetype,
			      .fields = FIELD_PAGES | (like->cpu == pcp->cpu ? 0 : FIELD_RAN_ON),
			      .pages = pages,
			      .ran_on = like->cpu,
		      },
		      NULL);
}

/* A place for a rest: of one that was not drained, or the one that comes last. */
static struct asked_drain *place_of_rest(const struct validate *v, const struct window_event *now)
{
	struct asked_drain *rests = &v->rests[now->cpu * RESTS], *last = rests;

	for (int i = 0; i < RESTS; i++) {
		if (rests[i].at <= now->at)
			return &rests[i];
		if (rests[i].at > last->at)
			last = &rests[i];
	}
	return last;
}

/* The drain of a free that overflowed its PCP, or its pieces after an interruption. */
static void predict_overflow(struct validate *v, struct window_event *first, struct pcp *pcp,
			     const struct asked_drain *asked)
{
	struct drain_due due = {
		.pages = asked->pages,
		.list = asked->list,
		.piece = pcp_overflow_piece(v->m, pcp, INT_MAX),
		.resumes = v->m->kernel->overflow_pieces,
		.until = UINT64_MAX,
	};
	struct asked_drain *rest;
	struct drained drained;

	/* A virtual CPU may stand still amid the drain: a pause is no end if its size is a guess.
	 */
	if (is_size_unknown(&v->score, &v->m->zones[pcp->zone]))
		due.most = pcp_overflow_most(v->m, pcp) - asked->before;
	drained = compare_drain(v, first, pcp, &due);
	if (drained.resumed) {
		if (asked->late)
			emit_late_free(v, asked->late - 1, asked->free.order, pcp->cpu);
		rest = place_of_rest(v, first);
		*rest = *asked;
		rest->late = 0;
		rest->at = drained.resumed->at;
		rest->pages = drained.rest;
		rest->before = asked->before + drained.pages;
		rest->resumed = true;
		return;
	}
	if (drained.stopped)
		tune_stopped(v, pcp, &asked->free, asked->before + drained.pages);
	else if (!asked->resumed &&
		 (drained.pages > drained.due || (drained.pages < drained.due && !drained.all)))
		tune_overflow(v, pcp, &asked->free, &drained);
	if (asked->late)
		emit_late_free(v, asked->late - 1, asked->free.order, pcp->cpu);
	pcp_committed(v->m, &v->m->zones[pcp->zone]);
}

/*
 * The PCP of a drain that no free asked for: that of its first page that the model has in one, if
 * no stamp shows whether it is the CPU's own.
 */
static struct pcp *drained_pcp(const struct validate *v, const struct zone *zone,
			       const struct window_event *first)
{
	struct model *m = v->m;
	bool remote = stamp_before(v, zone, NULL, first, STAMP_KIND_REMOTE_DRAIN);
	struct pcp *own = zone_pcp(m, zone, first->cpu);
	const struct window_event *s = first;

	if (stamp_before(v, zone, NULL, first, STAMP_KIND_DRAIN))
		return own;
	do {
		const struct frame *f = &m->frames[s->frame];

		if (f->state == FRAME_PCP && m->pcps[f->list].zone == zone->number &&
		    !(remote && &m->pcps[f->list] == own))
			return &m->pcps[f->list];
		s = window_next(&v->window, s);
	} while (remote && s && s->kind == EVENT_KIND_PCPU_DRAIN && s->pid == first->pid);
	return remote ? zone_pcp(m, zone, (first->cpu + 1) % m->nr_cpus) : own;
}

void predict_drain(struct validate *v, struct window_event *first)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, first->frame);
	struct pcp *pcp = zone_pcp(m, zone, first->cpu);
	struct asked_drain *asked = &v->asked[first->cpu], *rest = rest_of(v, first);
	struct drain_due due = {.piece = INT_MAX, .until = UINT64_MAX};
	struct drained drained;
	const struct stamp *stamp;
	struct pcp before;

	if (asked->at && asked->at == first->at) {
		struct asked_drain whole = *asked;

		asked->at = 0;
		emit_deferred_drain(v, first, whole.free.at);
		predict_overflow(v, first, pcp, &whole);
		return;
	}
	if (rest) {
		struct asked_drain part = *rest;

		rest->at = 0;
		predict_overflow(v, first, pcp, &part);
		return;
	}
	pcp = drained_pcp(v, zone, first);
	accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_DRAINED_ELSEWHERE, 1);
	due.whole_pcp = due.all_lists = true;
	if (m->kernel->drain_all_pieces)
		due.piece = pcp_piece(m, pcp);
	stamp = pcp->cpu == first->cpu ? stamp_before(v, zone, NULL, first, STAMP_KIND_DRAIN)
				       : NULL;
	if (stamp)
		follow_count(v, pcp, stamp->count);
	before = *pcp;
	before.count -= pages_gone(v, pcp);
	drained = compare_drain(v, first, pcp, &due);
	emit_drain(v, pcp, first, drained.pages);
	tune_inferred_tick(v, pcp, &before, drained.pages);
	predict_waiting(v, pcp->cpu);
}

/* The first event of a drain by the running vmstat worker before row `until`, or NULL. */
static struct window_event *worker_drain(const struct validate *v,
					 const struct reclaim_event *reclaim_event,
					 const struct pcp *pcp, uint64_t until)
{
	const struct zone *zone = &v->m->zones[pcp->zone];
	struct window_event *s = window_coming(&v->window, reclaim_event->where);

	for (int within = WORKER_WITHIN; s && within--; s = window_next(&v->window, s))
		if (s->kind == EVENT_KIND_PCPU_DRAIN && !s->taken && s->pid == reclaim_event->pid &&
		    frame_zone(v->m, s->frame) == zone)
			return s->at < until ? s : NULL;
	return NULL;
}

/* That drain, or none. */
static struct drained predict_worker_drain(struct validate *v,
					   const struct reclaim_event *reclaim_event,
					   struct pcp *pcp, const struct drain_due *due)
{
	struct window_event *s = worker_drain(v, reclaim_event, pcp, due->until);
	struct drained drained;

	if (!s)
		return (struct drained){.due = due->pages};
	drained = compare_drain(v, s, pcp, due);
	if (drained.pages > drained.due)
		emit_drain(v, pcp, s, drained.pages - drained.due);
	return drained;
}

/* pcp_decay of the pages that are there. */
static int decay(const struct validate *v, struct pcp *pcp)
{
	int gone = pages_gone(v, pcp), pages;

	pcp->count -= gone;
	pages = pcp_decay(v->m, pcp);
	pcp->count += gone;
	return pages;
}

/* The worker lowers the high of a PCP and drains the pages above it. */
static void predict_decay(struct validate *v, const struct reclaim_event *reclaim_event,
			  struct pcp *pcp, uint64_t until)
{
	const struct model *m = v->m;
	const struct window_event *first =
		v->run.load.stamps.nr ? worker_drain(v, reclaim_event, pcp, until) : NULL;
	const struct stamp *stamp =
		first ? stamp_before(v, &m->zones[pcp->zone], NULL, first, STAMP_KIND_DRAIN) : NULL;
	struct drain_due due = {
		.pages = stamp ? follow_decay(v, pcp, stamp, reclaim_event->at) : decay(v, pcp),
		.piece = m->kernel->decay == DECAY_PIECES ? pcp->batch : INT_MAX,
		.all_lists = true,
		.until = until,
	};

	if (due.pages)
		predict_worker_drain(v, reclaim_event, pcp, &due);
}

/*
 * An idle PCP of another node's zone did not expire. In refresh_cpu_vm_stats() any counter of the
 * zone that changed on the CPU restarts its ticks, and few changes have an event.
 */
static void emit_touched(struct validate *v, const struct reclaim_event *reclaim_event,
			 struct pcp *pcp)
{
	if (reclaim_event->at < 2)
		return;
	pcp_idle_anew(pcp);
	pcp_expire(v->m, &v->m->zones[pcp->zone], pcp);
	emit_inferred(&v->score,
		      (struct inferred){
			      .at = reclaim_event->at - 1,
			      .kind = INFERRED_KIND_TOUCHED,
			      .cpu = pcp->cpu,
			      .frame = v->m->zones[pcp->zone].start,
		      },
		      NULL);
}

void predict_tick(struct validate *v, const struct reclaim_event *reclaim_event)
{
	struct model *m = v->m;
	uint64_t until =
		reclaim_events_next_tick(&v->run.load.reclaim_events, reclaim_event->where);

	for (int z = 0; z < m->nr_zones; z++) {
		struct zone *zone = &m->zones[z];
		struct pcp *pcp = zone_pcp(m, zone, reclaim_event->where);
		struct drain_due due = {.piece = INT_MAX, .all_lists = true, .until = until};

		pcp_fold(zone, pcp);
		if (m->kernel->decay != DECAY_NONE)
			predict_decay(v, reclaim_event, pcp, until);
		if (pcp_expire(m, zone, pcp) != PCP_EXPIRES)
			continue;
		due.pages = min_int(pcp->batch, pcp->count);
		if (due.pages && !predict_worker_drain(v, reclaim_event, pcp, &due).pages)
			emit_touched(v, reclaim_event, pcp);
	}
}
