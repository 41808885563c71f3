// SPDX-License-Identifier: Apache-2.0
/* The tuning of each PCP at the start, as refills and drains show it. */
#include "hindsight_run.h"

#include "model/buddy.h"
#include "model/min_max.h"
#include "model/pcp.h"

#include <string.h>

enum { FREE_FACTOR_MOST = 15 }; /* of column free_factor */

static struct start_tuning *tuning_of(struct hindsight *h, const struct seen *s, int cpu)
{
	return &h->tunings[zone_pcp(h->m, frame_zone(h->m, s->frame), cpu)->number];
}

static int count_limit(const struct model *m, const struct pcp *pcp)
{
	return pcp->batch << m->kernel->pcp_scale_max;
}

void begin_tuning(struct hindsight *h)
{
	const struct model *m = h->m;

	for (int number = 0; number < m->nr_zones * m->nr_cpus; number++) {
		const struct pcp *pcp = &m->pcps[number];
		struct start_tuning *t = &h->tunings[number];

		t->most = count_limit(m, pcp);
		for (int f = 0; f <= m->kernel->pcp_scale_max && f < FACTORS; f++)
			t->factors[f] = (struct factor_candidate){true, (uint8_t)f, pcp->high};
	}
}

/* Whether a candidate explains a refill of `nr` pages; then `after` it. */
static bool explains(const struct model *m, const struct refill *r, struct factor_candidate *after)
{
	const struct factor_candidate before = *after;

	for (int flip = 0; flip < 2; flip++) {
		struct pcp guess = m->pcps[r->pcp];
		struct zone zone = m->zones[guess.zone];

		zone.below_high = flip;
		guess.count = (int32_t)r->held;
		guess.high = before.high;
		guess.alloc_factor = before.alloc_factor;
		if (pcp_refill_size(m, &zone, &guess, 0) != r->nr)
			continue;
		after->alloc_factor = guess.alloc_factor;
		after->high = guess.high;
		return true;
	}
	return false;
}

/* Keep the candidates that explain a refill; if none does, the refill shows nothing. */
static void filter_factors(const struct model *m, const struct refill *r, struct start_tuning *t)
{
	struct factor_candidate left[FACTORS];
	int nr = 0, differ = 0;

	for (int factor = 0; factor < FACTORS; factor++) {
		left[factor] = t->factors[factor];
		left[factor].fits = left[factor].fits && explains(m, r, &left[factor]);
		nr += left[factor].fits;
	}
	for (int a = 0; a < FACTORS; a++)
		for (int b = 0; b < a; b++)
			differ += left[a].fits && left[b].fits &&
				  (left[a].alloc_factor != left[b].alloc_factor ||
				   left[a].high != left[b].high);
	t->refilled = !differ;
	if (!nr)
		return;
	memcpy(t->factors, left, sizeof(left));
	t->has_alloc_factor = true;
}

void end_refill(struct hindsight *h, int cpu)
{
	struct refill *r = &h->refills[cpu];
	struct start_tuning *t = &h->tunings[r->pcp];
	bool any = r->nr > 1 || (r->nr && h->m->pcps[r->pcp].batch <= 1);

	/* One page of a larger batch did not come by the PCP. */
	if (any && !t->refilled && h->m->kernel->pcp_tuning == PCP_AUTO)
		filter_factors(h->m, r, t);
	r->nr = 0;
}

uint8_t start_alloc_factor(const struct start_tuning *t)
{
	uint8_t factor = 0;

	while (factor < FACTORS - 1 && !t->factors[factor].fits)
		factor++;
	return factor;
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
		};
	r->nr += r->last != s->frame;
	r->last = s->frame;
}

static void count_put(struct start_tuning *t, int pages)
{
	if (t->nr_halved < HALVED_MOST)
		t->freed[t->nr_halved] += pages;
}

/* No batch is in progress. */
static void end_batch(struct start_tuning *t)
{
	count_put(t, t->waiting);
	t->waiting = 0;
	t->batching = false;
}

/* free_count after the events so far, if it was `count` at the start. */
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
static bool is_like(int due, const struct drain_run *d)
{
	return due > d->pages - d->last && due <= d->pages;
}

/*
 * Whether another limit than free_count explains the number of pages of an overflow: a PCP keeps a
 * batch of its high (nr_pcp_free, 5.14 to 7.3). That is its high in the snapshot or the largest
 * one; 4 batches while the zone is reclaimed; and its `count` while the zone is below its high
 * watermark (nr_pcp_high, 6.8 to 7.3).
 */
static bool is_limited(const struct model *m, const struct drain_run *d, int count)
{
	const struct pcp *pcp = &m->pcps[d->pcp];
	bool grows = m->kernel->pcp_tuning == PCP_AUTO;
	int most = grows ? pcp->high_max : pcp->high;

	return d->pages >= most - pcp->batch || is_like(pcp->high - pcp->batch, d) ||
	       is_like(3 * pcp->batch, d) ||
	       (grows && is_like(max_int(count, pcp->high_min) - pcp->batch, d));
}

/* The first free_count at the start, from t->least to t->most + 1, that is `least` or more by now.
 */
