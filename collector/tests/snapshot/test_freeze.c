// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "snapshot/freeze.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

struct calls {
	atomic_int first, lead, each;
	atomic_ulong each_cpus; /* bit n: `each` ran on CPU n */
	int leader_cpu, leader_tid;
	bool in_order;
};

static void first(void *arg)
{
	struct calls *calls = arg;

	calls->first++;
	calls->leader_cpu = sched_getcpu();
	calls->leader_tid = (int)syscall(SYS_gettid);
	calls->in_order = !calls->each && !calls->lead;
}

static void each(void *arg)
{
	struct calls *calls = arg;

	calls->each++;
	calls->each_cpus |= 1ul << (sched_getcpu() & 63);
}

/* Long enough for each to begin, on a machine that is not overcommitted. */
static void lead(void *arg)
{
	struct calls *calls = arg;

	calls->lead++;
	usleep(20000);
}

static void the_leader_works_on_the_cpu_asked_for_and_held_cpus_once_at_most(void)
{
	const struct freezer_cpu *cpus;
	struct freezer *f;
	int nr;

	check(freezer_new(&f, NULL) == 0);
	cpus = freezer_cpus(f, &nr);
	check(nr > 0);
	for (int i = 0; i < nr; i++) {
		struct calls calls = {0};
		const struct freezer_work work = {first, lead, each, &calls};
		int held = freezer_run(f, i, &work, 200);

		check(calls.first == 1 && calls.lead == 1 && calls.in_order);
		check(calls.each <= held);
		check(nr > 64 || __builtin_popcountl(calls.each_cpus) == calls.each);
		check(!(calls.each_cpus >> (cpus[i].cpu & 63) & 1) || nr > 64);
		check(calls.leader_cpu == cpus[i].cpu);
		check(calls.leader_tid == cpus[i].tid);
	}
	freezer_free(f);
}

static void longer_than_the_limit(void *arg)
{
	usleep(60000);
	first(arg);
}

static void cpus_are_let_go_at_the_limit_and_work_no_more(void)
{
	struct calls calls = {0};
	const struct freezer_work work = {longer_than_the_limit, lead, each, &calls};
	struct freezer *f;

	check(freezer_new(&f, NULL) == 0);
	freezer_run(f, 0, &work, 5);
	check(calls.first == 1 && calls.lead == 1 && calls.each == 0);
	freezer_free(f);
}

/* Who came to a meeting, and in which order. */
struct attendance {
	atomic_int prepared, arrived, cut, beside, left;
	int arrived_before_cut, left_before_cut;
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

static void all_cpus_are_at_the_cut_of_a_meeting(void)
{
	struct freezer *f;
	int nr, met = 0;

	check(freezer_new(&f, NULL) == 0);
	freezer_cpus(f, &nr);
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
		check(seen.left == nr && seen.left_before_cut == 0);
		for (int cpu = 0; cpu < nr; cpu++)
			for (int hold = 0; hold <= 2; hold++)
				check(freezer_holds(f)[FREEZER_HOLDS * cpu + hold].ns > 0 ||
				      nr == 1);
	}
	check(met > 0);
	freezer_free(f);
}

static void a_meeting_that_one_cpu_cannot_prepare_is_called_off(void)
{
	struct attendance seen = {.refuse = true};
	const struct freezer_meeting meeting = meeting_of(&seen);
	struct freezer *f;

	check(freezer_new(&f, NULL) == 0);
	check(!freezer_meet(f, 0, &meeting));
	check(seen.cut == 0 && seen.left == 0);
	freezer_free(f);
}

int main(void)
{
	test(the_leader_works_on_the_cpu_asked_for_and_held_cpus_once_at_most);
	test(cpus_are_let_go_at_the_limit_and_work_no_more);
	test(all_cpus_are_at_the_cut_of_a_meeting);
	test(a_meeting_that_one_cpu_cannot_prepare_is_called_off);
	return check_done();
}
