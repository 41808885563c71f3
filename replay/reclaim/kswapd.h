/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kswapd.h - the model's kswapd, one per node.
 *
 *   asleep     until an allocation wakes it
 *   waking     woken, not running yet
 *   balancing  a pass: it scans the LRU lists by priority until a zone is balanced
 *              (balance_pgdat)
 *   napping    100 ms, to test whether the balance holds
 *   napped     woken by the timer, not running yet; then it sleeps or starts a pass
 *
 * From mm/vmscan.c of 6.12 and 7.2: kswapd, kswapd_try_to_sleep, balance_pgdat, wakeup_kswapd,
 * shrink_lruvec, and of the multi-generational LRU lru_gen_shrink_node, set_initial_priority,
 * try_to_shrink_lruvec and should_abort_scan.
 * The kernel row (kswapd_sleep) says when kswapd may sleep and which zones it looks at: the
 * rules of 4.10, and the three patches that became 4.12 (e716f2eb24de).
 *
 * kswapd does not call kcompactd. Its functions return the wakeups for the node's kcompactd.
 */
#pragma once

#include "kcompactd.h"
#include "reclaim_parts.h"
#include "model/zone.h"

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
	int32_t pid; /* pid of the recorded kswapd, or 0 */
	uint16_t cpu;
	bool called;       /* a request has called it since the end of its nap */
	uint64_t due;      /* ns of its next step, or UINT64_MAX */
	uint64_t slept_at; /* ns when it fell asleep, until a sleep proves premature; or 0 */
	int want_order;    /* highest order requested since its last look */
	int want_zone;     /* highest zone requested since then, or -1 */
	int failures;      /* consecutive passes that reclaimed nothing */

	/* Of the current or last pass. */
	int alloc_order;   /* requested order, passed on to kcompactd */
	int reclaim_order; /* order of the balance test; 0 once enough is freed */
	int class_zone;
	int priority;
	int64_t boost; /* pages still to reclaim because watermarks are boosted */
	bool boosted;
	int64_t reclaimed;          /* pages of the pass */
	int64_t left, scanned, got; /* pages of the round: still to scan, scanned, reclaimed */
	int64_t round_pages;        /* nr_to_reclaim of the round */
	bool in_round;
	struct scan_cursor cursor;
	const struct scan_row *last; /* recorded scan that it took last, or NULL */
	uint64_t yield;              /* of the scans so far, less what they took: 1/1024 pages */
};

/* The wakeups of kcompactd from one step, in this order. */
struct kswapd_wants {
	struct kcompactd_wake after_boost; /* end of a pass that reclaimed for a boost */
	struct kcompactd_wake before_nap;  /* begin of a nap */
};

/* A kswapd that is asleep. */
void kswapd_init(struct kswapd *k, const struct model *m, int node);
/* The run starts within a pass, whose order and zones are unknown: all zones, order 0. */
void kswapd_start_in_pass(const struct reclaim_parts *parts, struct kswapd *k);
/* The run starts within a nap, which nothing cuts short before `until`. */
void kswapd_start_napping(struct kswapd *k, uint64_t until);

/*
 * A request of this order, up to `class_zone`, calls kswapd (wakeup_kswapd). Without a reason to
 * run, kswapd stays asleep; the result may be a wakeup of kcompactd instead.
 */
struct kcompactd_wake kswapd_wakeup(const struct reclaim_parts *parts, struct kswapd *k,
				    uint32_t gfp_flags, int order, int class_zone);

/* Run the due step of kswapd at model->now. */
struct kswapd_wants kswapd_step(const struct reclaim_parts *parts, struct kswapd *k);

/* A request did direct reclaim on the node; `progress`: that freed pages. */
void kswapd_overtaken(const struct model *m, struct kswapd *k, const struct request *rq,
		      bool progress);

/* Whether kswapd is on a CPU, or waits for one (kswapd_is_running). */
static inline bool kswapd_runs(const struct kswapd *k)
{
	return k->state != KSWAPD_ASLEEP && k->state != KSWAPD_NAPPING;
}

/* Whether any zone of the node up to `class_zone` is balanced (watermark.h), or it has none. */
bool kswapd_balanced(const struct model *m, int node, int order, int class_zone);
/* Whether kswapd may sleep (prepare_kswapd_sleep). The caller handles hopeless nodes. */
bool kswapd_may_sleep(const struct model *m, int node, int order, int class_zone);
/* The highest zone of the next pass if no request named one; `last`: that of the previous pass. */
int kswapd_default_zone(const struct model *m, int last);
