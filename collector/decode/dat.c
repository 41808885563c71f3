// SPDX-License-Identifier: Apache-2.0
#include "dat.h"
#include "input/probe.h"
#include "input/regular.h"
#include "merge.h"
#include "wall_clock.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trace-cmd.h>
#include <unistd.h>

/*
 * libtracecmd exports these for trace-cmd itself, but its public header does not declare
 * them. meson.build checks that they exist.
 */
off_t tracecmd_get_cpu_file_size(struct tracecmd_input *handle, int cpu);
int tracecmd_page_size(struct tracecmd_input *handle);
int tracecmd_cpus(struct tracecmd_input *handle);
const char *tracecmd_get_trace_clock(struct tracecmd_input *handle);
const char *tracecmd_get_uname(struct tracecmd_input *handle);
const char *tracecmd_get_cpustats(struct tracecmd_input *handle);

enum { PROBE_ROWS = 64 }; /* in a batch of `event` that stays empty */

struct dat {
	struct source source; /* first: see dat_source */
	struct tracecmd_input *top;
	struct tracecmd_input **handles; /* top and instances */
	const char **names;
	int nr_handles;
	struct dat_pages pages;
	struct stream *streams; /* by CPU, then by instance: the order of equal times */
	size_t nr_streams;
	struct merge merge; /* of the streams that have a record */
	struct dat_facts facts;
	char *uname;
	char *kallsyms;
	uint64_t nr_bytes, bytes_done;
	pthread_t thread;
};

/*
 * All rings.
 */

/* A count in the file; greater ones than any ring's are damage. */
static uint64_t known(uint64_t count)
{
	return count <= MAX_COUNT ? count : UNKNOWN_COUNT;
}

static int lose(struct dat *d, const struct stream *s, uint64_t to_ts, long long events,
		struct error *err)
{
	const struct ring *ring = s->ring;
	struct gap gap = {
		.cpu = s->cpu,
		.from_ts = ring->read ? ring->last_ts : UNKNOWN_COUNT,
		.to_ts = to_ts,
		.events = events > 0 ? known((uint64_t)events) : UNKNOWN_COUNT,
	};

	return source_lose(&d->source, gap, err);
}

static int decode(struct dat *d, struct error *err)
{
	uint64_t loaded;
	int ret;

	while (d->merge.nr) {
		struct stream *s = &d->streams[d->merge.heap[0].source];
		struct ring *ring = s->ring;

		if (s->missed) {
			ret = lose(d, s, s->ts, s->missed, err);
			if (ret)
				return ret;
		}
		ret = source_add(&d->source, s->cpu, s->ts, s->data, s->size, err);
		if (ret)
			return ret;
		if (!ring->read++)
			ring->first_ts = s->ts;
		ring->last_ts = s->ts;

		loaded = s->next;
		if (stream_next(s))
			merge_advance(&d->merge, s->ts);
		else
			merge_drop(&d->merge);
		if (s->next != loaded && d->nr_bytes) { /* another page */
			d->bytes_done += s->next - loaded;
			__atomic_store_n(&d->source.progress, (d->bytes_done << 20) / d->nr_bytes,
					 __ATOMIC_RELAXED);
		}
	}
	for (struct stream *s = d->streams; s < d->streams + d->nr_streams; s++) {
		ret = s->damaged ? lose(d, s, UNKNOWN_COUNT, -1, err) : 0;
		if (ret)
			return ret;
	}
	return source_flush(&d->source, err);
}

static void *decode_thread(void *arg)
{
	struct dat *d = arg;
	struct error err;
	int ret = decode(d, &err);

	source_end(&d->source, ret, &err);
	return NULL;
}

/*
 * The file.
 */

/*
 * libtracecmd passes the symbols in a file to this function, which replaces libtraceevent's own: it
 * comes first in the search order of libtracecmd. The original parses all 200,000 symbols, three
 * quarters of the time to open a file, for the one name that the decoder needs. The text is stored
 * for the names in stacks. If the linker finds libtraceevent's function instead, opening takes
 * longer and stacks have addresses only.
 */
