// SPDX-License-Identifier: Apache-2.0
#include "decode.h"
#include "canonical.h"
#include "tables.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PID = 1 << 22,  /* PID_MAX_LIMIT of a 64-bit kernel */
	NR_TYPES = 1 << 16, /* common_type is 16 bits wide */
	WINDOW = 8,
	SMALL_ROWS = 4096, /* of a batch of any table but `event` */
	MAX_CPUS = 1 << 16,
};

/*
 * An integer field, read as (the 8 bytes at `at`) >> shift & mask. The window
 * ends where the field ends, so that it never leaves the record. An absent field
 * has mask 0 and reads as 0.
 */
struct field {
	uint16_t at;
	uint8_t shift;
	bool is_signed;
	uint64_t mask;
};

/* The nullable columns of `event`: bit n of format.has says that field n is there. */
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

static const char *const page_column[NR_PAGE_FIELDS] = {
	[PFN] = "pfn",
	[ORDER] = "page_order",
	[MIGRATETYPE] = "migratetype",
	[GFP_FLAGS] = "gfp_flags",
	[PERCPU_REFILL] = "percpu_refill",
	[FALLBACK_ORDER] = "fallback_order",
	[FALLBACK_MIGRATETYPE] = "fallback_migratetype",
	[CHANGE_OWNERSHIP] = "change_ownership",
};

/*
 * Without these a page event is of no use. percpu_refill came with 5.19; old
 * kernels print change_ownership but do not store it.
 */
static const unsigned page_needs[NR_EVENT_KIND] = {
	[EVENT_KIND_ALLOC] = 1 << PFN | 1 << ORDER | 1 << MIGRATETYPE | 1 << GFP_FLAGS,
	[EVENT_KIND_FREE] = 1 << PFN | 1 << ORDER,
	[EVENT_KIND_FREE_BATCHED] = 1 << PFN,
	[EVENT_KIND_ALLOC_ZONE_LOCKED] = 1 << PFN | 1 << ORDER | 1 << MIGRATETYPE,
	[EVENT_KIND_PCPU_DRAIN] = 1 << PFN | 1 << ORDER | 1 << MIGRATETYPE,
	[EVENT_KIND_ALLOC_EXTFRAG] = 1 << PFN | 1 << ORDER | 1 << MIGRATETYPE |
				     1 << FALLBACK_ORDER | 1 << FALLBACK_MIGRATETYPE,
};

/* How a field of a `reclaim` or `compaction` event becomes a value of its column. */
enum conversion { NUMBER, TRUTH, ADDRESS, ZONE_INDEX, ZONE_NAME, GFP_MASK };

struct value {
	struct field field;
	enum conversion conversion;
	const struct column *column;
};

/* One tracepoint of the traced kernel. */
struct format {
	struct decoder_count count;
	int size;              /* bytes a record must have at least */
	struct rotation *rows; /* NULL: only counted */
	uint8_t kind;
	struct field flags, preempt_count, pid;

	/* An event of the table `event`. */
	uint8_t has;
	struct field page[NR_PAGE_FIELDS];
	bool usual; /* laid out as by 64-bit little-endian kernels so far */

	/* An event of another table. */
	int nr_values;
	struct value *values;
	bool is_work; /* kept only where `function` is vmstat_update() */
	struct field function;

	/* A kernel stack: the array of addresses, `caller`. */
	struct field
		nr_callers; /* before 3.0 there is none: an address of all ones ends the array */
	int callers;        /* its offset */
	uint8_t caller_size;
};

/* The batches of one table, one of them being filled. */
struct rotation {
	const struct table *table;
	struct batch *filling;
	size_t rows;
	struct batch **batches;
	int nr;

	/* Columns that all event tables but `stack` share, by position in batch->slots. */
	uint8_t ts, cpu, pid, flags, at, kind;
};

enum { EVENT, RECLAIM, COMPACTION, STACK, NR_RECORDED };

static const struct table *const recorded[NR_RECORDED] = {
	[EVENT] = &event_table,
	[RECLAIM] = &reclaim_table,
	[COMPACTION] = &compaction_table,
	[STACK] = &stack_table,
};

/* What the last record of a CPU was, for a stack that follows it. */
struct last {
	uint64_t ts;
	int32_t pid;
	enum { NOTHING, PAGE_EVENT, OTHER } what; /* NOTHING: unknown, or it has its stack */
};

struct decoder {
	struct tep_handle *tep;
	bool swapped; /* the trace has the other byte order */
	struct field type;
	struct rotation rotations[NR_RECORDED];
	uint64_t nr_events; /* rows of `event` in this segment so far */
	uint64_t has;       /* of its last eight rows, see store_validity */
	uint64_t bad;
	struct format **by_type; /* NR_TYPES of them */
	struct format *formats;
	size_t nr_formats;
	struct decoder_count *counts;
	int32_t last_pid;
	uint64_t *pids; /* bit n: pid n was seen */

