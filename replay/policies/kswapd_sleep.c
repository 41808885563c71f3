// SPDX-License-Identifier: Apache-2.0
/*
 * kswapd_sleep - when kswapd may sleep, and for which zones it wakes.
 *
 * kswapd of 4.10 slept only when every zone up to the requested one was balanced. But it forgot the
 * requested zone after its first pass. It then looked at the lowest zone alone, which is tiny and
 * free on most machines, and slept too early. Three patches changed that for 4.12 (e716f2eb24de is
 * the last): one balanced zone is enough (`fixcheck`), the marks of congestion are cleared only
 * before a sleep (`clear`), and kswapd remembers the requested zone (`keepawake`), as in every
 * later kernel.
 *
 * Up to 4.16 only kswapd woke kcompactd (5ecd9d403ad0): kcompactd=kswapd shows the variants as
 * they were then.
 *
 * The model has no marks of congestion: `fixcheck` and `clear` decide alike.
 */
#include "policy.h"

struct kswapd_sleep {
	int64_t variant, callers;
	bool differs; /* from the rules of the run's row */
};

static void edit(struct policy *self, struct kernel *row)
{
	struct kswapd_sleep *ks = self->state;

	ks->differs =
		row->kswapd_sleep != ks->variant || (row->kcompactd_by_callers && !ks->callers);
	row->kswapd_sleep = (uint8_t)ks->variant;
	row->kcompactd_by_callers = row->kcompactd_by_callers && ks->callers;
}

static void count_decided(struct policy *self, const struct model *m, const struct counters *total,
			  struct policy_effect *effect)
{
	const struct kswapd_sleep *ks = self->state;
	uint64_t passes = total->kswapd_passes, wakes = total->kcompactd_asked;

	if (!m->reclaim_ops)
		effect_never(effect, "kswapd runs as recorded (--reclaim R0)");
	else if (!ks->differs)
		effect_never(effect, "%s has these rules already", m->kernel->name);
	else if (!passes && !wakes)
		effect_never(effect, "nothing woke kswapd or kcompactd");
	else
		effect_decided(effect, passes + wakes, EFFECT_UNKNOWN,
			       "decided after %llu pass%s of kswapd, and at %llu request%s for "
			       "kcompactd",
			       (unsigned long long)passes, passes == 1 ? "" : "es",
			       (unsigned long long)wakes, plural(wakes));
}

static const char *const variants[] = {"v4.10", "fixcheck", "clear", "keepawake", NULL};

static const char *const wakers[] = {"kswapd", "callers", NULL};

static const struct policy_param params[] = {
	{"variant", KSWAPD_V4_10, KSWAPD_KEEPAWAKE, KSWAPD_KEEPAWAKE,
	 offsetof(struct kswapd_sleep, variant), variants,
	 "kswapd sleeps when v4.10: every zone is balanced; fixcheck, clear: any zone is; "
	 "keepawake: any zone is, and it remembers the class zone of its last pass."},
	{"kcompactd", 0, 1, 1, offsetof(struct kswapd_sleep, callers), wakers,
	 "kswapd: only kswapd wakes kcompactd, to 4.16; callers: requests too, by the kernel row."},
	{0},
};

const struct policy_ops kswapd_sleep_policy = {
	.name = "kswapd_sleep",
	.doc = "When kswapd may sleep, and for which zones it wakes. Acts with --reclaim R1 or R2.",
	.kernel = "4.10 to 4.12",
	.tier = "B",
	.state_size = sizeof(struct kswapd_sleep),
	.params = params,
	.kswapd_rules = edit,
	.effect = count_decided,
};
