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
	MAX_HEAD = 256, /* bytes of a line of the header that are read */
};

struct text {
	struct gfp_words *gfp;
	struct text_line *lines; /* by stream: the current one */
	char *release, *host, *arch, *command;
	char *gfp_names[32];
	int pageblock_order;
	bool of_trace_cmd, has_head;
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
	}
}

/* A line of the first pass that is no event: of the header, or the frame of a stack. */
static void see_other(struct foreign *f, const char *at, const char *end)
{
	struct text_frame frame;

	if (!text_frame_read(&frame, at, end)) {
		read_head(f, at, end);
		return;
	}
	f->facts.has_stacks = true;
	stack_names_address(&f->names, &frame);
}

/* What the columns of a line say of the file. */
static int see_line(struct foreign *f, struct text_line *line, struct error *err)
{
	int ret;

	if (!f->source.nr_rings)
		f->facts.kind = line->of_perf ? FOREIGN_PERF_SCRIPT : FOREIGN_FTRACE;
	if (line->cpu < 0)
		f->facts.without_cpu = true;
	if (line->pid == NO_PID)
		f->facts.without_pid = true;
	if (!line->in_time)
		f->facts.without_time = true;
	if (line->ts % 1000)
		f->facts.in_us = false;
	ret = foreign_see_cpu(f, line->cpu < 0 ? 0 : line->cpu, err);
	return ret ?: foreign_see_comm(f, line->pid, line->comm, err);
}

/* A free that a BPF program of pagetape printed (snapshot/frees.h): "pagetape free 556640 6". */
static bool is_printed_free(const struct text_line *line)
{
	return words_are(line->event, "bpf_trace_printk") &&
	       words_begin(line->fields, "pagetape free ");
}

static void read_printed_free(struct foreign *f, struct event_values *event, struct words fields)
{
	unsigned long long pfn;
	char text[48] = "";
	unsigned order;

	memcpy(text, fields.text, fields.length < sizeof(text) ? fields.length : sizeof(text) - 1);
	if (sscanf(text, "pagetape free %16llx %2u", &pfn, &order) != 2)
		return;
	event->of = shapes_find(f->shapes, words_of("kmem"), words_of("mm_page_free"));
	set_value(event, shapes_column(f->shapes, event->of, words_of("pfn")), pfn);
	set_value(event, shapes_column(f->shapes, event->of, words_of("order")), order);
}

static int32_t pid_of(const struct text_line *line)
{
	return line->pid == NO_PID ? 0 : (int32_t)line->pid;
}

/* The values of a line; false: its tracepoint has no room. */
static bool read_values(struct foreign *f, struct event_values *event, const struct text_line *line)
{
	struct text *t = f->own;

	event->of = shapes_find(f->shapes, line->system, line->event);
	event->has = 0;
	event->pid = pid_of(line);
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

static int see_event(struct foreign *f, struct text_line *line, const char *at, const char *newline,
		     struct error *err)
{
	struct text *t = f->own;
	struct event_values event;
	int ret;

	if (line->cpu >= DECODER_CPUS || !read_values(f, &event, line) ||
	    !shapes_see(f->shapes, &event)) {
		f->source.bad++;
		return 0;
	}
	if (event.of->table == &event_table && event.of->kind == EVENT_KIND_ALLOC_EXTFRAG &&
	    t->pageblock_order < 0)
		t->pageblock_order = text_pageblock_order(line->fields);
	ret = foreign_see_event(f, (uint64_t)(at - f->data), (uint64_t)(newline + 1 - f->data), 0,
				line->ts, err);
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
			ret = see_event(f, &line, at, newline, err);
		else if (line.kind == LINE_LOST)
			t->has_head = true;
		else if (line.kind == LINE_BROKEN)
			f->source.bad++;
		else if (line.kind == LINE_COMMENT)
			see_other(f, at, newline);
	}
	if (!ret && at < end) { /* cut: its last number may lack digits */
		text_line_read(&line, at, end);
		f->source.bad += line.kind != LINE_COMMENT;
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
	foreign_cover(f, 0, f->size);
	if (f->facts.kind == FOREIGN_FTRACE && t->of_trace_cmd)
		f->facts.kind = FOREIGN_TRACE_CMD;
	f->facts.counts_loss = t->has_head || t->of_trace_cmd;
	f->facts.kernel = t->release;
	f->facts.host = t->host;
	f->facts.arch = t->arch;
	f->facts.command = t->command;
	return 0;
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
	t->lines = calloc(f->nr_streams + 1, sizeof(*t->lines));
	if (!t->lines)
		return fail(err, ENOMEM, "no memory for %zu parts", f->nr_parts);
	lose_overwritten(f);
	gfp_words_learn(t->gfp, names->groups, names->nr_groups, names->gfp_bits);
	f->facts.unknown_flag = gfp_words_unknown(t->gfp);
	return shapes_formats(f->shapes, f->source.tep, &numbering, err);
}

static bool next(struct foreign *f, struct cursor *c)
{
	struct text *t = f->own;
	struct text_line *line = &t->lines[c->number];
	const char *newline;

	while (next_line((const char *)c->next, (const char *)c->end, &newline)) {
		text_line_read(line, (const char *)c->next, newline);
		c->next = (const uint8_t *)newline + 1;
		if ((line->kind == LINE_EVENT || line->kind == LINE_STACK) &&
		    line->cpu < DECODER_CPUS && f->ring_of[line->cpu < 0 ? 0 : line->cpu] >= 0) {
			c->ts = line->ts;
			return true;
		}
		if (line->kind == LINE_LOST)
			foreign_lose(f, line->cpu,
				     line->lost == LINE_UNKNOWN ? UNKNOWN_COUNT : line->lost);
	}
	return false;
}

/* The frames in the lines behind a line become a stack. */
static int add_stack(struct foreign *f, const struct cursor *c, const struct text_line *line,
		     struct error *err)
{
	struct foreign_stack stack = {.pid = pid_of(line)};
	const char *at = (const char *)c->next, *newline;
	struct text_frame frame;

	for (; stack.nr < FOREIGN_FRAMES && next_line(at, (const char *)c->end, &newline) &&
	       text_frame_read(&frame, at, newline);
	     at = newline + 1)
		stack.frames[stack.nr++] = stack_names_address(&f->names, &frame);
	return foreign_add_stack(f, line->cpu < 0 ? 0 : (int)line->cpu, line->ts, &stack, err);
}

static int add(struct foreign *f, const struct cursor *c, struct error *err)
{
	const struct text_line *line = &((struct text *)f->own)->lines[c->number];
	struct event_values event;
	uint8_t record[MAX_RECORD];
	int size, ret;

	if (line->kind == LINE_STACK)
		return add_stack(f, c, line, err);
	if (!read_values(f, &event, line))
		return 0; /* counted by the first pass */
	size = shapes_record(&event, record);
	if (!size) {
		f->source.bad++;
		return 0;
	}
	ret = foreign_add(f, line->cpu < 0 ? 0 : (int)line->cpu, line->ts, record, size, err);
	return ret || !line->of_perf || !f->facts.has_stacks ? ret : add_stack(f, c, line, err);
}

static void close_text(struct foreign *f)
{
	struct text *t = f->own;

	if (!t)
		return;
	gfp_words_free(t->gfp);
	for (int bit = 0; bit < 32; bit++)
		free(t->gfp_names[bit]);
	free(t->lines);
	free(t->release);
	free(t->host);
	free(t->arch);
	free(t->command);
	free(t);
}

const struct reader text_reader = {survey, begin, next, add, close_text};
