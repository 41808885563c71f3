// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "record/plan.h"
#include "ring/subbuf.h"
#include "spool/writer.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SUBBUF = 64 * 1024 };

static char dir[] = "/tmp/test_writer.XXXXXX";
static struct spool_budget unbounded;

static void nap_us(long us)
{
	struct timespec length = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&length, NULL);
}

static struct spool *new_spool(int cpu, size_t slot_bytes, size_t slots,
			       ssize_t (*write)(int, const struct iovec *, int, off_t))
{
	const struct spool_config config = {dir, cpu, slot_bytes, slots, &unbounded, false, write};
	struct error err = {""};
	struct spool *spool = NULL;

	check(spool_new(&spool, &config, &err) == 0);
	if (!spool)
		printf("# %s\n", err.msg);
	return spool;
}

/* A full sub-buffer with a number, or false if memory has no room. */
static bool fill_next(struct spool *spool, struct writer *writer, uint64_t number)
{
	struct subbuf *subbuf = spool_slot(spool);

	if (!subbuf)
		return false;
	subbuf->ts = number;
	subbuf->commit = spool_slot_bytes(spool) - sizeof(*subbuf);
	spool_push(spool);
	if (spool_should_store(spool))
		writer_wake(writer);
	return true;
}

static bool pop_next(struct spool *spool, uint64_t number)
{
	const void *subbuf;
	int ret = spool_pop(spool, &subbuf, NULL);

	check(ret >= 0);
	if (ret == 1)
		check(((const struct subbuf *)subbuf)->ts == number);
	return ret == 1;
}

/*
 * A disk that makes 100 writes/s of any size, by the clock of the test. That clock stands while the
 * writer, by it, is late: so a busy machine changes nothing.
 */
enum { WRITE_US = 10000 };

static atomic_long clock_us, write_ends; /* write_ends: 0 if the disk is idle */
static atomic_int nr_writes;

static ssize_t slow_write(int fd, const struct iovec *parts, int nr, off_t at)
{
	const long ends = clock_us + WRITE_US;
	ssize_t ret;

	nr_writes++;
	write_ends = ends;
	while (clock_us < ends)
		nap_us(100);
	ret = pwritev(fd, parts, nr, at);
	write_ends = 0;
	return ret;
}

/* Whether the disk should have ended its write by now, or begun one. */
static bool is_late(struct spool *const *spools, int nr)
{
	const long ends = write_ends;

	if (ends)
		return ends <= clock_us;
	for (int cpu = 0; cpu < nr; cpu++)
		if (spool_should_store(spools[cpu]))
			return true;
	return false;
}

/* 0.5 M events/s of 30 bytes are 229 sub-buffers/s; the decoder does not run. */
TEST(a_slow_disk_loses_nothing_at_half_a_million_events_per_second)
{
	enum {
		CPUS = 2,
		SLOTS = 64,
		NR = 300,
		STEP_US = 1000000 / (229 / CPUS),
		PATIENCE = 100000
	};
	struct spool *spools[CPUS];
	struct writer_config config = {.spools = spools, .nr = CPUS};
	struct writer *writer;
	uint64_t lost = 0;
	int naps = 0;

	for (int cpu = 0; cpu < CPUS; cpu++)
		spools[cpu] = new_spool(cpu, SUBBUF, SLOTS, slow_write);
	check(writer_new(&writer, &config, NULL) == 0);
	for (uint64_t n = 0; n < NR; n++) {
		for (int cpu = 0; cpu < CPUS; cpu++)
			lost += !fill_next(spools[cpu], writer, n);
		clock_us += STEP_US;
		while (is_late(spools, CPUS) && naps++ < PATIENCE)
			nap_us(100);
	}
	check(naps < PATIENCE);
	check(lost == 0);
	check(nr_writes > 0);
	clock_us = LONG_MAX / 2; /* the last write ends */
	for (uint64_t n = 0; n < NR; n++)
		for (int cpu = 0; cpu < CPUS; cpu++)
			check(pop_next(spools[cpu], n));
	writer_free(writer);
	for (int cpu = 0; cpu < CPUS; cpu++)
		spool_free(spools[cpu]);
	printf("# %llu lost, %d writes\n", (unsigned long long)lost, (int)nr_writes);
}

/* A disk that stands still for a while. */
static atomic_bool stuck;

static ssize_t stuck_write(int fd, const struct iovec *parts, int nr, off_t at)
{
	while (stuck)
		nap_us(1000);
	return pwritev(fd, parts, nr, at);
}

