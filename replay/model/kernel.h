/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - a kernel version is data.
 *
 * One row per kernel whose page allocator was read function by function. The model tests features
 * of the row, never a version: stable trees receive allocator rewrites (6.12.19 and 6.12.117 differ
 * as much as 6.8 and 6.15).
 */
#pragma once

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each list names the values of a feature: X(enum constant, word shown to people). */
#define PCP_LISTS(X)                                                                               \
	X(PCP_LISTS_1, "1")   /* one mixed list */                                                 \
	X(PCP_LISTS_3, "3")   /* one per migratetype, order 0 only */                              \
	X(PCP_LISTS_15, "15") /* orders 0..3 and THP, each per migratetype */                      \
	X(PCP_LISTS_13, "13") /* as 15, but one list for all THP */                                \
	X(PCP_LISTS_14, "14") /* as 13, but MOVABLE THP have a list of their own */

#define DRAIN_RULES(X)                                                                             \
	X(DRAIN_TAIL_OF_ONE, "tail of one")                                                        \
	X(DRAIN_ROUND_ROBIN, "round robin")                                                        \
	X(DRAIN_ROUND_ROBIN_ALL, "round robin, last list takes all")                               \
	X(DRAIN_FROM_INDEX, "from the list just pushed to")

#define DRAINED_TYPES(X)                                                                           \
	X(DRAINED_INDEX, "of the PCP list")                                                        \
	X(DRAINED_RECORDED, "recorded when freed or refilled")                                     \
	X(DRAINED_BLOCK, "of the pageblock")

#define MERGES(X)                                                                                  \
	X(MERGE_ANY, "any types")                                                                  \
	X(MERGE_ISOLATE_APART, "ISOLATE stays apart from pageblock order")                         \
	X(MERGE_MERGEABLE, "only U, M and R from pageblock order")                                 \
	X(MERGE_RETYPE_FIRST, "only U, M and R; retypes the buddy's first block")                  \
	X(MERGE_RETYPE, "only U, M and R; retypes the buddy's blocks")

#define BOOSTS(X)                                                                                  \
	X(BOOST_NONE, "none")                                                                      \
	X(BOOST_ANY_ZONE, "any zone")                                                              \
	X(BOOST_LARGE_ZONE, "zones of at least 4 pageblocks")

#define BOOST_TRIGGERS(X)                                                                          \
	X(BOOST_EVERY_FALLBACK, "every fallback below pageblock order")                            \
	X(BOOST_CLAIM_ATTEMPT, "every attempt to claim a pageblock")

#define NOFRAGMENTS(X)                                                                             \
	X(NOFRAGMENT_NONE, "none")                                                                 \
	X(NOFRAGMENT_NEVER_SET, "tested but never set")                                            \
	X(NOFRAGMENT_LOWZONE, "first pass, where a lower zone can serve")

#define FALLBACKS(X)                                                                               \
	X(FALLBACK_REMAINDERS_OLD, "largest; remainders keep their type")                          \
	X(FALLBACK_MOVE, "largest; moved to the asked list, then split")                           \
	X(FALLBACK_CLAIM_OR_SPLIT, "largest; claimed or split in place")                           \
	X(FALLBACK_CLAIM_THEN_STEAL, "claim the largest, else steal the smallest")

#define PCP_TUNINGS(X)                                                                             \
	X(PCP_FIXED, "fixed")                                                                      \
	X(PCP_FREE_FACTOR, "free_factor")                                                          \
	X(PCP_AUTO, "auto")

#define FREE_HIGHS(X)                                                                              \
	X(FREE_HIGH_NONE, "none")                                                                  \
	X(FREE_HIGH_FACTOR, "free_factor above 0")                                                 \
	X(FREE_HIGH_BATCH, "free_count of batch")                                                  \
	X(FREE_HIGH_HALF_MIN, "free_count of batch + high_min / 2")

#define ZONE_LOCKED_EVENTS(X)                                                                      \
	X(ZONE_LOCKED_ALWAYS, "asked type, also when nothing was found")                           \
	X(ZONE_LOCKED_WITH_PAGE, "asked type")                                                     \
	X(ZONE_LOCKED_LIST, "type of the list")

#define WATERMARKS(X)                                                                              \
	X(WATERMARK_PER_ORDER, "halved per order")                                                 \
	X(WATERMARK_HARDER, "HIGH and HARDER")                                                     \
	X(WATERMARK_GRADED, "MIN_RESERVE, NON_BLOCK; less reserved highatomic")                    \
	X(WATERMARK_GRADED_FREE, "MIN_RESERVE, NON_BLOCK; less free highatomic")

#define HIGHATOMICS(X)                                                                             \
	X(HIGHATOMIC_NONE, "none")                                                                 \
	X(HIGHATOMIC_PERCENT_MORE, "1 % and a block more")                                         \
	X(HIGHATOMIC_PERCENT, "1 %, in whole blocks")

