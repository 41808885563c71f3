// SPDX-License-Identifier: Apache-2.0
#include "snapshot_passes.h"
#include "snapshot_rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

enum {
	MAX_ATTEMPTS = 6, /* images: an attempt ends when its lists contradict each other */
	MAX_APART = 2,    /* images whose meetings all failed: a hypervisor keeps the CPUs apart */
	MAX_MEETINGS = 40,
	HELD_ENTRIES = 1024, /* most new entries at one end of a list while CPUs are held */
	GATHER_NS = 60000,
	ROUND_NS = 180000,
	MAX_ROUND_NS = 2000000,
	CPUS_PER_ROUND = 32,
	MAX_REPAIRS = 8, /* of one image */
};

/* --- the meeting --- */

/* How long the first to arrive waits for the last: longer, if more is allowed than usual. */
static uint64_t gather_ns(const struct snapshot *s)
{
	uint64_t ns = s->max_ns * 3 / 10;

	return ns > GATHER_NS ? ns : GATHER_NS;
}

/* From the begin of a round of `prepare` to the next one, or to the moment. */
static uint64_t round_ns(const struct snapshot *s)
{
	uint64_t ns = s->max_ns * 9 / 10;

	if (ns > MAX_ROUND_NS)
		return MAX_ROUND_NS;
	return ns > ROUND_NS ? ns : ROUND_NS;
}

static uint32_t cpu_of(const struct snapshot *s, int nr)
{
	int cpus;

	return (uint32_t)freezer_cpus(s->freezer, &cpus)[nr].cpu;
}

/* Wait until the leader has made so many turns; false if it is late. */
static bool wait_for_turn(struct attempt *a, int turns)
{
	uint64_t until = snapshot_now_ns() + gather_ns(a->s);

	while (a->turns < turns)
		if (snapshot_now_ns() > until)
			return false;
	return true;
}

/*
 * Shortly before the cut, two last passes: so little is new then that it fits into the time. The
 * first one has all rounds but the last; with one round there is only the second.
 */
static bool prepare(void *arg, int nr, int round)
{
	struct attempt *a = arg;
	uint64_t deadline = snapshot_now_ns() + a->s->max_ns * 4 / 5;
	int turns = a->first_turn + (round == 1 && a->rounds > 1 ? 2 : 1);

	if (nr == a->leader && a->turns < turns)
		precopy_turn(a);
	for (uint32_t z = 0; z < a->s->control->nr_zones; z++) {
		if (a->zones[z].owner != nr)
			continue;
		if (!wait_for_turn(a, turns))
			return false;
		precopy_pass_zone(a, z, deadline, HELD_ENTRIES);
	}
	if (round == 1)
		precopy_pass_pcps(a->s, cpu_of(a->s, nr), deadline, HELD_ENTRIES);
	return true;
}

/* Copy the state of the PCPs and zones that one CPU reads. */
static void copy_states(struct attempt *a, int nr, bool after)
{
	for (uint32_t z = 0; z < a->s->control->nr_zones; z++) {
		struct precopy_args args = precopy_of_pcp(z, cpu_of(a->s, nr), 0);

		args.after = after;
		/* The allocation of the cut makes the leader's first copies of PCPs. */
		if (after || nr != a->leader || a->zone == a->s->control->nr_zones)
			precopy_run(a->s, "copy_state", &args);
		args.is_pcp = false;
		if (a->zones[z].owner == nr && z != a->zone)
			precopy_run(a->s, "copy_state", &args);
	}
}

static void arrive(void *arg, int nr)
{
	struct attempt *a = arg;
	uint64_t none = 0;

	atomic_compare_exchange_strong(&a->begun_ns, &none, snapshot_now_ns());
	copy_states(a, nr, false);
}

/* The rest of the allowed time is for what follows: it takes as long for any work. */
static uint64_t work_until(const struct attempt *a)
{
	return a->begun_ns + a->s->max_ns * 5 / 8;
}

/* The cut is now: what its program notes of an allocation. */
static void cut_without_allocation(struct control *c, uint32_t cpu)
{
	c->cut_ns = c->cut_end_ns = snapshot_now_ns();
	c->cut_cpu = cpu;
	c->cut_touches = __atomic_load_n(&c->nr_touches, __ATOMIC_SEQ_CST);
	c->cut_claims = __atomic_load_n(&c->nr_claims, __ATOMIC_SEQ_CST);
	c->cut_end = WALK_WHOLE;
}

