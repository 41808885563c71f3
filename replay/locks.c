// SPDX-License-Identifier: Apache-2.0
#include "buddy.h"
#include "validate_run.h"

enum { INTERRUPT_MAX = 8192 }; /* events of an interrupt */
#define LOCK_NS    200000ull   /* from a zone's lock to the end of the PCP's */
#define ATTEMPT_NS 2000ull     /* from a free's event to its try for the PCP's lock */
#define RELEASE_NS 5000ull     /* from the zone's lock of a drain to the next holder's event */

/* The first step after `step` that is no deeper in interrupts than `depth`, or NULL. */
static const struct step *after_interrupt(const struct validate *v, const struct step *step,
					  int depth)
{
	int within = INTERRUPT_MAX;

	for (const struct step *s = step_next(&v->steps, step); s && within--;
	     s = step_next(&v->steps, s))
		if (step_depth(s) <= depth)
			return s;
	return NULL;
}

/* What is heard next of a freed page: of all of the tape, if that was seen before. */
static enum fate fate_of_free(const struct validate *v, const struct step *free)
{
	const struct step *next;

	if (v->fates.bits)
		return fate_of(&v->fates, free->at);
	next = steps_of_frame(&v->steps, free, free->frame);
	return next ? fate_by(next->kind) : FATE_NONE;
}

/*
 * What is heard next of the pages an interrupt frees tells where they went: above 0 to the
 * buddy, below 0 to the PCP, 0 if nothing tells.
 */
static int frees_went_past(const struct validate *v, const struct step *first,
			   const struct zone *zone)
{
	int buddy = 0, pcp = 0, within = INTERRUPT_MAX, depth = step_depth(first);

	for (const struct step *s = first; s && within-- && step_depth(s) >= depth;
	     s = step_next(&v->steps, s)) {
		enum fate fate;

		if (s->kind != EVENT_KIND_FREE || s->batched || !pcp_allowed(v->m, s->order) ||
		    frame_zone(v->m, s->frame) != zone)
			continue;
		fate = fate_of_free(v, s);
		buddy += fate == FATE_BUDDY;
		pcp += fate == FATE_PCP;
	}
	return buddy - pcp;
}

bool interrupts_holder(const struct validate *v, const struct step *step)
{
	return step_depth(step) && v->preempt_told && step->flags & CONTEXT_PREEMPT_OFF;
}

/*
 * Whether the PCP's lock was found taken, by an interrupt of its holder. A lock keeps
 * preemption off; where the tape shows that, an interrupt that does not show it
 * interrupted no holder. One that shows it interrupted the holder of some lock: of which,
 * is told by what becomes of the pages.
 */
bool pcp_lock_taken(struct validate *v, const struct step *step, const struct zone *zone)
{
	struct holder *holder = &v->holders[step->cpu];
	const struct step *next;

	if (!step_depth(step) || (v->preempt_told && !(step->flags & CONTEXT_PREEMPT_OFF)))
		return false;
	if (holder->zone && step_depth(step) > holder->depth && step->ts <= holder->until) {
		/* The holder stands still meanwhile, if it has not let go before. */
		if (holder->until != UINT64_MAX && holder->locked && holder->zone == zone)
			holder->locked = frees_went_past(v, step, zone) >= 0;
		holder->until = UINT64_MAX;
		return holder->locked && holder->zone == zone;
	}
	if (!v->preempt_told || step->kind != EVENT_KIND_FREE)
		return false;
	next = after_interrupt(v, step, 0);
	*holder = (struct holder){
		.zone = zone,
		.until = next ? next->ts : step->ts,
		.locked = frees_went_past(v, step, zone) > 0,
	};
	return holder->locked;
}

/*
 * `last` is the last event under the zone's lock: the PCP's, which was taken before, is
 * held a little longer. An interrupt that was waiting comes in between.
 */
void pcp_lock_after_burst(struct validate *v, const struct step *last, const struct zone *zone)
{
	v->holders[last->cpu] = (struct holder){zone, last->ts + LOCK_NS, step_depth(last), true};
}

