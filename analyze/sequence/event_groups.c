/* SPDX-License-Identifier: Apache-2.0 */
/* event_groups.c - a hash table of groups, found by two words. */
#include "event_groups.h"

#include "batch.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_GROUPS = 1 << 12, CPUS = 1 << 16 };

/* Bits of a group: which values it has, and those of one bit. */
enum {
	USED = 1 << 0,
	PLAYED = 1 << 1,
	INTERRUPT = 1 << 2,
	HAS_ORDER = 1 << 3,
	HAS_TYPE = 1 << 4,
	HAS_GFP = 1 << 5,
	HAS_REFILL = 1 << 6,
	REFILL = 1 << 7,
	HAS_FALLBACK_ORDER = 1 << 8,
	HAS_FALLBACK_TYPE = 1 << 9,
	HAS_OWNER = 1 << 10,
	OWNER = 1 << 11,
	OF_EVENT = PLAYED | INTERRUPT, /* the others are those of a group of the batch */
};

/* What the events of a group have in common. */
struct key {
	uint32_t values; /* gfp flags; of a fallback, its order and migratetype */
	int32_t pid;
	uint16_t cpu;
	uint16_t bits;
	uint8_t kind;
	uint8_t page_order;
	uint8_t migratetype;
};

struct group {
	uint64_t words[2]; /* of the key */
	struct key key;
	bool recorder;
	uint64_t events;
	uint64_t without_page;
	uint64_t runs;
	uint64_t first_ts;
	uint64_t last_ts;
};

/* The latest events of a group of the batch, which the table has as several ones: by thread. */
struct latest {
	struct group *group; /* of the last event; NULL: none yet */
	uint32_t events;     /* that are not in the group so far, */
	uint32_t runs;       /* and runs */
	struct key key;
	/* What such an event does to moved[]; 0 of those that no run counts. */
	uint8_t sets, clears;
};

struct event_groups {
	struct sequence_kinds kinds;
	struct event_groups_choice choice;
	struct group *groups;
	size_t capacity;
	size_t nr;
	size_t most;   /* groups */
	size_t ending; /* next one of event_groups_end() */
	/* Of each CPU: bit 0, the last request took a page from the zone; bit 1, the last free gave
	 * one. */
	uint8_t moved[CPUS];
	struct latest latest[GROUPS_MOST]; /* by group of the batch */
};

int event_groups_new(struct event_groups **out, struct sequence_kinds kinds,
		     struct event_groups_choice choice, size_t most)
{
	struct event_groups *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->kinds = kinds;
	g->choice = choice;
	g->most = most / sizeof(*g->groups);
	g->capacity = FIRST_GROUPS;
	g->groups = calloc(g->capacity, sizeof(*g->groups));
	if (!g->groups) {
		free(g);
		return -ENOMEM;
	}
	*out = g;
	return 0;
}

void event_groups_free(struct event_groups *g)
{
	if (!g)
		return;
	free(g->groups);
	free(g);
}

static struct group *group_of(struct group *groups, size_t capacity, const uint64_t words[2])
{
	uint64_t x = words[0] * 0x9e3779b97f4a7c15u ^ words[1] * 0xbf58476d1ce4e5b9u;
	size_t at = (x ^ x >> 32) & (capacity - 1);

	while (groups[at].key.bits &&
	       (groups[at].words[0] != words[0] || groups[at].words[1] != words[1]))
		at = (at + 1) & (capacity - 1);
	return &groups[at];
}

/* Count the latest events where they belong. */
static void settle(struct latest *latest)
{
	if (latest->group) {
		latest->group->events += latest->events;
		latest->group->runs += latest->runs;
	}
	latest->group = NULL;
	latest->events = latest->runs = 0;
}

