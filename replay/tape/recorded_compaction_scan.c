// SPDX-License-Identifier: Apache-2.0
/* The scanners of recorded compaction, from one page that it moved to the next. */
#include "recorded_compaction.h"

#include "model/buddy.h"
#include "model/force_state.h"

enum {
	CLUSTER = 32,     /* COMPACT_CLUSTER_MAX */
	COSTLY_ORDER = 3, /* PAGE_ALLOC_COSTLY_ORDER */
};

/* __isolate_free_page: a chunk leaves its list; most of a block is MOVABLE from then on. */
static void isolate(struct model *m, struct compactor *task, frame_nr head,
		    const struct recorded_compaction_sink *sink)
{
	int order = m->frames[head].order, type = m->frames[head].list;

	free_list_del(m, task->zone, head);
	for (uint32_t i = 0; i < 1u << order; i++) {
		m->frames[head + i].order = 0;
		m->frames[head + i].state = FRAME_USED;
	}
	sink->isolated(sink->self, task, head, order, type);
	retype_isolated(m, head, order);
}

/* Numbers of pages scanned and taken by a scan of a range in strides. */
struct scan {
	int64_t scanned, taken;
};

/* The stride of a scan, its limit, and the receiver of the chunks. */
struct taking {
	uint32_t stride;
	int64_t most;           /* pages; the last chunk may exceed it */
	struct compactor *task; /* the task that takes them; NULL: they are only counted */
	const struct recorded_compaction_sink *sink;
};

/*
 * isolate_freepages_block: finds the free chunks that begin at a stride of the scanner. Large used
 * blocks count as compound and are skipped whole.
 */
static struct scan scan_range(struct model *m, const struct zone *zone,
			      const struct recorded_compaction_row *row,
			      const struct taking *taking)
{
	frame_nr frame = pfn_frame(m, row->start_pfn), end;
	struct scan scan = {0};

	end = row->end_pfn - row->start_pfn < zone->end - frame
		      ? frame + (uint32_t)(row->end_pfn - row->start_pfn)
		      : zone->end;
	for (; frame < end && scan.taken < taking->most; frame += taking->stride) {
		const struct frame *f = &m->frames[frame];
		uint32_t pages = f->state == FRAME_TAIL ? 1 : 1u << f->order;
		bool whole = f->state != FRAME_PCP && frame + pages <= end;

		scan.scanned++;
		if (f->state == FRAME_FREE) {
			scan.taken += pages;
			if (taking->task)
				isolate(m, taking->task, frame, taking->sink);
		}
		if (f->state == FRAME_FREE || whole) {
			scan.scanned += pages - 1;
			frame += pages - 1;
		}
	}
	return scan;
}

void recorded_compaction_scan_block(struct model *m, struct compactor *task,
				    const struct recorded_compaction_row *row,
				    const struct recorded_compaction_sink *sink)
{
	static const uint32_t strides[] = {1, CLUSTER, 2, 4, 8, 16};
	enum { NR_STRIDES = sizeof(strides) / sizeof(strides[0]) };
	uint32_t stride = 0, first = pfn_frame(m, row->start_pfn);

	if (row->nr_taken <= 0 || row->end_pfn < row->start_pfn || first == NO_FRAME ||
	    frame_zone(m, first) != task->zone)
		return;
	for (int exactly = 1; exactly >= 0 && !stride; exactly--)
		for (int i = 0; i < NR_STRIDES && !stride; i++) {
			struct scan scan =
				scan_range(m, task->zone, row,
					   &(struct taking){strides[i], INT64_MAX, NULL, NULL});

			if (scan.taken == row->nr_taken &&
			    (!exactly || scan.scanned == row->nr_scanned))
				stride = strides[i];
		}
	sink->followed(sink->self, task->zone, (uint64_t)row->nr_taken, stride);
	if (stride)
		scan_range(m, task->zone, row, &(struct taking){stride, INT64_MAX, task, sink});
	else
		scan_range(m, task->zone, row, &(struct taking){1, row->nr_taken, task, sink});
}

