// SPDX-License-Identifier: Apache-2.0
#include "expect.h"

#include "buddy.h"

/* The drain that follows an event, or NULL. */
static struct step *following_drain(const struct validate *v, const struct step *step,
				    const struct zone *zone)
{
	struct step *next = step_next(&v->steps, step);
	int within = INTERRUPT_WITHIN;

	/* An interrupt may have come between. */
	while (next && within-- && step_depth(next) > step_depth(step))
		next = step_next(&v->steps, next);
	if (!next || step_depth(next) > step_depth(step) || next->kind != EVENT_KIND_PCPU_DRAIN ||
	    next->taken || next->pid != step->pid || frame_zone(v->m, next->frame) != zone)
		return NULL;
	return next;
}

/*
 * Whether something of its task between a free and a drain, not its overflow from `list` on,
 * asked for that drain: then it begins with list 0.
 */
static bool is_drained_aside(const struct validate *v, const struct step *step,
			     const struct step *drain, const struct pcp *pcp, int list)
{
	const struct compactions *c = &v->start.compactions;
	const struct asides *a = &v->start.asides;

	for (size_t i = c->next; i < c->nr && c->rows[i].at <= drain->at; i++)
		if (c->rows[i].at > step->at && c->rows[i].pid == step->pid)
			return true;
	for (size_t i = a->next; i < a->nr && a->rows[i].at <= drain->at; i++)
		if (a->rows[i].at > step->at && a->rows[i].pid == step->pid)
			return true;
	if (v->m->kernel->drain_rule != DRAIN_FROM_INDEX)
		return false;
	/* The list is not empty, for the page just freed is on it. */
	return v->m->frames[pcp->heads + (uint32_t)list].prev != drain->frame &&
	       list_of_entry(v->m, pcp, drain) != pcp->heads + (uint32_t)list;
}

/* Whether a drain passes list 0 over, where drain_all_pages begins. */
static bool begins_later(const struct validate *v, const struct step *first, const struct pcp *pcp)
{
	const struct model *m = v->m;

	return m->kernel->drain_rule == DRAIN_FROM_INDEX && !list_empty(m->frames, pcp->heads) &&
	       list_of_entry(m, pcp, first) != pcp->heads;
}

/*
 * Whether a drain that should be of `pages`, and perhaps some of a last entry more, empties
 * the PCP instead, as drain_all_pages does.
 */
static bool empties(const struct validate *v, const struct step *first, const struct pcp *pcp,
		    int pages)
{
	const struct model *m = v->m;
	int drained = 0, before = 0;

	if ((v->guesses && m->zones[pcp->zone].pcp_unseen) || begins_later(v, first, pcp))
		return false;
	for (const struct step *s = first; s; s = step_next(&v->steps, s)) {
		const struct frame *f = &m->frames[s->frame];

		if (s->kind != EVENT_KIND_PCPU_DRAIN || s->pid != first->pid ||
		    (f->state == FRAME_PCP && &m->pcps[f->list] != pcp))
			break;
		before = drained;
		drained += 1 << s->order;
	}
	/* The model may hold some pages too many. */
	return drained >= pcp->count - pcp->count / 8 && (drained < pages || before >= pages);
}

/* What a free of recorded pages finds in the model. */
static void free_unused(struct validate *v, const struct step *step)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	enum place place = place_of(m, step->frame);

	if (place == PLACE_PCP)
		take_buried(v, block_head(m, step->frame));
	else if (place == PLACE_FREE) {
		tell_isolated(v, step->frame, step->order);
		score_repair(&v->score, zone, REPAIR_CAUSE_ISOLATED, 1ull << step->order);
	}
	no_guess(v, block_head(m, step->frame));
	seize(m, step->frame, step->order);
}

/* A free that found the PCP's lock taken; `kind` tells of it. */
static void free_past_lock(struct validate *v, const struct step *step, int kind)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);

	score_repair(&v->score, zone, REPAIR_CAUSE_LOCKED_FREE, 1ull << step->order);
	tell_block(v, kind, step->frame, step->order, frame_block(m, step->frame)->migratetype, 0);
	free_direct(m, zone, step->frame, step->order);
	no_guess(v, block_head(m, step->frame));
}

