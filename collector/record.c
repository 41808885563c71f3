// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include "merge.h"
#include "reader.h"
#include "tables.h"

#include <errno.h>
#include <kbuffer.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

enum {
	EVENT_ROWS = 128 * 1024,
	IDLE_MS = 50,
	HURRY_MB = 1024,   /* of spools, before decoding takes CPU time from the load */
	PROMPT_MB = 4,     /* the same, where somebody waits for what is decoded */
	PACE_SUBBUFS = 64, /* how often that is looked at */
	FLUSH_S = 1,       /* that a row may wait for its batch to be full */
};

#define NO_LIMIT UINT64_MAX /* of recorder.limit */

/* For the names and control groups of threads; see tasks.h. */
static const char *const task_events[] = {"task:task_newtask", "task:task_rename",
					  "cgroup:cgroup_attach_task", NULL};

/* One CPU's place in the merge. */
struct cursor {
	int cpu;
	struct reader *reader;
	struct kbuffer *kbuf;
	const void *record; /* the next one, at ts; NULL: its spool was empty */
	uint64_t ts;
	uint64_t complete; /* as of the last look into the spool */
	struct ring row;   /* of this segment, as is the next */

	/* What earlier segments told of the ring: losses, and events read. */
	struct ring_stats told;
	bool untold; /* the size of one of their gaps is unknown */
};

struct recorder {
	struct instance *instance;
	char *spool;
	struct source source;
	struct tasks *tasks;
	int stop; /* eventfd */
	bool started;
	atomic_bool stopped;
	pthread_t thread;
	bool hurried;     /* the thread's own, as is the next: it does not give way now */
	uint64_t subbufs; /* merged so far */
	atomic_bool abandon;

	/*
	 * Events up to `limit` are merged: all (NO_LIMIT), none (0, on hold), or those
	 * before a cut. The decoder lifts the limit when it gets there.
	 */
	_Atomic uint64_t limit;
	uint64_t until;     /* nothing older than this will come out of any ring */
	uint64_t flush_due; /* trace clock */

	char **events; /* those that the kernel has */
	size_t nr_events;
	char **skipped;
	size_t nr_skipped;
	uint64_t vmstat_update;
	bool stacks;
	uint64_t hurry_mb;

	int nr_cpus;
	struct cursor *cursors; /* by ascending CPU */
	struct merge merge;
};

/*
 * Losses.
 */

/* Events of one CPU that the kernel counts as lost, but does not say where. */
static int lose_somewhere(struct recorder *r, int cpu, uint64_t events, struct error *err)
{
	struct gap gap = {cpu, UNKNOWN_COUNT, UNKNOWN_COUNT, events};

	return events ? source_lose(&r->source, gap, err) : 0;
}

/*
 * The gaps of one CPU must add up to what the kernel counted. A page that was
 * full had no room for its number: with one such gap, the rest is its. That can be
 * said only of the `last` segment: the kernel's counts are ahead of the others.
 */
static int settle_cpu(struct recorder *r, struct cursor *c, const struct ring_stats *stats,
		      bool last, struct error *err)
{
	struct gap *unknown = NULL;
	uint64_t known = 0, missing;
	int nr_unknown = 0, ret = 0;

	for (size_t i = 0; i < r->source.nr_gaps; i++) {
		struct gap *gap = &r->source.gaps[i];

		if (gap->cpu != c->cpu)
			continue;
		if (gap->events == UNKNOWN_COUNT) {
			unknown = gap;
			nr_unknown++;
		} else {
			known += gap->events;
		}
	}
	c->row.commit_overrun = stats->commit_overrun - c->told.commit_overrun;
	c->row.dropped = stats->dropped - c->told.dropped;
	c->row.overrun = nr_unknown || c->untold ? UNKNOWN_COUNT : known;
	missing = c->row.commit_overrun + c->row.dropped; /* to nested writers, or refused */
	c->told.read += c->row.read;
	if (last) { /* what was left behind */
		missing += stats->entries;
		if (stats->read > c->told.read)
			missing += stats->read - c->told.read;
	}
	if (last && !c->untold) {
		uint64_t rest;

		c->row.overrun = stats->overrun - c->told.overrun;
		rest = c->row.overrun > known ? c->row.overrun - known : 0;
		if (nr_unknown == 1)
			unknown->events = rest;
		else if (!nr_unknown)
			ret = lose_somewhere(r, c->cpu, rest, err);
	}
	c->told.overrun += known;
	c->told.commit_overrun = stats->commit_overrun;
	c->told.dropped = stats->dropped;
	c->untold = c->untold || nr_unknown;
	return ret ? ret : lose_somewhere(r, c->cpu, missing, err);
}

