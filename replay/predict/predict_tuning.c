// SPDX-License-Identifier: Apache-2.0
/* The tuning of a PCP, from the size of a refill or drain. */
#include "predict.h"

#include "model/min_max.h"

enum { FACTOR_MOST = 16 }; /* more batches than any list holds */

/* Parameters that may differ from the model when a free overflows its PCP, or fails to. */
enum {
	OTHER_HIGH = 1,
	OTHER_BURST = 2, /* free_count, or free_factor: pages freed without a pause */
	OTHER_BELOW_HIGH = 4,
	OTHER_RECLAIM = 8,
};

/* Sets with few changes first. Too low a high, or outdated marks of the zone, drain too early. */
static const uint8_t of_a_drain[] = {0,
				     OTHER_HIGH,
				     OTHER_BURST,
				     OTHER_HIGH | OTHER_BURST,
				     OTHER_BELOW_HIGH,
				     OTHER_RECLAIM,
				     OTHER_BELOW_HIGH | OTHER_BURST,
				     OTHER_RECLAIM | OTHER_BURST,
				     OTHER_BELOW_HIGH | OTHER_HIGH | OTHER_BURST};
static const uint8_t of_no_drain[] = {0,
				      OTHER_BELOW_HIGH,
				      OTHER_RECLAIM,
				      OTHER_HIGH,
				      OTHER_BELOW_HIGH | OTHER_RECLAIM,
				      OTHER_BELOW_HIGH | OTHER_HIGH,
				      OTHER_RECLAIM | OTHER_HIGH,
				      OTHER_BELOW_HIGH | OTHER_RECLAIM | OTHER_HIGH};

void emit_tuning(struct validate *v, const struct pcp *pcp, struct inferred row)
{
	row.kind = INFERRED_KIND_TUNED;
	row.cpu = pcp->cpu;
	row.frame = v->m->zones[pcp->zone].start;
	row.migratetype = frame_block(v->m, row.frame)->migratetype;
	emit_inferred(&v->score, row, NULL);
}

void tune_refill(struct validate *v, struct zone *zone, struct pcp *pcp, const struct pcp *before,
		 const struct pick *pick, int size)
{
	const struct model *m = v->m;
	bool below_high = zone->below_high;

	if (!rule_is_on(RULE_tuning))
		return;
	for (int factor = -1; factor <= m->kernel->pcp_scale_max; factor++) {
		for (int flip = 0; flip < 2; flip++) {
			struct pcp guess = *before;
			struct inferred row = {.fields = FIELD_ALLOC_FACTOR | FIELD_BELOW_HIGH};

			if (factor >= 0)
				guess.alloc_factor = (uint8_t)factor;
			row.alloc_factor = guess.alloc_factor;
			zone->below_high = row.below_high = flip ? !below_high : below_high;
			if (pcp_refill_size(m, zone, &guess, pick->order) != size)
				continue;
			emit_tuning(v, pcp, row);
			pcp->alloc_factor = guess.alloc_factor;
			pcp->high = guess.high;
			return;
		}
	}
	zone->below_high = below_high;
}

/* The high of a PCP if only this is known: whether it drained at its count. */
static int shown_high(const struct pcp *pcp, bool drained)
{
	/* A wrong mark had lowered it by as much with a free. */
	int held = pcp->count + max_int(pcp->free_count, pcp->batch);

	if (drained)
		return pcp->count;
	return min_int(held, pcp->high_max);
}

/* The PCP at the time of the free, with a set of changes. */
static struct inferred change(const struct validate *v, const struct freed *free,
			      const struct drained *drained, int changes, struct pcp *guess)
{
	int tuning = v->m->kernel->pcp_tuning;
	struct inferred row = {.at = free->at};

	guess->count += drained->pages - pages_gone(v, guess);
	guess->high = free->high;
	guess->free_count = free->free_count;
	guess->free_factor = free->free_factor;
	guess->flags = free->flags;
	if (changes & OTHER_HIGH && tuning == PCP_AUTO)
		guess->high = shown_high(guess, drained->pages);
	else if (changes & (OTHER_BELOW_HIGH | OTHER_RECLAIM) && !drained->pages)
		guess->high = max_int(guess->high, v->highs[guess->number]);
	if (guess->high != free->high) {
		row.high = guess->high;
		row.fields |= FIELD_HIGH;
	}
	if (changes & OTHER_BURST && tuning == PCP_AUTO) {
		/* A drain of a batch shows only that the count was not above it. */
		guess->free_count = drained->most > guess->batch
					    ? max_int(drained->most - (1 << free->order), 0)
					    : 0;
		row.free_count = guess->free_count;
		row.fields |= FIELD_FREE_COUNT;
	}
	if (changes & OTHER_BURST && tuning == PCP_FREE_FACTOR) {
		while (row.free_factor < FACTOR_MOST &&
		       guess->batch << row.free_factor < drained->most)
			row.free_factor++;
		guess->free_factor = row.free_factor;
		row.fields |= FIELD_FREE_FACTOR;
	}
	return row;
}

