// SPDX-License-Identifier: Apache-2.0
/* The state of a PCP and its zone that the recorder read before a refill or drain. */
#include "predict.h"

#include "model/buddy.h"
#include "model/force_state.h"
#include "model/min_max.h"
#include "model/vmstat_diff.h"

#include <stdlib.h>

/* The flags of the zone become the recorded ones; `row` gets those that differed. */
static void follow_zone(struct validate *v, const struct stamp *s, struct inferred *row)
{
	struct zone *zone = &v->m->zones[s->zone];

	if (zone->below_high != s->below_high) {
		zone->below_high = row->below_high = s->below_high;
		row->fields |= FIELD_BELOW_HIGH;
	}
	if (zone->reclaim_active != s->reclaim_active) {
		zone->reclaim_active = row->reclaim_active = s->reclaim_active;
		row->fields |= FIELD_RECLAIM_ACTIVE;
	}
}

void follow_count(struct validate *v, struct pcp *pcp, int count)
{
	take_drained_unseen(v, pcp, pcp->count - count);
	while (pcp->count > count && take_proved(v, pcp))
		;
	v->gone[pcp->number] = pcp->count - count;
	if (pcp->count == count)
		prove_pending_misses(&v->score, pcp);
}

/* The PCP with the pages and limits of a stamp. */
static struct pcp recorded_pcp(const struct pcp *pcp, const struct stamp *s)
{
	struct pcp recorded = *pcp;

	recorded.count = s->count;
	recorded.high_min = s->high_min;
	recorded.high_max = s->high_max;
	recorded.batch = s->batch;
	return recorded;
}

/* The reverse: the model's PCP gets the tuning and the limits of such a one. */
static void take_over(struct pcp *pcp, const struct pcp *recorded)
{
	int count = pcp->count;

	*pcp = *recorded;
	pcp->count = count;
}

/*
 * Write the tuning of a PCP that differs from what it was. A free run holds the pages that are
 * gone, too: its high is as many pages higher. `gone`: those before.
 */
static void emit_change(struct validate *v, const struct pcp *pcp, const struct pcp *before,
			int gone, struct inferred row)
{
	int now = v->gone[pcp->number];

	if (pcp->high + now != before->high + gone) {
		row.high = pcp->high + now;
		row.fields |= FIELD_HIGH;
	}
	if (pcp->alloc_factor != before->alloc_factor) {
		row.alloc_factor = pcp->alloc_factor;
		row.fields |= FIELD_ALLOC_FACTOR;
	}
	if (pcp->free_count != before->free_count) {
		row.free_count = pcp->free_count;
		row.fields |= FIELD_FREE_COUNT;
	}
	if (pcp->free_factor != before->free_factor) {
		row.free_factor = pcp->free_factor;
		row.fields |= FIELD_FREE_FACTOR;
	}
	if (row.fields)
		emit_tuning(v, pcp, row);
}

/* Whether a refill makes the recorded state of this one. */
static bool refill_makes(const struct model *m, const struct zone *zone, struct pcp pcp,
			 const struct stamp *s, int order)
{
	pcp_refill_size(m, zone, &pcp, order);
	return pcp.high == s->high && pcp.alloc_factor == s->alloc_factor;
}

/*
 * nr_pcp_alloc has adapted high and alloc_factor already. The state before is the PCP's own, if
 * that leads to the recorded one; else the next that does.
 */
static void find_before_refill(const struct model *m, const struct zone *zone, struct pcp *pcp,
			       const struct stamp *s, int order)
{
	const int own = pcp->alloc_factor;
	const int factors[] = {own, s->alloc_factor, s->alloc_factor - 1};

	for (int i = 0; i < 3; i++) {
		const int pages = order ? s->batch : s->batch << max_int(factors[i], 0);
		const int highs[] = {pcp->high, s->high, s->high - pages};

		for (int j = 0; j < 3 && factors[i] >= 0; j++) {
			struct pcp guess = *pcp;

			guess.alloc_factor = (uint8_t)factors[i];
			guess.high = highs[j];
			if (!refill_makes(m, zone, guess, s, order))
				continue;
			pcp->alloc_factor = guess.alloc_factor;
			pcp->high = guess.high;
			return;
		}
	}
	pcp->alloc_factor = s->alloc_factor;
	pcp->high = s->high;
}

