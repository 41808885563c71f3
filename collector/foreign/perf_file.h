/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_file.h - the frame of a perf.data file: attributes, features, formats, and its records.
 *
 * After tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h.
 */
#pragma once

#include "error.h"
#include "span.h"
#include "words.h"

#include <event-parse.h>
#include <stddef.h>

enum perf_record {
	PERF_RECORD_LOST = 2,
	PERF_RECORD_COMM = 3,
	PERF_RECORD_SAMPLE = 9,
	PERF_RECORD_LOST_SAMPLES = 13,
	PERF_RECORD_HEADER_ATTR = 64,
	PERF_RECORD_TRACING_DATA = 66,
	PERF_RECORD_AUXTRACE = 71,
	PERF_RECORD_ID_INDEX = 69,
	PERF_RECORD_HEADER_FEATURE = 80,
	PERF_RECORD_COMPRESSED = 81,
	PERF_RECORD_COMPRESSED2 = 83,
};

/* Bits of perf_event_attr.sample_type. */
enum perf_sample {
	PERF_SAMPLE_IP = 1 << 0,
	PERF_SAMPLE_TID = 1 << 1,
	PERF_SAMPLE_TIME = 1 << 2,
	PERF_SAMPLE_ADDR = 1 << 3,
	PERF_SAMPLE_READ = 1 << 4,
	PERF_SAMPLE_CALLCHAIN = 1 << 5,
	PERF_SAMPLE_ID = 1 << 6,
	PERF_SAMPLE_CPU = 1 << 7,
	PERF_SAMPLE_PERIOD = 1 << 8,
	PERF_SAMPLE_STREAM_ID = 1 << 9,
	PERF_SAMPLE_RAW = 1 << 10,
	PERF_SAMPLE_IDENTIFIER = 1 << 16,
};

enum { PERF_TYPE_TRACEPOINT = 2 };

/* An event that was recorded. */
struct perf_attr {
	uint32_t type;
	int32_t clock; /* CLOCK_*, or -1: the clock of perf */
	uint64_t sample_type, read_format, period;
	bool is_freq, sample_id_all;
};

struct perf_id {
	uint64_t id;
	uint32_t attr; /* its number */
	int32_t cpu;   /* -1: unknown */
};

struct perf_file {
	bool is_pipe;
	bool is_cut; /* a section ends behind the file */
	struct span records;
	struct span tracing_data; /* empty: the file has none */
	struct span kallsyms;     /* of older perf, after perf_file_comms */
	char *kernel, *host, *arch, *command;
	uint32_t cpus;
	int32_t clock;    /* CLOCK_*, for ... */
	uint64_t to_wall; /* ... from its time to that of the wall clock, modulo 2^64; 0: unknown */
	size_t nr_attrs, nr_ids;
	struct perf_attr *attrs;
	struct perf_id *ids; /* sorted by id, after perf_file_sort */
};

/* The header of a file that is not a pipe's, with all but its records. -EBADMSG, -ENOMEM. */
int perf_file_open(struct perf_file *p, const char *path, struct span file, struct error *err);
void perf_file_close(struct perf_file *p);

/*
 * The next record: its type and its body, without the header. 0 at the end or at damage (then
 * records->bad). The extra bytes of TRACING_DATA and AUXTRACE are skipped, or given in `extra`.
 */
uint32_t perf_file_next(struct span *records, struct span *body, struct span *extra);

/* The records of a pipe that stand for the sections of a file; others are left alone. */
int perf_file_see(struct perf_file *p, uint32_t type, struct span body, struct span extra,
		  struct error *err);

/* After all ids. */
void perf_file_sort(struct perf_file *p);

/* The id, or NULL. */
const struct perf_id *perf_file_id(const struct perf_file *p, uint64_t id);

/* The formats and names of threads in the tracing data into `tep`. -EBADMSG. */
int perf_file_formats(const struct perf_file *p, struct tep_handle *tep, struct error *err);

/* Each "pid comm" that the tracing data has. */
typedef int perf_comm_fn(void *self, int64_t pid, struct words comm, struct error *err);
int perf_file_comms(struct perf_file *p, perf_comm_fn *fn, void *self, struct error *err);
