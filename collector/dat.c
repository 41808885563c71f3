// SPDX-License-Identifier: Apache-2.0
#include "dat.h"
#include "merge.h"
#include "subbuf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <kbuffer.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <trace-cmd.h>
#include <unistd.h>

/*
 * libtracecmd exports these for trace-cmd itself but does not declare them in its
 * public header. meson.build checks that they are there.
 */
int tracecmd_set_cursor(struct tracecmd_input *handle, int cpu, size_t offset);
unsigned long long tracecmd_get_cursor(struct tracecmd_input *handle, int cpu);
off_t tracecmd_get_cpu_file_size(struct tracecmd_input *handle, int cpu);
void *tracecmd_record_page(struct tracecmd_input *handle, struct tep_record *record);
int tracecmd_page_size(struct tracecmd_input *handle);
int tracecmd_cpus(struct tracecmd_input *handle);
const char *tracecmd_get_trace_clock(struct tracecmd_input *handle);
const char *tracecmd_get_uname(struct tracecmd_input *handle);
const char *tracecmd_get_cpustats(struct tracecmd_input *handle);

enum {
	EVENT_ROWS = 1 << 17, /* of a batch of `event` */
	MIN_PAGE = 4096,
	MAX_PAGE = 64 << 20,
	SLACK = 64,      /* behind a ring page: kbuffer looks ahead by a few words */
	SURVIVED = '\6', /* the last byte a child that opened the file says */
};

/* The ring of one CPU in one instance. */
struct stream {
	struct tracecmd_input *handle;
	int cpu;
	size_t page_size;
	uint64_t next, end; /* file offsets: of the page to load, and behind the last */
	char *page;         /* a copy of the current page, with SLACK behind it */
	struct kbuffer *kbuf;
	struct subbuf_layout layout;
	int64_t shift; /* what libtracecmd adds to a timestamp */

	/*
	 * libtracecmd converts the timestamps by more than an addition (TSC to ns,
	 * guest to host): take every record from it. Slower, so not the rule.
	 */
	bool by_record;
	struct tep_record *held; /* the current record, if by_record */

	/* The current record. */
	uint64_t ts;
	const void *data;
	int size;
	long long missed; /* events lost just before it; -1: some */

	bool damaged; /* pages were left out since the last record */
	uint64_t bad; /* how many, ever */
	struct ring *ring;
};

struct dat {
	struct source source; /* first: see dat_source */
	struct tracecmd_input *top;
	struct tracecmd_input **handles; /* top and instances */
	const char **names;
	int nr_handles;
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
 * One ring.
 */

static void stream_close(struct stream *s)
{
	tracecmd_free_record(s->held);
	if (s->kbuf)
		kbuffer_free(s->kbuf);
	free(s->page);
}

static uint64_t page_of(const struct stream *s, const struct tep_record *record)
{
	return record->offset & ~(uint64_t)(s->page_size - 1);
}

/* Copy the page of `first` and load it. False: it is damaged. */
static bool load_page(struct stream *s, struct tep_record *first)
{
	uint64_t offset = page_of(s, first);
	size_t size = s->end - offset < s->page_size ? s->end - offset : s->page_size;

	s->next = offset + s->page_size;
	memcpy(s->page, tracecmd_record_page(s->handle, first), size);
	memset(s->page + size, 0, s->page_size - size);
	return subbuf_is_sound(s->page, s->page_size, s->layout) &&
	       !kbuffer_load_subbuffer(s->kbuf, s->page);
}

/* The first record of the page at s->next or of the first later page that has one. */
static struct tep_record *first_record(struct stream *s)
{
	struct tep_record *record;

