// SPDX-License-Identifier: Apache-2.0
/*
 * The invariants of the model: random operations on every kernel row, and model_check() after
 * each stretch.
 */
#include "check.h"
#include "toy.h"

#include "model/flips.h"
#include "model/watermark.h"
#include "policies/policies.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *random_operations(const char *kernel, uint64_t seed, const char *policy,
				     uint32_t flip_rate)
{
	enum { HELD = 256, STRETCHES = 40, OPERATIONS = 100 };
	struct {
		uint32_t pfn;
		int order;
	} held[HELD];
	int nr_held = 0;
	const char *wrong = NULL;
	uint64_t all, at = 0;
	struct flips flips = {.seed = seed, .at = &at, .row = UINT64_MAX};
	struct toy t;

	toy_new(&t, kernel, (struct toy_geometry){4, 5, "MMUMRMMMUMMRHMCM", ZONE_NORMAL});
	check(!policy_stack_add(t.policies, policy, NULL));
	t.m->events = NULL;
	for (int kind = 0; kind < NR_FLIP; kind++)
		flips.rates[kind] = flip_rate;
	t.m->flips = flip_rate ? &flips : NULL;
	t.m->record->boost_acts = seed & 1;
	t.zone->wmark[WMARK_MIN] = 4;
	t.zone->wmark[WMARK_LOW] = 8;
	t.zone->wmark[WMARK_HIGH] = 16;
	toy_pcp(&t, 3, 12);
	t.pcp->high_max = 40;
	for (uint32_t pfn = 0; pfn < 256; pfn += 32)
		buddy_free_direct(t.m, t.zone, (zone_forget_old(t.m, pfn, 5), pfn), 5, NULL);
	all = t.zone->nr_free_pages;
	for (int i = 0; i < STRETCHES * OPERATIONS && !wrong; i++) {
		uint32_t what = random_below(&seed, 100);
		uint64_t pages = 0;

		at = (uint64_t)i;
		if (what < 50 && nr_held < HELD) {
			static const char types[] = "MMMMMUUR";
			static const uint32_t gfp_flags[] = {
				GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM,
				GFP_DIRECT_RECLAIM,
				GFP_HIGH | GFP_KSWAPD_RECLAIM,
				GFP_KSWAPD_RECLAIM | GFP_COLD,
			};
			int order = random_below(&seed, 4) ? 0 : (int)random_below(&seed, 6);
			uint64_t pfn;

			t.gfp_flags = gfp_flags[random_below(&seed, 4)];
			pfn = toy_alloc(&t, order, types[random_below(&seed, 8)]);

			if (pfn != UINT64_MAX) {
				held[nr_held].pfn = (uint32_t)pfn;
				held[nr_held++].order = order;
			}
		} else if (what < 97 && nr_held) {
			uint32_t which = random_below(&seed, (uint32_t)nr_held);

			zone_free(t.m, held[which].pfn, held[which].order);
			held[which] = held[--nr_held];
		} else if (what == 98) {
			pcp_tick(t.m, 0);
		} else if (what == 99) {
			kswapd_end(t.m, 0);
			kswapd_begin(t.m, 0, ZONE_MOVABLE);
			toy_drain(&t);
		}
		if (i % OPERATIONS)
			continue;
		wrong = model_check(t.m);
		for (int h = 0; h < nr_held; h++)
			pages += 1ull << held[h].order;
		if (pages + t.zone->nr_free_pages + (uint64_t)t.pcp->count != all)
			wrong = "pages were lost or made";
	}
	toy_free(&t);
	return wrong;
}

TEST(random_operations_keep_the_rules_of_every_kernel)
{
	static const char *const specs[] = {"mainline", "nofragment:mode=off",
					    "nofragment:mode=lowzone", "nofragment:mode=always"};

	for (const struct kernel *k = kernels; k->name; k++) {
		for (uint64_t seed = 1; seed <= 12; seed++) {
			const char *wrong = random_operations(k->name, seed * 0x9e3779b97f4a7c15,
							      specs[seed % 4], 0);

			if (wrong)
				printf("# %s, seed %d\n", k->name, (int)seed);
			check_text(wrong ? wrong : "", "");
		}
	}
}

