// SPDX-License-Identifier: Apache-2.0
/*
 * zone_lock - queue the CPUs at the zone locks, and measure the waits.
 *
 * The profiles of Sapphire Rapids, Ice Lake and Cascade Lake are least-squares lines
 * through the hold times of rmqueue_bulk and free_pcppages_bulk for batches of 63 to 2047
 * pages in 52166607ecc9; below 63 pages they are an extrapolation. `tape` is the recorded
 * machine: its hold times are parameters, which the report zone_lock.fit finds.
 */
#include "policy.h"

enum { PROFILE_SPR, PROFILE_ICX, PROFILE_CLX, PROFILE_TAPE };

struct zone_lock {
	int64_t profile, take_ps, take_block_ps, give_ps, give_block_ps, cpu_scale;
};

static const struct lock_costs costs_of[] = {
	[PROFILE_SPR] = {2100000, 21500, 830000, 28700, 1},
	[PROFILE_ICX] = {1380000, 18700, 660000, 27300, 1},
	[PROFILE_CLX] = {2330000, 34200, 840000, 41900, 1},
};

static bool zone_lock_lock_costs(struct policy *self, struct lock_costs *costs)
{
	const struct zone_lock *zl = self->state;

	if (zl->profile == PROFILE_TAPE)
		*costs = (struct lock_costs){zl->take_ps, zl->take_block_ps, zl->give_ps,
					     zl->give_block_ps, 1};
	else
		*costs = costs_of[zl->profile];
	costs->copies = (int)zl->cpu_scale;
	return true;
}

static void zone_lock_effect(struct policy *self, const struct model *m,
			     const struct counters *total, struct policy_effect *effect)
{
	if (!total->lock_holds)
		effect_never(effect, "no CPU took a zone lock");
	else
		effect_decided(effect, total->lock_holds, 0,
			       "queued %llu hold%s of zone locks, which moves no page",
			       (unsigned long long)total->lock_holds, plural(total->lock_holds));
}

static const char *const profiles[] = {"spr", "icx", "clx", "tape", NULL};

#define PARAM(name, most, doc) {#name, 0, most, 0, offsetof(struct zone_lock, name), NULL, doc}

static const struct policy_param zone_lock_params[] = {
	{"profile", PROFILE_SPR, PROFILE_TAPE, PROFILE_SPR, offsetof(struct zone_lock, profile),
	 profiles, "Hold times: of a server, or of the tape's machine, fitted to its events."},
	PARAM(take_ps, 1000000000,
	      "tape: picoseconds of a refill or allocation; fitted if not given."),
	PARAM(take_block_ps, 1000000000, "profile tape: picoseconds more for each block taken."),
	PARAM(give_ps, 1000000000, "profile tape: picoseconds of a drain or free."),
	PARAM(give_block_ps, 1000000000,
	      "profile tape: picoseconds more for each block given back."),
	{"cpu_scale", 1, 64, 1, offsetof(struct zone_lock, cpu_scale), NULL,
	 "Overlay the tape's CPUs so many times; above 1 the load is synthetic."},
	{0},
};

const struct policy_ops zone_lock_policy = {
	.name = "zone_lock",
	.doc = "Put the zone locks in a queue: tables zone_lock and lock_wait.",
	.kernel = "hold times of 6.7",
	.tier = "A",
	.state_size = sizeof(struct zone_lock),
	.params = zone_lock_params,
	.lock_costs = zone_lock_lock_costs,
	.effect = zone_lock_effect,
};