/* CPUs that came after the start have no reader. */
static bool has_reader(const struct recorder *r, int cpu)
{
	for (int i = 0; i < r->nr_cpus; i++)
		if (r->cursors[i].cpu == cpu)
			return true;
	return false;
}

/* Complete the rings and the gaps of a segment. */
static int settle(struct recorder *r, bool last, struct error *err)
{
	struct ring_stats stats;
	int ret = 0;

	for (int i = 0; i < r->nr_cpus && !ret; i++) {
		struct cursor *c = &r->cursors[i];

		ret = instance_ring_stats(r->instance, c->cpu, &stats, err);
		if (ret)
			break;
		ret = settle_cpu(r, c, &stats, last, err);
		r->source.rings[i] = c->row;
	}
	for (int cpu = 0; last && cpu < get_nprocs_conf() && !ret; cpu++)
		if (!has_reader(r, cpu) && !instance_ring_stats(r->instance, cpu, &stats, NULL))
			ret = lose_somewhere(r, cpu, stats.entries + stats.overrun, err);
	return ret;
}

/*
 * Merging and decoding, in a thread of its own.
 */

/* Sub-buffers that the readers brought, and that were merged, since the start. */
static void progress(const struct recorder *r, uint64_t *written, uint64_t *read)
{
	*written = *read = 0;
	for (int i = 0; i < r->nr_cpus; i++) {
		uint64_t in, out;

		if (!r->cursors[i].reader)
			continue;
		spool_progress(reader_spool(r->cursors[i].reader), &in, &out);
		*written += in;
		*read += out;
	}
}

/* Wishes all: decoding is right at any priority. */
static void set_policy(pthread_t thread, int policy)
{
	const struct sched_param none = {0};

	pthread_setschedparam(thread, policy, &none);
}

/* For the decoder itself: run only where a CPU would be idle, until the stop. */
static void give_way(struct recorder *r, bool idle)
{
	set_policy(pthread_self(), idle ? SCHED_IDLE : SCHED_OTHER);
	if (idle && atomic_load(&r->stopped))
		set_policy(pthread_self(), SCHED_OTHER);
}

/*
 * While the load leaves no CPU idle, this thread hardly runs and the spools grow.
 * It gets some time even so: enough to notice here, and to hurry.
 */
static void keep_pace(struct recorder *r)
{
	uint64_t written, read, behind;

	if (++r->subbufs % PACE_SUBBUFS || atomic_load(&r->stopped))
		return;
	progress(r, &written, &read);
	behind = (written - read) * instance_subbuf_bytes(r->instance) >> 20;
	if (!r->hurried && behind > r->hurry_mb)
		give_way(r, false);
	else if (r->hurried && behind < r->hurry_mb / 2)
		give_way(r, true);
	else
		return;
	r->hurried = !r->hurried;
}

/*
 * Find the next record of this CPU: 1, or 0 if its spool is empty for now. Then
 * c->complete is the time before which it will bring none.
 */