#define RESERVE_PCPS(X)                                                                            \
	X(RESERVE_PCP_MOVABLE, "among the MOVABLE ones")                                           \
	X(RESERVE_PCP_PAST, "past the PCP")                                                        \
	X(RESERVE_PCP_OWN, "on a list of its own, for all")                                        \
	X(RESERVE_PCP_OWN_MOVABLE, "on a list of its own, for MOVABLE")

#define DECAYS(X)                                                                                  \
	X(DECAY_NONE, "none")                                                                      \
	X(DECAY_AT_ONCE, "at once")                                                                \
	X(DECAY_PIECES, "in pieces of batch")

#define CAPTURES(X)                                                                                \
	X(CAPTURE_NONE, "none")                                                                    \
	X(CAPTURE_SILENT, "without an event")                                                      \
	X(CAPTURE_TRACED, "with mm_page_alloc_extfrag if the types differ")

#define KSWAPD_SLEEPS(X)                                                                           \
	X(KSWAPD_V4_10, "every zone balanced; forgets the zone index")                             \
	X(KSWAPD_FIXCHECK, "a zone balanced; forgets the zone index, clears congestion early")     \
	X(KSWAPD_CLEAR, "a zone balanced; forgets the zone index")                                 \
	X(KSWAPD_KEEPAWAKE, "a zone balanced; keeps the zone index")

#define PROACTIVES(X)                                                                              \
	X(PROACTIVE_NONE, "never")                                                                 \
	X(PROACTIVE_FROM_5, "until a score of 100 - proactiveness, at least 5; from 10 above")     \
	X(PROACTIVE_LEEWAY, "until a score of 100 - proactiveness; from 10, or half of that, "     \
			    "above")

#define UNBOOSTED_RIGHTS(X)                                                                        \
	X(UNBOOSTED_NONE, "none")                                                                  \
	X(UNBOOSTED_ATOMIC, "__GFP_ATOMIC")                                                        \
	X(UNBOOSTED_HIGH, "__GFP_HIGH")

#define HIGHATOMIC_RESERVES(X)                                                                     \
	X(HIGHATOMIC_RESERVE_ANY, "of every page of a request with the right")                     \
	X(HIGHATOMIC_RESERVE_BUDDY, "of a page that came past the PCP")                            \
	X(HIGHATOMIC_RESERVE_BUDDY_MIN, "of a page that came past the PCP, at the min watermark")

#define KSWAPD_HOPELESS(X)                                                                         \
	X(KSWAPD_HOPELESS_PROGRESS, "reclaim of a page")                                           \
	X(KSWAPD_HOPELESS_BALANCED, "a balanced node")                                             \
	X(KSWAPD_HOPELESS_BOOSTLESS, "a balanced node; passes for a boost do not count")

#define DEFRAG_PROMOTES(X)                                                                         \
	X(DEFRAG_PROMOTES_NEVER, "never")                                                          \
	X(DEFRAG_PROMOTES_WORK, "reclaim and compaction")                                          \
	X(DEFRAG_PROMOTES_TURNS, "reclaim and compaction, and their turns")

#define YES_NO(X) X(false, "no") X(true, "yes")

#define CONSTANT(constant, word) constant,
#define ENUMERATE(name, LIST)    enum kernel_##name{LIST(CONSTANT)};
ENUMERATE(pcp_lists, PCP_LISTS)
ENUMERATE(drain_rule, DRAIN_RULES)
ENUMERATE(drained_type, DRAINED_TYPES)
ENUMERATE(merge, MERGES)
ENUMERATE(boost, BOOSTS)
ENUMERATE(boost_trigger, BOOST_TRIGGERS)
ENUMERATE(nofragment, NOFRAGMENTS)
ENUMERATE(fallback, FALLBACKS)
ENUMERATE(pcp_tuning, PCP_TUNINGS)
ENUMERATE(free_high, FREE_HIGHS)
ENUMERATE(zone_locked, ZONE_LOCKED_EVENTS)
ENUMERATE(watermark, WATERMARKS)
ENUMERATE(highatomic, HIGHATOMICS)
ENUMERATE(reserve_pcp, RESERVE_PCPS)
ENUMERATE(decay, DECAYS)
ENUMERATE(capture, CAPTURES)
ENUMERATE(kswapd_sleep, KSWAPD_SLEEPS)
ENUMERATE(proactive, PROACTIVES)
ENUMERATE(unboosted_right, UNBOOSTED_RIGHTS)
ENUMERATE(highatomic_reserve, HIGHATOMIC_RESERVES)
ENUMERATE(kswapd_hopeless, KSWAPD_HOPELESS)
ENUMERATE(defrag_promotes, DEFRAG_PROMOTES)
#undef ENUMERATE
#undef CONSTANT

