// SPDX-License-Identifier: Apache-2.0
#include "decode/formats.h"
#include "input/thread.h"
#include "plan.h"
#include "record_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum {
	FLUSH_MS = 1000,       /* longest stay of an event in a ring that does not fill */
	PROMPT_FLUSH_MS = 200, /* ... where somebody waits for the event */
	WATCH_MS = 100,        /* time between checks of a deferred recording */
};

/*
 * Set-up.
 */

static void free_names(char **names, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free(names[i]);
	free(names);
}

static int ring_stats(struct unspool *u, int cpu, struct ring_stats *out, struct error *err)
{
	const struct recorder *r = (const struct recorder *)u;

	return instance_ring_stats(r->instance, cpu, out, err);
}

int recorder_new(struct recorder **out, const struct recorder_config *config, struct error *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return fail(err, ENOMEM, "no memory for a recording");
	unspool_init(&r->unspool);
	r->unspool.ring_stats = ring_stats;
	r->unspool.max_cpus = get_nprocs_conf();
	r->unspool.checkpoints = config->keep;
	atomic_init(&r->unspool.urgent, config->prompt);
	r->keep = config->keep || config->defer;
	r->defer = config->defer;
	r->prompt = config->prompt;
	r->spool_max = config->spool_max;
	r->spool_memory = config->spool_memory;
	recorder_say_ended(r, "stopped");
	r->stop = r->dir_fd = -1;
	r->spool = strdup(config->spool);
	ret = r->spool ? 0 : fail(err, ENOMEM, "no memory for a recording");
	ret = ret ?: instance_new(&r->instance, &config->instance, err);
	ret = ret ?: recorder_set_formats(r, config, err);
	ret = ret ?: recorder_set_cpus(r, err);
	if (!ret) {
		r->stop = eventfd(0, EFD_CLOEXEC);
		if (r->stop < 0)
			ret = fail(err, errno, "cannot make an eventfd: %s", strerror(errno));
	}
	if (ret) {
		recorder_free(r);
		return ret;
	}
	*out = r;
	return 0;
}

static int switch_off(struct recorder *r, struct error *err)
{
	atomic_store(&r->switched_off, true);
	return instance_switch(r->instance, false, err);
}

void recorder_cancel(struct recorder *r)
{
	const struct error gone = {"the recording was closed"};

	if (atomic_exchange(&r->closed, true))
		return;
	unspool_cancel(&r->unspool);
	if (r->started && !atomic_load(&r->stopped))
		switch_off(r, NULL);
	if (r->started)
		unspool_urge(&r->unspool, r->thread);
	if (r->stop >= 0)
		eventfd_write(r->stop, 1);
	/* A stored spool gets the rest of a stopped recording's rings. */
	for (int i = 0; i < r->unspool.nr_cpus; i++) {
		struct cursor *c = &r->unspool.cursors[i];

		if (c->reader && r->keep && atomic_load(&r->stopped))
			reader_give_up(c->reader);
	}
	if (r->started)
		pthread_join(r->thread, NULL);
	else
		source_end(&r->unspool.source, -ECANCELED, &gone);
}

/* A CPU that came online after the start: an empty spool stores its counts. */
static void count_late_cpu(const struct recorder *r, int cpu, const struct ring_stats *stats)
{
	struct spool_budget none = {0};
	const struct spool_config config = {
		.dir = r->dir,
		.cpu = cpu,
		.slot_bytes = instance_subbuf_bytes(r->instance),
		.slots = 1,
		.budget = &none,
		.keep = true,
	};
	struct spool *spool;

	if (!(stats->entries + stats->overrun) || spool_new(&spool, &config, NULL))
		return;
	spool_end(spool, r->ended, stats);
	spool_free(spool);
}

/* Store in the spools how the recording ended. */
static void end_spools(const struct recorder *r)
{
	struct ring_stats stats;
	int i = 0;

	for (int cpu = 0; cpu < r->unspool.max_cpus; cpu++) {
		bool mine = i < r->unspool.nr_cpus && r->unspool.cursors[i].cpu == cpu;
		struct spool *spool = mine ? r->unspool.cursors[i++].spool : NULL;

		if (instance_ring_stats(r->instance, cpu, &stats, NULL))
			continue;
		if (spool)
			spool_end(spool, r->ended, &stats);
		else if (!mine)
			count_late_cpu(r, cpu, &stats);
	}
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	recorder_cancel(r);
	for (int i = 0; i < r->unspool.nr_cpus; i++) {
		struct reader *reader = r->unspool.cursors[i].reader;

		if (reader && r->keep && atomic_load(&r->stopped))
			reader_join(reader, NULL);
		reader_free(reader);
	}
	writer_free(r->writer);
	if (r->started && r->keep && atomic_load(&r->stopped))
		end_spools(r);
	instance_free(r->instance);
	unspool_destroy(&r->unspool);
	if (r->stop >= 0)
		close(r->stop);
	if (r->dir_fd >= 0)
		close(r->dir_fd);
	free_names(r->events, r->nr_events);
	free_names(r->skipped, r->nr_skipped);
	free(r->spool);
	free_names(r->filters, r->nr_filters);
	free_names(r->stacks, r->nr_stacks);
	free(r);
	/* Its batches leave large holes in the heap of a process that records repeatedly. */
	malloc_trim(0);
}

