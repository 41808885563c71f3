// SPDX-License-Identifier: Apache-2.0
#include "perf_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIPE_HEADER = 16,
	MIN_ATTR = 64, /* bytes of the first version of perf_event_attr */
	MAX_ATTRS = 1 << 16,
	MAX_IDS = 1 << 24,
	SECTION = 16,   /* bytes of an offset and a size */
	FEATURES = 256, /* bits of the header */

	FEATURE_TRACING_DATA = 1,
	FEATURE_HOSTNAME = 3,
	FEATURE_OSRELEASE = 4,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CMDLINE = 11,
	FEATURE_CLOCK_DATA = 29,

	/* perf_event_attr: offsets, and bits of the flags. */
	ATTR_TYPE = 0,
	ATTR_PERIOD = 16,
	ATTR_SAMPLE_TYPE = 24,
	ATTR_READ_FORMAT = 32,
	ATTR_FLAGS = 40,
	ATTR_CLOCK = 92,
	FLAG_FREQ = 10,
	FLAG_SAMPLE_ID_ALL = 18,
	FLAG_USE_CLOCKID = 25,

	MAX_FORMAT = 1 << 20, /* bytes of the format of an event */
};

static uint64_t number_at(struct span s, uint64_t offset, int size)
{
	struct span part = span_part(s, offset, (uint64_t)size);

	return part.bad ? 0 : span_number(&part, size);
}

/* An attribute in `s`, its own size. */
static int add_attr(struct perf_file *p, struct span s, struct error *err)
{
	uint64_t flags = number_at(s, ATTR_FLAGS, 8);
	struct perf_attr *attrs;

	if (s.bad || span_left(&s) < MIN_ATTR || p->nr_attrs == MAX_ATTRS)
		return fail(err, EBADMSG, "damaged: attribute %zu", p->nr_attrs);
	attrs = reallocarray(p->attrs, p->nr_attrs + 1, sizeof(*attrs));
	if (!attrs)
		return fail(err, ENOMEM, "no memory for %zu attributes", p->nr_attrs);
	p->attrs = attrs;
	attrs[p->nr_attrs++] = (struct perf_attr){
		.type = (uint32_t)number_at(s, ATTR_TYPE, 4),
		.clock = flags >> FLAG_USE_CLOCKID & 1 ? (int32_t)number_at(s, ATTR_CLOCK, 4) : -1,
		.sample_type = number_at(s, ATTR_SAMPLE_TYPE, 8),
		.read_format = number_at(s, ATTR_READ_FORMAT, 8),
		.period = number_at(s, ATTR_PERIOD, 8),
		.is_freq = flags >> FLAG_FREQ & 1,
		.sample_id_all = flags >> FLAG_SAMPLE_ID_ALL & 1,
	};
	return 0;
}

static int add_id(struct perf_file *p, uint64_t id, int32_t cpu, bool is_index, struct error *err)
{
	struct perf_id *ids = p->ids;

	if (p->nr_ids == MAX_IDS)
		return fail(err, EBADMSG, "damaged: more than %d ids", MAX_IDS);
	if (!(p->nr_ids & (p->nr_ids - 1))) {
		ids = reallocarray(ids, p->nr_ids ? 2 * p->nr_ids : 1, sizeof(*ids));
		if (!ids)
			return fail(err, ENOMEM, "no memory for %zu ids", p->nr_ids);
		p->ids = ids;
	}
	ids[p->nr_ids++] = (struct perf_id){
		.id = id,
		.attr = is_index ? UINT32_MAX : (uint32_t)p->nr_attrs - 1,
		.cpu = cpu,
	};
	return 0;
}

/* The ids of the attribute added last. */
static int add_ids(struct perf_file *p, struct span s, struct error *err)
{
	int ret = 0;

	while (span_left(&s) >= 8 && !ret)
		ret = add_id(p, span_number(&s, 8), -1, false, err);
	return ret;
}

static void set_text(char **fact, struct span s)
{
	uint64_t size = span_number(&s, 4);
	struct span text = span_take(&s, size);

	if (!text.bad && !*fact && span_left(&text))
		*fact = strndup((const char *)text.at, span_left(&text));
}

