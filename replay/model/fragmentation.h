/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fragmentation.h - how fragmented a zone is, and whether compaction would help.
 *
 * From mm/vmstat.c and mm/compaction.c of 6.18, with the same truncation of integers.
 */
#pragma once

#include "zone.h"

enum { EXTFRAG_THRESHOLD = 500 }; /* vm.extfrag_threshold */

/* __fragmentation_index: 0 for lack of memory to 1000 for fragmentation, -1000 if none. */
int64_t fragmentation_index(const struct model *m, const struct zone *zone, int order);

/*
 * compact_gap: free pages above the mark that compaction needs for its targets. Twice the order's,
 * since 7.2 at most 32.
 */
int64_t compact_gap(const struct model *m, int order);

/*
 * Whether a zone with `nr_free` free pages has, above a watermark, the targets that compaction for
 * an order needs (__compaction_suitable, 6.12).
 */
bool has_compact_gap(const struct model *m, const struct zone *zone, uint64_t nr_free, int order,
		     int class_zone, int wmark);

/* fragmentation_score_zone: the share of free memory in less than a pageblock, 0 to 100. */
int fragmentation_score_zone(const struct model *m, const struct zone *zone);
/*
 * The score of a zone in a proactive run: 5.10 weighs it by the zone's share of the node's present
 * pages (__compact_finished).
 */
int proactive_score_zone(const struct model *m, const struct zone *zone);
/* fragmentation_score_node: the scores of its zones, weighted by their present pages. */
int fragmentation_score_node(const struct model *m, int node);

/* fragmentation_score_wmark: proactive compaction begins above high and ends at low. */
struct score_marks {
	int low, high;
};
struct score_marks score_marks(const struct kernel *kernel, int proactiveness);

enum compact_caller { COMPACT_BY_KCOMPACTD, COMPACT_BY_REQUEST, COMPACT_BY_REQUEST_ASYNC };

/*
 * compaction_suit_allocation_order: the zone can serve the request as it is, compaction cannot
 * help, or compaction suits. The request's rights and its right to CMA pages count. Under
 * vm.defrag_mode only kcompactd asks for the high watermark in whole pageblocks (7.2).
 */
enum compact_suits { COMPACT_SERVES, COMPACT_CANNOT, COMPACT_SUITS };
enum compact_suits compact_suits(const struct model *m, const struct zone *zone,
				 const struct request *rq, enum compact_caller caller);

/*
 * compaction_ready: direct reclaim for this order leaves the zone as it is, because compaction can
 * have it (6.12, 7.2).
 */
bool compact_ready(const struct model *m, const struct zone *zone, int order, int class_zone);
