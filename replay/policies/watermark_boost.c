// SPDX-License-Identifier: Apache-2.0
/*
 * watermark_boost - the trigger and the limit of watermark boosts.
 *
 * A fallback into part of a pageblock raises the watermarks of its zone by a pageblock
 * (1c30844d2dfe, 5.0), so that kswapd reclaims and kcompactd makes whole blocks again.
 * 5.0 boosts at every such fallback. Since 6.15 (c2f6ea38fc1b, also in the stable trees of 6.12
 * and 6.14) each attempt to claim the pageblock boosts, whether or not it succeeds.
 *
 * The boost acts on the watermarks if the tape shows passes of kswapd, which take it back;
 * otherwise it is only counted. Reclaim by kswapd because of a boost needs --reclaim R1 or R2.
 */
#include "policy.h"
#include "watermark.h"

struct watermark_boost {
	int64_t factor, trigger;
	uint64_t asked, changed; /* answers; of them, those that differ from mainline's */
};

static int64_t limit(struct policy *self, const struct model *m, const struct zone *zone,
		     int trigger)
{
	struct policy *mainline = self->mainline;
	struct watermark_boost *wb = self->state;
	int64_t mine = trigger == wb->trigger ? boost_limit(m, zone, wb->factor) : 0;
	int64_t its = mainline->ops->watermark_boost(mainline, m, zone, trigger);

	/* Of the two triggers of a fallback, only those count that may boost. */
	wb->asked += trigger == wb->trigger || its;
	wb->changed += mine != its;
	return mine;
}

static void count_answers(struct policy *self, const struct model *m, const struct counters *total,
			  struct policy_effect *effect)
{
	const struct watermark_boost *wb = self->state;

	if (!wb->asked)
		effect_never(effect, "no request fell back into part of a pageblock, or tried to");
	else
		effect_decided(effect, wb->asked, (int64_t)wb->changed,
			       "decided %llu time%s about a boost, %llu of them otherwise than "
			       "mainline",
			       (unsigned long long)wb->asked, plural(wb->asked),
			       (unsigned long long)wb->changed);
}

static const char *const triggers[] = {"every_fallback", "claim_attempt", NULL};

static const struct policy_param params[] = {
	{"factor", 0, 1000000, 15000, offsetof(struct watermark_boost, factor), NULL,
	 "vm.watermark_boost_factor: largest boost in 1/10000 of the high watermark; 0: none."},
	{"trigger", BOOST_EVERY_FALLBACK, BOOST_CLAIM_ATTEMPT, BOOST_EVERY_FALLBACK,
	 offsetof(struct watermark_boost, trigger), triggers,
	 "every_fallback: below pageblock order; claim_attempt: also those that fail."},
	{0},
};

const struct policy_ops watermark_boost_policy = {
	.name = "watermark_boost",
	.doc = "The trigger and the limit of watermark boosts.",
	.kernel = "5.0 (every_fallback), 6.15 (claim_attempt)",
	.tier = "B",
	.state_size = sizeof(struct watermark_boost),
	.params = params,
	.watermark_boost = limit,
	.effect = count_answers,
};
