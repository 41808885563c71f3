/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_run.h - the model's own reclaim, in place of the recorded one (R1, R2).
 *
 * Allocations wake kswapd (kswapd.h). kswapd takes pages from the queues of pages that reclaim
 * freed on the record (reclaim_supply.h), and asks for kcompactd (kcompactd.h). Allocations below
 * the min watermark take pages from the queues as well. Pace and yield are those of the record at
 * that time (scan_pace.h); waits of wakeups are drawn from it (service.h). They do not delay later
 * requests, which keep their recorded times.
 *
 * The record shows a request only when it is served, not why it was delayed: the request may have
 * waited, or a node may have been over its limit of dirty pages. So the model acts at each recorded
 * entry into the slow path. At a begin of direct reclaim the model reclaims if it has no page for
 * the request either. At a call of kswapd it calls its own if the node has no zone above its low
 * watermark either (for a dirty node the kernel calls above it, too); that wakes if the node is out
 * of balance.
 *
 * A task that asks again while its last reclaim would still run has not begun another one: that
 * request would have come later.
 *
 * The run's own activity becomes rows of `reclaim` and `compaction`, as on a recorded tape.
 */
#pragma once

#include "kcompactd.h"
#include "kswapd.h"
#include "reclaim_parts.h"
#include "model/reclaim_ops.h"

enum { RECLAIMING_TASKS = 64 };

/* A recorded entry into the slow path: direct reclaim began, or a kswapd was called. */
struct slow_entry {
	uint64_t at; /* events before it */
	uint64_t ts;
	uint32_t gfp_flags;
	int32_t pid;
	uint16_t cpu;
	int16_t node; /* of the kswapd; -1: direct reclaim */
	uint8_t order;
	uint8_t class_zone; /* of the call */
};

/* A task that reclaimed at recorded entries for a request not served yet. */
struct reclaiming_task {
	uint64_t ts; /* of its last entry */
	int32_t pid;
	uint8_t order;
	int times;
};

/* A task in the model's direct reclaim for its request. */
struct stalled_task {
	uint64_t begin, end;
	uint64_t row_end; /* of its last rows: a task reclaims once at a time */
	int32_t pid;
};

/* By node the first recorded step of a daemon: pass or sleep of kswapd, check of kcompactd. */
struct first_steps {
	struct first_step {
		int node;
		bool sleeps; /* of a kswapd */
		uint64_t ts; /* UINT64_MAX: a wakeup came before kcompactd's first check */
	} *rows;
	size_t nr, room;
};

struct reclaim_run {
	struct model *model;
	uint64_t first;         /* first row of `event` */
	struct reclaim_ops ops; /* the hooks that the model calls */
	struct reclaim_supply supply;
	struct service service;
	struct scan_pace pace;
	struct compaction compaction;
	struct row_outputs rows;
	struct reclaim_parts parts;                   /* pointers to the members above */
	struct first_steps first_steps, first_checks; /* of kswapd, and of kcompactd */
	struct recorded_checks checks;
	bool compaction_recorded; /* the tape has compaction events */
	struct slow_entry *entries;
	size_t nr_entries, entries_room, next_entry;
	struct reclaiming_task tasks[RECLAIMING_TASKS]; /* a ring: a new task replaces the oldest */
	unsigned next_task;
	struct stalled_task stalled_tasks[RECLAIMING_TASKS]; /* a ring as well */
	unsigned next_stalled;
	struct stalled_task *near_tasks; /* [node] the last one to reclaim there for zone_reclaim */
	struct kswapd *kswapds;          /* [node] */
	struct kcompactd *kcompactds;    /* [node] */
	uint64_t quiet_checks;           /* by kcompactd, long after a row of `event` */
	uint64_t due;  /* ns of a daemon's next step at the earliest; 0: unknown */
	bool stalled;  /* the running request waited for kswapd */
	bool at_entry; /* the running request is a recorded entry */
};

/* Whether the run reads a table: reclaim, reclaimed, compaction, service or scan. */
bool reclaim_run_reads(const char *table);
/*
 * Load rows of such a table, for run->model from event row run->first on. Skips unused kinds of
 * rows. -EINVAL, -E2BIG or -ENOMEM.
 */
int reclaim_run_load(struct reclaim_run *run, const char *table, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err);

/* The step of a node of the tape, or NULL. */
const struct first_step *first_step(const struct first_steps *steps, int node);

/*
 * Call after the last row: installs the hooks in run->model. `pages` and `row` as for
 * reclaim_supply_start(). -ENOMEM.
 */
int reclaim_run_start(struct reclaim_run *run, struct page_map *pages, const uint64_t *row,
		      struct error *err);

/* Whether a daemon or a recorded entry is due before the request of row `at` at `ts`. */
static inline bool reclaim_run_is_due(const struct reclaim_run *run, uint64_t at, uint64_t ts)
{
	return run->due <= ts ||
	       (run->next_entry < run->nr_entries && run->entries[run->next_entry].at <= at);
}

/* Run all daemons and entries due before the request of row `at` at `ts`. */
void reclaim_run_until(struct reclaim_run *run, uint64_t at, uint64_t ts);

/* End the run at `ts`. */
void reclaim_run_finish(struct reclaim_run *run, uint64_t ts);

/*
 * Call the kswapd of a node, as kswapd_wakeup(), and make the wakeup of kcompactd that it returns.
 */
void reclaim_run_wake_kswapd(struct reclaim_run *run, int node, uint32_t gfp_flags, int order,
			     int class_zone);
void reclaim_run_wake_kcompactd(struct reclaim_run *run, int node, struct kcompactd_wake wake);
