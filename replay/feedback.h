/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feedback.h - reclaim that the model runs itself, instead of the record's (R1, R2).
 *
 * Allocations wake kswapd (kswapd.h), which takes pages from the queues of what reclaim
 * freed on the record (reclaim.h) and wakes kcompactd (kcompactd.h); allocations below
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
#include "reclaim.h"
#include "zone.h"

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

struct feedback {
	struct model *model;
	struct reclaim reclaim; /* its mode says whether there is feedback at all */
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
	struct output *reclaim_rows, *compaction_rows; /* NULL: nobody wants them */
};

/* Rows of the tables service and reclaim; other kinds of rows are passed over. */
int feedback_load_service(struct feedback *fb, const struct service_columns *columns, size_t rows,
			  struct error *err);
int feedback_load_probes(struct feedback *fb, const struct model *m,
			 const struct reclaim_columns *columns, size_t rows, uint64_t first,
			 struct error *err);

/* Rows of the table compaction: those of other kinds than kcompactd's are passed over. */
int feedback_load_looks(struct feedback *fb, const struct compaction_columns *columns, size_t rows,
			struct error *err);

/* All rows are there. `rows`: what happens is wanted as rows. -ENOMEM. */
int feedback_start(struct feedback *fb, struct serve *serve, bool rows, struct error *err);
void feedback_free(struct feedback *fb);

/* Whether something is due before the request of row `at` at `ts`; let it happen. */
static inline bool feedback_is_due(const struct feedback *fb, uint64_t at, uint64_t ts)
{
	return fb->due <= ts ||
	       (fb->next_probe < fb->nr_probes && fb->probes[fb->next_probe].at <= at);
}

void feedback_run(struct feedback *fb, uint64_t at, uint64_t ts);

/* The tape is over at `ts`. */
void feedback_finish(struct feedback *fb, uint64_t ts);

/* Wake the kswapd of each node of a zonelist (wake_all_kswapds). */
void feedback_wake_all(struct feedback *fb, const struct zonelist *list, const struct request *rq);
/* Wake that of a zone whose watermark was boosted. */
void feedback_wake_boosted(struct feedback *fb, const struct zone *zone);
/* A request reclaims: one try. Whether it freed anything. */
bool feedback_direct(struct feedback *fb, const struct zonelist *list, const struct request *rq);
/* enum compact_priority */
enum { COMPACT_PRIO_SYNC_FULL, COMPACT_PRIO_SYNC_LIGHT, COMPACT_PRIO_ASYNC };

/*
 * A request compacts, at a COMPACT_PRIO_*: one try. Whether it made a block of its order,
 * or there is one.
 */
bool feedback_compact(struct feedback *fb, const struct zonelist *list, const struct request *rq,
		      int priority);
/* It was handed out, of that zone. */
void feedback_compacted(struct feedback *fb, const struct zone *zone, int order);
/* How often the task that now asks for that order has reclaimed for it already; once. */
int feedback_tried(struct feedback *fb, int order);
/* It reclaims on a nearby node before it goes on to the next. Whether that freed anything. */
bool feedback_node_reclaim(struct feedback *fb, const struct zone *zone, const struct request *rq);
/* A request waits for kswapd rather than mix migratetypes: the policy stall. */
void feedback_stall(struct feedback *fb, struct zone *zone, const struct request *rq,
		    int64_t boost);

/* For the daemons. */

/*
 * What a run of compaction in one zone costs at most, kcompactd's or an allocation's: as on the
 * record, there of either if one has none; 2048 pages in no time if both have none.
 */
const struct service_row *feedback_draw_compaction(struct feedback *fb, bool direct);

/* How long one takes from being woken to running: as on the record, or 50 us. */
uint64_t feedback_wake_ns(struct feedback *fb);
void feedback_wake_kcompactd(struct feedback *fb, int node, int order, int class_zone);
static inline void feedback_hurry(struct feedback *fb, uint64_t due)
{
	fb->due = due < fb->due ? due : fb->due;
}

/* The counters of what happens on a node. */
struct counters *node_counters(const struct model *m, int node);

/* A row of reclaim; node, zone and order are null if below 0. */
struct told_reclaim {
	int kind, node, zone, order;
	uint32_t gfp_flags;
	int64_t nr_reclaimed; /* of direct_reclaim_end and node_reclaim_end */
	uint64_t after_ns;    /* how much later than now */
};

void feedback_tell(struct feedback *fb, const struct told_reclaim *row);

/* A row of compaction; node, zone, order and priority are null if below 0. */
struct told_compaction {
	int kind, node, zone, order, priority;
	uint32_t gfp_flags; /* of try_to_compact_pages */
	uint64_t after_ns;
};

void feedback_tell_compaction(struct feedback *fb, const struct told_compaction *row);
/* Begin and end of a run in a zone, `after_ns` from now, that takes `ns`. */
void feedback_tell_run(struct feedback *fb, const struct zone *zone, uint64_t after_ns,
		       uint64_t ns);