/* The result of one fast search for free pages, not applied yet. */
struct search {
	uint32_t cuts[NR_PAGE_ORDERS]; /* [order] head of the list afterwards, or NO_FRAME */
	uint32_t found;
	int found_order;
	int search_order; /* of the next search */
	bool preferred;   /* found in the part that the scanner prefers */
	int64_t scanned;
};

/* freelist_scan_limit */
static unsigned int scan_limit(const struct compactor *task)
{
	return (CLUSTER >> (task->fail < 6 ? task->fail : 6)) + 1;
}

/*
 * Search one list from its tail. Returns the entry where the search stops; `found`: the entry
 * suits.
 */
static uint32_t search_list(const struct model *m, list_nr list, uint64_t low_pfn, uint64_t min_pfn,
			    unsigned int *limit, struct search *search)
{
	const struct frame *f = m->frames;
	uint32_t best = NO_FRAME, entry;
	unsigned int scanned = 0;

	for (entry = f[list].prev; entry != list; entry = f[entry].prev) {
		uint64_t pfn = frame_pfn(m, entry);

		scanned++;
		search->scanned++;
		if (pfn >= low_pfn) {
			search->found = entry;
			search->preferred = true;
			return entry;
		}
		if (pfn >= min_pfn && (best == NO_FRAME || entry > best)) {
			best = entry;
			*limit >>= 1;
		}
		if (scanned >= *limit)
			break;
	}
	if (best != NO_FRAME) {
		search->found = best;
		return best;
	}
	if (scanned >= *limit)
		*limit = *limit > 1 ? *limit >> 1 : 1;
	return entry == list ? NO_FRAME : entry;
}

/* fast_isolate_freepages, without its effects. */
static void search_lists(const struct model *m, const struct compactor *task,
			 const struct recorded_compaction_row *row, unsigned int limit,
			 int search_order, struct search *search)
{
	uint64_t distance = row->end_pfn - task->migrate_pfn;
	uint64_t low_pfn = (row->end_pfn - (distance >> 2)) >> m->pageblock_order
								       << m->pageblock_order;
	int order = search_order;

	*search = (struct search){.found = NO_FRAME, .search_order = search_order};
	for (int o = 0; o < NR_PAGE_ORDERS; o++)
		search->cuts[o] = NO_FRAME;
	while (order >= 0 && search->found == NO_FRAME) {
		bool any = false;

		for (int type = 0; type < NR_MIGRATETYPE; type++)
			any |= task->zone->nr_free[order][type] != 0;
		if (any)
			search->cuts[order] =
				search_list(m, free_list(task->zone, order, MIGRATETYPE_MOVABLE),
					    low_pfn, row->start_pfn, &limit, search);
		if (search->found != NO_FRAME) {
			search->found_order = order;
			if (search->preferred)
				search->search_order = order;
			search->scanned += (1ll << order) - 1;
			return;
		}
		order = order ? order - 1 : task->order - 1;
		if (order == search_order) {
			search->search_order = search_order ? search_order - 1 : task->order - 1;
			return;
		}
	}
}

static bool as_recorded(const struct search *search, const struct recorded_compaction_row *row)
{
	int64_t taken = search->found == NO_FRAME ? 0 : 1ll << search->found_order;

	/* The watermark may have forbidden to take the found page. */
	return (taken == row->nr_taken && search->scanned == row->nr_scanned) ||
	       (taken && !row->nr_taken && search->scanned - taken + 1 == row->nr_scanned);
}

/*
 * Find the depth and the first order that explain a search: the predicted ones, or others. Returns
 * whether there are any.
 */
static bool explain_search(struct recorded_compactions *c, const struct model *m,
			   const struct compactor *task, const struct recorded_compaction_row *row,
			   struct search *search)
{
	unsigned int deep = 1u << m->pageblock_order >> 1, shallow = scan_limit(task) >> 1;
	int due = task->search_order < task->order ? task->search_order : task->order - 1;
	uint64_t *deep_from = &c->deep_from[task->zone->number];
	unsigned int limit = row->end_pfn >= *deep_from ? deep : shallow ? shallow : 1;