/* A batch of frees keeps the PCP's lock from its first page to its last. */
void pcp_lock_in_batch(struct validate *v, const struct step *step, const struct zone *zone)
{
	const struct step *next = step_next(&v->steps, step);

	if (!next || step_depth(next) <= step_depth(step))
		return;
	next = after_interrupt(v, step, step_depth(step));
	if (next && next->kind == EVENT_KIND_FREE_BATCHED && next->batched &&
	    next->pid == step->pid && frame_zone(v->m, next->frame) == zone)
		v->holders[step->cpu] = (struct holder){zone, next->ts, step_depth(step), true};
}

/* The holder, or what it interrupted, goes on: it holds no more. */
void pcp_lock_release(struct validate *v, const struct step *step)
{
	struct holder *holder = &v->holders[step->cpu];

	if (holder->zone && step_depth(step) <= holder->depth)
		holder->zone = NULL;
}

/*
 * Another CPU drains this PCP, piece by piece, and holds its lock until `last`, the last event
 * of a piece.
 */
void pcp_lock_remote(struct validate *v, const struct pcp *pcp, const struct step *last)
{
	if (pcp->cpu == last->cpu)
		return;
	v->remotes[pcp->cpu].zone = &v->m->zones[pcp->zone];
	v->remotes[pcp->cpu].end = last->ts;
}

/*
 * The last event before a free tries for the PCP's lock: its own; or, first of a batch, which
 * has only those free_batched that found the lock free, the batch's last free.
 */
static const struct step *before_attempt(const struct validate *v, const struct step *free)
{
	const struct step *last = free, *next;

	while ((next = step_next(&v->steps, last)) && next->kind == EVENT_KIND_FREE &&
	       next->batched && next->pid == free->pid)
		last = next;
	return next && next->kind == EVENT_KIND_FREE_BATCHED && next->pid == free->pid ? last
										       : free;
}

/* Whether another CPU begins to drain the PCP of `free` before it, or the next one, is done. */
static bool drain_comes(const struct validate *v, const struct step *free,
			const struct step *attempt, const struct zone *zone)
{
	enum { WITHIN = 256 };
	const struct steps *steps = &v->steps;
	const struct step *after = step_next(steps, attempt);
	const struct pcp *pcp = zone_pcp(v->m, zone, free->cpu);
	uint64_t until = attempt->ts + ATTEMPT_NS, number = steps->done + 1;

	if (after && after->ts < until)
		until = after->ts;
	for (int within = WITHIN; number < steps->arrived && within--; number++) {
		const struct step *s = step_number(steps, number);
		const struct frame *f = &v->m->frames[s->frame];

		if (s->ts > until)
			return false;
		if (s->kind == EVENT_KIND_PCPU_DRAIN && !s->taken && s->cpu != free->cpu &&
		    f->state == FRAME_PCP && &v->m->pcps[f->list] == pcp)
			return true;
	}
	return false;
}

/*
 * Whether another CPU, which drains it, holds the PCP's lock when a free tries for it: the
 * page then goes to the buddy, when that drain lets go of the zone's lock.
 */
enum remote_lock pcp_lock_of_free(const struct validate *v, const struct step *free,
				  const struct zone *zone)
{
	const struct remote *remote = &v->remotes[free->cpu];
	const struct step *attempt;

	if (free->kind != EVENT_KIND_FREE)
		return REMOTE_NONE;
	attempt = before_attempt(v, free);
	if (remote->zone == zone && attempt->ts < remote->end)
		return fate_of_free(v, free) == FATE_PCP ? REMOTE_NONE : REMOTE_HELD;
	if (drain_comes(v, free, attempt, zone) && fate_of_free(v, free) != FATE_PCP)
		return REMOTE_COMES;
	/* Whoever had the lock: a page that leaves the free lists next was on no PCP list. */
	return v->fates.bits && fate_of(&v->fates, free->at) == FATE_BUDDY ? REMOTE_HELD
									   : REMOTE_NONE;
}

/* Whether a page left the free lists past the PCP because another CPU held the PCP's lock. */
bool pcp_lock_remote_ended(const struct validate *v, const struct step *burst,
			   const struct zone *zone)
{
	const struct remote *remote = &v->remotes[burst->cpu];

	return remote->zone == zone && burst->ts - remote->end < RELEASE_NS;
}
