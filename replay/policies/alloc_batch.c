// SPDX-License-Identifier: Apache-2.0
/*
 * alloc_batch - serve runs of single pages from larger blocks, as larger folios would.
 *
 * The policy saves requests, and work under the zone lock for each byte. It costs pages that no
 * request asked for (counter alloc_batch_waste), and pages that stay unused until the last page of
 * their batch is freed, or until reclaim splits the batch.
 *
 * Two rules of the kernel were made for few blocks of orders 1 to 3, and would change if all memory
 * came in them: their refills do not double (nr_pcp_alloc, 6.8), and a run of their frees empties
 * the list (free_unref_page_commit, 6.8). `refill` and `free` leave these rules, or lift them.
 */
#include "policy.h"

enum { BATCH_ORDER_MOST = 9 };
enum { REFILL_KERNEL, REFILL_SCALED };
enum { FREE_KERNEL, FREE_WHOLE };

struct alloc_batch_policy {
	int64_t order, gap_us, refill, free;
};

static void alloc_batch_alloc_batch(struct policy *self, struct alloc_batch *batch)
{
	const struct alloc_batch_policy *au = self->state;

	*batch = (struct alloc_batch){
		.order = (int)au->order,
		.gap_ns = (uint64_t)au->gap_us * 1000,
		.scales_refills = au->refill == REFILL_SCALED,
		.keeps_frees = au->free == FREE_WHOLE,
	};
}

static void alloc_batch_effect(struct policy *self, const struct model *m,
			       const struct counters *total, struct policy_effect *effect)
{
	const struct alloc_batch_policy *au = self->state;
	uint64_t batches = total->alloc_batches;

	if (!batches)
		effect_never(effect,
			     "no single-page request came, or none found a block of order %lld",
			     (long long)au->order);
	else
		effect_decided(effect, batches, (int64_t)batches,
			       "served %llu run%s of requests from one block each; of %llu unused "
			       "pages reclaim took %llu",
			       (unsigned long long)batches, plural(batches),
			       (unsigned long long)total->alloc_batch_waste,
			       (unsigned long long)total->alloc_batch_split);
}

static const char *const refills[] = {"kernel", "scaled", NULL};
static const char *const frees[] = {"kernel", "whole", NULL};

static const struct policy_param alloc_batch_params[] = {
	{"order", 1, BATCH_ORDER_MOST, 2, offsetof(struct alloc_batch_policy, order), NULL,
	 "Order of the batch."},
	{"gap_us", 0, 1000000000, 100, offsetof(struct alloc_batch_policy, gap_us), NULL,
	 "Longest time between two requests of a run."},
	{"refill", REFILL_KERNEL, REFILL_SCALED, REFILL_KERNEL,
	 offsetof(struct alloc_batch_policy, refill), refills,
	 "scaled: refills above order 0 double as those of order 0, where the row has that."},
	{"free", FREE_KERNEL, FREE_WHOLE, FREE_KERNEL, offsetof(struct alloc_batch_policy, free),
	 frees, "whole: a run of frees of orders 1 to 3 does not empty the per-CPU list."},
	{0},
};

const struct policy_ops alloc_batch_policy = {
	.name = "alloc_batch",
	.doc = "Runs of single-page requests are served from one larger block.",
	.kernel = "none",
	.tier = "B",
	.state_size = sizeof(struct alloc_batch_policy),
	.params = alloc_batch_params,
	.alloc_batch = alloc_batch_alloc_batch,
	.effect = alloc_batch_effect,
};
