// SPDX-License-Identifier: Apache-2.0
#include "short_tape.h"
#include "toy.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 512, PAGES = 8 * BLOCK, OTHER_TASK = 9 };

static struct machine machine_of(bool remote)
{
	static const uint16_t cpu_nodes[2][2] = {{0, 0}, {0, 1}};
	static const uint8_t distances[] = {10, 20, 20, 10};

	return (struct machine){
		.pageblock_order = 9,
		.max_order = 10,
		.nr_cpus = 2,
		.nr_nodes = 2,
		.cpu_nodes = cpu_nodes[remote],
		.node_distances = distances,
	};
}

static void load(struct validate *v, struct batch *batch)
{
	struct ArrowSchema schema;
	struct ArrowArray array;
	struct error err;

	must(table_export_schema(batch->table, &schema, &err), &err);
	must(batch_export(batch, &array, &err), &err);
	must(validate_load(v, batch->table->name, &schema, &array, &err), &err);
	array.release(&array);
	schema.release(&schema);
	batch_free(batch);
}

static void load_zone(struct validate *v)
{
	struct batch *batch = toy_rows(&zone_table, 1);
	struct zone_columns *c = (struct zone_columns *)batch->slots;

	c->zone[0] = ZONE_DMA;
	c->spanned[0] = c->present[0] = c->managed[0] = PAGES;
	c->wmark_min[0] = 8;
	c->wmark_low[0] = 16;
	c->wmark_high[0] = 32;
	load(v, batch);
}

static void load_free_blocks(struct validate *v, const struct chunk *chunks, size_t nr)
{
	struct batch *batch = toy_rows(&free_block_table, nr);
	struct free_block_columns *c = (struct free_block_columns *)batch->slots;

	for (size_t i = 0; i < nr; i++) {
		c->zone[i] = ZONE_DMA;
		c->migratetype[i] = chunks[i].migratetype;
		c->page_order[i] = chunks[i].order;
		c->pfn[i] = chunks[i].pfn;
	}
	load(v, batch);
}

static void load_types(struct validate *v)
{
	struct batch *batch = toy_rows(&pageblock_table, PAGES / BLOCK);
	struct pageblock_columns *c = (struct pageblock_columns *)batch->slots;

	for (size_t i = 0; i < batch->nr; i++) {
		c->zone[i] = ZONE_DMA;
		c->pfn[i] = i * BLOCK;
		c->migratetype[i] = MIGRATETYPE_MOVABLE;
	}
	load(v, batch);
}

static void load_pcps(struct validate *v, int batch, int high)
{
	struct batch *rows = toy_rows(&pcp_table, 2);
	struct pcp_columns *c = (struct pcp_columns *)rows->slots;
	uint32_t least = 8u * (uint32_t)batch;

	for (size_t i = 0; i < rows->nr; i++) {
		c->cpu[i] = (uint16_t)i;
		c->zone[i] = ZONE_DMA;
		c->high_min[i] = least;
		c->high[i] = high ? (uint32_t)high : least;
		c->high_max[i] = high ? 2 * (uint32_t)high : least;
		c->batch[i] = (uint32_t)batch;
		set_valid(c->high_min_valid, i);
		set_valid(c->high_max_valid, i);
	}
	load(v, rows);
}

static void load_ticks(struct validate *v, uint64_t at, size_t nr)
{
	struct batch *rows = toy_rows(&reclaim_table, nr ? nr : 1);
	struct reclaim_columns *c = (struct reclaim_columns *)rows->slots;

	for (size_t i = 0; i < rows->nr; i++) {
		c->at[i] = at;
		c->ts[i] = 1000 * at;
		c->cpu[i] = 1;
		c->pid[i] = OTHER_TASK;
		c->kind[i] = RECLAIM_KIND_VMSTAT_UPDATE;
	}
	load(v, rows);
}