static int next_record(struct recorder *r, struct cursor *c, struct error *err)
{
	unsigned long long ts;
	const void *subbuf;
	int missed, ret;

	c->record = c->record ? kbuffer_next_event(c->kbuf, &ts) : NULL;
	while (!c->record) {
		if (atomic_load_explicit(&r->abandon, memory_order_relaxed))
			return fail(err, ECANCELED, "the recording was closed");
		c->complete = reader_watermark(c->reader); /* before the look into the spool */
		ret = spool_pop(reader_spool(c->reader), &subbuf, err);
		if (ret < 0)
			return ret;
		if (!ret)
			return c->complete == UINT64_MAX ? reader_join(c->reader, err) : 0;
		keep_pace(r);
		kbuffer_load_subbuffer(c->kbuf, (void *)subbuf);
		c->row.bytes += (uint64_t)kbuffer_subbuffer_size(c->kbuf);
		c->record = kbuffer_read_event(c->kbuf, &ts);
		missed = kbuffer_missed_events(c->kbuf);
		if (missed && c->record) {
			struct gap gap = {
				.cpu = c->cpu,
				.from_ts = c->row.last_ts,
				.to_ts = ts,
				.events = missed > 0 ? (uint64_t)missed : UNKNOWN_COUNT,
			};

			ret = source_lose(&r->source, gap, err);
			if (ret)
				return ret;
		}
	}
	c->ts = ts;
	return 1;
}

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

/* So that what was recorded lately can be seen soon, also where little happens. */
static int flush(struct recorder *r, uint64_t ts, struct error *err)
{
	r->flush_due = ts + FLUSH_S * 1000000000ull;
	return source_flush(&r->source, err);
}

static int take(struct recorder *r, struct cursor *c, struct error *err)
{
	int size = kbuffer_event_size(c->kbuf);
	int ret = c->ts < r->flush_due ? 0 : flush(r, c->ts, err);

	if (!ret)
		ret = source_add(&r->source, c->cpu, c->ts, c->record, size, err);
	if (ret)
		return ret;
	tasks_see(r->tasks, c->record, size);
	if (!c->row.read++)
		c->row.first_ts = c->ts;
	c->row.last_ts = c->ts;
	return 0;
}

/*
 * Put in order what can be by now: a record is next when it is the oldest at
 * hand, and no CPU that has none at hand can bring an older one.
 */
static int merge_some(struct recorder *r, struct error *err)
{
	struct merge *m = &r->merge;
	uint64_t until = UINT64_MAX;
	int ret;

	for (int i = 0; i < r->nr_cpus; i++) {
		struct cursor *c = &r->cursors[i];

		if (c->record)
			continue;
		ret = next_record(r, c, err);
		if (ret < 0)
			return ret;
		if (ret)
			merge_add(m, (size_t)i, c->ts);
		else if (c->complete < until)
			until = c->complete;
	}
	while (m->nr && m->heap[0].ts < until &&
	       m->heap[0].ts <= atomic_load_explicit(&r->limit, memory_order_relaxed)) {
		struct cursor *c = &r->cursors[m->heap[0].source];

		ret = take(r, c, err);
		if (ret)
			return ret;
		ret = next_record(r, c, err);
		if (ret < 0)
			return ret;
		if (ret) {
			merge_advance(m, c->ts);
			continue;
		}
		merge_drop(m);
		if (c->complete < until)
			until = c->complete;
	}
	r->until = until;
	return 0;
}

/* Whether all events up to the limit were merged, and nothing else. */
static bool at_limit(const struct recorder *r)
{
	uint64_t limit = atomic_load(&r->limit);

	return limit > 0 && limit < r->until && !(r->merge.nr && r->merge.heap[0].ts <= limit);
}

/* The end of a segment that is not the last. */
static int cut(struct recorder *r, struct error *err)
{
	int ret = settle(r, false, err);

	/* The next may be asked for as soon as the reader of this one goes on. */
	atomic_store(&r->limit, NO_LIMIT);
	if (!ret)
		ret = source_cut(&r->source, err);
	for (int i = 0; i < r->nr_cpus; i++) {
		struct ring *row = &r->cursors[i].row;

		row->read = row->bytes = 0;
		row->first_ts = row->last_ts = UNKNOWN_COUNT;
	}
	return ret;
}

