// SPDX-License-Identifier: Apache-2.0
/* Texts of ftrace, trace-cmd report and perf script. */
#include "foreign_internal.h"
#include "ring/subbuf.h"
#include "tables.h"
#include "text_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PARTS = 1 << 16, /* later ones get the time of the line before them */
	MAX_HEAD = 256,      /* bytes of a line of the header that are read */
};

/* A place in a part, at an event. */
struct cursor {
	const char *next, *end;
	struct text_line line;
};

struct text {
	struct gfp_words *gfp;
	struct cursor *cursors; /* one for each part */
	struct merge merge;
	char *release, *host, *arch, *command;
	char *gfp_names[32];
	int pageblock_order;
	bool of_trace_cmd, has_head;
	uint64_t last_ts;
};

/* The line at `at`, up to its newline. False at the end, and at a line without one. */
static bool next_line(const char *at, const char *end, const char **newline)
{
	*newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
	return *newline;
}

static void set_fact(char **fact, const char *value)
{
	if (!*fact && *value)
		*fact = strdup(value);
}

/* A line of the header: of ftrace, of perf script --header, or of trace-cmd report. */
static void read_head(struct foreign *f, const char *at, const char *end)
{
	struct text *t = f->own;
	char head[MAX_HEAD], value[MAX_HEAD];
	unsigned long long entries, written;
	size_t length = (size_t)(end - at);
	int cpus;

	length = length < MAX_HEAD ? length : MAX_HEAD - 1;
	memcpy(head, at, length);
	head[length] = '\0';
	if (sscanf(head, "# entries-in-buffer/entries-written: %llu/%llu", &entries, &written) ==
	    2) {
		t->has_head = true;
		if (written > MAX_COUNT || entries > written)
			return;
		if (f->facts.overwritten == UNKNOWN_COUNT)
			f->facts.overwritten = 0;
		f->facts.overwritten += written - entries;
	} else if (sscanf(head, "cpus=%d", &cpus) == 1) {
		t->of_trace_cmd = true;
	} else if (sscanf(head, "# os release : %255s", value) == 1) {
		set_fact(&t->release, value);
	} else if (sscanf(head, "# hostname : %255s", value) == 1) {
		set_fact(&t->host, value);
	} else if (sscanf(head, "# arch : %255s", value) == 1) {
		set_fact(&t->arch, value);
	} else if (sscanf(head, "# cmdline : %255[^\n]", value) == 1) {
		set_fact(&t->command, value);
	} else if (sscanf(head, " => %1s", value) == 1 || sscanf(head, "\t%*x %1s", value) == 1) {
		f->facts.has_stacks = true;
	}
}

/* What the columns of a line say of the file. */
static int see_line(struct foreign *f, struct text_line *line, struct error *err)
{
	int ret;

	if (!f->source.nr_rings)
		f->facts.kind = line->of_perf ? FOREIGN_PERF_SCRIPT : FOREIGN_FTRACE;
	if (line->cpu < 0)
		f->facts.without_cpu = true;
	if (line->pid < 0)
		f->facts.without_pid = true;
	if (!line->in_time)
		f->facts.without_time = true;
	if (line->ts % 1000)
		f->facts.in_us = false;
	ret = foreign_see_cpu(f, line->cpu < 0 ? 0 : line->cpu, err);
	return ret ?: foreign_see_comm(f, line->pid, line->comm.text, line->comm.length, err);
}

/* A free that a BPF program of pagetape printed (snapshot/frees.h): "pagetape free 556640 6". */
static bool is_printed_free(const struct text_line *line)
{
	static const char event[] = "bpf_trace_printk", text[] = "pagetape free ";

	return line->event.length == strlen(event) &&
	       !memcmp(line->event.text, event, strlen(event)) &&
	       line->fields.length > strlen(text) && !memcmp(line->fields.text, text, strlen(text));
}

