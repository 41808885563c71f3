// SPDX-License-Identifier: Apache-2.0
#include "recorded_compaction.h"

#include "model/buddy.h"
#include "model/memory.h"
#include "model/scan_effects.h"
#include "model/zone.h"

#include <errno.h>

/* enum compact_result, 4.20 to 6.18 */
enum { COMPACT_NO_SUITABLE_PAGE = 3, COMPACT_CONTINUE = 4 };

void recorded_compactions_new(struct recorded_compactions *c, const struct model *m)
{
	c->arrays = m->arrays;
	c->deep_from = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*c->deep_from));
}

static bool has_scan(const struct compaction_columns *columns, size_t i)
{
	return is_valid(columns->start_pfn_valid, i) && is_valid(columns->end_pfn_valid, i) &&
	       is_valid(columns->nr_scanned_valid, i) && is_valid(columns->nr_taken_valid, i);
}

static bool is_wanted(const struct compaction_columns *columns, size_t i)
{
	switch (columns->kind[i]) {
	case COMPACTION_KIND_ISOLATE_FREEPAGES:
	case COMPACTION_KIND_FAST_ISOLATE_FREEPAGES:
	case COMPACTION_KIND_ISOLATE_MIGRATEPAGES:
		return has_scan(columns, i);
	case COMPACTION_KIND_BEGIN:
	case COMPACTION_KIND_TRY_TO_COMPACT_PAGES:
	case COMPACTION_KIND_KCOMPACTD_WAKE:
	case COMPACTION_KIND_SUITABLE:
	case COMPACTION_KIND_MIGRATE_PAGES_START:
	case COMPACTION_KIND_MIGRATE_PAGES:
	case COMPACTION_KIND_FINISHED:
	case COMPACTION_KIND_END:
		return true;
	default:
		return false;
	}
}

#define OR(column, otherwise) VALUE_OR(columns, column, i, otherwise)

static struct recorded_compaction_row read_row(const struct compaction_columns *columns, size_t i)
{
	return (struct recorded_compaction_row){
		.at = columns->at[i],
		.start_pfn = OR(start_pfn, 0),
		.end_pfn = OR(end_pfn, 0),
		.migrate_pfn = OR(migrate_pfn, 0),
		.free_pfn = OR(free_pfn, 0),
		.nr_scanned = OR(nr_scanned, 0),
		.nr_taken = OR(nr_taken, 0),
		.gfp_flags = OR(gfp_flags, 0),
		.pid = columns->pid[i],
		.cpu = columns->cpu[i],
		.kind = columns->kind[i],
		.order = (int8_t)OR(page_order, -1),
		.priority = (int8_t)OR(priority, -1),
		.status = (int16_t)OR(status, -1),
		.sync = OR(sync, false),
		.node = OR(node, -1),
		.zone = (int16_t)OR(zone, -1),
	};
}

int recorded_compactions_load(struct recorded_compactions *c,
			      const struct compaction_columns *columns, size_t rows, uint64_t first,
			      struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		if (!is_wanted(columns, i) || columns->at[i] < first)
			continue;
		if (c->nr && columns->at[i] < c->rows[c->nr - 1].at)
			return fail(err, EINVAL, "compaction: a row goes back to event %llu",
				    (unsigned long long)columns->at[i]);
		if (grow(c->arrays, &c->rows, &c->room, c->nr + 1, sizeof(*c->rows), err))
			return -ENOMEM;
		c->rows[c->nr++] = read_row(columns, i);
		c->searches_traced |= columns->kind[i] == COMPACTION_KIND_FAST_ISOLATE_FREEPAGES;
	}
	return 0;
}

struct compactor *compactor_of(struct recorded_compactions *c, int32_t pid)
{
	for (int i = 0; i < c->nr_tasks; i++)
		if (c->tasks[i].pid == pid)
			return &c->tasks[i];
	return NULL;
}

/* The same; a new task replaces a finished one. NULL without a free place. */
static struct compactor *compactor_get(struct recorded_compactions *c, int32_t pid)
{
	struct compactor *task = compactor_of(c, pid);

	if (task)
		return task;
	if (c->nr_tasks < MAX_COMPACTORS)
		task = &c->tasks[c->nr_tasks++];
	for (int i = 0; i < c->nr_tasks && !task; i++)
		if (!c->tasks[i].running && !c->tasks[i].migrating)
			task = &c->tasks[i];
	if (task)
		*task = (struct compactor){.pid = pid};
	return task;
}