/* Every feature, once: X(field, its values or NUMBER, one sentence). */
#define FOR_EACH_FEATURE(X)                                                                        \
	X(pcp_lists, PCP_LISTS, "Lists of one PCP.")                                               \
	X(drain_rule, DRAIN_RULES, "Order in which a PCP is drained.")                             \
	X(drained_type, DRAINED_TYPES, "Migratetype a drained page is freed to.")                  \
	X(reclaimable_first, YES_NO, "PCP lists stand in the old order: U, R, M.")                 \
	X(tail_on_likely_merge, YES_NO, "A free page whose next merge is near goes to the tail.")  \
	X(move_block_to_tail, YES_NO, "A moved block's free pages go to the tail.")                \
	X(merge, MERGES, "Which free pages merge.")                                                \
	X(free_by_block, YES_NO, "A free above pageblock order is split into its blocks.")         \
	X(nofragment, NOFRAGMENTS, "ALLOC_NOFRAGMENT.")                                            \
	X(nofragment_any_order, YES_NO, "It also binds requests of pageblock order and above.")    \
	X(boost, BOOSTS, "Zones whose watermark a fallback boosts.")                               \
	X(boost_trigger, BOOST_TRIGGERS, "What boosts it.")                                        \
	X(boost_wakes_all, YES_NO, "A boost wakes kswapd for requests without that right, too.")   \
	X(fallback, FALLBACKS, "What an allocation does when its own lists are empty.")            \
	X(fallback_claims_unmovable, YES_NO, "UNMOVABLE requests may claim at any order.")         \
	X(retype_whole_chunk, YES_NO, "A fallback above pageblock order retypes every block.")     \
	X(reserve_blocks, YES_NO, "MIGRATE_RESERVE: the last resort of every type.")               \
	X(reserve_pcp, RESERVE_PCPS, "Where a freed page of it goes.")                             \
	X(reserve_leaks, YES_NO, "Drained from among the MOVABLE ones it becomes one.")            \
	X(refill_as_asked, YES_NO, "A refilled page counts as of the asked type, unless used.")    \
	X(small_batch, YES_NO, "A PCP's batch covers 512 KiB at most, not 1 MiB.")                 \
	X(cma_balance, YES_NO, "MOVABLE takes CMA first while most free pages are CMA.")           \
	X(cold_pages, YES_NO, "__GFP_COLD requests take the tail of a PCP list.")                  \
	X(pcp_tuning, PCP_TUNINGS, "How refills and drains size themselves.")                      \
	X(free_factor_max, NUMBER, "Largest free_factor; 0 is no limit.")                          \
	X(pcp_scale_max, NUMBER, "Largest move of an auto-tuned PCP: batch times 2 to this.")      \
	X(free_high, FREE_HIGHS, "When a run of high-order frees drains the PCP.")                 \
	X(pcp_miss_to_buddy, YES_NO, "A PCP that stays empty sends the request to the buddy.")     \
	X(zone_locked, ZONE_LOCKED_EVENTS, "mm_page_alloc_zone_locked fires with which type.")     \
	X(percpu_refill, YES_NO, "That event has a percpu_refill field.")                          \
	X(watermark, WATERMARKS, "Rights below the watermark.")                                    \
	X(unboosted_right, UNBOOSTED_RIGHTS, "Requests of order 0 that may ignore the boost.")     \
	X(fast_counts_highatomic, YES_NO, "The quick test leaves the reserve out of free pages.")  \
	X(highatomic, HIGHATOMICS, "Size of the HIGHATOMIC reserve.")                              \
	X(highatomic_last, YES_NO, "NON_BLOCK requests may take HIGHATOMIC pages last.")           \
	X(highatomic_needs_high, YES_NO, "Only __GFP_HIGH requests may take HIGHATOMIC pages.")    \
	X(highatomic_whole_chunk, YES_NO, "Chunks above pageblock order are reserved whole.")      \
	X(highatomic_reserve, HIGHATOMIC_RESERVES, "Whose pageblock is reserved.")                 \
	X(highatomic_refills, YES_NO, "Requests with the right to the reserve refill a PCP.")      \
	X(highatomic_first, YES_NO, "The first scan of a request grants that right too.")          \
	X(below_high, YES_NO, "Allocations mark zones below their high watermark.")                \
	X(overflow_pieces, YES_NO, "An overflow drains in pieces of batch.")                       \
	X(coalesced_frees, YES_NO, "Contiguous pages of one free go to the lists as blocks.")      \
	X(decay, DECAYS, "How the vmstat tick lets a PCP shrink.")                                 \
	X(drain_all_pieces, YES_NO, "drain_all goes in pieces.")                                   \
	X(drain_all_remote, YES_NO, "drain_all runs on the CPU that asks for it.")                 \
	X(capture, CAPTURES, "A compacting request takes a chunk as it is freed.")                 \
	X(capture_movable, YES_NO, "MOVABLE requests may take a small MOVABLE chunk so.")          \
	X(kswapd_sleep, KSWAPD_SLEEPS, "When kswapd may sleep, and for which zones it wakes.")     \
	X(kcompactd_by_callers, YES_NO, "Requests that need no kswapd wake kcompactd themselves.") \
	X(kswapd_hopeless, KSWAPD_HOPELESS, "What makes a node's kswapd forget its failures.")     \
	X(skip_awake_nodes, YES_NO, "A first scan passes over nodes whose kswapd is awake.")       \
	X(node_reclaim_whole, YES_NO,                                                              \
	  "zone_reclaim_mode needs the rights to write and unmap on the multi-generational LRU.")  \
	X(compacts, YES_NO, "Requests compact, and so does kcompactd.")                            \
	X(compact_folios, YES_NO, "Compaction moves blocks below its order, too.")                 \
	X(compact_turn, YES_NO,                                                                    \
	  "Compaction before reclaim is a turn of its own, after any result.")                     \
	X(defrag_promotes, DEFRAG_PROMOTES,                                                        \
	  "With defrag_mode, this goes for whole pageblocks if a small request cannot move.")      \
	X(compact_cma_right, YES_NO, "A request's compaction leaves CMA blocks it cannot use.")    \
	X(compact_own_gap, YES_NO,                                                                 \
	  "Costly asynchronous compaction needs its gap without CMA, unless it may use CMA.")      \
	X(compact_ready_high, YES_NO,                                                              \
	  "Direct reclaim leaves a zone to compaction that has the whole gap above high.")         \
	X(compact_gap_max, NUMBER, "Most pages of the gap that compaction needs; 0 is no limit.")  \
	X(counts_each_page, YES_NO, "A refill's pages leave the zone's count one by one.")         \
	X(whole_blocks, YES_NO, "kswapd and kcompactd count only whole free pageblocks.")          \
	X(proactive, PROACTIVES, "When kcompactd compacts though nobody woke it.")                 \
	X(proactive_weighed, YES_NO, "A zone's score there counts by its share of the node.")      \
	X(proactive_pauses, YES_NO,                                                                \
	  "After proactive compaction in vain kcompactd sleeps for 32 s, unless it is woken.")

