// SPDX-License-Identifier: Apache-2.0
/*
 * alloc_batch - serve runs of single pages from larger blocks, as larger folios would.
 *
 * The policy saves requests and zone locks. It costs pages that no request asked for (counter
 * alloc_batch_waste), and pages that stay unused until the last page of their batch is freed.
 */
#include "policy.h"

enum { BATCH_ORDER_MOST = 9 };

struct alloc_batch_policy {
	int64_t order, gap_us;
};

static void alloc_batch_alloc_batch(struct policy *self, struct alloc_batch *batch)
{
	const struct alloc_batch_policy *au = self->state;

	batch->order = (int)au->order;
	batch->gap_ns = (uint64_t)au->gap_us * 1000;
}

static void alloc_batch_effect(struct policy *self, const struct model *m,
			       const struct counters *total, struct policy_effect *effect)
{
	const struct alloc_batch_policy *au = self->state;
	uint64_t batches = total->alloc_batches;

	(void)m;
	if (!batches)
		effect_never(effect,
			     "no single-page request came, or none found a block of order %lld",
			     (long long)au->order);
	else
		effect_decided(effect, batches, (int64_t)batches,
			       "served %llu run%s of requests from one block each",
			       (unsigned long long)batches, plural(batches));
}

static const struct policy_param alloc_batch_params[] = {
	{"order", 1, BATCH_ORDER_MOST, 2, offsetof(struct alloc_batch_policy, order), NULL,
	 "Order of the batch."},
	{"gap_us", 0, 1000000000, 100, offsetof(struct alloc_batch_policy, gap_us), NULL,
	 "Longest time between two requests of a run."},
	{0},
};

const struct policy_ops alloc_batch_policy = {
	.name = "alloc_batch",
	.doc = "Runs of single-page requests are served from one larger block.",
	.kernel = "none",
	.tier = "A",
	.state_size = sizeof(struct alloc_batch_policy),
	.params = alloc_batch_params,
	.alloc_batch = alloc_batch_alloc_batch,
	.effect = alloc_batch_effect,
};