/*
 * The order of the chunk that ends a run (__alloc_pages_direct_compact). With defrag_mode a small
 * request that cannot move compacts a whole pageblock, and takes a chunk of its own order (7.2).
 */
static int capture_order(const struct model *m, const struct compactor *task)
{
	if (m->kernel->defrag_promotes != DEFRAG_PROMOTES_NEVER &&
	    task->order == m->pageblock_order && task->migratetype != MIGRATETYPE_MOVABLE)
		return CAPTURE_ORDER_OPEN;
	return task->order;
}

/* compact_zone: a new run. */
static void begin(struct recorded_compactions *c, const struct model *m, struct compactor *task,
		  const struct recorded_compaction_row *row)
{
	frame_nr frame = pfn_frame(m, row->start_pfn);

	c->nr_running -= task->running;
	task->running = frame != NO_FRAME;
	if (!task->running)
		return;
	c->nr_running++;
	task->run = ++c->runs;
	task->zone = frame_zone(m, frame);
	task->sync = row->sync;
	task->migrate_pfn = row->migrate_pfn;
	task->free_pfn = row->free_pfn;
	task->search_order = task->order;
	task->fail = 0;
	task->sources = task->supply = 0;
	task->capture = (struct capture){
		.zone = task->zone,
		.order = capture_order(m, task),
		.migratetype = task->migratetype,
		.frame = NO_FRAME,
	};
}

/* A run that began before the tape is taken for one of kcompactd. Its scans show where it is. */
static void resume(struct recorded_compactions *c, const struct model *m, struct compactor *task,
		   const struct recorded_compaction_row *check)
{
	const struct zone *zone = zone_by_type(m, check->node, check->zone);

	if (!zone)
		return;
	task->order = check->order;
	begin(c, m, task,
	      &(struct recorded_compaction_row){
		      .start_pfn = zone->start_pfn, .migrate_pfn = UINT64_MAX, .sync = true});
}

/*
 * The run is of a whole zone (compact_node): proactive, or asked for through /proc or /sys. It is
 * for no request, whatever the task asked for before. compact_finished comes before any scan.
 */
static void compact_whole_zone(struct compactor *task)
{
	task->order = task->search_order = -1;
	task->direct = false;
	task->ignores_skips = true;
	task->capture.order = CAPTURE_NOTHING;
}

static void end(struct recorded_compactions *c, struct compactor *task)
{
	c->nr_running -= task->running;
	task->running = task->migrating = false;
}

/* The block scanned by the iteration that begins with row `from` of c->rows, or none. */
static uint64_t next_source(const struct recorded_compactions *c, size_t from, int32_t pid)
{
	for (size_t i = from; i < c->nr; i++) {
		const struct recorded_compaction_row *row = &c->rows[i];

		if (row->pid != pid)
			continue;
		if (row->kind == COMPACTION_KIND_ISOLATE_MIGRATEPAGES)
			return row->start_pfn;
		return UINT64_MAX;
	}
	return UINT64_MAX;
}

/* Where isolate_freepages continues: in the same block, or in the one below. */
static uint64_t free_scanner(const struct model *m, const struct recorded_compaction_row *row)
{
	uint64_t block = 1ull << m->pageblock_order;

	if (row->end_pfn & (block - 1))
		return row->end_pfn;
	return (row->start_pfn & ~(block - 1)) - block;
}

/* The row of a scan of free pages, if that is the task's next row; else NULL. */
static const struct recorded_compaction_row *next_scan(const struct recorded_compactions *c,
						       int32_t pid)
{
	for (size_t i = c->next; i < c->nr; i++)
		if (c->rows[i].pid == pid)
			return c->rows[i].kind == COMPACTION_KIND_ISOLATE_FREEPAGES ? &c->rows[i]
										    : NULL;
	return NULL;
}

/* compaction_alloc: a search when a source has to move and no free page is at hand. */
static void supply_next(struct recorded_compactions *c, struct model *m, struct compactor *task,
			const struct recorded_compaction_sink *sink)
{
	if (c->searches_traced || task->linear || task->moved >= task->sources ||
	    task->moved < task->supply)
		return;
	task->found = false;
	task->linear = !recorded_compaction_search(c, m, task, next_scan(c, task->pid), sink);
}

static void begin_supply(struct recorded_compactions *c, struct model *m, struct compactor *task,
			 const struct recorded_compaction_sink *sink)
{
	task->moved = 0;
	task->found &= c->searches_traced;
	task->linear = false;
	supply_next(c, m, task, sink);
}

