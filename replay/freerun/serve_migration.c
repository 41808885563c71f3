// SPDX-License-Identifier: Apache-2.0
/* Pages that recorded compaction moved: their frees and allocs, in a free run. */
#include "serve_internal.h"

#include "model/buddy.h"
#include "model/zone.h"

#include <string.h>

static struct migration *migration_of(struct serve *s, int32_t pid)
{
	for (int i = 0; i < SERVE_MIGRATIONS; i++)
		if (s->migrations[i].nr && s->migrations[i].pid == pid)
			return &s->migrations[i];
	return NULL;
}

static void forget_targets(struct serve *s, struct migration *g, uint32_t first, uint32_t nr)
{
	if (!nr)
		return;
	g->nr -= nr;
	memmove(&g->targets[first], &g->targets[first + nr], (g->nr - first) * sizeof(*g->targets));
	s->nr_migrations -= !g->nr;
}

void serve_migration_end(struct serve *s, int32_t pid)
{
	struct migration *g = migration_of(s, pid);

	if (g)
		forget_targets(s, g, 0, g->nr);
}

/* A task begins to move pages within a zone; NULL if too many do. */
static struct migration *begin(struct serve *s, int32_t pid, const struct zone *zone)
{
	for (int i = 0; i < SERVE_MIGRATIONS; i++) {
		struct migration *g = &s->migrations[i];

		if (g->nr)
			continue;
		g->pid = pid;
		g->zone = zone->number;
		g->used = 0;
		g->block = NO_FRAME;
		s->nr_migrations++;
		return g;
	}
	return NULL;
}

void serve_migration_target(struct serve *s, int32_t pid, frame_nr frame, int order)
{
	const struct zone *zone = frame_zone(s->model, frame);
	struct migration *g = migration_of(s, pid);

	if (g && g->nr + (1u << order) > MIGRATION_TARGETS) {
		forget_targets(s, g, 0, g->used < g->nr ? g->used : g->nr);
		g->used = 0;
	}
	if (g && (g->zone != zone->number || g->nr + (1u << order) > MIGRATION_TARGETS))
		forget_targets(s, g, 0, g->nr);
	if (!g || !g->nr)
		g = begin(s, pid, zone);
	for (uint32_t i = 0; g && i < 1u << order; i++)
		g->targets[g->nr++] = frame + i;
}

static bool is_target(const struct migration *g, frame_nr frame)
{
	for (uint32_t i = 0; i < g->nr; i++)
		if (g->targets[i] == frame)
			return true;
	return false;
}

/* A target that the task frees was not needed: it frees it in the end. */
static bool gives_back(struct serve *s, struct migration *g, const struct waiting *e)
{
	for (uint32_t i = 0; i < g->nr; i++) {
		uint32_t pages = 1u << e->order;

		if (g->targets[i] != e->frame)
			continue;
		forget_targets(s, g, i, pages < g->nr - i ? pages : g->nr - i);
		return true;
	}
	return false;
}

static bool can_move(const struct serve *s, frame_nr page)
{
	const struct frame *f = &s->model->frames[page];

	if (f->order || serve_is_freed_with_others(s, page))
		return false;
	return f->state == FRAME_USED_MOVABLE ||
	       (f->state == FRAME_OLD && frame_block(s->model, page)->old_movable);
}

/* The first page of a pageblock that can move, with its recorded frame; or NO_FRAME. */
static uint32_t first_movable(struct serve *s, const struct migration *g, uint32_t start,
			      uint32_t *name)
{
	const struct model *m = s->model;
	const struct pageblock *block = frame_block(m, start);
	uint32_t end = start + (1u << m->pageblock_order), page = start;

	if (!block->nr_live[MIGRATETYPE_MOVABLE] && !block->old_movable)
		return NO_FRAME;
	for (; page < end; page += 1u << m->frames[page].order) {
		page = block_head(m, page) < start ? end : page;
		if (page == end || !can_move(s, page))
			continue;
		*name = page_map_name(&s->pages, page);
		if (*name != NO_FRAME && !is_target(g, *name))
			return page;
	}
	return NO_FRAME;
}

/*
 * The page that moves in the model: one of the recorded pageblock, else of the block of the last
 * one, else of the next MOVABLE block below that of `target`.
 */
static uint32_t find_source(struct serve *s, struct migration *g, uint32_t start, uint32_t target,
			    uint32_t *name)
{
	const struct model *m = s->model;
	frame_nr page = first_movable(s, g, start, name), pages = 1u << m->pageblock_order;

	if (page == NO_FRAME && g->block != NO_FRAME)
		page = first_movable(s, g, g->block, name);
	for (start += pages; page == NO_FRAME && start < block_start(m, target); start += pages)
		if (frame_block(m, start)->migratetype == MIGRATETYPE_MOVABLE)
			page = first_movable(s, g, start, name);
	if (page != NO_FRAME)
		g->block = block_start(m, page);
	return page;
}

bool serve_migration_free(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	struct migration *g = migration_of(s, e->moment.pid);
	uint32_t own = page_map_place(&s->pages, e->frame), target, to, name, page;

	if (!g || gives_back(s, g, e))
		return false;
	if (e->order || g->used >= g->nr || frame_zone(m, e->frame)->number != g->zone)
		return true;
	target = g->targets[g->used++];
	to = page_map_place(&s->pages, target);
	if (own == NO_FRAME || to == NO_FRAME || block_start(m, own) == block_start(m, e->frame) ||
	    serve_is_freed_with_others(s, own) || serve_is_freed_with_others(s, to))
		return true;
	page = find_source(s, g, block_start(m, e->frame), to, &name);
	if (page == NO_FRAME || page == own)
		return true;
	block_carve(m, own, 0);
	block_carve(m, to, 0);
	if (m->frames[page].state == FRAME_OLD) {
		zone_forget_old(m, page, 0);
		zone_mark_live(m, page, 0, MIGRATETYPE_MOVABLE);
	}
	page_map_set(&s->pages, target, 0, own + 1, true);
	page_map_set(&s->pages, name, 0, to + 1, true);
	page_map_set(&s->pages, e->frame, 0, page + 1, true);
	return true;
}
