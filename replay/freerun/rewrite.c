// SPDX-License-Identifier: Apache-2.0
#include "rewrite.h"

#include "serve_internal.h"

#include "model/memory.h"

#include <stdlib.h>

int rewrites_init(struct rewrites *w, const struct rewrite_rule *rules, int nr,
		  const struct model *m, struct error *err)
{
	*w = (struct rewrites){.rules = rules, .nr = nr};
	if (!nr)
		return 0;
	w->pieces = arrays_new(m->arrays, m->nr_frames, sizeof(*w->pieces));
	return arrays_error(m->arrays, err);
}

static int compare_pids(const void *a, const void *b)
{
	int32_t one = *(const int32_t *)a, other = *(const int32_t *)b;

	return (one > other) - (one < other);
}

/* Whether the request has one of the stacks. */
static bool has_stack(const struct rewrite_rule *rule, const struct moment *at)
{
	size_t first = 0, end = rule->nr_stacks;

	while (first < end) {
		size_t middle = first + (end - first) / 2;
		uint64_t ts = rule->stack_ts[middle];
		uint16_t cpu = rule->stack_cpus[middle];

		if (ts == at->ts && cpu == at->cpu)
			return true;
		if (ts < at->ts || (ts == at->ts && cpu < at->cpu))
			first = middle + 1;
		else
			end = middle;
	}
	return false;
}

static bool fits(const struct rewrite_rule *rule, const struct waiting *e)
{
	uint64_t ts = e->moment.ts;

	return rule->orders >> e->order & 1 && rule->migratetypes >> e->migratetype & 1 &&
	       (e->gfp_flags & rule->gfp_has) == rule->gfp_has &&
	       !(e->gfp_flags & rule->gfp_lacks) && ts >= rule->since && ts < rule->until &&
	       (!rule->pids || bsearch(&e->moment.pid, rule->pids, rule->nr_pids,
				       sizeof(*rule->pids), compare_pids)) &&
	       (!rule->stack_ts || has_stack(rule, &e->moment));
}

static const struct rewrite_rule *find(const struct rewrites *w, const struct waiting *e)
{
	for (int i = 0; i < w->nr; i++)
		if (fits(&w->rules[i], e))
			return &w->rules[i];
	return NULL;
}

bool rewrites_fit(const struct rewrites *w, const struct waiting *e)
{
	return find(w, e);
}

/* The pages of a block, which no request of the model uses yet, get no place in the model. */
static void leave_unserved(struct serve *s, const struct waiting *e)
{
	serve_make_free(s, e);
	page_map_set(&s->pages, e->frame, e->order, MAP_UNSERVED, false);
}

static uint32_t of_alloc(struct rewrites *w, struct serve *s, const struct waiting *e,
			 struct waiting *piece)
{
	const struct rewrite_rule *rule = find(w, e);
	bool failed = e->frame == NO_FRAME;
	uint32_t times;

	if (!failed)
		w->pieces[e->frame] = 0;
	if (!rule)
		return 1;
	if (!failed && serve_has_block(s, e)) {
		w->kept++;
		return 1;
	}
	w->rewritten++;
	if (rule->drop) {
		if (!failed)
			leave_unserved(s, e);
		return 0;
	}
	if (rule->migratetype >= 0)
		piece->migratetype = (uint8_t)rule->migratetype;
	piece->gfp_flags = (e->gfp_flags & ~rule->gfp_clear) | rule->gfp_set;
	if (failed || rule->order < 0)
		return 1;
	times = rule->times ? rule->times : 1u << (e->order - rule->order);
	if (times == 1 && rule->order == e->order)
		return 1;
	leave_unserved(s, e);
	w->pieces[e->frame] = (uint16_t)(e->order << 8 | (rule->order + 1));
	piece->order = (uint8_t)rule->order;
	return times;
}

static uint32_t of_free(struct rewrites *w, const struct waiting *e, struct waiting *piece)
{
	uint16_t pieces = e->frame == NO_FRAME ? 0 : w->pieces[e->frame];
	int whole = pieces >> 8, order = (pieces & 0xff) - 1;

	if (!pieces)
		return 1;
	if (e->kind == EVENT_KIND_FREE_BATCHED && !e->batched)
		piece->order = (uint8_t)whole; /* its free was lost: no event has its order */
	if (piece->order != whole)
		return 1; /* a part of the block, page by page */
	if (e->kind == EVENT_KIND_FREE_BATCHED || !e->batched)
		w->pieces[e->frame] = 0; /* it takes effect */
	piece->order = (uint8_t)order;
	piece->joins = false;
	return 1u << (whole - order);
}

uint32_t rewrites_of(struct rewrites *w, struct serve *s, const struct waiting *e,
		     struct waiting *piece)
{
	*piece = *e;
	switch (e->kind) {
	case EVENT_KIND_ALLOC:
		return of_alloc(w, s, e, piece);
	case EVENT_KIND_FREE:
	case EVENT_KIND_FREE_BATCHED:
		return of_free(w, e, piece);
	}
	return 1;
}
