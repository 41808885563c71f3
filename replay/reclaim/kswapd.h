/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kswapd.h - one kswapd per node, as the model runs it.
 *
 *   asleep     until an allocation wakes it
 *   waking     woken, not running yet
 *   balancing  a pass: it reclaims by priority until a zone is balanced (balance_pgdat)
 *   napping    100 ms, to see whether the balance holds
 *   napped     the timer woke it, and it is not running yet; then it sleeps or goes on
 *
 * From mm/vmscan.c of 6.18: kswapd, kswapd_try_to_sleep, balance_pgdat, wakeup_kswapd.
 * When it may sleep and which zones it looks at are rules of the kernel row
 * (kswapd_sleep): 4.10, and the three patches that became 4.12 (e716f2eb24de).
 */
#pragma once

#include "model/model.h"

struct reclaim_run;

enum kswapd_state {
	KSWAPD_ASLEEP,
	KSWAPD_WAKING,
	KSWAPD_BALANCING,
	KSWAPD_NAPPING,
	KSWAPD_NAPPED,
};

struct kswapd {
	enum kswapd_state state;
	int node;
	int32_t pid; /* of the node's kswapd on the record, or 0 */
	uint16_t cpu;
	bool called;       /* somebody did since its nap was over */
	uint64_t due;      /* when it acts next, or UINT64_MAX */
	uint64_t slept_at; /* when it fell asleep, until somebody finds that premature; or 0 */
	int want_order;
	int want_zone; /* highest zone asked for since it last looked, or -1 */
	int failures;  /* passes in a row that reclaimed nothing */

	/* Of the pass that runs, or ran last. */
	int alloc_order;   /* asked for: what kcompactd gets */
	int reclaim_order; /* aimed at: 0 once enough was freed */
	int class_zone;
	int priority;
	int64_t boost; /* pages still to reclaim because watermarks are boosted */
	bool boosted;
	int64_t reclaimed;   /* in the pass */
	int64_t left, got;   /* of the round at this priority: to do, done */
	int64_t round_pages; /* nr_to_reclaim of the round */
	bool in_round;
};

void kswapd_init(struct kswapd *k, const struct model *m, int node);

/* wakeup_kswapd, for a request of that order up to `class_zone`. */
void kswapd_wakeup(struct reclaim_run *run, struct kswapd *k, uint32_t gfp_flags, int order,
		   int class_zone);
/* It is due: do the next thing, at model->now. */
void kswapd_step(struct reclaim_run *run, struct kswapd *k);
/* Tasks reclaim on its node themselves. */
void kswapd_overtaken(struct reclaim_run *run, struct kswapd *k, bool progress);

/* Whether it is on a CPU, or waits for one (kswapd_is_running). */
static inline bool kswapd_runs(const struct kswapd *k)
{
	return k->state != KSWAPD_ASLEEP && k->state != KSWAPD_NAPPING;
}

/* Whether a zone, or any zone of the node up to `class_zone`, has its high watermark free. */
bool zone_balanced(const struct model *m, const struct zone *zone, int order, int class_zone);
bool kswapd_balanced(const struct model *m, int node, int order, int class_zone);
/* Whether kswapd may go to sleep (prepare_kswapd_sleep), but for hopeless nodes. */
bool kswapd_may_sleep(const struct model *m, int node, int order, int class_zone);
/* The highest zone of the next pass, if nobody asked: `last` was that of the one before. */
int kswapd_default_zone(const struct model *m, int last);