/* The task of all events compacts. */
static void load_migration(struct validate *v, uint64_t at, uint64_t target)
{
	static const uint8_t kinds[] = {COMPACTION_KIND_BEGIN, COMPACTION_KIND_ISOLATE_FREEPAGES,
					COMPACTION_KIND_MIGRATE_PAGES_START};
	struct batch *rows = toy_rows(&compaction_table, 3);
	struct compaction_columns *c = (struct compaction_columns *)rows->slots;

	for (size_t i = 0; i < 3; i++) {
		c->at[i] = at;
		c->ts[i] = 1000 * at;
		c->kind[i] = kinds[i];
		c->start_pfn[i] = i ? target : 0;
		c->end_pfn[i] = i ? target + 16 : PAGES;
		c->free_pfn[i] = target;
		c->nr_scanned[i] = c->nr_taken[i] = 16;
		set_valid(c->start_pfn_valid, i);
		set_valid(c->end_pfn_valid, i);
		set_valid(c->migrate_pfn_valid, i);
		set_valid(c->free_pfn_valid, i);
		set_valid(c->nr_scanned_valid, i);
		set_valid(c->nr_taken_valid, i);
	}
	load(v, rows);
}

/* As validate reads a tape: all of it once before it runs. */
static void preview(struct validate *v, struct batch *batch)
{
	struct ArrowSchema schema;
	struct ArrowArray array;
	struct error err;

	must(table_export_schema(batch->table, &schema, &err), &err);
	must(batch_export(batch, &array, &err), &err);
	must(validate_preview(v, &schema, &array, &err), &err);
	array.release(&array);
	schema.release(&schema);
}

struct validate *validated(const struct short_tape *tape)
{
	size_t nr = tape->nr_events;
	struct validate_config config = {.run.machine = machine_of(tape->remote),
					 .run.interval_ns = 1000000000,
					 .nr_rows = nr,
					 .checks = CHECKS_FULL};
	struct batch *batch = toy_rows(&event_table, nr);
	struct event_columns *c = (struct event_columns *)batch->slots;
	struct validate *v;
	struct error err;

	must(kernel_find(&config.run.kernel, "6.18", &err), &err);
	must(validate_new(&v, &config, &err), &err);
	load_zone(v);
	load_free_blocks(v, tape->chunks, tape->nr_chunks);
	load_types(v);
	if (tape->pcp_batch)
		load_pcps(v, tape->pcp_batch, tape->pcp_high);
	if (tape->migrates_at)
		load_migration(v, tape->migrates_at, tape->target);
	if (tape->tick_at)
		load_ticks(v, tape->tick_at, tape->nr_ticks);
	for (size_t i = 0; i < nr; i++) {
		const struct row *row = &tape->events[i];

		c->ts[i] = 1000 * (i + 1);
		c->cpu[i] = row->cpu;
		c->pid[i] = row->worker ? OTHER_TASK : 0;
		c->flags[i] = row->flags;
		c->kind[i] = row->kind;
		c->pfn[i] = row->pfn;
		c->page_order[i] = row->order;
		c->migratetype[i] = row->migratetype;
		set_valid(c->pfn_valid, i);
		set_valid(c->page_order_valid, i);
		if (row->kind != EVENT_KIND_FREE)
			set_valid(c->migratetype_valid, i);
		if (row->kind != EVENT_KIND_ALLOC_EXTFRAG)
			continue;
		c->fallback_order[i] = row->fallback_order;
		c->fallback_migratetype[i] = row->fallback_migratetype;
		c->change_ownership[i] = row->owner;
		set_valid(c->fallback_order_valid, i);
		set_valid(c->fallback_migratetype_valid, i);
		set_valid(c->change_ownership_valid, i);
	}
	preview(v, batch);
	must(validate_feed_columns(v, c, nr, &err), &err);
	must(validate_finish(v, &err), &err);
	batch_free(batch);
	return v;
}

struct accuracy_count tally_of(const struct validate *v, enum decision decision)
{
	return validate_totals(v)->accuracy.decisions[decision];
}
