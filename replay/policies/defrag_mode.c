// SPDX-License-Identifier: Apache-2.0
/*
 * defrag_mode - vm.defrag_mode=1 of 6.15: keep pageblocks whole at any cost.
 *
 * A request mixes migratetypes only after reclaim and compaction have failed (e3aa7df331bc). For
 * orders above 0 kswapd and kcompactd count only the free pages of whole pageblocks (101f9d666e4d,
 * a211c6550efc), and kcompactd works up to the high watermark. The cost in reclaim shows only with
 * --reclaim R1 or R2.
 */
#include "policy.h"

static enum nofragment_span span(struct policy *self, const struct model *m,
				 const struct request *rq, const struct zone *preferred)
{
	(void)self;
	(void)m;
	(void)rq;
	(void)preferred;
	return NOFRAGMENT_ALWAYS;
}

static void count_whole_blocks(struct policy *self, struct kernel *row)
{
	(void)self;
	row->whole_blocks = true;
}

const struct policy_ops defrag_mode_policy = {
	.name = "defrag_mode",
	.doc = "vm.defrag_mode=1: keep pageblocks whole at the cost of reclaim and compaction.",
	.kernel = "6.15",
	.tier = "B",
	.nofragment = span,
	.kswapd_blocks = count_whole_blocks,
};
