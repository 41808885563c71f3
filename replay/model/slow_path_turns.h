/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_path_turns.h - the turns of a request in the slow path of a run with feedback.
 *
 * In each turn the request reclaims, compacts and scans the zones, until it has a page or gives up.
 * A costly order, or an order above 0 that is not MOVABLE, compacts before its first reclaim. From
 * __alloc_pages_slowpath, should_reclaim_retry and should_compact_retry of 6.12, 7.2 and 7.3.
 */
#pragma once

#include "zonelist_scan.h"

/*
 * The order of a request's reclaim and compaction. Under vm.defrag_mode a request that is not
 * MOVABLE and may not mix goes for a whole pageblock, even at order 0
 * (__alloc_pages_direct_reclaim and __alloc_pages_direct_compact, 7.2).
 */
int promoted_order(const struct model *m, const struct request *rq);

/*
 * Run the turns of a request whose scan at the min watermark failed. Returns a frame, or NO_FRAME
 * for a request that may not reclaim or whose turns are over.
 */
frame_nr slow_path_turns(struct model *m, struct request *rq, struct zonelist_scan *scan);
