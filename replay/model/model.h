/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - the state of the page allocator.
 *
 *   frame      one page frame, 12 bytes. A block of 2^order pages is one head frame
 *              with that order and 2^order - 1 tail frames; blocks tile every zone.
 *   pageblock  migratetype and zone of 2^pageblock_order frames
 *   pcp        the page lists of one CPU in one zone
 *   zone       free lists, counters and watermarks of one zone of one node
 *
 * A frame's number is its index in model->frames. Every zone begins at a multiple of
 * 2^max_order frames and is padded to one, so that the kernel's pfn arithmetic works
 * on frame numbers and no block is in two zones; the padding is used for ever.
 * frame_pfn() and pfn_frame() translate. List heads are frames as well: they stand after the last
 * page.
 *
 * All memory is allocated by model_new(); nothing is allocated while events run.
 */
#pragma once

#include "events.h"
#include "kernel.h"
#include "tables.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	MAX_PAGE_ORDER = 10, /* largest a model may have */
	NR_PAGE_ORDERS = MAX_PAGE_ORDER + 1,
	PCP_MAX_ORDER = 3,  /* orders 0..3 and THP go through the PCP: PAGE_ALLOC_COSTLY_ORDER */
	PCP_SCALE_MOST = 6, /* largest CONFIG_PCP_BATCH_SCALE_MAX */
	MAX_PCP_LISTS = 16,
	NO_PCP_LIST = UINT8_MAX,
	NO_FRAME = UINT32_MAX,
};

enum frame_state {
	FRAME_OLD,  /* head: used since before the start of the tape, order 0 */
	FRAME_USED, /* head: used, in no count of its pageblock */
	/* head: allocated on the tape by a request of that migratetype, and counted */
	FRAME_USED_UNMOVABLE,
	FRAME_USED_MOVABLE,
	FRAME_USED_RECLAIMABLE,
	FRAME_FREE, /* head: on a free list */
	FRAME_PCP,  /* head: on a PCP list */
	FRAME_TAIL,
};

struct frame {
	uint32_t next, prev;
	uint16_t list; /* FREE: migratetype; PCP: number in model->pcps; used: AWAITS_ALLOC ... */
	uint8_t order; /* of a head */
	uint8_t state : 4;
	uint8_t recorded : 4; /* PCP: migratetype the page is drained to, up to 6.8 */
};
_Static_assert(sizeof(struct frame) == 12, "16 bytes per page with the map");

/*
 * frame.list of a used page: what a run knows of it beyond that. 0: nothing. Of a NO_ALLOC page
 * frame.next is the number of the pending miss that waits for it, or NO_FRAME.
 */
enum {
	AWAITS_ALLOC = UINT16_MAX, /* it was taken without its alloc event, which may still come */
	AWAITS_ALLOC_MISSED = UINT16_MAX - 1, /* the same, but the model had another page */
	NO_ALLOC = UINT16_MAX - 2,            /* it left a PCP list, and no event recorded it */
	ISOLATED = UINT16_MAX - 3,            /* compaction took it off the free lists */
};

struct pageblock {
	uint8_t migratetype;
	uint8_t zone;
	/* used pages allocated on the tape by UNMOVABLE, MOVABLE and RECLAIMABLE requests */
	uint16_t nr_live[MIGRATETYPE_RECLAIMABLE + 1];
	uint16_t nr_old;      /* pages used since before the start */
	uint16_t old_movable; /* of these, those on an LRU list: told, or guessed */
	uint16_t old_lru;     /* of these, those that are for certain */
	bool known;           /* the snapshot has a row of it */
	bool lru_known;       /* which tells how many of its pages are on an LRU list */
};

/*
 * What the model did; the columns of the counter table from `allocs` on. Newer ones are
 * nullable, at the end: tapes of before do not have them.
 */
#define FOR_EACH_COUNTER(X)                                                                        \
	FOR_EACH_FIRST_COUNTER(X)                                                                  \
	FOR_EACH_NEWER_COUNTER(X)                                                                  \
	FOR_EACH_FEEDBACK_COUNTER(X)
