/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - the state of the page allocator.
 *
 *   frame      one page frame, 12 bytes. A block of 2^order pages is one head frame
 *              with that order and 2^order - 1 tail frames.
 *   pageblock  migratetype and zone of 2^pageblock_order frames
 *   pcp        the page lists of one CPU in one zone
 *   zone       free lists, counters and watermarks of one zone of one node
 *
 * A frame's number is its index in model->frames. Every zone begins at a multiple of 2^max_order
 * frames and is padded to one, so the kernel's pfn arithmetic works on frame numbers and no block
 * is in two zones. The padding stays used. frame_pfn() and pfn_frame() translate. List heads are
 * frames as well, after the last page.
 *
 * Facts about the record that the model needs are in record_facts.h.
 *
 * model_new() allocates all memory; nothing is allocated while events run.
 *
 * Invariants. model_check() (model_check.h) verifies each and reports it by name.
 *
 * of a zone, over the blocks in [base, end):
 *   tiles               end - base == sum of 1 << head.order: blocks tile the zone;
 *                       order <= max_order, head % (1 << order) == 0, the others are tails
 *   old_order           state == FRAME_OLD: order == 0
 *   merged              state == FRAME_FREE, order < pageblock_order: the buddy is no free block
 *                       of that order
 *   free_type           state == FRAME_FREE, kernel->drained_type == DRAINED_BLOCK: list ==
 *                       pageblock.migratetype (if kernel->reserve_leaks, RESERVE differs)
 *   free_list           on list (order, type): state == FRAME_FREE, the frame's order and list
 *                       are these, frames[next].prev is the frame
 *   nr_free             nr_free[order][type] == blocks on list (order, type)
 *   nr_free_pages       == sum over orders, types of nr_free << order == pages in FRAME_FREE blocks
 *   nr_free_cma         == sum over orders of nr_free[order][CMA] << order
 *   nr_free_highatomic  == sum over orders of nr_free[order][HIGHATOMIC] << order
 *   pcp_list            on a list of a PCP: state == FRAME_PCP, list == pcp.number,
 *                       zone == pcp.zone, frames[next].prev is the frame
 *   pcp_count           pcp.count == pages on its lists;
 *                       sum over CPUs of pcp.count == pages in FRAME_PCP blocks
 *   vmstat_diff         == sum over CPUs of pcp.vmstat_diff; cma_diff in the same way
 *
 * of a pageblock:
 *   nr_old              == its FRAME_OLD frames
 *   old_lru             <= nr_old
 *   nr_live             nr_live[type] == its frames in blocks of state FRAME_USED_(type)
 */
#pragma once

#include "counters.h"
#include "events.h"
#include "kernel.h"
#include "record_facts.h"
#include "tables.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	/* Largest that a model may have: 13 on arm64 with 64 KiB pages, 10 on x86-64. */
	MAX_PAGE_ORDER = 13,
	NR_PAGE_ORDERS = MAX_PAGE_ORDER + 1,
	PCP_MAX_ORDER = 3,  /* orders 0..3 and THP go through the PCP: PAGE_ALLOC_COSTLY_ORDER */
	PCP_SCALE_MOST = 6, /* largest CONFIG_PCP_BATCH_SCALE_MAX */
	MAX_PCP_LISTS = 16,
	NO_PCP_LIST = UINT8_MAX,
	NO_FRAME = UINT32_MAX,
};

/*
 * Numbers of pages and of lists. They share one space, since the frames of a list point to its head
 * as to a frame: a head's number is not below nr_frames.
 */
typedef uint32_t frame_nr; /* of a page, or NO_FRAME */
typedef uint32_t list_nr;  /* of the head of a list */

/* The low 32 bits of the number of a row of `event`: row_of() gives all of them. */
typedef uint32_t low_row;

enum frame_state {
	FRAME_OLD,  /* head: used since before the start of the tape, order 0; in nr_old */
	FRAME_USED, /* head: used, not counted in its pageblock */
	/* head: allocated on the tape by a request of that migratetype; in nr_live */
	FRAME_USED_UNMOVABLE,
	FRAME_USED_MOVABLE,
	FRAME_USED_RECLAIMABLE,
	FRAME_FREE, /* head: on a free list */
	FRAME_PCP,  /* head: on a PCP list */
	FRAME_TAIL,
};

