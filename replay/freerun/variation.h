/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variation.h - what makes the members of an ensemble differ.
 *
 * A tape does not show everything: a page taken in bulk has no event, a list may be in another
 * order than the model's, a counter is off by the differences of the CPUs. Each member of an
 * ensemble plays the same tape with a few such changes, drawn from its seed. The same seed gives
 * the same changes at the same rows of `event`, under any policy: what two policies share cancels
 * when they are compared member by member.
 */
#pragma once

#include "model/model.h"
#include "tape/requests.h"

enum variation_kind {
	VARY_HELD,    /* a page is taken, or one that was taken is given back */
	VARY_MOVED,   /* the first entry of a free list or a PCP list moves to its end */
	VARY_SIZED,   /* a PCP drains some pages, or its high or free_count changes */
	VARY_COUNTED, /* the counter of a zone changes by the difference of a CPU */
	NR_VARIATION,
};

struct variation_config {
	uint64_t seed;                  /* 0: no change */
	uint32_t changes[NR_VARIATION]; /* of each kind, per million rows of `event` */
};

enum { VARIATION_HELD_MAX = 8 }; /* pages at a time; half of them on average */

struct variation {
	struct variation_config config;
	struct model *model;
	uint64_t random;      /* state of the generator */
	uint64_t next;        /* row of `event` before which the next change is due */
	uint64_t per_million; /* changes of all kinds */
	uint64_t nr_changes;  /* so far */
	uint32_t held[VARIATION_HELD_MAX];
	int nr_held;
};

/*
 * Begin at row `first` of a model in its state at the start. Where /proc alone showed the free
 * blocks of a zone, their lists get another order. -ENOMEM.
 */
int variation_start(struct variation *v, struct model *m, const struct variation_config *config,
		    uint64_t first, struct error *err);

/* Make the changes that are due before a request at row `at`. */
void variation_run(struct variation *v, const struct waiting *e, uint64_t at);
