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

/* A page leaves the free lists in bulk, for the PCP of a CPU; before follow_pcps(). */
static void follow_refill(struct hindsight *h, const struct seen *s)
{
	const struct pcp *pcp = zone_pcp(h->m, frame_zone(h->m, s->frame), s->cpu);
	struct refill *r = &h->refills[s->cpu];

	if (s->order || (r->nr && (r->pcp != pcp->number || r->migratetype != s->migratetype)))
		end_refill(h, s->cpu);
	if (s->order)
		return;
	if (!r->nr)
		*r = (struct refill){
			.pcp = pcp->number,
			.migratetype = s->migratetype,
			.held = h->held[pcp->number],
			.frees = h->tunings[pcp->number].frees,
		};
	r->nr++;
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

void note_overflow(struct hindsight *h, uint32_t number, int pages)
{
	const struct pcp *pcp = &h->m->pcps[number];
	struct start_tuning *t = &h->tunings[number];
	int most = pcp->batch << h->m->kernel->pcp_scale_max;

	if (t->drained || t->nr_halved >= HALVED_MOST)
		return;
	t->drained = true;
	/* The limits of a drain show nothing else. */
	if (pages <= pcp->batch || pages >= pcp->high - pcp->batch)
		return;
	if (h->m->kernel->pcp_tuning == PCP_AUTO) {
		for (int count = 0; count <= most && !t->has_free; count++)
			if (count_then(t, count, most) == pages) {
				t->free_count = (uint32_t)count;
				t->has_free = true;
			}
	} else if (h->m->kernel->pcp_tuning == PCP_FREE_FACTOR) {
		for (int factor = 1; factor <= FREE_FACTOR_MOST && !t->has_free; factor++)
			if (pcp->batch << (factor >> t->nr_halved) == pages) {
				t->free_factor = (uint8_t)factor;
				t->has_free = true;
			}
	}
}

void follow_tuning(struct hindsight *h, const struct seen *s)
{
	struct start_tuning *t = tuning_of(h, s, s->cpu);

	if (s->kind == EVENT_KIND_ALLOC_ZONE_LOCKED) {
		follow_refill(h, s);
		return;
	}
	/* A fallback in a refill. */
	if (s->kind == EVENT_KIND_ALLOC_EXTFRAG)
		return;
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
