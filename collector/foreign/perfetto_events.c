// SPDX-License-Identifier: Apache-2.0
#include "perfetto_events.h"
#include "decode/canonical.h"
#include "protobuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	MOST_FIELDS = 16, /* fields of a typed message have smaller numbers */
	TYPED = 1024,     /* typed events have smaller numbers */
	MAX_DESCRIBED = 4096,

	FTRACE_TIMESTAMP = 1,
	FTRACE_PID = 2,
	FTRACE_COMMON_FLAGS = 5,
	FTRACE_GENERIC = 327,
	FIRST_DESCRIBED = 65536, /* numbers that a bundle describes */
};

struct name {
	int number;
	const char *name;
};

/* Fields that several messages have. */
#define SCANNED_ZONE                                                                               \
	{1, "zone_start"}, {2, "migrate_pfn"}, {3, "free_pfn"}, {4, "zone_end"}, {5, "sync"}
#define SCANNED_PAGES {1, "start_pfn"}, {2, "end_pfn"}, {3, "nr_scanned"}, {4, "nr_taken"}
#define WOKEN         {1, "nid"}, {2, "order"}, {3, "classzone_idx"}, {4, "highest_zoneidx"}
#define DEFERRED                                                                                   \
	{1, "nid"}, {2, "idx"}, {3, "order"}, {4, "considered"}, {5, "defer_shift"},               \
		{6, "order_failed"}

/* The messages of the events that have a table, with the fields that fill columns. */
static const struct typed {
	int number;
	const char *name;
	struct name fields[8]; /* ends with .name NULL */
} typed[] = {
	{46, "mm_vmscan_direct_reclaim_begin", {{1, "order"}, {3, "gfp_flags"}}},
	{47, "mm_vmscan_direct_reclaim_end", {{1, "nr_reclaimed"}}},
	{48, "mm_vmscan_kswapd_wake", {{1, "nid"}, {2, "order"}, {3, "zid"}}},
	{49, "mm_vmscan_kswapd_sleep", {{1, "nid"}}},
	{58, "workqueue_execute_start", {{2, "function"}}},
	{99, "mm_compaction_begin", {SCANNED_ZONE}},
	{100, "mm_compaction_defer_compaction", {DEFERRED}},
	{101, "mm_compaction_deferred", {DEFERRED}},
	{102, "mm_compaction_defer_reset", {DEFERRED}},
	{103, "mm_compaction_end", {SCANNED_ZONE, {6, "status"}}},
	{104, "mm_compaction_finished", {{1, "nid"}, {2, "idx"}, {3, "order"}, {4, "ret"}}},
	{105, "mm_compaction_isolate_freepages", {SCANNED_PAGES}},
	{106, "mm_compaction_isolate_migratepages", {SCANNED_PAGES}},
	{107, "mm_compaction_kcompactd_sleep", {{1, "nid"}}},
	{108, "mm_compaction_kcompactd_wake", {WOKEN}},
	{109, "mm_compaction_migratepages", {{1, "nr_migrated"}, {2, "nr_failed"}}},
	{110, "mm_compaction_suitable", {{1, "nid"}, {2, "idx"}, {3, "order"}, {4, "ret"}}},
	{111,
	 "mm_compaction_try_to_compact_pages",
	 {{1, "order"}, {2, "gfp_mask"}, {3, "mode"}, {4, "prio"}}},
	{112, "mm_compaction_wakeup_kcompactd", {WOKEN}},
	{307, "mm_page_alloc", {{1, "gfp_flags"}, {2, "migratetype"}, {3, "order"}, {5, "pfn"}}},
	{308,
	 "mm_page_alloc_extfrag",
	 {{1, "alloc_migratetype"},
	  {2, "alloc_order"},
	  {3, "fallback_migratetype"},
	  {4, "fallback_order"},
	  {6, "change_ownership"},
	  {7, "pfn"}}},
	{309, "mm_page_alloc_zone_locked", {{1, "migratetype"}, {2, "order"}, {4, "pfn"}}},
	{310, "mm_page_free", {{1, "order"}, {3, "pfn"}}},
	{311, "mm_page_free_batched", {{3, "pfn"}}},
	{312, "mm_page_pcpu_drain", {{1, "migratetype"}, {2, "order"}, {4, "pfn"}}},
	{334, "mark_victim", {{1, "pid"}}},
	{443,
	 "mm_shrink_slab_start",
	 {{3, "gfp_flags"},
	  {5, "nr_objects_to_shrink"},
	  {9, "total_scan"},
	  {10, "nid"},
	  {11, "priority"}}},
	{444, "mm_shrink_slab_end", {{2, "retval"}, {5, "total_scan"}, {7, "nid"}}},
	{465, "cma_alloc_start", {{2, "count"}}},
	{576, "cma_alloc_finish", {{2, "pfn"}, {3, "page"}, {4, "count"}, {6, "errorno"}}},
	{577, "mm_alloc_contig_migrate_range_info", {{1, "start"}, {2, "end"}, {3, "nr_migrated"}}},
	{607, "mm_vmscan_memcg_reclaim_begin", {{1, "order"}, {3, "gfp_flags"}}},
	{608, "mm_vmscan_memcg_reclaim_end", {{1, "nr_reclaimed"}}},
};

