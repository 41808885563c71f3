// SPDX-License-Identifier: Apache-2.0
#include "variation.h"

#include "model/buddy.h"
#include "model/min_max.h"
#include "model/pcp.h"
#include "model/vmstat_diff.h"

#include <errno.h>
#include <stdlib.h>

/* The next number of splitmix64. */
static uint64_t draw(struct variation *v)
{
	return mix64(v->random += 0x9e3779b97f4a7c15ull);
}

/* A number below `end`. */
static uint32_t draw_below(struct variation *v, uint32_t end)
{
	return (uint32_t)((draw(v) >> 32) * end >> 32);
}

/* Rows until the next change: 1 to twice the mean. */
static uint64_t draw_gap(struct variation *v)
{
	uint64_t most = 2000000 / v->per_million;

	return 1 + draw_below(v, (uint32_t)(most > 1 ? most : 1));
}

/* The row of the next alloc that takes another entry, after `row`: 1 to twice the mean further. */
static uint64_t draw_flip(struct variation *v, uint64_t row)
{
	uint64_t rate = v->config.flips[FLIP_ALLOC], most = 2ull * FLIPS_PER / (rate ? rate : 1);

	if (!rate)
		return UINT64_MAX;
	v->random = mix64(v->config.seed) ^ ++v->nr_flips * 0x632be59bd9b4e019ull;
	return row + (most > 2 ? 1 + draw_below(v, (uint32_t)most - 1) : 1);
}

static void set_next(struct variation *v)
{
	v->next = v->next_change < v->next_flip ? v->next_change : v->next_flip;
}

/* Give the entries of a list another order; `entries` has room for all of them. */
static void shuffle(struct variation *v, list_nr list, uint32_t *entries)
{
	struct frame *frames = v->model->frames;
	uint32_t nr = 0;

	while (!list_empty(frames, list)) {
		entries[nr] = frames[list].next;
		list_del(frames, entries[nr++]);
	}
	for (; nr; nr--) {
		uint32_t chosen = draw_below(v, nr), entry = entries[chosen];

		entries[chosen] = entries[nr - 1];
		list_add_tail(frames, list, entry);
	}
}

static int shuffle_guessed(struct variation *v, struct error *err)
{
	const struct model *m = v->model;

	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];
		uint32_t *entries;

		if (!zone->guessed || !zone->nr_free_pages)
			continue;
		entries = calloc(zone->nr_free_pages, sizeof(*entries));
		if (!entries)
			return fail(err, ENOMEM, "no memory for %llu free blocks",
				    (unsigned long long)zone->nr_free_pages);
		for (int order = 0; order <= m->max_order; order++)
			for (int type = 0; type < NR_MIGRATETYPE; type++)
				shuffle(v, free_list(zone, order, type), entries);
		free(entries);
	}
	return 0;
}

/* Rates for the model's draws. A fallback has two: of its block, and of a claim. */
static void start_flips(struct variation *v, const uint64_t *at)
{
	v->flips = (struct flips){.seed = v->config.seed, .at = at, .row = UINT64_MAX};
	for (int kind = 0; kind < NR_FLIP; kind++)
		v->flips.rates[kind] = v->config.flips[kind] / (kind == FLIP_EXTFRAG ? 2 : 1);
	v->model->flips = &v->flips;
}

int variation_start(struct variation *v, const struct variation_run *run,
		    const struct variation_config *config, struct error *err)
{
	int ret = 0;

	*v = (struct variation){.config = *config,
				.model = run->model,
				.pair = (config->seed + 1) / 2,
				.mirrored = !(config->seed & 1),
				.next = UINT64_MAX,
				.next_change = UINT64_MAX,
				.next_flip = UINT64_MAX};
	if (!config->seed)
		return 0;
	v->random = v->pair;
	for (int kind = 0; kind < NR_VARIATION; kind++)
		v->per_million += config->changes[kind];
	if (v->per_million)
		v->next_change = run->first + draw_gap(v);
	ret = shuffle_guessed(v, err);
	if (!ret && config->moments)
		ret = inferred_move(run->inferred, config->seed, run->first, &v->moments, err);
	v->next_flip = draw_flip(v, run->first);
	start_flips(v, run->at);
	set_next(v);
	return ret;
}