static void read_printed_free(struct foreign *f, struct event_values *event, struct words fields)
{
	unsigned long long pfn;
	char text[48] = "";
	unsigned order;

	memcpy(text, fields.text, fields.length < sizeof(text) ? fields.length : sizeof(text) - 1);
	if (sscanf(text, "pagetape free %16llx %2u", &pfn, &order) != 2)
		return;
	event->of = shapes_find(f->shapes, "kmem", 4, "mm_page_free", 12);
	set_value(event, shapes_column(f->shapes, event->of, "pfn", 3), pfn);
	set_value(event, shapes_column(f->shapes, event->of, "order", 5), order);
}

/* The values of a line; false: its tracepoint has no room. */
static bool read_values(struct foreign *f, struct event_values *event, const struct text_line *line)
{
	struct text *t = f->own;

	event->of = shapes_find(f->shapes, line->system.text, line->system.length, line->event.text,
				line->event.length);
	event->has = 0;
	event->pid = line->pid < 0 ? 0 : (int32_t)line->pid;
	event->flags = line->flags;
	event->preempt_count = line->preempt_count;
	if (!event->of)
		return false;
	if (is_printed_free(line))
		read_printed_free(f, event, line->fields);
	else if (event->of->table)
		text_fields_read(event, f->shapes, line->fields, t->gfp);
	return true;
}

static int see_event(struct foreign *f, struct text_line *line, const char *at, struct error *err)
{
	struct text *t = f->own;
	struct event_values event;
	int ret = 0;

	if (line->cpu >= DECODER_CPUS || !read_values(f, &event, line) ||
	    !shapes_see(f->shapes, &event)) {
		f->bad++;
		return 0;
	}
	if (event.of->table == &event_table && event.of->kind == EVENT_KIND_ALLOC_EXTFRAG &&
	    t->pageblock_order < 0)
		t->pageblock_order = text_pageblock_order(line->fields);
	if (!f->nr_parts || (line->ts < t->last_ts && f->nr_parts < MAX_PARTS))
		ret = foreign_add_part(f, (uint64_t)(at - f->data), err);
	t->last_ts = line->ts;
	return ret ?: see_line(f, line, err);
}

static int see_all(struct foreign *f, struct error *err)
{
	const char *at = f->data, *end = f->data + f->size, *newline;
	struct text *t = f->own;
	struct text_line line;
	int ret = 0;

	for (; next_line(at, end, &newline) && !ret; at = newline + 1) {
		text_line_read(&line, at, newline);
		if (line.kind == LINE_EVENT)
			ret = see_event(f, &line, at, err);
		else if (line.kind == LINE_LOST)
			t->has_head = true;
		else if (line.kind == LINE_BROKEN)
			f->bad++;
		else
			read_head(f, at, newline);
	}
	if (!ret && at < end) { /* cut: its last number may lack digits */
		text_line_read(&line, at, end);
		f->bad += line.kind != LINE_COMMENT;
	}
	return ret;
}

static int survey(struct foreign *f, struct error *err)
{
	struct text *t = f->own = calloc(1, sizeof(*t));
	int ret = t ? shapes_new(&f->shapes, err) : fail(err, ENOMEM, "no memory for a text");

	if (ret)
		return ret;
	t->pageblock_order = -1;
	f->facts.in_us = true;
	ret = gfp_words_new(&t->gfp, err);
	ret = ret ?: see_all(f, err);
	if (ret)
		return ret;
	if (!f->nr_parts)
		return fail(err, EBADMSG, "%s: a text without an event of a trace", f->path);
	for (size_t i = 0; i < f->nr_parts; i++)
		f->parts[i].end = i + 1 < f->nr_parts ? f->parts[i + 1].begin : f->size;
	if (f->facts.kind == FOREIGN_FTRACE && t->of_trace_cmd)
		f->facts.kind = FOREIGN_TRACE_CMD;
	f->facts.counts_loss = t->has_head || t->of_trace_cmd;
	f->facts.kernel = t->release;
	f->facts.host = t->host;
	f->facts.arch = t->arch;
	f->facts.command = t->command;
	return 0;
}