/*
 * The features that reclaim, compaction, or the requests that wait for them go by. Two rows that
 * differ in one of them differ through the memory that is freed, not only in where pages lie.
 */
#define FOR_EACH_RECLAIM_FEATURE(X)                                                                \
	X(boost)                                                                                   \
	X(boost_trigger)                                                                           \
	X(boost_wakes_all)                                                                         \
	X(unboosted_right)                                                                         \
	X(kswapd_sleep)                                                                            \
	X(kcompactd_by_callers)                                                                    \
	X(kswapd_hopeless)                                                                         \
	X(node_reclaim_whole)                                                                      \
	X(compacts)                                                                                \
	X(compact_folios)                                                                          \
	X(compact_turn)                                                                            \
	X(compact_cma_right)                                                                       \
	X(compact_own_gap)                                                                         \
	X(compact_ready_high)                                                                      \
	X(compact_gap_max)                                                                         \
	X(whole_blocks)                                                                            \
	X(proactive)                                                                               \
	X(proactive_weighed)                                                                       \
	X(proactive_pauses)

struct kernel {
	const char *name;
	const char *doc;
#define FIELD(feature, values, sentence) uint8_t feature;
	FOR_EACH_FEATURE(FIELD)
#undef FIELD
};

/* A feature in words, for `pagetape policies`. */
struct feature {
	const char *name;
	const char *doc;
	size_t offset;                /* of its uint8_t in struct kernel */
	const char *const *words;     /* by value, ends with NULL; none for a number */
	const char *const *constants; /* the names of the values, as in this header */
};

enum { NR_KERNELS = 22 };

extern const struct kernel kernels[];    /* oldest row first, ends with a NULL name */
extern const char *const kernel_names[]; /* of the same rows; ends with NULL */
extern const struct feature features[];  /* ends with a NULL name */

/* The row of that name, or -ENOENT with a list of the names. */
int kernel_find(const struct kernel **out, const char *name, struct error *err);

/* Whether two rows have the same rules; the same rules of reclaim and compaction. */
bool kernel_rules_same(const struct kernel *one, const struct kernel *other);
bool kernel_reclaim_same(const struct kernel *one, const struct kernel *other);

/*
 * The row for a kernel's release, such as "6.12.117+deb12-cloud-amd64". A release between two rows
 * gets the row whose features it has; a release newer than all rows gets the newest row. -ENOENT
 * for a string that is not a release, or a release older than every row.
 */
int kernel_for_release(const struct kernel **out, const char *release, struct error *err);