static _Thread_local char **kallsyms_out; /* the callback has no argument for it */

__attribute__((visibility("default"))) int tep_parse_kallsyms(struct tep_handle *tep,
							      const char *kallsyms)
{
	static const char name[] = "vmstat_update";
	const char *line = kallsyms, *next;
	unsigned long long address;
	char symbol[sizeof(name) + 1];

	if (kallsyms_out && !*kallsyms_out)
		*kallsyms_out = strdup(kallsyms);
	for (; (line = strstr(line, name)); line = next) {
		next = line + strlen(name);
		while (line > kallsyms && line[-1] != '\n')
			line--;
		if (sscanf(line, "%llx %*c %14s", &address, symbol) == 2 && !strcmp(symbol, name))
			return tep_register_function(tep, symbol, address, NULL);
	}
	return 0;
}

static int open_handles(struct dat *d, const char *path, struct error *err)
{
	int nr;

	kallsyms_out = &d->kallsyms;
	d->top = tracecmd_open(path, TRACECMD_FL_LOAD_NO_PLUGINS);
	kallsyms_out = NULL;
	if (!d->top)
		return fail(err, EBADMSG, "%s: damaged or truncated", path);
	nr = tracecmd_buffer_instances(d->top);
	d->handles = calloc((size_t)nr + 1, sizeof(*d->handles));
	d->names = calloc((size_t)nr + 1, sizeof(*d->names));
	if (!d->handles || !d->names)
		return fail(err, ENOMEM, "no memory for %d instances", nr);
	d->handles[0] = d->top;
	d->names[0] = "";
	for (d->nr_handles = 1; d->nr_handles <= nr; d->nr_handles++) {
		int i = d->nr_handles;

		d->names[i] = tracecmd_buffer_instance_name(d->top, i - 1);
		d->handles[i] = tracecmd_buffer_instance_handle(d->top, i - 1);
		if (!d->handles[i])
			return fail(err, EBADMSG, "%s: damaged or truncated: instance '%s'", path,
				    d->names[i]);
	}
	return 0;
}

static int open_stream(struct dat *d, int instance, int cpu, struct error *err)
{
	struct tracecmd_input *handle = d->handles[instance];
	off_t bytes = tracecmd_get_cpu_file_size(handle, cpu);
	struct stream *s = &d->streams[d->nr_streams];
	int ret;

	if (bytes < 0) /* another instance has more CPUs */
		return 0;
	s->ring = &d->source.rings[d->nr_streams++];
	*s->ring = ring_unread(cpu, d->names[instance]);
	s->ring->bytes = (uint64_t)bytes;
	d->nr_bytes += (uint64_t)bytes;
	s->handle = handle;
	s->instance = instance;
	s->cpu = cpu;
	s->pages = &d->pages;
	s->bad = &d->source.bad;
	ret = stream_open(s, (uint64_t)bytes, err);
	if (ret > 0)
		merge_add(&d->merge, d->nr_streams - 1, s->ts);
	return ret < 0 ? ret : 0;
}

static int open_streams(struct dat *d, const char *path, struct error *err)
{
	size_t nr = 0;
	int cpus = 0, ret = 0;

	for (int i = 0; i < d->nr_handles; i++) {
		int n = tracecmd_cpus(d->handles[i]);

		if (n < 0 || n > DECODER_CPUS)
			return fail(err, EBADMSG, "%s: damaged: %d CPUs", path, n);
		nr += (size_t)n;
		cpus = n > cpus ? n : cpus;
	}
	d->streams = calloc(nr + 1, sizeof(*d->streams));
	d->merge.heap = calloc(nr + 1, sizeof(*d->merge.heap));
	d->source.rings = calloc(nr + 1, sizeof(*d->source.rings));
	if (!d->streams || !d->merge.heap || !d->source.rings)
		return fail(err, ENOMEM, "no memory for %zu rings", nr);
	for (int cpu = 0; cpu < cpus && !ret; cpu++)
		for (int i = 0; i < d->nr_handles && !ret; i++)
			ret = open_stream(d, i, cpu, err);
	d->source.nr_rings = d->nr_streams;
	return ret;
}

