// SPDX-License-Identifier: Apache-2.0
#include "canonical.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The label of a name, case ignored, or NOT_CANONICAL. */
static uint8_t label_by_name(const struct labels *labels, const char *name, size_t length)
{
	for (int i = 0; i < labels->nr; i++) {
		const char *label = labels->text + labels->offsets[i];

		if ((size_t)(labels->offsets[i + 1] - labels->offsets[i]) == length &&
		    !strncasecmp(label, name, length))
			return (uint8_t)i;
	}
	return NOT_CANONICAL;
}

uint8_t canonical_zone_by_name(const char *name, size_t length)
{
	return label_by_name(&zone_labels, name, length);
}

typedef void symbol_fn(struct canonical *c, const struct tep_print_flag_sym *list);

/* Each list of an event's print format: {value, "name"} pairs of flags and symbols. */
static void for_each_list(struct canonical *c, const struct tep_print_arg *arg, symbol_fn *fn)
{
	for (; arg; arg = arg->next) {
		switch (arg->type) {
		case TEP_PRINT_FLAGS:
			fn(c, arg->flags.flags);
			break;
		case TEP_PRINT_SYMBOL:
			fn(c, arg->symbol.symbols);
			break;
		case TEP_PRINT_OP:
			for_each_list(c, arg->op.left, fn);
			for_each_list(c, arg->op.right, fn);
			break;
		case TEP_PRINT_TYPE:
			for_each_list(c, arg->typecast.item, fn);
			break;
		default:
			break;
		}
	}
}

/* libtraceevent evaluates the value, but leaves the suffix of a plain "0x800u". */
static bool symbol_value(const struct tep_print_flag_sym *symbol, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(symbol->value, &end, 0);
	end += strspn(end, "uUlL");
	return !errno && end != symbol->value && !*end;
}

static bool has_name(const struct tep_print_flag_sym *list, const char *name)
{
	while (list && strcmp(list->str, name))
		list = list->next;
	return list;
}

/* {2, "Normal"}: the zone numbers depend on the kernel's configuration. */
static void learn_zones(struct canonical *c, const struct tep_print_flag_sym *list)
{
	uint64_t value;

	if (!has_name(list, "Normal") || !has_name(list, "Movable"))
		return;
	memset(c->zone, NOT_CANONICAL, sizeof(c->zone));
	for (; list; list = list->next)
		if (symbol_value(list, &value) && value < sizeof(c->zone))
			c->zone[value] = canonical_zone_by_name(list->str, strlen(list->str));
}

/*
 * Names of single bits. "__GFP_IO" is the usual form; 4.5 and older print "GFP_IO", and some bits
 * have only that form later ("GFP_DMA" in 6.1). A plain GFP_ATOMIC is the combination, formerly one
 * bit.
 */
static void learn_gfp(struct canonical *c, const struct tep_print_flag_sym *list)
{
	for (; list; list = list->next) {
		bool strict = !strncmp(list->str, "__GFP_", 6);
		uint64_t value;
		char *name;

		if ((!strict && strncmp(list->str, "GFP_", 4)) || !strcmp(list->str, "GFP_ATOMIC"))
			continue;
		if (!symbol_value(list, &value) || value > UINT32_MAX ||
		    __builtin_popcountll(value) != 1)
			continue;
		name = c->gfp_name[__builtin_ctzll(value)];
		if (strict || strncmp(name, "__GFP_", 6))
			snprintf(name, sizeof(c->gfp_name[0]), "%s", list->str);
	}
}

/* Former kernel names of canonical bits. */
static const char *const gfp_alias[][2] = {
	{"WAIT", "DIRECT_RECLAIM"},          /* before 4.4 */
	{"REPEAT", "RETRY_MAYFAIL"},         /* before 4.13 */
	{"SKIP_KASAN_POISON", "SKIP_KASAN"}, /* before 6.4 */
};

uint32_t canonical_gfp_by_name(const char *name)
{
	name += strncmp(name, "__", 2) ? 0 : 2;
	if (strncmp(name, "GFP_", 4))
		return 0;
	name += strlen("GFP_");
	for (size_t i = 0; i < sizeof(gfp_alias) / sizeof(gfp_alias[0]); i++)
		if (!strcmp(name, gfp_alias[i][0]))
			name = gfp_alias[i][1];
	for (int bit = 0; bit < NR_GFP_BITS; bit++)
		if (!strcmp(name, gfp_bit_names[bit]))
			return 1u << bit;
	return 0;
}

static void set_gfp(struct canonical *c)
{
	for (int bit = 0; bit < 32; bit++) {
		uint32_t canonical;

		if (!c->gfp_name[bit][0])
			continue;
		canonical = canonical_gfp_by_name(c->gfp_name[bit]);
		if (!canonical) /* a combination that is one bit, or a future name */
			continue;
		c->gfp_known = true;
		for (unsigned byte = 0; byte < 256; byte++)
			if (byte & 1u << bit % 8)
				c->gfp[bit / 8][byte] |= canonical;
	}
}