	struct canonical canonical;
	uint64_t vmstat_update;
	uint64_t other_work[64]; /* functions known to be another one, hashed */

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

/* The fields of a page event, absent ones 0. */
struct page_event {
	int32_t pid;
	uint8_t flags, preempt_count;
	uint64_t pfn, gfp_flags;
	uint32_t order, migratetype, percpu_refill;
	uint32_t fallback_order, fallback_migratetype, change_ownership;
};

static inline uint32_t load_int(const uint8_t *record, const struct field *f)
{
	uint32_t value;

	memcpy(&value, record + f->at, sizeof(value));
	return value & (uint32_t)f->mask;
}

static inline uint64_t load_long(const uint8_t *record, const struct field *f)
{
	uint64_t value;

	memcpy(&value, record + f->at, sizeof(value));
	return value & f->mask;
}

/* See `usual` below: no shifts, no byte swapping. */
static inline struct page_event read_usual(const struct format *f, const uint8_t *record)
{
	uint64_t common;

	memcpy(&common, record, sizeof(common));
	return (struct page_event){
		.flags = (uint8_t)(common >> 16),
		.preempt_count = (uint8_t)(common >> 24),
		.pid = (int32_t)(common >> 32),
		.pfn = load_long(record, &f->page[PFN]),
		.gfp_flags = load_long(record, &f->page[GFP_FLAGS]),
		.order = load_int(record, &f->page[ORDER]),
		.migratetype = load_int(record, &f->page[MIGRATETYPE]),
		.percpu_refill = load_int(record, &f->page[PERCPU_REFILL]),
		.fallback_order = load_int(record, &f->page[FALLBACK_ORDER]),
		.fallback_migratetype = load_int(record, &f->page[FALLBACK_MIGRATETYPE]),
		.change_ownership = load_int(record, &f->page[CHANGE_OWNERSHIP]),
	};
}

static struct page_event read_any(const struct decoder *d, const struct format *f,
				  const uint8_t *record)
{
	return (struct page_event){
		.flags = (uint8_t)load(d, record, &f->flags),
		.preempt_count = (uint8_t)load(d, record, &f->preempt_count),
		.pid = (int32_t)load(d, record, &f->pid),
		.pfn = load(d, record, &f->page[PFN]),
		.gfp_flags = load(d, record, &f->page[GFP_FLAGS]),
		.order = (uint32_t)load(d, record, &f->page[ORDER]),
		.migratetype = (uint32_t)load(d, record, &f->page[MIGRATETYPE]),
		.percpu_refill = (uint32_t)load(d, record, &f->page[PERCPU_REFILL]),
		.fallback_order = (uint32_t)load(d, record, &f->page[FALLBACK_ORDER]),
		.fallback_migratetype = (uint32_t)load(d, record, &f->page[FALLBACK_MIGRATETYPE]),
		.change_ownership = (uint32_t)load(d, record, &f->page[CHANGE_OWNERSHIP]),
	};
}

/*
 * Write the validity of the eight rows up to `row`, of which d->has holds a byte
 * each, the last row's on top: an 8 x 8 bit transposition makes of a byte a row
 * a byte a column.
 */
static void store_validity(struct decoder *d, struct event_columns *to, size_t row)
{
	uint64_t x = d->has, t;
	size_t byte = row / 8;

	t = (x ^ x >> 7) & 0x00aa00aa00aa00aa;
	x ^= t ^ t << 7;
	t = (x ^ x >> 14) & 0x0000cccc0000cccc;
	x ^= t ^ t << 14;
	t = (x ^ x >> 28) & 0x00000000f0f0f0f0;
	x ^= t ^ t << 28;
	to->pfn_valid[byte] = (uint8_t)(x >> 8 * PFN);
	to->page_order_valid[byte] = (uint8_t)(x >> 8 * ORDER);
	to->migratetype_valid[byte] = (uint8_t)(x >> 8 * MIGRATETYPE);
	to->gfp_flags_valid[byte] = (uint8_t)(x >> 8 * GFP_FLAGS);
	to->percpu_refill_valid[byte] = (uint8_t)(x >> 8 * PERCPU_REFILL);
	to->fallback_order_valid[byte] = (uint8_t)(x >> 8 * FALLBACK_ORDER);
	to->fallback_migratetype_valid[byte] = (uint8_t)(x >> 8 * FALLBACK_MIGRATETYPE);
	to->change_ownership_valid[byte] = (uint8_t)(x >> 8 * CHANGE_OWNERSHIP);
}

/* The rows behind the last full eight. */
static void store_validity_rest(struct decoder *d, struct batch *batch)
{
	if (batch->nr % 8) {
		d->has >>= 8 * (8 - batch->nr % 8);
		store_validity(d, (struct event_columns *)batch->slots, batch->nr);
	}
}

/*
 * The hot path. Every column is stored, absent ones as 0, so that nothing but
 * the validity depends on the kind of event and zeros compress away under nulls.
 */
static bool add_page_event(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
			   const uint8_t *record)
{
	struct batch *batch = d->rotations[EVENT].filling;
	struct event_columns *to = (struct event_columns *)batch->slots;
	struct page_event e = f->usual ? read_usual(f, record) : read_any(d, f, record);
	uint8_t migratetype = canonical_migratetype(&d->canonical, e.migratetype);
	uint8_t fallback = canonical_migratetype(&d->canonical, e.fallback_migratetype);
	bool page = e.pfn != f->page[PFN].mask; /* else the allocation failed */
	uint8_t has = f->has;
	size_t i = batch->nr;

	if (i == batch->capacity)
		return false;
	has &= (uint8_t)~(!page << PFN | (migratetype == NOT_CANONICAL) << MIGRATETYPE |
			  (fallback == NOT_CANONICAL) << FALLBACK_MIGRATETYPE);
	to->ts[i] = ts;
	to->cpu[i] = (uint16_t)cpu;
	to->pid[i] = e.pid;
	to->kind[i] = f->kind;
	to->flags[i] = canonical_context(&d->canonical, e.flags, e.preempt_count);
	to->pfn[i] = page ? e.pfn : 0;
	to->page_order[i] = (uint8_t)e.order;
	to->migratetype[i] = has & 1 << MIGRATETYPE ? migratetype : 0;
	to->gfp_flags[i] = canonical_gfp(&d->canonical, e.gfp_flags);
	to->percpu_refill[i] = e.percpu_refill != 0;
	to->fallback_order[i] = (uint8_t)e.fallback_order;
	to->fallback_migratetype[i] = has & 1 << FALLBACK_MIGRATETYPE ? fallback : 0;
	to->change_ownership[i] = e.change_ownership != 0;
	d->has = d->has >> 8 | (uint64_t)has << 56;
	if (i % 8 == 7)
		store_validity(d, to, i);

	see_pid(d, e.pid);
	batch->nr = i + 1;
	d->nr_events++;
	return true;
}

/* A __data_loc word: where in the record the string is, and how long with its NUL. */
static uint8_t zone_by_data_loc(uint64_t loc, const uint8_t *record, int size)
{
	unsigned at = loc & 0xffff, length = loc >> 16 & 0xffff;
	const char *name = (const char *)record + at;

	if (at + length > (unsigned)size)
		return NOT_CANONICAL;
	return canonical_zone_by_name(name, strnlen(name, length));
}

/* False: the value has no place in the column, which stays null. */
static bool convert(const struct decoder *d, const struct value *v, const uint8_t *record, int size,
		    uint64_t *out)
{
	uint64_t raw = load(d, record, &v->field);
	uint64_t sign = v->field.is_signed ? (v->field.mask >> 1) + 1 : 0;

	switch (v->conversion) {
	case NUMBER:
		*out = (raw ^ sign) - sign;
		return true;
	case TRUTH:
		*out = raw != 0;
		return true;
	case ADDRESS:
		*out = raw;
		return raw != v->field.mask;
	case ZONE_INDEX:
		*out = canonical_zone(&d->canonical, raw);
		return *out != NOT_CANONICAL;
	case ZONE_NAME:
		*out = zone_by_data_loc(raw, record, size);
		return *out != NOT_CANONICAL;
	case GFP_MASK:
		*out = canonical_gfp(&d->canonical, raw);
		return d->canonical.gfp_known;
	}
	return false;
}

static void store(void *values, size_t i, uint8_t width, uint64_t value)
{
	switch (width) {
	case 1:
		((uint8_t *)values)[i] = (uint8_t)value;
		break;
	case 2:
		((uint16_t *)values)[i] = (uint16_t)value;
		break;
	case 4:
		((uint32_t *)values)[i] = (uint32_t)value;
		break;
	default:
		((uint64_t *)values)[i] = value;
	}
}

static bool is_vmstat_update(struct decoder *d, uint64_t function)
{
	uint64_t *other = &d->other_work[(function >> 4) % 64];
	const char *name;

	if (d->vmstat_update)
		return function == d->vmstat_update;
	if (function == *other)
		return false;
	/* The nearest symbol below is not enough: all symbols need not be known. */
	name = tep_find_function(d->tep, function);
	if (name && !strcmp(name, "vmstat_update") &&
	    tep_find_function_address(d->tep, function) == function) {
		d->vmstat_update = function;
		return true;
	}
	*other = function;
	return false;
}

static bool add_row(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		    const uint8_t *record, int size)
{
	const struct rotation *rows = f->rows;
	struct batch *batch = rows->filling;
	void **slots = batch->slots;
	size_t i = batch->nr;
	int32_t pid = (int32_t)load(d, record, &f->pid);

	if (f->is_work && !is_vmstat_update(d, load(d, record, &f->function)))
		return true;
	if (i == batch->capacity)
		return false;
	((uint64_t *)slots[rows->ts])[i] = ts;
	((uint16_t *)slots[rows->cpu])[i] = (uint16_t)cpu;
	((int32_t *)slots[rows->pid])[i] = pid;
	((uint8_t *)slots[rows->flags])[i] =
		canonical_context(&d->canonical, (uint8_t)load(d, record, &f->flags),
				  (uint8_t)load(d, record, &f->preempt_count));
	((uint64_t *)slots[rows->at])[i] = d->nr_events;
	((uint8_t *)slots[rows->kind])[i] = f->kind;
	for (const struct value *v = f->values; v < f->values + f->nr_values; v++) {
		uint64_t value;

		if (!convert(d, v, record, size, &value))
			continue;
		store(slots[v->column->slot], i, v->column->width, value);
		set_valid(slots[v->column->slot + 1], i);
	}
	see_pid(d, pid);
	batch->nr = i + 1;
	return true;
}

/* The addresses in a record, innermost first; the kernel's longs may be of 4 bytes. */
static int read_callers(const struct decoder *d, const struct format *f, const uint8_t *record,
			int size, uint64_t callers[STACK_FRAMES])
{
	uint64_t end = UINT64_MAX >> (64 - 8 * f->caller_size);
	int nr = (size - f->callers) / f->caller_size;

	if (f->nr_callers.mask && load(d, record, &f->nr_callers) < (uint64_t)nr)
		nr = (int)load(d, record, &f->nr_callers);
	nr = nr < STACK_FRAMES ? nr : STACK_FRAMES;
	for (int i = 0; i < nr; i++) {
		/* A window that ends where the address ends; a format is longer than a window. */
		int at = f->callers + i * f->caller_size + f->caller_size - WINDOW;
		struct field caller = {.at = (uint16_t)at, .mask = end};

		if (d->swapped == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
			caller.shift = (uint8_t)(8 * (WINDOW - f->caller_size));
		callers[i] = load(d, record, &caller);
		if (callers[i] == end)
			return i;
	}
	return nr;
}

static bool add_stack(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		      const uint8_t *record, int size)
{
	const struct last *last = &d->last[cpu];
	struct batch *batch = d->rotations[STACK].filling;
	struct stack_columns *to = (struct stack_columns *)batch->slots;
	int32_t pid = (int32_t)load(d, record, &f->pid);
	uint64_t callers[STACK_FRAMES];
	size_t i = batch->nr;
	uint32_t stack;

	if (last->what == OTHER)
		return true;
	if (i == batch->capacity)
		return false;
	stack = stacks_add(d->stacks, callers, read_callers(d, f, record, size, callers));
	to->at[i] = d->nr_events;
	to->ts[i] = ts;
	to->cpu[i] = (uint16_t)cpu;
	to->pid[i] = pid;
	if (last->what == PAGE_EVENT && last->pid == pid) {
		to->event_ts[i] = last->ts;
		set_valid(to->event_ts_valid, i);
	}
	if (stack != STACK_UNKNOWN) {
		to->stack[i] = stack;
		set_valid(to->stack_valid, i);
	}
	batch->nr = i + 1;
	return true;
}

/* For the stack that may come next on this CPU. */
static void remember(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		     const uint8_t *record)
{
	struct last *last = &d->last[cpu];

	last->what = OTHER;
	if (f->rows == &d->rotations[STACK])
		last->what = NOTHING;
	else if (f->rows == &d->rotations[EVENT])
		*last = (struct last){ts, (int32_t)load(d, record, &f->pid), PAGE_EVENT};
}

void decoder_gap(struct decoder *d, int cpu)
{
	if (d->last && cpu >= 0 && cpu < MAX_CPUS)
		d->last[cpu].what = NOTHING;
}

bool decoder_add(struct decoder *d, int cpu, uint64_t ts, const void *record, int size)
{
	struct format *f;

	assert(cpu >= 0 && cpu < MAX_CPUS);
	f = size < WINDOW ? NULL : d->by_type[load(d, record, &d->type)];
	if (!f || size < f->size) {
		decoder_gap(d, cpu);
		d->bad++;
		return true;
	}
	if (f->rows == &d->rotations[EVENT]) {
		if (!add_page_event(d, f, cpu, ts, record))
			return false;
	} else if (f->rows == &d->rotations[STACK]) {
		if (!add_stack(d, f, cpu, ts, record, size))
			return false;
	} else if (f->rows && !add_row(d, f, cpu, ts, record, size)) {
		return false;
	}
	f->count.events++;
	if (d->last)
		remember(d, f, cpu, ts, record);
	return true;
}

/* An idle batch of the table that is not being filled, or a new one. */
static struct batch *spare_batch(struct rotation *rows, struct error *err)
{
	struct batch **batches;

	for (int i = 0; i < rows->nr; i++)
		if (rows->batches[i] != rows->filling && batch_idle(rows->batches[i]))
			return rows->batches[i];

	batches = reallocarray(rows->batches, rows->nr + 1, sizeof(*batches));
	if (!batches) {
		fail(err, ENOMEM, "no memory for a batch of %s", rows->table->name);
		return NULL;
	}
	rows->batches = batches;
	if (batch_new(&batches[rows->nr], rows->table, rows->rows, err))
		return NULL;
	return batches[rows->nr++];
}

struct batch *decoder_flush(struct decoder *d, bool all, int *ret)
{
	*ret = 0;
	for (struct rotation *rows = d->rotations; rows < d->rotations + NR_RECORDED; rows++) {
		struct batch *full = rows->filling, *next;

		if (!full->nr || (!all && full->nr < full->capacity))
			continue;
		next = spare_batch(rows, NULL);
		if (!next) {
			*ret = -ENOMEM;
			return NULL;
		}
		if (rows == &d->rotations[EVENT])
			store_validity_rest(d, full);
		batch_clear(next);
		rows->filling = next;
		return full;
	}
	return NULL;
}

void decoder_restart(struct decoder *d)
{
	for (struct rotation *rows = d->rotations; rows < d->rotations + NR_RECORDED; rows++)
		assert(!rows->filling->nr);
	d->nr_events = 0;
	for (size_t i = 0; i < d->nr_formats; i++)
		d->formats[i].count.events = 0;
	d->last_pid = -1;
	memset(d->pids, 0, MAX_PID / 64 * sizeof(*d->pids));
	for (int cpu = 0; d->last && cpu < MAX_CPUS; cpu++)
		d->last[cpu].what = NOTHING; /* its event is not on this tape */
}

/*
 * Words: rows of `event`, bad records, and the number of types, pids, CPUs, stacks. Then
 * (type, count)... pid... (cpu, ts, pid, what)... and (frames, frame...)...
 */
enum {
	SAVED_EVENTS,
	SAVED_BAD,
	SAVED_TYPES,
	SAVED_PIDS,
	SAVED_CPUS,
	SAVED_STACKS,
	SAVED_HEAD,
};

/* Words that grow; NULL once there was no memory. */
struct words {
	uint64_t *word;
	size_t nr, room;
};

static void put_word(struct words *w, uint64_t value)
{
	if (w->nr == w->room) {
		uint64_t *more = reallocarray(w->word, 2 * w->room, sizeof(*more));

		if (!more)
			free(w->word);
		w->word = more;
		w->room *= 2;
	}
	if (w->word)
		w->word[w->nr++] = value;
}

/* How many. */
static uint64_t save_types(const struct decoder *d, struct words *w)
{
	uint64_t nr = 0;

	for (uint64_t type = 0; type < NR_TYPES; type++) {
		if (!d->by_type[type] || !d->by_type[type]->count.events)
			continue;
		put_word(w, type);
		put_word(w, d->by_type[type]->count.events);
		nr++;
	}
	return nr;
}

static uint64_t save_pids(const struct decoder *d, struct words *w)
{
	uint64_t nr = 0;

	for (uint64_t pid = 0; pid < MAX_PID; pid++) {
		uint64_t left = d->pids[pid / 64] >> pid % 64;

		if (left & 1) {
			put_word(w, pid);
			nr++;
		} else if (!left) {
			pid |= 63;
		}
	}
	return nr;
}

static uint64_t save_cpus(const struct decoder *d, struct words *w)
{
	uint64_t nr = 0;

	for (uint64_t cpu = 0; d->last && cpu < MAX_CPUS; cpu++) {
		if (d->last[cpu].what == NOTHING)
			continue;
		put_word(w, cpu);
		put_word(w, d->last[cpu].ts);
		put_word(w, (uint64_t)d->last[cpu].pid);
		put_word(w, d->last[cpu].what);
		nr++;
	}
	return nr;
}

static uint64_t save_stacks(const struct decoder *d, struct words *w)
{
	uint64_t frames[STACK_FRAMES];
	uint32_t nr = 0;
	int length;

	while (d->stacks && (length = stacks_get(d->stacks, nr, frames)) >= 0) {
		put_word(w, (uint64_t)length);
		for (int i = 0; i < length; i++)
			put_word(w, frames[i]);
		nr++;
	}
	return nr;
}

uint64_t *decoder_save(const struct decoder *d, size_t *nr)
{
	struct words w = {malloc(1024 * sizeof(uint64_t)), 0, 1024};
	uint64_t head[SAVED_HEAD] = {[SAVED_EVENTS] = d->nr_events, [SAVED_BAD] = d->bad};

	for (int i = 0; w.word && i < SAVED_HEAD; i++)
		put_word(&w, head[i]);
	if (w.word) {
		head[SAVED_TYPES] = save_types(d, &w);
		head[SAVED_PIDS] = save_pids(d, &w);
		head[SAVED_CPUS] = save_cpus(d, &w);
		head[SAVED_STACKS] = save_stacks(d, &w);
	}
	if (w.word)
		memcpy(w.word, head, sizeof(head));
	*nr = w.nr;
	return w.word;
}

/* The words of a saved decoder that are not yet read. */
struct reading {
	const uint64_t *word, *end;
	bool short_of; /* there were too few */
};

static uint64_t get_word(struct reading *r)
{
	if (r->word == r->end)
		r->short_of = true;
	return r->short_of ? 0 : *r->word++;
}

static void restore_last(struct decoder *d, struct reading *r)
{
	uint64_t cpu = get_word(r), ts = get_word(r), pid = get_word(r);
	bool page = get_word(r) == PAGE_EVENT;

	if (d->last && cpu < MAX_CPUS)
		d->last[cpu] = (struct last){ts, (int32_t)pid, page ? PAGE_EVENT : OTHER};
}

static void restore_stack(struct decoder *d, struct reading *r)
{
	uint64_t frames[STACK_FRAMES], length = get_word(r);

	for (uint64_t i = 0; i < length && i < STACK_FRAMES; i++)
		frames[i] = get_word(r);
	if (d->stacks && length <= STACK_FRAMES)
		stacks_add(d->stacks, frames, (int)length);
}

bool decoder_restore(struct decoder *d, const uint64_t *words, size_t nr)
{
	struct reading r = {words + SAVED_HEAD, words + nr, nr < SAVED_HEAD};

	if (r.short_of)
		return false;
	for (uint64_t i = 0; i < words[SAVED_TYPES] && !r.short_of; i++) {
		uint64_t type = get_word(&r), events = get_word(&r);

		if (type >= NR_TYPES || !d->by_type[type])
			return false;
		d->by_type[type]->count.events = events;
	}
	for (uint64_t i = 0; i < words[SAVED_PIDS] && !r.short_of; i++)
		see_pid(d, (int32_t)get_word(&r));
	for (uint64_t i = 0; i < words[SAVED_CPUS] && !r.short_of; i++)
		restore_last(d, &r);
	for (uint64_t i = 0; i < words[SAVED_STACKS] && !r.short_of; i++)
		restore_stack(d, &r);
	d->nr_events = words[SAVED_EVENTS];
	d->bad = words[SAVED_BAD];
	return !r.short_of && r.word == r.end;
}

const struct decoder_count *decoder_counts(struct decoder *d, size_t *nr)
{
	*nr = 0;
	for (size_t i = 0; i < d->nr_formats; i++)
		if (d->formats[i].count.events)
			d->counts[(*nr)++] = d->formats[i].count;
	return d->counts;
}

int32_t *decoder_pids(const struct decoder *d, size_t *nr)
{
	size_t n = 0;
	int32_t *pids;

	for (int i = 0; i < MAX_PID / 64; i++)
		n += (size_t)__builtin_popcountll(d->pids[i]);
	pids = malloc((n + 1) * sizeof(*pids));
	if (!pids)
		return NULL;
	*nr = 0;
	for (int32_t pid = 0; pid < MAX_PID; pid++)
		if (d->pids[pid / 64] >> pid % 64 & 1)
			pids[(*nr)++] = pid;
	return pids;
}

const char *decoder_gfp_name(const struct decoder *d, int bit)
{
	return bit >= 0 && bit < 32 && d->canonical.gfp_name[bit][0] ? d->canonical.gfp_name[bit]
								     : NULL;
}

int decoder_pageblock_order(const struct decoder *d)
{
	return d->canonical.pageblock_order;
}

struct stacks *decoder_stacks(const struct decoder *d)
{
	return d->stacks;
}

uint64_t decoder_bad_records(const struct decoder *d)
{
	return d->bad;
}

/*
 * Formats.
 */

/* False: the field is no integer of 1, 2, 4 or 8 bytes (or the place of a string). */
static bool field_set(struct field *out, const struct decoder *d, const struct tep_format_field *f)
{
	bool big = d->swapped != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	int end, at;

	if ((f->size != 1 && f->size != 2 && f->size != 4 && f->size != 8) || f->offset < 0 ||
	    f->offset > UINT16_MAX || f->flags & TEP_FIELD_IS_RELATIVE ||
	    (f->flags & TEP_FIELD_IS_ARRAY && !(f->flags & TEP_FIELD_IS_DYNAMIC)))
		return false;
	end = f->offset + f->size;
	at = end > WINDOW ? end - WINDOW : 0;
	*out = (struct field){
		.at = (uint16_t)at,
		.shift = (uint8_t)(8 * (big ? at + WINDOW - end : f->offset - at)),
		.is_signed = f->flags & TEP_FIELD_IS_SIGNED,
		.mask = UINT64_MAX >> (64 - 8 * f->size),
	};
	return true;
}

/* The first field of the event that feeds the column, or NULL. */
static struct tep_format_field *find_field(struct tep_event *event, const struct column *column)
{
	struct tep_format_field *field = NULL;

	for (const char *const *name = column->fields; !field && name && *name; name++)
		field = tep_find_field(event, *name);
	return field;
}

static const struct column *column_by_name(const struct table *table, const char *name)
{
	for (int c = 0; c < table->nr_columns; c++)
		if (!strcmp(table->columns[c].name, name))
			return &table->columns[c];
	assert(!"the column is in the table's TOML");
	return NULL;
}

/* A record must reach to the end of every field that is read from it. */
static void need(struct format *f, const struct tep_format_field *field)
{
	int end = field->offset + field->size;

	f->size = end > f->size ? end : f->size;
}

static int set_common(const struct decoder *d, struct format *f, struct tep_event *event,
		      struct error *err)
{
	const struct {
		const char *name;
		struct field *to;
	} common[] = {
		{"common_flags", &f->flags},
		{"common_preempt_count", &f->preempt_count},
		{"common_pid", &f->pid},
	};

	f->size = WINDOW;
	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
		struct tep_format_field *field = tep_find_common_field(event, common[i].name);

		if (!field || !field_set(common[i].to, d, field))
			return fail(err, EINVAL, "%s:%s has no usable field '%s'", event->system,
				    event->name, common[i].name);
		need(f, field);
	}
	return 0;
}

/*
 * Common fields in the first 8 bytes, numbers of 4 bytes, pfn and gfp_flags of 8:
 * then turn the windows of 8 bytes into plain loads. (gfp_flags of 5.0 has 4.)
 */
static void find_usual(const struct decoder *d, struct format *f)
{
	bool native = !d->swapped && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

	f->usual = native && !f->flags.at && f->flags.shift == 16 && !f->preempt_count.at &&
		   f->preempt_count.shift == 24 && !f->pid.at && f->pid.shift == 32;
	for (int i = 0; i < NR_PAGE_FIELDS; i++) {
		uint64_t mask = f->page[i].mask;
		bool is_long = i == PFN || i == GFP_FLAGS;

		f->usual = f->usual && (!mask || mask == (is_long ? UINT64_MAX : UINT32_MAX));
	}
	for (int i = 0; i < NR_PAGE_FIELDS && f->usual; i++)
		f->page[i].at += f->page[i].shift / 8;
}

static int lacks(const struct tep_event *event, const struct column *column, struct error *err)
{
	char names[128] = "";

	for (const char *const *field = column->fields; *field; field++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s'%s'",
			 field == column->fields ? "" : " or ", *field);
	return fail(err, EINVAL, "%s:%s has no usable field %s%s", event->system, event->name,
		    names, !strcmp(column->name, "pfn") ? " (kernels before 4.1 have none)" : "");
}

static int set_page_event(const struct decoder *d, struct format *f, struct tep_event *event,
			  struct error *err)
{
	for (int i = 0; i < NR_PAGE_FIELDS; i++) {
		const struct column *column = column_by_name(&event_table, page_column[i]);
		struct tep_format_field *field = find_field(event, column);

		if (field && field_set(&f->page[i], d, field)) {
			need(f, field);
			f->has |= (uint8_t)(1u << i);
		} else if (page_needs[f->kind] & 1u << i) {
			return lacks(event, column, err);
		}
	}
	if (!d->canonical.gfp_known)
		f->has &= (uint8_t)~(1u << GFP_FLAGS);
	find_usual(d, f);
	return 0;
}

static enum conversion conversion_of(const struct column *column,
				     const struct tep_format_field *field)
{
	if (column->labels)
		return field->flags & TEP_FIELD_IS_DYNAMIC ? ZONE_NAME : ZONE_INDEX;
	if (!strcmp(column->bits, "gfp"))
		return GFP_MASK;
	if (!strcmp(column->format, "L"))
		return ADDRESS;
	return !strncmp(field->type, "bool", 4) ? TRUTH : NUMBER;
}

static int set_row(const struct decoder *d, struct format *f, struct tep_event *event,
		   struct error *err)
{
	const struct table *table = f->rows->table;
	struct tep_format_field *field;

