// SPDX-License-Identifier: Apache-2.0
/* perf.data files, as perf record writes them to a file or to a pipe. */
#include "foreign_internal.h"
#include "input/probe.h"
#include "perf_file.h"
#include "perf_inflate.h"
#include "ring/subbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

struct perf {
	struct perf_file file;
	bool ready;        /* the ids are sorted */
	bool by_id;        /* the attributes differ: the id of a sample names its own */
	int id_at;         /* offset of the id in a sample, or -1 */
	uint64_t unplaced; /* samples lost, of no CPU */
};

/* What an import needs of a sample. */
struct sample {
	uint64_t ts;
	int64_t cpu; /* -1: it has none */
	int32_t pid;
	struct span stack; /* of 8 bytes each; empty: none */
	struct span raw;   /* empty: it has none */
};

/* The parts of a sample of 8 bytes each, before those of other sizes. */
static const uint64_t before_read[] = {
	PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,   PERF_SAMPLE_TID,
	PERF_SAMPLE_TIME,       PERF_SAMPLE_ADDR, PERF_SAMPLE_ID,
	PERF_SAMPLE_STREAM_ID,  PERF_SAMPLE_CPU,  PERF_SAMPLE_PERIOD,
};

/* Offset of the id in samples of this attribute, or -1. */
static int id_offset(const struct perf_attr *attr)
{
	int at = 0;

	if (attr->sample_type & PERF_SAMPLE_IDENTIFIER)
		return 0;
	if (!(attr->sample_type & PERF_SAMPLE_ID))
		return -1;
	for (int i = 0; before_read[i] != PERF_SAMPLE_ID; i++)
		at += attr->sample_type & before_read[i] ? 8 : 0;
	return at;
}

/* The attributes are known: whether a sample's attribute must be looked up. */
static void get_ready(struct perf *p)
{
	const struct perf_file *file = &p->file;

	if (p->ready)
		return;
	p->ready = true;
	perf_file_sort(&p->file);
	p->by_id = false;
	for (size_t i = 0; i < file->nr_attrs; i++)
		p->by_id |= file->attrs[i].type != PERF_TYPE_TRACEPOINT ||
			    file->attrs[i].sample_type != file->attrs[0].sample_type ||
			    file->attrs[i].read_format != file->attrs[0].read_format;
	p->id_at = file->nr_attrs ? id_offset(&file->attrs[0]) : -1;
}

static const struct perf_attr *attr_of(const struct perf *p, struct span sample)
{
	const struct perf_file *file = &p->file;
	const struct perf_id *id;
	struct span at;

	if (!p->by_id)
		return file->nr_attrs ? file->attrs : NULL;
	if (p->id_at < 0)
		return NULL;
	at = span_part(sample, (uint64_t)p->id_at, 8);
	id = at.bad ? NULL : perf_file_id(file, span_number(&at, 8));
	return id && id->attr < file->nr_attrs ? &file->attrs[id->attr] : NULL;
}

/* The counter values of PERF_SAMPLE_READ. */
static void skip_read(struct span *s, uint64_t format)
{
	enum { TIMES = 1 | 2, ID = 4, GROUP = 8, LOST = 16 };
	uint64_t nr = 1, times = (uint64_t)__builtin_popcountll(format & TIMES);
	uint64_t each = 1 + (uint64_t)__builtin_popcountll(format & (ID | LOST));

	if (format & GROUP)
		nr = span_number(s, 8);
	span_take(s, 8 * times);
	span_take(s, nr < span_left(s) ? 8 * nr * each : UINT64_MAX);
}

