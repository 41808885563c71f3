/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shapes.h - events of files that do not contain the kernel's formats: texts and Perfetto.
 *
 *   struct tracepoint     one that the file has events of
 *   struct event_values   one event, as the values of columns of its table
 *   struct shapes         all tracepoints, and the sets of columns that their events have
 *
 * A shape is a tracepoint with a set of columns. It becomes an event format of our own, with one
 * field of 8 bytes for each column, so that decode/decode.c reads records of these events like
 * those of a kernel. The sets are found by a first pass over the file.
 */
#pragma once

#include "batch.h"
#include "error.h"
#include "words.h"

#include <event-parse.h>

enum {
	VALUES = 64,   /* columns of a table that events fill, at most, and FUNCTION */
	FUNCTION = 63, /* of workqueue:workqueue_execute_start, which is no column */
	MAX_SHAPES = 4096,
	MAX_RECORD = 8 + 8 * VALUES,
	SHAPE_VMSTAT_UPDATE = 1, /* FUNCTION of the work item vmstat_update() */
};

struct shape {
	uint64_t has; /* bit n: column n */
	int type;     /* common_type of its records */
};

struct tracepoint {
	const char *system, *name;
	const struct table *table; /* NULL: its events are only counted */
	uint8_t kind;
	uint64_t columns; /* those that its events may have */
	int nr_shapes;
	struct shape *shapes;
};

struct event_values {
	struct tracepoint *of;
	int32_t pid;
	uint8_t flags, preempt_count; /* as common_flags and common_preempt_count of ftrace */
	uint64_t has;
	uint64_t values[VALUES];
};

/* How the numbers of a file differ from those of a kernel whose formats name them. */
struct numbering {
	const char *gfp[32];  /* "__GFP_IO": name of each bit; NULL: none */
	bool canonical_zones; /* zones are numbered as in tape.toml, else as by 64-bit x86 */
	int pageblock_order;  /* -1: unknown */
};

struct shapes;

int shapes_new(struct shapes **out, struct error *err);
void shapes_free(struct shapes *s);

/*
 * The tracepoint of this name, added if it is new. `system` may be empty: then a tracepoint of any
 * system is found. NULL: no memory, or too many names.
 */
struct tracepoint *shapes_find(struct shapes *s, struct words system, struct words name);

/* The column of the tracepoint's table that a field of this name fills, or -1. */
int shapes_column(const struct shapes *s, const struct tracepoint *of, struct words field);

/* First pass: see an event. False: too many shapes, so the event cannot be stored. */
bool shapes_see(struct shapes *s, const struct event_values *event);

/* After the first pass: the formats of all shapes into `tep`. -ENOMEM, -EINVAL. */
int shapes_formats(const struct shapes *s, struct tep_handle *tep,
		   const struct numbering *numbering, struct error *err);

/* Second pass: the record of an event, and its size. 0: the first pass did not see its shape. */
int shapes_record(const struct event_values *event, uint8_t record[MAX_RECORD]);

static inline void set_value(struct event_values *event, int column, uint64_t value)
{
	event->values[column] = value;
	event->has |= 1ull << column;
}