enum { NR_TYPED = sizeof(typed) / sizeof(typed[0]) };

/* An event whose fields are numbered. */
struct numbered {
	uint32_t number;
	struct tracepoint *of;
	int8_t columns[MOST_FIELDS]; /* by number of the field; -1: of no column */
};

struct perfetto_events {
	struct shapes *shapes;
	struct numbered *typed[TYPED]; /* NULL: not seen, or of no table */
	struct numbered of_table[NR_TYPED];
	struct tracepoint *others[TYPED];
	size_t nr_described;
	struct numbered *described; /* by the trace itself, sorted by number */
};

static int8_t column_of(const struct perfetto_events *e, const struct tracepoint *of,
			struct words name)
{
	if (!of->table)
		return -1;
	if (of->columns >> FUNCTION & 1 && words_are(name, "function"))
		return FUNCTION;
	return (int8_t)shapes_column(e->shapes, of, name);
}

int perfetto_events_new(struct perfetto_events **out, struct shapes *shapes, struct error *err)
{
	struct perfetto_events *e = *out = calloc(1, sizeof(*e));

	if (!e)
		return fail(err, ENOMEM, "no memory for the names of the events");
	e->shapes = shapes;
	for (int i = 0; i < NR_TYPED; i++) {
		struct numbered *n = &e->of_table[i];

		n->of = shapes_find(shapes, words_of(""), words_of(typed[i].name));
		if (!n->of)
			return fail(err, ENOMEM, "no memory for the names of the events");
		memset(n->columns, -1, sizeof(n->columns));
		for (const struct name *f = typed[i].fields; f->name; f++)
			n->columns[f->number] = column_of(e, n->of, words_of(f->name));
		e->typed[typed[i].number] = n;
	}
	return 0;
}

void perfetto_events_free(struct perfetto_events *e)
{
	if (!e)
		return;
	free(e->described);
	free(e);
}

/* FieldDescriptorProto: the name and the number of a field. */
static void learn_field(const struct perfetto_events *e, struct numbered *n, struct span message)
{
	struct span name = pb_bytes(message, 1);
	uint64_t number = pb_value(message, 3);

	if (name.at && number < MOST_FIELDS)
		n->columns[number] = column_of(e, n->of, span_words(name));
}

