/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorded_compaction.h - the effect of recorded compaction on the free lists, from the compaction
 * table.
 *
 * The free scanner takes pages off the lists, and the fast searches rotate lists, without a page
 * event. But compaction's own events have the positions of the scanners and their numbers of
 * scanned and taken pages. These suffice to follow the compact_control of each compacting task
 * (mm/compaction.c, 5.10 to 6.18), and to check the result at every event.
 */
#pragma once

#include "model/buddy.h"

struct recorded_compaction_row {
	uint64_t at;
	uint64_t start_pfn, end_pfn; /* of the scanned range, or of the zone */
	uint64_t migrate_pfn, free_pfn;
	int64_t nr_scanned, nr_taken;
	uint32_t gfp_flags;
	int32_t pid;
	uint16_t cpu;
	uint8_t kind;
	int8_t order;    /* -1: the row has none */
	int8_t priority; /* priority of a direct run; -1: the row has none */
	int16_t status;
	bool sync;
	int16_t node, zone; /* of a check whether a run is finished; -1: the row has none */
};

/* The order of what a task may capture, if not that of a request. */
enum {
	CAPTURE_NOTHING = -1,
	CAPTURE_ORDER_OPEN = -2, /* of a request that may be smaller than what is compacted */
};

/* A task that compacts a zone, followed by its events. */
struct compactor {
	int32_t pid;
	bool running,
		migrating; /* between begin and end; between migrate_pages_start and its end */
	bool sync, direct, ignores_skips;
	int order; /* order wanted; below 1: the whole zone */
	int migratetype;
	struct zone *zone;
	uint32_t run; /* number of this run, from 1 */
	uint64_t migrate_pfn, free_pfn;
	bool found;        /* its last fast search found free pages: it scans around them */
	int search_order;  /* order of the fast search for free pages */
	unsigned int fail; /* failed fast searches in a row */
	/*
	 * Without events of the searches: isolated source pages, of the range up to source_end;
	 * free pages at hand for them; sources that have moved.
	 */
	int64_t sources, supply, moved;
	uint64_t source_start, source_end; /* pfn */
	bool linear; /* the free scanner supplies them, for a search was in vain */
	struct capture capture;
};

enum { MAX_COMPACTORS = 64 }; /* tasks at the same time; further ones are not followed */

struct recorded_compactions {
	struct arrays *arrays; /* of the model */
	struct recorded_compaction_row *rows;
	size_t nr, room, next;
	struct compactor tasks[MAX_COMPACTORS];
	int nr_tasks;
	int nr_running;
	uint32_t runs;
	bool searches_traced; /* fast searches have events (6.3) */
	uint64_t *deep_from;  /* [zone] a free scanner at or above this pfn searches deep
				 (compact_init_free_pfn) */
};

/* Callbacks for the findings; each gets `self`. */
struct recorded_compaction_sink {
	void *self;
	/* The task took 2^order free pages off their list of `migratetype`. */
	void (*isolated)(void *self, const struct compactor *task, frame_nr head, int order,
			 int migratetype);
	/* A list was rotated: `first` is its head now. */
	void (*cut)(void *self, const struct compactor *task, uint32_t first);
	/* Whether a free chunk left its list without an event: above 0 yes, below 0 no. */
	int (*left)(void *self, frame_nr head);
	/* A scanner took `pages`; `exactly`: the model could follow it. */
	void (*followed)(void *self, struct zone *zone, uint64_t pages, bool exactly);
};

/* For the zones of a model; then arrays_error() of its arrays. */
void recorded_compactions_new(struct recorded_compactions *c, const struct model *m);

/* Store the rows of event row `first` and later about scanners and migrations. */
int recorded_compactions_load(struct recorded_compactions *c,
			      const struct compaction_columns *columns, size_t rows, uint64_t first,
			      struct error *err);

/* The next row due before row `at` of `event`, or NULL. */
static inline const struct recorded_compaction_row *
recorded_compactions_next(struct recorded_compactions *c, uint64_t at)
{
	if (c->next == c->nr || c->rows[c->next].at > at)
		return NULL;
	return &c->rows[c->next++];
}

/* The task's run, or NULL. */
struct compactor *compactor_of(struct recorded_compactions *c, int32_t pid);

/* Follow one row, which precedes c->next. */
void recorded_compaction_follow(struct recorded_compactions *c, struct model *m,
				const struct recorded_compaction_row *row,
				const struct recorded_compaction_sink *sink);

/*
 * A task freed 2^order pages. If they are sources that have moved, and the free pages at hand are
 * used up, the task searches for more (compaction_alloc).
 */
void recorded_compaction_freed(struct recorded_compactions *c, struct model *m, int32_t pid,
			       frame_nr frame, int order,
			       const struct recorded_compaction_sink *sink);

/* recorded_compaction_scan.c: the scanners. */
void recorded_compaction_scan_block(struct model *m, struct compactor *task,
				    const struct recorded_compaction_row *row,
				    const struct recorded_compaction_sink *sink);
void recorded_compaction_scan_lists(struct recorded_compactions *c, struct model *m,
				    struct compactor *task,
				    const struct recorded_compaction_row *row,
				    const struct recorded_compaction_sink *sink);
/*
 * A fast search that has no event (up to 6.2). Its depth is the one that agrees with the task's
 * next scan on the tape, `scan`, or NULL. Returns whether it found a chunk; task->found: `scan` is
 * a scan around that chunk.
 */
bool recorded_compaction_search(struct recorded_compactions *c, struct model *m,
				struct compactor *task, const struct recorded_compaction_row *scan,
				const struct recorded_compaction_sink *sink);
/* `scanned`: first pfn of the pageblock that the migration scanner chose; NONE: none. */
void recorded_compaction_find_source(struct model *m, struct compactor *task, uint64_t scanned,
				     const struct recorded_compaction_sink *sink);
