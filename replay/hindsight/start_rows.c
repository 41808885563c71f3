// SPDX-License-Identifier: Apache-2.0
/* The start, written as the rows of a snapshot. */
#include "hindsight_run.h"

#include "model/buddy.h"
#include "model/pcp.h"
#include "tape/snapshot.h"

#include <errno.h>
#include <stdlib.h>

/* A chunk on its way to its list. */
struct place_on_list {
	uint32_t list, left, frame;
	bool at_tail;
};

static int by_place(const void *a, const void *b)
{
	const struct place_on_list *x = a, *y = b;

	if (x->list != y->list)
		return x->list < y->list ? -1 : 1;
	if (x->at_tail != y->at_tail)
		return x->at_tail ? 1 : -1;
	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

/*
 * A chunk that did not leave from the head of its list may have stood at the tail: a free puts it
 * there if its next merge is near, because the buddy of the merged chunk is free
 * (buddy_merge_likely, 5.10 to 7.3).
 */
static bool is_at_tail(const struct hindsight *h, frame_nr frame)
{
	int order = h->chunks[frame].order - 1;
	uint32_t other = (frame & ~(1u << order)) ^ (2u << order);

	return h->m->kernel->tail_on_likely_merge && order < h->m->max_order - 1 &&
	       !h->chunks[frame].listed && h->chunks[other].order == order + 2;
}

static void write_free_block(struct hindsight *h, frame_nr frame)
{
	const struct start_chunk *chunk = &h->chunks[frame];
	const struct zone *zone = frame_zone(h->m, frame);
	struct proven *blocks = &h->coverage.free_blocks, *pages = &h->coverage.free_pages;
	struct free_block_columns *columns;
	BEGIN_SNAPSHOT_ROW(h->free_block, 0, 0, zone)

	columns->migratetype[i] = chunk->migratetype;
	columns->page_order[i] = (uint8_t)(chunk->order - 1);
	columns->pfn[i] = frame_pfn(h->m, frame);
	blocks->nr++;
	pages->nr += 1ull << (chunk->order - 1);
	if (chunk->left != NEVER) {
		blocks->proven++;
		pages->proven += 1ull << (chunk->order - 1);
	}
}

static int write_free_blocks(struct hindsight *h, struct error *err)
{
	struct model *m = h->m;
	struct place_on_list *places;
	size_t nr = 0;

	for (frame_nr frame = 0; frame < m->nr_frames; frame++)
		nr += h->chunks[frame].order > 0;
	places = malloc((nr + 1) * sizeof(*places));
	if (!places)
		return fail(err, ENOMEM, "no memory for %zu free blocks", nr);
	nr = 0;
	for (frame_nr frame = 0; frame < m->nr_frames; frame++) {
		const struct start_chunk *chunk = &h->chunks[frame];

		if (!chunk->order)
			continue;
		places[nr++] = (struct place_on_list){
			free_list(frame_zone(m, frame), chunk->order - 1, chunk->migratetype),
			chunk->left, frame, is_at_tail(h, frame)};
	}
	qsort(places, nr, sizeof(*places), by_place);
	for (size_t i = 0; i < nr; i++)
		write_free_block(h, places[i].frame);
	free(places);
	return 0;
}

/* In list order: from the head in order of leaving, then from the tail in the opposite order. */
static int by_entry(const void *a, const void *b)
{
	const struct start_entry *x = a, *y = b;

	if (x->list != y->list)
		return x->list < y->list ? -1 : 1;
	if (x->drained != y->drained)
		return x->drained ? 1 : -1;
	if (x->row != y->row)
		return (x->row < y->row) != x->drained ? -1 : 1;
	return 0;
}

static void write_pcp_page(struct hindsight *h, uint32_t number, frame_nr frame, int page_order)
{
	const struct pcp *pcp = &h->m->pcps[number / MAX_PCP_LISTS];
	const struct zone *zone = &h->m->zones[pcp->zone];
	struct pcp_page_columns *columns;
	int order, type;
	BEGIN_SNAPSHOT_ROW(h->pcp_page, 0, 0, zone)

	pcp_list_of(h->m, (int)(number % MAX_PCP_LISTS), &order, &type);
	columns->cpu[i] = pcp->cpu;
	columns->migratetype[i] = (uint8_t)type;
	columns->page_order[i] = (uint8_t)page_order;
	columns->pfn[i] = frame_pfn(h->m, frame);
}

/*
 * Pages of a PCP that no event shows: the snapshot has only their number. Used pages of the zone
 * without an event stand for them.
 */
static void write_unseen_pages(struct hindsight *h, uint32_t number, uint32_t nr, uint32_t *next)
{
	const struct model *m = h->m;
	const struct zone *zone = &m->zones[m->pcps[number / MAX_PCP_LISTS].zone];

	if (*next < zone->start)
		*next = zone->start;
	for (; nr && *next < zone->end; ++*next) {
		if (h->first[*next].place != FIRST_UNSEEN || m->frames[*next].state != FRAME_OLD)
			continue;
		write_pcp_page(h, number, *next, 0);
		nr--;
	}
}

/* The list of a PCP for such pages: it was never empty, so they may be there to the end. */
static uint32_t list_with_unseen(const struct hindsight *h, uint32_t pcp)
{
	static const uint8_t types[] = {MIGRATETYPE_MOVABLE, MIGRATETYPE_UNMOVABLE,
					MIGRATETYPE_RECLAIMABLE};

	for (int i = 0; i < 3; i++) {
		uint32_t number = pcp * MAX_PCP_LISTS + h->m->pcp_lists[0][types[i]];

		if (h->emptied[number] == NEVER)
			return number;
	}
	return NEVER;
}

static void write_pcp_pages(struct hindsight *h)
{
	struct model *m = h->m;
	uint32_t next_page = 0, nr_lists = (uint32_t)(m->nr_zones * m->nr_cpus) * MAX_PCP_LISTS;
	const struct start_entry *entry = h->entries, *end = h->entries + h->nr_entries;

	if (h->nr_entries)
		qsort(h->entries, h->nr_entries, sizeof(*h->entries), by_entry);
	for (uint32_t number = 0; number < nr_lists; number++) {
		uint32_t pcp = number / MAX_PCP_LISTS;

		for (; entry < end && entry->list == number && !entry->drained; entry++)
			write_pcp_page(h, number, entry->frame, entry->order);
		if (h->counts[pcp] && list_with_unseen(h, pcp) == number)
			write_unseen_pages(h, number, h->counts[pcp], &next_page);
		for (; entry < end && entry->list == number; entry++)
			write_pcp_page(h, number, entry->frame, entry->order);
	}
	for (entry = h->entries; entry < end; entry++)
		h->coverage.pcp_pages.proven += 1ull << entry->order;
	h->coverage.pcp_pages.nr = h->coverage.pcp_pages.proven;
	for (int pcp = 0; pcp < m->nr_zones * m->nr_cpus; pcp++)
		h->coverage.pcp_pages.nr += h->counts[pcp];
}

static void write_pageblocks(struct hindsight *h)
{
	const struct model *m = h->m;

	for (uint32_t b = 0; b < m->nr_frames >> m->pageblock_order; b++) {
		const struct start_block *block = &h->blocks[b];
		frame_nr frame = b << m->pageblock_order;
		const struct zone *zone = frame_zone(m, frame);
		struct pageblock_columns *columns;

		if (!block->listed && !block->evidence)
			continue;
		BEGIN_SNAPSHOT_ROW(h->pageblock, 0, 0, zone)
		columns->pfn[i] = zone->base_pfn + (frame - zone->base);
		columns->migratetype[i] = block->migratetype;
		columns->guessed[i] = !block->evidence;
		if (block->has_movable) {
			columns->nr_movable[i] = block->nr_movable;
			set_valid(columns->nr_movable_valid, i);
		}
		h->coverage.pageblocks.nr++;
		h->coverage.pageblocks.proven += block->evidence != GUESSED;
	}
}

/* The rows of the snapshot, with what later events show of the tuning. */
static void write_pcps(struct hindsight *h)
{
	const struct model *m = h->m;

	for (int number = 0; number < m->nr_zones * m->nr_cpus; number++) {
		const struct given_pcp *given = &h->given[number];
		const struct start_tuning *tuning = &h->tunings[number];
		const struct pcp *pcp = &m->pcps[number];
		const struct zone *zone = &m->zones[pcp->zone];
		uint32_t counts[HINDSIGHT_COUNTS];
		struct pcp_columns *columns;

		if (!given->listed)
			continue;
		BEGIN_SNAPSHOT_ROW(h->pcp, 0, 0, zone)
		columns->cpu[i] = pcp->cpu;
		columns->count[i] = given->count;
		columns->high[i] = given->high;
		columns->batch[i] = given->batch;
		if (given->limits) {
			columns->high_min[i] = given->high_min;
			columns->high_max[i] = given->high_max;
			set_valid(columns->high_min_valid, i);
			set_valid(columns->high_max_valid, i);
		}
		if (tuning->has_alloc_factor) {
			columns->alloc_factor[i] = start_alloc_factor(tuning);
			set_valid(columns->alloc_factor_valid, i);
		}
		if (tuning->expire) {
			columns->expire[i] = tuning->expire;
			set_valid(columns->expire_valid, i);
		}
		if (tuning->has_free && m->kernel->pcp_tuning == PCP_AUTO) {
			start_free_counts(h, number, counts);
			columns->free_count[i] = counts[0];
			set_valid(columns->free_count_valid, i);
		} else if (tuning->has_free) {
			columns->free_factor[i] = tuning->free_factor;
			set_valid(columns->free_factor_valid, i);
		}
	}
}

int write_start(struct hindsight *h, struct error *err)
{
	write_pageblocks(h);
	write_pcps(h);
	write_pcp_pages(h);
	return write_free_blocks(h, err);
}
