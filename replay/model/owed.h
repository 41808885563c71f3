/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owed.h - pages that reclaim owes to a zone: free for every watermark, and on no list.
 *
 * A run's reclaim may come later than one of its requests needs it: the recorded one of R0 is timed
 * for the recorded state, and the model's own one of R1 and R2 may find too few pages. Such a
 * request takes an advance, so that the next requests do not reclaim in vain one by one. The next
 * pages that reclaim frees pay it back.
 */
#pragma once

#include "model.h"

enum { SWAP_CLUSTER = 32 }; /* SWAP_CLUSTER_MAX: a direct reclaim frees as many pages at least */

/* A zone gets an advance. */
void owe_pages(struct model *m, struct zone *zone, int64_t pages);
/* Pages owed to the zones of a node up to `class_zone`. */
int64_t pages_owed(const struct model *m, int node, int class_zone);
/* Reclaim freed pages on a node, for zones up to `class_zone`. */
void pay_owed(struct model *m, int node, int class_zone, int64_t pages);
/* The zones of a node of the tape need no reclaim any more. */
void forgive_owed(struct model *m, int tape_node);
