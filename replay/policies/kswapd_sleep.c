// SPDX-License-Identifier: Apache-2.0
/*
 * kswapd_sleep - when kswapd may sleep, and for which zones it wakes.
 *
 * 4.10 let it sleep only when every zone up to the one asked for was balanced, and forgot
 * which that was once it had begun: it then looked at the lowest zone alone, which on
 * most machines is tiny and always free, and slept too early. Three patches changed that
 * for 4.12 (e716f2eb24de is the last): one balanced zone is enough (`fixcheck`), the
 * marks of congestion are cleared only before a sleep (`clear`), and the zone asked for
 * is kept (`keepawake`), as in every kernel since.
 *
 * Until 4.16 nobody but kswapd woke kcompactd (5ecd9d403ad0): what the variants did then
 * is seen with kcompactd=kswapd.
 *
 * Marks of congestion are no part of the model: `fixcheck` and `clear` decide alike.
 */
#include "policy.h"

struct kswapd_sleep {
	int64_t variant, callers;
};

static void edit(struct policy *self, struct kernel *row)
{
	const struct kswapd_sleep *ks = self->state;

	row->kswapd_sleep = (uint8_t)ks->variant;
	row->kcompactd_by_callers = row->kcompactd_by_callers && ks->callers;
}

static const char *const variants[] = {"v4.10", "fixcheck", "clear", "keepawake", NULL};

static const char *const wakers[] = {"kswapd", "callers", NULL};

static const struct policy_param params[] = {
	{"variant", KSWAPD_V4_10, KSWAPD_KEEPAWAKE, KSWAPD_KEEPAWAKE,
	 offsetof(struct kswapd_sleep, variant), variants,
	 "v4.10: every zone balanced; fixcheck, clear: any zone; keepawake: and the zone is kept."},
	{"kcompactd", 0, 1, 1, offsetof(struct kswapd_sleep, callers), wakers,
	 "Who wakes kcompactd. kswapd: it alone, to 4.16; callers: whom the kernel row lets."},
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
};
