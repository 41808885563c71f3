// SPDX-License-Identifier: Apache-2.0
#include "snapshot_internal.h"
#include "snapshot_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

enum {
	MAX_ATTEMPTS = 8,
	PIECE_ATTEMPTS = 6,
	LOOSE_ATTEMPTS = 2,     /* number of first attempts that hold no CPU */
	MEASURABLE_NODES = 256, /* entries from which a time per entry is measured */
	GATHER_LIMIT_MS = 25,   /* in addition to the time that CPUs are held */
};

/* Set flags[n] for every n in a list such as "0-3,8". */
static void parse_cpu_list(const char *list, uint8_t *flags, uint32_t nr)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long n = first; n <= last && n < nr; n++)
			flags[n] = 1;
		list = end + (*end == ',');
	}
}

/*
 * A CPU whose allocation probably takes a page of the best zone: a CPU of that zone's node. The
 * best zone has the most free blocks among the zones that can be walked under their lock in time.
 */
static int choose_cpu(const struct snapshot *s)
{
	uint64_t most = 0;
	int node = -1, nr, chosen = 0;
	const struct freezer_cpu *cpus = freezer_cpus(s->freezer, &nr);

	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		if (s->images.places[z].free_blocks < most ||
		    s->images.places[z].free_blocks * s->node_ns > s->max_ns)
			continue;
		most = s->images.places[z].free_blocks;
		node = (int)s->images.places[z].node;
	}
	for (int i = 0; i < nr; i++)
		if (cpus[i].node == node)
			chosen = i;
	return chosen;
}

struct attempt {
	struct snapshot *s;
	int tid;
	uint64_t begin_ns, held_ns;
};

static void cut(void *arg)
{
	struct attempt *a = arg;
	struct control *c = a->s->control;

	a->begin_ns = snapshot_now_ns();
	__atomic_store_n(&c->armed_tid, (uint32_t)a->tid, __ATOMIC_SEQ_CST);
	/* Any attribute will do, existing or not. */
	(void)!getxattr("/", "user.pagetape", a->s->trigger_buffer, TRIGGER_SIZE);
	if (c->armed_tid) {
		c->armed_tid = 0;
		snapshot_run(a->s, "unmarked_cut");
	}
	c->deadline_ns = c->cut_end_ns + a->s->max_ns;
}

/* The leader walks the rest: the first CPU that reaches a PCP walks it. */
static void walk_all(void *arg)
{
	struct attempt *a = arg;

	snapshot_run(a->s, "walk_zones");
	snapshot_run(a->s, "walk_own");
	snapshot_run(a->s, "walk_pcps");
	a->held_ns = snapshot_now_ns() - a->begin_ns;
}

static void walk_own(void *arg)
{
	struct attempt *a = arg;

	snapshot_run(a->s, "walk_own");
}

static void clear_images(struct snapshot *s)
{
	struct control *c = s->control;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		s->images.zones[z].walked = 0;
		s->images.zones[z].locked = 0;
		memset(s->images.zones[z].list, 0, sizeof(s->images.zones[z].list));
	}
	for (uint32_t i = 0; i < c->nr_zones * c->nr_cpus; i++) {
		s->images.pcps[i].walked = 0;
		memset(s->images.pcps[i].list, 0, sizeof(s->images.pcps[i].list));
	}
	c->nr_nodes_used = 0;
	c->cut_zone = c->nr_zones;
	c->armed_order = TRIGGER_ORDER;
	c->max_ns = s->max_ns;
	c->node_ns = s->node_ns;
	c->cut_pfn = 0;
}

/* Time per entry; UINT64_MAX if there were too few entries to measure. */
static uint64_t time_per_entry(const struct list_image *lists, int nr, uint64_t ns)
{
	uint64_t entries = 0;

	for (int i = 0; i < nr; i++)
		entries += lists[i].nr;
	return entries < MEASURABLE_NODES ? UINT64_MAX : ns / entries;
}

/*
 * The next estimate: the fastest walk of the last attempt plus a quarter. An average would include
 * interruptions and reject walks that fit; the walks check the clock in any case.
 */