TEST(a_disk_that_stands_still_delays_no_reader_while_memory_has_room)
{
	enum { SLOTS = 64 };
	struct spool *spool = new_spool(0, SUBBUF, SLOTS, stuck_write);
	struct writer_config config = {.spools = &spool, .nr = 1};
	struct writer *writer;
	uint64_t in = 0, out = 0;

	stuck = true;
	check(writer_new(&writer, &config, NULL) == 0);
	while (fill_next(spool, writer, in))
		in++;
	check(in == SLOTS);
	check(spool_problem(spool) == 0);
	while (out < in / 2) /* the decoder goes on meanwhile */
		check(pop_next(spool, out++));
	while (fill_next(spool, writer, in))
		in++;
	check(in == SLOTS + SLOTS / 2 - 1); /* the last one popped stays until the next */
	stuck = false;
	while (out < in)
		check(pop_next(spool, out++));
	check(!pop_next(spool, out));
	writer_free(writer);
	spool_free(spool);
}

static ssize_t full_disk(int fd, const struct iovec *parts, int nr, off_t at)
{
	(void)fd, (void)parts, (void)nr, (void)at;
	errno = ENOSPC;
	return -1;
}

TEST(a_full_disk_is_a_problem_until_the_decoder_makes_room)
{
	enum { SLOTS = 16 };
	struct spool *spool = new_spool(0, SUBBUF, SLOTS, full_disk);
	struct writer_config config = {.spools = &spool, .nr = 1};
	struct writer *writer;
	uint64_t in = 0, out = 0;

	check(writer_new(&writer, &config, NULL) == 0);
	while (fill_next(spool, writer, in))
		in++;
	for (int ms = 0; ms < 10000 && !spool_problem(spool); ms++)
		nap_us(1000);
	check(in == SLOTS && spool_problem(spool) == -ENOSPC);
	while (out < in)
		check(pop_next(spool, out++));
	for (int ms = 0; ms < 10000 && spool_problem(spool); ms++)
		nap_us(1000);
	check(spool_problem(spool) == 0);
	check(fill_next(spool, writer, in));
	writer_free(writer);
	spool_free(spool);
}

/*
 * 256 CPUs: planned memory, one writer, and as many readers as there may be.
 */

enum { MANY_CPUS = 256, EACH = 24, FILLERS = 4, SMALL = 4096 };

static struct spool *many[MANY_CPUS];
static struct writer *their_writer;

static void *fill_some(void *arg)
{
	int first = *(const int *)arg;

	for (uint64_t n = 0; n < EACH; n++)
		for (int cpu = first; cpu < MANY_CPUS; cpu += FILLERS)
			while (!fill_next(many[cpu], their_writer, n))
				nap_us(100);
	return NULL;
}

TEST(spools_of_256_cpus_keep_their_order_with_one_writer)
{
	const struct plan_input in = {MANY_CPUS, SMALL, 256ull << 20, UINT64_MAX, 0, 0};
	struct writer_config config = {.spools = many, .nr = MANY_CPUS};
	pthread_t threads[FILLERS];
	int numbers[FILLERS];
	struct spool_use use = {0};
	struct rlimit limit;
	struct plan plan;

	check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = 128;
	check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	check(plan_make(&plan, &in, NULL) == 0);
	check(plan_allow_files(plan.files, NULL) == 0);
	for (int cpu = 0; cpu < MANY_CPUS; cpu++)
		many[cpu] = new_spool(cpu, SMALL, plan.slots, NULL);
	check(writer_new(&their_writer, &config, NULL) == 0);
	for (int i = 0; i < FILLERS; i++) {
		numbers[i] = i;
		check(pthread_create(&threads[i], NULL, fill_some, &numbers[i]) == 0);
	}
	for (int i = 0; i < FILLERS; i++)
		pthread_join(threads[i], NULL);
	for (int cpu = 0; cpu < MANY_CPUS; cpu++)
		spool_add_use(many[cpu], &use);
	check(use.memory + use.file == (uint64_t)MANY_CPUS * EACH * SMALL);
	check(use.file > 0 && use.memory <= plan.memory);
	for (uint64_t n = 0; n < EACH; n++)
		for (int cpu = 0; cpu < MANY_CPUS; cpu++)
			check(pop_next(many[cpu], n));
	writer_free(their_writer);
	for (int cpu = 0; cpu < MANY_CPUS; cpu++)
		spool_free(many[cpu]);
}

int main(void)
{
	int failed;

	if (!mkdtemp(dir))
		return 1;
	failed = check_run();
	rmdir(dir);
	return failed;
}
