// SPDX-License-Identifier: Apache-2.0
#include "hindsight_run.h"

#include "model/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1 << 12 };

int hindsight_new(struct hindsight **out, const struct run_config *config, struct error *err)
{
	struct hindsight *h = calloc(1, sizeof(*h));
	int ret;

	*out = NULL;
	if (!h)
		return fail(err, ENOMEM, "no memory for a start from hindsight");
	ret = run_init(&h->run, config, err);
	ret = ret ?: run_output(&h->run, &h->pageblock, &pageblock_table, ROWS, err);
	ret = ret ?: run_output(&h->run, &h->pcp_page, &pcp_page_table, ROWS, err);
	ret = ret ?: run_output(&h->run, &h->pcp, &pcp_table, ROWS, err);
	ret = ret ?: run_output(&h->run, &h->free_block, &free_block_table, ROWS, err);
	if (ret) {
		hindsight_free(h);
		return ret;
	}
	*out = h;
	return 0;
}

void hindsight_free(struct hindsight *h)
{
	if (!h)
		return;
	run_free(&h->run);
	free(h);
}

/* The model, and the arrays that have its size; once its zones are known. */
static int prepare(struct hindsight *h, struct error *err)
{
	size_t cpus, zones, pcps, lists, blocks;
	struct arrays *arrays;
	int ret;

	if (h->m)
		return 0;
	ret = load_model(&h->run.load, err);
	if (ret)
		return ret;
	h->m = h->run.load.model;
	arrays = h->m->arrays;
	cpus = (size_t)h->m->nr_cpus;
	zones = (size_t)h->m->nr_zones;
	pcps = zones * cpus;
	lists = pcps * MAX_PCP_LISTS;
	blocks = h->m->nr_frames >> h->m->pageblock_order;
	h->first = arrays_map(arrays, h->m->nr_frames, sizeof(*h->first));
	h->chunks = arrays_map(arrays, h->m->nr_frames, sizeof(*h->chunks));
	h->last_rows = arrays_new(arrays, cpus, sizeof(*h->last_rows));
	h->last_kinds = arrays_new(arrays, cpus, sizeof(*h->last_kinds));
	h->drains = arrays_new(arrays, cpus, sizeof(*h->drains));
	h->held = arrays_new(arrays, pcps, sizeof(*h->held));
	h->given = arrays_new(arrays, pcps, sizeof(*h->given));
	h->tunings = arrays_new(arrays, pcps, sizeof(*h->tunings));
	h->refills = arrays_new(arrays, cpus, sizeof(*h->refills));
	h->ticked = arrays_new(arrays, cpus, sizeof(*h->ticked));
	h->free_areas = arrays_new(arrays, zones, sizeof(*h->free_areas));
	h->nr_blocks = arrays_new(arrays, zones, sizeof(*h->nr_blocks));
	h->blocks = arrays_new(arrays, blocks, sizeof(*h->blocks));
	h->counts = arrays_new(arrays, pcps, sizeof(*h->counts));
	h->emptied = arrays_new(arrays, lists, sizeof(*h->emptied));
	if (arrays_error(arrays, err))
		return -ENOMEM;
	memset(h->emptied, 0xff, lists * sizeof(*h->emptied));
	for (size_t b = 0; b < blocks; b++)
		h->blocks[b].moved = NEVER;
	return 0;
}

static void load_counts(struct hindsight *h, const struct pcp_columns *c, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct zone *zone = zone_by_type(h->m, c->node[i], c->zone[i]);

		uint32_t pcp;

		if (c->snapshot[i] || !zone || c->cpu[i] >= h->m->nr_cpus)
			continue;
		pcp = zone_pcp(h->m, zone, c->cpu[i])->number;
		h->counts[pcp] = c->count[i];
		h->held[pcp] = c->count[i];
		h->given[pcp] = (struct given_pcp){
			.listed = true,
			.limits = is_valid(c->high_min_valid, i) && is_valid(c->high_max_valid, i),
			.count = c->count[i],
			.high = c->high[i],
			.batch = c->batch[i],
			.high_min = c->high_min[i],
			.high_max = c->high_max[i],
		};
	}
}