	if (s->next >= s->end || tracecmd_set_cursor(s->handle, s->cpu, s->next))
		return NULL;
	record = tracecmd_read_data(s->handle, s->cpu);
	if (record && (record->offset < s->next || record->offset >= s->end)) {
		tracecmd_free_record(record);
		return NULL;
	}
	return record;
}

/* Whether the record that is held ends within its page. */
static bool take_held(struct stream *s)
{
	const char *page = tracecmd_record_page(s->handle, s->held);
	const char *data = s->held->data;

	if (s->held->size < 0 || data < page || data + s->held->size > page + s->page_size) {
		s->bad++;
		return false;
	}
	s->ts = s->held->ts;
	s->data = data;
	s->size = s->held->size;
	s->next = s->held->offset;
	return true;
}

/* The record that the kbuffer stands at; false at the end of the page. */
static bool take(struct stream *s)
{
	unsigned long long ts;

	s->data = kbuffer_read_event(s->kbuf, &ts);
	if (!s->data)
		return false;
	s->size = kbuffer_event_size(s->kbuf);
	s->ts = ts + (uint64_t)s->shift;
	return true;
}

/* Go to the first record of the next sound page. */
static bool next_page(struct stream *s)
{
	for (;;) {
		struct tep_record *first = first_record(s);

		if (!first)
			return false;
		if (!load_page(s, first) || !take(s)) {
			tracecmd_free_record(first);
			s->damaged = true;
			s->bad++;
			continue;
		}
		s->missed = s->damaged ? -1 : first->missed_events;
		s->damaged = false;
		if (first->ts != s->ts) {
			s->by_record = true;
			s->held = first;
			return take_held(s);
		}
		tracecmd_free_record(first);
		return true;
	}
}

static bool next_record(struct stream *s)
{
	tracecmd_free_record(s->held);
	s->held = tracecmd_read_data(s->handle, s->cpu);
	if (!s->held)
		return false;
	s->missed = s->held->missed_events;
	return take_held(s);
}

static bool stream_next(struct stream *s)
{
	uint64_t before = s->ts;
	bool more;

	s->missed = 0;
	if (s->by_record) {
		more = next_record(s);
	} else {
		kbuffer_next_event(s->kbuf, NULL);
		more = take(s) || next_page(s);
	}
	/* Time does not go back in a ring, unless the page header is damaged. */
	if (more && s->ts < before)
		s->ts = before;
	return more;
}

/* Whether all records of the first page have the timestamp of the ring but for `shift`. */
static bool constant_shift(struct stream *s, struct tep_record *first)
{
	bool constant = true;
	uint64_t page = page_of(s, first);
	struct tep_record *record = first;
	unsigned long long raw;

	while (record && page_of(s, record) == page && kbuffer_read_event(s->kbuf, &raw)) {
		if (record == first)
			s->shift = (int64_t)(record->ts - raw);
		constant = constant && (int64_t)(record->ts - raw) == s->shift;
		kbuffer_next_event(s->kbuf, NULL);
		if (record != first)
			tracecmd_free_record(record);
		record = tracecmd_read_data(s->handle, s->cpu);
	}
	if (record != first)
		tracecmd_free_record(record);
	return constant;
}

/* 1: the stream stands at its first record, 0: it has none. */
static int stream_open(struct stream *s, struct tracecmd_input *handle, int cpu, uint64_t bytes,
		       struct error *err)
{
	struct tep_handle *tep = tracecmd_get_tep(handle);
	int page_size = tracecmd_page_size(handle);
	struct tep_record *first;
	bool constant;

	s->handle = handle;
	s->cpu = cpu;
	s->page_size = (size_t)page_size;
	if (!bytes)
		return 0;
	if (page_size < MIN_PAGE || page_size > MAX_PAGE || page_size & (page_size - 1))
		return fail(err, EBADMSG, "ring pages of %d bytes: damaged", page_size);
	s->page = calloc(1, s->page_size + SLACK);
	s->layout = (struct subbuf_layout){
		/* By the kernel's long, which the file's own long_size need not be. */
		.header = tep_get_header_page_size(tep) == 4 ? 12 : 16,
		.big_endian = tep_is_file_bigendian(tep),
	};
	s->kbuf = kbuffer_alloc(s->layout.header == 12 ? KBUFFER_LSIZE_4 : KBUFFER_LSIZE_8,
				s->layout.big_endian ? KBUFFER_ENDIAN_BIG : KBUFFER_ENDIAN_LITTLE);
	if (!s->page || !s->kbuf)
		return fail(err, ENOMEM, "no memory for a ring page");