/* One bit of the change that comes: the seeds of a pair have opposite ones. */
static bool draw_side(struct variation *v)
{
	return draw_below(v, 2) ^ v->mirrored;
}

/*
 * Move the first entry of the list from which a request takes next to the list's end, or the last
 * one to its begin.
 */
static void move_entry(struct variation *v, const struct zone *zone, int order, int type)
{
	struct model *m = v->model;
	struct frame *frames = m->frames;
	list_nr list = free_list(zone, order, type);
	bool to_end = draw_side(v);
	frame_nr entry;

	if (pcp_allowed(m, order) && draw_below(v, 2))
		list = pcp_list(m, zone_pcp(m, zone, m->now.cpu), order, type);
	else
		while (list_empty(frames, list) && ++order <= m->max_order)
			list = free_list(zone, order, type);
	entry = to_end ? frames[list].next : frames[list].prev;
	if (entry == list)
		return;
	list_del(frames, entry);
	if (to_end)
		list_add_tail(frames, list, entry);
	else
		list_add_head(frames, list, entry);
}

/* An entry behind the first one of the list from which a request takes becomes the first. */
static void flip_alloc(struct variation *v, const struct waiting *e)
{
	enum { DEEPEST = 8 };
	struct model *m = v->model;
	struct frame *frames = m->frames;
	uint32_t depth = 0;
	frame_nr entry;
	list_nr list;
	const struct zone *zone = frame_zone(m, e->frame);

	if (!pcp_allowed(m, e->order))
		return;
	list = pcp_list(m, zone_pcp(m, zone, m->now.cpu), e->order, e->migratetype);
	for (entry = frames[list].next; entry != list && depth < DEEPEST; depth++)
		entry = frames[entry].next;
	if (depth < 2)
		return;
	entry = frames[list].next;
	for (uint32_t steps = 1 + draw_below(v, depth - 1); steps; steps--)
		entry = frames[entry].next;
	list_del(frames, entry);
	list_add_head(frames, list, entry);
	v->flips.drawn[FLIP_ALLOC]++;
}

/* Drain as a change, not by the rules: without events, counters and lock requests. */
static void drain_unseen(struct model *m, struct zone *zone, struct pcp *pcp, int pages)
{
	const struct zone_lock_ops *zone_lock_ops = m->zone_lock_ops;
	struct counters counters = pcp->counters;
	struct events *events = m->events;

	m->events = NULL;
	m->zone_lock_ops = NULL;
	pcp_drain_piece(m, zone, pcp, pages);
	m->events = events;
	m->zone_lock_ops = zone_lock_ops;
	pcp->counters = counters;
}

/* Refill as a change: with pages of the free lists of that type, which has as many. */
static void refill_unseen(struct model *m, struct zone *zone, struct pcp *pcp, int type, int pages)
{
	for (; pages; pages--) {
		frame_nr frame = buddy_take_smallest(m, zone, 0, type);

		vmstat_diff_add(m, zone, -1);
		pcp_push_tail(m, pcp, frame, 0, type, type);
	}
}

static int64_t pages_of_type(const struct model *m, const struct zone *zone, int type)
{
	int64_t pages = 0;

	for (int order = 0; order <= m->max_order; order++)
		pages += (int64_t)zone->nr_free[order][type] << order;
	return pages;
}

/* A value that changes by `change` up or down, if it may change either way. */
static int32_t moved_within(int32_t value, int change, int64_t least, int64_t most, bool up)
{
	if ((int64_t)value - change < least || (int64_t)value + change > most)
		return value;
	return up ? value + change : value - change;
}