	for (int i = 0; i < task->order; i++) {
		int order = (due - i + task->order) % task->order;

		search_lists(m, task, row, limit, order, search);
		if (as_recorded(search, row))
			return true;
		for (unsigned int other = 1; other <= deep; other <<= 1) {
			if (other == limit || (other > CLUSTER / 2 && other < deep))
				continue;
			search_lists(m, task, row, other, order, search);
			if (!as_recorded(search, row))
				continue;
			*deep_from = other == deep ? row->end_pfn : row->end_pfn + 1;
			return true;
		}
	}
	search_lists(m, task, row, limit, due, search);
	return false;
}

/*
 * A search that the model cannot explain, because its lists have another order: take a chunk that
 * left the list of the found order according to the tape, else one that may have left it.
 */
static void find_left(const struct model *m, const struct compactor *task,
		      const struct recorded_compaction_row *row,
		      const struct recorded_compaction_sink *sink, struct search *search)
{
	enum { LOOK_AT = 1024 };
	const struct frame *f = m->frames;
	frame_nr entry, may_have = NO_FRAME;
	list_nr list;
	int order = 0, looked = 0;

	search->found = NO_FRAME;
	for (int o = 0; o < NR_PAGE_ORDERS; o++)
		search->cuts[o] = NO_FRAME;
	while (order < task->order && 1ll << order != row->nr_taken)
		order++;
	if (order == task->order)
		return;
	list = free_list(task->zone, order, MIGRATETYPE_MOVABLE);
	for (entry = f[list].prev; entry != list && looked++ < LOOK_AT; entry = f[entry].prev) {
		int gone =
			frame_pfn(m, entry) < row->start_pfn ? -1 : sink->left(sink->self, entry);

		if (gone > 0)
			break;
		if (!gone && may_have == NO_FRAME)
			may_have = entry;
	}
	if (entry == list || looked > LOOK_AT)
		entry = may_have;
	if (entry == NO_FRAME)
		return;
	search->found = search->cuts[order] = entry;
	search->found_order = order;
}

/* A search turned the lists; `taken`: the task has the chunk that was found. */
static void apply_search(struct model *m, struct compactor *task, const struct search *search,
			 bool taken, const struct recorded_compaction_sink *sink)
{
	for (int order = 0; order < NR_PAGE_ORDERS; order++) {
		list_nr list = free_list(task->zone, order, MIGRATETYPE_MOVABLE);
		uint32_t first = search->cuts[order];

		if (first == NO_FRAME || m->frames[list].next == first)
			continue;
		rotate_list(m, list, first);
		sink->cut(sink->self, task, first);
	}
	task->search_order = search->search_order;
	if (!taken)
		task->fail++;
	else if (search->preferred)
		task->fail = 0;
	if (taken)
		isolate(m, task, search->found, sink);
}

void recorded_compaction_scan_lists(struct recorded_compactions *c, struct model *m,
				    struct compactor *task,
				    const struct recorded_compaction_row *row,
				    const struct recorded_compaction_sink *sink)
{
	struct search search;
	bool explained;

	if (task->order <= 0 || task->order > m->max_order || row->end_pfn < task->migrate_pfn)
		return;
	explained = explain_search(c, m, task, row, &search);
	sink->followed(sink->self, task->zone, (uint64_t)(row->nr_taken > 0 ? row->nr_taken : 0),
		       explained);
	if (!explained)
		find_left(m, task, row, sink, &search);
	apply_search(m, task, &search, search.found != NO_FRAME && row->nr_taken, sink);
}

/* Whether a scan around the found chunk follows the search (fast_isolate_around). */
static bool scans_around(const struct compactor *task, const struct search *search)
{
	return search->found != NO_FRAME && 1ll << search->found_order < task->sources &&
	       !(task->direct && !task->sync);
}

/*
 * How well a search agrees with the task's next scan of free pages on the tape, or NULL, and with
 * what left the lists; below 0: not at all.
 */
static int fit_of(const struct model *m, const struct compactor *task, const struct search *search,
		  const struct recorded_compaction_row *scan,
		  const struct recorded_compaction_sink *sink)
{
	if (search->found == NO_FRAME)
		return scan ? 1 : -1;
	if (scans_around(task, search) &&
	    (!scan || frame_pfn(m, search->found) >> m->pageblock_order !=
			      scan->start_pfn >> m->pageblock_order))
		return -1;
	return sink->left(sink->self, search->found);
}

