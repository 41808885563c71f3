// SPDX-License-Identifier: Apache-2.0
/* The fields of the recorded events, from the formats of the traced kernel. */
#include "decode_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
 * Fields that a page event must have. percpu_refill exists since 5.19; old kernels print
 * change_ownership but do not store it.
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

const struct table *const decode_tables[NR_RECORDED] = {
	[EVENT] = &event_table,           [RECLAIM] = &reclaim_table,
	[COMPACTION] = &compaction_table, [STACK] = &stack_table,
	[STAMP] = &stamp_table,           [LIST_HEAD] = &list_head_table,
	[LOCK_EVENT] = &lock_event_table,
};

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

const struct column *decode_column(const struct table *table, const char *name)
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

static int use_field(const struct decoder *d, struct format *f, struct tep_event *event,
		     const char *name, struct field *to, struct error *err)
{
	struct tep_format_field *field = tep_find_any_field(event, name);

	if (!field || !field_set(to, d, field))
		return fail(err, EINVAL, "%s:%s has no usable field '%s'", event->system,
			    event->name, name);
	need(f, field);
	return 0;
}

static int set_common(const struct decoder *d, struct format *f, struct tep_event *event,
		      struct error *err)
{
	int ret;

	f->size = WINDOW;
	ret = use_field(d, f, event, "common_flags", &f->flags, err);
	ret = ret ?: use_field(d, f, event, "common_preempt_count", &f->preempt_count, err);
	return ret ?: use_field(d, f, event, "common_pid", &f->pid, err);
}

/*
 * With the common fields in the first 8 bytes, numbers of 4 bytes, pfn and gfp_flags of 8,
 * turn the windows of 8 bytes into plain loads. (gfp_flags of 5.0 has 4.)
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
		const struct column *column = decode_column(&event_table, page_column[i]);
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

/* A text that a BPF program printed. Frees are rows of `event`, stamps are not counted. */
static int set_printed(const struct decoder *d, struct format *f, struct tep_event *event,
		       struct error *err)
{
	struct tep_format_field *field = tep_find_field(event, "bpf_string");

	if (!field || !(field->flags & TEP_FIELD_IS_DYNAMIC) || !field_set(&f->text, d, field))
		return fail(err, EINVAL, "%s:%s has no usable field 'bpf_string'", event->system,
			    event->name);
	need(f, field);
	f->has = 1 << PFN | 1 << ORDER;
	f->page[PFN].mask = UINT64_MAX;
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
	/* Of a pointer, only whether there is one: cma_alloc_finish has a page or none. */
	if (!strncmp(field->type, "bool", 4) || field->flags & TEP_FIELD_IS_POINTER)
		return TRUTH;
	return NUMBER;
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
	return f->is_work ? use_field(d, f, event, "function", &f->function, err) : 0;
}

/* Every address of a stack lies at a place that a struct field can hold. */
enum { MAX_CALLERS_AT = UINT16_MAX - 8 * STACK_FRAMES };

/*
 * ftrace:kernel_stack, written by the stacktrace trigger and option. Its `caller` has the length of
 * the stack, not the length in the format (struct stack_entry of the kernel's trace_entries.h).
 */
static int set_stack(struct decoder *d, struct format *f, struct tep_event *event,
		     struct error *err)
{
	struct tep_format_field *callers = tep_find_field(event, "caller");
	struct tep_format_field *nr = tep_find_field(event, "size");

	if (!callers || callers->offset < WINDOW || callers->offset > MAX_CALLERS_AT ||
	    (nr && !field_set(&f->nr_callers, d, nr)))
		return fail(err, EINVAL, "ftrace:kernel_stack has no usable field '%s'",
			    callers ? "size" : "caller");
	f->callers = callers->offset;
	f->caller_size = (uint8_t)(callers->arraylen ? callers->elementsize
						     : (unsigned)tep_get_long_size(d->tep));
	if (f->caller_size != 4 && f->caller_size != 8)
		return fail(err, EINVAL, "ftrace:kernel_stack has addresses of %d bytes",
			    f->caller_size);
	f->size = f->callers > f->size ? f->callers : f->size;
	if (nr)
		need(f, nr);
	if (d->stacks) /* a second format of this name */
		return 0;
	d->stacks = stacks_new();
	d->last = calloc(DECODER_CPUS, sizeof(*d->last));
	if (!d->stacks || !d->last)
		return fail(err, ENOMEM, "no memory for stacks");
	return 0;
}

