/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_internal.h - the decoder's state, shared by its four files.
 *
 *   decode.c          records to rows, and the queue of batches: the hot path
 *   decode_printed.c  texts of BPF programs to rows
 *   decode_formats.c  event formats to field positions, once for each decoder
 *   decode_save.c     the state as words of a checkpoint, and back
 */
#pragma once

#include "canonical.h"
#include "decode.h"
#include "input/printed_text.h"
#include "tables.h"

#include <string.h>

enum {
	MAX_PID = 1 << 22,  /* PID_MAX_LIMIT of a 64-bit kernel */
	NR_TYPES = 1 << 16, /* common_type is 16 bits wide */
	WINDOW = 8,
	SMALL_ROWS = 4096, /* rows in a batch of any table but `event` */
};

/*
 * An integer field, read as (the 8 bytes at `at`) >> shift & mask. These 8 bytes end where the
 * field ends, so they are always within the record. An absent field has mask 0 and reads as 0.
 */
struct field {
	uint16_t at;
	uint8_t shift;
	bool is_signed;
	uint64_t mask;
};

/* The nullable columns of `event`: bit n of format.has: field n exists. */
enum page_field {
	PFN,
	ORDER,
	MIGRATETYPE,
	GFP_FLAGS,
	PERCPU_REFILL,
	FALLBACK_ORDER,
	FALLBACK_MIGRATETYPE,
	CHANGE_OWNERSHIP,
	NR_PAGE_FIELDS,
};

/* How a field of a `reclaim` or `compaction` event becomes a column's value. */
enum conversion { NUMBER, TRUTH, ADDRESS, ZONE_INDEX, ZONE_NAME, GFP_MASK };

struct value {
	struct field field;
	enum conversion conversion;
	const struct column *column;
};

/* One tracepoint of the traced kernel. */
struct format {
	struct decoder_count count;
	int size;              /* smallest size of a record in bytes */
	struct rotation *rows; /* NULL: only counted */
	uint8_t kind;
	struct field flags, preempt_count, pid;

	/* An event of the table `event`. */
	uint8_t has;
	struct field page[NR_PAGE_FIELDS];
	bool usual; /* every field so far is laid out as by 64-bit little-endian kernels */
	/* A text that a BPF program printed (input/printed_text.h): its place. */
	struct field text;

	/* An event of another table. */
	int nr_values;
	struct value *values;
	bool is_work; /* a row only if `function` is vmstat_update() */
	struct field function;
	struct field lock; /* of a row of `lock_event` */

	/* A kernel stack: the array of addresses, `caller`. */
	struct field nr_callers; /* absent before 3.0: an address of all ones ends the array */
	int callers;             /* its offset */
	uint8_t caller_size;
};

/* The batches of one table; one of them is being filled. */
struct rotation {
	const struct table *table;
	struct batch *filling;
	size_t rows;
	struct batch **batches;
	int nr;

	/* Columns that all event tables but `stack` share, by position in batch->slots. */
	uint8_t ts, cpu, pid, flags, at, kind;
};

enum { EVENT, RECLAIM, COMPACTION, STACK, STAMP, LIST_HEAD, LOCK_EVENT, NR_RECORDED };

/* The tables that the decoder fills, by number. */
extern const struct table *const decode_tables[NR_RECORDED];

/* The last record of a CPU, for a stack that follows it. */
struct last {
	uint64_t ts;
	int32_t pid;
	enum { NOTHING, PAGE_EVENT, OTHER } what; /* NOTHING: unknown, or its stack was read */
};

struct decoder {
	struct tep_handle *tep;
	bool swapped; /* the trace has the other byte order */
	struct field type;
	struct rotation rotations[NR_RECORDED];
	uint64_t nr_events; /* rows of `event` in this segment so far */
	uint64_t has;       /* of its last eight rows, see store_validity */
	uint64_t bad;
	int next_head;           /* order of the next row of the text of list heads that is read */
	struct format **by_type; /* NR_TYPES of them */
	struct format *formats;
	size_t nr_formats;
	struct decoder_count *counts;
	int32_t last_pid;
	uint64_t *pids; /* bit n: pid n was seen */

	struct canonical canonical;
	struct kernel_addresses addresses;
	uint64_t other_work[64]; /* work functions known not to be vmstat_update(), hashed */

	/* Where stacks are recorded, else NULL. */
	struct stacks *stacks;
	struct last *last; /* by CPU */
};

static inline uint64_t load(const struct decoder *d, const uint8_t *record, const struct field *f)
{
	uint64_t window;

	memcpy(&window, record + f->at, sizeof(window));
	if (d->swapped)
		window = __builtin_bswap64(window);
	return window >> f->shift & f->mask;
}

static inline void see_pid(struct decoder *d, int32_t pid)
{
	if (pid == d->last_pid || pid < 0 || pid >= MAX_PID)
		return;
	d->last_pid = pid;
	d->pids[pid / 64] |= 1ull << pid % 64;
}

/* The column of this name; the table's TOML must have it. */
const struct column *decode_column(const struct table *table, const char *name);

/* A text of pagetape's BPF programs. */
struct printed {
	uint64_t pfn; /* of a free */
	uint32_t order;
	uint64_t word[STAMP_WORDS]; /* of a stamp, or of list heads */
};

enum printed_text { PRINTED_FOREIGN, PRINTED_DAMAGED, PRINTED_FREE, PRINTED_STAMP, PRINTED_HEADS };

/* Read the text of a record of `size` bytes. A damaged one begins as pagetape's do. */
enum printed_text decode_printed(const struct decoder *d, const struct format *f,
				 const uint8_t *record, int size, struct printed *out);

/* Add a row of `stamp`; false if its batch is full. */
bool decode_add_stamp(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		      const uint8_t *record, const struct printed *p);

/* Add the rows of `list_head`; false if their batch is full: the next call goes on. */
bool decode_add_heads(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		      const uint8_t *record, const struct printed *p);

/* Find the position of the type in a record. -EINVAL if the trace has no event format. */
int decode_formats_type(struct decoder *d, struct error *err);

/* Look up the fields of every event format; the rotations must be set. -ENOMEM, -EINVAL. */
int decode_formats_load(struct decoder *d, struct error *err);
