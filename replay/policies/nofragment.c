// SPDX-License-Identifier: Apache-2.0
/*
 * nofragment - how hard to try before mixing migratetypes in a pageblock.
 *
 * `lowzone` is ALLOC_NOFRAGMENT, merged for 5.0 (6bb154504f8b) and working since 5.1: a request
 * whose preferred zone is NORMAL first tries every zone of its node without mixing. `always` is
 * vm.defrag_mode of 6.15: no request mixes until reclaim and compaction have failed. `off` is
 * 4.20, and also the released 5.0, which by a slip never set the flag (fixed in 5.1). In all
 * modes a free page of pageblock order or more may change owner, because that mixes nothing.
 */
#include "policy.h"

enum { MODE_OFF, MODE_LOWZONE, MODE_ALWAYS };

struct nofragment {
	int64_t mode;
	int64_t v50_bug;
};

static enum nofragment_span nofragment_nofragment(struct policy *self, const struct model *m,
						  const struct request *rq,
						  const struct zone *preferred)
{
	const struct nofragment *nf = self->state;

	(void)m;
	(void)rq;
	if (nf->v50_bug)
		return NOFRAGMENT_OFF;
	if (nf->mode == MODE_ALWAYS)
		return NOFRAGMENT_ALWAYS;
	if (nf->mode == MODE_LOWZONE && preferred->nofragment_applies)
		return NOFRAGMENT_FIRST_PASS;
	return NOFRAGMENT_OFF;
}

static const char *const modes[] = {"off", "lowzone", "always", NULL};

static const struct policy_param nofragment_params[] = {
	{"mode", MODE_OFF, MODE_ALWAYS, MODE_LOWZONE, offsetof(struct nofragment, mode), modes,
	 "off: mix at once; lowzone: try the lower zones first; always: also in reclaim."},
	{"v50_bug", 0, 1, 0, offsetof(struct nofragment, v50_bug), NULL,
	 "1: test the flag and never set it, as 5.0.x did; the same as mode=off."},
	{0},
};

const struct policy_ops nofragment_policy = {
	.name = "nofragment",
	.doc = "How hard to try before mixing migratetypes in a pageblock.",
	.kernel = "5.1 (lowzone), 6.15 (always)",
	.tier = "A; mode=always: B",
	.state_size = sizeof(struct nofragment),
	.params = nofragment_params,
	.nofragment = nofragment_nofragment,
};
