/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone.h - a request, and how it is served.
 *
 *   zone.c       the interface; what is counted of requests
 *   zonelist_scan.c       the walk over the zones, up to the page
 *   slow_path.c  what a request does that no zone serves at once
 *   scan_effects.c     traces of a walk in the zones it tried in vain
 *   watermark.c  watermarks and their boost
 *   highatomic.c the HIGHATOMIC reserve
 *   zonelist.c   the zones in the order of the walk
 */
#pragma once

#include "model.h"

struct request {
	uint32_t gfp_flags;
	uint8_t order, migratetype;
	uint8_t class_zone; /* highest zone it may take */
	bool light;         /* it is given up where the slow path would begin */
	bool pcp_locked;    /* it finds the lock of its PCP taken, and goes past it */
	bool reclaimed;     /* its task comes out of direct reclaim, on the record */
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

/* Highest zone a gfp mask allows (gfp_zone, x86-64). */
int gfp_class_zone(uint32_t gfp_flags);

/* Migratetype a gfp mask asks for (gfp_migratetype, 4.20 to 6.18). */
int gfp_migratetype(uint32_t gfp_flags);

/*
 * Serve a request: a first pass above the low watermark, then the slow path's rights
 * above the min watermark. Without feedback (reclaim_run.h) reclaim does not run, for pages
 * are freed when the record freed them; so where the kernel would reclaim (counted as
 * below_min) the model goes below the watermark. What else the kernel does there, it does
 * where the record shows direct reclaim (rq->reclaimed), or where no zone has a page at all:
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

/*
 * The used block is of this migratetype: from now on until it is freed it counts as that in
 * its pageblock, which decides claims of it.
 */
void zone_mark_live(struct model *m, uint32_t head, int order, int migratetype);

/* It counts as nothing any more: FRAME_USED. */
void zone_unmark_live(struct model *m, uint32_t head, int order);

/* What the record shows of a free, beyond its pages. */
struct free_request {
	bool pcp_locked;  /* it finds the lock of its PCP taken, and goes past it */
	bool drain_waits; /* the drain that it asks for waits for the zone's lock */
	int drain_pages;  /* so many pages its overflow drains; below 0: the PCP decides */
};

/* Free 2^order pages from `head`, which are used: a whole block, or FRAME_OLD pages. */
void zone_free(struct model *m, uint32_t head, int order);
void zone_free_as(struct model *m, uint32_t head, int order, const struct free_request *how);

/* Make one used block of FRAME_OLD pages: what becomes of them is known from here on. */
void zone_forget_old(struct model *m, uint32_t head, int order);
