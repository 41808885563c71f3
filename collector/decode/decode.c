// SPDX-License-Identifier: Apache-2.0
#include "decode_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
 * Write the validity of the eight rows up to `row`. d->has has a byte for each row, the last row on
 * top; an 8 x 8 bit transposition gives a byte for each column.
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

/* The rows after the last full eight. */
static void store_validity_rest(struct decoder *d, struct batch *batch)
{
	if (batch->nr % 8) {
		d->has >>= 8 * (8 - batch->nr % 8);
		store_validity(d, (struct event_columns *)batch->slots, batch->nr);
	}
}

/*
 * The hot path. It stores every column, absent ones as 0: only the validity depends on the
 * kind of event, and zeros under nulls compress well.
 */
static inline bool add_page_event(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
				  const struct page_event *event)
{
	struct batch *batch = d->rotations[EVENT].filling;
	struct event_columns *to = (struct event_columns *)batch->slots;
	const struct page_event e = *event;
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

/* A __data_loc word: offset of the string in the record, and its length with the NUL. */
static uint8_t zone_by_data_loc(uint64_t loc, const uint8_t *record, int size)
{
	unsigned at = loc & 0xffff, length = loc >> 16 & 0xffff;
	const char *name = (const char *)record + at;

	if (at + length > (unsigned)size)
		return NOT_CANONICAL;
	return canonical_zone_by_name(name, strnlen(name, length));
}

/* False: the column cannot hold the value and stays null. */
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

	if (d->addresses.vmstat_update)
		return function == d->addresses.vmstat_update;
	if (function == *other)
		return false;
	/* The nearest lower symbol does not suffice: the list of symbols may be incomplete. */
	name = tep_find_function(d->tep, function);
	if (name && !strcmp(name, "vmstat_update") &&
	    tep_find_function_address(d->tep, function) == function) {
		d->addresses.vmstat_update = function;
		return true;
	}
	*other = function;
	return false;
}

static const struct zone_lock_address *find_zone_lock(const struct decoder *d, uint64_t address)
{
	for (int i = 0; i < d->addresses.nr_zone_locks; i++)
		if (d->addresses.zone_locks[i].address == address)
			return &d->addresses.zone_locks[i];
	return NULL;
}

static bool add_row(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		    const uint8_t *record, int size)
{
	const struct zone_lock_address *lock = NULL;
	const struct rotation *rows = f->rows;
	struct batch *batch = rows->filling;
	void **slots = batch->slots;
	size_t i = batch->nr;
	int32_t pid = (int32_t)load(d, record, &f->pid);

	if (f->is_work && !is_vmstat_update(d, load(d, record, &f->function)))
		return true;
	if (f->lock.mask && !(lock = find_zone_lock(d, load(d, record, &f->lock))))
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
	if (lock) {
		((struct lock_event_columns *)slots)->node[i] = lock->node;
		((struct lock_event_columns *)slots)->zone[i] = lock->zone;
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
	if (last->what == PAGE_EVENT && last->pid == pid)
		SET_VALUE(to, event_ts, i, last->ts);
	if (stack != STACK_UNKNOWN)
		SET_VALUE(to, stack, i, stack);
	batch->nr = i + 1;
	return true;
}

/* For a stack that may follow on this CPU. */
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
	if (d->last && cpu >= 0 && cpu < DECODER_CPUS)
		d->last[cpu].what = NOTHING;
}

/* A text that a BPF program printed: input/printed_text.h. */
static bool add_printed(struct decoder *d, struct format *f, int cpu, uint64_t ts,
			const uint8_t *record, int size)
{
	struct page_event e = {
		.flags = (uint8_t)load(d, record, &f->flags),
		.pid = (int32_t)load(d, record, &f->pid),
	};
	struct printed p;

	switch (decode_printed(d, f, record, size, &p)) {
	case PRINTED_FOREIGN: /* none of the recording */
		return true;
	case PRINTED_DAMAGED:
		d->bad++;
		return true;
	case PRINTED_STAMP:
		if (d->last)
			d->last[cpu].what = OTHER;
		return decode_add_stamp(d, f, cpu, ts, record, &p);
	case PRINTED_HEADS:
		return decode_add_heads(d, f, cpu, ts, record, &p);
	case PRINTED_FREE:
		break;
	}
	e.pfn = p.pfn;
	e.order = p.order;
	if (!add_page_event(d, f, cpu, ts, &e))
		return false;
	f->count.events++;
	if (d->last)
		remember(d, f, cpu, ts, record);
	return true;
}

bool decoder_add(struct decoder *d, int cpu, uint64_t ts, const void *record, int size)
{
	struct format *f;

	assert(cpu >= 0 && cpu < DECODER_CPUS);
	f = size < WINDOW ? NULL : d->by_type[load(d, record, &d->type)];
	if (!f || size < f->size) {
		decoder_gap(d, cpu);
		d->bad++;
		return true;
	}
	if (f->text.mask)
		return add_printed(d, f, cpu, ts, record, size);
	if (f->rows == &d->rotations[EVENT]) {
		const struct page_event e =
			f->usual ? read_usual(f, record) : read_any(d, f, record);

		if (!add_page_event(d, f, cpu, ts, &e))
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
	for (int cpu = 0; d->last && cpu < DECODER_CPUS; cpu++)
		d->last[cpu].what = NOTHING; /* its event is not on this tape */
}

const struct decoder_count *decoder_counts(struct decoder *d, size_t *nr)
{
	*nr = 0;
	for (size_t i = 0; i < d->nr_formats; i++)
		if (d->formats[i].count.events)
			d->counts[(*nr)++] = d->formats[i].count;
	return d->counts;
}

int decoder_check(const struct decoder *d, struct error *err)
{
	for (size_t i = 0; i < d->nr_formats; i++)
		if (d->formats[i].count.unreadable)
			return fail(err, EINVAL, "%s", d->formats[i].count.unreadable);
	return 0;
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

static int set_rotations(struct decoder *d, size_t rows, struct error *err)
{
	for (int t = 0; t < NR_RECORDED; t++) {
		const struct table *table = decode_tables[t];
		struct rotation *r = &d->rotations[t];

		*r = (struct rotation){
			.table = table,
			.rows = t == EVENT ? rows : SMALL_ROWS,
		};
		if (t != STACK && t != LIST_HEAD) {
			r->ts = decode_column(table, "ts")->slot;
			r->cpu = decode_column(table, "cpu")->slot;
			r->pid = decode_column(table, "pid")->slot;
			r->flags = decode_column(table, "flags")->slot;
			r->at = t == EVENT ? 0 : decode_column(table, "at")->slot;
			r->kind = decode_column(table, "kind")->slot;
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
	d->addresses = names->addresses;
	canonical_init(&d->canonical, tep, names->nr_migratetypes, names->migratetypes);

	ret = decode_formats_type(d, err);
	ret = ret ?: set_rotations(d, rows, err);
	ret = ret ?: decode_formats_load(d, err);
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
	for (size_t i = 0; i < d->nr_formats; i++) {
		free(d->formats[i].values);
		free((void *)d->formats[i].count.unreadable);
	}
	free(d->formats);
	free(d->counts);
	free(d->by_type);
	free(d->pids);
	stacks_free(d->stacks);
	free(d->last);
	free(d);
}
