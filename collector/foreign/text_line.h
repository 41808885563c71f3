/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_line.h - one line of the text of a trace.
 *
 * The layouts of ftrace's files trace and trace_pipe (with and without the column of process ids,
 * and the latency format), of trace-cmd report (with the name of an instance before the line), and
 * of perf script (with any of its columns, the time excepted):
 *
 *	          <idle>-0       [001] d.h2. 35440.484803: mm_page_free: page=00000000ea63dfde ...
 *	            bash-24665   (  24665) [001] .....   967.696608: mm_page_alloc: ...
 *	   <...>-1234    0d..1   42us+: mm_page_alloc: ...
 *	imptest:     python3-22969 [001] 35440.484804: mm_page_free_batched: ...
 *	            perf 28728/28728 [001]   576.915707:     1 kmem:mm_page_alloc: page=0x104928 ...
 *	            bash-24665   [001] .....   967.696610: <stack trace>
 *	CPU:1 [LOST 123 EVENTS]
 *	         CPU:0 [109824 EVENTS DROPPED]
 *	# entries-in-buffer/entries-written: 5330/5330   #P:2
 */
#pragma once

#include "words.h"

#define LINE_UNKNOWN UINT64_MAX

enum line_kind {
	LINE_EVENT,
	LINE_STACK,   /* of the event before it on its CPU; its frames follow */
	LINE_LOST,    /* cpu and lost */
	LINE_COMMENT, /* begins with #, or has no event by its form */
	LINE_BROKEN,  /* has the time of an event, and nothing that fits behind it */
};

#define NO_PID INT64_MIN

struct text_line {
	enum line_kind kind;
	int64_t cpu; /* -1: the line has none */
	int64_t pid; /* NO_PID: the line has none; -1: perf script's of a thread that has ended */
	uint64_t ts; /* ns; the unit of the clock where the clock does not count time */
	uint8_t flags, preempt_count;
	uint64_t lost; /* events; LINE_UNKNOWN */
	bool of_perf;  /* as perf script prints it */
	bool in_time;  /* the time has a fraction of a second, or a unit */
	struct words comm, system, event, fields;
};

/* Read the line from `text` to `end`, without its newline. */
void text_line_read(struct text_line *line, const char *text, const char *end);

/* A decimal number at *text, which moves behind it; false: none, or above 64 bits. */
bool text_decimal(const char **text, const char *end, uint64_t *value);
