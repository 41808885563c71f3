/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferral.h - how long compaction of a zone is put off after it failed.
 *
 * Each failure doubles the attempts of which only the last is made, up to 64; orders below
 * the least that failed are never put off. kcompactd and allocations share what is known of
 * a zone. From mm/compaction.c of 6.18: defer_compaction, compaction_deferred,
 * compaction_defer_reset and compaction_restarting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct deferral {
	int considered;       /* attempts since the last failure */
	uint8_t shift;        /* of 2^shift attempts the last is made */
	uint8_t order_failed; /* least order that failed, or is not known to succeed */
};

/* An attempt for an order: whether it is passed over. */
bool is_deferred(struct deferral *d, int order);
/* Whether the attempt for an order that is made is the last of as many as can be passed over. */
bool is_restarting(const struct deferral *d, int order);
void defer(struct deferral *d, int order);
/* An order was made; `allocated`: and handed out. */
void defer_reset(struct deferral *d, int order, bool allocated);
