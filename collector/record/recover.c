// SPDX-License-Identifier: Apache-2.0
#include "recover.h"

#include "decode/formats.h"
#include "input/probe.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBE_ROWS = 64 }; /* in a batch of `event` that stays empty */

struct recovery {
	struct unspool unspool; /* first: see ring_stats */
	pthread_t thread;
	bool started;
};

/* The counts at the end: the recorder's, or those of its guard. */
static int ring_stats(struct unspool *u, int cpu, struct ring_stats *out, struct error *err)
{
	for (int i = 0; i < u->nr_cpus; i++) {
		const struct cursor *c = &u->cursors[i];
		struct spool_past past = spool_past(c->spool);
		const struct ring_stats *rest = spool_rest_counts(c->rest);

		if (c->cpu != cpu || !(past.ended[0] || rest))
			continue;
		*out = past.ended[0] ? past.counts : *rest;
		return 0;
	}
	return fail(err, ENODATA, "the spool of cpu %d has no count of lost events", cpu);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/*
 * The CPU of a spool's file, "cpu12"; -1 for other files, "cpu12.more" and "cpu12.rest" among them.
 * -EBADMSG: a name that looks like a spool's, and that no recorder gives.
 */
static int cpu_of(const char *name, const char *dir, struct error *err)
{
	char canonical[32];
	int cpu = -1, end = 0;

	if (strncmp(name, "cpu", 3))
		return -1;
	if (sscanf(name, "cpu%5d%n", &cpu, &end) != 1 || cpu >= DECODER_CPUS)
		cpu = -1;
	snprintf(canonical, sizeof(canonical), "cpu%d", cpu);
	if (cpu < 0 || strncmp(name, canonical, (size_t)end) ||
	    (name[end] && strcmp(name + end, ".more") && strcmp(name + end, ".rest")))
		return fail(err, EBADMSG, "%s/%s: not the name of a CPU's spool", dir, name);
	return name[end] ? -1 : cpu;
}

/* The CPUs that have a spool, ascending; the caller frees. Returns their number or -errno. */
static int find_cpus(int **cpus, const char *dir, struct error *err)
{
	DIR *entries = opendir(dir);
	struct dirent *entry;
	int nr = 0, cpu;

	*cpus = NULL;
	if (!entries)
		return fail(err, errno, "%s: %s", dir, strerror(errno));
	while (nr >= 0 && (entry = readdir(entries))) {
		int *more;

		cpu = cpu_of(entry->d_name, dir, err);
		if (cpu == -EBADMSG)
			nr = cpu;
		if (cpu < 0)
			continue;
		more = realloc(*cpus, (size_t)(nr + 1) * sizeof(*more));
		if (more) {
			*cpus = more;
			more[nr++] = cpu;
		} else {
			nr = fail(err, ENOMEM, "no memory for %d spools", nr);
		}
	}
	closedir(entries);
	if (!nr)
		return fail(err, ENOENT, "%s: contains no spool", dir);
	if (nr > 0)
		qsort(*cpus, (size_t)nr, sizeof(**cpus), by_number);
	return nr;
}

static int open_spools(struct unspool *u, const char *dir, struct error *err)
{
	int *cpus, ret = 0, nr = find_cpus(&cpus, dir, err);

	for (int i = 0; i < nr && !ret; i++) {
		struct cursor *c;

		ret = unspool_add(u, cpus[i], "", err);
		if (ret)
			break;
		c = &u->cursors[i];
		ret = spool_open(&c->spool, dir, c->cpu, err);
		if (ret)
			break;
		c->cut = spool_past(c->spool).cut;
		ret = spool_rest_open(&c->rest, dir, c->cpu, spool_slot_bytes(c->spool), err);
	}
	free(cpus);
	if (nr < 0)
		return nr;
	return ret ?: unspool_ready(u, err);
}

struct learning {
	const char *path;
	const struct decoder_names *names;
};

/* For the child of probe: libtraceevent must only survive, the messages are the parent's. */
static int try_formats(void *arg, struct error *err)
{
	const struct learning *l = arg;
	struct tep_handle *tep = tep_alloc();
	struct decoder *decoder = NULL;
	struct kernel_addresses addresses;

	if (!tep)
		return fail(err, ENOMEM, "no memory for event formats");
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(tep, sizeof(long));
	if (!formats_read(l->path, tep, &addresses, NULL) &&
	    !decoder_new(&decoder, tep, l->names, PROBE_ROWS, NULL))
		decoder_free(decoder);
	tep_free(tep);
	return 0;
}

static int learn(struct unspool *u, const char *dir, const struct decoder_names *names,
		 struct error *err)
{
	struct decoder_names all = *names;
	char path[PATH_MAX];
	struct learning learning = {path, names};
	const struct probe file = {path, "libtraceevent", 0, try_formats, &learning};
	int ret;

	snprintf(path, sizeof(path), "%s/formats", dir);
	ret = probe(&file, err);
	if (ret)
		return ret;
	u->source.tep = tep_alloc();
	if (!u->source.tep)
		return fail(err, ENOMEM, "no memory for event formats");
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(u->source.tep, sizeof(long));
	ret = formats_read(path, u->source.tep, &all.addresses, err);
	ret = ret ?: decoder_new(&u->source.decoder, u->source.tep, &all, SOURCE_ROWS, err);
	ret = ret ?: decoder_check(u->source.decoder, err);
	ret = ret ?: tasks_new(&u->tasks, u->source.tep, err);
	snprintf(path, sizeof(path), "%s/tasks", dir);
	return ret ?: tasks_load(u->tasks, path, err);
}

int recovery_open(struct recovery **out, const char *dir, const struct decoder_names *names,
		  const struct checkpoint *checkpoint, struct error *err)
{
	struct recovery *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return fail(err, ENOMEM, "no memory to read a spool");
	unspool_init(&r->unspool);
	r->unspool.ring_stats = ring_stats;
	atomic_store(&r->unspool.urgent, true);
	ret = open_spools(&r->unspool, dir, err);
	ret = ret ?: learn(&r->unspool, dir, names, err);
	if (checkpoint)
		ret = ret ?: unspool_resume(&r->unspool, checkpoint, err);
	if (!ret) {
		ret = -pthread_create(&r->thread, NULL, unspool_run, &r->unspool);
		if (ret)
			fail(err, -ret, "%s: cannot start a thread: %s", dir, strerror(-ret));
		r->started = !ret;
	}
	if (ret) {
		recovery_close(r);
		return ret;
	}
	*out = r;
	return 0;
}

void recovery_close(struct recovery *r)
{
	if (!r)
		return;
	unspool_cancel(&r->unspool);
	if (r->started)
		pthread_join(r->thread, NULL);
	unspool_destroy(&r->unspool);
	free(r);
}

int recovery_look(const char *dir, struct spool_state *out, struct error *err)
{
	int *cpus, ret = 0, nr = find_cpus(&cpus, dir, err);
	struct spool_state one;

	*out = (struct spool_state){0};
	for (int i = 0; i < nr && !ret; i++) {
		ret = spool_look(dir, cpus[i], &one, err);
		if (ret)
			break;
		one.waiting += out->waiting + spool_rest_bytes(dir, cpus[i]);
		*out = one;
	}
	free(cpus);
	return nr < 0 ? nr : ret;
}

struct unspool *recovery_unspool(struct recovery *r)
{
	return &r->unspool;
}

const char *recovery_ended(const struct recovery *r)
{
	const char *ended = spool_past(r->unspool.cursors[0].spool).ended;

	return ended[0] ? ended : "killed";
}
