// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	FLUSH_MS = 200,
	STACK_BYTES = 128 * 1024,
	MAX_SPOOL_BYTES = 32 << 20, /* in memory, per CPU */
	MIN_SPOOL_SLOTS = 8,
	NICE = -10,

	/*
	 * Kernels without commit 42fb0a1e84ff (6.1) wake a poll() at the first
	 * event. A nap keeps those from being asked for one event at a time. It
	 * is the time in which one CPU could fill 1/16 of the ring: events cost
	 * it 100 ns or more, and are 20 to 40 bytes.
	 */
	MAX_BYTES_PER_MS = 400 * 1024,
	MAX_NAP_US = 10 * 1000,
};

/* Between the time taken of an event and its place in the ring, as seen from... */
static const uint64_t own_cpu_slack = 1000000;     /* the same CPU: clocks read at once, ns apart */
static const uint64_t other_cpu_slack = 100000000; /* another: the writer may be held up midway */

/* How a raw sub-buffer begins: events/header_page. */
struct subbuf {
	uint64_t ts;
	unsigned long commit; /* bytes of data, and two flags */
	char data[];
};

#define COMMIT_BYTES  ((1ul << 27) - 1)
#define MISSED_STORED (1ul << 30)

struct reader {
	int cpu, fd, stop;
	size_t subbuf_bytes;
	long nap_us;
	struct spool *spool;
	pthread_t thread;
	bool joined;
	atomic_bool abandon;
	_Atomic uint64_t watermark;
	int ret;
	struct error err;
};

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static void nap(long us)
{
	struct timespec length = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&length, NULL);
}

/*
 * A full file system is no reason to give up: the decoder frees space, and what
 * the ring has no room for meanwhile the kernel counts as lost.
 */
static int push(struct reader *reader, const struct subbuf *subbuf)
{
	size_t used = sizeof(*subbuf) + (subbuf->commit & COMMIT_BYTES);
	int ret;

	if (subbuf->commit & MISSED_STORED)
		used += sizeof(long);
	while ((ret = spool_push(reader->spool, used, &reader->err)) == -ENOSPC &&
	       !atomic_load(&reader->abandon))
		nap(20 * 1000);
	return ret;
}

static void set_watermark(struct reader *reader, uint64_t ts, int cpu)
{
	ts -= cpu == reader->cpu ? own_cpu_slack : other_cpu_slack;
	if (ts > atomic_load_explicit(&reader->watermark, memory_order_relaxed))
		atomic_store_explicit(&reader->watermark, ts, memory_order_release);
}

/*
 * Take all there is out of the ring, and so move the watermark.
 *
 * A writer holds its CPU from taking an event's time to the end of writing it,
 * so when this thread runs there, no event is midway: what has an earlier time
 * than a look at the clock is in the ring. It is out of the ring when the page
 * being written was read, that is when one is not full (events are far smaller
 * than half a page), or when there is nothing. Only the first page may be the
 * rest of one that was read before. With `to_end` only nothing will do.
 */
static int drain(struct reader *reader, bool to_end)
{
	for (bool first = true; !atomic_load(&reader->abandon); first = false) {
		struct subbuf *subbuf = spool_slot(reader->spool);
		uint64_t ts = now();
		int cpu = sched_getcpu();
		ssize_t nr = read(reader->fd, subbuf, reader->subbuf_bytes);
		int ret;

		if (nr == 0 || (nr < 0 && errno == EAGAIN)) {
			set_watermark(reader, ts, cpu);
			return 0;
		}
		if (nr < 0 && (errno == EINTR || errno == ENOMEM)) {
			nap(1000);
			continue;
		}
		if (nr < 0)
			return fail(&reader->err, errno, "cannot read the ring of cpu %d: %s",
				    reader->cpu, strerror(errno));
		ret = push(reader, subbuf);
		if (ret)
			return ret;
		if (!to_end && !first &&
		    (subbuf->commit & COMMIT_BYTES) < reader->subbuf_bytes / 2) {
			set_watermark(reader, ts, cpu);
			return 0;
		}
	}
	return fail(&reader->err, ECANCELED, "the recording was closed");
}

