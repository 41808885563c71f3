// SPDX-License-Identifier: Apache-2.0
#include "text_fields.h"
#include "decode/canonical.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MASK_SLOTS = 256, /* masks as they were printed; a recording has a few dozen */
	MOST_MASK = 512,  /* bytes of a printed mask */
	MOST_NAMES = 64,  /* of groups */
	MOST_NAME = 48,
};

struct mask {
	size_t length;
	uint32_t bits;
	char text[MOST_MASK];
};

struct gfp_words {
	uint32_t bits[32]; /* by bit of the kernel's number */
	size_t nr_groups;
	struct {
		uint32_t bits;
		char name[MOST_NAME];
	} groups[MOST_NAMES];
	struct mask masks[MASK_SLOTS];
	char unknown[MOST_NAME]; /* the first name that is none */
};

static uint32_t hash(struct words words)
{
	uint64_t h = words.length, word;
	const char *text = words.text;
	size_t length = words.length;

	for (; length >= sizeof(word); text += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	for (; length; length--)
		h = (h ^ (uint8_t)*text++) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 40);
}

int gfp_words_new(struct gfp_words **out, struct error *err)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : fail(err, ENOMEM, "no memory for the names of the gfp flags");
}

void gfp_words_free(struct gfp_words *words)
{
	free(words);
}

/* "-12", "0x5e4454", "4711"; false: more follows, or it is none. */
static bool read_number(struct words words, uint64_t *value)
{
	const char *at = words.text, *end = at + words.length;
	bool negative = at < end && *at == '-';

	at += negative;
	if (end - at > 2 && at[0] == '0' && at[1] == 'x') {
		at += 2;
		return read_hex(&at, end, value) && at == end;
	}
	if (!text_decimal(&at, end, value) || at < end)
		return false;
	if (negative)
		*value = -*value;
	return true;
}

/* One word of a mask: a name, or the digits of bits without a name. */
static bool read_flag(const struct gfp_words *w, struct words flag, uint32_t *bits)
{
	char name[MOST_NAME];
	uint64_t number;

	*bits = 0;
	if (words_are(flag, "none"))
		return true;
	if (read_number(flag, &number) && number <= UINT32_MAX) {
		for (; number; number &= number - 1)
			*bits |= w->bits[__builtin_ctzll(number)];
		return true;
	}
	if (flag.length >= sizeof(name))
		return false;
	memcpy(name, flag.text, flag.length);
	name[flag.length] = '\0';
	for (size_t i = 0; i < w->nr_groups && !*bits; i++)
		if (!strcmp(name, w->groups[i].name))
			*bits = w->groups[i].bits;
	if (!*bits)
		*bits = canonical_gfp_by_name(name);
	return *bits;
}

static void read_flags(struct gfp_words *w, struct mask *mask)
{
	const char *end = mask->text + mask->length;

	mask->bits = 0;
	for (const char *at = mask->text; at < end; at++) {
		const char *bar = memchr(at, '|', (size_t)(end - at)) ?: end;
		uint32_t bits;

		if (!read_flag(w, words_between(at, bar), &bits) && !w->unknown[0])
			snprintf(w->unknown, sizeof(w->unknown), "%.*s", (int)(bar - at), at);
		mask->bits |= bits;
		at = bar;
	}
}

/* The canonical bits of a printed mask; names that are unknown are left out. */
static uint32_t read_mask(struct gfp_words *w, struct words text)
{
	struct mask *mask = &w->masks[hash(text) % MASK_SLOTS];

	if (text.length > MOST_MASK)
		return 0;
	if (mask->length != text.length || memcmp(mask->text, text.text, text.length)) {
		mask->length = text.length;
		memcpy(mask->text, text.text, text.length);
		read_flags(w, mask);
	}
	return mask->bits;
}

void gfp_words_learn(struct gfp_words *w, const struct gfp_group *groups, size_t nr,
		     const char *const bits[32])
{
	for (int bit = 0; bit < 32; bit++)
		w->bits[bit] = bits[bit] ? canonical_gfp_by_name(bits[bit]) : 0;
	for (size_t i = 0; i < nr && i < MOST_NAMES; i++) {
		struct mask mask = {.length = strlen(groups[i].flags)};

		if (mask.length > MOST_MASK || strlen(groups[i].name) >= MOST_NAME)
			continue;
		memcpy(mask.text, groups[i].flags, mask.length);
		read_flags(w, &mask);
		w->groups[w->nr_groups].bits = mask.bits;
		strcpy(w->groups[w->nr_groups++].name, groups[i].name);
	}
	w->unknown[0] = '\0';
	for (int i = 0; i < MASK_SLOTS; i++)
		read_flags(w, &w->masks[i]);
}

const char *gfp_words_unknown(const struct gfp_words *words)
{
	return words->unknown[0] ? words->unknown : NULL;
}

