// SPDX-License-Identifier: Apache-2.0
/*
 * PCP auto-tuning: how many pages and lock holds of a load still reach the buddy allocator. The
 * load is one CPU whose use of memory is a triangle wave; the expected figures come from a
 * simulator of the kernel's rules alone.
 *
 * A wave of A pages takes A single pages one by one and gives them back, in one period.
 * Its events are evenly spaced; the vmstat tick comes each second, before the event due at
 * that time. The first quarter of the events warms up and is not counted.
 */
#include "policies/policies.h"
#include "check.h"
#include "toy.h"

#include <stdlib.h>

struct wave {
	int high_min, high_max;
	uint32_t pages;
	double period_s, length_s;
};

struct traffic {
	uint64_t pages, locks;
};

/* A kernel row after the policy changed it. */
static struct kernel tuned(const char *kernel, const char *spec)
{
	const struct kernel *row;
	struct policy_stack *stack;
	struct policy *owner;
	struct kernel copy;

	check(!kernel_find(&row, kernel, NULL));
	check(!policy_stack_new(&stack, policies, NULL));
	check(!policy_stack_add(stack, spec, NULL));
	copy = *row;
	owner = stack->owner.pcp_tuning;
	owner->ops->pcp_tuning(owner, &copy);
	policy_stack_free(stack);
	return copy;
}

static void machine_of(struct toy *t, const char *kernel, const struct wave *wave)
{
	const uint64_t pages = 1 << 19;
	const struct machine machine = toy_machine(9, 10);
	const struct zone_spec zone = {
		.type = ZONE_NORMAL, .spanned = pages, .present = pages, .managed = pages};

	toy_new_machine(t, kernel, &machine, &zone, 1);
	t->m->events = NULL;
	for (uint32_t pfn = 0; pfn < pages; pfn += 1024)
		toy_add_free(t, pfn, 10, 'M');
	t->pcp->batch = 63;
	t->pcp->high = t->pcp->high_min = wave->high_min;
	t->pcp->high_max = wave->high_max;
}

static struct traffic ride(const char *kernel, const char *spec, const struct wave *wave)
{
	const struct kernel row = tuned(kernel, spec);
	struct toy toy, *t = &toy;

	uint64_t *used = calloc(wave->pages, sizeof(*used));
	uint64_t events = (uint64_t)(wave->length_s / wave->period_s) * 2 * wave->pages;
	double step = wave->period_s / (2 * wave->pages), now = 0, next_tick = 1;
	struct traffic before = {0}, all;
	const struct counters *counters;

	machine_of(t, kernel, wave);
	t->m->kernel = &row;
	counters = &t->pcp->counters;
	for (uint64_t i = 0; i < events; i++) {
		uint32_t place = (uint32_t)(i % (2 * wave->pages));

		now += step;
		if (i == events / 4)
			before = (struct traffic){counters->refill_pages, counters->lock_holds};
		if (now >= next_tick) {
			pcp_tick(t->m, 0);
			next_tick += 1;
		}
		if (place < wave->pages)
			used[place] = toy_alloc(t, 0, 'M');
		else
			toy_free_page(t, (uint32_t)used[2 * wave->pages - 1 - place], 0);
	}
	all = (struct traffic){counters->refill_pages - before.pages,
			       counters->lock_holds - before.locks};
	free(used);
	toy_free(t);
	return all;
}