TEST(decisions_taken_otherwise_keep_the_rules_of_every_kernel)
{
	for (const struct kernel *k = kernels; k->name; k++) {
		for (uint64_t seed = 1; seed <= 8; seed++) {
			const char *wrong = random_operations(k->name, seed * 0x9e3779b97f4a7c15,
							      "mainline", FLIPS_PER / 4);

			if (wrong)
				printf("# %s, seed %d\n", k->name, (int)seed);
			check_text(wrong ? wrong : "", "");
		}
	}
}

TEST(the_same_operations_make_the_same_events)
{
	char first[sizeof((struct toy){0}.text)] = "";

	for (int run = 0; run < 2; run++) {
		TOY(t, toy_new, "6.18", (struct toy_geometry){4, 5, "MUMR", ZONE_NORMAL});
		toy_add_free(&t, 0, 3, 'M');
		toy_add_free(&t, 18, 1, 'U');
		for (int i = 0; i < 12; i++)
			toy_alloc(&t, i % 2, "MUR"[i % 3]);
		toy_events(&t);
		if (run)
			check_text(t.text, first);
		memcpy(first, t.text, sizeof(first));
	}
}

TEST(bad_machines_are_refused)
{
	static const uint16_t cpu_nodes[] = {0, 3};
	static const uint8_t distances[] = {10, 20, 20, 10};
	const struct machine good = {
		.pageblock_order = 9,
		.max_order = 10,
		.nr_cpus = 1,
		.nr_nodes = 2,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances,
	};
	const struct zone_spec zone = {.type = ZONE_NORMAL, .spanned = 4096, .managed = 4096};
	struct machine machine = good;
	struct zone_spec zones[2] = {zone, zone};
	struct error err = {""};
	struct model *m;

	machine.pageblock_order = 11;
	check(model_new(&m, kernels, &machine, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "pageblock order 11 is not in 1..10");
	machine = good;
	machine.max_order = 14;
	check(model_new(&m, kernels, &machine, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "largest order 14 is not in 1..13");
	machine = good;
	machine.page_bytes = 6000;
	check(model_new(&m, kernels, &machine, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "pages of 6000 bytes: a power of two in 4096..1048576 is needed");
	machine = good;
	machine.nr_cpus = 2;
	check(model_new(&m, kernels, &machine, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "CPU 1 is on node 3 of 2");
	machine.nr_cpus = 8193;
	check(model_new(&m, kernels, &machine, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "8193 CPUs: there may be 1 to 8192");
	machine = good;
	machine.nr_nodes = 1025;
	check(model_new(&m, kernels, &machine, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "1025 nodes: there may be 1 to 1024");
	check(model_new(&m, kernels, &good, zones, 2, &err) == -EEXIST);
	check_text(err.msg, "zone 2 of node 0 comes twice");
	zones[1].type = ZONE_DMA32;
	check(model_new(&m, kernels, &good, zones, 2, &err) == -EINVAL);
	check_text(err.msg, "zones 2 and 1 of node 0 overlap");
	zones[0].spanned = 1ull << 40;
	check(model_new(&m, kernels, &good, zones, 1, &err) == -E2BIG);
	check_text(err.msg,
		   "the zones span 1099511627776 pages, but the tape has pageblocks of only 0");
	machine = good;
	machine.known_pages = 1ull << 40;
	check(model_new(&m, kernels, &machine, zones, 1, &err) == -E2BIG);
	check_text(err.msg, "1099511627776 pages are more than the model has numbers for");
	zones[0] = zone;
	zones[0].managed = 4097;
	check(model_new(&m, kernels, &good, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "zone 2 of node 0: pfn 0, 4097 and 0 of 4096 pages");
	zones[0] = zone;
	zones[0].present = UINT64_MAX;
	check(model_new(&m, kernels, &good, zones, 1, &err) == -EINVAL);
	zones[0] = zone;
	zones[0].wmark[WMARK_LOW] = INT64_MAX;
	check(model_new(&m, kernels, &good, zones, 1, &err) == -EINVAL);
	check_text(err.msg, "zone 2 of node 0: watermark 9223372036854775807");
}
