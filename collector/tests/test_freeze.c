// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "freeze.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

struct call {
	int calls, cpu, tid;
};

static void note_the_cpu(void *arg)
{
	struct call *call = arg;

	call->calls++;
	call->cpu = sched_getcpu();
	call->tid = (int)syscall(SYS_gettid);
}

static void the_function_runs_once_on_the_cpu_asked_for(void)
{
	const struct freezer_cpu *cpus;
	struct freezer *f;
	int nr;

	check(freezer_new(&f, NULL) == 0);
	cpus = freezer_cpus(f, &nr);
	check(nr > 0);
	for (int i = 0; i < nr; i++) {
		struct call call = {0, -1, -1};
		int held = freezer_run(f, i, note_the_cpu, &call, 50);

		check(call.calls == 1);
		check(call.cpu == cpus[i].cpu);
		check(call.tid == cpus[i].tid);
		check(held == 0 || held == nr - 1);
	}
	freezer_free(f);
}

static void longer_than_the_limit(void *arg)
{
	usleep(60000);
	note_the_cpu(arg);
}

static void cpus_are_let_go_at_the_limit_whatever_the_function_does(void)
{
	struct call call = {0};
	struct freezer *f;

	check(freezer_new(&f, NULL) == 0);
	freezer_run(f, 0, longer_than_the_limit, &call, 5);
	check(call.calls == 1);
	freezer_free(f);
}

int main(void)
{
	test(the_function_runs_once_on_the_cpu_asked_for);
	test(cpus_are_let_go_at_the_limit_whatever_the_function_does);
	return check_done();
}