/*
 * A deferred recording: nothing is decoded, so a full spool stays full.
 */

static bool is_full(const struct recorder *r)
{
	for (int i = 0; i < r->unspool.nr_cpus; i++)
		if (reader_full(r->unspool.cursors[i].reader))
			return true;
	return false;
}

static const char *why_full(const struct recorder *r)
{
	for (int i = 0; i < r->unspool.nr_cpus; i++)
		if (reader_full(r->unspool.cursors[i].reader) == -ENOSPC)
			return "disk full";
	return "spool full";
}

static void *watch(void *arg)
{
	struct recorder *r = arg;
	struct pollfd stop = {.fd = r->stop, .events = POLLIN};
	struct error err;
	int ret = 0;

	pthread_setname_np(pthread_self(), "pagetape-watch");
	tasks_scan_own(r->unspool.tasks);
	while (!is_full(r) && poll(&stop, 1, WATCH_MS) <= 0)
		;
	if (is_full(r)) {
		switch_off(r, NULL);
		eventfd_write(r->stop, 1);
	}
	for (int i = 0; i < r->unspool.nr_cpus; i++)
		reader_give_up(r->unspool.cursors[i].reader);
	for (int i = 0; i < r->unspool.nr_cpus && !ret; i++)
		ret = reader_join(r->unspool.cursors[i].reader, &err);
	if (is_full(r))
		recorder_say_ended(r, why_full(r));
	source_end(&r->unspool.source, ret, &err);
	return NULL;
}

static int start_thread(struct recorder *r, struct error *err)
{
	pthread_attr_t attr;
	int ret;

	pthread_attr_init(&attr);
	ret = thread_start(&r->thread, &attr, r->defer ? watch : unspool_run,
			   r->defer ? (void *)r : &r->unspool);
	if (ret)
		return fail(err, ret, "cannot start the decoder: %s", strerror(ret));
	r->started = true;
	atomic_store(&r->decodes, !r->defer);
	return 0;
}

/* The writer's thread looks after the decoder's priority. */
static void keep_pace(void *context, const struct spool_use *use)
{
	struct recorder *r = context;

	if (atomic_load(&r->decodes))
		unspool_keep_pace(&r->unspool, r->thread, use);
}

static int start_writer(struct recorder *r, struct error *err)
{
	struct writer_config config = {
		.spools = calloc((unsigned int)r->unspool.nr_cpus, sizeof(*config.spools)),
		.nr = r->unspool.nr_cpus,
		.watch = keep_pace,
		.context = r,
	};
	int ret;

	if (!config.spools)
		return fail(err, ENOMEM, "no memory for %d spools", config.nr);
	for (int i = 0; i < config.nr; i++)
		config.spools[i] = r->unspool.cursors[i].spool;
	ret = writer_new(&r->writer, &config, err);
	free(config.spools);
	return ret;
}

/* Free space of a directory's file system; UINT64_MAX if it is unknown. */
static uint64_t free_bytes(const char *directory)
{
	struct statvfs disk;

	return statvfs(directory, &disk) ? UINT64_MAX : (uint64_t)disk.f_bavail * disk.f_frsize;
}

static int make_spools(struct recorder *r, struct error *err)
{
	const struct plan_input machine = {
		.cpus = r->unspool.nr_cpus,
		.subbuf_bytes = instance_subbuf_bytes(r->instance),
		.memory = plan_memory(),
		.disk = free_bytes(r->spool),
		.spool_max = r->spool_max,
		.spool_memory = r->spool_memory,
	};
	struct plan plan;
	int ret = plan_make(&plan, &machine, err);

	if (ret)
		return ret;
	r->budget.max = plan.disk;
	/* Hurry well before the spool is full. */
	if (plan.disk && plan.disk / 4 * 3 < r->unspool.hurry_bytes)
		r->unspool.hurry_bytes = plan.disk / 4 * 3;
	for (int i = 0; i < r->unspool.nr_cpus && !ret; i++) {
		struct cursor *c = &r->unspool.cursors[i];
		const struct spool_config config = {
			.dir = r->spool,
			.cpu = c->cpu,
			.slot_bytes = machine.subbuf_bytes,
			.slots = plan.slots,
			.budget = &r->budget,
			.keep = r->keep,
		};

		ret = spool_new(&c->spool, &config, err);
	}
	return ret ?: start_writer(r, err);
}

