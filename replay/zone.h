/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone.h - which zone serves a request: zonelists, watermarks, the walk.
 */
#pragma once

#include "model.h"

struct request {
	uint32_t gfp_flags;
	uint8_t order, migratetype;
	uint8_t class_zone; /* highest zone it may take */
	bool light;         /* it is given up where the slow path would begin */
	bool makes_room; /* the caller makes a block if there is none: nothing is drained for it */
	uint16_t node;   /* preferred */
	uint32_t flags;  /* ALLOC_* of the pass that runs */
};

enum {
	ALLOC_NOFRAGMENT = 1, /* do not mix migratetypes in a pageblock */
	ALLOC_HIGH = 2,       /* __GFP_HIGH: MIN_RESERVE */
	ALLOC_HARDER = 4,     /* cannot sleep: HARDER, NON_BLOCK */
	ALLOC_HIGHATOMIC = 8, /* may take from the HIGHATOMIC reserve */
	ALLOC_NO_WATERMARKS = 16,
	ALLOC_SLOW = 32,    /* the slow path: kswapd was woken */
	ALLOC_STALLED = 64, /* it waited for kswapd already: the policy stall */
};

/* A watermark as the tests see it. */
static inline int64_t zone_mark(const struct zone *zone, int wmark)
{
	return zone->wmark[wmark] + zone->boost;
}

/*
 * boost_watermark's limit: `factor` ten thousandths of the high watermark, but a
 * pageblock at least; 0 for none, as where the row spares small zones.
 */
int64_t boost_limit(const struct model *m, const struct zone *zone, int64_t factor);

/*
 * Raise a zone's boost by a pageblock, up to `most` pages; and count the time until `ts`
 * that it was boosted. A boost acts, and has time, only where the tape shows kswapd.
 */
void boost_zone(struct model *m, struct zone *zone, int64_t most);
void count_boosted_time(struct model *m, struct zone *zone, uint64_t ts);

/*
 * Whether the zone has `free` pages above `mark` left for a request of this order and
 * rights, and a chunk to serve it (zone_watermark_ok of the row's family).
 */
bool watermark_ok(const struct model *m, const struct zone *zone, const struct request *rq,
		  int64_t mark);

/* The same for pages counted otherwise than as nr_free_pages. */
bool watermark_ok_of(const struct model *m, const struct zone *zone, uint64_t nr_free,
		     const struct request *rq, int64_t mark);
/* The free pages that the daemons count for an order: all, or whole pageblocks only. */
uint64_t zone_free_for(const struct model *m, const struct zone *zone, int order);

/* Highest zone a gfp mask allows (gfp_zone, x86-64). */
int gfp_class_zone(uint32_t gfp_flags);

/* Migratetype a gfp mask asks for (gfp_migratetype, 4.20 to 6.18). */
int gfp_migratetype(uint32_t gfp_flags);

/*
 * Serve a request: a first pass above the low watermark, then the slow path's rights
 * above the min watermark. Without feedback (feedback.h) reclaim does not run, for pages
 * are freed when the record freed them; so where the kernel would reclaim (counted as
 * below_min) the model goes below the watermark. What else the kernel does there, it does
 * where the record shows direct reclaim (m->reclaimed), or where no zone has a page at all:
 * it unreserves HIGHATOMIC blocks and drains every PCP. Who may not mix even after reclaim
 * (NOFRAGMENT_ALWAYS) mixes last. Returns the head of a used block of
 * rq->order, or NO_FRAME.
 */
uint32_t zone_alloc(struct model *m, struct request *rq);

/* A request got that used block by other means: it is counted as if it came from zone_alloc(). */
void zone_hand_out(struct model *m, const struct request *rq, uint32_t head);

/* Distance classes of nodes, from the request's own node: 0 is itself. */
struct reach {
	uint8_t near, far;
};

/*
 * One look, no more, at the zones of the nodes in reach: a used block above a watermark
 * (WMARK_LOW, or WMARK_MIN with the rights of the slow path), or NO_FRAME.
 */
uint32_t zone_alloc_within(struct model *m, struct request *rq, struct reach reach, int wmark);
/* Whether such a look would find a single page. */
bool zone_has_within(const struct model *m, const struct request *rq, struct reach reach,
		     int wmark);
/* What the slow path of such a request begins with: it is counted, kswapd is woken. */
void zone_look_again(struct model *m, const struct request *rq);
/* With feedback: one try of direct reclaim for it. Whether it freed anything. */
bool zone_reclaim_for(struct model *m, const struct request *rq);

/* The zones that may serve a request, in the order it tries them; of them those it may have. */
const struct zonelist *zonelist_of(const struct model *m, const struct request *rq);

/* The highest zone of the nearest node that a request may have, or NULL. */
struct zone *zone_preferred(const struct model *m, const struct request *rq);

/* A request that no zone could serve at once has tried them all, and marked those that are low. */
void zone_mark_tried(struct model *m, int cpu, uint32_t gfp_flags, int order);

/*
 * What the walk of a request that was served from `zone` does to the zones it tries in
 * vain, and to the marks: the request's ALLOC_* flags in the pass that served it. `mixes`:
 * it was one that lets migratetypes mix.
 */
uint32_t zone_passes(struct model *m, const struct request *rq, struct zone *zone, bool mixes);

/*
 * The used block is of this migratetype: from now on until it is freed it counts as that in
 * its pageblock, which decides claims of it.
 */
void zone_mark_live(struct model *m, uint32_t head, int order, int migratetype);

/* It counts as nothing any more: FRAME_USED. */
void zone_unmark_live(struct model *m, uint32_t head, int order);

/*
 * A request that is not served yet, with feedback: wake kswapd and reclaim once if every
 * zone is below its min watermark; whether that was so.
 */
bool zone_probe(struct model *m, struct request *rq);

/* Free 2^order pages from `head`, which are used: a whole block, or FRAME_OLD pages. */
void zone_free(struct model *m, uint32_t head, int order);

/* Make one used block of FRAME_OLD pages: what becomes of them is known from here on. */
void zone_forget_old(struct model *m, uint32_t head, int order);

/*
 * A pass of a node's kswapd over its zones up to `class_zone` begins; it ends, and takes
 * back the boost it saw when it began (balance_pgdat, 5.0 to 6.18). Between the two the
 * PCPs of these zones are kept short (ZONE_RECLAIM_ACTIVE, 5.14).
 */
void kswapd_begin(struct model *m, int node, int class_zone);
void kswapd_end(struct model *m, int node);

/* Fill model->fallback, ->thisnode and ->distance_classes from ->node_distances. -ENOMEM. */
int zonelists_new(struct model *m, struct error *err);
/* Put them in zone order (up to 4.13): the highest zone of every node first. */
void zonelists_by_zone(struct model *m);
void zonelists_free(struct model *m);
