/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kcompactd.h - one kcompactd per node, as the model runs it.
 *
 * It is woken for an order where a zone cannot serve it but has the pages to make it
 * (wakeup_kcompactd, 6.18), looks for such work every 500 ms as well, and moves MOVABLE
 * pages out of pageblocks until one is free or its budget is spent. Zones in which that
 * failed are left alone for twice as many runs each time, up to 64.
 */
#pragma once

#include "model.h"

struct feedback;

struct kcompactd {
	int node;
	uint16_t cpu;
	int order; /* asked for, or 0 */
	int class_zone;
	bool woken;     /* it is on its way */
	int running;    /* order it works for, or 0: until due it hears of no other work */
	uint64_t due;   /* of its next run or look */
	uint8_t *shift; /* [zone] 2^shift attempts are passed over ... */
	int *passed;    /* [zone] ... of which so many were */
	double failing; /* of a page, that could not be moved so far */
};

int kcompactd_init(struct kcompactd *c, const struct model *m, int node, struct error *err);
void kcompactd_free(struct kcompactd *c);

void kcompactd_wakeup(struct feedback *fb, struct kcompactd *c, int order, int class_zone);
/* It is due: look whether there is work, and do it. */
void kcompactd_step(struct feedback *fb, struct kcompactd *c);

enum { EXTFRAG_THRESHOLD = 500 }; /* vm.extfrag_threshold */

/* __fragmentation_index: 0 for lack of memory to 1000 for fragmentation, -1000 if none. */
int64_t fragmentation_index(const struct model *m, const struct zone *zone, int order);

/* What compaction_suit_allocation_order says of a zone. */
enum compact_suits { COMPACT_SERVES, COMPACT_CANNOT, COMPACT_SUITS };
enum compact_suits compact_suits(const struct model *m, const struct zone *zone, int order,
				 int class_zone);