#define FOR_EACH_FIRST_COUNTER(X)                                                                  \
	X(allocs)                                                                                  \
	X(alloc_pages)                                                                             \
	X(frees)                                                                                   \
	X(free_pages)                                                                              \
	X(pcp_hits)                                                                                \
	X(refills)                                                                                 \
	X(refill_pages)                                                                            \
	X(drains)                                                                                  \
	X(drain_pages)                                                                             \
	X(decays)                                                                                  \
	X(decay_pages)                                                                             \
	X(buddy_allocs)                                                                            \
	X(buddy_frees)                                                                             \
	X(lock_holds)                                                                              \
	X(fallback_claim)                                                                          \
	X(fallback_steal)                                                                          \
	X(fallback_whole)                                                                          \
	X(nofragment_retries)                                                                      \
	X(lower_zone)                                                                              \
	X(remote_node)                                                                             \
	X(boost_asks)                                                                              \
	X(slowpath_wake_calls)                                                                     \
	X(below_low)                                                                               \
	X(below_min)                                                                               \
	X(failed)
#define FOR_EACH_NEWER_COUNTER(X)                                                                  \
	X(boost_saturated)                                                                         \
	X(boosted_ns)                                                                              \
	X(boost_saturated_ns)                                                                      \
	X(stalls)                                                                                  \
	X(stall_refusals)                                                                          \
	X(reserve_leaked)                                                                          \
	X(reserve_taken)                                                                           \
	X(reserve_past_pcp)                                                                        \
	X(atomic_orders)                                                                           \
	X(atomic_orders_reserve)                                                                   \
	X(atomic_orders_failed)                                                                    \
	X(alloc_batches)                                                                           \
	X(alloc_batch_waste)                                                                       \
	X(thp_local)                                                                               \
	X(thp_remote)                                                                              \
	X(thp_below_watermark)                                                                     \
	X(thp_fragmented)                                                                          \
	X(thp_no_compaction)                                                                       \
	X(thp_swallowed)                                                                           \
	X(thp_pieces)                                                                              \
	X(node_reclaims)                                                                           \
	X(blocks_made)                                                                             \
	X(block_moves)

/* Those of a run with feedback; null without. */
#define FOR_EACH_FEEDBACK_COUNTER(X)                                                               \
	X(kswapd_wakeups)                                                                          \
	X(kswapd_passes)                                                                           \
	X(kswapd_sleeps)                                                                           \
	X(premature_sleeps)                                                                        \
	X(naps_cut)                                                                                \
	X(order_resets)                                                                            \
	X(kcompactd_asked)                                                                         \
	X(kcompactd_wakes)                                                                         \
	X(compacted_pages)                                                                         \
	X(direct_reclaims)                                                                         \
	X(modelled_stall_us)                                                                       \
	X(would_fail)                                                                              \
	X(reclaimed_pages)                                                                         \
	X(early_reclaim_pages)                                                                     \
	X(early_reclaim_ms)                                                                        \
	X(synthetic_pages)                                                                         \
	X(reclaim_deficit_pages)                                                                   \
	X(reclaim_saved_pages)                                                                     \
	X(proactive_compactions)                                                                   \
	X(direct_compactions)                                                                      \
	X(direct_compactions_deferred)

struct counters {
#define FIELD(name) uint64_t name;
	FOR_EACH_COUNTER(FIELD)
#undef FIELD
};

enum { PCP_PREV_FREE_HIGH_ORDER = 1, PCP_FREE_HIGH_BATCH = 2 }; /* PCPF_*, 6.8 */

struct pcp {
	uint32_t heads; /* frame number of the head of list 0 */
	int32_t count;  /* pages */
	int32_t high, high_min, high_max;
	int32_t batch;
	int32_t free_count;
	int32_t put_off; /* pages of a drain that waits for the zone's lock */
	uint8_t alloc_factor, free_factor, flags;
	uint8_t put_off_list;
	uint8_t expire;     /* ticks until a remote PCP is drained */
	bool touched;       /* its CPU changed the zone's counters since the last tick */
	int8_t vmstat_diff; /* free pages that the zone's counter has still to gain: vmstat_diff.h
			     */
	uint16_t number;    /* in model->pcps */
	uint16_t cpu;
	uint16_t zone;
	struct counters counters; /* of the running interval */
};

enum { WMARK_MIN, WMARK_LOW, WMARK_HIGH, NR_WMARK };