static int copy_file(const char *from, const char *to, struct error *err)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), ret = 0;
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char text[16384];
	ssize_t nr = -1;

	while (in >= 0 && out >= 0 && (nr = read(in, text, sizeof(text))) > 0)
		if (write(out, text, (size_t)nr) != nr)
			break;
	if (nr)
		ret = fail(err, errno, "cannot copy %s to %s: %s", from, to, strerror(errno));
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return ret;
}

/* Store the files that a decoder of the spools needs. */
static int describe(struct recorder *r, struct error *err)
{
	char path[PATH_MAX];
	int ret;

	r->dir_fd = open(r->spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir_fd < 0)
		return fail(err, errno, "cannot open %s: %s", r->spool, strerror(errno));
	snprintf(r->dir, sizeof(r->dir), "/proc/self/fd/%d", r->dir_fd);
	snprintf(path, sizeof(path), "%s/tasks", r->dir);
	ret = tasks_keep(r->unspool.tasks, path, err);
	snprintf(path, sizeof(path), "%s/kallsyms", r->spool);
	if (!ret && r->stacks)
		ret = copy_file("/proc/kallsyms", path, err);
	/* Last: a spool with formats has all that its reader needs, whenever the recorder dies. */
	snprintf(path, sizeof(path), "%s/formats", r->spool);
	ret = ret ?: formats_write(path, r->instance, r->events, r->nr_events, &r->addresses, err);
	return ret;
}

static int start_readers(struct recorder *r, struct error *err)
{
	int ret = 0;

	for (int i = 0; i < r->unspool.nr_cpus && !ret; i++) {
		struct cursor *c = &r->unspool.cursors[i];
		const struct reader_config config = {
			.instance = r->instance,
			.spool = c->spool,
			.writer = r->writer,
			.cpu = c->cpu,
			.stop = r->stop,
			.flush_ms = r->prompt ? PROMPT_FLUSH_MS : FLUSH_MS,
		};

		ret = reader_new(&c->reader, &config, err);
	}
	return ret;
}

int recorder_start(struct recorder *r, struct error *err)
{
	int ret;

	if (r->started || atomic_load(&r->stopped))
		return fail(err, EINVAL, "this recording was started before");
	ret = plan_allow_files(r->unspool.nr_cpus * PLAN_CPU_FILES, err);
	ret = ret ?: make_spools(r, err);
	ret = ret ?: start_readers(r, err);
	ret = ret ?: recorder_enable_events(r, err);
	tasks_scan(r->unspool.tasks);
	if (r->keep)
		ret = ret ?: describe(r, err);
	ret = ret ?: start_thread(r, err);
	return ret ?: instance_switch(r->instance, true, err);
}

int recorder_stop(struct recorder *r, struct error *err)
{
	uint64_t held = 0;
	int ret;

	if (atomic_exchange(&r->stopped, true))
		return 0;
	if (!r->started) {
		source_end(&r->unspool.source, 0, NULL);
		return 0;
	}
	atomic_compare_exchange_strong(&r->unspool.limit, &held, NO_LIMIT);
	ret = switch_off(r, err);
	eventfd_write(r->stop, 1);
	unspool_urge(&r->unspool, r->thread);
	return ret;
}

int recorder_hold(struct recorder *r, struct error *err)
{
	uint64_t none = NO_LIMIT;

	if (!r->started || atomic_load(&r->stopped))
		return fail(err, EINVAL, "only a recording that runs can be cut");
	if (r->defer)
		return fail(err, EINVAL, "a recording that is not decoded cannot be cut");
	if (!atomic_compare_exchange_strong(&r->unspool.limit, &none, 0))
		return fail(err, EBUSY, "the cut before this one has not been reached");
	return 0;
}

void recorder_cut(struct recorder *r, uint64_t ts)
{
	atomic_store(&r->unspool.limit, ts);
	unspool_wake(&r->unspool);
}

const char *recorder_ended(const struct recorder *r)
{
	return r->ended;
}

void recorder_say_ended(struct recorder *r, const char *how)
{
	snprintf(r->ended, sizeof(r->ended), "%s", how);
}

const char *const *recorder_skipped(const struct recorder *r, size_t *nr)
{
	*nr = r->nr_skipped;
	return (const char *const *)r->skipped;
}

struct instance *recorder_instance(struct recorder *r)
{
	return r->instance;
}

int recorder_cpus(const struct recorder *r)
{
	return r->unspool.nr_cpus;
}

struct unspool *recorder_unspool(struct recorder *r)
{
	return &r->unspool;
}
