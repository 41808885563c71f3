// SPDX-License-Identifier: Apache-2.0
/*
 * How much of a load the per-CPU page lists keep from the zone lock: one CPU whose use of
 * memory is a triangle wave, against a simulator of the kernel's rules alone.
 *
 * A wave of A pages takes A single pages one by one and gives them back, in one period.
 * Its events are evenly spaced; the vmstat tick comes each second, before the event due at
 * that time. The first quarter of the events warms up and is not counted.
 */
#include "check.h"
#include "toy.h"

#include <stdlib.h>

struct wave {
	int high_min, high_max;
	uint32_t pages;
	double period_s, length_s;
};

struct traffic {
	uint64_t pages, locks;
};

static void machine_of(struct toy *t, const char *kernel, const struct wave *wave)
{
	static const uint16_t cpu_nodes[] = {0};
	static const uint8_t distances[] = {10};
	const uint64_t pages = 1 << 19;
	const struct machine machine = {
		.pageblock_order = 9,
		.max_order = 10,
		.nr_cpus = 1,
		.nr_nodes = 1,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances,
	};
	const struct zone_spec zone = {
		.type = ZONE_NORMAL, .spanned = pages, .present = pages, .managed = pages};

	toy_new_machine(t, kernel, &machine, &zone, 1);
	t->m->events = NULL;
	for (uint32_t pfn = 0; pfn < pages; pfn += 1024)
		toy_add_free(t, pfn, 10, 'M');
	t->pcp->batch = 63;
	t->pcp->high = t->pcp->high_min = wave->high_min;
	t->pcp->high_max = wave->high_max;
}

static struct traffic ride(struct toy *t, const struct wave *wave)
{
	uint64_t *used = calloc(wave->pages, sizeof(*used));
	uint64_t events = (uint64_t)(wave->length_s / wave->period_s) * 2 * wave->pages;
	double step = wave->period_s / (2 * wave->pages), now = 0, next_tick = 1;
	const struct counters *counters = &t->pcp->counters;
	struct traffic before = {0};

	for (uint64_t i = 0; i < events; i++) {
		uint32_t place = (uint32_t)(i % (2 * wave->pages));

		now += step;
		if (i == events / 4)
			before = (struct traffic){counters->refill_pages, counters->lock_holds};
		if (now >= next_tick) {
			pcp_tick(t->m, 0);
			next_tick += 1;
		}
		if (place < wave->pages)
			used[place] = toy_alloc(t, 0, 'M');
		else
			toy_free_page(t, (uint32_t)used[2 * wave->pages - 1 - place], 0);
	}
	free(used);
	return (struct traffic){counters->refill_pages - before.pages,
				counters->lock_holds - before.locks};
}

static void the_published_waves_cost_what_they_cost_the_kernel(void)
{
	static const struct {
		struct wave wave;
		struct traffic fixed, tuned;
	} cases[] = {
		/* a node of 128 GiB and 112 CPUs */
		{{448, 37449, 100, 1, 60}, {0, 0}, {0, 0}},
		{{448, 37449, 25000, 1, 60}, {1111320, 20610}, {148365, 1214}},
		{{448, 37449, 25000, 0.5, 60}, {2222640, 41220}, {157185, 1462}},
		{{448, 37449, 100000, 10, 120}, {897939, 16602}, {743337, 1890}},
		/* 20 GiB and 2 CPUs */
		{{10082, 337141, 25000, 1, 60}, {722925, 11835}, {146349, 1215}},
		{{10082, 337141, 100000, 10, 120}, {865998, 13890}, {525609, 1395}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct traffic got;
		struct toy t;

		machine_of(&t, "6.5", &cases[i].wave);
		got = ride(&t, &cases[i].wave);
		check(got.pages == cases[i].fixed.pages);
		check(got.locks == cases[i].fixed.locks);
		toy_free(&t);
		machine_of(&t, "6.18", &cases[i].wave);
		got = ride(&t, &cases[i].wave);
		check(got.pages == cases[i].tuned.pages);
		check(got.locks == cases[i].tuned.locks);
		toy_free(&t);
	}
}

int main(void)
{
	test(the_published_waves_cost_what_they_cost_the_kernel);
	return check_done();
}