int follow_refill(struct validate *v, struct pcp *pcp, const struct stamp *s, int order)
{
	const struct zone *zone = &v->m->zones[s->zone];
	struct inferred row = {0};
	struct pcp before, recorded;
	int gone = v->gone[pcp->number], size;

	follow_zone(v, s, &row);
	follow_count(v, pcp, s->count);
	before = *pcp;
	recorded = recorded_pcp(pcp, s);
	recorded.free_count = s->free_count;
	recorded.free_factor = s->free_factor;
	if (v->m->kernel->pcp_tuning == PCP_AUTO)
		find_before_refill(v->m, zone, &recorded, s, order);
	else
		recorded.high = s->high;
	take_over(pcp, &recorded);
	emit_change(v, pcp, &before, gone, row);
	size = pcp_refill_size(v->m, zone, &recorded, order);
	take_over(pcp, &recorded);
	return size;
}

/* Whether a free, whose page is on its list, makes the recorded state of this one. */
static bool free_makes(const struct model *m, const struct zone *zone, struct pcp pcp,
		       const struct stamp *s, int order)
{
	pcp_overflow(m, zone, &pcp, order);
	return pcp.high == s->high && pcp.free_count == s->free_count &&
	       pcp.free_factor == s->free_factor;
}

/* The same for nr_pcp_high and nr_pcp_free. */
static void find_before_free(const struct model *m, const struct zone *zone, struct pcp *pcp,
			     const struct stamp *s, int order)
{
	const int counts[] = {pcp->free_count, s->free_count - (1 << order), s->free_count};
	const int factors[] = {pcp->free_factor, s->free_factor, s->free_factor - 1};

	for (int i = 0; i < 3; i++) {
		const int highs[] = {pcp->high, s->high,
				     s->high + max_int(s->free_count, s->batch)};

		for (int j = 0; j < 3 && counts[i] >= 0 && factors[i] >= 0; j++) {
			struct pcp guess = *pcp;

			guess.free_count = counts[i];
			guess.free_factor = (uint8_t)factors[i];
			guess.high = highs[j];
			if (!free_makes(m, zone, guess, s, order))
				continue;
			pcp->free_count = guess.free_count;
			pcp->free_factor = guess.free_factor;
			pcp->high = guess.high;
			return;
		}
	}
	pcp->free_count = max_int(s->free_count - (1 << order), 0);
	pcp->free_factor = s->free_factor;
	pcp->high = s->high;
}

/* The pages of the drain if another CPU cleared a flag of the zone before the stamp, or 0. */
static int overflow_before(const struct model *m, struct zone *zone, const struct pcp *pcp,
			   int order)
{
	bool *const flags[] = {&zone->below_high, &zone->reclaim_active};
	int pages = 0;

	for (int i = m->kernel->below_high ? 0 : 1; i < 2 && !pages; i++) {
		bool recorded = *flags[i];
		struct pcp guess = *pcp;

		*flags[i] = true;
		pages = pcp_overflow(m, zone, &guess, order);
		*flags[i] = recorded;
	}
	return pages;
}

int follow_free(struct validate *v, struct pcp *pcp, const struct stamp *s, int order, uint64_t at,
		int *before_clear)
{
	struct zone *zone = &v->m->zones[s->zone];
	const int count = s->count - (1 << order); /* before the page of the free joins its list */
	struct inferred row = {.at = at};
	struct pcp before, recorded;
	int gone = v->gone[pcp->number];

	follow_zone(v, s, &row);
	follow_count(v, pcp, count);
	before = *pcp;
	recorded = recorded_pcp(pcp, s);
	if (v->m->kernel->pcp_tuning == PCP_FIXED)
		recorded.high = s->high;
	else
		find_before_free(v->m, zone, &recorded, s, order);
	take_over(pcp, &recorded);
	emit_change(v, pcp, &before, gone, row);
	*before_clear = overflow_before(v->m, zone, &recorded, order);
	return pcp_overflow(v->m, zone, &recorded, order);
}

int follow_decay(struct validate *v, struct pcp *pcp, const struct stamp *s, uint64_t at)
{
	struct pcp recorded, lowered;

	follow_count(v, pcp, s->count);
	recorded = lowered = recorded_pcp(pcp, s);
	pcp_decay(v->m, &lowered);
	if (lowered.high != s->high && at > 1)
		emit_tuning(v, pcp,
			    (struct inferred){.at = at - 1,
					      .fields = FIELD_HIGH,
					      .high = high_before_decay(s->high) +
						      v->gone[pcp->number]});
	recorded.high = s->high;
	take_over(pcp, &recorded);
	return max_int(s->count - s->high, 0);
}

