// SPDX-License-Identifier: Apache-2.0
#include "zone_lock_queue.h"

#include "model/memory.h"
#include "model/policy.h"

#include <string.h>

enum {
	OVERLAY_MAX = 1 << 16, /* requests that wait for the last copy of the CPUs */
	NR_BUCKETS = 252,      /* buckets of waits: exact to 3 ns, then four per power of two */
};
#define OVERLAY_PERIOD_NS 10000000ull

struct use {
	uint64_t holds, blocks, hold_ns, waits, wait_ns, waiting_ns;
};

struct lock {
	uint64_t free_at;
	uint64_t waited_until; /* end of the wait of the last CPU so far */
	struct use uses[NR_ZONE_LOCK_KIND];
	uint64_t buckets[NR_BUCKETS];
};

struct arrival {
	uint64_t ts;
	uint64_t blocks;
	uint32_t hold_ns;
	uint16_t cpu;
	uint8_t zone, kind;
};

struct zone_lock_queues {
	struct lock_costs costs;
	int nr_zones, nr_cpus;
	struct lock *locks;    /* [zone] */
	uint64_t *cpu_free_at; /* [copy][cpu] */
	struct arrival *ring;  /* [OVERLAY_MAX], only of several copies */
	uint64_t arrived;
	uint64_t *served; /* [copy] number of requests served */
};

int zone_lock_queues_new(struct zone_lock_queues **out, const struct model *m,
			 const struct lock_costs *costs, struct error *err)
{
	struct zone_lock_queues *l = arrays_new(m->arrays, 1, sizeof(*l));
	size_t copies = (size_t)costs->copies;

	*out = l;
	if (!l)
		return arrays_error(m->arrays, err);
	*l = (struct zone_lock_queues){
		.costs = *costs, .nr_zones = m->nr_zones, .nr_cpus = m->nr_cpus};
	l->locks = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*l->locks));
	l->cpu_free_at =
		arrays_new(m->arrays, copies * (size_t)m->nr_cpus, sizeof(*l->cpu_free_at));
	l->served = arrays_new(m->arrays, copies, sizeof(*l->served));
	if (copies > 1)
		l->ring = arrays_new(m->arrays, OVERLAY_MAX, sizeof(*l->ring));
	return arrays_error(m->arrays, err);
}

