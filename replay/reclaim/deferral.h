/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferral.h - compaction of a zone is deferred after it failed.
 *
 * Each failure doubles the number of attempts of which only the last is made, up to 64. Orders
 * below the lowest that failed are never deferred. kcompactd and allocations share the state of
 * a zone. From mm/compaction.c of 6.18: defer_compaction, compaction_deferred,
 * compaction_defer_reset and compaction_restarting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct deferral {
	int considered;       /* attempts since the last failure */
	uint8_t shift;        /* of 2^shift attempts the last is made */
	uint8_t order_failed; /* lowest order that failed, or is not known to succeed */
};

/* Count an attempt for an order. Whether it is skipped. */
bool is_deferred(struct deferral *d, int order);
/* Whether an attempt for an order ends the longest possible deferral. */
bool is_restarting(const struct deferral *d, int order);
void defer(struct deferral *d, int order);
/* Compaction made a block of an order; `allocated`: it was handed out as well. */
void defer_reset(struct deferral *d, int order, bool allocated);
