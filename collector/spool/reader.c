// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include "precedence.h"
#include "input/thread.h"
#include "ring/subbuf.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	STACK_BYTES = 128 * 1024,
	FULL_US = 20 * 1000, /* us between tries of a full spool */
	BEHIND_US = 500,     /* ... of one whose writer is behind */

	/*
	 * Kernels without commit 42fb0a1e84ff (6.1) wake a poll() at the first event. A nap avoids
	 * a read for every event there. Its length is the time in which one CPU could fill 1/16 of
	 * the ring: an event costs 100 ns or more and has 20 to 40 bytes.
	 */
	MAX_BYTES_PER_MS = 400 * 1024,
	MAX_NAP_US = 10 * 1000,
};

/* Delay between an event's time and its place in the ring, as seen from... */
static const uint64_t own_cpu_slack = 1000000; /* the same CPU: clocks read at once, ns apart */
static const uint64_t other_cpu_slack =
	100000000; /* another CPU: the writer may be interrupted midway */

struct reader {
	struct reader_config config;
	int fd;
	size_t subbuf_bytes;
	long nap_us;
	pthread_t thread;
	bool joined;
	atomic_bool abandon, give_up;
	atomic_int full;
	_Atomic uint64_t watermark;
	int ret;
	struct error err;
};

static void nap(long us)
{
	struct timespec length = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&length, NULL);
}

/* Why memory has no room: 0 if the writer is only slower than the ring, or its error. */
static int why_full(struct reader *reader)
{
	int problem = spool_problem(reader->config.spool);

	if (!problem || problem == -ENOSPC || problem == -EDQUOT)
		return problem;
	return fail(&reader->err, -problem, "cannot write the spool of cpu %d: %s",
		    reader->config.cpu, strerror(-problem));
}

/*
 * Wait for room in memory: the writer or the decoder makes it, and the kernel counts the events
 * that the ring loses meanwhile. 1: the spool stays full.
 */
static int wait_for_room(struct reader *reader, void **slot)
{
	uint64_t begin = monotonic_ns();
	int ret = 0;

	while (!(*slot = spool_slot(reader->config.spool))) {
		int full = why_full(reader);

		atomic_store(&reader->full, full == -ENOSPC || full == -EDQUOT ? full : 0);
		if (full && !atomic_load(&reader->full))
			ret = full;
		else if (full && atomic_load(&reader->give_up))
			ret = 1;
		else if (atomic_load(&reader->abandon))
			ret = fail(&reader->err, ECANCELED, "the recording was closed");
		if (ret)
			break;
		writer_wake(reader->config.writer);
		nap(full ? FULL_US : BEHIND_US);
	}
	spool_waited(reader->config.spool, monotonic_ns() - begin);
	if (!ret)
		atomic_store(&reader->full, 0);
	return ret;
}

static void set_watermark(struct reader *reader, uint64_t ts, int cpu)
{
	ts -= cpu == reader->config.cpu ? own_cpu_slack : other_cpu_slack;
	if (ts > atomic_load_explicit(&reader->watermark, memory_order_relaxed))
		atomic_store_explicit(&reader->watermark, ts, memory_order_release);
}

/*
 * Take everything out of the ring, and advance the watermark.
 *
 * A writer holds its CPU from reading an event's time to the end of writing it. So when this
 * thread runs on that CPU, no event is half written: all events before the current time are
 * in the ring. They are out of the ring once the page being written was read: that page is
 * not full (events are far smaller than half a page), or the ring is empty. With `to_end` only an
 * empty ring ends the loop. 1: the spool stays full for good.
 */
