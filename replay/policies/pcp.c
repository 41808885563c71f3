// SPDX-License-Identifier: Apache-2.0
/*
 * pcp - sizes of the per-CPU page lists, and of their refills and drains.
 *
 * `fixed` is 5.14 to 6.6: lists of one size, refills of one batch, drains that grow while
 * nothing is allocated (free_factor). A row with older lists stays as it is, because those
 * have a fixed size as well. `auto` is the tuning merged for 6.7 (90b41691b988, 51a755c56dc0,
 * c0a242394cb9, 57c0419c5f0e, 6ccdcb6d3a74): the size follows the load between high_min and
 * high_max, consecutive refills double, and the vmstat tick lets the lists shrink, piece by
 * piece as in 6.18. `row` leaves the kernel row as it is.
 *
 * The numbers override those of the snapshot or of the row's formula, for every PCP.
 */
#include "min_max.h"
#include "pcp.h"
#include "policy.h"
#include "policy_stack.h"

enum { MODE_ROW, MODE_FIXED, MODE_AUTO };
enum { UNSET = -1, SCALE_MAX_DEFAULT = 5 };

struct pcp_policy {
	int64_t mode, high_min, high_max, batch, scale_max, fraction, tick_ms;
	bool new_tuning; /* the rules of tuning differ from those of the run's row */
};

static void make_fixed(struct kernel *row)
{
	if (row->pcp_tuning != PCP_AUTO)
		return;
	row->pcp_tuning = PCP_FREE_FACTOR;
	row->free_high = FREE_HIGH_FACTOR;
	row->below_high = false;
	row->decay = DECAY_NONE;
}

static void make_auto(struct kernel *row)
{
	if (row->pcp_tuning == PCP_AUTO)
		return;
	row->pcp_tuning = PCP_AUTO;
	row->below_high = true;
	row->decay = DECAY_PIECES;
	row->pcp_scale_max = SCALE_MAX_DEFAULT;
	if (row->free_high == FREE_HIGH_FACTOR)
		row->free_high = FREE_HIGH_BATCH;
}

static void pcp_pcp_tuning(struct policy *self, struct kernel *row)
{
	struct pcp_policy *pp = self->state;
	const struct kernel before = *row;

	if (pp->mode == MODE_FIXED)
		make_fixed(row);
	if (pp->mode == MODE_AUTO)
		make_auto(row);
	if (pp->scale_max != UNSET)
		row->pcp_scale_max = (uint8_t)pp->scale_max;
	pp->new_tuning = !kernel_rules_same(&before, row);
}

/*
 * Limits by the sysctl. An auto-tuned high stays, within its new limits (pageset_update, 6.7
 * to 7.3). The high of a list of one size is not tuned: the tuned size that held its pages was at
 * least as large as they are many.
 */
static void set_fraction(const struct pcp_policy *pp, const struct model *m,
			 const struct zone *zone, struct pcp *pcp)
{
	int high = pcp->high_min == pcp->high_max ? pcp->count : pcp->high;

	pcp_size(m, zone, pcp, (int)pp->fraction);
	if (m->kernel->pcp_tuning == PCP_AUTO)
		pcp->high = clamp_int(high, pcp->high_min, pcp->high_max);
}

static void set_limits(const struct pcp_policy *pp, const struct model *m, const struct zone *zone,
		       struct pcp *pcp)
{
	bool tuned = m->kernel->pcp_tuning == PCP_AUTO;

	if (pp->fraction != UNSET)
		set_fraction(pp, m, zone, pcp);
	if (pp->batch != UNSET)
		pcp->batch = pp->batch ? (int)pp->batch : 1;
	if (pp->high_min != UNSET)
		pcp->high_min = (int)pp->high_min;
	if (pp->high_min != UNSET && (!tuned || pp->high_max == UNSET))
		pcp->high = (int)pp->high_min;
	if (!tuned)
		return;
	if (pp->high_max != UNSET)
		pcp->high_max = (int)pp->high_max;
	if (pcp->high_max < pcp->high_min)
		pcp->high_max = pcp->high_min;
}

static void pcp_pcp_limits(struct policy *self, const struct model *m, const struct zone *zone,
			   struct pcp *pcp)
{
	set_limits(self->state, m, zone, pcp);
}

static uint64_t pcp_tick_ns(struct policy *self)
{
	const struct pcp_policy *pp = self->state;

	return pp->tick_ms == UNSET ? 0 : (uint64_t)pp->tick_ms * 1000000;
}

static void pcp_effect(struct policy *self, const struct model *m, const struct counters *total,
		       struct policy_effect *effect)
{
	const struct pcp_policy *pp = self->state;
	int nr_resized = m->policies->nr_resized_pcps;
	uint64_t moves = total->refills + total->drains + total->decays;

	if (!pp->new_tuning && !nr_resized && pp->tick_ms == UNSET)
		effect_never(effect, "every PCP has these sizes and rules already");
	else if (!moves)
		effect_never(effect, "no PCP was refilled or drained");
	else
		effect_decided(effect, moves, EFFECT_UNKNOWN,
			       "resized %d of %d PCPs%s, which were refilled or drained %llu "
			       "time%s",
			       nr_resized, m->nr_zones * m->nr_cpus,
			       pp->new_tuning ? " and changed their tuning" : "",
			       (unsigned long long)moves, plural(moves));
}

static const char *const modes[] = {"row", "fixed", "auto", NULL};

#define PARAM(name, least, most, doc)                                                              \
	{#name, least, most, UNSET, offsetof(struct pcp_policy, name), NULL, doc}

static const struct policy_param pcp_params[] = {
	{"mode", MODE_ROW, MODE_AUTO, MODE_ROW, offsetof(struct pcp_policy, mode), modes,
	 "row: as the kernel row; fixed: one size (up to 6.6); auto: by load (6.7 and later)."},
	PARAM(high_min, UNSET, 1 << 24, "Pages a PCP may always hold; a fixed one holds no more."),
	PARAM(high_max, UNSET, 1 << 24, "Pages an auto-tuned list may grow to."),
	PARAM(batch, UNSET, 1 << 20, "Pages of one refill or drain; 0 counts as 1."),
	PARAM(scale_max, UNSET, PCP_SCALE_MOST, "CONFIG_PCP_BATCH_SCALE_MAX: batch << this."),
	{"percpu_pagelist_high_fraction", UNSET, 1 << 24, UNSET,
	 offsetof(struct pcp_policy, fraction), NULL,
	 "The sysctl: 8 and more is that share of the zone, not tuned; 0 by the watermark."},
	PARAM(tick_ms, UNSET, 3600000, "vm.stat_interval: time between two decays."),
	{0},
};

const struct policy_ops pcp_policy = {
	.name = "pcp",
	.doc = "How much memory the per-CPU page lists hold; -1 leaves a number as it is.",
	.kernel = "5.14 (fixed), 6.7 (auto)",
	.tier = "A",
	.state_size = sizeof(struct pcp_policy),
	.params = pcp_params,
	.pcp_tuning = pcp_pcp_tuning,
	.pcp_limits = pcp_pcp_limits,
	.tick_ns = pcp_tick_ns,
	.effect = pcp_effect,
};