	s->next = tracecmd_get_cursor(handle, cpu) & ~(uint64_t)(page_size - 1);
	s->end = s->next + bytes;
	first = first_record(s);
	if (!first)
		return 0;
	constant = load_page(s, first) && constant_shift(s, first);
	s->next = page_of(s, first);
	tracecmd_free_record(first);
	if (!constant)
		s->shift = INT64_MIN; /* agrees with no record, so next_page goes by record */
	return next_page(s);
}

/*
 * All rings.
 */

static int lose(struct dat *d, const struct stream *s, uint64_t to_ts, long long events,
		struct error *err)
{
	const struct ring *ring = s->ring;
	struct gap gap = {
		.cpu = s->cpu,
		.from_ts = ring->read ? ring->last_ts : UNKNOWN_COUNT,
		.to_ts = to_ts,
		.events = events > 0 ? (uint64_t)events : UNKNOWN_COUNT,
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
		if (s->next != loaded) { /* another page */
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
 * libtracecmd hands the symbols in a file to this function. libtraceevent's own,
 * which this one comes before in the search order of what is loaded together
 * with libtracecmd, parses all 200,000: three quarters of the time to open a file,
 * for the one name that the decoder asks for. The text itself is kept for those who
 * want the names of stacks. Where libtraceevent's function is found after all, opening
 * takes longer and stacks stay addresses.
 */
static _Thread_local char **keep_kallsyms; /* the callback is not told for whom it is called */

__attribute__((visibility("default"))) int tep_parse_kallsyms(struct tep_handle *tep,
							      const char *kallsyms)
{
	static const char name[] = "vmstat_update";
	const char *line = kallsyms, *next;
	unsigned long long address;
	char symbol[sizeof(name) + 1];

	if (keep_kallsyms && !*keep_kallsyms)
		*keep_kallsyms = strdup(kallsyms);
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

	keep_kallsyms = &d->kallsyms;
	d->top = tracecmd_open(path, TRACECMD_FL_LOAD_NO_PLUGINS);
	keep_kallsyms = NULL;
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
	*s->ring = (struct ring){
		.cpu = cpu,
		.instance = d->names[instance],
		.overrun = UNKNOWN_COUNT,
		.commit_overrun = UNKNOWN_COUNT,
		.dropped = UNKNOWN_COUNT,
		.bytes = (uint64_t)bytes,
		.first_ts = UNKNOWN_COUNT,
		.last_ts = UNKNOWN_COUNT,
		.spool_peak = UNKNOWN_COUNT,
		.spool_full = UNKNOWN_COUNT,
	};
	d->nr_bytes += (uint64_t)bytes;
	ret = stream_open(s, handle, cpu, (uint64_t)bytes, err);
	if (ret > 0)
		merge_add(&d->merge, d->nr_streams - 1, s->ts);
	return ret < 0 ? ret : 0;
}

static int open_streams(struct dat *d, struct error *err)
{
	size_t nr = 0;
	int cpus = 0, ret = 0;

	for (int i = 0; i < d->nr_handles; i++) {
		int n = tracecmd_cpus(d->handles[i]);

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
			ring->overrun = n;
		else if (ring && sscanf(line, "commit overrun: %llu", &n) == 1)
			ring->commit_overrun = n;
		else if (ring && sscanf(line, "dropped events: %llu", &n) == 1)
			ring->dropped = n;
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
		.page_size = tracecmd_page_size(d->top),
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

	ret = ret ?: open_streams(d, err);
	if (ret)
		return ret;
	d->source.tep = tracecmd_get_tep(d->top);
	ret = parse_stats(d, err);
	return ret ?: learn_facts(d, err);
}

/* Is it there, and does it begin like a trace.dat of a version that is known? */
static int check_start(const char *path, off_t *size, struct error *err)
{
	static const char magic[] = {0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g'};
	char start[sizeof(magic) + 2];
	struct stat st;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		int code = errno;

		if (fd >= 0)
			close(fd);
		return fail(err, code, "%s: %s", path, strerror(code));
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return fail(err, EINVAL, "%s: not a regular file", path);
	}
	n = read(fd, start, sizeof(start));
	close(fd);
	*size = st.st_size;
	if (!st.st_size)
		return fail(err, EBADMSG, "%s: empty", path);
	if (n < (ssize_t)sizeof(start) || memcmp(start, magic, sizeof(magic)))
		return fail(err, EBADMSG, "%s: not a trace.dat file", path);
	if ((start[sizeof(magic)] != '6' && start[sizeof(magic)] != '7') ||
	    start[sizeof(start) - 1])
		return fail(err, EBADMSG, "%s: trace.dat version '%.2s', not 6 or 7", path,
			    start + sizeof(magic));
	return 0;
}

/*
 * libtracecmd trusts the sizes and offsets in a file, so a damaged one may make
 * it crash or run forever. A child goes first: it opens the file and turns every
 * page, with the very calls that will be made here, and takes the blow. What libtracecmd prints in
 * there becomes the error message.
 */
static void probe_child(const char *path, off_t size, int out)
{
	/* Inflating a compressed file takes its time; an endless loop takes more. */
	rlim_t seconds = 10 + (rlim_t)size / (16 << 20);
	struct rlimit cpu = {seconds, seconds}, core = {0, 0};
	struct dat d = {.top = NULL};
	struct error err;
	int ret;

	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_CORE, &core);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	for (int sig = 1; sig < NSIG; sig++) /* Python's handlers are not for here */
		signal(sig, SIG_DFL);
	alarm((unsigned)(10 * seconds));
	ret = open_all(&d, path, &err);
	for (struct stream *s = d.streams; !ret && s < d.streams + d.nr_streams; s++)
		while (s->by_record ? next_record(s) : next_page(s))
			;
	fflush(stdout);
	if (!ret && write(out, &(char){SURVIVED}, 1) != 1)
		_exit(1);
	_exit(0);
}

/* The last line of what the child said, without the library's prefix. */
static const char *last_line(char *text)
{
	size_t length = strlen(text);
	char *line;

	while (length && strchr("\n ", text[length - 1]))
		text[--length] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

static int probe(const char *path, off_t size, struct error *err)
{
	char said[400] = "";
	size_t length = 0;
	int pipes[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return fail(err, errno, "%s: no pipe: %s", path, strerror(errno));
	pid = fork();
	if (pid < 0) {
		int code = errno;

		close(pipes[0]);
		close(pipes[1]);
		return fail(err, code, "%s: cannot fork: %s", path, strerror(code));
	}
	if (!pid)
		probe_child(path, size, pipes[1]);
	close(pipes[1]);
	while ((n = read(pipes[0], said + length, sizeof(said) - 1 - length)) > 0 ||
	       (n < 0 && errno == EINTR)) {
		length += n > 0 ? (size_t)n : 0;
		if (length == sizeof(said) - 1) { /* the last words are what matters */
			memmove(said, said + length / 2, length - length / 2);
			length -= length / 2;
		}
	}
	said[length] = '\0';
	close(pipes[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		; /* with SIGCHLD ignored there is no status: the pipe says enough */
	if (length && said[length - 1] == SURVIVED)
		return 0;
	if (WIFSIGNALED(status))
		return fail(err, EBADMSG, "%s: damaged (libtracecmd: %s)", path,
			    strsignal(WTERMSIG(status)));
	return fail(err, EBADMSG, "%s: damaged or truncated%s%s", path, length ? ": " : "",
		    last_line(said));
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
	free(d);
}

int dat_open(struct dat **out, const char *path, const struct decoder_names *names,
	     struct error *err)
{
	struct dat *d;
	off_t size = 0;
	int ret;

	*out = NULL;
	ret = check_start(path, &size, err);
	if (ret)
		return ret;
	tracecmd_set_loglevel(TEP_LOG_CRITICAL);
	tep_set_loglevel(TEP_LOG_CRITICAL);
	ret = probe(path, size, err);
	if (ret)
		return ret;

	tracecmd_set_loglevel(TEP_LOG_NONE);
	tep_set_loglevel(TEP_LOG_NONE);
	d = calloc(1, sizeof(*d));
	if (!d)
		return fail(err, ENOMEM, "no memory to read %s", path);
	source_init(&d->source);
	ret = open_all(d, path, err);
	if (!ret) {
		struct error why;

		ret = decoder_new(&d->source.decoder, d->source.tep, names, EVENT_ROWS, &why);
		if (ret)
			fail(err, -ret, "%s: %s", path, why.msg);
	}
	if (!ret) {
		ret = -pthread_create(&d->thread, NULL, decode_thread, d);
		if (ret)
			fail(err, -ret, "%s: no thread: %s", path, strerror(-ret));
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

uint64_t dat_bad_records(const struct dat *d)
{
	uint64_t bad = decoder_bad_records(d->source.decoder);

	for (size_t i = 0; i < d->nr_streams; i++)
		bad += d->streams[i].bad;
	return bad;
}