static int drain(struct reader *reader, bool to_end)
{
	size_t page_bytes = reader->subbuf_bytes - offsetof(struct subbuf, data);
	size_t before = 0, commit = 0;

	for (; !atomic_load(&reader->abandon); before = commit) {
		struct spool *spool = reader->config.spool;
		void *slot = spool_slot(spool);
		int ret = slot ? 0 : wait_for_room(reader, &slot);
		uint64_t ts = monotonic_ns();
		int cpu = sched_getcpu();
		ssize_t nr = ret ? 0 : read(reader->fd, slot, reader->subbuf_bytes);

		if (ret)
			return ret;
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
				    reader->config.cpu, strerror(errno));
		commit = ((const struct subbuf *)slot)->commit & SUBBUF_BYTES;
		spool_push(spool);
		if (spool_should_store(spool))
			writer_wake(reader->config.writer);
		if (!to_end && subbuf_is_newest(before, commit, page_bytes)) {
			set_watermark(reader, ts, cpu);
			return 0;
		}
	}
	return fail(&reader->err, ECANCELED, "the recording was closed");
}

/* These make reading faster; it is correct without them. */
static void pin(const struct reader *reader)
{
	size_t size = CPU_ALLOC_SIZE(reader->config.cpu + 1);
	cpu_set_t *cpus = CPU_ALLOC(reader->config.cpu + 1);

	if (!cpus)
		return;
	CPU_ZERO_S(size, cpus);
	CPU_SET_S(reader->config.cpu, size, cpus);
	sched_setaffinity(0, size, cpus);
	CPU_FREE(cpus);
}

static void settle(const struct reader *reader)
{
	char name[16];

	snprintf(name, sizeof(name), "pagetape/%d", reader->config.cpu);
	pthread_setname_np(pthread_self(), name);
	take_precedence();
	pin(reader);
}

static void *read_ring(void *arg)
{
	struct reader *reader = arg;
	struct pollfd fds[2] = {{.fd = reader->fd, .events = POLLIN},
				{.fd = reader->config.stop, .events = POLLIN}};

	settle(reader);
	while (!reader->ret && !(fds[1].revents & POLLIN)) {
		if (fds[0].revents & POLLIN) /* an idle CPU is woken only once in flush_ms */
			nap(reader->nap_us);
		poll(fds, 2, reader->config.flush_ms);
		if (sched_getcpu() != reader->config.cpu)
			pin(reader); /* its CPU went offline and may be back */
		reader->ret = drain(reader, false);
	}
	/* A writer that was halfway when recording was switched off ends soon after. */
	nap(1000);
	if (!reader->ret)
		reader->ret = drain(reader, true);
	atomic_store_explicit(&reader->watermark, UINT64_MAX, memory_order_release);
	return NULL;
}

static int start_thread(struct reader *reader, struct error *err)
{
	pthread_attr_t attr;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	ret = thread_start(&reader->thread, &attr, read_ring, reader);
	if (ret)
		return fail(err, ret, "cannot start the reader of cpu %d: %s", reader->config.cpu,
			    strerror(ret));
	return 0;
}

int reader_new(struct reader **out, const struct reader_config *config, struct error *err)
{
	size_t bytes = instance_ring_bytes(config->instance);
	struct reader *reader = calloc(1, sizeof(*reader));
	int ret;

	*out = NULL;
	if (!reader)
		return fail(err, ENOMEM, "no memory for a ring reader");
	reader->config = *config;
	reader->joined = true;
	reader->subbuf_bytes = instance_subbuf_bytes(config->instance);
	reader->nap_us = (long)(bytes / 16 * 1000 / MAX_BYTES_PER_MS);
	if (reader->nap_us > MAX_NAP_US)
		reader->nap_us = MAX_NAP_US;
	reader->fd = instance_open_ring(config->instance, config->cpu, err);
	ret = reader->fd < 0 ? reader->fd : start_thread(reader, err);
	reader->joined = ret != 0;
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
	if (reader->ret < 0 && err)
		*err = reader->err;
	return reader->ret < 0 ? reader->ret : 0;
}

int reader_full(const struct reader *reader)
{
	return atomic_load(&reader->full);
}

void reader_give_up(struct reader *reader)
{
	atomic_store(&reader->give_up, true);
}

void reader_free(struct reader *reader)
{
	if (!reader)
		return;
	atomic_store(&reader->abandon, true);
	reader_join(reader, NULL);
	free(reader);
}

uint64_t reader_watermark(const struct reader *reader)
{
	return atomic_load_explicit(&reader->watermark, memory_order_acquire);
}