/* Find the table and kind of a tracepoint; false if its events are only counted. */
static bool find_kind(struct decoder *d, const struct tep_event *event, struct format *f)
{
	char name[256];

	snprintf(name, sizeof(name), "%s:%s", event->system, event->name);
	if (!strcmp(name, "ftrace:kernel_stack")) {
		f->rows = &d->rotations[STACK];
		f->count.stored = stack_table.name;
		return true;
	}
	if (!strcmp(name, "bpf_trace:bpf_trace_printk")) {
		f->rows = &d->rotations[EVENT];
		f->kind = EVENT_KIND_FREE;
		f->count.system = "kmem";
		f->count.name = "mm_page_free";
		f->count.stored = event_table.name;
		return true;
	}
	for (int t = 0; t < NR_RECORDED; t++) {
		for (int k = 0; k < decode_tables[t]->nr_kinds; k++) {
			const char *const *tracepoint = decode_tables[t]->kinds[k].tracepoints;

			for (; *tracepoint; tracepoint++) {
				if (strcmp(*tracepoint, name))
					continue;
				f->rows = &d->rotations[t];
				f->kind = (uint8_t)k;
				f->count.stored = decode_tables[t]->name;
				return true;
			}
		}
	}
	return false;
}

/* An event of any lock; the tape has those of zones. */
static int set_lock_event(const struct decoder *d, struct format *f, struct tep_event *event,
			  struct error *err)
{
	int ret = use_field(d, f, event, "lock_addr", &f->lock, err);

	if (!ret && !d->addresses.nr_zone_locks)
		return fail(err, EINVAL, "the addresses of the zones' locks are unknown");
	return ret;
}

/* The places of all fields that the rows need; 0 also for an event that is only counted. */
static int set_format(struct decoder *d, struct format *f, struct tep_event *event,
		      struct error *err)
{
	int ret = find_kind(d, event, f) ? set_common(d, f, event, err) : 0;

	if (ret || !f->rows)
		return ret;
	if (f->rows == &d->rotations[EVENT] && f->count.system != event->system)
		return set_printed(d, f, event, err);
	if (f->rows == &d->rotations[EVENT])
		return set_page_event(d, f, event, err);
	if (f->rows == &d->rotations[STACK])
		return set_stack(d, f, event, err);
	if (f->rows == &d->rotations[LOCK_EVENT])
		return set_lock_event(d, f, event, err);
	return set_row(d, f, event, err);
}

/* Only count the events of this format, for the reason in `why`. */
static int set_unreadable(struct format *f, const struct error *why, struct error *err)
{
	struct decoder_count count = {.system = f->count.system, .name = f->count.name};

	free(f->values);
	count.unreadable = strdup(why->msg);
	*f = (struct format){.count = count};
	return count.unreadable ? 0 : fail(err, ENOMEM, "no memory for event formats");
}

int decode_formats_load(struct decoder *d, struct error *err)
{
	int nr = tep_get_events_count(d->tep), ret;
	struct error why;

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
		ret = set_format(d, f, event, &why);
		if (ret == -EINVAL)
			ret = set_unreadable(f, &why, err);
		else if (ret)
			fail(err, -ret, "%s", why.msg);
		if (ret)
			return ret;
		d->by_type[event->id] = f;
	}
	return 0;
}

/* common_type is at the same place in every event. */
int decode_formats_type(struct decoder *d, struct error *err)
{
	struct tep_event *event = tep_get_first_event(d->tep);
	struct tep_format_field *field = event ? tep_find_common_field(event, "common_type") : NULL;

	if (!field || !field_set(&d->type, d, field) || field->offset + field->size > WINDOW)
		return fail(err, EINVAL, "no event format in the trace");
	d->type.mask &= NR_TYPES - 1;
	return 0;
}
