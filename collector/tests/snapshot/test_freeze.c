// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "snapshot/freeze.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Who came to a meeting, and in which order. */
struct attendance {
	atomic_int prepared, arrived, cut, beside, left;
	int arrived_before_cut, left_before_cut;
	int leader_cpu, leader_tid;
	bool refuse; /* the preparation fails */
};

static bool prepare(void *arg, int nr, int round)
{
	struct attendance *seen = arg;

	(void)nr;
	(void)round;
	seen->prepared++;
	return !seen->refuse;
}

static void arrive(void *arg, int nr)
{
	(void)nr;
	((struct attendance *)arg)->arrived++;
}

static void cut(void *arg)
{
	struct attendance *seen = arg;

	seen->cut++;
	seen->arrived_before_cut = seen->arrived;
	seen->left_before_cut = seen->left;
	seen->leader_cpu = sched_getcpu();
	seen->leader_tid = (int)syscall(SYS_gettid);
}

static void beside(void *arg, int nr)
{
	(void)nr;
	((struct attendance *)arg)->beside++;
}

static void leave(void *arg, int nr)
{
	(void)nr;
	((struct attendance *)arg)->left++;
}

static struct freezer_meeting meeting_of(struct attendance *seen)
{
	return (struct freezer_meeting){
		.prepare = prepare,
		.rounds = 2,
		.round_ns = 180000,
		.arrive = arrive,
		.cut = cut,
		.beside = beside,
		.leave = leave,
		.arg = seen,
		/* Much longer than a snapshot allows: the machine of a test may be busy. */
		.gather_ns = 200000000,
		.limit_ns = 500000000,
	};
}

TEST(all_cpus_are_at_the_cut_of_a_meeting)
{
	const struct freezer_cpu *cpus;
	struct freezer *f;
	int nr, met = 0;

	check(freezer_new(&f, NULL) == 0);
	cpus = freezer_cpus(f, &nr);
	check(nr > 0);
	if (!freezer_holds_all(f))
		nr = 1;
	for (int i = 0; i < 10; i++) {
		struct attendance seen = {0};
		const struct freezer_meeting meeting = meeting_of(&seen);

		if (!freezer_meet(f, i % nr, &meeting))
			continue;
		met++;
		check(seen.prepared == 2 * nr && seen.arrived_before_cut == nr);
		check(seen.cut == 1 && seen.beside == nr);
		check(seen.leader_cpu == cpus[i % nr].cpu && seen.leader_tid == cpus[i % nr].tid);
		check(seen.left == nr && seen.left_before_cut == 0);
		for (int cpu = 0; cpu < nr; cpu++)
			for (int hold = 0; hold <= 2; hold++)
				check(freezer_holds(f)[FREEZER_HOLDS * cpu + hold].ns > 0 ||
				      nr == 1);
	}
	check(met > 0);
	freezer_free(f);
}

TEST(a_meeting_that_one_cpu_cannot_prepare_is_called_off)
{
	struct attendance seen = {.refuse = true};
	const struct freezer_meeting meeting = meeting_of(&seen);
	struct freezer *f;

	check(freezer_new(&f, NULL) == 0);
	check(!freezer_meet(f, 0, &meeting));
	check(seen.cut == 0 && seen.left == 0);
	freezer_free(f);
}
