// SPDX-License-Identifier: Apache-2.0
/*
 * The free pages that watermarks are compared with, by the figures of two machines: a guest of
 * Linux 6.1 with 4 CPUs (zone DMA32 of its node 0), and Linux 6.18 with 2 CPUs.
 */
#include "check.h"
#include "model/vmstat_diff.h"
#include "toy.h"
#include "model/watermark.h"

enum { ASLEEP, AWAKE };

static const uint16_t cpu_nodes[4];
static const uint8_t distances[] = {10};

static struct machine machine_of(int nr_cpus)
{
	struct machine machine = toy_machine(9, 10);

	machine.nr_cpus = nr_cpus;
	machine.cpu_nodes = cpu_nodes;
	machine.node_distances = distances;
	return machine;
}

static struct zone_spec zone_of(uint64_t managed, int64_t min, int64_t low, int64_t high)
{
	return (struct zone_spec){.type = ZONE_DMA32,
				  .spanned = 47104,
				  .present = 47104,
				  .managed = managed,
				  .wmark = {min, low, high}};
}

/* The guest's zone, with `free` single MOVABLE pages that cannot merge. */
static void guest(struct toy *t, const char *kernel, uint32_t threshold, int free)
{
	struct zone_spec zone = zone_of(45910, 307, 383, 459);
	struct machine machine = machine_of(4);

	zone.stat_threshold = threshold;
	toy_new_machine(t, kernel, &machine, &zone, 1);
	for (int i = 0; i < free; i++)
		toy_add_free(t, 2u * (uint32_t)i, 0, 'M');
	for (int cpu = 0; cpu < 4; cpu++) {
		struct pcp *pcp = zone_pcp(t->m, t->zone, cpu);

		pcp->batch = 15;
		pcp->high = pcp->high_min = pcp->high_max = 100;
	}
}