static uint32_t hold_ns(const struct lock_costs *costs, int kind, uint64_t blocks)
{
	bool takes = kind == ZONE_LOCK_KIND_REFILL || kind == ZONE_LOCK_KIND_ALLOC;
	uint64_t fixed = (uint64_t)(takes ? costs->take_ps : costs->give_ps);
	uint64_t each = (uint64_t)(takes ? costs->take_block_ps : costs->give_block_ps);
	uint64_t ns = (fixed + each * blocks + 500) / 1000;

	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static int bucket_of(uint64_t ns)
{
	int log = 63 - __builtin_clzll(ns | 4);

	return ns < 4 ? (int)ns : 4 * (log - 1) + (int)(ns >> (log - 2) & 3);
}

static uint64_t bucket_end(int bucket)
{
	return bucket < 4 ? (uint64_t)bucket
			  : ((5ull + (unsigned)bucket % 4) << (bucket / 4 - 1)) - 1;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void serve(struct zone_lock_queues *l, const struct arrival *a, int copy)
{
	uint64_t due = a->ts + OVERLAY_PERIOD_NS * (unsigned)copy / (unsigned)l->costs.copies;
	uint64_t *cpu_free_at = &l->cpu_free_at[copy * l->nr_cpus + a->cpu];
	struct lock *lock = &l->locks[a->zone];
	struct use *use = &lock->uses[a->kind];
	uint64_t came = later(due, *cpu_free_at), begin = later(came, lock->free_at);

	lock->free_at = *cpu_free_at = begin + a->hold_ns;
	use->holds++;
	use->blocks += a->blocks;
	use->hold_ns += a->hold_ns;
	use->waits += begin > came;
	use->wait_ns += begin - came;
	lock->buckets[bucket_of(begin - came)]++;
	if (begin > came && begin > lock->waited_until) {
		use->waiting_ns += begin - later(came, lock->waited_until);
		lock->waited_until = begin;
	}
}

/* Serve the requests of all copies up to `ts`, in order of time. */
static void serve_until(struct zone_lock_queues *l, uint64_t ts)
{
	unsigned copies = (unsigned)l->costs.copies;

	for (;;) {
		uint64_t earliest = UINT64_MAX;
		unsigned first = 0;

		for (unsigned copy = 0; copy < copies; copy++) {
			uint64_t due = l->ring[l->served[copy] % OVERLAY_MAX].ts +
				       OVERLAY_PERIOD_NS * copy / copies;

			if (l->served[copy] == l->arrived || due >= earliest)
				continue;
			earliest = due;
			first = copy;
		}
		if (earliest > ts || earliest == UINT64_MAX)
			return;
		serve(l, &l->ring[l->served[first]++ % OVERLAY_MAX], (int)first);
	}
}

void zone_lock_queues_request(struct zone_lock_queues *l, const struct zone *zone,
			      const struct moment *now, int kind, uint64_t blocks)
{
	const struct arrival a = {
		.ts = now->ts,
		.blocks = blocks,
		.hold_ns = hold_ns(&l->costs, kind, blocks),
		.cpu = now->cpu,
		.zone = (uint8_t)zone->number,
		.kind = (uint8_t)kind,
	};
	int last = l->costs.copies - 1;

	if (!last) {
		serve(l, &a, 0);
		return;
	}
	serve_until(l, a.ts);
	/*
	 * The period has more requests than the ring holds: serve the next one of the last copy
	 * early.
	 */
	if (l->arrived - l->served[last] == OVERLAY_MAX)
		serve(l, &l->ring[l->served[last]++ % OVERLAY_MAX], last);
	l->ring[l->arrived++ % OVERLAY_MAX] = a;
	serve_until(l, a.ts);
}

static void held(void *self, const struct zone *zone, const struct moment *now, int kind,
		 uint64_t blocks)
{
	zone_lock_queues_request(self, zone, now, kind, blocks);
}

struct zone_lock_ops zone_lock_queues_ops(struct zone_lock_queues *l)
{
	return (struct zone_lock_ops){.self = l, .held = held};
}

void zone_lock_queues_finish(struct zone_lock_queues *l)
{
	if (l->costs.copies > 1)
		serve_until(l, UINT64_MAX - 1);
}

static void write_use(const struct zone_lock_queues *l, const struct zone *zone, int kind,
		      uint64_t ts, struct output *output)
{
	const struct use *use = &l->locks[zone->number].uses[kind];
	struct zone_lock_columns *columns;
	size_t i;

	if (!use->holds)
		return;
	i = output_row(output, &columns);
	columns->ts[i] = ts;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->part[i] = zone->part;
	columns->kind[i] = (uint8_t)kind;
	columns->copies[i] = (uint16_t)l->costs.copies;
	columns->holds[i] = use->holds;
	columns->blocks[i] = use->blocks;
	columns->hold_ns[i] = use->hold_ns;
	columns->waits[i] = use->waits;
	columns->wait_ns[i] = use->wait_ns;
	columns->waiting_ns[i] = use->waiting_ns;
}

static void write_bucket(const struct zone_lock_queues *l, const struct zone *zone, int bucket,
			 uint64_t ts, struct output *output)
{
	uint64_t nr = l->locks[zone->number].buckets[bucket];
	struct lock_wait_columns *columns;
	size_t i;

	if (!nr)
		return;
	i = output_row(output, &columns);
	columns->ts[i] = ts;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->part[i] = zone->part;
	columns->upto_ns[i] = bucket_end(bucket);
	columns->nr[i] = nr;
}

void zone_lock_queues_write(struct zone_lock_queues *l, const struct model *m, uint64_t ts,
			    struct output *use, struct output *waits)
{
	for (int z = 0; z < l->nr_zones; z++) {
		struct lock *lock = &l->locks[z];

		for (int kind = 0; kind < NR_ZONE_LOCK_KIND; kind++)
			write_use(l, &m->zones[z], kind, ts, use);
		for (int bucket = 0; bucket < NR_BUCKETS; bucket++)
			write_bucket(l, &m->zones[z], bucket, ts, waits);
		memset(lock->uses, 0, sizeof(lock->uses));
		memset(lock->buckets, 0, sizeof(lock->buckets));
	}
}