struct frame {
	uint32_t next, prev; /* a frame_nr, or at an end of the list its list_nr */
	uint16_t list; /* FREE: migratetype of its list; PCP: pcp.number; used: AWAITS_ALLOC ... */
	uint8_t order; /* of a head */
	uint8_t state : 4;
	uint8_t pcp_migratetype : 4; /* PCP: migratetype that the page drains to, up to 6.8 */
};
_Static_assert(sizeof(struct frame) == 12, "12 bytes; with the 4 of page_map.h 16 per page");

/*
 * frame.list of a used page: why it is used. 0: the usual case. Of a NO_ALLOC page, frame.next is
 * the number of the pending miss that waits for it, or NO_FRAME. Of an ISOLATED page that recorded
 * compaction took, frame.next is the number of the run, and frame.prev the order of its free chunk.
 */
enum {
	AWAITS_ALLOC = UINT16_MAX, /* taken before its alloc event, which may still come */
	AWAITS_ALLOC_MISSED = UINT16_MAX - 1, /* the same, but the model predicted another page */
	NO_ALLOC = UINT16_MAX - 2,            /* it left a PCP list without an event */
	ISOLATED = UINT16_MAX - 3,            /* compaction took it off a free list */
};

struct pageblock {
	uint8_t migratetype;
	uint8_t zone;
	/* used pages allocated on the tape by UNMOVABLE, MOVABLE and RECLAIMABLE requests */
	uint16_t nr_live[MIGRATETYPE_RECLAIMABLE + 1];
	uint16_t nr_old;      /* pages used since before the start */
	uint16_t old_movable; /* of nr_old: pages on an LRU list, recorded or guessed */
	uint16_t old_lru;     /* of old_movable: pages that the snapshot recorded there */
	bool known;           /* the snapshot has a row of the pageblock */
	bool lru_known;       /* the row has the number of its pages on LRU lists */
};

enum { PCP_PREV_FREE_HIGH_ORDER = 1, PCP_FREE_HIGH_BATCH = 2 }; /* PCPF_*, 6.8 */

struct pcp {
	list_nr heads; /* frame number of the head of list 0 */
	int32_t count; /* pages */
	int32_t high, high_min, high_max;
	int32_t batch;
	int32_t free_count;
	int32_t put_off; /* pages of an overflow's drain, which may wait for the zone's lock */
	int32_t put_off_piece; /* pages of it under one hold of the lock */
	uint8_t alloc_factor, free_factor, flags;
	uint8_t put_off_list; /* list where that drain begins */
	uint8_t expire;       /* ticks until a remote PCP is drained */
	bool touched;         /* its CPU changed the zone's counters since the last tick */
	int8_t vmstat_diff;   /* free pages not yet in the zone's counter: vmstat_diff.h */
	int8_t cma_diff;      /* the same for free CMA pages */
	uint16_t number;      /* in model->pcps */
	uint16_t cpu;
	uint16_t zone;
	struct counters counters; /* of the running interval */
};

static inline bool pcp_limits_same(const struct pcp *one, const struct pcp *other)
{
	return one->batch == other->batch && one->high == other->high &&
	       one->high_min == other->high_min && one->high_max == other->high_max;
}

enum { WMARK_MIN, WMARK_LOW, WMARK_HIGH, NR_WMARK };