	f->values = calloc((size_t)table->nr_columns, sizeof(*f->values));
	if (!f->values)
		return fail(err, ENOMEM, "no memory for the format of %s", event->name);
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];
		struct value *v = &f->values[f->nr_values];

		field = find_field(event, column);
		if (!field || !field_set(&v->field, d, field))
			continue;
		assert(column->nullable);
		v->column = column;
		v->conversion = conversion_of(column, field);
		need(f, field);
		f->nr_values++;
	}
	f->is_work = !strcmp(event->name, "workqueue_execute_start");
	if (f->is_work) {
		field = tep_find_field(event, "function");
		if (!field || !field_set(&f->function, d, field))
			return fail(err, EINVAL, "%s:%s has no usable field 'function'",
				    event->system, event->name);
		need(f, field);
	}
	return 0;
}

/*
 * ftrace:kernel_stack, which the stacktrace trigger and option write. Its `caller` is as
 * long as the stack, whatever the format says (struct stack_entry, trace_entries.h).
 */
static int set_stack(struct decoder *d, struct format *f, struct tep_event *event,
		     struct error *err)
{
	struct tep_format_field *callers = tep_find_field(event, "caller");
	struct tep_format_field *nr = tep_find_field(event, "size");

	if (!callers || callers->offset < WINDOW || (nr && !field_set(&f->nr_callers, d, nr)))
		return fail(err, EINVAL, "ftrace:kernel_stack has no usable field '%s'",
			    callers ? "size" : "caller");
	f->callers = callers->offset;
	f->caller_size = (uint8_t)(callers->arraylen ? callers->elementsize
						     : (unsigned)tep_get_long_size(d->tep));
	if (f->caller_size != 4 && f->caller_size != 8)
		return fail(err, EINVAL, "ftrace:kernel_stack has addresses of %d bytes",
			    f->caller_size);
	f->size = f->callers > f->size ? f->callers : f->size;
	d->stacks = stacks_new();
	d->last = calloc(MAX_CPUS, sizeof(*d->last));
	if (!d->stacks || !d->last)
		return fail(err, ENOMEM, "no memory for stacks");
	return 0;
}