/* The words of the recorder's command, joined. */
static void set_command(struct perf_file *p, struct span s)
{
	uint64_t nr = span_number(&s, 4);
	char *words = NULL;
	size_t size = 0;
	FILE *to;

	if (p->command || s.bad || !(to = open_memstream(&words, &size)))
		return;
	for (uint64_t i = 0; i < nr && !s.bad; i++) {
		struct span word = span_take(&s, span_number(&s, 4));

		if (!word.bad)
			fprintf(to, "%s%.*s", i ? " " : "",
				(int)strnlen((const char *)word.at, span_left(&word)),
				(const char *)word.at);
	}
	fclose(to);
	p->command = words;
}

/* struct perf_header.clock_data: version 1, a clock, and two readings at one moment. */
static void set_clock(struct perf_file *p, struct span s)
{
	uint64_t version = span_number(&s, 4), clock = span_number(&s, 4);
	uint64_t wall = span_number(&s, 8), its = span_number(&s, 8);

	if (s.bad || version != 1)
		return;
	p->clock = (int32_t)clock;
	p->to_wall = wall - its;
}

static void see_feature(struct perf_file *p, int feature, struct span s)
{
	if (feature == FEATURE_TRACING_DATA)
		p->tracing_data = s;
	else if (feature == FEATURE_HOSTNAME)
		set_text(&p->host, s);
	else if (feature == FEATURE_OSRELEASE)
		set_text(&p->kernel, s);
	else if (feature == FEATURE_ARCH)
		set_text(&p->arch, s);
	else if (feature == FEATURE_NRCPUS)
		p->cpus = (uint32_t)span_number(&s, 4);
	else if (feature == FEATURE_CMDLINE)
		set_command(p, s);
	else if (feature == FEATURE_CLOCK_DATA)
		set_clock(p, s);
}

/* Sections of features stand behind the records, in the order of their bits. */
static void see_features(struct perf_file *p, struct span file, const uint64_t bits[4],
			 uint64_t offset)
{
	struct span sections = file;

	span_take(&sections, offset);
	for (int feature = 0; feature < FEATURES && !sections.bad; feature++) {
		struct span part;
		uint64_t at, size;

		if (!(bits[feature / 64] >> feature % 64 & 1))
			continue;
		at = span_number(&sections, 8);
		size = span_number(&sections, 8);
		part = span_part(file, at, size);
		p->is_cut |= sections.bad || part.bad;
		if (!sections.bad && !part.bad)
			see_feature(p, feature, part);
	}
}

static int see_attrs(struct perf_file *p, struct span file, struct span attrs, uint64_t attr_size,
		     struct error *err)
{
	int ret = 0;

	if (attr_size < MIN_ATTR + SECTION)
		return fail(err, EBADMSG, "damaged: attributes of %llu bytes",
			    (unsigned long long)attr_size);
	while (span_left(&attrs) >= attr_size && !ret) {
		struct span attr = span_take(&attrs, attr_size - SECTION);
		uint64_t at = span_number(&attrs, 8), size = span_number(&attrs, 8);

		ret = add_attr(p, attr, err);
		ret = ret ?: add_ids(p, span_part(file, at, size), err);
	}
	return ret;
}

int perf_file_open(struct perf_file *p, const char *path, struct span file, struct error *err)
{
	struct span head = file;
	uint64_t size, attr_size, at[3], of[3], bits[4];
	struct error why;
	int ret;

	span_take(&head, 8);
	if (memcmp(file.at, "PERFILE2", 8))
		return fail(err, EBADMSG,
			    "%s: a perf.data of %s: import the text that perf script"
			    " prints there",
			    path,
			    memcmp(file.at, "2ELIFREP", 8) ? "before 2.6.33"
							   : "a machine of the other byte order");
	size = span_number(&head, 8);
	p->is_pipe = size == PIPE_HEADER;
	if (p->is_pipe) {
		p->records = head;
		return 0;
	}
	attr_size = span_number(&head, 8);
	for (int i = 0; i < 3; i++) { /* attributes, records, types of events */
		at[i] = span_number(&head, 8);
		of[i] = span_number(&head, 8);
	}
	for (int i = 0; i < 4; i++)
		bits[i] = span_number(&head, 8);
	if (head.bad)
		return fail(err, EBADMSG, "%s: damaged or truncated", path);
	p->records = span_part(file, at[1], of[1]);
	if (p->records.bad || !of[1]) /* cut off, or perf was killed */
		return fail(err, EBADMSG,
			    "%s: truncated, or of a perf record that was killed: the formats of its"
			    " events, which stand at its end, are missing; record again",
			    path);
	ret = see_attrs(p, file, span_part(file, at[0], of[0]), attr_size, &why);
	if (ret)
		return fail(err, -ret, "%s: %s", path, why.msg);
	see_features(p, file, bits, at[1] + of[1]);
	return 0;
}