static struct ring *find_ring(struct dat *d, const char *instance, int cpu)
{
	for (size_t i = 0; i < d->source.nr_rings; i++)
		if (d->source.rings[i].cpu == cpu && !strcmp(d->source.rings[i].instance, instance))
			return &d->source.rings[i];
	return NULL;
}

/* The per_cpu/cpuN/stats files, one after the other, with "CPU: N" before each. */
static int parse_stats(struct dat *d, struct error *err)
{
	const char *text = tracecmd_get_cpustats(d->top);
	char *copy = strdup(text ? text : ""), *rest = copy, *line;
	char instance[256] = "";
	struct ring *ring = NULL;
	unsigned long long n;
	int cpu;

	if (!copy)
		return fail(err, ENOMEM, "no memory for the ring statistics");
	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "Buffer: %255s", instance) == 1)
			ring = NULL;
		else if (sscanf(line, "CPU: %d", &cpu) == 1)
			ring = find_ring(d, instance, cpu);
		else if (ring && sscanf(line, "overrun: %llu", &n) == 1)
			ring->overrun = known(n);
		else if (ring && sscanf(line, "commit overrun: %llu", &n) == 1)
			ring->commit_overrun = known(n);
		else if (ring && sscanf(line, "dropped events: %llu", &n) == 1)
			ring->dropped = known(n);
	}
	free(copy);
	return 0;
}

static int learn_facts(struct dat *d, struct error *err)
{
	const char *text = tracecmd_get_uname(d->top);
	char *rest;

	d->facts = (struct dat_facts){
		.clock = tracecmd_get_trace_clock(d->top),
		.cpus = tracecmd_cpus(d->top),
		.page_size = stream_is_page_size(tracecmd_page_size(d->top))
				     ? tracecmd_page_size(d->top)
				     : 0,
		.began = d->merge.nr ? wall_clock(d->merge.heap[0].ts, 0) : 0,
		.nr_instances = d->nr_handles,
		.instances = d->names,
	};
	if (!text)
		return 0;
	d->uname = strdup(text);
	if (!d->uname)
		return fail(err, ENOMEM, "no memory for the name of the kernel");
	rest = d->uname;
	strsep(&rest, " "); /* Linux */
	d->facts.host = strsep(&rest, " ");
	d->facts.kernel = strsep(&rest, " ");
	d->facts.arch = strsep(&rest, " ");
	return 0;
}

static int open_all(struct dat *d, const char *path, struct error *err)
{
	int ret = open_handles(d, path, err);

	ret = ret ?: open_streams(d, path, err);
	if (ret)
		return ret;
	d->source.tep = tracecmd_get_tep(d->top);
	ret = parse_stats(d, err);
	return ret ?: learn_facts(d, err);
}