struct zone {
	uint16_t number; /* in model->zones */
	uint16_t node;
	uint16_t part; /* of a zone that was cut; CPU c begins with c mod zone_parts */
	uint8_t type;  /* ZONE_DMA ... */
	bool below_high, reclaim_active, boosted_watermark;
	bool has_lower;      /* a NORMAL zone with lower zones on its node, or on the one node */
	uint32_t base;       /* frame of base_pfn, a multiple of 2^max_order */
	uint32_t start, end; /* frames of the first page and after the last */
	uint32_t heads;      /* frame number of the head of list (order 0, migratetype 0) */
	uint32_t pcps;       /* number of CPU 0's PCP */
	uint64_t base_pfn, start_pfn;
	uint64_t nr_free_pages, nr_free_cma, nr_free_highatomic, nr_reserved_highatomic;
	int32_t vmstat_diff, stat_threshold;
	int32_t stat_thresholds[2]; /* while kswapd sleeps, and is awake */
	uint32_t nr_free[NR_PAGE_ORDERS][NR_MIGRATETYPE];
	uint64_t present, managed;
	int64_t wmark[NR_WMARK];
	uint64_t wmark_promo; /* carried through, 0 if unknown */
	int64_t lowmem_reserve[NR_ZONE];
	int64_t boost;       /* pages every watermark stands higher by */
	bool boost_full;     /* that is as high as it may get */
	uint64_t boosted_at; /* since when its time is to be counted */
	int64_t boost_seen;  /* of these, what kswapd's running pass will take back */
	uint64_t pcp_unseen; /* pages in PCPs at the start that the snapshot could not place */
	bool guessed;        /* its free blocks at the start are from kpageflags */
};

/* Zones in the order a request tries them. */
struct zonelist {
	int nr;
	struct zone **zones;
};

struct policy_stack;
struct zone_lock_ops;
struct reclaim_ops;

struct model {
	const struct kernel *kernel;
	struct policy_stack *policies;
	int pageblock_order, max_order;
	int nr_zones, nr_cpus, nr_nodes, nr_pcp_lists;
	int node_parts, zone_parts; /* see struct machine */
	uint32_t nr_frames;         /* without list heads */
	struct frame *frames;
	struct pageblock *blocks;
	bool blocks_known; /* the snapshot has rows of pageblocks */
	struct zone *zones;
	struct pcp *pcps; /* [zone][cpu] */
	/* Of an order and migratetype, the number of the PCP list; or NO_PCP_LIST. */
	uint8_t pcp_lists[NR_PAGE_ORDERS][NR_MIGRATETYPE];
	const uint16_t *cpu_nodes; /* [cpu] */
	const uint64_t *landed; /* threads that prefer the node they land on: node_preference.h */
	/* [node][node] how many different distances are shorter; 0 for the node itself */
	uint8_t *distance_classes;
	const uint8_t *node_distances; /* [node][node] as the machine tells them */
	int proactiveness;             /* vm.compaction_proactiveness */
	int zone_reclaim_distance;     /* nodes so near reclaim before a request goes on; 0: none */
	struct zonelist *fallback;     /* [node][part of the CPU] every zone, nearest node first */
	struct zonelist *thisnode;     /* [node][part of the CPU] */
	bool boost_acts;               /* watermarks are boosted; else boosts are only counted */
	struct moment now;             /* of the event being replayed */
	bool drains_inferred;          /* drains of every CPU come as inferred.h tells them */
	uint64_t dirty_nodes;          /* of the tape, a bit each: dirty_node() */
	struct events *events;         /* takes the model's own events */
	const struct zone_lock_ops *zone_lock_ops; /* NULL: zone locks are not modelled */
	const struct reclaim_ops *reclaim_ops;     /* NULL: reclaim does what the record shows */
};

/* One zone, as its snapshot tells. */
struct zone_spec {
	uint16_t node;
	uint16_t part; /* of a zone that was cut, see layout.h */
	uint8_t type;
	uint64_t start_pfn, spanned, present, managed;
	int64_t wmark[NR_WMARK];
	uint64_t wmark_promo;
	int64_t lowmem_reserve[NR_ZONE];
	int64_t boost;
	uint64_t nr_reserved_highatomic;
	uint32_t stat_threshold; /* 0: not known */
	bool below_high, reclaim_active, boosted_watermark;
};

struct machine {
	int pageblock_order, max_order;
	int nr_cpus, nr_nodes;
	const uint16_t *cpu_nodes;     /* [nr_cpus] */
	const uint8_t *node_distances; /* [nr_nodes][nr_nodes] */
	int pcp_high_fraction;         /* vm.percpu_pagelist_high_fraction, 0: by watermark */
	int node_parts;                /* nodes made of each node of the tape; 0 is 1 */
	int zone_parts;                /* most parts of a zone; 0 is 1 */
	/* [nr_cpus] which of the nodes made of its own a CPU prefers; NULL: by its number */
	const uint16_t *cpu_parts;
};

