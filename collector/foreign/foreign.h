/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign.h - the trace file of another tool as a source of batches.
 *
 * Texts of ftrace, trace-cmd report and perf script, perf.data, and Perfetto's protobuf; the file's
 * content decides. A file is read twice: foreign_open makes a first pass, which finds the events,
 * their fields and the parts that are in order of time; foreign_begin starts a thread that merges
 * these parts and feeds the decoder. The file is mapped: memory does not grow with its size, but
 * for a few bytes for each part.
 *
 * Damage ends a part or a line. All that is whole before and behind it is read.
 */
#pragma once

#include "decode/source.h"
#include "text_fields.h"

#include <stdbool.h>

struct foreign;

enum foreign_kind {
	FOREIGN_FTRACE, /* the files trace and trace_pipe */
	FOREIGN_TRACE_CMD,
	FOREIGN_PERF_SCRIPT,
	FOREIGN_PERF_DATA,
	FOREIGN_PERFETTO,
};

/* Facts that the file has; NULL, 0 or UNKNOWN_COUNT where it lacks them. Complete at the end. */
struct foreign_facts {
	enum foreign_kind kind;
	const char *kernel, *host, *arch, *clock;
	const char *command; /* of the recorder */
	int cpus;
	uint64_t began;          /* wall clock of the first event: see decode/wall_clock.h */
	bool counts_loss;        /* the file would show that events were lost */
	uint64_t overwritten;    /* events lost before the first one, of all CPUs */
	uint64_t dropped_chunks; /* of Perfetto's buffer: overwritten, or lost */
	bool without_cpu;        /* no line names a CPU */
	bool without_pid;
	bool without_time; /* the clock counts no time */
	bool in_us;        /* no time is finer than a microsecond */
	bool has_stacks;
	bool has_symbols;         /* names for their addresses */
	bool is_sampled;          /* perf recorded one event of many ... */
	uint64_t sample_period;   /* ... of so many; 0: the number varies */
	const char *unknown_flag; /* a name in gfp flags that no kernel of this release has */
};

/* Names and numbers of the traced kernel, which the file may lack. */
struct foreign_names {
	struct decoder_names decoder;
	const struct gfp_group *groups; /* `nr_groups` of them, for texts */
	size_t nr_groups;
	const char *gfp_bits[32]; /* "__GFP_IO": flag of each bit of a number; NULL: none */
};

/*
 * Open `path` and read it a first time. -ENOENT and the like, -EINVAL (not a regular file),
 * -EBADMSG (no event in it; damaged), -ENOMEM.
 */
int foreign_open(struct foreign **out, const char *path, struct error *err);

/* Start decoding; `names` is copied. -ENOMEM, -EINVAL. */
int foreign_begin(struct foreign *f, const struct foreign_names *names, struct error *err);

/* Stop at once. */
void foreign_close(struct foreign *f);

struct source *foreign_source(struct foreign *f);
const struct foreign_facts *foreign_facts(const struct foreign *f);

/* Functions by address, as in /proc/kallsyms; "": none. */
const char *foreign_kallsyms(const struct foreign *f);
