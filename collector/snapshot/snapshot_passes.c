// SPDX-License-Identifier: Apache-2.0
#include "snapshot_passes.h"

#include <string.h>

enum {
	MAX_PASSES = 6,       /* before a meeting, as long as many pages are touched */
	FEW_TOUCHES = 128,    /* not worth another pass */
	PIECE_NS = 200000,    /* one call of a program: the kernel may not preempt it */
	PASS_ENTRIES = 65536, /* most new entries at one end of a list */
	MAX_MOVED = 64,       /* entries from other lists in a list that is read again */
};

void precopy_run(struct snapshot *s, const char *name, struct precopy_args *args)
{
	args->end = WALK_WHOLE;
	snapshot_run_with(s, name, args, sizeof(*args));
}

bool precopy_ended(const struct precopy_args *args)
{
	return args->end == WALK_WHOLE;
}

struct precopy_args precopy_of_zone(uint32_t z, uint64_t deadline_ns)
{
	return (struct precopy_args){.zone = z, .deadline_ns = deadline_ns, .used = PASS_ENTRIES};
}

struct precopy_args precopy_of_pcp(uint32_t z, uint32_t cpu, uint64_t deadline_ns)
{
	return (struct precopy_args){
		.zone = z,
		.cpu = cpu,
		.is_pcp = true,
		.deadline_ns = deadline_ns,
		.used = PASS_ENTRIES,
	};
}

/* --- the image --- */

static bool copy_list(struct snapshot *s, struct precopy_args args, uint32_t list)
{
	args.list = list;
	args.first = args.used = (uint32_t)s->control->nr_nodes_used;
	do {
		args.deadline_ns = snapshot_now_ns() + PIECE_NS;
		precopy_run(s, "copy_list", &args);
	} while (args.end == WALK_LATE);
	s->control->nr_nodes_used = args.used;
	return precopy_ended(&args);
}

void precopy_forget(struct attempt *a)
{
	struct snapshot *s = a->s;
	struct control *c = s->control;
	struct zone_place *places = s->maps[PLACES].memory;

	memset(s->maps[PAGE_BITS].memory, 0, s->maps[PAGE_BITS].size);
	c->epoch = 0;
	c->nr_touches = c->touches_until = 0;
	for (uint32_t z = 0; z < c->nr_zones; z++)
		places[z].settled = 0;
	c->nr_claims = c->claims_from = 0;
	c->nr_segments = 0;
	c->nr_nodes_used = 0;
	c->armed_order = TRIGGER_ORDER;
	c->max_ns = s->max_ns;
	a->first_segment = 0;
}

/* --- passes --- */

static struct page_bits *bits_of(const struct attempt *a, uint64_t node, uint64_t *bit)
{
	const struct control *c = a->s->control;
	const uint64_t *section_bits = a->s->maps[SECTION_BITS].memory;
	struct page_bits *bits = a->s->maps[PAGE_BITS].memory;
	uint64_t pfn = (node - c->layout.page_lru - c->vmemmap) / c->layout.page_size;

	*bit = 1ull << pfn % 64;
	return &bits[section_bits[pfn >> c->section_shift] +
		     (pfn & ((1ull << c->section_shift) - 1)) / 64];
}

/* The known entry was not touched a moment later: it had not just come from another list. */
static bool ends_well(const struct attempt *a, const struct segment *segment)
{
	uint32_t of_zones = a->s->control->nr_zones * SNAPSHOT_MAX_LISTS;
	const struct page_bits *bits;
	uint64_t bit;

	if (segment->end != WALK_KNOWN)
		return segment->end == WALK_WHOLE;
	bits = bits_of(a, segment->known, &bit);
	return (segment->list < of_zones ? bits->in_image : bits->in_pcp) & bit &&
	       !((bits->touched[0] | bits->touched[1]) & bit);
}