/* The table and kind that a tracepoint belongs to; false if it is only counted. */
static bool find_kind(struct decoder *d, const struct tep_event *event, struct format *f)
{
	char name[256];

	snprintf(name, sizeof(name), "%s:%s", event->system, event->name);
	if (!strcmp(name, "ftrace:kernel_stack")) {
		f->rows = &d->rotations[STACK];
		f->count.stored = stack_table.name;
		return true;
	}
	for (int t = 0; t < NR_RECORDED; t++) {
		for (int k = 0; k < recorded[t]->nr_kinds; k++) {
			const char *const *tracepoint = recorded[t]->kinds[k].tracepoints;

			for (; *tracepoint; tracepoint++) {
				if (strcmp(*tracepoint, name))
					continue;
				f->rows = &d->rotations[t];
				f->kind = (uint8_t)k;
				f->count.stored = recorded[t]->name;
				return true;
			}
		}
	}
	return false;
}

static int set_formats(struct decoder *d, struct error *err)
{
	int nr = tep_get_events_count(d->tep), ret;

	d->formats = calloc((size_t)nr + 1, sizeof(*d->formats));
	d->counts = calloc((size_t)nr + 1, sizeof(*d->counts));
	d->by_type = calloc(NR_TYPES, sizeof(*d->by_type));
	if (!d->formats || !d->counts || !d->by_type)
		return fail(err, ENOMEM, "no memory for %d event formats", nr);
	d->nr_formats = (size_t)nr;
	for (int i = 0; i < nr; i++) {
		struct tep_event *event = tep_get_event(d->tep, i);
		struct format *f = &d->formats[i];

		if (!event || !event->system || event->id < 0 || event->id >= NR_TYPES)
			continue;
		f->count.system = event->system;
		f->count.name = event->name;
		ret = find_kind(d, event, f) ? set_common(d, f, event, err) : 0;
		if (!ret && f->rows == &d->rotations[EVENT])
			ret = set_page_event(d, f, event, err);
		else if (!ret && f->rows == &d->rotations[STACK])
			ret = set_stack(d, f, event, err);
		else if (!ret && f->rows)
			ret = set_row(d, f, event, err);
		if (ret)
			return ret;
		d->by_type[event->id] = f;
	}
	return 0;
}