/* All of these make reading better; none is needed for it to be right. */
static void settle(const struct reader *reader)
{
	size_t size = CPU_ALLOC_SIZE(reader->cpu + 1);
	cpu_set_t *cpus = CPU_ALLOC(reader->cpu + 1);
	char name[16];

	snprintf(name, sizeof(name), "pagetape/%d", reader->cpu);
	pthread_setname_np(pthread_self(), name);
	setpriority(PRIO_PROCESS, 0, NICE);
	if (cpus) {
		CPU_ZERO_S(size, cpus);
		CPU_SET_S(reader->cpu, size, cpus);
		sched_setaffinity(0, size, cpus);
		CPU_FREE(cpus);
	}
}

static void *read_ring(void *arg)
{
	struct reader *reader = arg;
	struct pollfd fds[2] = {{.fd = reader->fd, .events = POLLIN},
				{.fd = reader->stop, .events = POLLIN}};

	settle(reader);
	while (!reader->ret && !(fds[1].revents & POLLIN)) {
		nap(reader->nap_us);
		poll(fds, 2, FLUSH_MS);
		reader->ret = drain(reader, false);
	}
	/* A writer that was midway when recording was switched off has ended soon after. */
	nap(1000);
	if (!reader->ret)
		reader->ret = drain(reader, true);
	atomic_store_explicit(&reader->watermark, UINT64_MAX, memory_order_release);
	return NULL;
}

/* Signals are for the threads of the program that uses us. */
static int start_thread(struct reader *reader, struct error *err)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&reader->thread, &attr, read_ring, reader);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (ret)
		return fail(err, ret, "cannot start the reader of cpu %d: %s", reader->cpu,
			    strerror(ret));
	return 0;
}

int reader_new(struct reader **out, struct instance *instance, int cpu, int stop, const char *dir,
	       struct error *err)
{
	size_t bytes = instance_ring_bytes(instance), slots;
	struct reader *reader = calloc(1, sizeof(*reader));
	int ret;

	*out = NULL;
	if (!reader)
		return fail(err, ENOMEM, "no memory for a ring reader");
	reader->cpu = cpu;
	reader->stop = stop;
	reader->joined = true;
	reader->subbuf_bytes = instance_subbuf_bytes(instance);
	reader->nap_us = (long)(bytes / 16 * 1000 / MAX_BYTES_PER_MS);
	if (reader->nap_us > MAX_NAP_US)
		reader->nap_us = MAX_NAP_US;
	reader->fd = instance_open_ring(instance, cpu, err);
	if (reader->fd < 0) {
		ret = reader->fd;
		free(reader);
		return ret;
	}
	slots = (bytes < MAX_SPOOL_BYTES ? bytes : MAX_SPOOL_BYTES) / reader->subbuf_bytes;
	if (slots < MIN_SPOOL_SLOTS)
		slots = MIN_SPOOL_SLOTS;
	ret = spool_new(&reader->spool, dir, reader->subbuf_bytes, slots, err);
	if (!ret) {
		ret = start_thread(reader, err);
		reader->joined = ret != 0;
	}
	if (ret) {
		reader_free(reader);
		return ret;
	}
	*out = reader;
	return 0;
}

int reader_join(struct reader *reader, struct error *err)
{
	if (!reader->joined)
		pthread_join(reader->thread, NULL);
	reader->joined = true;
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
	if (reader->ret && err)
		*err = reader->err;
	return reader->ret;
}

void reader_free(struct reader *reader)
{
	if (!reader)
		return;
	atomic_store(&reader->abandon, true);
	reader_join(reader, NULL);
	spool_free(reader->spool);
	free(reader);
}

int reader_cpu(const struct reader *reader)
{
	return reader->cpu;
}

struct spool *reader_spool(struct reader *reader)
{
	return reader->spool;
}

uint64_t reader_watermark(const struct reader *reader)
{
	return atomic_load_explicit(&reader->watermark, memory_order_acquire);
}
