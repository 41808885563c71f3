/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variation.h - what makes the members of an ensemble differ.
 *
 * A tape does not show everything: a list may be in another order than the model's, or of another
 * size, a counter is off by the differences of the CPUs. Each member of an
 * ensemble plays the same tape with a few such changes, drawn from its seed. The same seed gives
 * the same changes at the same rows of `event`, under any policy: what two policies share cancels
 * when they are compared member by member.
 *
 * Changes keep the mean: seeds 1 and 2, 3 and 4, ... have the same changes in opposite directions,
 * and what cannot go both ways does not change.
 *
 * Beside these changes of the state, inferred rows take another moment within their windows
 * (inferred.h), and decisions are taken otherwise at the rate at which `validate` missed them
 * (flips.h).
 */
#pragma once

#include "model/flips.h"
#include "model/model.h"
#include "tape/inferred.h"
#include "tape/requests.h"

enum variation_kind {
	VARY_MOVED,   /* an entry at one end of a free list or a PCP list moves to the other */
	VARY_SIZED,   /* a PCP drains or refills some pages, or its high or free_count changes */
	VARY_COUNTED, /* the counter of a zone changes by the difference of a CPU */
	NR_VARIATION,
};

struct variation_config {
	uint64_t seed;                  /* 0: no change */
	uint32_t changes[NR_VARIATION]; /* of each kind, per million rows of `event` */
	uint32_t flips[NR_FLIP];        /* of each kind, per FLIPS_PER known decisions */
	bool moments;                   /* inferred rows take other moments */
};

struct variation {
	struct variation_config config;
	struct model *model;
	uint64_t pair;        /* the seed of the changes, which two seeds share */
	bool mirrored;        /* the second of them: its changes go the other way */
	uint64_t random;      /* state of the generator */
	uint64_t next;        /* row of `event` before which the next change or flip is due */
	uint64_t next_change; /* the same, for changes */
	uint64_t next_flip;   /* row whose alloc takes another entry of its PCP list */
	uint64_t per_million; /* changes of all kinds */
	uint64_t nr_changes;  /* so far */
	uint64_t nr_flips;    /* alloc rows drawn so far */
	uint64_t drawn[NR_VARIATION]; /* changes of each kind so far */
	uint64_t moments;             /* inferred rows that take another moment */
	struct flips flips;
};

/* A run at its start. */
struct variation_run {
	struct model *model;
	struct inferred_rows *inferred;
	uint64_t first;     /* row of `event` */
	const uint64_t *at; /* the current row, while the run goes on */
};

/*
 * Begin a run. Where /proc alone showed the free blocks of a zone, their lists get another order.
 * With a seed the model draws flips: `v` must stay where it is. -ENOMEM.
 */
int variation_start(struct variation *v, const struct variation_run *run,
		    const struct variation_config *config, struct error *err);

/* Name and number of the n-th kind of change of a run; a NULL name past the last. */
const char *variation_name(int n);
uint64_t variation_drawn(const struct variation *v, int n);

/* Make the changes that are due before a request at row `at`. */
void variation_run(struct variation *v, const struct waiting *e, uint64_t at);
