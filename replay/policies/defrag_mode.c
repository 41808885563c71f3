// SPDX-License-Identifier: Apache-2.0
/*
 * defrag_mode - vm.defrag_mode=1 of 6.15: keep pageblocks whole at any cost.
 *
 * A request mixes migratetypes only after reclaim and compaction have failed (e3aa7df331bc). For
 * orders above 0 kswapd and kcompactd count only the free pages of whole pageblocks (101f9d666e4d,
 * a211c6550efc), and kcompactd works up to the high watermark. The cost in reclaim shows only with
 * --reclaim R1 or R2.
 */
#include "mixing.h"
#include "policy.h"

struct defrag_mode {
	struct mixing mixing;
	bool blocks_differ; /* the run's row counts all free pages */
};

static enum nofragment_span span(struct policy *self, const struct model *m,
				 const struct request *rq, const struct zone *preferred)
{
	return NOFRAGMENT_ALWAYS;
}

static void count_whole_blocks(struct policy *self, struct kernel *row)
{
	struct defrag_mode *dm = self->state;

	dm->blocks_differ = !row->whole_blocks;
	row->whole_blocks = true;
}

static void count_refused(struct policy *self, struct model *m, const struct zone *zone,
			  const struct request *rq)
{
	struct defrag_mode *dm = self->state;

	mixing_refused(&dm->mixing, self, m, rq, NOFRAGMENT_ALWAYS);
}

static void defrag_mode_effect(struct policy *self, const struct model *m,
			       const struct counters *total, struct policy_effect *effect)
{
	const struct defrag_mode *dm = self->state;
	uint64_t requests = dm->mixing.requests, passes = total->kswapd_passes;

	/* Under R0 nothing counts free pages for kswapd. */
	if (!m->reclaim_ops || !dm->blocks_differ || !passes)
		mixing_effect_always(&dm->mixing, effect);
	else
		effect_decided(effect, requests + passes, EFFECT_UNKNOWN,
			       "refused to let %llu request%s mix migratetypes at once, and "
			       "counted whole pageblocks in %llu pass%s of kswapd",
			       (unsigned long long)requests, plural(requests),
			       (unsigned long long)passes, passes == 1 ? "" : "es");
}

const struct policy_ops defrag_mode_policy = {
	.name = "defrag_mode",
	.doc = "vm.defrag_mode=1: keep pageblocks whole at the cost of reclaim and compaction.",
	.kernel = "6.15",
	.tier = "B",
	.state_size = sizeof(struct defrag_mode),
	.nofragment = span,
	.kswapd_blocks = count_whole_blocks,
	.on_unmixed = count_refused,
	.effect = defrag_mode_effect,
};
