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
enum { PROFILE_OWN, PROFILE_PAPER };
enum { UNSET = -1, SCALE_MAX_DEFAULT = 5 };

/*
 * Of the machine that the authors of the tuning measured on: 112 CPUs and 128 GB per node. A list
 * of one size has the low watermark's share of a CPU; the tuned one at most 1/8 of the memory's.
 */
enum { PAPER_HIGH_MIN = 367, PAPER_HIGH_MAX = 37449 };

struct pcp_policy {
	int64_t mode, series, profile, high_min, high_max, batch, scale_max, fraction, tick_ms;
	bool new_tuning; /* the rules of tuning differ from those of the run's row */
};

/* The rules of PCPs after a patch of the series that was merged for 6.7, on top of 6.6. */
struct step {
	uint8_t pcp_tuning, free_high, free_factor_max, refill_scaling, decay;
	bool below_high, free_count;
};

enum { SERIES_NONE, SERIES_BASE, SERIES_1, SERIES_3, SERIES_5, SERIES_7, SERIES_9 };

static const struct step series[] = {
	[SERIES_BASE] = {PCP_FREE_FACTOR, FREE_HIGH_FACTOR, 0, REFILL_PLAIN, DECAY_NONE, false,
			 false},
	[SERIES_1] = {PCP_FREE_FACTOR, FREE_HIGH_TWICE, 0, REFILL_PLAIN, DECAY_NONE, false, false},
	[SERIES_3] = {PCP_FREE_FACTOR, FREE_HIGH_LONG_LIST, 0, REFILL_PLAIN, DECAY_NONE, false,
		      false},
	[SERIES_5] = {PCP_FREE_FACTOR, FREE_HIGH_LONG_LIST, SCALE_MAX_DEFAULT, REFILL_ORDER_0,
		      DECAY_NONE, false, false},
	[SERIES_7] = {PCP_AUTO, FREE_HIGH_LONG_LIST, SCALE_MAX_DEFAULT, REFILL_ORDER_0,
		      DECAY_AT_ONCE, false, false},
	[SERIES_9] = {PCP_AUTO, FREE_HIGH_BATCH, 0, REFILL_ORDER_0, DECAY_AT_ONCE, true, true},
};

static void take_step(struct kernel *row, const struct step *step)
{
	row->pcp_tuning = step->pcp_tuning;
	row->free_high = step->free_high;
	row->free_factor_max = step->free_factor_max;
	row->refill_scaling = step->refill_scaling;
	row->decay = step->decay;
	row->below_high = step->below_high;
	row->free_count = step->free_count;
}

static void make_fixed(struct kernel *row)
{
	if (row->pcp_tuning == PCP_AUTO)
		take_step(row, &series[SERIES_BASE]);
}

static void make_auto(struct kernel *row)
{
	if (row->pcp_tuning == PCP_AUTO)
		return;
	take_step(row, &series[SERIES_9]);
	row->decay = DECAY_PIECES;
	row->pcp_scale_max = SCALE_MAX_DEFAULT;
}

static void pcp_pcp_tuning(struct policy *self, struct kernel *row)
{
	struct pcp_policy *pp = self->state;
	const struct kernel before = *row;

	if (pp->mode == MODE_FIXED)
		make_fixed(row);
	if (pp->mode == MODE_AUTO)
		make_auto(row);
	if (pp->series != SERIES_NONE) {
		take_step(row, &series[pp->series]);
		row->pcp_scale_max = SCALE_MAX_DEFAULT;
	}
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
	bool tuned = m->kernel->pcp_tuning == PCP_AUTO, is_paper = pp->profile == PROFILE_PAPER;
	int64_t high_min = is_paper && pp->high_min == UNSET ? PAPER_HIGH_MIN : pp->high_min;
	int64_t high_max = is_paper && pp->high_max == UNSET ? PAPER_HIGH_MAX : pp->high_max;

	if (pp->fraction != UNSET)
		set_fraction(pp, m, zone, pcp);
	if (pp->batch != UNSET)
		pcp->batch = pp->batch ? (int)pp->batch : 1;
	if (high_min != UNSET)
		pcp->high_min = (int)high_min;
	if (high_min != UNSET && (!tuned || high_max == UNSET))
		pcp->high = (int)high_min;
	if (!tuned)
		return;
	if (high_max != UNSET)
		pcp->high_max = (int)high_max;
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
static const char *const steps[] = {"none", "base", "1", "3", "5", "7", "9", NULL};
static const char *const profiles[] = {"own", "paper", NULL};

#define PARAM(name, least, most, doc)                                                              \
	{#name, least, most, UNSET, offsetof(struct pcp_policy, name), NULL, doc}

static const struct policy_param pcp_params[] = {
	{"mode", MODE_ROW, MODE_AUTO, MODE_ROW, offsetof(struct pcp_policy, mode), modes,
	 "row: as the kernel row; fixed: one size (up to 6.6); auto: by load (6.7 and later)."},
	{"series", SERIES_NONE, SERIES_9, SERIES_NONE, offsetof(struct pcp_policy, series), steps,
	 "Rules after that patch of the series merged for 6.7, V3; base: 6.6. Instead of mode."},
	{"profile", PROFILE_OWN, PROFILE_PAPER, PROFILE_OWN, offsetof(struct pcp_policy, profile),
	 profiles, "paper: high_min=367 and high_max=37449, of the authors' machine."},
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