static int grow(struct event_groups *g)
{
	size_t capacity = 2 * g->capacity;
	struct group *groups;

	if (g->capacity + capacity > g->most)
		return -ENOMEM;
	for (size_t i = 0; i < GROUPS_MOST; i++)
		settle(&g->latest[i]);
	groups = calloc(capacity, sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	for (size_t i = 0; i < g->capacity; i++) {
		if (g->groups[i].key.bits)
			*group_of(groups, capacity, g->groups[i].words) = g->groups[i];
	}
	free(g->groups);
	g->groups = groups;
	g->capacity = capacity;
	return 0;
}

static bool is_recorder(const struct event_groups_choice *c, int32_t pid)
{
	size_t from = 0, to = c->nr_recorder;

	while (from < to) {
		size_t at = from + (to - from) / 2;

		if (c->recorder[at] == pid)
			return true;
		if (c->recorder[at] < pid)
			from = at + 1;
		else
			to = at;
	}
	return false;
}

/* The values that the events of a group of the batch have in common. */
static struct key key_of(const struct event_groups *g, const struct sequence_events *e, size_t i)
{
	struct key key = {.cpu = e->cpu[i], .kind = e->kind[i], .bits = USED};

	if (e->page_order && is_valid(e->page_order_valid, i)) {
		key.bits |= HAS_ORDER;
		key.page_order = e->page_order[i];
	}
	if (e->migratetype && is_valid(e->migratetype_valid, i)) {
		key.bits |= HAS_TYPE;
		key.migratetype = e->migratetype[i];
	}
	if (key.kind == g->choice.extfrag) {
		if (e->fallback_order && is_valid(e->fallback_order_valid, i)) {
			key.bits |= HAS_FALLBACK_ORDER;
			key.values |= e->fallback_order[i];
		}
		if (e->fallback_migratetype && is_valid(e->fallback_migratetype_valid, i)) {
			key.bits |= HAS_FALLBACK_TYPE;
			key.values |= (uint32_t)e->fallback_migratetype[i] << 8;
		}
		if (e->change_ownership && is_valid(e->change_ownership_valid, i))
			key.bits |= e->change_ownership[i] ? HAS_OWNER | OWNER : HAS_OWNER;
		return key;
	}
	if (e->gfp_flags && is_valid(e->gfp_flags_valid, i)) {
		key.bits |= HAS_GFP;
		key.values = e->gfp_flags[i];
	}
	if (e->percpu_refill && is_valid(e->percpu_refill_valid, i))
		key.bits |= e->percpu_refill[i] ? HAS_REFILL | REFILL : HAS_REFILL;
	return key;
}

/* The group of such events; NULL without memory. */
static struct group *find(struct event_groups *g, const struct key *key)
{
	uint64_t words[2] = {
		(uint64_t)key->values << 32 | (uint32_t)key->pid,
		(uint64_t)key->cpu << 48 | (uint64_t)key->bits << 32 | (uint64_t)key->kind << 16 |
			(uint64_t)key->page_order << 8 | key->migratetype,
	};
	struct group *group = group_of(g->groups, g->capacity, words);

	if (group->key.bits)
		return group;
	if (4 * (g->nr + 1) > 3 * g->capacity) {
		if (grow(g))
			return NULL;
		group = group_of(g->groups, g->capacity, words);
	}
	g->nr++;
	*group = (struct group){
		.words = {words[0], words[1]},
		.key = *key,
		.recorder = is_recorder(&g->choice, key->pid),
	};
	return group;
}

/* Go on with events of that thread and these bits; -ENOMEM. */
static int go_on(struct event_groups *g, struct latest *latest, int32_t pid, int bits)
{
	const struct sequence_kinds *k = &g->kinds;
	uint8_t kind = latest->key.kind;
	bool moves = kind == k->alloc_zone_locked || kind == k->pcpu_drain;
	uint8_t side = kind == k->free || kind == k->pcpu_drain ? 2 : 1;

	settle(latest);
	latest->key.pid = pid;
	latest->key.bits = (uint16_t)((latest->key.bits & ~OF_EVENT) | bits);
	latest->group = find(g, &latest->key);
	if (!latest->group)
		return -ENOMEM;
	if (latest->group->recorder || !(bits & PLAYED) ||
	    (!moves && kind != k->alloc && kind != k->free))
		side = 0;
	latest->sets = moves ? side : 0;
	latest->clears = moves ? 0 : side;
	return 0;
}

int event_groups_read(struct event_groups *g, const struct sequence_events *e)
{
	for (size_t i = 0; i < e->nr_groups; i++)
		g->latest[i] = (struct latest){.key = key_of(g, e, i)};
	for (size_t i = 0; i < e->nr; i++) {
		uint64_t ts = e->ts[i];
		struct latest *latest = &g->latest[e->group[i]];
		int32_t pid = e->pid ? e->pid[i] : 0;
		int bits = ts >= g->choice.since && ts <= g->choice.until ? PLAYED : 0;
		uint8_t *moved = &g->moved[latest->key.cpu];

		if (!is_in_span(&g->kinds, ts))
			continue;
		if (e->flags && e->flags[i] & g->choice.interrupt)
			bits |= INTERRUPT;
		if ((!latest->group || latest->key.pid != pid ||
		     (latest->key.bits & OF_EVENT) != bits) &&
		    go_on(g, latest, pid, bits))
			return -ENOMEM;
		latest->events++;
		/* Whether the event begins a run of the report metrics. */
		latest->runs += (latest->sets & ~*moved) != 0;
		*moved = (uint8_t)((*moved | latest->sets) & ~latest->clears);
		if (!e->pfn || is_valid(e->pfn_valid, i))
			continue;
		if (!latest->group->without_page++)
			latest->group->first_ts = ts;
		latest->group->last_ts = ts;
	}
	for (size_t i = 0; i < e->nr_groups; i++)
		settle(&g->latest[i]);
	return 0;
}

static void put_bit(uint8_t *bitmap, size_t at, bool is_set)
{
	if (is_set)
		set_valid(bitmap, at);
}

static void put_row(struct event_group_rows *rows, size_t at, const struct group *group)
{
	const struct key *key = &group->key;

	put_bit(rows->played, at, key->bits & PLAYED);
	put_bit(rows->recorder, at, group->recorder);
	put_bit(rows->in_interrupt, at, key->bits & INTERRUPT);
	rows->kind[at] = key->kind;
	rows->cpu[at] = key->cpu;
	rows->pid[at] = key->pid;
	rows->page_order[at] = key->page_order;
	put_bit(rows->page_order_valid, at, key->bits & HAS_ORDER);
	rows->migratetype[at] = key->migratetype;
	put_bit(rows->migratetype_valid, at, key->bits & HAS_TYPE);
	rows->gfp_flags[at] = key->bits & HAS_GFP ? key->values : 0;
	put_bit(rows->gfp_flags_valid, at, key->bits & HAS_GFP);
	put_bit(rows->percpu_refill, at, key->bits & REFILL);
	put_bit(rows->percpu_refill_valid, at, key->bits & HAS_REFILL);
	rows->fallback_order[at] = key->bits & HAS_FALLBACK_ORDER ? key->values & 0xff : 0;
	put_bit(rows->fallback_order_valid, at, key->bits & HAS_FALLBACK_ORDER);
	rows->fallback_migratetype[at] =
		key->bits & HAS_FALLBACK_TYPE ? (uint8_t)(key->values >> 8) : 0;
	put_bit(rows->fallback_migratetype_valid, at, key->bits & HAS_FALLBACK_TYPE);
	put_bit(rows->change_ownership, at, key->bits & OWNER);
	put_bit(rows->change_ownership_valid, at, key->bits & HAS_OWNER);
	rows->events[at] = group->events;
	rows->without_page[at] = group->without_page;
	rows->runs[at] = group->runs;
	rows->first_ts[at] = group->first_ts;
	rows->last_ts[at] = group->last_ts;
}

size_t event_groups_end(struct event_groups *g, size_t nr, struct event_group_rows *rows)
{
	size_t found = 0;

	for (; g->ending < g->capacity && found < nr; g->ending++) {
		if (g->groups[g->ending].key.bits)
			put_row(rows, found++, &g->groups[g->ending]);
	}
	return found;
}