void perf_file_close(struct perf_file *p)
{
	free(p->kernel);
	free(p->host);
	free(p->arch);
	free(p->command);
	free(p->attrs);
	free(p->ids);
}

uint32_t perf_file_next(struct span *records, struct span *body, struct span *extra)
{
	uint32_t type;
	uint64_t size;

	*extra = (struct span){records->at, records->at, false};
	if (!span_left(records))
		return 0;
	type = (uint32_t)span_number(records, 4);
	span_number(records, 2);
	size = span_number(records, 2);
	if (size < 8)
		records->bad = true;
	*body = span_take(records, size - 8);
	if (type == PERF_RECORD_TRACING_DATA || type == PERF_RECORD_AUXTRACE) {
		struct span fixed = *body;
		uint64_t behind = span_number(&fixed, type == PERF_RECORD_AUXTRACE ? 8 : 4);

		if (type == PERF_RECORD_TRACING_DATA)
			behind = (behind + 7) / 8 * 8;
		*extra = span_take(records, behind);
	}
	return records->bad ? 0 : type;
}

int perf_file_see(struct perf_file *p, uint32_t type, struct span body, struct span extra,
		  struct error *err)
{
	uint64_t nr;
	int ret = 0;

	switch (type) {
	case PERF_RECORD_HEADER_ATTR: /* the attribute, then its ids */
		nr = number_at(body, 4, 4);
		ret = add_attr(p, span_take(&body, nr), err);
		return ret ?: add_ids(p, body, err);
	case PERF_RECORD_TRACING_DATA:
		p->tracing_data = extra;
		return 0;
	case PERF_RECORD_HEADER_FEATURE:
		nr = span_number(&body, 8);
		if (nr < FEATURES && nr != FEATURE_TRACING_DATA)
			see_feature(p, (int)nr, body);
		return 0;
	case PERF_RECORD_ID_INDEX: /* id, index, cpu, tid */
		span_number(&body, 8);
		while (span_left(&body) >= 32 && !ret) {
			uint64_t id = span_number(&body, 8), cpu;

			span_number(&body, 8);
			cpu = span_number(&body, 8);
			span_number(&body, 8);
			ret = add_id(p, id, cpu < INT32_MAX ? (int32_t)cpu : -1, true, err);
		}
		return ret;
	default:
		return 0;
	}
}

static int by_id(const void *a, const void *b)
{
	const struct perf_id *one = a, *two = b;

	return one->id < two->id ? -1 : one->id > two->id;
}

/* An id stands with its attribute, and in the index with its CPU: join the two. */
void perf_file_sort(struct perf_file *p)
{
	size_t to = 0;

	if (!p->nr_ids)
		return;
	qsort(p->ids, p->nr_ids, sizeof(*p->ids), by_id);
	for (size_t i = 1; i < p->nr_ids; i++) {
		if (p->ids[i].id != p->ids[to].id) {
			p->ids[++to] = p->ids[i];
			continue;
		}
		if (p->ids[to].attr == UINT32_MAX)
			p->ids[to].attr = p->ids[i].attr;
		if (p->ids[to].cpu < 0)
			p->ids[to].cpu = p->ids[i].cpu;
	}
	p->nr_ids = to + 1;
}

