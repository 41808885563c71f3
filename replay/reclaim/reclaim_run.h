/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_run.h - reclaim that the model runs itself, instead of the record's (R1, R2).
 *
 * Allocations wake kswapd (kswapd.h), which takes pages from the queues of what reclaim
 * freed on the record (reclaim_supply.h) and wakes kcompactd (kcompactd.h); allocations below
 * the min watermark take from them as well. How long all that takes is drawn from what
 * the record took (table service), quantile by quantile in a fixed order, so that every
 * run is the same. It never delays the requests that follow: they come when the record
 * made them.
 *
 * A request shows only when it is served, and not why it was not served before: because it
 * waited, or because a node was over its limit of dirty pages. At each recorded begin of
 * direct reclaim the model is asked whether it, too, has nothing for that request then;
 * and a kswapd that was called by a request is called in the model, where it wakes if its
 * node is out of balance there.
 *
 * What happens becomes rows of `reclaim` and `compaction`, as on a recorded tape.
 */
#pragma once

#include "deferral.h"
#include "kcompactd.h"
#include "kswapd.h"
#include "output.h"
#include "reclaim_supply.h"
#include "model/reclaim_ops.h"

enum { SERVICE_ROWS = 64, TRIED_TASKS = 64 };

/* What a service took on the record, by quantiles. */
struct service {
	struct service_row {
		uint64_t ns, moved, failed;
	} rows[SERVICE_ROWS];
	int nr;
	unsigned drawn;
};

/* The next quantile; they take turns so that few in a row have the mean of all. Zeroes if none. */
const struct service_row *service_draw(struct service *s);

/* A recorded begin of direct reclaim, or call of a kswapd. */
struct probe {
	uint64_t at, ts;
	uint32_t gfp_flags;
	int32_t pid;
	uint16_t cpu;
	int16_t node; /* whose kswapd was called; -1: direct reclaim began */
	uint8_t order;
	uint8_t class_zone; /* of the call */
};

/* A task that reclaimed at recorded begins, for a request that is not served yet. */
struct tried {
	uint64_t ts;
	int32_t pid;
	uint8_t order;
	int times;
};

/* What compaction found nothing of in a pageblock: pages to move, room for them. */
enum { SKIP_SOURCE = 1, SKIP_TARGET = 2 };

/* What compaction remembers of a zone. */
struct zone_compaction {
	struct deferral deferral;
	double failing; /* of a page, that could not be moved so far */
	/* Where the next run goes on to look for pages, and below what for room; 0 and 0: anew. */
	uint32_t from, below;
	bool flush; /* an allocation's run came to the end: kswapd has it look anew */
};

/* When a kcompactd looked for work by itself, first of all. */
struct look {
	int node;
	uint64_t ts; /* UINT64_MAX: it was woken before */
};

struct reclaim_run {
	struct model *model;
	uint64_t first;         /* row of `event` the model starts at */
	struct reclaim_ops ops; /* that the model calls */
	struct reclaim_supply supply;
	struct service kswapd_service, direct_service, wake_service;
	struct service compaction_service, direct_compaction_service;
	struct look *looks;
	size_t nr_looks;
	struct probe *probes;
	size_t nr_probes, probes_room, next_probe;
	struct tried tried[TRIED_TASKS]; /* a ring: the oldest gives way */
	unsigned next_tried;
	struct kswapd *kswapds;        /* [node] */
	struct kcompactd *kcompactds;  /* [node] */
	struct zone_compaction *zones; /* [zone] */
	uint8_t *skipped;              /* [pageblock] SKIP_*: had nothing for compaction */
	uint64_t due;                  /* the first of all that are due */
	bool stalled;                  /* the request that runs waited for kswapd */
	struct output *reclaim_rows, *compaction_rows; /* the caller's; NULL: nobody wants them */
};

/* Whether rows of a table are for the run: reclaim, reclaimed, compaction or service. */
bool reclaim_run_reads(const char *table);
/*
 * Rows of such a table, for run->model from event row run->first on; kinds of rows that
 * say nothing of reclaim are passed over. -EINVAL, -E2BIG or -ENOMEM.
 */
int reclaim_run_load(struct reclaim_run *run, const char *table, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err);

/*
 * All rows are there: install the hooks in run->model. `pages` and `row` as for
 * reclaim_supply_start(). -ENOMEM.
 */
int reclaim_run_start(struct reclaim_run *run, struct page_map *pages, const uint64_t *row,
		      struct error *err);
void reclaim_run_free(struct reclaim_run *run);

/* Whether something is due before the request of row `at` at `ts`; let it happen. */
static inline bool reclaim_run_is_due(const struct reclaim_run *run, uint64_t at, uint64_t ts)
{
	return run->due <= ts ||
	       (run->next_probe < run->nr_probes && run->probes[run->next_probe].at <= at);
}

void reclaim_run_run(struct reclaim_run *run, uint64_t at, uint64_t ts);

/* The tape is over at `ts`. */
void reclaim_run_finish(struct reclaim_run *run, uint64_t ts);

/* The hooks of direct compaction: see struct reclaim_ops. */
bool direct_compact(void *self, const struct zonelist *list, const struct request *rq,
		    int priority);
void direct_compacted(void *self, const struct zone *zone, int order);

/* For the daemons. */

/*
 * What a run of compaction in one zone costs at most, kcompactd's or an allocation's: as on the
 * record, there of either if one has none; 2048 pages in no time if both have none.
 */
const struct service_row *reclaim_run_draw_compaction(struct reclaim_run *run, bool direct);

/* How long one takes from being woken to running: as on the record, or 50 us. */
uint64_t reclaim_run_wake_ns(struct reclaim_run *run);
void reclaim_run_wake_kcompactd(struct reclaim_run *run, int node, int order, int class_zone);
static inline void reclaim_run_hurry(struct reclaim_run *run, uint64_t due)
{
	run->due = due < run->due ? due : run->due;
}

/* The counters of what happens on a node. */
struct counters *node_counters(const struct model *m, int node);

/* A row of reclaim; node, zone and order are null if below 0. */
struct reclaim_row {
	int kind, node, zone, order;
	uint32_t gfp_flags;
	int64_t nr_reclaimed; /* of direct_reclaim_end and node_reclaim_end */
	uint64_t after_ns;    /* how much later than now */
};

void reclaim_run_emit(struct reclaim_run *run, const struct reclaim_row *row);

/* A row of compaction; node, zone, order and priority are null if below 0. */
struct compaction_row {
	int kind, node, zone, order, priority;
	uint32_t gfp_flags; /* of try_to_compact_pages */
	uint64_t after_ns;
};

void reclaim_run_emit_compaction(struct reclaim_run *run, const struct compaction_row *row);
/* Begin and end of a run in a zone, `after_ns` from now, that takes `ns`. */
void reclaim_run_emit_run(struct reclaim_run *run, const struct zone *zone, uint64_t after_ns,
			  uint64_t ns);