static struct numbered *find_described(const struct perfetto_events *e, uint32_t number)
{
	size_t low = 0, high = e->nr_described;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (e->described[middle].number == number)
			return &e->described[middle];
		if (e->described[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static void add_described(struct perfetto_events *e, const struct numbered *n)
{
	struct numbered *described;
	size_t at = e->nr_described;

	if (e->nr_described == MAX_DESCRIBED)
		return;
	described = reallocarray(e->described, e->nr_described + 1, sizeof(*described));
	if (!described)
		return;
	e->described = described;
	for (; at && described[at - 1].number > n->number; at--)
		described[at] = described[at - 1];
	described[at] = *n;
	e->nr_described++;
}

void perfetto_events_learn(struct perfetto_events *e, struct span descriptor)
{
	struct span event = pb_bytes(descriptor, 2);
	struct numbered n = {.number = (uint32_t)pb_value(descriptor, 1)};
	struct pb_field field;

	if (!event.at || n.number < FIRST_DESCRIBED || find_described(e, n.number))
		return;
	n.of = shapes_find(e->shapes, span_words(pb_bytes(descriptor, 3)),
			   span_words(pb_bytes(event, 1)));
	if (!n.of)
		return;
	memset(n.columns, -1, sizeof(n.columns));
	for (struct span rest = event; pb_next(&rest, &field);)
		if (field.number == 2 && field.is_bytes)
			learn_field(e, &n, field.bytes);
	add_described(e, &n);
}

/* The zone of a name, in the numbers of 64-bit x86. */
static bool zone_number(struct span name, uint64_t *value)
{
	static const uint8_t zones[] = {ZONE_DMA, ZONE_DMA32, ZONE_NORMAL, ZONE_MOVABLE,
					ZONE_DEVICE};
	uint8_t zone = canonical_zone_by_name((const char *)name.at, span_left(&name));

	for (*value = 0; *value < sizeof(zones); ++*value)
		if (zones[*value] == zone)
			return true;
	return false;
}

/* A value of the event, unless its column cannot hold a text. */
static void set_field(struct event_values *event, int column, const struct pb_field *field)
{
	const struct column *c = column == FUNCTION ? NULL : &event->of->table->columns[column];
	uint64_t value = field->value;

	if (field->is_bytes && (!c || !c->labels || !zone_number(field->bytes, &value)))
		return;
	if (c && !strcmp(c->name, "allocated")) /* of a pointer, only whether there is one */
		value = value != 0;
	set_value(event, column, value);
}

static bool read_numbered(struct event_values *event, const struct numbered *n, struct span message)
{
	struct pb_field field;

	event->of = n->of;
	while (pb_next(&message, &field))
		if (field.number < MOST_FIELDS && n->columns[field.number] >= 0)
			set_field(event, n->columns[field.number], &field);
	return !message.bad;
}

/* Field of a GenericFtraceEvent: its name, then its value. */
static bool read_generic_field(const struct perfetto_events *e, struct event_values *event,
			       struct span message)
{
	struct pb_field field, value = {0};
	struct span name = {0};
	int column;

	while (pb_next(&message, &field)) {
		if (field.number == 1 && field.is_bytes)
			name = field.bytes;
		else if (field.number >= 3 && field.number <= 5)
			value = field;
	}
	if (message.bad || !name.at || !value.number)
		return !message.bad;
	column = column_of(e, event->of, span_words(name));
	if (column >= 0)
		set_field(event, column, &value);
	return true;
}

static bool read_generic(struct perfetto_events *e, struct event_values *event, struct span message)
{
	struct pb_field field;
	bool good = true;

	event->of = shapes_find(e->shapes, words_of(""), span_words(pb_bytes(message, 1)));
	while (event->of && event->of->table && pb_next(&message, &field))
		if (field.number == 2 && field.is_bytes)
			good = good && read_generic_field(e, event, field.bytes);
	return good && !message.bad;
}

/* An event of no table: it is counted under its number. */
static struct tracepoint *other(struct perfetto_events *e, uint32_t number)
{
	char name[32];

	if (number >= TYPED)
		return NULL;
	if (!e->others[number]) {
		snprintf(name, sizeof(name), "field_%u", number);
		e->others[number] = shapes_find(e->shapes, words_of("perfetto"), words_of(name));
	}
	return e->others[number];
}

static bool read_event(struct perfetto_events *e, struct event_values *event,
		       const struct pb_field *field)
{
	const struct numbered *n = field->number < TYPED ? e->typed[field->number] : NULL;

	if (field->number == FTRACE_GENERIC)
		return read_generic(e, event, field->bytes);
	if (field->number >= FIRST_DESCRIBED)
		n = find_described(e, field->number);
	if (n)
		return read_numbered(event, n, field->bytes);
	event->of = other(e, field->number);
	return true;
}

bool perfetto_events_read(struct perfetto_events *e, struct span message,
			  struct event_values *event, uint64_t *ts)
{
	struct pb_field field;
	bool good = true;

	event->of = NULL;
	event->pid = 0;
	event->flags = event->preempt_count = 0;
	event->has = 0;
	*ts = 0;
	while (good && pb_next(&message, &field)) {
		if (field.is_bytes)
			good = read_event(e, event, &field);
		else if (field.number == FTRACE_TIMESTAMP)
			*ts = field.value;
		else if (field.number == FTRACE_PID)
			event->pid = (int32_t)field.value;
		else if (field.number == FTRACE_COMMON_FLAGS)
			event->flags = (uint8_t)field.value;
	}
	return good && !message.bad;
}