/* False: damaged. */
static bool read_sample(const struct perf_attr *attr, struct span s, struct sample *sample)
{
	uint64_t type = attr->sample_type, nr;

	*sample = (struct sample){.cpu = -1};
	for (size_t i = 0; i < sizeof(before_read) / sizeof(before_read[0]); i++) {
		uint64_t value;

		if (!(type & before_read[i]))
			continue;
		value = span_number(&s, 8);
		if (before_read[i] == PERF_SAMPLE_TID)
			sample->pid = (int32_t)(value >> 32);
		else if (before_read[i] == PERF_SAMPLE_TIME)
			sample->ts = value;
		else if (before_read[i] == PERF_SAMPLE_CPU)
			sample->cpu = (uint32_t)value;
	}
	if (type & PERF_SAMPLE_READ)
		skip_read(&s, attr->read_format);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		nr = span_number(&s, 8);
		sample->stack = span_take(&s, nr < span_left(&s) ? 8 * nr : UINT64_MAX);
	}
	if (type & PERF_SAMPLE_RAW)
		sample->raw = span_take(&s, span_number(&s, 4));
	return !s.bad;
}

/* CPU and id that stand behind other records than samples, if sample_id_all is set. */
static void read_trailer(const struct perf_attr *attr, struct span s, int64_t *cpu, uint64_t *id)
{
	uint64_t type = attr->sample_type, size = 0;
	static const uint64_t order[] = {
		PERF_SAMPLE_TID,       PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
		PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,  PERF_SAMPLE_IDENTIFIER,
	};
	enum { ORDER = sizeof(order) / sizeof(order[0]) };

	*cpu = -1;
	*id = 0;
	for (int i = 0; i < ORDER; i++)
		size += type & order[i] ? 8 : 0;
	if (!attr->sample_id_all || size > span_left(&s))
		return;
	span_take(&s, span_left(&s) - size);
	for (int i = 0; i < ORDER; i++) {
		uint64_t value = type & order[i] ? span_number(&s, 8) : 0;

		if (type & order[i] && order[i] == PERF_SAMPLE_CPU)
			*cpu = (uint32_t)value;
		else if (type & order[i] && order[i] & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER))
			*id = value;
	}
}

/* The CPU and the number of a record LOST or LOST_SAMPLES; false: it is none, or damaged. */
static bool read_lost(const struct perf *p, uint32_t type, struct span body, int64_t *cpu,
		      uint64_t *events)
{
	const struct perf_id *id;
	uint64_t number = 0, behind;

	if (type != PERF_RECORD_LOST && type != PERF_RECORD_LOST_SAMPLES)
		return false;
	if (type == PERF_RECORD_LOST)
		number = span_number(&body, 8);
	*events = span_number(&body, 8);
	if (body.bad || !p->file.nr_attrs)
		return false;
	read_trailer(p->file.attrs, body, cpu, &behind);
	id = perf_file_id(&p->file, number ?: behind);
	if (*cpu < 0 && id)
		*cpu = id->cpu;
	return true;
}

static int see_comm(struct foreign *f, struct span body, struct error *err)
{
	uint64_t tid;

	span_number(&body, 4);
	tid = span_number(&body, 4);
	if (body.bad)
		return 0;
	return foreign_see_comm(f, (int64_t)tid, span_words(body), err);
}

static int see_sample(struct foreign *f, const uint8_t *begin, struct span body, struct error *err)
{
	struct perf *p = f->own;
	const struct perf_attr *attr;
	struct sample sample;
	int ret;

	get_ready(p);
	attr = attr_of(p, body);
	if (attr && attr->type != PERF_TYPE_TRACEPOINT)
		return 0;
	if (!attr || !read_sample(attr, body, &sample) || sample.cpu >= DECODER_CPUS) {
		f->source.bad++;
		return 0;
	}
	if (!span_left(&sample.raw))
		return 0;
	f->facts.has_stacks |= span_left(&sample.stack) > 0;
	if (sample.cpu < 0) {
		f->facts.without_cpu = true;
		sample.cpu = 0;
	}
	ret = foreign_see_cpu(f, sample.cpu, err);
	return ret
		       ?: foreign_see_event(f, (uint64_t)((const char *)begin - f->data),
					    (uint64_t)((const char *)body.end - f->data),
					    (int)sample.cpu, sample.ts, err);
}

static int see_tracing_comm(void *self, int64_t pid, struct words comm, struct error *err)
{
	return foreign_see_comm(self, pid, comm, err);
}

enum { UNPACK = 1 }; /* the records are compressed */