/* Whether a drain of `due` pages, the last entry as a whole, is the recorded one. */
static bool is_like(const struct drained *drained, int due)
{
	if (due > drained->most)
		return drained->pages && drained->all;
	return due > drained->above || due == drained->pages;
}

/* Try one set of changes; keep it in force if it explains the record. */
static bool try_changes(struct validate *v, struct pcp *pcp, const struct freed *free,
			const struct drained *drained, int changes, struct inferred *row)
{
	struct zone *zone = &v->m->zones[pcp->zone];
	bool below_high = zone->below_high, reclaim_active = zone->reclaim_active;
	struct pcp guess = *pcp;

	*row = change(v, free, drained, changes, &guess);
	if (changes & OTHER_BELOW_HIGH) {
		zone->below_high = row->below_high = !below_high;
		row->fields |= FIELD_BELOW_HIGH;
	}
	if (changes & OTHER_RECLAIM) {
		zone->reclaim_active = row->reclaim_active = !reclaim_active;
		row->fields |= FIELD_RECLAIM_ACTIVE;
	}
	if (!is_like(drained, pcp_overflow(v->m, zone, &guess, free->order))) {
		zone->below_high = below_high;
		zone->reclaim_active = reclaim_active;
		return false;
	}
	pcp->high = guess.high;
	pcp->free_count = guess.free_count;
	pcp->free_factor = guess.free_factor;
	pcp->flags = guess.flags;
	return true;
}

/* No tuning explains the drain: correct the model as far as the drain shows the error. */
static struct inferred unexplained(struct validate *v, struct pcp *pcp, const struct freed *free,
				   const struct drained *drained)
{
	struct inferred row = {.at = free->at, .fields = FIELD_PAGES, .pages = drained->pages};
	int count = pcp->count - pages_gone(v, pcp) + drained->pages;

	if (!drained->pages || pcp->high <= count)
		return row;
	if (v->m->kernel->pcp_tuning == PCP_AUTO && count >= pcp->high_min) {
		pcp->high = row.high = count;
		row.fields |= FIELD_HIGH;
	} else {
		v->m->zones[pcp->zone].reclaim_active = row.reclaim_active = true;
		row.fields |= FIELD_RECLAIM_ACTIVE;
	}
	return row;
}

void tune_overflow(struct validate *v, struct pcp *pcp, const struct freed *free,
		   const struct drained *drained)
{
	const uint8_t *changes = drained->pages ? of_a_drain : of_no_drain;
	size_t nr = drained->pages ? sizeof(of_a_drain) : sizeof(of_no_drain), i = 0;
	struct inferred row;

	if (!rule_is_on(RULE_tuning))
		return;
	if (is_size_unknown(&v->score, &v->m->zones[pcp->zone]))
		return;
	while (i < nr && !try_changes(v, pcp, free, drained, changes[i], &row))
		i++;
	if (i == nr)
		row = unexplained(v, pcp, free, drained);
	if (row.fields)
		emit_tuning(v, pcp, row);
}

void tune_stopped(struct validate *v, const struct pcp *pcp, const struct freed *free, int pages)
{
	if (!rule_is_on(RULE_tuning))
		return;
	emit_tuning(v, pcp,
		    (struct inferred){.at = free->at, .fields = FIELD_PAGES, .pages = pages});
}

void tune_inferred_tick(struct validate *v, struct pcp *pcp, const struct pcp *before, int pages)
{
	struct pcp guess = *before;

	if (!rule_is_on(RULE_tuning))
		return;
	/* A reader of vm.stat_refresh folds the counters of every CPU, without an event. */
	if (v->m->kernel->decay == DECAY_NONE || pcp_decay(v->m, &guess) != pages)
		return;
	pcp->high = guess.high;
	emit_tuning(v, pcp, (struct inferred){.fields = FIELD_HIGH, .high = guess.high});
}