static void load_areas(struct hindsight *h, const struct free_area_columns *c, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct zone *zone = zone_by_type(h->m, c->node[i], c->zone[i]);

		if (c->snapshot[i] || !zone || !is_valid(c->migratetype_valid, i) ||
		    c->migratetype[i] >= NR_MIGRATETYPE || c->page_order[i] >= NR_PAGE_ORDERS)
			continue;
		/* There are no more blocks than pages, whatever the tape says. */
		h->free_areas[zone->number][c->page_order[i]][c->migratetype[i]] =
			c->nr_free[i] < h->m->nr_frames ? (int64_t)c->nr_free[i] : h->m->nr_frames;
		h->areas_by_type = true;
	}
}

static void load_block_counts(struct hindsight *h, const struct block_count_columns *c, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct zone *zone = zone_by_type(h->m, c->node[i], c->zone[i]);

		if (!c->snapshot[i] && zone && c->migratetype[i] < NR_MIGRATETYPE)
			h->nr_blocks[zone->number][c->migratetype[i]] = (int64_t)c->nr_blocks[i];
	}
}

static void load_movable(struct hindsight *h, const struct pageblock_columns *c, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		frame_nr frame = pfn_frame(h->m, c->pfn[i]);
		struct start_block *block;

		if (frame == NO_FRAME) /* the block begins before its zone */
			frame = pfn_frame(h->m, c->pfn[i] + (1ull << h->m->pageblock_order) - 1);
		if (c->snapshot[i] || frame == NO_FRAME)
			continue;
		block = &h->blocks[frame >> h->m->pageblock_order];
		block->listed = true;
		block->migratetype = c->migratetype[i];
		block->has_movable = is_valid(c->nr_movable_valid, i);
		if (block->has_movable)
			block->nr_movable = c->nr_movable[i];
	}
}

int hindsight_load(struct hindsight *h, const char *table, const struct ArrowSchema *schema,
		   const struct ArrowArray *array, struct error *err)
{
	static const struct table *const tables[] = {&pcp_table, &free_area_table,
						     &block_count_table, &pageblock_table};
	union table_columns columns;
	int ret = run_load(&h->run, table, schema, array, err);
	size_t nr;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !ret; i++) {
		if (strcmp(table, tables[i]->name))
			continue;
		ret = prepare(h, err);
		ret = ret ?: table_read(tables[i], schema, array, &columns, &nr, err);
		if (ret)
			return ret;
		if (tables[i] == &pcp_table)
			load_counts(h, &columns.pcp, nr);
		else if (tables[i] == &free_area_table)
			load_areas(h, &columns.free_area, nr);
		else if (tables[i] == &block_count_table)
			load_block_counts(h, &columns.block_count, nr);
		else
			load_movable(h, &columns.pageblock, nr);
	}
	return ret;
}

static int start(struct hindsight *h, struct error *err)
{
	int ret;

	if (h->run.started)
		return 0;
	ret = prepare(h, err);
	h->counts_only = h->areas_by_type && !h->run.load.listed;
	h->run.load.listed |= h->counts_only;
	ret = ret ?: run_start(&h->run, err);
	h->run.started = !ret;
	return ret;
}