struct zone {
	uint16_t number; /* in model->zones */
	uint16_t node;
	uint16_t part; /* part of a cut zone; CPU c first tries part c mod zone_parts */
	uint8_t type;  /* ZONE_DMA ... */
	uint64_t owed; /* pages that reclaim owes to it: owed.h */
	bool below_high, reclaim_active, boosted_watermark; /* ZONE_BELOW_HIGH, ... of the kernel */
	bool nofragment_applies; /* of ALLOC_NOFRAGMENT: NORMAL, with a DMA32 zone below */
	frame_nr base;           /* frame of base_pfn, a multiple of 2^max_order */
	frame_nr start, end;     /* frames of the first page and after the last */
	list_nr heads;           /* frame number of the head of list (order 0, migratetype 0) */
	uint32_t pcps;           /* number of CPU 0's PCP */
	uint64_t base_pfn, start_pfn;
	uint64_t nr_free_pages, nr_free_cma, nr_free_highatomic, nr_reserved_highatomic;
	int32_t vmstat_diff, cma_diff, stat_threshold;
	int32_t stat_thresholds[2]; /* while kswapd sleeps, and while it is awake */
	uint32_t nr_free[NR_PAGE_ORDERS][NR_MIGRATETYPE];
	uint64_t present, managed;
	int64_t wmark[NR_WMARK];
	uint64_t wmark_promo; /* 0 if unknown */
	int64_t lowmem_reserve[NR_ZONE];
	int64_t boost;       /* pages added to every watermark */
	bool boost_full;     /* the boost is at its limit */
	uint64_t boosted_at; /* ns; its boosted time is counted up to here */
	int64_t boost_seen;  /* part of boost, in pages, that the running pass of kswapd removes */
	uint64_t pcp_unseen; /* pages on PCPs at the start whose pfn the snapshot lacks */
	bool guessed;        /* its free blocks at the start come from kpageflags */
};

/* Zones in the order a request tries them. */
struct zonelist {
	int nr;
	struct zone **zones;
};

/* Bits of vm.zone_reclaim_mode; each of them turns it on. */
enum { ZONE_RECLAIM_WRITE = 2, ZONE_RECLAIM_UNMAP = 4, ZONE_RECLAIM_BITS = 7 };
enum { RECLAIM_DISTANCE = 30 };

/* Reclaim on near nodes before a request tries the next node. */
struct zone_reclaim {
	int mode;     /* vm.zone_reclaim_mode; 0: off */
	int distance; /* of the nodes, at most */
};

struct policy_stack;
struct flips;
struct zone_lock_ops;
struct reclaim_ops;
struct arrays;

struct model {
	const struct kernel *kernel;
	struct policy_stack *policies;
	int pageblock_order, max_order;
	uint32_t page_bytes;
	int nr_zones, nr_cpus, nr_nodes, nr_pcp_lists;
	int node_parts, zone_parts; /* see machine.h */
	uint32_t nr_frames;         /* without list heads */
	struct frame *frames;
	struct pageblock *blocks;
	bool blocks_known; /* the snapshot has rows of pageblocks */
	struct zone *zones;
	struct pcp *pcps; /* [zone][cpu] */
	/* Number of the PCP list of an order and migratetype, or NO_PCP_LIST. */
	uint8_t pcp_lists[NR_PAGE_ORDERS][NR_MIGRATETYPE];
	const uint16_t *cpu_nodes; /* [cpu] */
	/* [node][node] number of shorter different distances; 0 for the node itself */
	uint8_t *distance_classes;
	const uint8_t *node_distances;    /* [node][node] of the machine */
	int proactiveness;                /* vm.compaction_proactiveness */
	struct zone_reclaim zone_reclaim; /* before a request tries the next node */
	struct zonelist *fallback;   /* [node][part of the CPU] every zone, nearest node first */
	struct zonelist *thisnode;   /* [node][part of the CPU] */
	bool tiers;                  /* memory tiering: kswapd keeps room for promoted pages */
	struct moment now;           /* of the event being replayed */
	struct record_facts *record; /* of the run; set before the first event */
	bool has_highmem;            /* one of its zones is HighMem */
	struct events *events;       /* receives the model's own events; NULL: none */
	struct flips *flips; /* decisions that the run takes otherwise (flips.h); NULL: none */
	const struct zone_lock_ops *zone_lock_ops; /* NULL: zone locks are not modelled */
	uint64_t owed;                             /* of all zones */
	uint64_t advances; /* counted requests before their recorded reclaim: slow_path.h */
	const struct reclaim_ops *reclaim_ops; /* NULL: reclaim follows the record */
	struct arrays *arrays; /* of the model and of all that works on it: memory.h */
};

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

