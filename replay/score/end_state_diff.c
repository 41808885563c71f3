// SPDX-License-Identifier: Apache-2.0
/* The model beside the exact snapshot at the end of a recording. */
#include "score.h"

#include <string.h>

static bool same_block(const struct model *m, frame_nr frame, int order, int migratetype)
{
	const struct frame *f;

	if (frame == NO_FRAME)
		return false;
	f = &m->frames[frame];
	return f->state == FRAME_FREE && f->order == order && f->list == migratetype;
}

static void compare_free_blocks(struct end_state_diff *a, const struct model *m,
				const struct free_block_columns *c, size_t rows)
{
	for (size_t i = 0; i < rows; i++) {
		frame_nr frame = pfn_frame(m, c->pfn[i]), next;
		bool last;

		if (!c->snapshot[i])
			continue;
		a->free_blocks++;
		if (!same_block(m, frame, c->page_order[i], c->migratetype[i]))
			continue;
		a->free_blocks_same++;
		last = i + 1 == rows || c->page_order[i + 1] != c->page_order[i] ||
		       c->migratetype[i + 1] != c->migratetype[i] || c->zone[i + 1] != c->zone[i] ||
		       c->node[i + 1] != c->node[i];
		next = m->frames[frame].next;
		a->successor_same +=
			last ? next >= m->nr_frames : next == pfn_frame(m, c->pfn[i + 1]);
	}
}

static void compare_pcp_pages(struct end_state_diff *a, const struct model *m,
			      const struct pcp_page_columns *c, size_t rows)
{
	for (size_t i = 0; i < rows; i++) {
		frame_nr frame = pfn_frame(m, c->pfn[i]);
		const struct frame *f;

		if (!c->snapshot[i] || c->page_order[i] > m->max_order)
			continue;
		a->pcp_pages += 1ull << c->page_order[i];
		if (frame == NO_FRAME || c->cpu[i] >= m->nr_cpus)
			continue;
		f = &m->frames[frame];
		if (f->state == FRAME_PCP && f->order == c->page_order[i] &&
		    &m->pcps[f->list] == zone_pcp(m, frame_zone(m, frame), c->cpu[i]))
			a->pcp_pages_same += 1ull << c->page_order[i];
	}
}

static void compare_pageblocks(struct end_state_diff *a, const struct model *m,
			       const struct pageblock_columns *c, size_t rows)
{
	for (size_t i = 0; i < rows; i++) {
		frame_nr frame = pfn_frame(m, c->pfn[i]);

		if (!c->snapshot[i] || frame == NO_FRAME)
			continue;
		a->pageblocks++;
		a->pageblocks_same += frame_block(m, frame)->migratetype == c->migratetype[i];
	}
}

int end_state_diff_compare(struct end_state_diff *a, const struct model *m, const char *name,
			   const struct ArrowSchema *schema, const struct ArrowArray *array,
			   struct error *err)
{
	static const struct table *const tables[] = {&free_block_table, &pcp_page_table,
						     &pageblock_table};
	union table_columns columns;
	const struct table *table = NULL;
	size_t nr;
	int ret;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (!strcmp(tables[i]->name, name))
			table = tables[i];
	if (!table)
		return 0;
	ret = table_read(table, schema, array, &columns, &nr, err);
	if (ret)
		return ret;
	a->known = true;
	if (table == &free_block_table)
		compare_free_blocks(a, m, &columns.free_block, nr);
	else if (table == &pcp_page_table)
		compare_pcp_pages(a, m, &columns.pcp_page, nr);
	else
		compare_pageblocks(a, m, &columns.pageblock, nr);
	return 0;
}
