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
 * The kernel row (kswapd_sleep) says when kswapd may sleep and which zones it looks at: the
 * rules of 4.10, and the three patches that became 4.12 (e716f2eb24de).
 *
 * kswapd wakes nobody itself. Its functions return what they want of the node's kcompactd.
 */
#pragma once

#include "kcompactd.h"
#include "reclaim_parts.h"

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
	bool called;       /* a request called it since its nap was over */
	uint64_t due;      /* ns of its next step, or UINT64_MAX */
	uint64_t slept_at; /* ns when it fell asleep, until that proves premature; or 0 */
	int want_order;    /* highest order asked for since it last looked */
	int want_zone;     /* highest zone asked for since then, or -1 */
	int failures;      /* passes in a row that reclaimed nothing */

	/* Of the pass that runs, or ran last. */
	int alloc_order;   /* asked for: kcompactd gets it */
	int reclaim_order; /* aimed at: 0 once enough was freed */
	int class_zone;
	int priority;
	int64_t boost; /* pages still to reclaim because watermarks are boosted */
	bool boosted;
	int64_t reclaimed;   /* pages of the pass */
	int64_t left, got;   /* pages of the round at this priority: to do, done */
	int64_t round_pages; /* nr_to_reclaim of the round */
	bool in_round;
};

/* The wakeups of kcompactd that one step wants, in this order. */
struct kswapd_wants {
	struct kcompactd_wake after_boost; /* a pass that reclaimed for a boost is over */
	struct kcompactd_wake before_nap;  /* kswapd begins to nap */
};

void kswapd_init(struct kswapd *k, const struct model *m, int node);

/*
 * A request of that order up to `class_zone` calls (wakeup_kswapd). Without a reason to run,
 * kswapd stays asleep and the request may want kcompactd instead.
 */
struct kcompactd_wake kswapd_wakeup(const struct reclaim_parts *parts, struct kswapd *k,
				    uint32_t gfp_flags, int order, int class_zone);

/* kswapd is due: do the next step, at model->now. */
struct kswapd_wants kswapd_step(const struct reclaim_parts *parts, struct kswapd *k);

/* A task reclaimed on the node itself; `progress`: it freed pages. */
void kswapd_overtaken(const struct model *m, struct kswapd *k, bool progress);

/* Whether kswapd is on a CPU, or waits for one (kswapd_is_running). */
static inline bool kswapd_runs(const struct kswapd *k)
{
	return k->state != KSWAPD_ASLEEP && k->state != KSWAPD_NAPPING;
}

/* Whether a zone, or any zone of the node up to `class_zone`, has its high watermark free. */
bool zone_balanced(const struct model *m, const struct zone *zone, int order, int class_zone);
bool kswapd_balanced(const struct model *m, int node, int order, int class_zone);
/* Whether kswapd may sleep (prepare_kswapd_sleep). Hopeless nodes are the caller's business. */
bool kswapd_may_sleep(const struct model *m, int node, int order, int class_zone);
/* The highest zone of the next pass if no request asked for one; `last`: of the pass before. */
int kswapd_default_zone(const struct model *m, int last);