static void cut(void *arg)
{
	struct attempt *a = arg;
	struct control *c = a->s->control;
	int cpus;

	c->deadline_ns = work_until(a);
	c->cut_pfn = 0;
	c->cut_end = WALK_NOT;
	if (a->zone == c->nr_zones) {
		cut_without_allocation(c, cpu_of(a->s, a->leader));
	} else {
		__atomic_store_n(&c->armed_tid,
				 (uint32_t)freezer_cpus(a->s->freezer, &cpus)[a->leader].tid,
				 __ATOMIC_SEQ_CST);
		/* Any attribute will do, existing or not. */
		(void)!getxattr("/", "user.pagetape", a->s->trigger_buffer, TRIGGER_SIZE);
		c->armed_tid = 0;
	}
	a->cut = true;
}

static void walk_ends(struct attempt *a, uint32_t cpu, uint64_t deadline_ns)
{
	for (uint32_t z = 0; z < a->s->control->nr_zones; z++) {
		struct precopy_args args = precopy_of_pcp(z, cpu, deadline_ns);

		args.strict = true;
		args.used = HELD_ENTRIES;
		precopy_run(a->s, "copy_ends", &args);
		if (!precopy_ended(&args))
			a->failed = true;
	}
}

static void beside(void *arg, int nr)
{
	struct attempt *a = arg;
	uint64_t deadline = work_until(a);

	walk_ends(a, cpu_of(a->s, nr), deadline);
	for (uint32_t z = 0; z < a->s->control->nr_zones; z++) {
		struct precopy_args args = precopy_of_zone(z, deadline);

		if (a->zones[z].owner != nr || z == a->zone)
			continue;
		precopy_run(a->s, "finish", &args);
		if (!precopy_ended(&args))
			a->failed = true;
	}
}

static void leave(void *arg, int nr)
{
	copy_states(arg, nr, true);
}

static bool has_thread(const struct snapshot *s, uint32_t cpu)
{
	int nr;
	const struct freezer_cpu *cpus = freezer_cpus(s->freezer, &nr);

	for (int i = 0; i < nr; i++)
		if ((uint32_t)cpus[i].cpu == cpu &&
		    (i == s->leader || freezer_holds_all(s->freezer)))
			return true;
	return false;
}

/* CPUs that this process may not hold: as good as it goes. */
static void copy_unheld(struct attempt *a, bool after)
{
	struct control *c = a->s->control;

	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++) {
		if (!a->s->online[cpu] || has_thread(a->s, cpu))
			continue;
		for (uint32_t z = 0; z < c->nr_zones; z++) {
			struct precopy_args args = precopy_of_pcp(z, cpu, 0);

			args.after = after;
			precopy_run(a->s, "copy_state", &args);
		}
		if (!after)
			walk_ends(a, cpu, UINT64_MAX);
	}
}

static bool counters_are_still(const struct attempt *a)
{
	const struct snapshot_images *im = &a->s->images;
	const struct control *c = im->control;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		if (z != a->zone && !zone_counters_still(im, z))
			return false;
		for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
			if (im->online[cpu] && !pcp_counters_still(im, z * c->nr_cpus + cpu))
				return false;
	}
	return true;
}

/*
 * What kept all that was read in the meeting from showing the cut; NR_SNAPSHOT_HINDRANCES:
 * nothing. `held`: all CPUs were, until the end.
 */
static enum snapshot_hindrance hindrance(const struct attempt *a, bool held)
{
	const struct control *c = a->s->control;

	if (a->cut && c->cut_zone != a->zone)
		return SNAPSHOT_UNMARKED;
	if (!held && !a->cut)
		return SNAPSHOT_APART;
	if (!held || a->failed || c->cut_end != WALK_WHOLE)
		return SNAPSHOT_LATE;
	return counters_are_still(a) ? NR_SNAPSHOT_HINDRANCES : SNAPSHOT_MOVED;
}

