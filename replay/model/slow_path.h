/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_path.h - requests after no zone could serve them above its low watermark
 * (__alloc_pages_slowpath).
 */
#pragma once

#include "zonelist_scan.h"

/* ALLOC_* flags of the slow path (gfp_to_alloc_flags). */
uint32_t slow_path_rights(const struct model *m, const struct request *rq);

/*
 * The rights of them that the first scan has, too: to the HIGHATOMIC reserve since 7.3
 * (__alloc_frozen_pages).
 */
uint32_t slow_path_rights_at_once(const struct model *m, const struct request *rq);

/* Whether a request enters the slow path, as far as a node decides: no zone of it is above low. */
bool slow_path_enters(const struct model *m, struct request *rq, int node);

/* Count an entry into the slow path, and wake kswapd. */
void slow_path_start(struct model *m, const struct request *rq, const struct zone *preferred);

/*
 * Run the whole slow path. Returns a frame, or NO_FRAME. `nofragment`: mix only as the last resort.
 */
frame_nr slow_path_alloc(struct model *m, struct request *rq, struct zonelist_scan *scan,
			 bool nofragment);

/*
 * A recorded request begins direct reclaim, where reclaim is that of the record: whether the
 * model's counts as below min. Reclaim keeps free pages near the mark, so it does, also above the
 * mark. But one that took an advance was counted then, in place of a later one.
 */
bool slow_path_recorded(struct model *m, struct request *rq);

/*
 * A recorded request that began direct reclaim, in a run with feedback: wake kswapd and reclaim
 * once if every zone is below its min watermark, or has no page that the request may take without
 * mixing (vm.defrag_mode). Returns whether that was the case.
 */
bool slow_path_reclaim_once(struct model *m, struct request *rq);