/*
 * The zone's counter of free pages, and this CPU's difference, before the stamp's event. The page
 * of that event is in the recorded ones; but of a refill only from 6.10 on.
 */
static void follow_counter(struct validate *v, struct zone *zone, const struct stamp *s,
			   const struct window_event *event)
{
	struct pcp *pcp = zone_pcp(v->m, zone, event->cpu);
	int most = zone->stat_threshold, diff = s->vmstat_diff, page = 1 << event->order;
	int64_t more = s->counted_free - (int64_t)zone_listed_free(zone);

	if (!most || v->score.guesses)
		return;
	if (s->kind == STAMP_KIND_REFILL)
		page = v->m->kernel->counts_each_page ? -page : 0;
	if (!diff && abs(pcp->vmstat_diff + page) > most) {
		/* The page moved the difference to the counter. */
		diff = pcp->vmstat_diff;
		more -= diff + page;
	} else {
		diff -= page;
	}
	/* More than the CPUs can hide is an error of the lists. */
	if (more >= -v->m->nr_cpus * most && more <= v->m->nr_cpus * most)
		learn_counter(v, zone, (int)more);
	vmstat_diff_take(v->m, zone, pcp, diff);
}

/* The zone's boost becomes the recorded one. */
static void follow_boost(struct validate *v, struct zone *zone, int64_t boost, uint64_t at)
{
	if (zone->boost && !boost)
		learn_unboosted(v, zone, at);
	zone->boost = boost;
}

/* The row after the last event of an event's CPU. */
static uint64_t since_last(const struct validate *v, const struct window_event *event)
{
	uint64_t last = v->whereabouts.ran[event->cpu];

	return last ? last + 1 : 0;
}

void follow_stamps(struct validate *v, const struct window_event *event)
{
	const struct stamp *s =
		stamp_of(&v->run.load.stamps, event->cpu, since_last(v, event), event->at);
	struct inferred row = {0};
	struct zone *zone;

	if (!s || !rule_is_on(RULE_stamps))
		return;
	zone = &v->m->zones[s->zone];
	follow_zone(v, s, &row);
	if (row.fields)
		emit_tuning(v, zone_pcp(v->m, zone, event->cpu), row);
	follow_boost(v, zone, s->boost, event->at);
	follow_counter(v, zone, s, event);
}

bool is_stamped(const struct validate *v, const struct window_event *event)
{
	const struct stamps *s = &v->run.load.stamps;

	return s->nr && event->at >= s->rows[0].at && event->at <= s->rows[s->nr - 1].at &&
	       rule_is_on(RULE_stamps);
}

const struct stamp *stamp_before(const struct validate *v, const struct zone *zone,
				 const struct window_event *earlier,
				 const struct window_event *event, int kind)
{
	uint64_t since = earlier ? earlier->at + 1 : since_last(v, event);
	const struct stamp *s = stamp_of(&v->run.load.stamps, event->cpu, since, event->at);

	if (!s || s->kind != kind || s->zone != zone->number || !rule_is_on(RULE_stamps))
		return NULL;
	return s;
}

/* A list gets the recorded first block, if that is on the list in the model. */
static void turn(struct validate *v, const struct list_head_row *row)
{
	const struct frame *f = &v->m->frames[row->frame == NO_FRAME ? 0 : row->frame];
	list_nr list;

	if (row->frame == NO_FRAME || f->state != FRAME_FREE || f->order != row->order ||
	    f->list != MIGRATETYPE_MOVABLE)
		return;
	list = free_list(frame_zone(v->m, row->frame), f->order, f->list);
	if (v->m->frames[list].next == row->frame)
		return;
	rotate_list(v->m, list, row->frame);
	emit_cut(&v->score, row->frame, 0);
}

void follow_list_heads(struct validate *v, uint64_t at, int32_t searcher)
{
	struct list_heads *h = &v->run.load.list_heads;
	int order = 0;

	for (; h->next < h->nr && rule_is_on(RULE_stamps); h->next++) {
		const struct list_head_row *row = &h->rows[h->next];

		if (row->at > at || (searcher >= 0 && row->at == at &&
				     (row->pid != searcher || row->order < order)))
			return;
		order = row->at == at ? row->order + 1 : 0;
		turn(v, row);
	}
}
