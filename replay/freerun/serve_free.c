// SPDX-License-Identifier: Apache-2.0
/* The frees of a free run. */
#include "serve_internal.h"

#include "model/buddy.h"
#include "model/pcp.h"
#include "model/zone.h"

static inline void free_block(struct serve *s, frame_nr head, int order, int rows)
{
	struct model *m = s->model;

	if (rows & ROW_FREE)
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, head), order);
	if (rows & ROW_FREE_BATCHED)
		events_free_batched(m->events, &m->now, (int64_t)frame_pfn(m, head));
	s->request.free.movable = rows & (ROW_FREE_BATCHED | ROW_OF_MOVED);
	zone_free_as(m, head, order, &s->request.free);
}

/* Free one page of a batch or group. */
static void free_shared(struct serve *s, frame_nr page, int rows)
{
	struct model *m = s->model;
	int order = m->pageblock_order;
	frame_nr head = s->huge && huge_has(s->huge, page)
				? huge_give_back(s->huge, page)
				: alloc_batches_give_back(s->alloc_batches, m, page, &order);

	if (head != NO_FRAME)
		free_block(s, head, order, rows);
}

/* Free one recorded page at its place in the model; false if it has none. */
static bool free_page(struct serve *s, frame_nr frame, int rows)
{
	struct model *m = s->model;
	uint32_t place = s->pages.map[frame];

	s->pages.map[frame] = MAP_FREED;
	if (map_has_page(place) && serve_is_freed_with_others(s, place - 1)) {
		free_shared(s, place - 1, rows);
		return true;
	}
	if (map_has_page(place)) {
		block_carve(m, place - 1, 0);
		free_block(s, place - 1, 0, rows);
		return true;
	}
	if (place == MAP_UNSEEN && m->frames[frame].state == FRAME_OLD) {
		free_block(s, frame, 0, rows);
		return true;
	}
	return false;
}

static bool all_old(const struct serve *s, frame_nr frame, int order)
{
	for (uint32_t i = 0; i < 1u << order; i++)
		if (s->pages.map[frame + i] != MAP_UNSEEN ||
		    s->model->frames[frame + i].state != FRAME_OLD)
			return false;
	return !(frame & ((1u << order) - 1));
}

/* Whether a recorded block is, or is part of, a huge page that the model has in pieces. */
static bool in_pieces(const struct serve *s, const struct waiting *e)
{
	if (!s->huge || !*huge_pieces(s->huge, e->frame))
		return false;
	for (uint32_t i = 1; i < 1u << e->order; i++)
		if (s->pages.map[e->frame + i] != s->pages.map[e->frame] + i)
			return true;
	return false;
}

/* Free pages that are not one block of the model, page by page. */
__attribute__((cold)) static void free_pieces(struct serve *s, const struct waiting *e, int rows)
{
	uint32_t first = s->pages.map[e->frame], pages = 1u << e->order, freed = 0;
	int kind = ANOMALY_KIND_ORDER_MISMATCH;
	bool known = in_pieces(s, e);

	for (uint32_t i = 0; i < pages; i++)
		freed += free_page(s, e->frame + i, rows);
	if ((!freed && first == MAP_UNSERVED) || (known && freed))
		return;
	if (first == MAP_FREED)
		kind = ANOMALY_KIND_FREE_OF_FREE;
	else if (freed < pages)
		kind = ANOMALY_KIND_FREE_UNKNOWN;
	serve_report(s, e, kind, freed ? ANOMALY_ACTION_FREED_BY_PAGE : ANOMALY_ACTION_IGNORED);
}