TEST(published_waves_have_the_traffic_of_the_kernel)
{
	static const struct {
		struct wave wave;
		struct traffic fixed, tuned;
	} cases[] = {
		/* a node of 128 GiB and 112 CPUs */
		{{448, 37449, 100, 1, 60}, {0, 0}, {0, 0}},
		{{448, 37449, 25000, 1, 60}, {1111320, 20610}, {148365, 1214}},
		{{448, 37449, 25000, 0.5, 60}, {2222640, 41220}, {157185, 1462}},
		{{448, 37449, 100000, 10, 120}, {897939, 16602}, {743337, 1890}},
		/* 20 GiB and 2 CPUs */
		{{10082, 337141, 25000, 1, 60}, {722925, 11835}, {146349, 1215}},
		{{10082, 337141, 100000, 10, 120}, {865998, 13890}, {525609, 1395}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct traffic got = ride("6.18", "pcp:mode=fixed", &cases[i].wave);

		check(got.pages == cases[i].fixed.pages);
		check(got.locks == cases[i].fixed.locks);
		got = ride("6.5", "pcp:mode=auto", &cases[i].wave);
		check(got.pages == cases[i].tuned.pages);
		check(got.locks == cases[i].tuned.locks);
	}
}

static bool rows_pcp_equal(const struct kernel *a, const struct kernel *b)
{
	return a->pcp_tuning == b->pcp_tuning && a->free_high == b->free_high &&
	       a->below_high == b->below_high && a->free_factor_max == b->free_factor_max &&
	       !a->decay == !b->decay;
}

TEST(the_modes_give_one_row_the_pcp_rules_of_another)
{
	struct kernel fixed = tuned("6.8", "pcp:mode=fixed"),
		      tuned_up = tuned("6.5", "pcp:mode=auto");
	struct kernel row_6_5 = tuned("6.5", "pcp"), row_6_8 = tuned("6.8", "pcp");
	struct kernel row_4_20 = tuned("4.20", "pcp:mode=fixed");

	check(rows_pcp_equal(&fixed, &row_6_5));
	check(rows_pcp_equal(&tuned_up, &row_6_8));
	check(tuned_up.pcp_scale_max == row_6_8.pcp_scale_max);
	check(row_4_20.pcp_tuning == PCP_FIXED);
	check(tuned("6.18", "pcp:scale_max=0").pcp_scale_max == 0);
}

/* The PCP of the one CPU, in a zone of 4 GiB, under a spec. */
static struct pcp limited(const char *kernel, const char *spec)
{
	static const struct wave recorded = {500, 9000, 1, 1, 1};
	struct policy *owner;
	struct toy t;
	struct pcp pcp;

	machine_of(&t, kernel, &recorded);
	t.zone->managed = 1 << 20;
	check(!policy_stack_add(t.policies, spec, NULL));
	owner = t.policies->owner.pcp_limits;
	owner->ops->pcp_limits(owner, t.m, t.zone, t.pcp);
	pcp = *t.pcp;
	toy_free(&t);
	return pcp;
}

TEST(numbers_given_replace_those_of_the_snapshot)
{
	struct pcp pcp = limited("6.18", "pcp");

	check(pcp.high_min == 500 && pcp.high_max == 9000 && pcp.high == 500 && pcp.batch == 63);
	pcp = limited("6.18", "pcp:high_min=700,high_max=800,batch=31");
	check(pcp.high_min == 700 && pcp.high_max == 800 && pcp.batch == 31);
	pcp = limited("6.18", "pcp:high_min=10000");
	check(pcp.high_min == 10000 && pcp.high_max == 10000);
	pcp = limited("6.18", "pcp:percpu_pagelist_high_fraction=8");
	check(pcp.high_min == 1 << 17 && pcp.high_max == 1 << 17 && pcp.batch == 63);
	pcp = limited("6.5", "pcp:high_min=700");
	check(pcp.high == 700);
	pcp = limited("6.18", "pcp:mode=fixed,profile=paper");
	check(pcp.high_min == 367);
	pcp = limited("6.18", "pcp:profile=paper");
	check(pcp.high_min == 367 && pcp.high_max == 37449);
	pcp = limited("6.18", "pcp:profile=paper,high_min=500");
	check(pcp.high_min == 500 && pcp.high_max == 37449);
}

/* A CPU's list with these pages and this size, in a zone of 4 GiB, after a write to the sysctl. */
static int high_after(const char *spec, struct pcp recorded)
{
	static const struct wave any = {500, 9000, 1, 1, 1};
	struct policy *owner;
	struct toy t;
	int high;

	machine_of(&t, "6.18", &any);
	t.zone->managed = 1 << 20;
	check(!policy_stack_add(t.policies, spec, NULL));
	owner = t.policies->owner.pcp_limits;
	t.pcp->count = recorded.count;
	t.pcp->high = recorded.high;
	t.pcp->high_min = recorded.high_min;
	t.pcp->high_max = recorded.high_max;
	owner->ops->pcp_limits(owner, t.m, t.zone, t.pcp);
	high = t.pcp->high;
	t.pcp->count = 0;
	toy_free(&t);
	return high;
}

TEST(a_tuned_high_stays_within_the_limits_of_the_sysctl)
{
	static const char share[] = "pcp:percpu_pagelist_high_fraction=64",
			  tuned[] = "pcp:percpu_pagelist_high_fraction=0";
	const struct pcp grown = {.count = 10, .high = 5000, .high_min = 500, .high_max = 9000};
	const struct pcp far = {.count = 10, .high = 1 << 20, .high_min = 500, .high_max = 2 << 20};
	const struct pcp fixed = {
		.count = 7000, .high = 16384, .high_min = 16384, .high_max = 16384};

	check(high_after(share, grown) == 1 << 14);
	check(high_after(tuned, grown) == 5000);
	check(high_after(tuned, far) == 1 << 17); /* an eighth of the zone */
	check(high_after(tuned, fixed) == 7000);
}

TEST(tick_ms_sets_the_tick_of_the_run)
{
	struct policy_stack *stack;
	struct policy *owner;

	check(!policy_stack_new(&stack, policies, NULL));
	owner = stack->owner.tick_ns;
	check(owner->ops->tick_ns(owner) == 0);
	check(!policy_stack_add(stack, "pcp:tick_ms=250", NULL));
	owner = stack->owner.tick_ns;
	check(owner->ops->tick_ns(owner) == 250000000);
	policy_stack_free(stack);
}

TEST(a_batch_of_0_drains_page_by_page)
{
	for_each_kernel(kernel, "2.6.31", "5.14", "6.12.117", "6.18")
	{
		TOY(t, toy_new_under, *kernel, "pcp:batch=0,high_min=0", toy_small("MMMM"));
		policy_stack_limit_pcps(t.policies, t.m);
		check(t.pcp->batch == 1);
		for (uint32_t page = 0; page < 20; page += 2)
			toy_free_page(&t, page, 0);
		pcp_tick(t.m, 0);
		pcp_drain_all(t.m);
		check(!t.pcp->count);
	}
}

/* Refills and drains of blocks of order 2: as many taken as a list of that size holds, then freed.
 */
struct run_of_blocks {
	uint32_t refills, refill_pages, drains;
};

static struct run_of_blocks take_and_free(const char *kernel, const char *spec)
{
	static const struct wave wave = {4000, 4000, 1, 1, 1};
	enum { BLOCKS = 900 };
	struct run_of_blocks got;
	uint32_t head[BLOCKS];
	struct kernel row;
	struct toy t;

	machine_of(&t, kernel, &wave);
	check(!policy_stack_add(t.policies, spec, NULL));
	row = *t.m->kernel;
	policy_stack_edit(t.policies, &row);
	t.m->kernel = &row;
	for (int i = 0; i < BLOCKS; i++)
		head[i] = (uint32_t)toy_alloc(&t, 2, 'M');
	for (int i = 0; i < BLOCKS; i++)
		toy_free_page(&t, head[i], 2);
	got = (struct run_of_blocks){(uint32_t)t.pcp->counters.refills,
				     (uint32_t)t.pcp->counters.refill_pages,
				     (uint32_t)t.pcp->counters.drains};
	toy_free(&t);
	return got;
}

TEST(alloc_batch_lifts_the_rules_of_high_orders)
{
	struct run_of_blocks kernel = take_and_free("6.12.117", "alloc_batch");
	struct run_of_blocks scaled = take_and_free("6.12.117", "alloc_batch:refill=scaled");
	struct run_of_blocks whole = take_and_free("6.12.117", "alloc_batch:free=whole");

	check(kernel.refills == 60 && kernel.refill_pages == 3600); /* 63 >> 2 blocks each */
	check(scaled.refills == 6); /* 63, 126, 252, 504, 1008, 2016 pages */
	check(whole.refills == kernel.refills && scaled.drains == kernel.drains);
	check(kernel.drains && !whole.drains);
}

TEST(each_step_of_the_series_changes_its_own_rule)
{
	struct run_of_blocks base = take_and_free("6.18", "pcp:series=base");
	struct run_of_blocks row = take_and_free("6.5", "pcp");
	struct kernel last = tuned("6.5", "pcp:series=9"), merged = tuned("6.8", "pcp");
	static const struct wave wave = {367, 37449, 25000, 1, 20};
	struct traffic scaled, plain, grown;

	check(base.refills == row.refills && base.drains == row.drains);
	check(rows_pcp_equal(&last, &merged) && last.free_count == merged.free_count);
	check(last.refill_scaling == merged.refill_scaling && last.decay == merged.decay);
	plain = ride("6.18", "pcp:series=3", &wave);
	scaled = ride("6.18", "pcp:series=5", &wave);
	grown = ride("6.18", "pcp:series=7", &wave);
	check(scaled.locks < plain.locks);          /* patch 5: fewer and larger refills ... */
	check(scaled.pages > plain.pages * 9 / 10); /* ... of as many pages */
	check(grown.pages < plain.pages / 2);       /* patch 7: lists that hold the wave */
	/* One free of order 1 to 3 between others empties the list only before patch 1. */
	check(tuned("6.18", "pcp:series=base").free_high == FREE_HIGH_FACTOR);
	check(tuned("6.18", "pcp:series=1").free_high == FREE_HIGH_TWICE);
	check(tuned("6.18", "pcp:series=3").free_high == FREE_HIGH_LONG_LIST);
}

/* The drains of frees of orders 0 and 2 in turns: no two of order 2 in a row. */
static uint64_t drains_of_turns(const char *spec)
{
	static const struct wave wave = {4000, 4000, 1, 1, 1};
	struct kernel row = tuned("6.18", spec);
	uint64_t drains;
	struct toy t;

	machine_of(&t, "6.18", &wave);
	t.m->kernel = &row;
	t.pcp->free_factor = 1;
	for (int i = 0; i < 20; i++) {
		uint32_t page = (uint32_t)toy_alloc(&t, 0, 'M');
		uint32_t block = (uint32_t)toy_alloc(&t, 2, 'M');

		t.pcp->free_factor = 1;
		toy_free_page(&t, page, 0);
		toy_free_page(&t, block, 2);
	}
	drains = t.pcp->counters.drains;
	toy_free(&t);
	return drains;
}

TEST(only_frees_of_high_order_in_a_row_drain_since_patch_1)
{
	check(drains_of_turns("pcp:series=base") == 20);
	check(drains_of_turns("pcp:series=1") == 0);
}