TEST(the_threshold_follows_size_and_cpus_and_under_pressure_the_watermarks)
{
	static const struct {
		uint64_t managed;
		int cpus, min, low, normal, pressure;
		uint32_t page_bytes;
		const char *kernel;
	} cases[] = {
		{45910, 4, 307, 383, 12, 19, 4096, "6.1.192"},
		{3840, 4, 25, 31, 6, 1, 4096, "6.1.192"},
		{5394267, 2, 14770, 20164, 36, 125, 4096, "6.1.192"},
		{3840, 1, 25, 31, 2, 2, 4096, "6.1.192"},
		/* The same memory in larger pages has the same threshold. */
		{45910 / 4, 4, 307, 383, 12, 19, 16384, "6.1.192"},
		/* As stamps show; the last one by the first watermarks, which rose later. */
		{772497, 2, 2115, 2887, 24, 24, 4096, "6.18"},
		{5394267, 2, 14770, 20164, 36, 36, 4096, "6.18"},
		{5394267 / 16, 2, 14770, 20164, 36, 36, 65536, "6.18"},
		{130064, 8, 6344, 7931, 24, 125, 4096, "6.18"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct zone zone = {.managed = cases[i].managed,
				    .wmark = {cases[i].min, cases[i].low, 0}};
		struct model m = {.zones = &zone,
				  .nr_zones = 1,
				  .nr_cpus = cases[i].cpus,
				  .node_parts = 1,
				  .page_bytes = cases[i].page_bytes};
		struct error err;

		must(kernel_find(&m.kernel, cases[i].kernel, &err), &err);
		vmstat_diff_init(&m, &zone, (uint32_t)cases[i].normal);
		check(zone.stat_threshold == cases[i].normal);
		vmstat_diff_kswapd(&m, 0, true);
		check(zone.stat_threshold == cases[i].pressure);
		vmstat_diff_kswapd(&m, 0, false);
		check(zone.stat_threshold == cases[i].normal);
	}
}

TEST(a_snapshot_may_have_been_taken_while_kswapd_was_awake)
{
	TOY(t, guest, "6.1.192", 19, 0);
	check(t.zone->stat_threshold == 19);
	vmstat_diff_kswapd(t.m, 0, false);
	check(t.zone->stat_threshold == 12);
}

TEST(without_a_recorded_threshold_the_count_is_exact)
{
	TOY(t, guest, "6.1.192", 0, 40);
	toy_alloc(&t, 0, 'M');
	vmstat_diff_kswapd(t.m, 0, true);
	for (int i = 0; i < 15; i++)
		toy_alloc(&t, 0, 'M');
	check(t.zone->vmstat_diff == 0 && zone_counted_free(t.zone) == 10);
}

TEST(a_difference_within_the_threshold_waits_and_a_larger_one_is_folded_whole)
{
	TOY(t, guest, "6.1.192", 12, 40);
	toy_free_one(&t, 1001, 0, 'M');
	for (uint32_t i = 0; i < 11; i++)
		toy_free_one(&t, 1003 + 2 * i, 0, 'M');
	check(t.zone->nr_free_pages == 52 && zone_counted_free(t.zone) == 40);
	toy_free_one(&t, 1101, 0, 'M');
	check(t.zone->nr_free_pages == 53 && zone_counted_free(t.zone) == 53);
}

/* As in the recording: 15 pages are within 19, and 30 are not. */
TEST(a_refill_is_counted_as_one_and_kswapd_hides_every_other)
{
	TOY(t, guest, "6.1.192", 12, 60);
	toy_alloc(&t, 0, 'M');
	check(t.zone->nr_free_pages == 45 && zone_counted_free(t.zone) == 45);
	vmstat_diff_kswapd(t.m, 0, true);
	for (int i = 0; i < 15; i++)
		toy_alloc(&t, 0, 'M');
	check(t.zone->nr_free_pages == 30 && zone_counted_free(t.zone) == 45);
	for (int i = 0; i < 15; i++)
		toy_alloc(&t, 0, 'M');
	check(t.zone->nr_free_pages == 15 && zone_counted_free(t.zone) == 15);
}

TEST(since_6_10_a_refill_is_counted_page_by_page)
{
	TOY(t, guest, "6.12.117", 12, 60);
	zone_pcp(t.m, t.zone, 0)->batch = 15;
	t.pcp->alloc_factor = 0;
	toy_alloc(&t, 0, 'M');
	check(t.zone->nr_free_pages == 45 && zone_counted_free(t.zone) == 47);
}

TEST(since_6_10_a_block_that_is_moved_is_counted_out_and_in)
{
	SCOPED(toy, toy_free, t, guest, "6.12.117", 12, 0);
	toy_add_free(&t, 512, 3, 'M');
	toy_free_one(&t, 530, 0, 'M');
	check(zone_counted_free(t.zone) == 8 && t.pcp->vmstat_diff == 1);
	move_free_pages(t.m, t.zone, 512, 1024, MIGRATETYPE_UNMOVABLE);
	/* 1 - 8 + 8 of the eight pages, then the single page leaves and comes */
	check(zone_counted_free(t.zone) == 8 && t.pcp->vmstat_diff == 1);
	toy_add_free(&t, 1024, 4, 'M');
	move_free_pages(t.m, t.zone, 1024, 1536, MIGRATETYPE_UNMOVABLE);
	check(zone_counted_free(t.zone) == 25 && t.pcp->vmstat_diff == 0);
}

TEST(a_recorded_difference_is_taken_from_the_other_cpus)
{
	TOY(t, guest, "6.1.192", 12, 60);
	struct pcp *other = zone_pcp(t.m, t.zone, 1);

	vmstat_diff_take(t.m, t.zone, t.pcp, 9);
	check(t.pcp->vmstat_diff == 9 && other->vmstat_diff == -9 && !t.zone->vmstat_diff);
	vmstat_diff_shift(t.m, t.zone, 10);
	vmstat_diff_take(t.m, t.zone, t.pcp, -20);
	check(t.pcp->vmstat_diff == -12 && other->vmstat_diff == 2 && t.zone->vmstat_diff == -10);
	vmstat_diff_take(t.m, t.zone, other, -12);
	check(other->vmstat_diff == -12 && t.pcp->vmstat_diff == 2);
}

TEST(each_cpu_has_its_difference_until_its_vmstat_worker_runs)
{
	TOY(t, guest, "6.1.192", 12, 40);
	for (uint32_t cpu = 0; cpu < 4; cpu++) {
		t.m->now.cpu = (uint16_t)cpu;
		for (uint32_t i = 0; i < 10; i++)
			toy_free_one(&t, 1001 + 100 * cpu + 2 * i, 0, 'M');
	}
	check(t.zone->nr_free_pages == 80 && zone_counted_free(t.zone) == 40);
	pcp_tick(t.m, 2);
	check(zone_counted_free(t.zone) == 50);
}

TEST(a_watermark_is_compared_with_the_count)
{
	const struct request rq = {.migratetype = MIGRATETYPE_MOVABLE, .class_zone = ZONE_MOVABLE};

	TOY(t, guest, "6.1.192", 12, 395);
	zone_pcp(t.m, t.zone, 1)->vmstat_diff = -12;
	t.zone->vmstat_diff = -12;
	toy_alloc(&t, 0, 'M');
	check(t.zone->nr_free_pages == 380 && watermark_ok(t.m, t.zone, &rq, 383));
	pcp_tick(t.m, 1);
	check(t.zone->nr_free_pages == 380 && !watermark_ok(t.m, t.zone, &rq, 383));
}

TEST(a_shift_of_the_counter_stays_within_the_cpus_thresholds)
{
	TOY(t, guest, "6.1.192", 12, 395);
	zone_pcp(t.m, t.zone, 0)->vmstat_diff = 10;
	zone_pcp(t.m, t.zone, 1)->vmstat_diff = -5;
	t.zone->vmstat_diff = 5;
	vmstat_diff_shift(t.m, t.zone, 25);
	check(zone_counted_free(t.zone) == 395 - 5 + 25);
	check(zone_pcp(t.m, t.zone, 0)->vmstat_diff == -12);
	check(zone_pcp(t.m, t.zone, 1)->vmstat_diff == -8);
	vmstat_diff_shift(t.m, t.zone, -20);
	check(zone_counted_free(t.zone) == 395);
	for (int pages = 1000; pages >= -1000; pages -= 2000) {
		int64_t most = 12 * t.m->nr_cpus;

		vmstat_diff_shift(t.m, t.zone, pages);
		check((int64_t)zone_counted_free(t.zone) == 395 + (pages > 0 ? most : -most));
	}
}