/* The allocation should take a page of the zone that would take longest without its lock. */
static void assign_zones(struct attempt *a)
{
	int nr, next = 0;
	const struct freezer_cpu *cpus = freezer_cpus(a->s->freezer, &nr);
	const struct zone_place *places = a->s->images.places;

	a->leader = a->s->leader = nr - 1;
	/* The more CPUs, the longer it takes to wake them, and the more is new then. */
	a->rounds = 1 + nr / CPUS_PER_ROUND;
	if (a->rounds > FREEZER_ROUNDS)
		a->rounds = FREEZER_ROUNDS;
	a->zone = a->s->control->nr_zones;
	for (uint32_t z = 0; z < a->s->control->nr_zones; z++) {
		a->zones[z].owner = a->leader;
		if ((int)places[z].node == cpus[a->leader].node &&
		    (a->zone == a->s->control->nr_zones ||
		     places[z].free_blocks > places[a->zone].free_blocks))
			a->zone = z;
		/* Another CPU of the zone's node, or any other. */
		for (int i = 0; i < nr && freezer_holds_all(a->s->freezer); i++) {
			int other = (next + i) % nr;

			if (other == a->leader)
				continue;
			if (a->zones[z].owner == a->leader ||
			    cpus[other].node == (int)places[z].node)
				a->zones[z].owner = other;
			if (cpus[other].node == (int)places[z].node)
				break;
		}
		next = a->zones[z].owner + 1;
	}
	if (a->zone < a->s->control->nr_zones)
		a->zones[a->zone].owner = a->leader;
}

static void note_costs(struct attempt *a, struct snapshot_result *out)
{
	struct snapshot *s = a->s;
	const struct control *c = s->control;
	const struct freezer_hold *holds = freezer_holds(s->freezer);
	uint64_t lock_ns = c->cut_end_ns - c->cut_ns;
	int nr;

	freezer_cpus(s->freezer, &nr);
	for (int i = 0; i < FREEZER_HOLDS * nr; i++) {
		if (!holds[i].ns)
			continue;
		if (holds[i].ns > out->held_ns)
			out->held_ns = holds[i].ns;
		if (out->nr_holds < SNAPSHOT_MAX_HOLDS)
			s->holds[out->nr_holds++] = holds[i];
	}
	if (c->cut_zone >= c->nr_zones)
		return;
	if (lock_ns > s->zones[c->cut_zone].lock_ns)
		s->zones[c->cut_zone].lock_ns = lock_ns;
	if (out->nr_locks < SNAPSHOT_MAX_HOLDS)
		s->locks[out->nr_locks++] = lock_ns;
}

static bool meet(struct attempt *a, struct snapshot_result *out)
{
	struct control *c = a->s->control;
	const struct freezer_meeting meeting = {
		.prepare = prepare,
		.rounds = a->rounds,
		.arrive = arrive,
		.cut = cut,
		.beside = beside,
		.leave = leave,
		.arg = a,
		.round_ns = round_ns(a->s),
		.gather_ns = gather_ns(a->s),
		.limit_ns = a->s->max_ns * 9 / 10,
	};
	enum snapshot_hindrance found;
	bool held;

	a->failed = false;
	a->cut = false;
	a->begun_ns = 0;
	a->first_turn = a->turns;
	c->cut_zone = c->nr_zones;
	copy_unheld(a, false);
	held = freezer_meet(a->s->freezer, a->leader, &meeting);
	copy_unheld(a, true);
	out->meetings++;
	a->met |= held;
	note_costs(a, out);
	found = hindrance(a, held);
	if (found == NR_SNAPSHOT_HINDRANCES)
		return true;
	out->hindered[found]++;
	/* Short of large blocks, the allocation takes none, or one of another zone. */
	if (found == SNAPSHOT_UNMARKED)
		a->zone = c->nr_zones;
	return false;
}

/* --- one attempt --- */

static void copy_blocks(struct snapshot *s, bool after)
{
	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		struct precopy_args args = precopy_of_zone(z, 0);

		args.after = after;
		precopy_run(s, "copy_blocks", &args);
	}
}

/* The end of the image if it cannot be repaired: then `repairs` exceeds MAX_REPAIRS. */
static bool join(struct attempt *a, struct snapshot_result *out, int *repairs)
{
	enum join_result result = precopy_join(&a->s->images, &a->data, &a->s->joined);

	if (result == JOINED)
		return true;
	out->hindered[result == RETYPED ? SNAPSHOT_RETYPED : SNAPSHOT_CONTRADICTED]++;
	if (result == RETYPED)
		return false; /* the lists are right, and the pageblocks are read anew */
	++*repairs;
	if (a->s->joined.wrong_list == NO_LIST || !precopy_repair(a, result))
		*repairs = MAX_REPAIRS + 1;
	return false;
}

