/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flips.h - decisions that a member of an ensemble takes otherwise.
 *
 * `validate` measures how often the model's rules miss a kind of decision on a tape. A member of an
 * ensemble takes as many of these decisions otherwise: another page, another size, another answer
 * about a claim. Each other choice is one that the allocator could make.
 *
 * A draw depends on the seed, the row of `event`, the kind, and the number of the decision of that
 * kind since that row began. Two runs with the same seed therefore draw the same for the same
 * decision, whatever happened in between.
 */
#pragma once

#include "model.h"

/* By the values of exactness.decision. */
enum flip_kind {
	FLIP_ALLOC,       /* another entry of a PCP list: freerun/variation.h */
	FLIP_ZONE_LOCKED, /* the last block of a free list, not the first */
	FLIP_REFILL_SIZE, /* a refill of twice as many pages, or half as many */
	FLIP_DRAIN,       /* a drain takes the entry above the last one of a list */
	FLIP_DRAIN_SIZE,  /* a drain of one page more or less */
	FLIP_EXTFRAG,     /* the last block of another type's list; a claim is made or not */
	NR_FLIP,
};

enum { FLIPS_PER = 1000000000 }; /* rates are per this many decisions */

struct flips {
	uint64_t seed;
	const uint64_t *at;    /* current row of `event` */
	uint64_t row;          /* row of the latest draw */
	uint32_t nth[NR_FLIP]; /* draws in that row */
	uint32_t rates[NR_FLIP];
	uint64_t drawn[NR_FLIP]; /* decisions that were changed so far */
};

/* The finalizer of splitmix64 (Steele, Lea and Flood 2014). */
static inline uint64_t mix64(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/*
 * The draw of the decision that comes now: 0 if it stays as it is, else a random number. The caller
 * counts in `drawn` if there was another choice.
 */
uint64_t flips_draw(struct flips *flips, enum flip_kind kind);

static inline uint64_t flip_draw(const struct model *m, enum flip_kind kind)
{
	return __builtin_expect(m->flips != NULL, 0) && m->flips->rates[kind]
		       ? flips_draw(m->flips, kind)
		       : 0;
}

/* The first block of a list that is not empty; drawn otherwise, the last. */
frame_nr flip_first(const struct model *m, list_nr list, enum flip_kind kind);