/* A change of a list's size has a mirror: what could go only one way stays as it is. */
static void change_size(struct variation *v, struct zone *zone, int type)
{
	struct model *m = v->model;
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	int batch = pcp->batch > 0 ? pcp->batch : 1;
	int change = 1 + (int)draw_below(v, (uint32_t)batch);
	bool up = draw_side(v);

	switch (draw_below(v, 3)) {
	case 0:
		if (change > pcp->count || change > pages_of_type(m, zone, type))
			break;
		if (up)
			refill_unseen(m, zone, pcp, type, change);
		else
			drain_unseen(m, zone, pcp, change);
		break;
	case 1:
		pcp->high = moved_within(pcp->high, change, pcp->high_min, pcp->high_max, up);
		break;
	default:
		pcp->free_count = moved_within(pcp->free_count, change, 0,
					       (int64_t)batch << m->kernel->pcp_scale_max, up);
	}
}

static void change_counter(struct variation *v, struct zone *zone)
{
	int most = vmstat_diff_room(v->model, zone), pages;
	bool up = draw_side(v);

	if (zone->stat_threshold <= 0 || !most)
		return;
	pages = 1 + (int)draw_below(v, (uint32_t)min_int(zone->stat_threshold, most));
	vmstat_diff_shift(v->model, zone, up ? pages : -pages);
}

static void change(struct variation *v, const struct waiting *e)
{
	struct zone *zone = frame_zone(v->model, e->frame);
	uint32_t which = draw_below(v, (uint32_t)v->per_million);
	int kind = 0;

	while (which >= v->config.changes[kind])
		which -= v->config.changes[kind++];
	v->drawn[kind]++;
	switch (kind) {
	case VARY_MOVED:
		move_entry(v, zone, e->order, e->migratetype);
		break;
	case VARY_SIZED:
		change_size(v, zone, e->migratetype);
		break;
	case VARY_COUNTED:
		change_counter(v, zone);
		break;
	}
}

static bool is_changeable(const struct waiting *e)
{
	bool is_refill = e->kind == EVENT_KIND_ALLOC_ZONE_LOCKED && !e->follows;

	return (e->kind == EVENT_KIND_ALLOC || is_refill) && e->frame != NO_FRAME &&
	       e->migratetype <= MIGRATETYPE_RECLAIMABLE;
}

void variation_run(struct variation *v, const struct waiting *e, uint64_t at)
{
	struct moment before = v->model->now;

	v->model->now = e->moment;
	/* Changes wait for the next alloc. */
	while (v->next_change <= at && is_changeable(e)) {
		/* The numbers of a change do not depend on how many the last one drew. */
		v->random = v->pair + ++v->nr_changes * 0x632be59bd9b4e019ull;
		v->next_change += draw_gap(v);
		change(v, e);
	}
	/* A flip does not: its row decides. */
	while (v->next_flip <= at) {
		uint64_t row = v->next_flip;

		v->next_flip = draw_flip(v, row);
		if (row == at && is_changeable(e))
			flip_alloc(v, e);
	}
	set_next(v);
	v->model->now = before;
}

/* Names by enum variation_kind, then the moments, then by enum flip_kind. */
static const char *const names[] = {
	"moved",
	"sized",
	"counted",
	"moments",
	"other page",
	"other block",
	"other refill size",
	"other drained page",
	"other drain size",
	"other fallback",
};
enum { NR_NAMES = sizeof(names) / sizeof(names[0]) };
_Static_assert(NR_NAMES == NR_VARIATION + 1 + NR_FLIP, "every kind of change has a name");

const char *variation_name(int n)
{
	return n < (int)NR_NAMES ? names[n] : NULL;
}

uint64_t variation_drawn(const struct variation *v, int n)
{
	if (n < NR_VARIATION)
		return v->drawn[n];
	return n == NR_VARIATION ? v->moments : v->flips.drawn[n - NR_VARIATION - 1];
}
