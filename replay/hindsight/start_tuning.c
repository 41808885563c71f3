// SPDX-License-Identifier: Apache-2.0
#include "hindsight_run.h"

#include "model/buddy.h"
#include "model/min_max.h"
#include "model/pcp.h"

enum { FREE_FACTOR_MOST = 15 }; /* of column free_factor */

static struct start_tuning *tuning_of(struct hindsight *h, const struct seen *s, int cpu)
{
	return &h->tunings[zone_pcp(h->m, frame_zone(h->m, s->frame), cpu)->number];
}

/* The number of pages that an alloc_factor at the start gives the first refill, or 0. */
static int first_refill(const struct model *m, const struct refill *r, int factor, bool below_high)
{
	const struct pcp *pcp = &m->pcps[r->pcp];
	struct zone zone = m->zones[pcp->zone];
	struct pcp guess = *pcp;

	zone.below_high = below_high;
	guess.count = (int32_t)r->held;
	guess.alloc_factor = (uint8_t)(factor >> r->frees);
	return pcp_refill_size(m, &zone, &guess, 0);
}

void end_refill(struct hindsight *h, int cpu)
{
	struct refill *r = &h->refills[cpu];
	struct start_tuning *t = &h->tunings[r->pcp];
	const struct pcp *pcp = &h->m->pcps[r->pcp];
	int nr = r->nr;

	r->nr = 0;
	/* One page of a larger batch did not come by the PCP. */
	if (!nr || t->refilled || (nr == 1 && pcp->batch > 1))
		return;
	t->refilled = true;
	if (h->m->kernel->pcp_tuning != PCP_AUTO)
		return;
	for (int flip = 0; flip < 2; flip++)
		for (int factor = 0; factor <= h->m->kernel->pcp_scale_max; factor++)
			if (first_refill(h->m, r, factor, flip) == nr) {
				t->alloc_factor = (uint8_t)factor;
				t->has_alloc_factor = true;
				return;
			}
}

/*
 * A page leaves the free lists in bulk, for the PCP of a CPU. A page that a fallback took has an
 * event of it, and maybe one more.
 */
static void follow_refill(struct hindsight *h, const struct seen *s)
{
	const struct pcp *pcp = zone_pcp(h->m, frame_zone(h->m, s->frame), s->cpu);
	struct refill *r = &h->refills[s->cpu];

	if (s->order || (r->nr && r->pcp != pcp->number))
		end_refill(h, s->cpu);
	if (s->order)
		return;
	if (!r->nr)
		*r = (struct refill){
			.pcp = pcp->number,
			.held = h->held[pcp->number] - (s->kind == EVENT_KIND_ALLOC_ZONE_LOCKED),
			.last = NO_FRAME,
			.frees = h->tunings[pcp->number].frees,
		};
	r->nr += r->last != s->frame;
	r->last = s->frame;
}

/* free_count after the first drain's events, if it was `count` at the start. */
static int count_then(const struct start_tuning *t, int count, int most)
{
	for (int i = 0; i <= t->nr_halved; i++) {
		/* A free adds its pages if the count is below the limit. */
		if (count < most)
			count = min_int(count + t->freed[i], most);
		if (i < t->nr_halved)
			count >>= 1;
	}
	return count;
}

/* Whether a drain of `due` pages, its last entry as a whole, is a recorded one. */
static bool is_like(int due, int pages, int last)
{
	return due > pages - last && due <= pages;
}

/* The count at the start that explains the drain: 0 if it does, else the middle of all; or -1. */
static int free_count_before(const struct start_tuning *t, const struct pcp *pcp, int most,
			     int pages, int last)
{
	int first = -1, end = -1;

	for (int count = 0; count <= most; count++) {
		int due = count_then(t, count, most);

		/* The limit of a drain may have grown since. */
		if (!is_like(due, pages, last) &&
		    !is_like(min_int(due, pcp->high - pcp->batch), pages, last))
			continue;
		first = first < 0 ? count : first;
		end = count;
	}
	return first <= 0 ? first : first + (end - first) / 2;
}

void note_overflow(struct hindsight *h, uint32_t number, int pages, int last)
{
	const struct pcp *pcp = &h->m->pcps[number];
	struct start_tuning *t = &h->tunings[number];
	bool grows = h->m->kernel->pcp_tuning == PCP_AUTO;
	int most = pcp->batch << h->m->kernel->pcp_scale_max, count;

	if (t->drained || t->nr_halved >= HALVED_MOST)
		return;
	t->drained = true;
	/* The limits of a drain show nothing else. */
	if (pages <= pcp->batch || pages >= (grows ? pcp->high_max : pcp->high) - pcp->batch)
		return;
	if (grows) {
		count = free_count_before(t, pcp, most, pages, last);
		t->has_free = count >= 0;
		t->free_count = (uint32_t)max_int(count, 0);
	} else if (h->m->kernel->pcp_tuning == PCP_FREE_FACTOR) {
		for (int factor = 0; factor <= FREE_FACTOR_MOST && !t->has_free; factor++)
			if (is_like(pcp->batch << (factor >> t->nr_halved), pages, last)) {
				t->free_factor = (uint8_t)factor;
				t->has_free = true;
			}
	}
}

/* The ticks that a PCP of another node's zone has left are those before its first drain. */
void follow_ticks(struct hindsight *h, uint64_t row)
{
	const struct reclaim_event *event;
	struct model *m = h->m;

	while ((event = reclaim_events_next(&h->run.load.reclaim_events, row))) {
		if (event->kind != RECLAIM_EVENT_TICK)
			continue;
		h->ticked[event->where] = true;
		for (int z = 0; z < m->nr_zones; z++) {
			struct start_tuning *t =
				&h->tunings[zone_pcp(m, &m->zones[z], event->where)->number];

			t->ticks += !t->touched && t->ticks < UINT8_MAX;
		}
	}
}

/* A page of the PCP moves: maybe by the drain of a tick. */
static void touch(struct hindsight *h, const struct seen *s, struct start_tuning *t)
{
	bool drain = s->kind == EVENT_KIND_PCPU_DRAIN && h->ticked[s->cpu];

	h->ticked[s->cpu] = drain;
	if (t->touched)
		return;
	t->touched = true;
	if (drain && t->ticks <= REMOTE_EXPIRE &&
	    frame_zone(h->m, s->frame)->node != h->m->cpu_nodes[s->cpu])
		t->expire = t->ticks;
}

void follow_tuning(struct hindsight *h, const struct seen *s)
{
	struct start_tuning *t = tuning_of(h, s, s->cpu);

	touch(h, s, t);
	if (s->kind == EVENT_KIND_ALLOC_ZONE_LOCKED || s->kind == EVENT_KIND_ALLOC_EXTFRAG) {
		follow_refill(h, s);
		return;
	}
	end_refill(h, s->cpu);
	if (!pcp_allowed(h->m, s->order))
		return;
	if (s->kind == EVENT_KIND_ALLOC && t->nr_halved < HALVED_MOST) {
		t->nr_halved++;
	} else if (s->kind == EVENT_KIND_FREE &&
		   next_event_of(&h->next_events, s->row) != NEXT_FROM_BUDDY) {
		t->frees += t->frees < HALVED_MOST;
		if (t->nr_halved < HALVED_MOST)
			t->freed[t->nr_halved] += 1 << s->order;
	}
}