/* A free takes effect. */
void serve_commit_free(struct serve *s, const struct waiting *e, int rows)
{
	struct model *m = s->model;
	uint32_t place = s->pages.map[e->frame];

	if (map_has_page(place) && serve_is_freed_with_others(s, place - 1) && !e->order) {
		s->pages.map[e->frame] = MAP_FREED;
		free_shared(s, place - 1, rows);
	} else if (map_has_page(place)) {
		if (serve_is_freed_with_others(s, place - 1) || in_pieces(s, e) ||
		    !block_carve(m, place - 1, e->order)) {
			free_pieces(s, e, rows);
			return;
		}
		page_map_set(&s->pages, e->frame, e->order, MAP_FREED, false);
		free_block(s, place - 1, e->order, rows);
	} else if (all_old(s, e->frame, e->order)) {
		page_map_set(&s->pages, e->frame, e->order, MAP_FREED, false);
		free_block(s, e->frame, e->order, rows);
	} else {
		free_pieces(s, e, rows);
	}
}

/* Events of the free of a huge page that the model has in pieces, page by page. */
static void emit_pieces(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;

	for (uint32_t i = 0; i < 1u << e->order; i++) {
		uint32_t place = page_map_place(&s->pages, e->frame + i);

		if (place != NO_FRAME)
			events_free(m->events, &m->now, (int64_t)frame_pfn(m, place), 0);
	}
}

/* Write the event of a free that has no effect: of a batch, or undone. */
void serve_emit_free(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	uint32_t place;

	if (!m->events)
		return;
	place = s->pages.map[e->frame];
	if (map_has_page(place) && serve_is_freed_with_others(s, place - 1))
		return;
	if (in_pieces(s, e))
		emit_pieces(s, e);
	else if (map_has_page(place))
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, place - 1), e->order);
	else if (all_old(s, e->frame, e->order))
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, e->frame), e->order);
}

void serve_free_batched(struct serve *s, struct waiting *e)
{
	uint32_t place = s->pages.map[e->frame];

	if (e->batched) {
		serve_commit_free(s, e, ROW_FREE_BATCHED);
	} else if (map_has_page(place)) {
		/* Its free was lost, or this kernel reports no other. */
		e->order = serve_is_freed_with_others(s, place - 1)
				   ? 0
				   : s->model->frames[place - 1].order;
		serve_commit_free(s, e, ROW_FREE | ROW_FREE_BATCHED);
	}
}

/*
 * The record allocates pages that the model has as used before the start. So they were free: on a
 * PCP list if the snapshot lacks some PCP pages.
 */
static void reveal_old(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	struct zone *zone = frame_zone(m, e->frame);
	uint64_t pages = 1ull << e->order;

	if (!all_old(s, e->frame, e->order))
		return;
	zone_forget_old(m, e->frame, e->order);
	if (pcp_allowed(m, e->order) && zone->pcp_unseen >= pages &&
	    e->migratetype <= MIGRATETYPE_RECLAIMABLE) {
		zone->pcp_unseen -= pages;
		pcp_push_head(m, zone_pcp(m, zone, e->moment.cpu), e->frame, e->order,
			      e->migratetype, frame_block(m, e->frame)->migratetype);
		return;
	}
	buddy_free_direct(m, zone, e->frame, e->order, NULL);
	serve_report(s, e, ANOMALY_KIND_ALLOC_OF_USED, ANOMALY_ACTION_FREED_BY_PAGE);
}

/* The record allocates pages without a recorded free. */
__attribute__((noinline)) static void free_missed(struct serve *s, const struct waiting *e)
{
	bool missed = false;

	for (uint32_t i = 0; i < 1u << e->order; i++)
		if (map_has_page(s->pages.map[e->frame + i]))
			missed |= free_page(s, e->frame + i, ROW_FREE);
	if (missed)
		serve_report(s, e, ANOMALY_KIND_ALLOC_OF_USED, ANOMALY_ACTION_FREED_BY_PAGE);
}

/* The record takes pages off the lists: end the model's own use of them. */
void serve_make_free(struct serve *s, const struct waiting *e)
{
	/* The common case: one page, whose free was recorded. */
	if (!e->order && s->pages.map[e->frame] == MAP_FREED)
		return;
	free_missed(s, e);
	if (s->pages.map[e->frame] == MAP_UNSEEN && s->model->frames[e->frame].state == FRAME_OLD)
		reveal_old(s, e);
}