/* common_type is where the kernel's first header says, in every event alike. */
static int set_type(struct decoder *d, struct error *err)
{
	struct tep_event *event = tep_get_first_event(d->tep);
	struct tep_format_field *field = event ? tep_find_common_field(event, "common_type") : NULL;

	if (!field || !field_set(&d->type, d, field) || field->offset + field->size > WINDOW)
		return fail(err, EINVAL, "no event format in the trace");
	d->type.mask &= NR_TYPES - 1;
	return 0;
}

static int set_rotations(struct decoder *d, size_t rows, struct error *err)
{
	for (int t = 0; t < NR_RECORDED; t++) {
		const struct table *table = recorded[t];
		struct rotation *r = &d->rotations[t];

		*r = (struct rotation){
			.table = table,
			.rows = t == EVENT ? rows : SMALL_ROWS,
		};
		if (t != STACK) {
			r->ts = column_by_name(table, "ts")->slot;
			r->cpu = column_by_name(table, "cpu")->slot;
			r->pid = column_by_name(table, "pid")->slot;
			r->flags = column_by_name(table, "flags")->slot;
			r->at = t == EVENT ? 0 : column_by_name(table, "at")->slot;
			r->kind = column_by_name(table, "kind")->slot;
		}
		r->filling = spare_batch(r, err);
		if (!r->filling)
			return -ENOMEM;
		batch_clear(r->filling);
	}
	return 0;
}

