/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rewrite.h - other requests in the place of the recorded ones.
 *
 * A rule names requests and what becomes of them: several of a lower order, another migratetype,
 * other gfp flags, or none. The first rule that fits counts. A block that becomes pieces keeps its
 * recorded pages as names: piece i has those from i * 2^order on. So its free, which the record has
 * once, frees all pieces, and a later free of some of its pages finds them. Pages of a block
 * without a piece, and of a request that is dropped, are used by nobody.
 *
 * A request that failed in the record fails again, unless it is dropped. A request runs at its
 * event, also where an inferred row has it earlier. A request whose block the model took before
 * (without an event, or for compaction) stays as it is, and is counted.
 */
#pragma once

#include "serve.h"

struct rewrite_rule {
	/* Which requests: all of these hold. */
	uint32_t orders, migratetypes; /* bit n: those of order or type n */
	uint32_t gfp_has, gfp_lacks;   /* all of the first, none of the second */
	uint64_t since, until;         /* since <= ts < until, ns of the trace clock */
	const int32_t *pids;           /* of these threads, in rising order; NULL: of any */
	size_t nr_pids;
	/* Only requests at these moments, in rising order of both; `stack_ts` NULL: at any. */
	const uint64_t *stack_ts;
	const uint16_t *stack_cpus;
	size_t nr_stacks;

	/* What they become. */
	bool drop;
	int order;                   /* not above that of the request; -1: its own */
	uint32_t times;              /* requests of that order; 0: as many as have its pages */
	int migratetype;             /* -1: its own */
	uint32_t gfp_clear, gfp_set; /* flags */
};

struct rewrites {
	const struct rewrite_rule *rules; /* the caller's, as long as the model lives */
	int nr;                           /* 0: the requests are the recorded ones */
	uint16_t *pieces; /* [recorded frame of a block] its order << 8 | order of its pieces + 1;
			   * 0: the block is whole */
	uint64_t rewritten, kept; /* requests that a rule fits: other ones, those that stayed */
};

/* For the frames of a model; no memory without a rule. -ENOMEM. */
int rewrites_init(struct rewrites *w, const struct rewrite_rule *rules, int nr,
		  const struct model *m, struct error *err);

/* Whether a rule fits an alloc. */
bool rewrites_fit(const struct rewrites *w, const struct waiting *e);

/*
 * The requests in the place of `e`, which is due: returns their number, and the first in `piece`.
 * The others differ in their frame only, which is 2^order further each time.
 */
uint32_t rewrites_of(struct rewrites *w, struct serve *s, const struct waiting *e,
		     struct waiting *piece);
