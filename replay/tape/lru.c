// SPDX-License-Identifier: Apache-2.0
#include "lru.h"

#include "next_event.h"

#include <errno.h>
#include <stdlib.h>

enum { LRU_UNSEEN, LRU_SETTLED, LRU_FREED };

int lru_new(struct lru_found *l, const struct model *m, uint64_t begin, struct error *err)
{
	*l = (struct lru_found){.begin = begin};
	l->first = calloc(m->nr_frames, sizeof(*l->first));
	l->pages = calloc(m->nr_frames >> m->pageblock_order, sizeof(*l->pages));
	if (l->first && l->pages)
		return 0;
	return fail(err, ENOMEM, "no memory for %u page frames", m->nr_frames);
}

void lru_free(struct lru_found *l)
{
	free(l->first);
	free(l->pages);
	*l = (struct lru_found){0};
}

/* 2^order old pages from `frame` were on an LRU list. */
static void count(struct lru_found *l, const struct model *m, frame_nr frame, int order)
{
	for (uint32_t i = 0; i < 1u << order; i++)
		if (m->frames[frame + i].state == FRAME_OLD)
			l->pages[(frame + i) >> m->pageblock_order]++;
}

static void read_row(struct lru_found *l, const struct model *m, int kind, frame_nr frame,
		     int order)
{
	uint8_t *first = &l->first[frame];
	bool freed = kind == EVENT_KIND_FREE && *first == LRU_UNSEEN;

	if (kind == EVENT_KIND_FREE_BATCHED && *first != LRU_SETTLED)
		count(l, m, frame, *first ? *first - LRU_FREED : 0);
	for (uint32_t i = 0; i < 1u << order; i++)
		first[i] = LRU_SETTLED;
	if (freed)
		*first = (uint8_t)(LRU_FREED + order);
}

void lru_read(struct lru_found *l, const struct model *m, const struct event_columns *columns,
	      size_t rows)
{
	const struct zone *zone = &m->zones[0];

	for (size_t i = 0; i < rows; i++) {
		int order;
		frame_nr frame = next_event_frame(m, &zone, columns, i, &order);

		if (frame != NO_FRAME && l->read + i >= l->begin)
			read_row(l, m, columns->kind[i], frame, order);
	}
	l->read += rows;
}

void lru_learn(const struct model *m, frame_nr frame, uint32_t pages)
{
	struct pageblock *block = frame_block(m, frame);

	pages = pages < block->nr_old ? pages : block->nr_old;
	if (block->old_lru < pages)
		block->old_lru = (uint16_t)pages;
	if (block->old_movable < pages)
		block->old_movable = (uint16_t)pages;
}