static int begin(struct foreign *f, const struct foreign_names *names, struct error *err)
{
	struct text *t = f->own;
	struct numbering numbering = {
		.canonical_zones = true,
		.pageblock_order = t->pageblock_order,
	};

	for (int bit = 0; bit < NR_GFP_BITS; bit++) {
		if (asprintf(&t->gfp_names[bit], "__GFP_%s", gfp_bit_names[bit]) < 0)
			return fail(err, ENOMEM, "no memory for the names of the gfp flags");
		numbering.gfp[bit] = t->gfp_names[bit];
	}
	gfp_words_learn(t->gfp, names->groups, names->nr_groups, names->gfp_bits);
	f->facts.unknown_flag = gfp_words_unknown(t->gfp);
	return shapes_formats(f->shapes, f->source.tep, &numbering, err);
}

/* Go to the next event of a part; false at its end. */
static bool advance(struct foreign *f, struct cursor *c)
{
	const char *newline;

	while (next_line(c->next, c->end, &newline)) {
		text_line_read(&c->line, c->next, newline);
		c->next = newline + 1;
		if (c->line.kind == LINE_EVENT && c->line.cpu < DECODER_CPUS)
			return true;
		if (c->line.kind == LINE_LOST)
			foreign_lose(f, c->line.cpu,
				     c->line.lost == LINE_UNKNOWN ? UNKNOWN_COUNT : c->line.lost);
	}
	return false;
}

static int add(struct foreign *f, const struct text_line *line, struct error *err)
{
	struct event_values event;
	uint8_t record[MAX_RECORD];
	int size;

	if (!read_values(f, &event, line))
		return 0; /* counted by the first pass */
	size = shapes_record(&event, record);
	if (!size) {
		f->bad++;
		return 0;
	}
	return foreign_add(f, line->cpu < 0 ? 0 : (int)line->cpu, line->ts, record, size, err);
}

/* Events that a ring overwrote before the first line; the header counts those of all CPUs. */
static void lose_overwritten(struct foreign *f)
{
	const struct source *s = &f->source;
	uint64_t nr = f->facts.overwritten;

	if (nr == UNKNOWN_COUNT || !nr)
		return;
	for (size_t i = 0; i < s->nr_rings; i++)
		foreign_lose(f, s->rings[i].cpu, s->nr_rings == 1 ? nr : UNKNOWN_COUNT);
}

static int open_cursors(struct foreign *f, struct error *err)
{
	struct text *t = f->own;

	t->cursors = calloc(f->nr_parts, sizeof(*t->cursors));
	t->merge.heap = calloc(f->nr_parts, sizeof(*t->merge.heap));
	if (!t->cursors || !t->merge.heap)
		return fail(err, ENOMEM, "no memory for %zu parts", f->nr_parts);
	for (size_t i = 0; i < f->nr_parts; i++) {
		/* Lost events of the first part may stand before its first event. */
		uint64_t begin = i ? f->parts[i].begin : 0;

		t->cursors[i].next = f->data + begin;
		t->cursors[i].end = f->data + f->parts[i].end;
		if (advance(f, &t->cursors[i]))
			merge_add(&t->merge, i, t->cursors[i].line.ts);
	}
	return 0;
}

static int decode(struct foreign *f, struct error *err)
{
	struct text *t = f->own;
	uint64_t done = 0;
	int ret = open_cursors(f, err);

	lose_overwritten(f);
	while (t->merge.nr && !ret) {
		struct cursor *c = &t->cursors[t->merge.heap[0].source];
		const char *before = c->next;

		ret = add(f, &c->line, err);
		if (advance(f, c))
			merge_advance(&t->merge, c->line.ts);
		else
			merge_drop(&t->merge);
		done += (uint64_t)(c->next - before);
		foreign_progress(f, done);
	}
	return ret;
}

static void close_text(struct foreign *f)
{
	struct text *t = f->own;

	if (!t)
		return;
	gfp_words_free(t->gfp);
	for (int bit = 0; bit < 32; bit++)
		free(t->gfp_names[bit]);
	free(t->cursors);
	free(t->merge.heap);
	free(t->release);
	free(t->host);
	free(t->arch);
	free(t->command);
	free(t);
}

const struct reader text_reader = {survey, begin, decode, close_text};