void recorded_compaction_freed(struct recorded_compactions *c, struct model *m, int32_t pid,
			       frame_nr frame, int order,
			       const struct recorded_compaction_sink *sink)
{
	struct compactor *task = compactor_of(c, pid);
	uint64_t pfn = frame_pfn(m, frame);

	if (!task || !task->running || !task->migrating || pfn < task->source_start ||
	    pfn >= task->source_end)
		return;
	task->moved += 1ll << order;
	supply_next(c, m, task, sink);
}

/* The searches before a scan of free pages, since the pages at hand were used up. */
static void search_before(struct recorded_compactions *c, struct model *m, struct compactor *task,
			  const struct recorded_compaction_row *scan,
			  const struct recorded_compaction_sink *sink)
{
	while (!c->searches_traced && !task->found && !task->linear && task->supply < task->sources)
		task->linear = !recorded_compaction_search(c, m, task, scan, sink);
}

/* A scan took `pages`. */
static void supplied(const struct recorded_compactions *c, struct compactor *task, int64_t pages)
{
	if (c->searches_traced)
		return;
	task->supply += pages > 0 ? pages : 0;
	task->found = false;
	task->linear &= task->supply < task->sources;
}

/* The sources have moved: the searches of which no scan followed, and what is left. */
static void end_supply(struct recorded_compactions *c, struct model *m, struct compactor *task,
		       const struct recorded_compaction_sink *sink)
{
	while (!c->searches_traced && !task->linear && task->supply < task->sources)
		if (!recorded_compaction_search(c, m, task, NULL, sink))
			break;
	task->supply -= task->supply < task->sources ? task->supply : task->sources;
	task->sources = task->moved = 0;
}

void recorded_compaction_follow(struct recorded_compactions *c, struct model *m,
				const struct recorded_compaction_row *row,
				const struct recorded_compaction_sink *sink)
{
	struct compactor *task = compactor_get(c, row->pid);

	if (!task)
		return;
	switch (row->kind) {
	case COMPACTION_KIND_TRY_TO_COMPACT_PAGES:
		task->order = row->order;
		task->migratetype = gfp_migratetype(row->gfp_flags);
		task->direct = true;
		task->ignores_skips = !row->priority; /* MIN_COMPACT_PRIORITY */
		if (row->order >= 0 && row->order <= m->max_order && row->cpu < m->nr_cpus)
			zone_mark_tried(m, row->cpu, row->gfp_flags, row->order);
		break;
	case COMPACTION_KIND_KCOMPACTD_WAKE:
		task->order = row->order;
		task->migratetype = MIGRATETYPE_UNMOVABLE;
		task->direct = task->ignores_skips = false;
		break;
	case COMPACTION_KIND_SUITABLE:
		if (!task->running)
			task->order = row->order;
		break;
	case COMPACTION_KIND_BEGIN:
		begin(c, m, task, row);
		break;
	case COMPACTION_KIND_END:
		end(c, task);
		break;
	case COMPACTION_KIND_MIGRATE_PAGES_START:
		task->migrating = true;
		begin_supply(c, m, task, sink);
		break;
	case COMPACTION_KIND_MIGRATE_PAGES:
		task->migrating = false;
		end_supply(c, m, task, sink);
		break;
	case COMPACTION_KIND_FINISHED:
		if (row->status != COMPACT_NO_SUITABLE_PAGE && row->status != COMPACT_CONTINUE)
			break;
		if (!task->running)
			resume(c, m, task, row);
		if (task->running && row->order < 0)
			compact_whole_zone(task);
		if (task->running)
			recorded_compaction_find_source(m, task, next_source(c, c->next, row->pid),
							sink);
		break;
	case COMPACTION_KIND_ISOLATE_MIGRATEPAGES:
		task->migrate_pfn = row->end_pfn;
		if (!task->sources)
			task->source_start = row->start_pfn;
		task->source_end = row->end_pfn;
		task->sources += row->nr_taken > 0 ? row->nr_taken : 0;
		break;
	case COMPACTION_KIND_ISOLATE_FREEPAGES:
		if (!task->running)
			break;
		search_before(c, m, task, row, sink);
		recorded_compaction_scan_block(m, task, row, sink);
		if (!task->found)
			task->free_pfn = free_scanner(m, row);
		supplied(c, task, row->nr_taken);
		break;
	case COMPACTION_KIND_FAST_ISOLATE_FREEPAGES:
		if (!task->running)
			break;
		task->free_pfn = row->end_pfn;
		task->found = row->nr_taken > 0;
		recorded_compaction_scan_lists(c, m, task, row, sink);
		break;
	}
}
