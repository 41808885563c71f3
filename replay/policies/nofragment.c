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
#include "mixing.h"
#include "policy.h"

enum { MODE_OFF, MODE_LOWZONE, MODE_ALWAYS };

struct nofragment {
	int64_t mode;
	int64_t v50_bug;
	struct mixing mixing;
};

/* The answer for zones where lowzone applies. */
static enum nofragment_span widest_span(const struct nofragment *nf)
{
	static const enum nofragment_span spans[] = {
		[MODE_OFF] = NOFRAGMENT_OFF,
		[MODE_LOWZONE] = NOFRAGMENT_FIRST_PASS,
		[MODE_ALWAYS] = NOFRAGMENT_ALWAYS,
	};

	return nf->v50_bug ? NOFRAGMENT_OFF : spans[nf->mode];
}

/* lowzone and off only place pages; always waits for reclaim and compaction. */
static bool nofragment_feedback(const struct policy *self, const struct kernel *row)
{
	return widest_span(self->state) == NOFRAGMENT_ALWAYS;
}

static enum nofragment_span nofragment_nofragment(struct policy *self, const struct model *m,
						  const struct request *rq,
						  const struct zone *preferred)
{
	const struct nofragment *nf = self->state;

	if (widest_span(nf) == NOFRAGMENT_FIRST_PASS && !preferred->nofragment_applies)
		return NOFRAGMENT_OFF;
	return widest_span(nf);
}

static void count_refused(struct policy *self, struct model *m, const struct zone *zone,
			  const struct request *rq)
{
	struct nofragment *nf = self->state;

	mixing_refused(&nf->mixing, self, m, rq, widest_span(nf));
}

static void count_allowed(struct policy *self, struct model *m, struct zone *zone,
			  const struct request *rq, int order)
{
	struct nofragment *nf = self->state;

	if (widest_span(nf) == NOFRAGMENT_OFF && order < m->pageblock_order)
		mixing_allowed(&nf->mixing, self, m, rq);
}

static void effect_off(const struct mixing *mixing, struct policy_effect *effect)
{
	if (!mixing->requests)
		effect_never(effect, "no request found the lists of its migratetype empty");
	else
		effect_decided(effect, mixing->requests, (int64_t)mixing->changed,
			       "let %llu request%s mix migratetypes at once; mainline would "
			       "refuse %llu of them",
			       (unsigned long long)mixing->requests, plural(mixing->requests),
			       (unsigned long long)mixing->changed);
}

static bool has_normal_zone(const struct model *m)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].type == ZONE_NORMAL)
			return true;
	return false;
}

/* Whether a node has a lower zone beside a zone where lowzone applies. */
static bool has_lower_zone(const struct model *m)
{
	for (int i = 0; i < m->nr_zones; i++)
		for (int j = 0; j < m->nr_zones; j++)
			if (m->zones[i].nofragment_applies &&
			    m->zones[j].node == m->zones[i].node &&
			    m->zones[j].type < m->zones[i].type)
				return true;
	return false;
}

static void effect_lowzone(const struct mixing *mixing, const struct model *m,
			   struct policy_effect *effect)
{
	if (!has_normal_zone(m))
		effect_never(effect, "no node has a zone NORMAL");
	else if (!has_lower_zone(m))
		effect_never(effect, "no node has a zone below NORMAL");
	else if (mixing->requests)
		effect_decided(effect, mixing->requests, (int64_t)mixing->changed,
			       "sent %llu request%s to a lower zone before they mix migratetypes; "
			       "mainline would let %llu of them mix",
			       (unsigned long long)mixing->requests, plural(mixing->requests),
			       (unsigned long long)mixing->changed);
	else if (mixing->no_room)
		effect_never(effect, "no node has a zone below NORMAL with room");
	else
		effect_never(effect, "no request for NORMAL found the lists of its migratetype "
				     "empty");
}

static void nofragment_effect(struct policy *self, const struct model *m,
			      const struct counters *total, struct policy_effect *effect)
{
	const struct nofragment *nf = self->state;

	switch (widest_span(nf)) {
	case NOFRAGMENT_OFF:
		effect_off(&nf->mixing, effect);
		break;
	case NOFRAGMENT_FIRST_PASS:
		effect_lowzone(&nf->mixing, m, effect);
		break;
	case NOFRAGMENT_ALWAYS:
		mixing_effect_always(&nf->mixing, effect);
		break;
	}
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
	.tier = "A",
	.state_size = sizeof(struct nofragment),
	.params = nofragment_params,
	.feedback = nofragment_feedback,
	.nofragment = nofragment_nofragment,
	.on_fallback = count_allowed,
	.on_unmixed = count_refused,
	.effect = nofragment_effect,
};
