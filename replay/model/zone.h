/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone.h - a request, and how it is served.
 *
 *   zone.c           the interface; the counters of requests
 *   zonelist_scan.c  the scan of the zones, up to the page
 *   slow_path.c      requests that no zone serves above its low watermark
 *   scan_effects.c   effects of a scan on the zones tried in vain
 *   watermark.c      watermarks and their boost
 *   highatomic.c     the HIGHATOMIC reserve
 *   zonelist.c       the zones in the order of the scan
 */
#pragma once

#include "model.h"

struct request {
	uint32_t gfp_flags;
	uint8_t order, migratetype;
	uint8_t class_zone;   /* highest zone it may take */
	bool light;           /* the request fails instead of entering the slow path */
	bool pcp_locked;      /* the lock of its PCP is taken: the PCP is bypassed */
	bool reclaimed;       /* on the record, its task has just done direct reclaim */
	bool makes_room;      /* the caller compacts if no block is free: no PCP is drained */
	bool whole_first;     /* the caller makes a free pageblock before the request may mix */
	uint16_t node;        /* preferred */
	uint16_t refill_zone; /* zone of the recorded refill */
	uint32_t refill;      /* entries of it, in one or more refills; 0: the PCP decides */
	uint32_t flags;       /* ALLOC_* of the current pass */
};

enum {
	ALLOC_NOFRAGMENT = 1, /* do not mix migratetypes in a pageblock */
	ALLOC_HIGH = 2,       /* __GFP_HIGH: MIN_RESERVE */
	ALLOC_HARDER = 4,     /* cannot sleep: HARDER, NON_BLOCK */
	ALLOC_HIGHATOMIC = 8, /* may take from the HIGHATOMIC reserve */
	ALLOC_NO_WATERMARKS = 16,
	ALLOC_SLOW = 32,    /* the slow path: kswapd was woken */
	ALLOC_STALLED = 64, /* the request has waited for kswapd (policy stall) */
};

/* A watermark with its boost. */
static inline int64_t zone_mark(const struct zone *zone, int wmark)
{
	return zone->wmark[wmark] + zone->boost;
}

/*
 * Highest zone a gfp mask allows (gfp_zone, 5.10 to 7.3). Without a HighMem zone, __GFP_HIGHMEM
 * alone means Normal (OPT_ZONE_HIGHMEM): the reserves of lower zones are those against Normal.
 */
int gfp_class_zone(const struct model *m, uint32_t gfp_flags);

/* Migratetype a gfp mask asks for (gfp_migratetype, 4.20 to 6.18). */
int gfp_migratetype(uint32_t gfp_flags);

/*
 * Serve a request: a first pass above the low watermark, then the slow path above the min watermark
 * with its rights. Without feedback (reclaim_ops.h) the model does not reclaim, because pages are
 * freed when the record freed them. Where the kernel would reclaim (counted as below_min), the
 * model goes below the watermark instead. If the record shows direct reclaim (rq->reclaimed), or no
 * zone has a page, it unreserves HIGHATOMIC pageblocks and drains every PCP. A request that may not
 * mix even after reclaim (NOFRAGMENT_ALWAYS) mixes as the last step. Returns the head of a used
 * block of rq->order, or NO_FRAME.
 */
frame_nr zone_alloc(struct model *m, struct request *rq);

/* Whether a zone is a lower one of the preferred zone's node. */
static inline bool zone_is_lower(const struct zone *zone, const struct zone *preferred)
{
	return zone->node == preferred->node && zone->type != preferred->type;
}

/* Count a request that got a used block by other means, as zone_alloc() does. */
void zone_hand_out(struct model *m, const struct request *rq, frame_nr head);

/* Distance classes of nodes, seen from the request's own node, which is class 0. */
struct reach {
	uint8_t near, far;
};

/*
 * One pass over the zones of the nodes in reach, without a slow path: a used block above a
 * watermark (WMARK_LOW, or WMARK_MIN with the rights of the slow path), or NO_FRAME.
 */
frame_nr zone_alloc_within(struct model *m, struct request *rq, struct reach reach, int wmark);
/* Whether the slow path's scan would find a block for a request. Changes nothing. */
bool zone_has_block(const struct model *m, const struct request *rq);
/* Whether such a pass would find one page. */
bool zone_has_within(const struct model *m, const struct request *rq, struct reach reach,
		     int wmark);
/* Count the entry of such a request into the slow path, and wake kswapd. */
void zone_look_again(struct model *m, const struct request *rq);
/* With feedback: the turns of such a request after its last pass (slow_path_turns.h). */
frame_nr zone_alloc_by_turns(struct model *m, struct request *rq);

/*
 * Count a used block in nr_live of its pageblock under this migratetype, until it is freed. The
 * counts decide claims.
 */
void zone_mark_live(struct model *m, frame_nr head, int order, int migratetype);

/* Remove it from nr_live: FRAME_USED. */
void zone_unmark_live(struct model *m, frame_nr head, int order);

/* Facts about a recorded free, besides its pages. */
struct free_request {
	bool pcp_locked;  /* the lock of its PCP is taken: the PCP is bypassed */
	bool movable;     /* the page was on an LRU list: pageblock_forget_old() */
	bool drain_waits; /* its drain waits for the zone's lock */
	int drain_pages;  /* pages that its overflow drains; below 0: the PCP decides */
	/* The pages come from a PCP beyond the boundary of the tape, which drains them. */
	bool drained;
	bool drains_on; /* it has drained others just before, under the same hold of the lock */
};

/* A free of which the record shows nothing but its pages. */
extern const struct free_request plain_free;

/* Free 2^order used pages from `head`: a whole block, or FRAME_OLD pages. */
void zone_free(struct model *m, frame_nr head, int order);
void zone_free_as(struct model *m, frame_nr head, int order, const struct free_request *how);

/* Make FRAME_OLD pages one FRAME_USED block, and remove them from nr_old. */
void zone_forget_old(struct model *m, frame_nr head, int order);
