// SPDX-License-Identifier: Apache-2.0
/*
 * fallback - the fallbacks of another kernel.
 *
 * The rules for a request whose own lists are empty come from another row of the feature matrix:
 * which chunk it takes, whether it claims the pageblock, and where the rest of the chunk goes.
 * Dependent rules come from that row as well: which free pages merge and are retyped, to which type
 * a PCP drains, and which event requests a boost. PCPs, watermarks, the size of the HIGHATOMIC
 * reserve and ALLOC_NOFRAGMENT follow the run's own row.
 */
#include "policy.h"

struct fallback {
	int64_t kernel;
	bool differs;      /* from the rules of the run's row */
	bool frees_differ; /* also in rules of frees */
};

static void take_family(struct policy *self, struct kernel *row)
{
	struct fallback *fallback = self->state;
	const struct kernel *other = &kernels[fallback->kernel];

	fallback->differs = fallback->frees_differ = false;
	for (const struct feature *f = features; f->name; f++) {
		uint8_t *own = (uint8_t *)row + f->offset;
		const uint8_t *taken = (const uint8_t *)other + f->offset;

		if (f->fallback == FALLBACK_APART || *own == *taken)
			continue;
		*own = *taken;
		fallback->differs = true;
		fallback->frees_differ |= f->fallback == FALLBACK_OF_FREE;
	}
}

/* The family also decides which fallbacks boost the watermarks. */
static bool boosts_otherwise(const struct policy *self, const struct kernel *row)
{
	const struct fallback *fallback = self->state;

	return row->boost != BOOST_NONE &&
	       row->boost_trigger != kernels[fallback->kernel].boost_trigger;
}

static void count_decided(struct policy *self, const struct model *m, const struct counters *total,
			  struct policy_effect *effect)
{
	const struct fallback *fallback = self->state;
	uint64_t fallbacks = total->fallback_claim + total->fallback_steal + total->fallback_whole;
	uint64_t frees = fallback->frees_differ ? total->drain_pages + total->buddy_frees : 0;

	if (!fallback->differs)
		effect_never(effect, "%s has the same rules of fallbacks as %s",
			     kernel_names[fallback->kernel], m->kernel->name);
	else if (!fallbacks && !frees)
		effect_never(effect, "no request found the lists of its migratetype empty");
	else if (!frees)
		effect_decided(effect, fallbacks, EFFECT_UNKNOWN, "decided %llu fallback%s",
			       (unsigned long long)fallbacks, plural(fallbacks));
	else
		effect_decided(effect, fallbacks + frees, EFFECT_UNKNOWN,
			       "decided %llu fallback%s, and how %llu pages and blocks went back "
			       "to the zone",
			       (unsigned long long)fallbacks, plural(fallbacks),
			       (unsigned long long)frees);
}

static const struct policy_param params[] = {
	{"kernel", 0, NR_KERNELS - 1, DEFAULT_FALLBACK_KERNEL, offsetof(struct fallback, kernel),
	 kernel_names,
	 "Kernel row whose fallback rules apply; `pagetape policies` lists the rows."},
	{0},
};

const struct policy_ops fallback_policy = {
	.name = "fallback",
	.doc = "The fallbacks of another kernel.",
	.kernel = "any row",
	.tier = "A",
	.state_size = sizeof(struct fallback),
	.params = params,
	.feedback = boosts_otherwise,
	.fallback_family = take_family,
	.effect = count_decided,
};
