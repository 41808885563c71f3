// SPDX-License-Identifier: Apache-2.0
#include "shapes.h"
#include "tables.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TABLES = 3,
	MAX_NAMES = 1 << 12, /* tracepoints of a file: a kernel has some 2,000 */
	SLOTS = 2 * MAX_NAMES,
	MAX_NAME = 64,
	ALIASES = 1024, /* slots; four times the names */
	FIRST_TYPE = 1,
	MAX_FORMAT = 16 << 10,
};

static const struct table *const tables[TABLES] = {&event_table, &reclaim_table, &compaction_table};

/* A name by which a file may call a column. */
struct alias {
	const struct table *table;
	const char *name;
	int column;
};

struct shapes {
	int nr_types; /* shapes so far */
	int nr_names;
	struct tracepoint *slots[SLOTS]; /* open addressing by the hash of the name */
	int nr_aliases;
	struct alias aliases[ALIASES]; /* open addressing by the hash of the name */
};

/* What the kernel prints where its field has another name. */
static const struct {
	const struct table *table;
	const char *printed, *column;
} printed_names[] = {
	{&reclaim_table, "nr_activate_anon", "nr_activated_anon"},
	{&reclaim_table, "nr_activate_file", "nr_activated_file"},
	{&reclaim_table, "usect_delayed", "usec_delayed"},
	{&reclaim_table, "zone", "zone"},
	{&reclaim_table, "classzone", "zone"},
	{&reclaim_table, "flags", "reclaim_flags"},
	{&reclaim_table, "min", "wmark_min"},
	{&reclaim_table, "low", "wmark_low"},
	{&reclaim_table, "high", "wmark_high"},
	{&reclaim_table, "promo", "wmark_promo"},
	{&reclaim_table, "lowmem_reserve_pages", "lowmem_reserve"},
	{&reclaim_table, "compaction_result", "reason"},
	{&compaction_table, "node", "node"},
	{&compaction_table, "zone", "zone"},
	{&compaction_table, "consider", "considered"},
	{&compaction_table, "limit", "defer_shift"},
	{&compaction_table, "priority", "priority"},
	{&compaction_table, "nr_succeeded", "nr_migrated"},
	{&compaction_table, "nr_thp_succeeded", "thp_migrated"},
	{&compaction_table, "nr_thp_failed", "thp_failed"},
	{&compaction_table, "nr_thp_split", "thp_split"},
};

static int column_of(const struct table *table, const char *name)
{
	for (int c = 0; c < table->nr_columns; c++)
		if (!strcmp(table->columns[c].name, name))
			return c;
	assert(!"the column is in the table's TOML");
	return -1;
}

static struct tracepoint **slot_of(struct shapes *s, struct words system, struct words name)
{
	uint32_t at = words_hash(name) % SLOTS;

	while (s->slots[at] && !(words_are(name, s->slots[at]->name) &&
				 (!system.length || words_are(system, s->slots[at]->system))))
		at = (at + 1) % SLOTS;
	return &s->slots[at];
}

static struct tracepoint *add(struct shapes *s, struct words system, struct words name)
{
	struct tracepoint **slot = slot_of(s, system, name);
	struct tracepoint *t;

	if (*slot)
		return *slot;
	if (s->nr_names == MAX_NAMES || name.length > MAX_NAME || system.length > MAX_NAME)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->system = system.length ? strndup(system.text, system.length) : strdup("unknown");
	t->name = strndup(name.text, name.length);
	if (!t->system || !t->name) {
		free((void *)t->system);
		free((void *)t->name);
		free(t);
		return NULL;
	}
	s->nr_names++;
	return *slot = t;
}

struct tracepoint *shapes_find(struct shapes *s, struct words system, struct words name)
{
	/* Perfetto counts the bytes of a name: one may be a NUL. */
	name.length = name.length ? strnlen(name.text, name.length) : 0;
	system.length = system.length ? strnlen(system.text, system.length) : 0;
	return name.length ? add(s, system, name) : NULL;
}

static const struct alias *find_alias(const struct shapes *s, const struct table *table,
				      struct words name)
{
	uint32_t at = words_hash(name) % ALIASES;

	while (s->aliases[at].table &&
	       !(s->aliases[at].table == table && words_are(name, s->aliases[at].name)))
		at = (at + 1) % ALIASES;
	return &s->aliases[at];
}

