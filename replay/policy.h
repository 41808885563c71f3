/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - the only seam between the model and a policy.
 *
 * The model owns mechanisms: it splits, merges, refills, drains. A policy owns
 * choices. Adding a policy is one file in policies/ and one line in policy_stack.c.
 *
 *   a choice  answers a question. Exactly one policy owns it in a run: mainline,
 *             unless another one takes it. Two claimants are refused at start.
 *   a notice  tells what is about to happen or has happened. Every policy hears it.
 *
 * No hook is called on a PCP hit, or on a free to a PCP that has room.
 */
#pragma once

#include "model.h"
#include "zone.h"

struct policy {
	const struct policy_ops *ops;
	void *state; /* ops->state_size zeroed bytes, then the parameters set */
};

/* One knob, an int64_t of the state. */
struct policy_param {
	const char *name;
	int64_t min, max, initial;
	size_t offset;
	const char *const *values; /* of an enum: one name per value from 0 on; else NULL */
	const char *doc;
};

enum nofragment_span {
	NOFRAGMENT_OFF,
	NOFRAGMENT_FIRST_PASS, /* until every allowed zone was tried */
	NOFRAGMENT_ALWAYS,     /* until reclaim would have run */
};

/* What the pageblock of a fallback's chunk looks like to the requester. */
struct claim {
	int chunk_order;
	uint32_t free_pages;
	uint32_t alike_pages; /* used pages that suit the requested migratetype */
	uint32_t block_pages;
};

struct policy_ops {
	const char *name;
	const char *doc;
	const char *kernel; /* where it comes from */
	const char *tier;   /* of what it predicts: A placement, B modelled feedback */
	size_t state_size;
	const struct policy_param *params; /* ends with a NULL name; may be NULL */

	/* Choices. NULL leaves the choice to its owner. */

	/* How long a request refuses to mix migratetypes. */
	enum nofragment_span (*nofragment)(struct policy *self, const struct model *m,
					   const struct request *rq, const struct zone *preferred);
	/* Which foreign list of this order to take from, or -1 if all are empty. */
	int (*fallback_type)(struct policy *self, const struct zone *zone, int order,
			     int migratetype);
	/* Whether the whole pageblock is to change owner. */
	bool (*claim)(struct policy *self, const struct request *rq, const struct claim *claim);

	/* Notices. NULL hears nothing. */

	/* A fallback is about to take less than a pageblock: fragmentation begins. */
	void (*on_mixing)(struct policy *self, struct model *m, struct zone *zone,
			  const struct request *rq);
};

extern const struct policy_ops mainline_policy;
extern const struct policy_ops nofragment_policy;