/* The entries of a walk that did not end are not in a row with the image: read them again. */
static void take_back(struct attempt *a, const struct segment *segment)
{
	struct control *c = a->s->control;
	struct touch *touches = a->s->maps[TOUCHES].memory;
	const uint64_t *nodes = a->s->maps[NODES].memory;

	for (uint32_t i = 0; i < segment->nr; i++) {
		uint64_t node = nodes[segment->first + i], bit;
		struct page_bits *bits = bits_of(a, node, &bit);
		uint64_t nr = __atomic_fetch_add(&c->nr_touches, 1, __ATOMIC_SEQ_CST);

		__atomic_fetch_or(&bits->touched[c->epoch & 1], bit, __ATOMIC_SEQ_CST);
		if (nr < c->max_touches)
			touches[nr] = (struct touch){
				.pfn = (node - c->layout.page_lru - c->vmemmap) /
				       c->layout.page_size,
			};
	}
}

/* After a pass or a failed meeting: keep only what added entries to the image. */
void precopy_keep(struct attempt *a)
{
	struct control *c = a->s->control;
	struct segment *segments = a->s->maps[SEGMENTS].memory;
	uint64_t end = a->first_segment;

	for (uint64_t i = a->first_segment; i < c->nr_segments && i < c->max_segments; i++) {
		segments[i].at_cut = 0; /* it was none */
		if (!ends_well(a, &segments[i]))
			take_back(a, &segments[i]);
		else if (segments[i].nr)
			segments[end++] = segments[i];
	}
	if (c->nr_segments <= c->max_segments)
		c->nr_segments = end;
	a->first_segment = c->nr_segments;
}

bool precopy_image(struct attempt *a)
{
	struct snapshot *s = a->s;
	struct control *c = s->control;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++)
			if (list_exists(&s->images, list) &&
			    !copy_list(s, precopy_of_zone(z, 0), list))
				return false;
		/* An image of a PCP may be partial: all that counts is that its entries are in a
		 * row. */
		for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
			for (uint32_t list = 0; s->online[cpu] && list < SNAPSHOT_MAX_PCP_LISTS;
			     list++)
				copy_list(s, precopy_of_pcp(z, cpu, 0), list);
	}
	return true;
}

/* Touches that are not settled in every zone yet. */
static uint64_t nr_unsettled(const struct snapshot *s)
{
	const struct zone_place *places = s->maps[PLACES].memory;
	uint64_t settled = s->control->nr_touches;

	for (uint32_t z = 0; z < s->control->nr_zones; z++)
		if (places[z].settled < settled)
			settled = places[z].settled;
	return s->control->nr_touches - settled;
}

void precopy_turn(struct attempt *a)
{
	struct control *c = a->s->control;

	if (c->nr_touches - nr_unsettled(a->s) >= c->touches_until) {
		__atomic_store_n(&c->epoch, c->epoch ^ 1, __ATOMIC_SEQ_CST);
		c->touches_until = __atomic_load_n(&c->nr_touches, __ATOMIC_SEQ_CST);
	}
	a->turns++;
}

bool precopy_pass_zone(struct attempt *a, uint32_t z, uint64_t deadline_ns, uint32_t entries)
{
	struct precopy_args args = precopy_of_zone(z, deadline_ns);
	struct zone_pass *pass = &a->zones[z];
	int turn = a->turns;

	if (pass->turn != turn)
		*pass = (struct zone_pass){
			.owner = pass->owner,
			.turn = turn,
			.until = (uint32_t)a->s->control->touches_until,
		};
	if (!pass->looked) {
		args.list = pass->list;
		args.used = entries;
		precopy_run(a->s, "copy_ends", &args);
		pass->list = args.list;
		/* Only what was touched before the turn is settled by a look after it. */
		pass->looked = precopy_ended(&args) && a->turns == turn;
	}
	if (pass->looked) {
		args.first = pass->until;
		precopy_run(a->s, "settle", &args);
	}
	return pass->looked;
}