const struct perf_id *perf_file_id(const struct perf_file *p, uint64_t id)
{
	struct perf_id key = {.id = id};

	return p->nr_ids ? bsearch(&key, p->ids, p->nr_ids, sizeof(*p->ids), by_id) : NULL;
}

/* A format is parsed from a copy: libtraceevent may look at the byte behind it. */
static void parse_format(struct tep_handle *tep, struct span text, const char *system)
{
	char *copy = span_left(&text) < MAX_FORMAT
			     ? strndup((const char *)text.at, span_left(&text))
			     : NULL;

	if (copy)
		tep_parse_event(tep, copy, strlen(copy), system);
	free(copy);
}

/* Before the formats: the byte order, the sizes, and the files of the ring's format. */
static bool read_head(struct span *s, struct tep_handle *tep, bool *has_comms)
{
	static const uint8_t magic[] = {0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g'};
	struct span head = span_take(s, sizeof(magic));
	const char *version;
	int long_size;

	if (head.bad || memcmp(head.at, magic, sizeof(magic)) || !(version = span_text(s)))
		return false;
	*has_comms = strcmp(version, "0.5") > 0;
	if (span_number(s, 1)) /* big-endian */
		return false;
	long_size = (int)span_number(s, 1);
	span_number(s, 4); /* the page size */
	for (int i = 0; i < 2 && !s->bad; i++) {
		const char *name = span_text(s);
		struct span text = span_take(s, span_number(s, 8));

		if (tep && name && !strcmp(name, "header_page") && !text.bad)
			tep_parse_header_page(tep, (char *)text.at, span_left(&text), long_size);
	}
	if (tep)
		tep_set_long_size(tep, long_size);
	return !s->bad;
}

/* Formats into `tep`, unless that is NULL; then `s` is behind them. */
static bool read_formats(struct span *s, struct tep_handle *tep)
{
	uint64_t systems, nr = span_number(s, 4);

	for (; nr && !s->bad; nr--) {
		struct span text = span_take(s, span_number(s, 8));

		if (tep && !text.bad)
			parse_format(tep, text, "ftrace");
	}
	for (systems = span_number(s, 4); systems && !s->bad; systems--) {
		const char *system = span_text(s);

		for (nr = span_number(s, 4); nr && !s->bad; nr--) {
			struct span text = span_take(s, span_number(s, 8));

			if (tep && system && !text.bad)
				parse_format(tep, text, system);
		}
	}
	return !s->bad;
}

int perf_file_formats(const struct perf_file *p, struct tep_handle *tep, struct error *err)
{
	struct span s = p->tracing_data;
	bool has_comms;

	if (!span_left(&s) && p->is_cut)
		return fail(err, EBADMSG,
			    "truncated: the formats of its events, which stand at its"
			    " end, are missing; copy it again, or record again");
	if (!span_left(&s))
		return fail(err, EBADMSG,
			    "a perf.data without tracepoints: record with perf record -a"
			    " -e 'kmem:*'");
	/* What is whole before damage is used. */
	if (!read_head(&s, tep, &has_comms) ||
	    (!read_formats(&s, tep) && !tep_get_events_count(tep)))
		return fail(err, EBADMSG, "damaged: formats of the events");
	return 0;
}

int perf_file_comms(struct perf_file *p, perf_comm_fn *fn, void *self, struct error *err)
{
	struct span s = p->tracing_data, text;
	const char *at, *end, *newline;
	bool has_comms = false;
	int ret = 0;

	if (!span_left(&s) || !read_head(&s, NULL, &has_comms) || !read_formats(&s, NULL))
		return 0;
	p->kallsyms = span_take(&s, span_number(&s, 4));
	span_take(&s, span_number(&s, 4)); /* printk formats */
	if (!has_comms)
		return 0;
	text = span_take(&s, span_number(&s, 8));
	end = (const char *)text.end;
	for (at = (const char *)text.at; at < end && !ret; at = newline + 1) {
		const char *space = memchr(at, ' ', (size_t)(end - at));

		newline = memchr(at, '\n', (size_t)(end - at)) ?: end;
		if (space && space < newline)
			ret = fn(self, atoi(at), words_between(space + 1, newline), err);
	}
	return ret;
}