static bool attempt(struct attempt *a, struct snapshot_result *out)
{
	struct snapshot *s = a->s;
	struct control *c = s->control;
	uint64_t begin = snapshot_now_ns();
	int repairs = 0;

	precopy_forget(a);
	s->images.nodes = s->maps[NODES].memory;
	a->data = (struct precopy_data){
		.segments = s->maps[SEGMENTS].memory,
		.touches = s->maps[TOUCHES].memory,
		.claims = s->maps[CLAIMS].memory,
		.bits = s->maps[PAGE_BITS].memory,
		.section_bits = s->maps[SECTION_BITS].memory,
		.sections = s->maps[SECTIONS].memory,
	};
	if (!precopy_image(a)) {
		out->hindered[c->nr_nodes_used < c->max_nodes ? SNAPSHOT_LATE : SNAPSHOT_FULL]++;
		return false;
	}
	precopy_keep(a);
	for (int i = 0; i < MAX_MEETINGS; i++) {
		c->claims_from = c->nr_claims;
		copy_blocks(s, false);
		precopy_pass(a);
		if (meet(a, out)) {
			copy_blocks(s, true);
			if (join(a, out, &repairs)) {
				for (uint32_t z = 0; z < c->nr_zones; z++)
					s->zones[z].copy_ns = c->cut_end_ns - begin;
				return true;
			}
			if (repairs > MAX_REPAIRS)
				return false;
		}
		if (precopy_full(c))
			return false;
		precopy_keep(a);
	}
	return false;
}

int precopy_take(struct snapshot *s, uint16_t nr, struct snapshot_result *out, struct error *err)
{
	struct control *c = s->control;
	struct attempt a = {.s = s, .zones = calloc(c->nr_zones, sizeof(*a.zones))};
	bool done = false;
	int ret = 0;

	if (!a.zones)
		return fail(err, ENOMEM, "no memory for %u zones", c->nr_zones);
	assign_zones(&a);
	snapshot_run(s, "learn_buddy_type");
	while (!done && !ret && out->attempts < MAX_ATTEMPTS && !out->hindered[SNAPSHOT_FULL]) {
		if (out->meetings && !a.met && out->attempts == MAX_APART)
			break;
		out->attempts++;
		if (!attempt(&a, out))
			continue;
		out->taken = true;
		out->cut_ns = c->cut_ns;
		out->cut_pfn = c->cut_pfn;
		out->cut_cpu = (int)c->cut_cpu;
		out->cut_order = (int)c->armed_order;
		ret = snapshot_rows(&s->images, nr, s->zones, out, err);
		out->hindered[SNAPSHOT_CONTRADICTED] += !ret && !out->exact;
		done = !ret && (out->exact || out->attempts == MAX_ATTEMPTS);
		if (!ret && !done)
			snapshot_free_tables(out);
	}
	if (!done && !ret) {
		out->taken = false;
		ret = snapshot_rows(&s->images, nr, s->zones, out, err);
	}
	out->cut_tid = freezer_cpus(s->freezer, &out->held)[a.leader].tid;
	out->held = freezer_holds_all(s->freezer) ? out->held - 1 : 0;
	free(a.zones);
	return ret;
}

/* --- a meeting without work --- */

static bool prepare_nothing(void *arg, int nr, int round)
{
	return true;
}

static void do_nothing(void *arg, int nr)
{
}

static void pass_time(void *arg)
{
	uint64_t end = snapshot_now_ns() + *(const uint64_t *)arg;

	while (snapshot_now_ns() < end)
		;
}

const struct freezer_hold *snapshot_hold_only(struct snapshot *s, uint64_t ns, uint32_t *nr)
{
	const struct freezer_meeting meeting = {
		.prepare = prepare_nothing,
		.rounds = 1,
		.arrive = do_nothing,
		.cut = pass_time,
		.beside = do_nothing,
		.leave = do_nothing,
		.arg = &ns,
		.round_ns = round_ns(s),
		.gather_ns = gather_ns(s),
		.limit_ns = s->max_ns * 9 / 10,
	};
	int cpus;

	freezer_cpus(s->freezer, &cpus);
	freezer_meet(s->freezer, cpus - 1, &meeting);
	*nr = FREEZER_HOLDS * (uint32_t)cpus;
	return freezer_holds(s->freezer);
}