static void add_alias(struct shapes *s, const struct table *table, const char *name, int column)
{
	struct alias *alias = (struct alias *)find_alias(s, table, words_of(name));

	assert(s->nr_aliases < ALIASES / 2);
	s->nr_aliases += !alias->table;
	*alias = (struct alias){table, name, column};
}

/* The columns that the kernel's records of a kind cannot have, although it prints such a name. */
static uint64_t not_stored(const struct table *table, int kind)
{
	if (table == &event_table && kind == EVENT_KIND_FREE_BATCHED)
		return 1ull << column_of(table, "page_order"); /* a constant of the text */
	if (table == &compaction_table && kind == COMPACTION_KIND_TEST_PAGES_ISOLATED)
		return 1ull << column_of(table, "status"); /* follows from the pfns */
	return 0;
}

static int add_kinds(struct shapes *s, const struct table *table, uint64_t columns)
{
	for (int k = 0; k < table->nr_kinds; k++) {
		for (const char *const *name = table->kinds[k].tracepoints; *name; name++) {
			struct words system = {*name, strcspn(*name, ":")};
			const char *event = *name + system.length + 1;
			struct tracepoint *t = add(s, system, words_of(event));

			if (!t)
				return -ENOMEM;
			t->table = table;
			t->kind = (uint8_t)k;
			t->columns = columns & ~not_stored(table, k);
			if (!strcmp(event, "workqueue_execute_start"))
				t->columns |= 1ull << FUNCTION;
		}
	}
	return 0;
}

static int add_table(struct shapes *s, const struct table *table)
{
	uint64_t columns = 0;

	assert(table->nr_columns < FUNCTION);
	for (int c = 0; c < table->nr_columns; c++) {
		const char *const *field = table->columns[c].fields;

		if (field)
			columns |= 1ull << c;
		for (; field && *field; field++)
			add_alias(s, table, *field, c);
	}
	return add_kinds(s, table, columns);
}

int shapes_new(struct shapes **out, struct error *err)
{
	struct shapes *s = calloc(1, sizeof(*s));
	int ret = s ? 0 : -ENOMEM;

	for (int t = 0; t < TABLES && !ret; t++)
		ret = add_table(s, tables[t]);
	for (size_t i = 0; i < sizeof(printed_names) / sizeof(printed_names[0]) && !ret; i++)
		add_alias(s, printed_names[i].table, printed_names[i].printed,
			  column_of(printed_names[i].table, printed_names[i].column));
	*out = s;
	return ret ? fail(err, -ret, "no memory for the names of the events") : 0;
}

void shapes_free(struct shapes *s)
{
	if (!s)
		return;
	for (int i = 0; i < SLOTS; i++) {
		if (!s->slots[i])
			continue;
		free((void *)s->slots[i]->system);
		free((void *)s->slots[i]->name);
		free(s->slots[i]->shapes);
		free(s->slots[i]);
	}
	free(s);
}

int shapes_column(const struct shapes *s, const struct tracepoint *of, struct words field)
{
	const struct alias *alias = find_alias(s, of->table, field);

	return alias->table && of->columns >> alias->column & 1 ? alias->column : -1;
}

static const struct shape *find_shape(const struct event_values *event)
{
	const struct tracepoint *t = event->of;

	for (int i = 0; i < t->nr_shapes; i++)
		if (t->shapes[i].has == event->has)
			return &t->shapes[i];
	return NULL;
}

bool shapes_see(struct shapes *s, const struct event_values *event)
{
	struct tracepoint *t = event->of;
	struct shape *shapes;

	if (find_shape(event))
		return true;
	if (s->nr_types == MAX_SHAPES)
		return false;
	shapes = reallocarray(t->shapes, (size_t)t->nr_shapes + 1, sizeof(*shapes));
	if (!shapes)
		return false;
	t->shapes = shapes;
	shapes[t->nr_shapes++] = (struct shape){event->has, FIRST_TYPE + s->nr_types++};
	return true;
}

/* As kernels print them; decode/canonical.c knows the list by Normal and Movable. */
static const char *const zone_names[NR_ZONE] = {
	[ZONE_DMA] = "DMA",         [ZONE_DMA32] = "DMA32",     [ZONE_NORMAL] = "Normal",
	[ZONE_HIGHMEM] = "HighMem", [ZONE_MOVABLE] = "Movable", [ZONE_DEVICE] = "Device",
};