static void *decode(void *arg)
{
	const struct timespec idle = {0, IDLE_MS * 1000000L};
	struct recorder *r = arg;
	struct error err;
	int ret = 0;

	pthread_setname_np(pthread_self(), "pagetape-decode");
	give_way(r, true);
	while (!ret) {
		uint64_t ts = now();

		ret = merge_some(r, &err);
		if (ret)
			break;
		if (at_limit(r)) {
			ret = cut(r, &err);
			continue;
		}
		if (r->until == UINT64_MAX && !r->merge.nr)
			break;
		if (ts >= r->flush_due)
			ret = flush(r, ts, &err);
		nanosleep(&idle, NULL);
	}
	if (!ret)
		ret = settle(r, true, &err);
	if (!ret)
		ret = source_flush(&r->source, &err);
	source_end(&r->source, ret, &err);
	return NULL;
}

/*
 * Set-up.
 */

static int add_name(char ***names, size_t *nr, const char *name, struct error *err)
{
	char **more = realloc(*names, (*nr + 1) * sizeof(*more));

	if (more)
		*names = more;
	if (!more || !(more[*nr] = strdup(name)))
		return fail(err, ENOMEM, "no memory for the name of %s", name);
	(*nr)++;
	return 0;
}

static void free_names(char **names, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free(names[i]);
	free(names);
}

static int split(const char *name, char system[64], char event[64], struct error *err)
{
	if (sscanf(name, "%63[^:]:%63s", system, event) != 2)
		return fail(err, EINVAL, "'%s' is not a tracepoint: expected system:event", name);
	return 0;
}

/* The only work recorded by its start; 0 if the kernel hides its addresses. */
static uint64_t find_vmstat_update(void)
{
	unsigned long long address = 0;
	char line[256];
	FILE *file = fopen("/proc/kallsyms", "re");

	while (file && !address && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, " vmstat_update");

		if (name && (name[14] == '\n' || name[14] == '\0'))
			address = strtoull(line, NULL, 16);
	}
	if (file)
		fclose(file);
	return address;
}

/* Learn the format of an event; false if it cannot be recorded here. */
static bool learn_event(struct recorder *r, const char *system, const char *event)
{
	size_t size;
	char *format = instance_event_read(r->instance, system, event, "format", &size);

	if (!format)
		return false;
	tep_parse_event(r->source.tep, format, size, system);
	free(format);
	if (!strcmp(event, "workqueue_execute_start")) {
		r->vmstat_update = find_vmstat_update();
		if (!r->vmstat_update)
			return false;
	}
	return tep_find_event_by_name(r->source.tep, system, event);
}

static int add_events(struct recorder *r, const char *const *names, struct error *err)
{
	int ret = 0;

	for (; *names && !ret; names++) {
		char system[64], event[64];

		ret = split(*names, system, event, err);
		if (ret)
			break;
		if (learn_event(r, system, event))
			ret = add_name(&r->events, &r->nr_events, *names, err);
		else
			ret = add_name(&r->skipped, &r->nr_skipped, *names, err);
	}
	return ret;
}

