// SPDX-License-Identifier: Apache-2.0
/*
 * Limits that change while a tape is recorded. The machine is that of free_run.h: a CPU and a zone
 * NORMAL of 4096 pages on each of two nodes, with watermarks 8, 16 and 32.
 */
#include "check.h"
#include "free_run.h"

#include <errno.h>

struct limit {
	uint64_t at;
	int what;
	int64_t value;
};

/* Load rows about node 0's zone. */
static int load(struct tape *t, const struct limit *limits, size_t nr, struct error *err)
{
	struct batch *batch = toy_rows(&new_limit_table, nr);
	struct new_limit_columns *c = (struct new_limit_columns *)batch->slots;
	int ret;

	for (size_t i = 0; i < nr; i++) {
		c->at[i] = limits[i].at;
		c->node[i] = 0;
		c->zone[i] = ZONE_NORMAL;
		c->upper_zone[i] = ZONE_MOVABLE;
		set_valid(c->upper_zone_valid, i);
		c->what[i] = (uint8_t)limits[i].what;
		c->value[i] = limits[i].value;
	}
	ret = tape_hand_over(t->r, batch, false, err);
	batch_free(batch);
	return ret;
}

/* A run of two requests of CPU 0, with the limits; the caller frees it. */
static void play(struct tape *t, const struct limit *limits, size_t nr)
{
	struct error err;

	check(!load(t, limits, nr, &err));
	tape_alloc(t, 0, 1000, 0);
	tape_alloc(t, 0, 1001, 0);
	tape_play(t);
}

TEST(a_zone_has_its_new_limits_from_their_row_on)
{
	static const struct limit limits[] = {
		{1, NEW_LIMIT_WHAT_WMARK_MIN, 700},  {1, NEW_LIMIT_WHAT_WMARK_LOW, 800},
		{1, NEW_LIMIT_WHAT_WMARK_HIGH, 900}, {1, NEW_LIMIT_WHAT_WMARK_PROMO, 1000},
		{1, NEW_LIMIT_WHAT_MANAGED, 8192},   {1, NEW_LIMIT_WHAT_LOWMEM_RESERVE, 77},
		{2, NEW_LIMIT_WHAT_WMARK_MIN, 0}, /* after the last request */
	};
	const struct zone *zone;

	TAPE(t, tape_new, "6.18");
	zone = &replay_model(t.r)->zones[0];
	play(&t, limits, COUNT(limits));
	check(zone->wmark[WMARK_MIN] == 700 && zone->wmark[WMARK_LOW] == 800 &&
	      zone->wmark[WMARK_HIGH] == 900 && zone->wmark_promo == 1000);
	check(zone->managed == 8192 && zone->lowmem_reserve[ZONE_MOVABLE] == 77);
	check(replay_model(t.r)->zones[1].wmark[WMARK_MIN] == 8);
}

TEST(lists_get_the_limits_that_the_kernel_gives_them)
{
	static const struct limit limits[] = {{1, NEW_LIMIT_WHAT_WMARK_LOW, 800},
					      {1, NEW_LIMIT_WHAT_MANAGED, 16384}};
	const struct pcp *pcp;
	struct tape t;

	tape_new(&t, "6.18");
	pcp = &replay_model(t.r)->pcps[0];
	play(&t, limits, COUNT(limits));
	/* One CPU on the node. The refill moves the tuned high into its new limits. */
	check(pcp->high_min == 800 && pcp->high_max == 16384 / 8 && pcp->high >= 800);
	tape_free(&t);

	tape_new(&t, "6.5");
	play(&t, limits, COUNT(limits));
	check(replay_model(t.r)->pcps[0].high == 800);
	tape_free(&t);
}

TEST(lists_follow_the_sysctl)
{
	static const struct limit limits[] = {{1, NEW_LIMIT_WHAT_HIGH_FRACTION, 8}};
	const struct pcp *pcp;

	TAPE(t, tape_new, "6.18");
	pcp = &replay_model(t.r)->pcps[0];
	play(&t, limits, COUNT(limits));
	check(pcp->high_min == ZONE_PAGES / 8 && pcp->high_max == ZONE_PAGES / 8);
}

TEST(lists_that_the_kernel_row_would_size_otherwise_stay)
{
	static const struct limit limits[] = {{1, NEW_LIMIT_WHAT_WMARK_LOW, 800}};
	struct pcp *pcp;

	TAPE(t, tape_new, "6.18");
	pcp = &replay_model(t.r)->pcps[0];
	pcp->high_max = 1001;
	play(&t, limits, COUNT(limits));
	check(pcp->high_max == 1001 && pcp->high_min < 800);
	check(replay_model(t.r)->zones[0].wmark[WMARK_LOW] == 800);
}

TEST(rows_that_no_kernel_writes_are_refused)
{
	static const struct limit bad[][2] = {
		{{0, NR_NEW_LIMIT_WHAT, 0}, {0, NEW_LIMIT_WHAT_MANAGED, 1}},
		{{0, NEW_LIMIT_WHAT_MANAGED, 1}, {0, NEW_LIMIT_WHAT_WMARK_LOW, -1}},
		{{0, NEW_LIMIT_WHAT_MANAGED, 1}, {0, NEW_LIMIT_WHAT_HIGH_FRACTION, 1ll << 40}},
		{{5, NEW_LIMIT_WHAT_MANAGED, 1}, {4, NEW_LIMIT_WHAT_MANAGED, 1}},
	};
	struct error err;

	for (size_t i = 0; i < COUNT(bad); i++) {
		TAPE(t, tape_new, "6.18");
		check(load(&t, bad[i], 2, &err) == -EINVAL);
	}
}