/*
 * A model of `machine` in which every page is FRAME_OLD and every pageblock MOVABLE;
 * PCPs are empty and sized by the kernel's own formulas. -EINVAL, -E2BIG or -ENOMEM.
 */
int model_new(struct model **out, const struct kernel *kernel, const struct machine *machine,
	      const struct zone_spec *zones, int nr_zones, struct error *err);
void model_free(struct model *m);

/* NULL, or what is wrong: every rule the comments above promise. Slow. */
const char *model_check(const struct model *m);

static inline bool zone_has(const struct zone *zone, uint64_t pfn)
{
	return pfn - zone->start_pfn < zone->end - zone->start;
}

/* The zone of a pfn, or NULL. */
static inline const struct zone *pfn_zone(const struct model *m, uint64_t pfn)
{
	for (int i = m->nr_zones - 1; i >= 0; i--)
		if (zone_has(&m->zones[i], pfn))
			return &m->zones[i];
	return NULL;
}

/* The frame of a pfn, or NO_FRAME. */
static inline uint32_t pfn_frame(const struct model *m, uint64_t pfn)
{
	const struct zone *zone = pfn_zone(m, pfn);

	return zone ? zone->base + (uint32_t)(pfn - zone->base_pfn) : NO_FRAME;
}

static inline struct pageblock *frame_block(const struct model *m, uint32_t frame)
{
	return &m->blocks[frame >> m->pageblock_order];
}

static inline struct zone *frame_zone(const struct model *m, uint32_t frame)
{
	return &m->zones[frame_block(m, frame)->zone];
}

static inline uint64_t frame_pfn(const struct model *m, uint32_t frame)
{
	const struct zone *zone = frame_zone(m, frame);

	return zone->base_pfn + (frame - zone->base);
}

/* The node of the tape that a node of the model is, or is made of. */
static inline int tape_node(const struct model *m, int node)
{
	return node / m->node_parts;
}

/*
 * Whether a request passes a zone over at first because it is to be written to, and the node
 * has all the dirty pages that it may (__GFP_WRITE and node_dirty_ok, 3.3 to 6.18).
 */
static inline bool dirty_node(const struct model *m, const struct zone *zone, uint32_t gfp_flags)
{
	return m->dirty_nodes && gfp_flags & GFP_WRITE &&
	       m->dirty_nodes >> (tape_node(m, zone->node) & 63) & 1;
}

/* The distance class of another node. */
static inline int distance_class(const struct model *m, int from, int to)
{
	return m->distance_classes[from * m->nr_nodes + to];
}

static inline struct pcp *zone_pcp(const struct model *m, const struct zone *zone, int cpu)
{
	return &m->pcps[zone->pcps + (uint32_t)cpu];
}

static inline struct counters *zone_counters(const struct model *m, const struct zone *zone)
{
	return &zone_pcp(m, zone, m->now.cpu)->counters;
}

/* Whether a block of this state is in the nr_live of its pageblock. */
static inline bool frame_is_live(enum frame_state state)
{
	return state >= FRAME_USED_UNMOVABLE && state <= FRAME_USED_RECLAIMABLE;
}

/* Whether the pageblock is of memory that the kernel has initialised. */
static inline bool block_exists(const struct model *m, const struct pageblock *block)
{
	return !m->blocks_known || block->known || block->nr_old < 1u << m->pageblock_order;
}

/* Where a search for the head of `frame`'s block ends: the head. */
uint32_t block_head(const struct model *m, uint32_t frame);

/*
 * Split the used block around [head, head + 2^order) until that is a block of its own:
 * the kernel's split_page and partial frees. False if it spans several blocks.
 */
bool block_split(struct model *m, uint32_t head, int order);

static inline bool block_carve(struct model *m, uint32_t head, int order)
{
	const struct frame *f = &m->frames[head];
	bool used = f->state == FRAME_USED || frame_is_live(f->state);

	return (used && f->order == order) || block_split(m, head, order);
}

/* Make 2^order frames from `head` on one block in `state`. */
static inline void block_set(struct model *m, uint32_t head, int order, enum frame_state state)
{
	for (uint32_t i = 1; i < 1u << order; i++)
		m->frames[head + i].state = FRAME_TAIL;
	m->frames[head].order = (uint8_t)order;
	m->frames[head].state = state;
}
