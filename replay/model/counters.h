/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.h - the model's counters of one CPU in one zone, per interval.
 *
 * schemas/counter.toml documents each counter and its unit.
 */
#pragma once

#include <stdint.h>

/*
 * Every counter: a column of the table `counter`, from `allocs` on. Columns after the first
 * group are nullable, because older tapes lack them.
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
	X(sleeping_orders)                                                                         \
	X(sleeping_orders_reserve)                                                                 \
	X(sleeping_orders_failed)                                                                  \
	X(alloc_batches)                                                                           \
	X(alloc_batch_waste)                                                                       \
	X(alloc_batch_split)                                                                       \
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

/* Null in a run without feedback (R0). */
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
	X(stall_us)                                                                                \
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
