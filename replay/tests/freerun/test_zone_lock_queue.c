// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of a zone lock: which request waits for which. Two zones, four CPUs; a hold takes
 * 1000 ns and 10 ns for each block taken, 500 ns and 20 ns for each block given back.
 */
#include "check.h"
#include "toy.h"

#include "freerun/zone_lock_queue.h"

enum { NR_CPUS = 4 };

struct queue {
	struct toy toy;
	struct zone_lock_queues *locks;
	struct output *use, *waits;
	struct batch *batch;
};

/* Sums over the rows of one zone. */
struct sums {
	uint64_t holds, blocks, hold_ns, waits, wait_ns, waiting_ns;
};

static void queue_new(struct queue *q, int copies)
{
	static const uint16_t cpu_nodes[NR_CPUS];
	static const uint8_t distances[] = {10};
	const struct machine machine = {
		.pageblock_order = 4,
		.max_order = 5,
		.nr_cpus = NR_CPUS,
		.nr_nodes = 1,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances,
	};
	const struct zone_spec zones[] = {
		{.type = ZONE_DMA32, .spanned = 32, .present = 32, .managed = 32},
		{.type = ZONE_NORMAL, .start_pfn = 32, .spanned = 32, .present = 32, .managed = 32},
	};
	const struct lock_costs costs = {1000000, 10000, 500000, 20000, copies};

	toy_new_machine(&q->toy, "6.18", &machine, zones, 2);
	check(!zone_lock_queues_new(&q->locks, q->toy.m, &costs, NULL));
	check(!output_new(&q->use, &zone_lock_table, 64, NULL));
	check(!output_new(&q->waits, &lock_wait_table, 64, NULL));
}

static void queue_free(struct queue *q)
{
	output_free(q->use);
	output_free(q->waits);
	toy_free(&q->toy);
}

static void request(struct queue *q, int zone, uint64_t ts, int cpu, int kind, uint64_t blocks)
{
	const struct moment now = {.ts = ts, .cpu = (uint16_t)cpu};

	zone_lock_queues_request(q->locks, &q->toy.m->zones[zone], &now, kind, blocks);
}

static void write(struct queue *q)
{
	zone_lock_queues_finish(q->locks);
	zone_lock_queues_write(q->locks, q->toy.m, 0, q->use, q->waits);
}

static struct sums sums_of(struct queue *q, int zone)
{
	struct sums sums = {0};
	struct batch *batch;

	write(q);
	while ((batch = output_pop(q->use, true))) {
		const struct zone_lock_columns *c = (struct zone_lock_columns *)batch->slots;

		for (size_t i = 0; i < batch->nr; i++) {
			if (c->zone[i] != zone)
				continue;
			sums.holds += c->holds[i];
			sums.blocks += c->blocks[i];
			sums.hold_ns += c->hold_ns[i];
			sums.waits += c->waits[i];
			sums.wait_ns += c->wait_ns[i];
			sums.waiting_ns += c->waiting_ns[i];
		}
	}
	return sums;
}

TEST(blocks_taken_and_blocks_given_back_have_different_costs)
{
	struct sums sums;
	struct queue q;

	queue_new(&q, 1);
	request(&q, 0, 0, 0, ZONE_LOCK_KIND_REFILL, 63);
	request(&q, 1, 0, 1, ZONE_LOCK_KIND_DRAIN, 63);
	sums = sums_of(&q, ZONE_DMA32);
	check(sums.holds == 1 && sums.blocks == 63 && sums.hold_ns == 1630);
	queue_free(&q);
	queue_new(&q, 1);
	request(&q, 1, 0, 1, ZONE_LOCK_KIND_DECAY, 63);
	sums = sums_of(&q, ZONE_NORMAL);
	check(sums.holds == 1 && sums.blocks == 63 && sums.hold_ns == 1760);
	queue_free(&q);
}

TEST(a_request_that_comes_while_the_lock_is_held_waits)
{
	struct sums sums;

	SCOPED(queue, queue_free, q, queue_new, 1);
	request(&q, 0, 100, 0, ZONE_LOCK_KIND_ALLOC, 0); /* to 1100 */
	request(&q, 0, 600, 1, ZONE_LOCK_KIND_ALLOC, 0); /* waits 500, to 2100 */
	request(&q, 0, 700, 2, ZONE_LOCK_KIND_ALLOC, 0); /* waits 1400, to 3100 */
	request(&q, 0, 3100, 3, ZONE_LOCK_KIND_ALLOC, 0);
	sums = sums_of(&q, ZONE_DMA32);
	check(sums.holds == 4);
	check(sums.waits == 2);
	check(sums.wait_ns == 1900);
	check(sums.waiting_ns == 1500); /* from 600 to 2100 */
}

TEST(a_cpu_does_not_wait_for_itself)
{
	struct sums sums;

	SCOPED(queue, queue_free, q, queue_new, 1);
	for (int piece = 0; piece < 5; piece++)
		request(&q, 0, 100, 0, ZONE_LOCK_KIND_DECAY, 0);
	sums = sums_of(&q, ZONE_DMA32);
	check(sums.holds == 5);
	check(sums.waits == 0);
	check(sums.hold_ns == 2500);
}

TEST(the_locks_of_two_zones_do_not_meet)
{
	SCOPED(queue, queue_free, q, queue_new, 1);
	request(&q, 0, 100, 0, ZONE_LOCK_KIND_ALLOC, 0);
	request(&q, 1, 100, 1, ZONE_LOCK_KIND_ALLOC, 0);
	check(sums_of(&q, ZONE_NORMAL).waits == 0);
}

TEST(a_copy_of_the_cpus_comes_its_share_of_the_period_later)
{
	struct sums sums;

	SCOPED(queue, queue_free, q, queue_new, 2);
	request(&q, 0, 0, 0, ZONE_LOCK_KIND_ALLOC, 0);
	request(&q, 0, 5000400, 0, ZONE_LOCK_KIND_ALLOC,
		0); /* the copy's first request holds until 5001000 */
	sums = sums_of(&q, ZONE_DMA32);
	check(sums.holds == 4);
	check(sums.waits == 1);
	check(sums.wait_ns == 600);
}

TEST(more_requests_than_the_ring_holds_are_all_served)
{
	enum { MANY = (1 << 16) + 100 };

	SCOPED(queue, queue_free, q, queue_new, 3);
	for (int i = 0; i < MANY; i++)
		request(&q, 0, 1000 + (uint64_t)i, i % NR_CPUS, ZONE_LOCK_KIND_FREE, 1);
	check(sums_of(&q, ZONE_DMA32).holds == 3 * MANY);
}

TEST(the_histogram_has_every_request_in_the_bucket_of_its_wait)
{
	const struct lock_wait_columns *c;
	struct batch *batch;

	SCOPED(queue, queue_free, q, queue_new, 1);
	request(&q, 0, 0, 0, ZONE_LOCK_KIND_ALLOC, 0);
	request(&q, 0, 997, 1, ZONE_LOCK_KIND_ALLOC, 0);  /* 3 */
	request(&q, 0, 1000, 2, ZONE_LOCK_KIND_ALLOC, 0); /* 1000: 896 to 1023 */
	write(&q);
	batch = output_pop(q.waits, true);
	check(batch && batch->nr == 3);
	c = (struct lock_wait_columns *)batch->slots;
	check(c->upto_ns[0] == 0 && c->nr[0] == 1);
	check(c->upto_ns[1] == 3 && c->nr[1] == 1);
	check(c->upto_ns[2] == 1023 && c->nr[2] == 1);
}