/* The list of the names of gfp bits, or of zones, as in the print format of a kernel. */
static void print_names(FILE *to, const struct numbering *n, const struct column *column)
{
	bool zones = column->labels && n->canonical_zones;

	if (!zones && strcmp(column->bits, "gfp"))
		return;
	fprintf(to, ", %s(REC->%s", zones ? "__print_symbolic" : "__print_flags",
		column->fields[0]);
	if (!zones)
		fprintf(to, ", \"|\"");
	for (int i = 0; zones && i < NR_ZONE; i++)
		fprintf(to, ", {%d, \"%s\"}", i, zone_names[i]);
	for (int bit = 0; !zones && bit < 32; bit++)
		if (n->gfp[bit])
			fprintf(to, ", {%#xu, \"%s\"}", 1u << bit, n->gfp[bit]);
	fprintf(to, ")");
}

static void print_fields(FILE *to, const struct tracepoint *t, uint64_t has)
{
	int at = 8;

	for (uint64_t rest = has; rest; rest &= rest - 1, at += 8) {
		int c = __builtin_ctzll(rest);
		bool is_signed = c != FUNCTION && strchr("csil", *t->table->columns[c].format);

		fprintf(to, "\tfield:%s %s;\toffset:%d;\tsize:8;\tsigned:%d;\n",
			is_signed ? "s64" : "u64",
			c == FUNCTION ? "function" : t->table->columns[c].fields[0], at, is_signed);
	}
}

/* The name with what libtraceevent takes: perf has events of its own, such as cpu-clock. */
static void print_name(FILE *to, const char *name)
{
	fprintf(to, "name: %s", isdigit((unsigned char)*name) ? "_" : "");
	for (; *name; name++)
		fputc(isalnum((unsigned char)*name) ? *name : '_', to);
	fputc('\n', to);
}

/* One format, in the form of the kernel's. */
static void print_format(FILE *to, const struct tracepoint *t, const struct shape *shape,
			 const struct numbering *n)
{
	print_name(to, t->name);
	fprintf(to,
		"ID: %d\nformat:\n"
		"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n",
		shape->type);
	print_fields(to, t, shape->has);
	fprintf(to, "\nprint fmt: \"");
	if (t->table == &event_table && t->kind == EVENT_KIND_ALLOC_EXTFRAG &&
	    n->pageblock_order >= 0)
		fprintf(to, "pageblock_order=%%d\", %d", n->pageblock_order);
	else
		fprintf(to, "%%d\", REC->common_pid");
	for (uint64_t rest = shape->has & ~(1ull << FUNCTION); rest; rest &= rest - 1)
		print_names(to, n, &t->table->columns[__builtin_ctzll(rest)]);
	fprintf(to, "\n");
}

int shapes_formats(const struct shapes *s, struct tep_handle *tep,
		   const struct numbering *numbering, struct error *err)
{
	char *text = malloc(MAX_FORMAT);
	int ret = text ? 0 : fail(err, ENOMEM, "no memory for event formats");

	for (int slot = 0; slot < SLOTS && !ret; slot++) {
		const struct tracepoint *t = s->slots[slot];

		for (int i = 0; t && i < t->nr_shapes && !ret; i++) {
			FILE *to = fmemopen(text, MAX_FORMAT, "w");

			if (!to) {
				ret = fail(err, ENOMEM, "no memory for event formats");
				break;
			}
			print_format(to, t, &t->shapes[i], numbering);
			fclose(to);
			if (tep_parse_event(tep, text, strlen(text), t->system))
				ret = fail(err, EINVAL, "libtraceevent refuses a format of %s:%s",
					   t->system, t->name);
		}
	}
	free(text);
	return ret;
}

int shapes_record(const struct event_values *event, uint8_t record[MAX_RECORD])
{
	const struct shape *shape = find_shape(event);
	uint16_t type = shape ? (uint16_t)shape->type : 0;
	int size = 8;

	if (!shape)
		return 0;
	memcpy(record, &type, sizeof(type));
	record[2] = event->flags;
	record[3] = event->preempt_count;
	memcpy(record + 4, &event->pid, sizeof(event->pid));
	for (uint64_t rest = event->has; rest; rest &= rest - 1, size += 8)
		memcpy(record + size, &event->values[__builtin_ctzll(rest)], 8);
	return size;
}
