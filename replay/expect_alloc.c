// SPDX-License-Identifier: Apache-2.0
#include "expect.h"

#include "buddy.h"
#include "passes.h"
#include "zone.h"

enum { DEPTH_MAX = 65536 }; /* entries a page may lie deep in a PCP list */

struct request request_of(const struct model *m, const struct step *step)
{
	return (struct request){
		.gfp_flags = step->gfp_flags,
		.order = step->order,
		.migratetype = step->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(step->gfp_flags),
		.node = prefer_node(m, step),
	};
}

/* How deep an entry lies in its list: DEPTH_MAX if it is not there. */
static int depth_of(const struct model *m, uint32_t list, uint32_t frame)
{
	int depth = 0;

	for (uint32_t f = m->frames[list].next; f != list && depth < DEPTH_MAX;
	     f = m->frames[f].next, depth++)
		if (f == frame)
			return depth;
	return DEPTH_MAX;
}

/*
 * Take what stands before the page of `miss` on its list. Whether the tape proves all of
 * that already; else a doubt waits for the rest.
 */
static bool take_those_before(struct validate *v, struct step *step, struct pcp *pcp, uint32_t list,
			      struct miss *miss)
{
	struct model *m = v->m;
	struct doubt *doubt = NULL;
	bool inferred = false;

	miss->cause = REPAIR_CAUSE_UNTRACED_ALLOC;
	while (m->frames[list].next != step->frame) {
		uint32_t entry = m->frames[list].next;
		bool proved = take_untold(v, step, pcp, entry, step->migratetype);

		inferred |= m->frames[entry].list == NO_ALLOC;
		if (proved)
			continue;
		if (!doubt)
			doubt = new_doubt(v, miss);
		if (!doubt)
			continue;
		doubt->waiting++;
		m->frames[entry].next = (uint32_t)(doubt - v->doubts);
	}
	v->totals.alloc_inferred += !doubt && inferred;
	return !doubt;
}

/* The recorded page is not what the model has first on the list: take it all the same. */
static void take_misplaced(struct validate *v, struct step *step, struct pcp *pcp, uint32_t list)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	const struct frame *f = &m->frames[step->frame];
	bool unknown = is_unknown(v, step->frame);
	struct miss miss = {
		.step = step,
		.zone = zone,
		.decision = DECISION_ALLOC,
		.cause = REPAIR_CAUSE_UNEXPLAINED,
		.order = step->order,
		.migratetype = step->migratetype,
		.expected = pcp && m->frames[list].next != list ? frame_pfn(m, m->frames[list].next)
								: NONE,
		.got = frame_pfn(m, step->frame),
		.place = place_of(m, step->frame),
	};
	int depth = DEPTH_MAX;

	if (pcp && f->state == FRAME_PCP && &m->pcps[f->list] == pcp && f->order == step->order)
		depth = depth_of(m, list, step->frame);
	if (depth < DEPTH_MAX) {
		bool late = take_those_before(v, step, pcp, list, &miss);

		take_head(v, step, pcp);
		if (unknown || late)
			score(&v->score, zone, DECISION_ALLOC, unknown ? UNKNOWN : EXACT);
		return;
	} else {
		if (miss.place == PLACE_PCP) {
			struct step there = *step;

			there.cpu = m->pcps[m->frames[block_head(m, step->frame)].list].cpu;
			tell_early(v, &there);
			miss.cause = REPAIR_CAUSE_OTHER_CPU_ALLOC;
		} else if (miss.place == PLACE_FREE) {
			miss.cause = REPAIR_CAUSE_CAPTURED;
			tell_captured(v, step->frame, step->order, step->at);
		} else if (miss.place == PLACE_USED)
			miss.cause = REPAIR_CAUSE_MISSED_FREE;
		saw_pcp_page(v, step);
		no_guess(v, block_head(m, step->frame));
		seize(m, step->frame, step->order);
		m->frames[step->frame].list = 0;
	}
	if (unknown) {
		score(&v->score, zone, DECISION_ALLOC, UNKNOWN);
		return;
	}
	if (depth == DEPTH_MAX)
		score_repair(&v->score, zone, miss.cause, 1ull << step->order);
	missed(v, &miss);
	story_end(v);
}

/* Whether an alloc's page is the one that its CPU's PCP would hand out. */
static bool is_first(const struct model *m, const struct step *alloc, struct pcp **pcp)
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

void settle_interrupted(struct validate *v, const struct step *step)
{
	int depth = v->depths[step->cpu], within = INTERRUPT_WITHIN;
	struct step *s = step_next(&v->steps, step);
	struct pcp *pcp;

	v->depths[step->cpu] = step_depth(step);
	if (step_depth(step) <= depth)
		return;
	while (s && within-- && step_depth(s) >= step_depth(step))
		s = step_next(&v->steps, s);
	if (!s || within < 0 || s->kind != EVENT_KIND_ALLOC || s->taken || !is_first(v->m, s, &pcp))
		return;
	take_early(v, s, pcp);
}

void expect_alloc(struct validate *v, struct step *step)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	struct frame *f = &m->frames[step->frame];
	struct pcp *pcp = NULL;
	struct request rq;
	bool late;

	pcp_lock_release(v, step);
	if (!step->taken)
		settle_interrupted(v, step);
	if (step->taken) {
		score(&v->score, zone, DECISION_ALLOC, EXACT);
		return;
	}
	if (f->state == FRAME_USED && f->order == step->order && f->list == NO_ALLOC) {
		hear_of(v, step->frame, true);
		score(&v->score, zone, DECISION_ALLOC, EXACT);
		score_repair(&v->score, zone, REPAIR_CAUSE_LATE_ALLOC, 1ull << step->order);
		return;
	}
	if (f->state == FRAME_USED && f->order == step->order && f->list >= AWAITS_ALLOC_MISSED) {
		struct miss miss = {
			.step = step,
			.zone = zone,
			.decision = DECISION_ALLOC,
			.cause = REPAIR_CAUSE_UNEXPLAINED,
			.order = step->order,
			.migratetype = step->migratetype,
			.expected = NONE,
			.got = frame_pfn(m, step->frame),
			.place = PLACE_USED,
		};

		if (v->pushed[step->frame])
			tell_direct(v, step, row_of(v, v->pushed[step->frame]));
		if (f->list == AWAITS_ALLOC)
			score(&v->score, zone, DECISION_ALLOC, EXACT);
		else if (v->guesses)
			score(&v->score, zone, DECISION_ALLOC, UNKNOWN);
		else
			missed(v, &miss);
		f->list = 0;
		return;
	}
	tell_asked(v, step);
	rq = request_of(m, step);
	expect_turn(v, &rq, zone);
	late = v->ran[step->cpu] + 1 < step->at && missed_turn(v, &rq, zone);
	rq.flags = zone_passes(m, &rq, zone, false);
	if (is_first(m, step, &pcp) || (pcp && refill_unheard(v, step, &rq, pcp))) {
		if (late)
			tell_untold(v, (struct untold){.at = v->ran[step->cpu] + 1}, step);
		take_head(v, step, pcp);
		score(&v->score, zone, DECISION_ALLOC, EXACT);
		return;
	}
	take_misplaced(v, step, pcp,
		       pcp ? pcp_list(m, pcp, step->order, step->migratetype) : NO_FRAME);
}
