// SPDX-License-Identifier: Apache-2.0
/*
 * The programs and the logic of a precopied snapshot over simulated lists that change all the time,
 * against what the lists really were at the cut.
 */
#include "check.h"
#include "precopy_kernel.h"

#include <stdlib.h>
#include <string.h>

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
static int meetings; /* of all snapshots of a test, and the next one */
static uint32_t hindered[NR_SNAPSHOT_HINDRANCES];

static bool take(const struct sim_options *options)
{
	struct snapshot *s = sim_new(options);
	struct snapshot_result result = {.zones = s->zones, .nr_zones = options->zones};
	bool exact, is_true;

	check(precopy_take(s, 0, &result, NULL) == 0);
	exact = result.exact;
	meetings += result.meetings;
	for (int i = 0; i < NR_SNAPSHOT_HINDRANCES; i++)
		hindered[i] += result.hindered[i];
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
	memset(hindered, 0, sizeof(hindered));
	for (int seed = 1; seed <= runs; seed++) {
		options.seed = (uint64_t)seed;
		exact += take(&options);
	}
	return exact;
}

TEST(lists_that_change_all_the_time_are_exact)
{
	check(exact_of(busy, 200) == 200);
}

TEST(frees_past_the_pcps_are_exact)
{
	struct sim_options options = busy;

	options.interrupts = 0.2;
	check(exact_of(options, 100) == 100);
	check(meetings == 100); /* one each: nothing had to be repaired */
}

TEST(changes_without_an_event_are_never_believed)
{
	struct sim_options options = busy;

	options.silent = 0.01;
	check(exact_of(options, 100) >= 90);
}

TEST(a_machine_that_changes_too_fast_is_never_shown_wrongly)
{
	struct sim_options options = busy;

	options.changes_per_ms = 20000;
	options.max_us = 50;
	check(exact_of(options, 10) < 10); /* the tenth is exact */
}

TEST(pageblocks_that_change_their_type_are_exact)
{
	struct sim_options options = busy;

	options.cross = 0.05;
	check(exact_of(options, 100) >= 95);
}

/* The simulated allocations take pages of the last zone. */
TEST(an_allocation_from_a_zone_with_fewer_blocks_is_waited_for)
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
	check(result.meetings > 1 && !result.cut_pfn);
	release(&result);
	sim_free();
}

TEST(cpus_that_never_meet_are_not_waited_for_long)
{
	struct sim_options options = busy;

	options.apart = UINT32_MAX;
	check(exact_of(options, 3) == 0);
	check(meetings <= 3 * 2 * 40);
	check(hindered[SNAPSHOT_APART] == (uint32_t)meetings);
}

TEST(cpus_that_meet_in_the_end_are_waited_for)
{
	struct sim_options options = busy;

	options.apart = 50; /* more than the meetings of one image */
	check(exact_of(options, 10) == 10);
	check(hindered[SNAPSHOT_APART] == 10 * options.apart);
}

TEST(memory_without_a_block_for_the_cut_is_exact)
{
	struct sim_options options = busy;

	options.unmarked = true;
	check(exact_of(options, 100) == 100);
	check(hindered[SNAPSHOT_UNMARKED] == 100 && meetings == 200);
}

TEST(lists_that_compaction_turns_over_are_exact)
{
	struct sim_options options = busy;

	options.turns = 0.01;
	check(exact_of(options, 100) == 100);
	check(hindered[SNAPSHOT_CONTRADICTED] < 10);
}

TEST(lists_that_outgrow_the_maps_say_so_at_once)
{
	struct sim_options options = busy;

	options.max_entries = (uint32_t)options.free_blocks;
	check(exact_of(options, 3) == 0);
	check(hindered[SNAPSHOT_FULL] == 3 && meetings == 0);
}

TEST(pageblocks_that_change_silently_take_another_meeting)
{
	struct sim_options options = busy;

	options.cross = 0.05;
	options.pages = 1 << 18; /* most pageblocks have no free page */
	options.silent = 0.1;
	check(exact_of(options, 100) >= 95);
	check(hindered[SNAPSHOT_RETYPED] > 0);
}