int decoder_new(struct decoder **out, struct tep_handle *tep, const struct decoder_names *names,
		size_t rows, struct error *err)
{
	struct decoder *d = calloc(1, sizeof(*d));
	int ret;

	*out = NULL;
	if (!d || !(d->pids = calloc(MAX_PID / 64, sizeof(*d->pids)))) {
		free(d);
		return fail(err, ENOMEM, "no memory for a decoder");
	}
	d->tep = tep;
	d->swapped = tep_is_file_bigendian(tep) != tep_is_local_bigendian(tep);
	d->last_pid = -1;
	d->vmstat_update = names->vmstat_update;
	canonical_init(&d->canonical, tep, names->nr_migratetypes, names->migratetypes);

	ret = set_type(d, err);
	ret = ret ?: set_rotations(d, rows, err);
	ret = ret ?: set_formats(d, err);
	if (ret) {
		decoder_free(d);
		return ret;
	}
	*out = d;
	return 0;
}

void decoder_free(struct decoder *d)
{
	if (!d)
		return;
	for (int t = 0; t < NR_RECORDED; t++) {
		for (int i = 0; i < d->rotations[t].nr; i++)
			batch_free(d->rotations[t].batches[i]);
		free(d->rotations[t].batches);
	}
	for (size_t i = 0; i < d->nr_formats; i++)
		free(d->formats[i].values);
	free(d->formats);
	free(d->counts);
	free(d->by_type);
	free(d->pids);
	stacks_free(d->stacks);
	free(d->last);
	free(d);
}