static int see_all(struct foreign *f, struct error *err)
{
	struct perf *p = f->own;
	struct span records = p->file.records, body, extra;
	const uint8_t *begin = records.at;
	uint64_t lost;
	int64_t cpu;
	uint32_t type;
	int ret = 0;

	for (; !ret && (type = perf_file_next(&records, &body, &extra)); begin = records.at) {
		if (type == PERF_RECORD_SAMPLE) {
			ret = see_sample(f, begin, body, err);
		} else if (type == PERF_RECORD_COMM) {
			ret = see_comm(f, body, err);
		} else if (type == PERF_RECORD_COMPRESSED || type == PERF_RECORD_COMPRESSED2) {
			return UNPACK;
		} else if (read_lost(p, type, body, &cpu, &lost)) {
			if (cpu < 0 || cpu >= DECODER_CPUS)
				p->unplaced += lost < MAX_COUNT ? lost : MAX_COUNT;
			else
				ret = foreign_see_cpu(f, cpu, err);
		} else {
			p->ready &= type != PERF_RECORD_HEADER_ATTR && type != PERF_RECORD_ID_INDEX;
			ret = perf_file_see(&p->file, type, body, extra, err);
			if (type == PERF_RECORD_TRACING_DATA)
				ret = ret ?: perf_file_comms(&p->file, see_tracing_comm, f, err);
		}
	}
	f->source.bad += records.bad; /* the record at which the file is cut or damaged */
	return ret;
}

/* Read the decompressed records instead of the file. */
static int unpack(struct foreign *f, struct error *err)
{
	struct perf *p = f->own;
	int ret = foreign_unpack(f, perf_inflate, p->file.records, err);

	if (ret)
		return ret;
	p->file.records = foreign_span(f);
	p->unplaced = 0;
	return see_all(f, err);
}

static const char *clock_name(int32_t clock)
{
	static const char *const names[] = {"CLOCK_REALTIME", "mono", NULL, NULL,
					    "mono_raw",       NULL,   NULL, "boot"};

	if (clock < 0)
		return "perf";
	return (size_t)clock < sizeof(names) / sizeof(names[0]) ? names[clock] : NULL;
}

static void set_facts(struct foreign *f)
{
	const struct perf *p = f->own;
	const struct perf_file *file = &p->file;

	f->facts.kind = FOREIGN_PERF_DATA;
	f->facts.kernel = file->kernel;
	f->facts.host = file->host;
	f->facts.arch = file->arch;
	f->facts.command = file->command;
	f->facts.counts_loss = !p->unplaced;
	if ((uint64_t)f->facts.cpus < file->cpus && file->cpus < DECODER_CPUS)
		f->facts.cpus = (int)file->cpus;
	for (size_t i = 0; i < file->nr_attrs; i++) {
		const struct perf_attr *attr = &file->attrs[i];

		if (attr->type != PERF_TYPE_TRACEPOINT)
			continue;
		f->facts.clock = clock_name(attr->clock);
		f->to_wall = attr->clock >= 0 && attr->clock == file->clock ? file->to_wall : 0;
		if (attr->is_freq || attr->period > f->facts.sample_period)
			f->facts.sample_period = attr->is_freq ? 0 : attr->period;
		f->facts.is_sampled |= attr->is_freq || attr->period > 1;
		f->facts.without_time |= !(attr->sample_type & PERF_SAMPLE_TIME);
		f->facts.without_pid |= !(attr->sample_type & PERF_SAMPLE_TID);
	}
}

static int survey(struct foreign *f, struct error *err)
{
	struct perf *p = f->own = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return fail(err, ENOMEM, "no memory for a perf.data");
	ret = perf_file_open(&p->file, f->path, foreign_span(f), err);
	ret = ret ?: perf_file_comms(&p->file, see_tracing_comm, f, err);
	ret = ret ?: see_all(f, err);
	if (ret == UNPACK)
		ret = unpack(f, err);
	if (ret)
		return ret < 0 ? ret : fail(err, EBADMSG, "%s: damaged: compressed twice", f->path);
	get_ready(p);
	set_facts(f);
	if (span_left(&p->file.kallsyms))
		f->symbols =
			strndup((const char *)p->file.kallsyms.at, span_left(&p->file.kallsyms));
	foreign_cover(f, (uint64_t)((const char *)p->file.records.at - f->data),
		      (uint64_t)((const char *)p->file.records.end - f->data));
	if (!f->nr_parts)
		return fail(err, EBADMSG, "%s: a perf.data without a sample of a tracepoint",
			    f->path);
	return 0;
}