static int first_count(const struct start_tuning *t, int limit, int least)
{
	int first = t->least, end = t->most + 1;

	while (first < end) {
		int middle = first + (end - first) / 2;

		if (count_then(t, middle, limit) < least)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/* Narrow the free_counts at the start to those that are `least` to `most` by now. */
static void narrow_count(struct start_tuning *t, int limit, int least, int most)
{
	int first = first_count(t, limit, least), end = first_count(t, limit, most + 1) - 1;

	if (first > end)
		return;
	t->has_free = true;
	t->least = first;
	t->most = end;
	/* From here on they are one. */
	t->drained = count_then(t, first, limit) == count_then(t, end, limit);
}

static void note_free_count(const struct model *m, struct start_tuning *t,
			    const struct drain_run *d, int count)
{
	const struct pcp *pcp = &m->pcps[d->pcp];
	int limit = count_limit(m, pcp);
	int least = d->pages - d->last + 1, most = d->pages;

	/* A batch is the least that an overflow drains. */
	if (least <= pcp->batch)
		least = 0;
	if (is_limited(m, d, count))
		most = limit;
	narrow_count(t, limit, least, most);
}

static void note_free_factor(const struct model *m, struct start_tuning *t,
			     const struct drain_run *d, int count)
{
	const struct pcp *pcp = &m->pcps[d->pcp];
	bool limited = is_limited(m, d, count);

	t->drained = true;
	if (d->pages <= pcp->batch)
		return;
	for (int factor = 0; factor <= FREE_FACTOR_MOST && !t->has_free; factor++) {
		int due = pcp->batch << (factor >> t->nr_halved);

		if (is_like(due, d) || (limited && due >= d->pages)) {
			t->free_factor = (uint8_t)factor;
			t->has_free = true;
		}
	}
}

void note_overflow(struct hindsight *h, const struct drain_run *d)
{
	struct start_tuning *t = &h->tunings[d->pcp];
	int count;

	/* A free of a higher order may drain the whole PCP. */
	if (t->drained || t->nr_halved >= HALVED_MOST || d->free_order)
		return;
	if (!d->batched)
		end_batch(t);
	count = (int)d->held - t->waiting;
	/* An overflow leaves a batch: see is_limited(). */
	if (d->pages - d->last >= count - h->m->pcps[d->pcp].batch)
		return;
	if (h->m->kernel->pcp_tuning == PCP_AUTO)
		note_free_count(h->m, t, d, count);
	else if (h->m->kernel->pcp_tuning == PCP_FREE_FACTOR)
		note_free_factor(h->m, t, d, count);
}

/*
 * Of several: 0, to which allocations halve it; then the limit at which frees end, halved as often
 * as it must be or more often (rmqueue_pcplist and free_unref_page_commit, 6.8 to 7.3). Without any
 * of these the middle, and both ends.
 */
int start_free_counts(const struct hindsight *h, int number, uint32_t counts[HINDSIGHT_COUNTS])
{
	const struct start_tuning *t = &h->tunings[number];
	int nr = 0;

	if (!t->least)
		counts[nr++] = 0;
	for (int count = count_limit(h->m, &h->m->pcps[number]);
	     count && count >= t->least && nr < HINDSIGHT_COUNTS; count >>= 1)
		if (count <= t->most)
			counts[nr++] = (uint32_t)count;
	if (nr)
		return nr;
	counts[nr++] = (uint32_t)(t->least + (t->most - t->least) / 2);
	if (t->least != t->most) {
		if (counts[0] != (uint32_t)t->least)
			counts[nr++] = (uint32_t)t->least;
		counts[nr++] = (uint32_t)t->most;
	}
	return nr;
}

int hindsight_free_counts(const struct hindsight *h, size_t row, uint32_t counts[HINDSIGHT_COUNTS])
{
	for (int pcp = 0; pcp < h->m->nr_zones * h->m->nr_cpus; pcp++) {
		if (!h->given[pcp].listed || row--)
			continue;
		if (h->m->kernel->pcp_tuning != PCP_AUTO || !h->tunings[pcp].has_free)
			return 0;
		return start_free_counts(h, pcp, counts);
	}
	return -1;
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

/*
 * A free puts its page onto the PCP. But the pages of a batch are freed first, and put there one by
 * one, each at its free_batched (free_unref_folios, 6.12).
 */
static void follow_put(struct hindsight *h, const struct seen *s, struct start_tuning *t)
{
	enum next_event next = next_event_of(&h->next_events, s->row);
	int pages = 1 << s->order;

	if (s->kind == EVENT_KIND_FREE_BATCHED) {
		t->batching = true;
		if (t->waiting) {
			t->waiting -= min_int(pages, t->waiting);
			count_put(t, pages);
		}
		return;
	}
	if (t->batching)
		end_batch(t);
	if (next == NEXT_FROM_BUDDY)
		return;
	for (int factor = 0; factor < FACTORS; factor++)
		t->factors[factor].alloc_factor >>= 1;
	if (next == NEXT_NONE)
		t->waiting += pages;
	else
		count_put(t, pages);
}

void follow_tuning(struct hindsight *h, const struct seen *s)
{
	struct start_tuning *t = tuning_of(h, s, s->cpu);

	if (!rule_is_on(RULE_start_tuning))
		return;
	touch(h, s, t);
	if (s->kind == EVENT_KIND_ALLOC_ZONE_LOCKED || s->kind == EVENT_KIND_ALLOC_EXTFRAG) {
		follow_refill(h, s);
		return;
	}
	end_refill(h, s->cpu);
	if (!pcp_allowed(h->m, s->order))
		return;
	if (s->kind == EVENT_KIND_FREE || s->kind == EVENT_KIND_FREE_BATCHED) {
		follow_put(h, s, t);
	} else if (s->kind == EVENT_KIND_ALLOC) {
		end_batch(t);
		t->nr_halved += t->nr_halved < HALVED_MOST;
	}
}