static void learn_node_time(struct snapshot *s)
{
	uint64_t best = UINT64_MAX, ns;

	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		const struct zone_image *zi = &s->images.zones[z];

		ns = time_per_entry(zi->list, SNAPSHOT_MAX_LISTS, zi->end_ns - zi->begin_ns);
		if (zi->walked && ns < best)
			best = ns;
	}
	for (uint32_t i = 0; i < s->control->nr_zones * s->control->nr_cpus; i++) {
		const struct pcp_image *pi = &s->images.pcps[i];

		ns = time_per_entry(pi->list, SNAPSHOT_MAX_PCP_LISTS, pi->end_ns - pi->begin_ns);
		if (pi->walked && ns < best)
			best = ns;
	}
	if (best != UINT64_MAX)
		s->node_ns = best + best / 4;
}

/* Whether a walk of everything fits into the time, without interruptions. */
static bool fits(const struct snapshot *s)
{
	uint64_t entries = s->control->pcp_pages;

	for (uint32_t z = 0; z < s->control->nr_zones; z++)
		entries += s->images.places[z].free_blocks;
	return entries * s->node_ns <= s->max_ns;
}

/* Whether another attempt, after `attempts`, would do no better. */
static bool attempt_settled(const struct snapshot *s, int attempts)
{
	const struct control *c = s->control;
	bool left_out = false;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		if (zone_cut_short(&s->images, z))
			left_out = true;
		else if (!(s->images.zones[z].locked ? zone_whole(&s->images, z)
						     : zone_still(&s->images, z)))
			return false;
	}
	for (uint32_t i = 0; i < c->nr_zones * c->nr_cpus; i++) {
		if (pcp_cut_short(&s->images, i))
			left_out = true;
		else if (!pcp_still(&s->images, i))
			return false;
	}
	/*
	 * A walk did not fit into the time. The next attempt may succeed with a better estimate, or
	 * if a hypervisor had preempted the CPU.
	 */
	return !left_out || (attempts > 1 && !fits(s));
}

/* For how long a freeze may last. */
static int limit_ms(const struct snapshot *s)
{
	return (int)(s->max_ns / 1000000) + GATHER_LIMIT_MS;
}

static void walk_held_piece(void *arg)
{
	struct snapshot *s = arg;

	s->control->deadline_ns = snapshot_now_ns() + s->max_ns;
	snapshot_run(s, "piece");
}

static void do_nothing(void *arg)
{
	(void)arg;
}

/*
 * Walk one list until it is unchanged. On a busy machine that takes an attempt or two with
 * the CPUs held, if the list is short enough for that.
 */
static void take_piece(struct snapshot *s, uint32_t z, uint32_t nr)
{
	const struct freezer_work held = {walk_held_piece, do_nothing, do_nothing, s};
	const struct list_image *list = &s->images.zones[z].list[nr];
	struct control *c = s->control;
	uint64_t first = c->nr_nodes_used;

	c->piece_zone = z;
	c->piece_list = nr;
	for (int attempt = 0; attempt < PIECE_ATTEMPTS; attempt++) {
		c->nr_nodes_used = first;
		if (attempt < LOOSE_ATTEMPTS) {
			c->deadline_ns = UINT64_MAX;
			snapshot_run(s, "piece");
		} else if (list->nr * s->node_ns <= s->max_ns) {
			freezer_run(s->freezer, 0, &held, limit_ms(s));
		}
		if (list_still(&s->images, z, nr) || list->end == WALK_FULL)
			break;
	}
	c->nr_nodes_used = first + list->nr; /* give the rest of the reserve back */
}

/* Walk one zone list by list. Returns how the zone was taken. */
static enum snapshot_how take_pieces(struct snapshot *s, uint32_t z, uint32_t *moved)
{
	struct zone_image *zi = &s->images.zones[z];

	memset(zi->list, 0, sizeof(zi->list));
	zi->begin_ns = snapshot_now_ns();
	for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++) {
		if (!list_exists(&s->images, list))
			continue;
		take_piece(s, z, list);
		if (zi->list[list].end == WALK_FULL)
			return SNAPSHOT_REFUSED;
		if (!list_still(&s->images, z, list)) {
			zi->list[list].nr = 0;
			++*moved;
		}
	}
	zi->end_ns = snapshot_now_ns();
	return SNAPSHOT_PIECES;
}