struct parsing {
	const struct perf_file *file;
	const struct foreign_names *names;
};

/* For the child of probe: libtraceevent trusts the formats. */
static int try_formats(void *arg, struct error *err)
{
	const struct parsing *parsing = arg;
	struct tep_handle *tep = tep_alloc();
	struct decoder *decoder;

	if (tep && !perf_file_formats(parsing->file, tep, err))
		decoder_new(&decoder, tep, &parsing->names->decoder, 64, NULL);
	return 0;
}

static int begin(struct foreign *f, const struct foreign_names *names, struct error *err)
{
	struct perf *p = f->own;
	struct parsing parsing = {&p->file, names};
	struct probe formats = {f->path, "libtraceevent", span_left(&p->file.tracing_data),
				try_formats, &parsing};
	struct error why;
	int ret = probe(&formats, err);

	if (ret)
		return ret;
	ret = perf_file_formats(&p->file, f->source.tep, &why);
	return ret ? fail(err, -ret, "%s: %s", f->path, why.msg) : 0;
}

static bool next(struct foreign *f, struct cursor *c)
{
	struct perf *p = f->own;
	struct span records = {c->next, c->end, false}, body, extra;
	uint32_t type;

	while ((type = perf_file_next(&records, &body, &extra))) {
		const struct perf_attr *attr;
		struct sample sample;
		uint64_t lost;
		int64_t cpu;

		c->next = records.at;
		if (type != PERF_RECORD_SAMPLE) {
			if (read_lost(p, type, body, &cpu, &lost))
				foreign_lose(f, cpu, lost);
			continue;
		}
		attr = attr_of(p, body);
		if (!attr || attr->type != PERF_TYPE_TRACEPOINT ||
		    !read_sample(attr, body, &sample) || !span_left(&sample.raw) ||
		    sample.cpu >= DECODER_CPUS || span_left(&sample.raw) > INT32_MAX)
			continue;
		c->ts = sample.ts;
		c->cpu = sample.cpu < 0 ? 0 : (int)sample.cpu;
		c->data = sample.raw.at;
		c->size = (int)span_left(&sample.raw);
		c->stack = sample.stack;
		return true;
	}
	return false;
}

/* The addresses of a stack that lie in the kernel: marks say whose those behind them are. */
static void take_kernel_frames(struct foreign_stack *to, struct span stack)
{
	const uint64_t marks = (uint64_t)-4095, kernel = (uint64_t)-128;
	bool of_kernel = true;

	while (span_left(&stack) >= 8 && to->nr < FOREIGN_FRAMES) {
		uint64_t address = span_number(&stack, 8);

		if (address >= marks)
			of_kernel = address == kernel;
		else if (of_kernel)
			to->frames[to->nr++] = address;
	}
}

static int add(struct foreign *f, const struct cursor *c, struct error *err)
{
	int ret = foreign_add(f, c->cpu, c->ts, c->data, c->size, err);
	struct foreign_stack stack = {0};

	if (ret || !span_left(&c->stack) || c->size < 8)
		return ret;
	memcpy(&stack.pid, (const uint8_t *)c->data + 4, sizeof(stack.pid)); /* common_pid */
	take_kernel_frames(&stack, c->stack);
	return foreign_add_stack(f, c->cpu, c->ts, &stack, err);
}

static void close_perf(struct foreign *f)
{
	struct perf *p = f->own;

	if (!p)
		return;
	perf_file_close(&p->file);
	free(p);
}

const struct reader perf_reader = {survey, begin, next, add, close_perf};