/* One row of the input; false for a row without a page of the machine, or a bad one. */
static bool read_row(const struct hindsight *h, struct seen *s, const struct zone **zone,
		     const struct event_columns *c, size_t i, uint64_t row)
{
	const struct model *m = h->m;
	int order;

	*s = (struct seen){
		.row = row < NEVER ? (uint32_t)row : NEVER - 1,
		.frame = next_event_frame(m, zone, c, i, &order),
		.pid = c->pid[i],
		.cpu = c->cpu[i],
		.kind = c->kind[i],
		.migratetype = MIGRATETYPE_MOVABLE,
	};
	s->order = (uint8_t)order;
	if (s->frame == NO_FRAME || s->frame & ((1u << order) - 1) || s->cpu >= m->nr_cpus ||
	    s->kind >= NR_EVENT_KIND)
		return false;
	if (s->kind != EVENT_KIND_FREE && s->kind != EVENT_KIND_FREE_BATCHED) {
		s->migratetype = c->migratetype[i];
		if (!is_valid(c->migratetype_valid, i) || s->migratetype >= NR_MIGRATETYPE)
			return false;
	}
	if (s->kind != EVENT_KIND_ALLOC_EXTFRAG)
		return true;
	s->fallback_order = c->fallback_order[i];
	s->fallback_migratetype = c->fallback_migratetype[i];
	s->owner = c->change_ownership[i];
	return is_valid(c->fallback_order_valid, i) && s->fallback_order <= m->max_order &&
	       is_valid(c->fallback_migratetype_valid, i) &&
	       s->fallback_migratetype < NR_MIGRATETYPE;
}

int hindsight_preview(struct hindsight *h, uint64_t nr_rows, const struct ArrowSchema *schema,
		      const struct ArrowArray *array, struct error *err)
{
	struct event_columns columns;
	const struct zone *zone;
	struct seen s;
	size_t nr;
	int ret = start(h, err);

	if (!ret && h->previewed)
		return fail(err, EINVAL, "a preview of events after the first of them was fed");
	ret = ret ?: table_read(&event_table, schema, array, &columns, &nr, err);
	if (!ret && !h->next_events.bits)
		ret = next_events_new(&h->next_events, h->m, nr_rows, err);
	ret = ret ?: next_events_read(&h->next_events, h->m, &columns, nr, err);
	if (ret)
		return ret;
	zone = &h->m->zones[0];
	for (size_t i = 0; i < nr; i++)
		if (h->nr_previewed + i >= h->run.load.first &&
		    read_row(h, &s, &zone, &columns, i, h->nr_previewed + i))
			note_first(h, &s);
	h->nr_previewed += nr;
	return 0;
}

/* After the last row of the preview. */
static int end_preview(struct hindsight *h, struct error *err)
{
	int ret = start(h, err);

	if (ret || h->previewed)
		return ret;
	ret = next_events_done(&h->next_events, err);
	if (ret)
		return ret;
	build_start(h);
	begin_tuning(h);
	h->previewed = true;
	return 0;
}

static int feed_rows(void *self, const struct event_columns *c, size_t first, size_t end,
		     struct error *err)
{
	struct hindsight *h = self;
	const struct zone *zone = &h->m->zones[0];
	struct seen s;
	int ret = 0;

	for (size_t i = first; i < end && !ret; i++) {
		follow_ticks(h, h->run.rows + i);
		if (!read_row(h, &s, &zone, c, i, h->run.rows + i))
			continue;
		follow_chunks(h, &s);
		ret = follow_pcps(h, &s, err);
		follow_tuning(h, &s);
	}
	return ret;
}

int hindsight_feed(struct hindsight *h, const struct ArrowSchema *schema,
		   const struct ArrowArray *array, struct error *err)
{
	struct event_columns columns;
	size_t nr;
	int ret = end_preview(h, err);

	ret = ret ?: table_read(&event_table, schema, array, &columns, &nr, err);
	return ret ?: run_feed(&h->run, &columns, nr, feed_rows, h, err);
}

int hindsight_finish(struct hindsight *h, struct error *err)
{
	int ret = end_preview(h, err);

	for (int cpu = 0; !ret && cpu < h->m->nr_cpus; cpu++) {
		end_refill(h, cpu);
		ret = end_drains(h, cpu, err);
	}
	ret = ret ?: write_start(h, err);
	return ret ?: run_finish(&h->run, err);
}

struct batch *hindsight_read(struct hindsight *h)
{
	return run_read(&h->run);
}

const struct hindsight_coverage *hindsight_coverage(const struct hindsight *h)
{
	return &h->coverage;
}
