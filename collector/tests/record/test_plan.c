// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "record/plan.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#define MB (1ull << 20)
#define GB (1ull << 30)

static struct plan plan_of(int cpus, uint64_t memory, uint64_t spool_max)
{
	const struct plan_input in = {cpus, 64 * 1024, memory, UINT64_MAX, spool_max, 0};
	struct error err = {""};
	struct plan plan = {0};

	check(plan_make(&plan, &in, &err) == 0);
	if (err.msg[0])
		printf("# %s\n", err.msg);
	return plan;
}

TEST(memory_has_a_bound_on_any_machine)
{
	for (int cpus = 1; cpus <= 256; cpus++)
		for (uint64_t gb = 8; gb <= 8192; gb *= 2)
			check(plan_of(cpus, gb * GB, 0).memory <= PLAN_MEMORY_MB * MB);
}

TEST(a_small_machine_gives_a_sixteenth)
{
	for (uint64_t mb = 256; mb <= 2048; mb += 256) {
		struct plan plan = plan_of(2, mb * MB, 0);

		check(plan.memory <= mb * MB / PLAN_MEMORY_SHARE);
		check(plan.memory > mb * MB / PLAN_MEMORY_SHARE - MB / 2);
	}
}

TEST(a_small_disk_gives_a_quarter)
{
	const struct plan_input in = {2, 64 * 1024, 24 * GB, 64 * MB, 0, 0};
	struct plan plan;

	check(plan_make(&plan, &in, NULL) == 0);
	check(plan.memory <= 16 * MB && plan.memory > 15 * MB);
}

TEST(a_bound_of_the_memory_holds)
{
	for (uint64_t mb = 2; mb <= 256; mb *= 2) {
		const struct plan_input in = {2, 64 * 1024, 24 * GB, UINT64_MAX, 0, mb * MB};
		struct plan plan;

		check(plan_make(&plan, &in, NULL) == 0);
		check(plan.memory <= mb * MB);
	}
}

TEST(two_cpus_take_64_mb_each)
{
	struct plan plan = plan_of(2, 24 * GB, 8 * GB);

	check(plan.memory <= 128 * MB && plan.memory > 127 * MB);
	check(plan.disk == 8 * GB - plan.memory);
	check(plan.threads == 4 && plan.files == 4);
}

TEST(each_of_256_cpus_has_room_for_a_burst)
{
	struct plan plan = plan_of(256, 512 * GB, 8 * GB);

	check(plan.slots >= PLAN_MIN_SLOTS);
	check(plan.memory <= 256 * MB && plan.memory > 200 * MB);
	check(plan.threads == 258 && plan.files == 512);
}

TEST(a_spool_too_small_is_refused_with_the_size_needed)
{
	const struct plan_input in = {2, 64 * 1024, 24 * GB, UINT64_MAX, MB, 0};
	struct error err = {""};
	struct plan plan;

	check(plan_make(&plan, &in, &err) == -EINVAL);
	check(!strcmp(err.msg, "a spool of 1024 KB is too small: 2 CPUs need 1416 KB"));
	printf("# %s\n", err.msg);
}

TEST(this_process_may_use_some_memory)
{
	check(plan_memory() > 16 * MB && plan_memory() < 1024 * 1024 * GB);
}

TEST(the_limit_of_open_files_is_raised)
{
	const struct rlimit few = {64, 4096};
	struct rlimit limit;

	check(setrlimit(RLIMIT_NOFILE, &few) == 0);
	check(plan_allow_files(512, NULL) == 0);
	check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	check(limit.rlim_cur >= 512 + 64 && limit.rlim_max == 4096);
}
