// SPDX-License-Identifier: Apache-2.0
#include "freeze.h"

#include "input/thread.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	STACK_SIZE = 256 << 10,
	SPINS_PER_LOOK = 256, /* between two looks at the clock, some microseconds */
	LEAD_NS = 150000,     /* from the call of a meeting to its first round, for one CPU ... */
	WAKE_NS = 3000,       /* ... and more for each other CPU, to wake its thread */
};

enum outcome { OPEN, CUT, CALLED_OFF };

struct worker {
	struct freezer *freezer;
	pthread_t thread;
	sem_t wake;
};

struct freezer {
	struct worker *workers;
	struct freezer_cpu *cpus;
	int nr;
	bool realtime; /* all workers have it */

	/* One meeting. */
	sem_t ready; /* a worker is about to sleep */
	int leader;  /* index of its worker; -1: workers end */
	int called;  /* besides the leader */
	const struct freezer_meeting *meeting;
	struct freezer_hold *holds;
	uint64_t moment_ns;
	atomic_int gathered; /* threads that spin */
	atomic_int outcome;  /* enum outcome */
	atomic_int left;     /* threads that are done */
};

static void spin(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static struct freezer_hold hold_since(const struct freezer_hold *begin)
{
	return (struct freezer_hold){monotonic_ns() - begin->ns,
				     clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin->ran_ns};
}

static void call_off(struct freezer *f)
{
	int open = OPEN;

	atomic_compare_exchange_strong(&f->outcome, &open, CALLED_OFF);
}

/* Wait until the counter has reached `nr`; false if the time came first. */
static bool wait_for_all(atomic_int *counter, int nr, uint64_t until_ns)
{
	do {
		for (int i = 0; i < SPINS_PER_LOOK; i++) {
			if (atomic_load(counter) >= nr)
				return true;
			spin();
		}
	} while (monotonic_ns() < until_ns);
	return false;
}

static void hold_meeting(struct freezer *f, int nr)
{
	const struct freezer_meeting *meeting = f->meeting;
	uint64_t limit = f->moment_ns + meeting->limit_ns;
	bool leads = f->leader == nr;
	int open = OPEN;

	meeting->arrive(meeting->arg, nr);
	atomic_fetch_add(&f->gathered, 1);
	if (leads) {
		if (!wait_for_all(&f->gathered, f->called + 1, f->moment_ns + meeting->gather_ns) ||
		    atomic_load(&f->outcome) != OPEN) {
			call_off(f);
			return;
		}
		meeting->cut(meeting->arg);
		atomic_compare_exchange_strong(&f->outcome, &open, CUT);
		meeting->beside(meeting->arg, nr);
	} else {
		meeting->beside(meeting->arg, nr);
		if (!wait_for_all(&f->outcome, CUT, limit))
			call_off(f);
	}
	if (atomic_load(&f->outcome) == CUT) {
		meeting->leave(meeting->arg, nr);
		atomic_fetch_add(&f->left, 1);
		wait_for_all(&f->left, f->called + 1, limit);
	}
}

static void meet(struct freezer *f, int nr)
{
	const struct freezer_meeting *meeting = f->meeting;
	struct freezer_hold *holds = &f->holds[FREEZER_HOLDS * nr], begin;

	memset(holds, 0, FREEZER_HOLDS * sizeof(*holds));
	for (int round = meeting->rounds; round > 0; round--) {
		sleep_until(f->moment_ns - (uint64_t)round * meeting->round_ns);
		begin = (struct freezer_hold){monotonic_ns(), clock_ns(CLOCK_THREAD_CPUTIME_ID)};
		if (!meeting->prepare(meeting->arg, nr, round))
			call_off(f);
		holds[round] = hold_since(&begin);
		if (atomic_load(&f->outcome) != OPEN)
			return;
	}
	sleep_until(f->moment_ns);
	begin = (struct freezer_hold){monotonic_ns(), clock_ns(CLOCK_THREAD_CPUTIME_ID)};
	if (begin.ns > f->moment_ns + meeting->gather_ns)
		call_off(f);
	else if (atomic_load(&f->outcome) == OPEN)
		hold_meeting(f, nr);
	holds[0] = hold_since(&begin);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct freezer *f = w->freezer;
	int nr = (int)(w - f->workers);
	unsigned int cpu = 0, node = 0;

	getcpu(&cpu, &node);
	f->cpus[nr] = (struct freezer_cpu){(int)cpu, (int)node, (int)syscall(SYS_gettid)};
	for (;;) {
		sem_post(&f->ready);
		while (sem_wait(&w->wake))
			;
		if (f->leader < 0)
			return NULL;
		meet(f, nr);
	}
}

/* Start the worker of one CPU; false if this process may not use the CPU. */
static bool start_worker(struct freezer *f, int cpu, size_t set_size)
{
	struct sched_param param = {.sched_priority = sched_get_priority_max(SCHED_FIFO)};
	struct worker *w = &f->workers[f->nr];
	cpu_set_t *set = CPU_ALLOC(8 * set_size);
	pthread_attr_t attr;
	int ret;

	if (!set)
		return false;
	CPU_ZERO_S(set_size, set);
	CPU_SET_S(cpu, set_size, set);
	w->freezer = f;
	sem_init(&w->wake, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_attr_setaffinity_np(&attr, set_size, set);
	ret = thread_start(&w->thread, &attr, work, w);
	CPU_FREE(set);
	if (ret) {
		sem_destroy(&w->wake);
		return false;
	}
	if (pthread_setschedparam(w->thread, SCHED_FIFO, &param))
		f->realtime = false;
	f->nr++;
	return true;
}

int freezer_new(struct freezer **out, struct error *err)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct freezer *f = calloc(1, sizeof(*f));

	*out = NULL;
	if (!f)
		return fail(err, ENOMEM, "no memory for one thread per CPU");
	f->realtime = true;
	sem_init(&f->ready, 0, 0);
	f->workers = calloc((size_t)nr_cpus, sizeof(*f->workers));
	f->cpus = calloc((size_t)nr_cpus, sizeof(*f->cpus));
	f->holds = calloc(FREEZER_HOLDS * (size_t)nr_cpus, sizeof(*f->holds));
	if (!f->workers || !f->cpus || !f->holds) {
		freezer_free(f);
		return fail(err, ENOMEM, "no memory for %ld threads", nr_cpus);
	}
	for (int cpu = 0; cpu < nr_cpus; cpu++)
		if (start_worker(f, cpu, CPU_ALLOC_SIZE(nr_cpus)))
			sem_wait(&f->ready);
	if (!f->nr) {
		freezer_free(f);
		return fail(err, EAGAIN, "cannot start a thread on any of %ld CPUs", nr_cpus);
	}
	*out = f;
	return 0;
}

void freezer_free(struct freezer *f)
{
	if (!f)
		return;
	f->leader = -1;
	for (int i = 0; i < f->nr; i++) {
		sem_post(&f->workers[i].wake);
		pthread_join(f->workers[i].thread, NULL);
		sem_destroy(&f->workers[i].wake);
	}
	sem_destroy(&f->ready);
	free(f->workers);
	free(f->cpus);
	free(f->holds);
	free(f);
}

const struct freezer_cpu *freezer_cpus(const struct freezer *f, int *nr)
{
	*nr = f->nr;
	return f->cpus;
}

/* Wake the threads that take part, and wait until all sleep again. */
static void wake_and_wait(struct freezer *f)
{
	for (int i = 0; i < f->nr; i++)
		if (f->called && i != f->leader)
			sem_post(&f->workers[i].wake);
	sem_post(&f->workers[f->leader].wake);
	for (int i = 0; i < f->called + 1; i++)
		while (sem_wait(&f->ready))
			;
}

bool freezer_meet(struct freezer *f, int nr, const struct freezer_meeting *meeting)
{
	f->leader = nr;
	f->meeting = meeting;
	f->called = f->realtime ? f->nr - 1 : 0;
	f->moment_ns = monotonic_ns() + LEAD_NS + (uint64_t)f->called * WAKE_NS +
		       (uint64_t)meeting->rounds * meeting->round_ns;
	atomic_store(&f->gathered, 0);
	atomic_store(&f->left, 0);
	atomic_store(&f->outcome, OPEN);
	wake_and_wait(f);
	return atomic_load(&f->left) == f->called + 1;
}

const struct freezer_hold *freezer_holds(const struct freezer *f)
{
	return f->holds;
}

bool freezer_holds_all(const struct freezer *f)
{
	return f->realtime;
}
