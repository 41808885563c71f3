/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferral.h - deferral of compaction in a zone after failures.
 *
 * After a failure, one attempt in 2^shift is made. Each failure doubles this number, up to 64.
 * Orders below the lowest that failed are never deferred. kcompactd and allocations share the state
 * of a zone. From mm/compaction.c of 6.18: defer_compaction, compaction_deferred,
 * compaction_defer_reset and compaction_restarting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct deferral {
	int considered;       /* attempts since the last failure */
	uint8_t shift;        /* one attempt in 2^shift is made */
	uint8_t order_failed; /* lowest order that failed, or has not succeeded yet */
};

/* Count an attempt for an order. Returns whether to skip it. */
bool is_deferred(struct deferral *d, int order);
/* Whether an attempt for an order ends the longest possible deferral. */
bool is_restarting(const struct deferral *d, int order);
void defer(struct deferral *d, int order);
/* Compaction made a block of an order; `allocated`: the block was allocated as well. */
void defer_reset(struct deferral *d, int order, bool allocated);