void expect_waiting(struct validate *v, int cpu)
{
	struct remote *remote = &v->remotes[cpu];

	if (!remote->waits)
		return;
	remote->waits = false;
	free_past_lock(v, &remote->free, UNTOLD_KIND_FREE);
}

/* The PCP should have overflown, and did not: it may hold fewer pages than the model thinks. */
static void expect_no_drain(struct validate *v, const struct step *step, struct pcp *pcp,
			    const struct freed *free, int pages)
{
	struct zone *zone = &v->m->zones[pcp->zone];

	if (!take_proved(v, pcp))
		score_size(v, step, zone, DECISION_DRAIN_SIZE, pages, 0, false);
	tune_overflow(v, pcp, free, &(struct drained){0});
}

/* The migratetype of a freed page's pageblock; of one that a burst is about to claim, before. */
static uint8_t type_at(const struct validate *v, const struct step *step)
{
	for (int i = 0; i < CLAIMS_KEPT; i++) {
		const struct early_claim *c = &v->claims[i];

		if (step->at < c->at && step->frame >= c->start && step->frame < c->end)
			return c->was;
	}
	return frame_block(v->m, step->frame)->migratetype;
}

/* pcp_commit of the page, to the list of the type that its pageblock has at that row. */
static int commit(struct validate *v, const struct step *step, struct zone *zone, int *list)
{
	struct pageblock *block = frame_block(v->m, step->frame);
	uint8_t now = block->migratetype;
	int pages;

	block->migratetype = type_at(v, step);
	pages = pcp_commit(v->m, zone, step->frame, step->order, list);
	block->migratetype = now;
	return pages;
}

/* The free puts its page onto a PCP, as far as is known. */
static void note_pushed(struct validate *v, const struct step *step)
{
	uint64_t *word = &v->interrupting[step->frame / 64], bit = 1ull << step->frame % 64;

	v->pushed[step->frame] = (uint32_t)step->at;
	*word = interrupts_holder(v, step) ? *word | bit : *word & ~bit;
}

void expect_free(struct validate *v, struct step *step)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	const struct frame *f = &m->frames[step->frame];
	struct pcp *pcp = zone_pcp(m, zone, step->cpu);
	struct step *drain;
	struct freed freed;
	int pages, list;

	pcp_lock_release(v, step);
	if (is_given_back(v, step)) {
		expect_given_back(v, step);
		return;
	}
	settle_interrupted(v, step);
	if (f->state != FRAME_USED || f->order != step->order)
		free_unused(v, step);
	else
		hear_of(v, step->frame, true);
	pcp->touched = true;
	if (!pcp_takes(m, step->frame, step->order)) {
		free_direct(m, zone, step->frame, step->order);
		no_guess(v, block_head(m, step->frame));
		return;
	}
	if (pcp_lock_taken(v, step, zone)) {
		free_past_lock(v, step, UNTOLD_KIND_DIRECT_FREE);
		return;
	}
	switch (pcp_lock_of_free(v, step, zone)) {
	case REMOTE_HELD:
		free_past_lock(v, step, UNTOLD_KIND_DIRECT_FREE);
		return;
	case REMOTE_COMES:
		v->remotes[step->cpu].waits = true;
		v->remotes[step->cpu].free = *step;
		tell_block(v, UNTOLD_KIND_UNDONE_FREE, step->frame, step->order,
			   frame_block(m, step->frame)->migratetype, 0);
		return;
	default:
		break;
	}
	if (step->kind == EVENT_KIND_FREE_BATCHED)
		pcp_lock_in_batch(v, step, zone);
	note_pushed(v, step);
	freed = (struct freed){step->at,         pcp->high,  pcp->free_count,
			       pcp->free_factor, pcp->flags, step->order};
	pages = commit(v, step, zone, &list);
	drain = following_drain(v, step, zone);
	if (drain && (is_drained_aside(v, step, drain, pcp, list) || empties(v, drain, pcp, pages)))
		drain = NULL;
	if ((pages && drain) || (!zone->below_high && !zone->reclaim_active))
		trust_high(v, pcp);
	if (drain)
		v->asked[step->cpu] = (struct asked_drain){drain->at, pages, list, freed};
	else if (pages)
		expect_no_drain(v, step, pcp, &freed, pages);
}