/* The file must exist and begin like a trace.dat of a known version. */
static int check_start(const char *path, uint64_t *bytes, struct error *err)
{
	static const char magic[] = {0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g'};
	char start[sizeof(magic) + 2];
	struct stat st = {0};
	ssize_t n;
	int fd = regular_open(path, 0, &st, err);

	if (fd < 0)
		return fd;
	n = read(fd, start, sizeof(start));
	close(fd);
	*bytes = (uint64_t)st.st_blocks * 512;
	if (!st.st_size)
		return fail(err, EBADMSG, "%s: empty", path);
	if (n < (ssize_t)sizeof(start) || memcmp(start, magic, sizeof(magic)))
		return fail(err, EBADMSG, "%s: not a trace.dat file", path);
	if ((start[sizeof(magic)] != '6' && start[sizeof(magic)] != '7') ||
	    start[sizeof(start) - 1])
		return fail(err, EBADMSG, "%s: trace.dat version '%c', not 6 or 7", path,
			    isprint((unsigned char)start[sizeof(magic)]) ? start[sizeof(magic)]
									 : '?');
	return 0;
}

struct probing {
	const char *path;
	const struct decoder_names *names;
	const struct dat_pages *pages;
};

/* For the child of probe: the same calls as dat_open makes. */
static int try_open(void *arg, struct error *err)
{
	const struct probing *p = arg;
	struct dat d = {.pages = *p->pages};
	int ret = open_all(&d, p->path, err);

	/* Its messages are its own; here it must only survive. */
	if (!ret && !decoder_new(&d.source.decoder, d.source.tep, p->names, PROBE_ROWS, NULL))
		decoder_free(d.source.decoder);
	return ret;
}

static void free_all(struct dat *d)
{
	for (size_t i = 0; i < d->nr_streams; i++)
		stream_close(&d->streams[i]);
	source_destroy(&d->source);
	free(d->source.rings);
	for (int i = d->nr_handles - 1; i > 0; i--)
		tracecmd_close(d->handles[i]);
	tracecmd_close(d->top);
	free(d->handles);
	free(d->names);
	free(d->streams);
	free(d->merge.heap);
	free(d->uname);
	free(d->kallsyms);
	free((void *)d->pages.bad);
	free(d);
}

static int copy_pages(struct dat_pages *to, const struct dat_pages *from, struct error *err)
{
	struct dat_page *bad = calloc(from->nr_bad + 1, sizeof(*bad));

	if (!bad)
		return fail(err, ENOMEM, "no memory for %zu damaged pages", from->nr_bad);
	for (size_t i = 0; i < from->nr_bad; i++)
		bad[i] = from->bad[i];
	*to = (struct dat_pages){from->reading, bad, from->nr_bad};
	return 0;
}

int dat_open(struct dat **out, const char *path, const struct decoder_names *names,
	     const struct dat_pages *pages, struct error *err)
{
	struct probing probing = {path, names, pages};
	struct probe file = {path, "libtracecmd", 0, try_open, &probing};
	struct dat *d;
	int ret;

	*out = NULL;
	tracecmd_set_loglevel(TEP_LOG_CRITICAL);
	tep_set_loglevel(TEP_LOG_CRITICAL);
	ret = check_start(path, &file.bytes, err);
	ret = ret ?: probe(&file, err);
	if (ret)
		return ret;

	tracecmd_set_loglevel(TEP_LOG_NONE);
	tep_set_loglevel(TEP_LOG_NONE);
	d = calloc(1, sizeof(*d));
	if (!d)
		return fail(err, ENOMEM, "no memory to read %s", path);
	source_init(&d->source);
	ret = copy_pages(&d->pages, pages, err);
	ret = ret ?: open_all(d, path, err);
	if (!ret) {
		struct error why;

		ret = decoder_new(&d->source.decoder, d->source.tep, names, SOURCE_ROWS, &why);
		if (ret)
			fail(err, -ret, "%s: %s", path, why.msg);
	}
	if (!ret) {
		ret = -pthread_create(&d->thread, NULL, decode_thread, d);
		if (ret)
			fail(err, -ret, "%s: cannot start a thread: %s", path, strerror(-ret));
	}
	if (ret) {
		free_all(d);
		return ret;
	}
	*out = d;
	return 0;
}

void dat_close(struct dat *d)
{
	if (!d)
		return;
	source_cancel(&d->source);
	pthread_join(d->thread, NULL);
	free_all(d);
}

struct source *dat_source(struct dat *d)
{
	return &d->source;
}

const struct dat_facts *dat_facts(const struct dat *d)
{
	return &d->facts;
}

const char *dat_kallsyms(const struct dat *d)
{
	return d->kallsyms ? d->kallsyms : "";
}