bool recorded_compaction_search(struct recorded_compactions *c, struct model *m,
				struct compactor *task, const struct recorded_compaction_row *scan,
				const struct recorded_compaction_sink *sink)
{
	const uint64_t block = 1ull << m->pageblock_order;
	uint64_t half = (task->free_pfn - task->migrate_pfn) >> 1;
	const struct recorded_compaction_row row = {
		.start_pfn = (task->free_pfn - half) & ~(block - 1),
		.end_pfn = task->free_pfn,
	};
	unsigned int shallow = scan_limit(task) >> 1;
	const unsigned int limits[] = {shallow ? shallow : 1, (unsigned int)block >> 1};
	struct search best = {.found = NO_FRAME};
	int best_fit = -1, due;
	bool is_deep;

	if (!task->running || task->order <= 0 || task->order > m->max_order ||
	    task->free_pfn < task->migrate_pfn)
		return false;
	is_deep = task->free_pfn >= c->deep_from[task->zone->number];
	due = task->search_order < task->order ? task->search_order : task->order - 1;
	for (int i = 0; i < 2; i++) {
		struct search search;
		int fit;

		search_lists(m, task, &row, limits[i ^ is_deep], due, &search);
		fit = fit_of(m, task, &search, scan, sink);
		if (fit <= best_fit)
			continue;
		best = search;
		best_fit = fit;
		if (i)
			c->deep_from[task->zone->number] = task->free_pfn + is_deep;
	}
	sink->followed(sink->self, task->zone,
		       best.found == NO_FRAME ? 0 : 1ull << best.found_order, best_fit >= 0);
	if (best_fit < 0)
		return false;
	apply_search(m, task, &best, best.found != NO_FRAME, sink);
	task->found = scans_around(task, &best);
	if (best.found != NO_FRAME)
		task->supply += 1ll << best.found_order;
	return best.found != NO_FRAME;
}

/* Entries up to `last` go to the tail of their list. */
static void move_to_tail(struct model *m, struct compactor *task, list_nr list, uint32_t last,
			 const struct recorded_compaction_sink *sink)
{
	uint32_t first = m->frames[last].next;

	if (first == list)
		return;
	rotate_list(m, list, first);
	sink->cut(sink->self, task, first);
}

/*
 * fast_find_migrateblock: a source block with some free pages. The events show the chosen block,
 * but not the skipped ones.
 */
void recorded_compaction_find_source(struct model *m, struct compactor *task, uint64_t scanned,
				     const struct recorded_compaction_sink *sink)
{
	uint64_t zone_start = task->zone->start_pfn, block = (1ull << m->pageblock_order) - 1;
	uint64_t distance = (task->free_pfn - task->migrate_pfn) >> 1, high_pfn;
	unsigned int limit = scan_limit(task), looked = 0;
	bool found = false;

	if (task->ignores_skips || task->free_pfn < task->migrate_pfn ||
	    (task->migrate_pfn != zone_start && task->migrate_pfn & block) ||
	    task->order <= COSTLY_ORDER || task->order > m->max_order ||
	    (task->direct && task->migratetype != MIGRATETYPE_MOVABLE))
		return;
	if (task->migrate_pfn != zone_start)
		distance >>= 2;
	high_pfn = (task->migrate_pfn + distance) & ~block;
	for (int order = task->order - 1; order >= COSTLY_ORDER && !found && looked < limit;
	     order--) {
		list_nr list = free_list(task->zone, order, MIGRATETYPE_MOVABLE);
		const struct frame *f = m->frames;

		for (frame_nr entry = f[list].next; entry != list; entry = f[entry].next) {
			uint64_t pfn = frame_pfn(m, entry);

			found = looked < limit && pfn < high_pfn && (pfn & ~block) == scanned;
			if (looked++ < limit && !found)
				continue;
			move_to_tail(m, task, list, entry, sink);
			break;
		}
	}
	task->fail = found ? 0 : task->fail + 1;
}