/* Names that the kernel prints instead of numbers (include/trace/events/). */
static const struct symbol {
	const char *column, *name;
	uint64_t value;
} symbols[] = {
	{"status", "not_suitable_zone", 0},
	{"status", "skipped", 1},
	{"status", "deferred", 2},
	{"status", "no_suitable_page", 3},
	{"status", "continue", 4},
	{"status", "complete", 5},
	{"status", "partial_skipped", 6},
	{"status", "contended", 7},
	{"status", "success", 8},
	{"mode", "MIGRATE_ASYNC", 0},
	{"mode", "MIGRATE_SYNC_LIGHT", 1},
	{"mode", "MIGRATE_SYNC", 2},
	{"sync", "async", 0},
	{"sync", "sync", 1},
	{"reason", "compaction", 0},
	{"reason", "memory_failure", 1},
	{"reason", "memory_hotplug", 2},
	{"reason", "syscall_or_cpuset", 3},
	{"reason", "mempolicy_mbind", 4},
	{"reason", "numa_misplaced", 5},
	{"reason", "contig_range", 6},
	{"reason", "cma", 6},
	{"reason", "longterm_pin", 7},
	{"reason", "demotion", 8},
	{"reason", "damon", 9},
	{"reason", "failed", 1},
	{"reason", "withdrawn", 2},
	{"reason", "progress", 3},
	{"reason", "VMSCAN_THROTTLE_NONE", 0},
	{"reason", "VMSCAN_THROTTLE_WRITEBACK", 1},
	{"reason", "VMSCAN_THROTTLE_ISOLATED", 2},
	{"reason", "VMSCAN_THROTTLE_NOPROGRESS", 4},
	{"reason", "VMSCAN_THROTTLE_CONGESTED", 8},
	{"priority", "COMPACT_PRIO_SYNC_FULL", 0},
	{"priority", "COMPACT_PRIO_SYNC_LIGHT", 1},
	{"priority", "COMPACT_PRIO_ASYNC", 2},
	{"reclaim_flags", "RECLAIM_WB_NONE", 0},
	{"reclaim_flags", "RECLAIM_WB_ANON", 1},
	{"reclaim_flags", "RECLAIM_WB_FILE", 2},
	{"reclaim_flags", "RECLAIM_WB_SYNC", 4},
	{"reclaim_flags", "RECLAIM_WB_ASYNC", 8},
	{"reclaim_flags", "RECLAIM_WB_MIXED", 16},
	{"lru", "inactive_anon", 0},
	{"lru", "active_anon", 1},
	{"lru", "inactive_file", 2},
	{"lru", "active_file", 3},
	{"lru", "unevictable", 4},
};

/* The value of "A|B", names of one column. */
static bool read_symbols(const char *column, struct words text, uint64_t *value)
{
	const char *end = text.text + text.length;

	*value = 0;
	for (const char *at = text.text; at < end; at++) {
		const char *bar = memchr(at, '|', (size_t)(end - at)) ?: end;
		size_t i = 0, nr = sizeof(symbols) / sizeof(symbols[0]);

		while (i < nr && (strcmp(symbols[i].column, column) ||
				  !words_are(words_between(at, bar), symbols[i].name)))
			i++;
		if (i == nr)
			return false;
		*value |= symbols[i].value;
		at = bar;
	}
	return text.length;
}

static bool read_zone(struct words text, uint64_t *value)
{
	uint64_t number;

	/* lru_isolate prints a number: the zones of 64-bit x86 are assumed. */
	if (read_number(text, &number)) {
		static const uint8_t zones[] = {ZONE_DMA, ZONE_DMA32, ZONE_NORMAL, ZONE_MOVABLE,
						ZONE_DEVICE};

		*value = number < sizeof(zones) ? zones[number] : NOT_CANONICAL;
	} else {
		*value = canonical_zone_by_name(text.text, text.length);
	}
	return *value != NOT_CANONICAL;
}

/* "limit=64" is 1 << defer_shift. */
static bool read_limit(struct words text, uint64_t *value)
{
	if (!read_number(text, value) || !*value || *value & (*value - 1))
		return false;
	*value = (uint64_t)__builtin_ctzll(*value);
	return true;
}

/* No page: how %p of NULL is printed. */
static bool is_null(struct words text)
{
	const char *at = text.text, *end = at + text.length;

	if (words_are(text, "(nil)") || words_are(text, "(null)"))
		return true;
	at += words_begin(text, "0x") ? 2 : 0;
	while (at < end && *at == '0')
		at++;
	return at == end;
}

struct reading {
	struct event_values *event;
	const struct shapes *shapes;
	struct gfp_words *gfp;
	bool no_page; /* page=(null) */
};

