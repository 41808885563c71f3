// SPDX-License-Identifier: Apache-2.0
#include "compact.h"

#include "buddy.h"
#include "seize.h"

#include <errno.h>
#include <stdlib.h>

int compactions_load(struct compactions *c, const struct compaction_columns *columns, size_t rows,
		     uint64_t first, struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		switch (columns->kind[i]) {
		case COMPACTION_KIND_ISOLATE_FREEPAGES:
		case COMPACTION_KIND_FAST_ISOLATE_FREEPAGES:
			if (!is_valid(columns->start_pfn_valid, i) ||
			    !is_valid(columns->end_pfn_valid, i) ||
			    !is_valid(columns->nr_scanned_valid, i) ||
			    !is_valid(columns->nr_taken_valid, i))
				continue;
			break;
		case COMPACTION_KIND_BEGIN:
		case COMPACTION_KIND_ISOLATE_MIGRATEPAGES:
		case COMPACTION_KIND_MIGRATE_PAGES_START:
		case COMPACTION_KIND_MIGRATE_PAGES:
		case COMPACTION_KIND_FINISHED:
		case COMPACTION_KIND_END:
			break;
		default:
			continue;
		}
		if (columns->at[i] < first)
			continue;
		if (c->nr && columns->at[i] < c->rows[c->nr - 1].at)
			return fail(err, EINVAL, "compaction: a row goes back to event %llu",
				    (unsigned long long)columns->at[i]);
		if (c->nr == c->room) {
			size_t room = c->room ? 2 * c->room : 1024;
			struct compact_row *more = realloc(c->rows, room * sizeof(*more));

			if (!more)
				return fail(err, ENOMEM, "no memory for %zu rows of compaction",
					    room);
			c->rows = more;
			c->room = room;
		}
		c->rows[c->nr++] = (struct compact_row){
			.at = columns->at[i],
			.start_pfn = columns->start_pfn[i],
			.end_pfn = columns->end_pfn[i],
			.nr_scanned = columns->nr_scanned[i],
			.nr_taken = columns->nr_taken[i],
			.pid = columns->pid[i],
			.kind = columns->kind[i],
		};
	}
	return 0;
}

void compactions_free(struct compactions *c)
{
	free(c->rows);
}

void compact_take(struct model *m, uint32_t head)
{
	int order = m->frames[head].order;
	uint32_t block = 1u << m->pageblock_order;

	free_list_del(m, frame_zone(m, head), head);
	m->frames[head].state = FRAME_USED;
	if (order < m->pageblock_order - 1)
		return;
	for (uint32_t f = head; f < head + (1u << order); f += block) {
		if (frame_block(m, f)->migratetype > MIGRATETYPE_RECLAIMABLE)
			continue;
		if (m->kernel->drained_type == DRAINED_BLOCK)
			retype_block(m, f, MIGRATETYPE_MOVABLE);
		else
			set_block_type(m, f, 0, MIGRATETYPE_MOVABLE);
	}
}

static void isolate(struct model *m, uint32_t head, int mark,
		    const struct compact_listener *listener)
{
	listener->taking(listener->self, head);
	compact_take(m, head);
	m->frames[head].list = (uint16_t)mark;
}

/* isolate_freepages_block: every free chunk that begins in the range. */
static int64_t isolate_range(struct model *m, const struct compact_row *row, int mark,
			     const struct compact_listener *listener)
{
	uint32_t frame = pfn_frame(m, row->start_pfn), end;
	int64_t taken = 0;
	struct zone *zone;

	if (frame == NO_FRAME || row->end_pfn < row->start_pfn)
		return 0;
	zone = frame_zone(m, frame);
	end = row->end_pfn - row->start_pfn < zone->end - frame
		      ? frame + (uint32_t)(row->end_pfn - row->start_pfn)
		      : zone->end;
	while (frame < end && taken < row->nr_taken) {
		const struct frame *f = &m->frames[frame];
		uint32_t pages = f->state == FRAME_TAIL ? 1 : 1u << f->order;

		if (f->state == FRAME_FREE) {
			isolate(m, frame, mark, listener);
			taken += pages;
		}
		frame += pages;
	}
	return taken;
}

/*
 * fast_isolate_freepages: from the tail of the MOVABLE list of an order, the first page of
 * the range's upper half, else of those looked at the highest; the list begins there then.
 */
static int64_t isolate_quickly(struct model *m, const struct compact_row *row, int mark,
			       const struct compact_listener *listener)
{
	uint64_t low = (row->start_pfn + row->end_pfn) / 2;
	int64_t left = row->nr_scanned - row->nr_taken + 1;
	uint32_t found = NO_FRAME, list, entry;
	struct zone *zone;
	int order = 0;

	entry = pfn_frame(m, row->start_pfn);
	if (entry == NO_FRAME || row->nr_taken <= 0 || row->nr_taken & (row->nr_taken - 1))
		return 0;
	while (1ll << order < row->nr_taken)
		order++;
	if (order > m->max_order)
		return 0;
	zone = frame_zone(m, entry);
	list = free_list(zone, order, MIGRATETYPE_MOVABLE);
	low &= ~((1ull << m->pageblock_order) - 1);
	for (entry = m->frames[list].prev; entry != list; entry = m->frames[entry].prev) {
		uint64_t pfn = frame_pfn(m, entry);

		/* Of more than were looked at only if none of those will do. */
		if (--left < 0 && found != NO_FRAME)
			break;
		if (pfn >= row->start_pfn && (found == NO_FRAME || entry > found))
			found = entry;
		if (pfn >= low)
			break;
	}
	if (found == NO_FRAME)
		return 0;
	rotate_list(m, list, found);
	isolate(m, found, mark, listener);
	return row->nr_taken;
}

int64_t compact_isolate(struct model *m, const struct compact_row *row, int mark,
			const struct compact_listener *listener)
{
	if (row->kind == COMPACTION_KIND_ISOLATE_FREEPAGES)
		return isolate_range(m, row, mark, listener);
	return isolate_quickly(m, row, mark, listener);
}