static void set_migratetypes(struct canonical *c, int nr, const char *const *names)
{
	/* 4.4 and later, without CMA. */
	static const char *const assumed[] = {"Unmovable", "Movable", "Reclaimable", "HighAtomic",
					      "Isolate"};

	if (!nr) {
		nr = sizeof(assumed) / sizeof(assumed[0]);
		names = assumed;
	}
	memset(c->migratetype, NOT_CANONICAL, sizeof(c->migratetype));
	for (int number = 0; number < nr && number < NOT_CANONICAL; number++)
		c->migratetype[number] =
			label_by_name(&migratetype_labels, names[number], strlen(names[number]));
}

/*
 * enum trace_flag_type of the kernel. 0x02 has two meanings ("irqs not supported",
 * later lazy need_resched) and 0x80 none in old kernels, which leave it 0.
 */
static void set_context(struct canonical *c)
{
	static const struct {
		uint8_t flag, context;
	} bits[] = {
		{0x01, CONTEXT_IRQS_OFF}, {0x04, CONTEXT_NEED_RESCHED}, {0x08, CONTEXT_HARDIRQ},
		{0x10, CONTEXT_SOFTIRQ},  {0x40, CONTEXT_NMI},          {0x80, CONTEXT_BH_OFF},
	};

	for (int flags = 0; flags < 256; flags++)
		for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
			if (flags & bits[i].flag)
				c->context[flags] |= bits[i].context;
}

static void set_zones(struct canonical *c, bool is_64_bit)
{
	static const uint8_t word64[] = {ZONE_DMA, ZONE_DMA32, ZONE_NORMAL, ZONE_MOVABLE,
					 ZONE_DEVICE};
	static const uint8_t word32[] = {ZONE_DMA, ZONE_NORMAL, ZONE_HIGHMEM, ZONE_MOVABLE};

	/* The zones of x86, unless an event names others. */
	memset(c->zone, NOT_CANONICAL, sizeof(c->zone));
	if (is_64_bit)
		memcpy(c->zone, word64, sizeof(word64));
	else
		memcpy(c->zone, word32, sizeof(word32));
}

/* "9" or "10u" */
static bool number(const char *text, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 0);
	end += strspn(end, "uUlL");
	return !errno && end != text && !*end;
}

static bool constant(const struct tep_print_arg *arg, int64_t *value);

/* "a - b", "a < b", "a < b ? c : d": possible expansions of a macro such as pageblock_order. */
static bool constant_op(const struct tep_print_arg_op *op, int64_t *value)
{
	int64_t left, right;

	if (!constant(op->left, &left))
		return false;
	if (!strcmp(op->op, "?")) {
		if (op->right->type != TEP_PRINT_OP)
			return false;
		return constant(left ? op->right->op.left : op->right->op.right, value);
	}
	if (!constant(op->right, &right))
		return false;
	if (!strcmp(op->op, "+"))
		return !__builtin_add_overflow(left, right, value);
	if (!strcmp(op->op, "-"))
		return !__builtin_sub_overflow(left, right, value);
	if (!strcmp(op->op, "<"))
		*value = left < right;
	else if (!strcmp(op->op, ">"))
		*value = left > right;
	else
		return false;
	return true;
}

/* The value of a print format's expression, if it is the same in every record. */
static bool constant(const struct tep_print_arg *arg, int64_t *value)
{
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		return number(arg->atom.atom, value);
	case TEP_PRINT_TYPE:
		return constant(arg->typecast.item, value);
	case TEP_PRINT_OP:
		return constant_op(&arg->op, value);
	default:
		return false;
	}
}

/* The argument printed behind `name`, as in "name=%d"; NULL if there is none. */
static const struct tep_print_arg *printed(const struct tep_event *event, const char *name)
{
	const struct tep_print_arg *arg = event->print_fmt.args;
	const char *format = event->print_fmt.format;
	const char *end = format ? strstr(format, name) : NULL;

	if (!end)
		return NULL;
	for (const char *p = format; arg && p < end; p++) {
		if (*p != '%')
			continue;
		if (p[1] == '%')
			p++;
		else
			arg = arg->next;
	}
	return arg;
}

static void learn_pageblock_order(struct canonical *c, struct tep_handle *tep)
{
	const struct tep_event *event =
		tep_find_event_by_name(tep, "kmem", "mm_page_alloc_extfrag");
	const struct tep_print_arg *arg = event ? printed(event, "pageblock_order=") : NULL;
	int64_t order;

	c->pageblock_order = -1;
	if (arg && constant(arg, &order) && order >= 0 && order < 32)
		c->pageblock_order = (int)order;
}

void canonical_init(struct canonical *c, struct tep_handle *tep, int nr_migratetypes,
		    const char *const *migratetypes)
{
	memset(c, 0, sizeof(*c));
	set_context(c);
	set_migratetypes(c, nr_migratetypes, migratetypes);
	set_zones(c, tep_get_header_page_size(tep) != 4); /* the size of the kernel's long */
	for (int i = 0; i < tep_get_events_count(tep); i++) {
		const struct tep_event *event = tep_get_event(tep, i);

		for_each_list(c, event->print_fmt.args, learn_zones);
		for_each_list(c, event->print_fmt.args, learn_gfp);
	}
	set_gfp(c);
	learn_pageblock_order(c, tep);
}