/* Count the cost of an attempt, including a failed one. */
static void note_cost(struct snapshot *s, uint64_t held_ns, struct snapshot_result *out)
{
	const struct control *c = s->control;
	uint64_t lock_ns = c->cut_end_ns - c->cut_ns;

	if (held_ns > out->held_ns)
		out->held_ns = held_ns;
	if (c->cut_zone < c->nr_zones && lock_ns > s->zones[c->cut_zone].lock_ns)
		s->zones[c->cut_zone].lock_ns = lock_ns;
}

/* Record how each zone was taken; take the zones left by the attempts. */
static void settle(struct snapshot *s)
{
	const struct control *c = s->control;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		struct snapshot_zone *zone = &s->zones[z];
		const struct zone_image *zi = &s->images.zones[z];

		if (zi->walked && zi->locked && zone_whole(&s->images, z))
			zone->how = SNAPSHOT_LOCKED;
		else if (zi->walked && zone_still(&s->images, z))
			zone->how = SNAPSHOT_STILL;
		else
			zone->how = take_pieces(s, z, &zone->lists_moved);
		for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++) {
			uint32_t i = z * c->nr_cpus + cpu;

			if (pcp_cut_short(&s->images, i))
				zone->pcps_refused++;
			else if (!pcp_still(&s->images, i))
				zone->pcps_moved++;
		}
	}
}

/* Fresh counters; memory must be where it was when the maps were sized. */
static int refresh(struct snapshot *s, struct error *err)
{
	uint32_t zones = s->control->nr_zones;
	char text[4096];

	snapshot_run(s, "find_zones");
	if (s->control->nr_zones != zones)
		return fail(err, ESTALE,
			    "memory was added or removed since the snapshot was loaded");
	for (uint32_t z = 0; z < zones; z++)
		if (snapshot_sections(s->control, &s->images.places[z]) !=
		    s->images.places[z].nr_sections)
			return fail(err, ESTALE,
				    "memory was added or removed since the snapshot was loaded");
	memset(s->online, 0, s->control->nr_cpus);
	if (!snapshot_read_text("/sys/devices/system/cpu/online", text, sizeof(text)))
		parse_cpu_list(text, s->online, s->control->nr_cpus);
	return 0;
}

/* The walks that hold the lock or the CPUs. */
static int locked_take(struct snapshot *s, uint16_t nr, struct snapshot_result *out,
		       struct error *err)
{
	struct control *c = s->control;

	s->images.nodes = s->maps[NODES].memory;
	do {
		int cpu = choose_cpu(s), nr_cpus;
		const struct freezer_cpu *cpus = freezer_cpus(s->freezer, &nr_cpus);
		struct attempt attempt = {.s = s, .tid = cpus[cpu].tid};
		const struct freezer_work work = {cut, walk_all, walk_own, &attempt};

		clear_images(s);
		out->held = freezer_run(s->freezer, cpu, &work, 2 * limit_ms(s));
		out->cut_tid = attempt.tid;
		out->attempts++;
		note_cost(s, attempt.held_ns, out);
		learn_node_time(s);
	} while (!attempt_settled(s, out->attempts) && out->attempts < MAX_ATTEMPTS);

	out->cut_ns = c->cut_ns;
	out->cut_pfn = c->cut_pfn;
	out->marked = c->cut_pfn != 0;
	out->cut_cpu = (int)c->cut_cpu;
	out->cut_order = (int)c->armed_order;
	settle(s);
	return snapshot_rows(&s->images, nr, s->zones, out, err);
}

int snapshot_take(struct snapshot *s, uint16_t nr, struct snapshot_result *out, struct error *err)
{
	struct control *c = s->control;
	struct bpf_link *links[MAX_EVENTS] = {NULL};
	int ret = refresh(s, err);

	if (ret)
		return ret;
	/* Attach only now: an attached program slows each of its events a little. */
	ret = snapshot_attach(s, links, err);
	if (ret)
		return ret;
	*out = (struct snapshot_result){
		.zones = s->zones, .nr_zones = c->nr_zones, .holds = s->holds, .locks = s->locks};
	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
		out->cpus += s->online[cpu];
	memset(s->zones, 0, c->nr_zones * sizeof(*s->zones));
	ret = s->way == SNAPSHOT_SHORT ? precopy_take(s, nr, out, err)
				       : locked_take(s, nr, out, err);
	for (int i = 0; i < MAX_EVENTS; i++)
		bpf_link__destroy(links[i]);
	return ret;
}
