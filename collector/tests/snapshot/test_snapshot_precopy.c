// SPDX-License-Identifier: Apache-2.0
/*
 * The programs and the logic of a precopied snapshot over simulated lists that change all the time,
 * against what the lists really were at the cut.
 */
#include "check.h"
#include "precopy_kernel.h"

#include <stdlib.h>

static const struct sim_options busy = {
	.pages = 1 << 16,
	.zones = 2,
	.cpus = 3,
	.free_blocks = 3000,
	.pcp_pages = 400,
	.changes_per_ms = 1000,
	.cross = 0.002,
	.read_ns = 60,
	.max_us = 200,
	.remember = true,
};

static void release(struct snapshot_result *result)
{
	for (int t = 0; t < SNAPSHOT_TABLES; t++)
		batch_free(result->tables[t]);
}

/* Take one; whether it is exact. One that claims to be must show the truth. */
static int meetings; /* of all snapshots of a test */

static bool take(const struct sim_options *options)
{
	struct snapshot *s = sim_new(options);
	struct snapshot_result result = {.zones = s->zones, .nr_zones = options->zones};
	bool exact, is_true;

	check(precopy_take(s, 0, &result, NULL) == 0);
	exact = result.exact;
	meetings += result.meetings;
	is_true = !exact || sim_shows_the_truth(&result);
	check(is_true);
	if (!exact || !is_true)
		printf("# seed %llu: %s after %d images, %d meetings\n",
		       (unsigned long long)options->seed, exact ? "WRONG" : "not exact",
		       result.attempts, result.meetings);
	check(sim_changes() > options->changes_per_ms / 2);
	release(&result);
	sim_free();
	return exact;
}

static int exact_of(struct sim_options options, int runs)
{
	int exact = 0;

	meetings = 0;
	for (int seed = 1; seed <= runs; seed++) {
		options.seed = (uint64_t)seed;
		exact += take(&options);
	}
	return exact;
}

static void lists_that_change_all_the_time_are_exact(void)
{
	check(exact_of(busy, 200) == 200);
}

static void frees_past_the_pcps_are_exact(void)
{
	struct sim_options options = busy;

	options.interrupts = 0.2;
	check(exact_of(options, 100) == 100);
	check(meetings == 100); /* one each: nothing had to be repaired */
}

static void changes_without_an_event_are_never_believed(void)
{
	struct sim_options options = busy;

	options.silent = 0.01;
	check(exact_of(options, 100) >= 90);
}

static void a_machine_that_changes_too_fast_is_never_shown_wrongly(void)
{
	struct sim_options options = busy;

	options.changes_per_ms = 20000;
	options.max_us = 50;
	check(exact_of(options, 20) < 20);
}

static void pageblocks_that_change_their_type_are_exact(void)
{
	struct sim_options options = busy;

	options.cross = 0.05;
	check(exact_of(options, 100) >= 95);
}

/* The simulated allocations take pages of the last zone. */
static void an_allocation_from_a_zone_with_fewer_blocks_is_waited_for(void)
{
	struct sim_options options = busy;
	struct snapshot *s;
	struct zone_place *places;
	struct snapshot_result result;

	options.seed = 1;
	s = sim_new(&options);
	places = s->maps[PLACES].memory;
	result = (struct snapshot_result){.zones = s->zones, .nr_zones = options.zones};
	places[0].free_blocks = places[options.zones - 1].free_blocks + 1;
	check(precopy_take(s, 0, &result, NULL) == 0);
	check(result.exact && sim_shows_the_truth(&result));
	check(result.meetings > 1);
	release(&result);
	sim_free();
}

static void cpus_that_never_meet_are_not_waited_for_long(void)
{
	struct sim_options options = busy;

	options.apart = true;
	check(exact_of(options, 3) == 0);
	check(meetings <= 3 * 2 * 40);
}

int main(void)
{
	test(lists_that_change_all_the_time_are_exact);
	test(frees_past_the_pcps_are_exact);
	test(changes_without_an_event_are_never_believed);
	test(a_machine_that_changes_too_fast_is_never_shown_wrongly);
	test(pageblocks_that_change_their_type_are_exact);
	test(an_allocation_from_a_zone_with_fewer_blocks_is_waited_for);
	test(cpus_that_never_meet_are_not_waited_for_long);
	return check_done();
}
