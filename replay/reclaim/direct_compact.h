/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct_compact.h - compaction by an allocation (try_to_compact_pages, 4.20 to 6.18).
 */
#pragma once

#include "reclaim_parts.h"

#include "model/reclaim_ops.h"
#include "model/zonelist.h"

/*
 * Compact the zones of a zonelist for an order, one after the other, at a COMPACT_PRIO_*, until one
 * has a block for the request. The result is that of the zone that got furthest.
 */
enum compact_result direct_compact(const struct reclaim_parts *parts, const struct zonelist *list,
				   const struct request *rq, int order, int priority);