static bool has_name(char *const *names, size_t nr, const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Tracepoints were renamed: of each page event asked for, one name must be known. */
static int check_page_events(const struct recorder *r, struct error *err)
{
	for (int k = 0; k < event_table.nr_kinds; k++) {
		const char *const *name = event_table.kinds[k].tracepoints;
		const char *missing = NULL;
		bool found = false;

		for (; *name; name++) {
			found = found || has_name(r->events, r->nr_events, *name);
			if (has_name(r->skipped, r->nr_skipped, *name))
				missing = *name;
		}
		if (missing && !found)
			return fail(err, ENOENT, "this kernel has no tracepoint %s", missing);
	}
	return 0;
}

static int set_up_formats(struct recorder *r, const struct recorder_config *config,
			  struct error *err)
{
	struct decoder_names names = config->names;
	int ret;

	r->source.tep = tep_alloc();
	if (!r->source.tep)
		return fail(err, ENOMEM, "no memory for event formats");
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(r->source.tep, sizeof(long));
	tep_set_page_size(r->source.tep, (int)sysconf(_SC_PAGESIZE));
	ret = add_events(r, config->events, err);
	if (!ret)
		ret = check_page_events(r, err);
	if (!ret && !r->nr_events)
		ret = fail(err, ENOENT, "this kernel has none of the events asked for");
	if (!ret)
		ret = add_events(r, task_events, err);
	if (!ret && r->stacks && !learn_event(r, "ftrace", "kernel_stack"))
		ret = fail(err, ENOTSUP, "this kernel records no stacks (CONFIG_STACKTRACE)");
	names.vmstat_update = r->vmstat_update;
	if (!ret)
		ret = decoder_new(&r->source.decoder, r->source.tep, &names, EVENT_ROWS, err);
	if (!ret)
		ret = tasks_new(&r->tasks, r->source.tep, err);
	return ret;
}

static int add_cpu(struct recorder *r, int cpu, struct error *err)
{
	struct cursor *cursors = realloc(r->cursors, (size_t)(r->nr_cpus + 1) * sizeof(*cursors));
	struct cursor *c;

	if (!cursors)
		return fail(err, ENOMEM, "no memory for cpu %d", cpu);
	r->cursors = cursors;
	c = &cursors[r->nr_cpus++];
	*c = (struct cursor){
		.cpu = cpu,
		.row = {.cpu = cpu,
			.instance = instance_name(r->instance),
			.first_ts = UNKNOWN_COUNT,
			.last_ts = UNKNOWN_COUNT},
	};
	c->kbuf = kbuffer_alloc(KBUFFER_LSIZE_SAME_AS_HOST, KBUFFER_ENDIAN_SAME_AS_HOST);
	if (!c->kbuf)
		return fail(err, ENOMEM, "no memory for cpu %d", cpu);
	return 0;
}

/* "0-3,8" in /sys/devices/system/cpu/online. */
static int set_up_cpus(struct recorder *r, struct error *err)
{
	const char *path = "/sys/devices/system/cpu/online";
	FILE *file = fopen(path, "re");
	int first, last, ret = 0;
	char after = ',';

	if (!file)
		return fail(err, errno, "cannot read %s: %s", path, strerror(errno));
	while (!ret && after == ',' && fscanf(file, "%d%c", &first, &after) == 2) {
		last = first;
		if (after == '-' && fscanf(file, "%d%c", &last, &after) != 2)
			break;
		for (int cpu = first; cpu <= last && !ret; cpu++)
			ret = add_cpu(r, cpu, err);
	}
	fclose(file);
	if (ret)
		return ret;
	r->source.rings = calloc((size_t)r->nr_cpus, sizeof(*r->source.rings));
	r->source.nr_rings = (size_t)r->nr_cpus;
	r->merge.heap = calloc((size_t)r->nr_cpus, sizeof(*r->merge.heap));
	if (!r->nr_cpus || !r->source.rings || !r->merge.heap)
		return fail(err, ENOMEM, "no memory for %d cpus", r->nr_cpus);
	return 0;
}

int recorder_new(struct recorder **out, const struct recorder_config *config, struct error *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return fail(err, ENOMEM, "no memory for a recording");
	source_init(&r->source);
	r->stop = -1;
	atomic_init(&r->limit, NO_LIMIT);
	r->stacks = config->stacks;
	r->hurry_mb = config->prompt ? PROMPT_MB : HURRY_MB;
	r->spool = strdup(config->spool);
	ret = r->spool ? 0 : fail(err, ENOMEM, "no memory for a recording");
	if (!ret)
		ret = instance_new(&r->instance, config->ring_kb, err);
	if (!ret)
		ret = set_up_formats(r, config, err);
	if (!ret)
		ret = set_up_cpus(r, err);
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

void recorder_cancel(struct recorder *r)
{
	const struct error gone = {"the recording was closed"};

	if (atomic_exchange(&r->abandon, true))
		return;
	if (r->started)
		set_policy(r->thread, SCHED_OTHER);
	source_cancel(&r->source);
	if (r->stop >= 0)
		eventfd_write(r->stop, 1);
	if (r->started)
		pthread_join(r->thread, NULL);
	else
		source_end(&r->source, -ECANCELED, &gone);
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	recorder_cancel(r);
	for (int i = 0; i < r->nr_cpus; i++) {
		reader_free(r->cursors[i].reader);
		kbuffer_free(r->cursors[i].kbuf);
	}
	instance_free(r->instance);
	source_destroy(&r->source);
	free(r->source.rings);
	tep_free(r->source.tep);
	tasks_free(r->tasks);
	if (r->stop >= 0)
		close(r->stop);
	free_names(r->events, r->nr_events);
	free_names(r->skipped, r->nr_skipped);
	free(r->cursors);
	free(r->merge.heap);
	free(r->spool);
	free(r);
	/* Its batches leave large holes in the heap of a process that records again and again. */
	malloc_trim(0);
}

/* Signals are for the threads of the program that uses us. */
static int start_decoder(struct recorder *r, struct error *err)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&r->thread, NULL, decode, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return fail(err, ret, "cannot start the decoder: %s", strerror(ret));
	r->started = true;
	return 0;
}

static int enable_events(struct recorder *r, struct error *err)
{
	char system[64], event[64], filter[64];

	snprintf(filter, sizeof(filter), "function == 0x%llx",
		 (unsigned long long)r->vmstat_update);
	for (size_t i = 0; i < r->nr_events; i++) {
		bool is_work = !strcmp(r->events[i], "workqueue:workqueue_execute_start");
		int ret = split(r->events[i], system, event, err);

		if (!ret)
			ret = instance_enable(r->instance, system, event, is_work ? filter : NULL,
					      err);
		if (ret)
			return ret;
	}
	return r->stacks ? instance_trigger(r->instance, "kmem", "mm_page_alloc_extfrag",
					    "stacktrace", err)
			 : 0;
}

int recorder_start(struct recorder *r, struct error *err)
{
	int ret = 0;

	if (r->started || atomic_load(&r->stopped))
		return fail(err, EINVAL, "this recording was started before");
	for (int i = 0; i < r->nr_cpus && !ret; i++) {
		struct cursor *c = &r->cursors[i];

		ret = reader_new(&c->reader, r->instance, c->cpu, r->stop, r->spool, err);
	}
	if (!ret)
		ret = enable_events(r, err);
	tasks_scan(r->tasks);
	if (!ret)
		ret = start_decoder(r, err);
	if (!ret)
		ret = instance_switch(r->instance, true, err);
	return ret;
}

int recorder_stop(struct recorder *r, struct error *err)
{
	uint64_t held = 0;
	int ret;

	if (atomic_exchange(&r->stopped, true))
		return 0;
	if (!r->started) {
		source_end(&r->source, 0, NULL);
		return 0;
	}
	atomic_compare_exchange_strong(&r->limit, &held, NO_LIMIT);
	ret = instance_switch(r->instance, false, err);
	eventfd_write(r->stop, 1);
	set_policy(r->thread, SCHED_OTHER);
	return ret;
}

int recorder_hold(struct recorder *r, struct error *err)
{
	uint64_t none = NO_LIMIT;

	if (!r->started || atomic_load(&r->stopped))
		return fail(err, EINVAL, "only a recording that runs can be cut");
	if (!atomic_compare_exchange_strong(&r->limit, &none, 0))
		return fail(err, EBUSY, "the cut before this one has not been reached");
	return 0;
}

void recorder_cut(struct recorder *r, uint64_t ts)
{
	atomic_store(&r->limit, ts);
}

double recorder_progress(const struct recorder *r)
{
	uint64_t written, read;

	progress(r, &written, &read);
	return written ? (double)read / (double)written : 1;
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
	return r->nr_cpus;
}

struct source *recorder_source(struct recorder *r)
{
	return &r->source;
}

struct tasks *recorder_tasks(struct recorder *r)
{
	return r->tasks;
}
