/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_internal.h - what the readers of the formats share.
 *
 *   foreign.c        the file, the decoder and its thread
 *   foreign_merge.c  the parts of the file in one order
 *   foreign_stacks.c kernel stacks
 *   foreign_rings.c  CPUs, threads, records and losses
 *   text.c           texts
 *   perf.c           perf.data
 *   perfetto.c       Perfetto traces
 */
#pragma once

#include "decode/merge.h"
#include "foreign.h"
#include "foreign_stacks.h"
#include "shapes.h"
#include "span.h"

#include <stdio.h>

#define NOTHING_LOST 0 /* before the next event of a ring */

/* A part of the file whose events are in order of time. */
struct part {
	uint64_t begin, end; /* offsets */
	uint64_t first_ts, last_ts;
	int32_t cpu;    /* of its events; 0 where parts have several CPUs */
	int32_t stream; /* parts of a stream follow each other in time */
};

/* A place in a stream, at an event; after the last one it is not used. */
struct cursor {
	size_t number; /* of the stream */
	size_t part, last_part;
	const uint8_t *next, *end; /* the rest of the part */

	/* The event, set by reader->next. */
	uint64_t ts;
	int cpu;
	const void *data;
	int size;
	struct span stack; /* its addresses of 8 bytes, innermost first */
};

/* The name of a thread. */
struct comm {
	int32_t pid; /* 0: free slot; pid 0 needs no name */
	char comm[16];
};

struct foreign;

/* The reader of one format. */
struct reader {
	/* The first pass: facts, rings, shapes or formats, parts. */
	int (*survey)(struct foreign *f, struct error *err);
	/* Between the passes, when the streams are known: formats into f->source.tep. */
	int (*begin)(struct foreign *f, const struct foreign_names *names, struct error *err);
	/* The second pass, in a thread of its own: the next event of a part, false at its end. */
	bool (*next)(struct foreign *f, struct cursor *c);
	/* The event at `c`, in the merged order, for foreign_add. */
	int (*add)(struct foreign *f, const struct cursor *c, struct error *err);
	void (*close)(struct foreign *f);
};

struct foreign {
	struct source source; /* first: see foreign_source */
	const struct reader *reader;
	void *own; /* of the reader */
	const char *path;
	const char *data; /* the file, mapped */
	uint64_t size;
	const char *packed; /* the file, if `data` is what was decompressed from it */
	uint64_t packed_size;
	struct foreign_facts facts;
	struct shapes *shapes;     /* NULL for files with the kernel's formats */
	struct stack_names *names; /* of stacks in a text */
	char *symbols;             /* as of /proc/kallsyms, after the first pass; or NULL */

	size_t nr_parts; /* in the order of the file, then by stream */
	struct part *parts;
	size_t nr_streams;
	struct cursor *cursors; /* one for each stream */
	struct merge merge;
	uint64_t bytes_done;

	int32_t *ring_of;  /* by CPU, DECODER_CPUS of them: number of its ring, or -1 */
	uint64_t *waiting; /* by ring: events lost before the next one */
	uint64_t *untimed; /* by ring: events lost that only the kernel's counts show */
	uint64_t last_ts;
	uint64_t to_wall; /* from its clock to the wall clock, modulo 2^64; 0: unknown */

	size_t nr_comms, comm_slots;
	struct comm *comms; /* open addressing by pid */
	pthread_t thread;
	bool started;
};

extern const struct reader text_reader, perf_reader, perfetto_reader;

/* The ring of a CPU, added if it is new; for the first pass. -ENOMEM, -EINVAL (no such CPU). */
int foreign_see_cpu(struct foreign *f, int64_t cpu, struct error *err);

/* The last name of a thread counts. -ENOMEM. */
int foreign_see_comm(struct foreign *f, int64_t pid, struct words comm, struct error *err);

/*
 * An event of the first pass, which begins at `begin`, before `end`. It continues the last part, or
 * begins one if its time or its CPU does not fit. -ENOMEM.
 */
int foreign_see_event(struct foreign *f, uint64_t begin, uint64_t end, int cpu, uint64_t ts,
		      struct error *err);

/*
 * After the first pass, before foreign_chain: what stands between the parts, from `begin` to `end`,
 * belongs to them, too. Lost events may stand there.
 */
void foreign_cover(struct foreign *f, uint64_t begin, uint64_t end);

/* After the first pass: the parts as streams. -ENOMEM. */
int foreign_chain(struct foreign *f, struct error *err);

/* The second pass. As source_add. */
int foreign_merge(struct foreign *f, struct error *err);

/* Second pass: a record, in the merged order; as source_add. */
int foreign_add(struct foreign *f, int cpu, uint64_t ts, const void *record, int size,
		struct error *err);

/* Events of a CPU were lost before its next one; UNKNOWN_COUNT of them if nothing counts them. */
void foreign_lose(struct foreign *f, int64_t cpu, uint64_t events);

/* At the end: a gap of what is waiting, and one of what only the kernel counted. */
int foreign_lose_untimed(struct foreign *f, size_t ring, struct error *err);

/*
 * First pass: read what `inflate` decompresses from `packed` instead of the file, from its start.
 * -EBADMSG, and the errors of inflate.
 */
typedef int inflate_fn(FILE *to, struct span packed, struct error *err);
int foreign_unpack(struct foreign *f, inflate_fn *inflate, struct span packed, struct error *err);

/* The file as a span. */
static inline struct span foreign_span(const struct foreign *f)
{
	const uint8_t *data = (const uint8_t *)f->data;

	return (struct span){data, data + f->size, false};
}