bool precopy_pass_pcps(struct snapshot *s, uint32_t cpu, uint64_t deadline_ns, uint32_t entries)
{
	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		struct precopy_args args = precopy_of_pcp(z, cpu, deadline_ns);

		args.used = entries;
		precopy_run(s, "copy_ends", &args);
		if (!precopy_ended(&args))
			return false;
	}
	return true;
}

void precopy_pass(struct attempt *a)
{
	struct control *c = a->s->control;

	for (int i = 0; i < MAX_PASSES; i++) {
		for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
			if (a->s->online[cpu])
				precopy_pass_pcps(a->s, cpu, UINT64_MAX, PASS_ENTRIES);
		precopy_turn(a);
		for (uint32_t z = 0; z < c->nr_zones; z++)
			precopy_pass_zone(a, z, UINT64_MAX, PASS_ENTRIES);
		precopy_keep(a);
		if (nr_unsettled(a->s) < FEW_TOUCHES)
			break;
	}
}

/* --- repairs --- */

static void recheck(struct snapshot *s)
{
	struct precopy_args args = {0};

	do {
		args.deadline_ns = snapshot_now_ns() + PIECE_NS;
		precopy_run(s, "recheck", &args);
	} while (!precopy_ended(&args));
}

static void forget(struct attempt *a, uint64_t node)
{
	uint64_t bit;
	struct page_bits *bits = bits_of(a, node, &bit);

	__atomic_fetch_and(&bits->in_image, ~bit, __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&bits->in_pcp, ~bit, __ATOMIC_SEQ_CST);
}

/* Forget the entries of a list, and what the walks saw of it. */
static void forget_list(struct attempt *a, uint32_t list)
{
	struct control *c = a->s->control;
	struct segment *segments = a->s->maps[SEGMENTS].memory;
	const uint64_t *nodes = a->s->maps[NODES].memory;

	for (uint64_t s = 0; s < c->nr_segments && s < c->max_segments; s++) {
		if (segments[s].list != list)
			continue;
		for (uint32_t i = 0; i < segments[s].nr; i++)
			forget(a, nodes[segments[s].first + i]);
		segments[s] = (struct segment){.list = NO_LIST};
	}
}

/* Read a list again. False: it changes too fast, or there is no room. */
static bool read_again(struct attempt *a, uint32_t list)
{
	const struct control *c = a->s->control;
	const struct segment *segments = a->s->maps[SEGMENTS].memory;
	uint32_t of_zones = c->nr_zones * SNAPSHOT_MAX_LISTS;
	uint32_t pcp = list < of_zones ? 0 : (list - of_zones) / SNAPSHOT_MAX_PCP_LISTS;

	for (int i = 0; i < MAX_MOVED; i++) {
		uint64_t before = c->nr_segments;

		forget_list(a, list);
		if (list < of_zones
			    ? copy_list(a->s, precopy_of_zone(list / SNAPSHOT_MAX_LISTS, 0),
					list % SNAPSHOT_MAX_LISTS)
			    : copy_list(a->s, precopy_of_pcp(pcp / c->nr_cpus, pcp % c->nr_cpus, 0),
					(list - of_zones) % SNAPSHOT_MAX_PCP_LISTS))
			return true;
		if (c->nr_segments == before || c->nr_segments > c->max_segments ||
		    segments[before].end != WALK_KNOWN)
			return false;
		/* The image has it in another list, which it left without an event. */
		forget(a, segments[before].known);
	}
	return false;
}

bool precopy_repair(struct attempt *a, enum join_result result)
{
	uint32_t wrong = a->s->joined.wrong_list, first = wrong;

	if (result == MISCOUNTED) {
		recheck(a->s);
		first = wrong / SNAPSHOT_MAX_TYPES * SNAPSHOT_MAX_TYPES;
	}
	for (uint32_t list = first; list <= wrong; list++)
		if (!read_again(a, list))
			return false;
	return true;
}