static void set(struct reading *r, struct words name, struct words text)
{
	const struct tracepoint *of = r->event->of;
	int c = shapes_column(r->shapes, of, name);
	const struct column *column = c < 0 ? NULL : &of->table->columns[c];
	uint64_t value;
	bool known;

	if (words_are(name, "page"))
		r->no_page = is_null(text);
	if (!column)
		return;
	if (column->labels && (of->table != &event_table)) {
		known = read_zone(text, &value);
	} else if (!strcmp(column->bits, "gfp")) {
		value = read_mask(r->gfp, text);
		known = true;
	} else if (!strcmp(column->name, "defer_shift")) {
		known = read_limit(text, &value);
	} else if (!strcmp(column->name, "allocated")) {
		value = !is_null(text);
		known = true;
	} else {
		known = read_number(text, &value);
		if (!known && !strcmp(column->name, "mode") && read_symbols("sync", text, &value)) {
			c = shapes_column(r->shapes, of, words_of("sync"));
			known = c >= 0;
		} else if (!known) {
			known = read_symbols(column->name, text, &value);
		}
	}
	if (known)
		set_value(r->event, c, value);
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
	       (c >= 'A' && c <= 'Z');
}

/* "name=value" pairs, separated by spaces and commas. */
static void read_pairs(struct reading *r, struct words fields)
{
	const char *begin = fields.text, *end = begin + fields.length, *at = begin;
	const char *equals;

	while ((equals = memchr(at, '=', (size_t)(end - at)))) {
		const char *name = equals, *value = equals + 1, *stop;
		struct words key;

		while (name > at && is_word(name[-1]))
			name--;
		for (stop = value; stop < end && *stop != ' ' && *stop != ',' && *stop != '\t';)
			stop++;
		key = words_between(name, equals);
		if (words_are(key, "name") && name - begin >= 11 &&
		    !memcmp(name - 11, "upper_zone ", 11))
			key = words_of("upper_name");
		set(r, key, words_between(value, stop));
		at = stop;
	}
}

/* Tracepoints that print words: the value of a field stands behind its words. */
static const struct phrase {
	const char *event, *before, *field;
} phrases[] = {
	{"mm_shrink_slab_start", "nid: ", "nid"},
	{"mm_shrink_slab_start", "objects to shrink ", "nr_objects_to_shrink"},
	{"mm_shrink_slab_start", "gfp_flags ", "gfp_flags"},
	{"mm_shrink_slab_start", "total_scan ", "total_scan"},
	{"mm_shrink_slab_start", "priority ", "priority"},
	{"mm_shrink_slab_end", "nid: ", "nid"},
	{"mm_shrink_slab_end", "total_scan ", "total_scan"},
	{"mm_shrink_slab_end", "return val ", "retval"},
	{"mm_compaction_isolate_migratepages", "range=(", "start_pfn"},
	{"mm_compaction_isolate_migratepages", " ~ ", "end_pfn"},
	{"mm_compaction_isolate_freepages", "range=(", "start_pfn"},
	{"mm_compaction_isolate_freepages", " ~ ", "end_pfn"},
	{"mm_compaction_fast_isolate_freepages", "range=(", "start_pfn"},
	{"mm_compaction_fast_isolate_freepages", " ~ ", "end_pfn"},
};

static void read_phrases(struct reading *r, struct words fields)
{
	const char *end = fields.text + fields.length;

	for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
		const struct phrase *p = &phrases[i];
		const char *at, *stop;

		if (strcmp(p->event, r->event->of->name))
			continue;
		at = memmem(fields.text, fields.length, p->before, strlen(p->before));
		if (!at)
			continue;
		at += strlen(p->before);
		for (stop = at; stop < end && *stop != ' ' && *stop != ')';)
			stop++;
		set(r, words_of(p->field), words_between(at, stop));
	}
}

/* "work struct 00000000f3c8a5d1: function vmstat_update": the name, or its address. */
static void read_work(struct event_values *event, struct words fields)
{
	static const char before[] = "function ";
	const char *at = memmem(fields.text, fields.length, before, strlen(before));
	const char *end = fields.text + fields.length, *stop;
	bool is_update;

	if (!at)
		return;
	at += strlen(before);
	for (stop = at; stop < end && is_word(*stop);)
		stop++;
	is_update = words_are(words_between(at, stop), "vmstat_update");
	set_value(event, FUNCTION, is_update ? SHAPE_VMSTAT_UPDATE : 0);
}

void text_fields_read(struct event_values *event, const struct shapes *shapes, struct words fields,
		      struct gfp_words *gfp)
{
	struct reading r = {.event = event, .shapes = shapes, .gfp = gfp};

	if (event->of->columns >> FUNCTION & 1) {
		read_work(event, fields);
		return;
	}
	read_pairs(&r, fields);
	if (event->of->table != &event_table)
		read_phrases(&r, fields);
	else if (r.no_page) {
		int pfn = shapes_column(shapes, event->of, words_of("pfn"));

		/* A failed allocation: the kernel stores -1, and prints 0. */
		if (event->has >> pfn & 1 && !event->values[pfn])
			event->values[pfn] = UINT64_MAX;
	}
}

int text_pageblock_order(struct words fields)
{
	static const char name[] = "pageblock_order=";
	const char *at = memmem(fields.text, fields.length, name, strlen(name));
	uint64_t order;

	if (!at)
		return -1;
	at += strlen(name);
	return text_decimal(&at, fields.text + fields.length, &order) && order < 32 ? (int)order
										    : -1;
}