/* The zone of a node and type, or NULL. */
static inline struct zone *zone_by_type(const struct model *m, int node, int type)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node && m->zones[i].type == type)
			return &m->zones[i];
	return NULL;
}

/* The frame of a pfn, or NO_FRAME. */
static inline frame_nr pfn_frame(const struct model *m, uint64_t pfn)
{
	const struct zone *zone = pfn_zone(m, pfn);

	return zone ? zone->base + (frame_nr)(pfn - zone->base_pfn) : NO_FRAME;
}

static inline struct pageblock *frame_block(const struct model *m, frame_nr frame)
{
	return &m->blocks[frame >> m->pageblock_order];
}

static inline struct zone *frame_zone(const struct model *m, frame_nr frame)
{
	return &m->zones[frame_block(m, frame)->zone];
}

static inline uint64_t frame_pfn(const struct model *m, frame_nr frame)
{
	const struct zone *zone = frame_zone(m, frame);

	return zone->base_pfn + (frame - zone->base);
}

/* The node of the tape for a node of the model, which may be a part of it. */
static inline int tape_node(const struct model *m, int node)
{
	return node / m->node_parts;
}

/* Whether the kswapd of a node of the tape has given up before the start. */
static inline bool node_is_hopeless(const struct model *m, int node)
{
	return node < 64 && m->record->hopeless_nodes >> node & 1;
}

/*
 * Whether the first scan of a __GFP_WRITE request skips a zone, because its node is at its limit
 * of dirty pages (node_dirty_ok, 3.3 to 6.18).
 */
static inline bool dirty_node(const struct model *m, const struct zone *zone, uint32_t gfp_flags)
{
	return m->record->dirty_nodes && gfp_flags & GFP_WRITE &&
	       m->record->dirty_nodes >> (tape_node(m, zone->node) & 63) & 1;
}

/* Distance class of a node, seen from another: the number of shorter different distances. */
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

/* Whether a block of this state counts in nr_live of its pageblock. */
static inline bool frame_is_live(enum frame_state state)
{
	return state >= FRAME_USED_UNMOVABLE && state <= FRAME_USED_RECLAIMABLE;
}

/* The migratetype as which the pages of a request count in nr_live. */
static inline int live_type(int migratetype)
{
	return migratetype <= MIGRATETYPE_RECLAIMABLE ? migratetype : MIGRATETYPE_UNMOVABLE;
}

/*
 * One of its old pages is old no longer. Those of LRU lists are freed in batches, or by compaction
 * that moved them (free_unref_folios, migrate_folio_done, 6.18); others are slabs and page tables.
 */
static inline void pageblock_forget_old(struct pageblock *block, bool movable)
{
	movable |= block->migratetype == MIGRATETYPE_MOVABLE;
	block->old_movable -=
		movable ? block->old_movable > 0 : block->old_movable == block->nr_old;
	block->old_lru -= block->old_lru > 0;
	block->nr_old--;
}

/* Whether the kernel has initialised the memory of the pageblock. */
static inline bool block_exists(const struct model *m, const struct pageblock *block)
{
	return !m->blocks_known || block->known || block->nr_old < 1u << m->pageblock_order;
}

/* The head of a frame's block. */
frame_nr block_head(const struct model *m, frame_nr frame);

/*
 * Split the used block around [head, head + 2^order) until the range is a block of its own
 * (split_page, partial frees). False if the range is in several blocks.
 */
bool block_split(struct model *m, frame_nr head, int order);

static inline bool block_carve(struct model *m, frame_nr head, int order)
{
	const struct frame *f = &m->frames[head];
	bool used = f->state == FRAME_USED || frame_is_live(f->state);

	return (used && f->order == order) || block_split(m, head, order);
}

/* Make 2^order frames from `head` on one used block. */
static inline void block_set_used(struct model *m, frame_nr head, int order)
{
	for (uint32_t i = 1; i < 1u << order; i++)
		m->frames[head + i].state = FRAME_TAIL;
	m->frames[head].order = (uint8_t)order;
	m->frames[head].state = FRAME_USED;
}
