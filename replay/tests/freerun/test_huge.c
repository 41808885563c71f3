// SPDX-License-Identifier: Apache-2.0
/*
 * Faults that ask for a huge page of 16 pages. Three nodes have distances 10, 20 and 30 from the
 * first, and 4 pageblocks each, from pfn 0, 64 and 128 on; the one CPU is on node 0.
 */
#include "check.h"
#include "freerun/huge.h"
#include "model/reclaim_ops.h"
#include "serve_world.h"

#include <string.h>

enum { ORDER = 4, PAGES = 1 << ORDER, NODE_PAGES = 4 * PAGES, NR_NODES = 3, PID = 7 };

#define GFP_LIGHT  (GFP_HIGHMEM | GFP_MOVABLE | GFP_COMP | GFP_NOMEMALLOC | GFP_NOWARN)
#define GFP_HUGE   (GFP_LIGHT | GFP_DIRECT_RECLAIM)
#define GFP_LOCAL  (GFP_THISNODE | GFP_NORETRY)
#define GFP_SINGLE (GFP_HIGHMEM | GFP_MOVABLE | GFP_ZERO)

static void world_new(struct world *w, const char *policy)
{
	static const uint16_t cpu_nodes[] = {0};
	static const uint8_t distances[] = {10, 20, 30, 20, 10, 20, 30, 20, 10};
	static const struct machine machine = {
		.pageblock_order = ORDER,
		.max_order = ORDER + 1,
		.nr_cpus = 1,
		.nr_nodes = NR_NODES,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances,
	};
	struct zone_spec zones[NR_NODES];

	for (int node = 0; node < NR_NODES; node++)
		zones[node] = (struct zone_spec){
			.node = (uint16_t)node,
			.type = ZONE_NORMAL,
			.start_pfn = (uint64_t)node * NODE_PAGES,
			.spanned = NODE_PAGES,
			.present = NODE_PAGES,
			.managed = NODE_PAGES,
		};
	*w = (struct world){0};
	toy_new_machine_under(&w->toy, "6.18", policy, &machine, zones, NR_NODES);
	for (int node = 0; node < NR_NODES; node++)
		w->toy.m->pcps[node].batch = 1;
	world_begin(w);
}

static uint64_t total(const struct world *w, size_t counter)
{
	uint64_t sum = 0;

	for (int i = 0; i < NR_NODES; i++)
		sum += *(const uint64_t *)((const char *)&w->toy.m->pcps[i].counters + counter);
	return sum;
}

#define count(w, counter) total(w, offsetof(struct counters, counter))

static void add_free(struct world *w, uint32_t pfn, int order)
{
	zone_forget_old(w->toy.m, pfn, order);
	free_list_add(w->toy.m, frame_zone(w->toy.m, pfn), pfn, order, MIGRATETYPE_MOVABLE, true);
}

/* A recorded request; it failed if pfn is NO_FRAME. */
static void alloc(struct world *w, uint32_t pfn, int order, uint32_t gfp_flags)
{
	w->toy.m->now.pid = PID;
	serve_request(&w->serve, &(struct waiting){
					 .moment = {.pid = PID},
					 .kind = EVENT_KIND_ALLOC,
					 .frame = pfn,
					 .order = (uint8_t)order,
					 .migratetype = MIGRATETYPE_MOVABLE,
					 .gfp_flags = gfp_flags,
				 });
	w->serve.at++;
}

static void touch(struct world *w, uint32_t pfn, int pages)
{
	for (int i = 0; i < pages; i++)
		alloc(w, pfn + (uint32_t)i, 0, GFP_SINGLE);
}

TEST(distances_fall_into_classes)
{
	WORLD(w, world_new, NULL);
	check(distance_class(w.toy.m, 0, 0) == 0);
	check(distance_class(w.toy.m, 0, 1) == 1);
	check(distance_class(w.toy.m, 0, 2) == 2);
	check(distance_class(w.toy.m, 1, 0) == 1);
	check(distance_class(w.toy.m, 1, 2) == 1);
	check(distance_class(w.toy.m, 2, 1) == 1);
}

/* The node and size (H huge, s single) of the pages that six faults get; each node has one huge
 * page and one single page. */
static const char *scan_of(const char *policy)
{
	static char text[32];
	size_t length = 0;
	struct world w;

	world_new(&w, policy);
	for (uint32_t node = 0; node < NR_NODES; node++) {
		add_free(&w, node * NODE_PAGES, ORDER);
		add_free(&w, node * NODE_PAGES + 2 * PAGES, 0);
	}
	for (int i = 0; i < 6; i++) {
		struct request rq = {
			.gfp_flags = GFP_LIGHT,
			.order = ORDER,
			.migratetype = MIGRATETYPE_MOVABLE,
			.class_zone = ZONE_MOVABLE,
		};
		uint32_t head = huge_alloc(w.serve.huge, &rq, 0, HUGE_TRIES_MOST);
		char size = head == NO_FRAME ? 's' : 'H';

		if (head == NO_FRAME) {
			rq.order = 0;
			head = zone_alloc(w.toy.m, &rq);
		}
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%d%c",
					   i ? " " : "", frame_zone(w.toy.m, head)->node, size);
	}
	world_free(&w);
	return text;
}

TEST(each_mode_of_order_walk_has_its_order)
{
	check_text(scan_of("order_walk:mode=node_first"), "0H 0s 1H 1s 2H 2s");
	check_text(scan_of("order_walk:mode=order_first"), "0H 1H 2H 0s 1s 2s");
	check_text(scan_of("order_walk:mode=guest"), "0H 1H 0s 2H 1s 2s");
}

TEST(thisnode_takes_single_pages_before_it_leaves_its_node)
{
	/* After its own pages, the task splits the huge pages of node 1. */
	check_text(scan_of("order_walk:mode=thisnode"), "0H 0s 1s 1s 1s 1s");
	check_text(scan_of("thp_numa:mode=thisnode"), "0H 0s 1s 1s 1s 1s");
}

TEST(mode_spill_tries_huge_pages_of_all_nodes_first)
{
	check_text(scan_of("thp_numa:mode=spill"), "0H 1H 2H 0s 1s 2s");
}

TEST(only_requests_that_may_reclaim_spill_to_other_nodes)
{
	static const struct {
		const char *policy;
		uint32_t gfp_flags;
		uint64_t remote;
	} cases[] = {
		{"thp_numa:mode=local_then_spill", GFP_HUGE, 1},
		{"thp_numa:mode=local_then_spill", GFP_LIGHT, 0},
		{"thp_numa:mode=local_then_spill_noretry", GFP_HUGE, 1},
		{"thp_numa:mode=thisnode", GFP_HUGE, 0},
		{"thp_numa:mode=spill", GFP_LIGHT, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		WORLD(w, world_new, cases[i].policy);
		add_free(&w, NODE_PAGES, ORDER);
		alloc(&w, NO_FRAME, ORDER, cases[i].gfp_flags | GFP_LOCAL);
		alloc(&w, NO_FRAME, ORDER, cases[i].gfp_flags);
		check(count(&w, thp_remote) == cases[i].remote);
		check(count(&w, thp_local) == 0);
		check(w.toy.m->zones[1].nr_free_pages == (cases[i].remote ? 0 : PAGES));
	}
}

TEST(a_failed_huge_page_is_counted_by_the_state_of_its_own_node)
{
	WORLD(w, world_new, "thp_numa:mode=thisnode");
	alloc(&w, NO_FRAME, ORDER, GFP_LIGHT | GFP_LOCAL);
	check(count(&w, thp_below_watermark) == 1);
	for (uint32_t pfn = 0; pfn < 3 * PAGES; pfn += 2)
		add_free(&w, pfn, 0);
	alloc(&w, NO_FRAME, ORDER, GFP_LIGHT | GFP_LOCAL);
	check(count(&w, thp_no_compaction) == 1);
	alloc(&w, NO_FRAME, ORDER, GFP_HUGE | GFP_LOCAL);
	alloc(&w, NO_FRAME, ORDER, GFP_HUGE);
	check(count(&w, thp_fragmented) == 1);
	check(count(&w, thp_below_watermark) == 1);
}

TEST(a_huge_page_that_the_model_lacks_is_in_pieces_until_it_is_freed)
{
	WORLD(w, world_new, "thp_numa");
	for (uint32_t pfn = 0; pfn < 2 * PAGES; pfn += 2)
		add_free(&w, pfn, 0);
	world_freed(&w, NODE_PAGES, ORDER);
	alloc(&w, NODE_PAGES, ORDER, GFP_HUGE | GFP_LOCAL);
	check(count(&w, thp_pieces) == PAGES);
	check(w.toy.m->zones[0].nr_free_pages == 0);
	check(page_map_place(&w.serve.pages, NODE_PAGES) < NODE_PAGES);
	world_free_page(&w, NODE_PAGES, ORDER);
	check(count(&w, frees) == PAGES && count(&w, free_pages) == PAGES);
	check(w.anomalies[ANOMALY_KIND_ORDER_MISMATCH] == 0);
}

TEST(a_huge_page_that_failed_on_the_record_replaces_its_group_of_single_pages)
{
	WORLD(w, world_new, "thp_numa");
	add_free(&w, PAGES, ORDER);
	alloc(&w, NO_FRAME, ORDER, GFP_LIGHT | GFP_LOCAL);
	check(count(&w, thp_local) == 1);
	touch(&w, NODE_PAGES, PAGES);
	check(count(&w, thp_swallowed) == PAGES);
	for (uint32_t i = 0; i < PAGES; i++)
		check(page_map_place(&w.serve.pages, NODE_PAGES + i) == PAGES + i);
	for (uint32_t i = 0; i < PAGES; i++) {
		check(count(&w, frees) == 0);
		world_free_page(&w, NODE_PAGES + i, 0);
	}
	check(count(&w, free_pages) == PAGES);
}

TEST(the_next_fault_ends_a_group)
{
	WORLD(w, world_new, "thp_numa");
	add_free(&w, PAGES, ORDER);
	add_free(&w, 2 * PAGES, 0);
	alloc(&w, NO_FRAME, ORDER, GFP_LIGHT | GFP_LOCAL);
	touch(&w, NODE_PAGES, 2);
	alloc(&w, NO_FRAME, ORDER, GFP_LIGHT | GFP_LOCAL);
	touch(&w, NODE_PAGES + 2, 1);
	check(count(&w, thp_swallowed) == 2);
	check(page_map_place(&w.serve.pages, NODE_PAGES + 2) == 2 * PAGES);
	world_free_page(&w, NODE_PAGES, 0);
	world_free_page(&w, NODE_PAGES + 1, 0);
	check(count(&w, free_pages) == PAGES);
}

TEST(an_unused_huge_page_goes_back_at_the_next_fault)
{
	WORLD(w, world_new, "thp_numa");
	add_free(&w, PAGES, ORDER);
	for (int i = 0; i < 3; i++) {
		alloc(&w, NO_FRAME, ORDER, GFP_LIGHT | GFP_LOCAL);
		check(count(&w, thp_local) == (uint64_t)i + 1);
	}
}

TEST(both_tries_of_the_record_are_one_fault)
{
	WORLD(w, world_new, "thp_numa");
	add_free(&w, PAGES, ORDER);
	add_free(&w, NODE_PAGES, ORDER);
	alloc(&w, NO_FRAME, ORDER, GFP_HUGE | GFP_LOCAL);
	alloc(&w, NODE_PAGES, ORDER, GFP_HUGE);
	check(count(&w, thp_local) == 1 && count(&w, thp_remote) == 0);
	check(page_map_place(&w.serve.pages, NODE_PAGES) == PAGES);
	touch(&w, 0, 1);
	check(count(&w, thp_swallowed) == 0);
	world_free_page(&w, NODE_PAGES, ORDER);
	check(count(&w, free_pages) == PAGES);
}

/* Reclaim that frees nothing of use, and compaction that no zone has the pages for. */
struct calls {
	int reclaims, compactions;
};

static bool reclaim(void *self, const struct zonelist *list, const struct request *rq, int order)
{
	(void)list;
	(void)rq;
	(void)order;
	((struct calls *)self)->reclaims++;
	return true;
}

static enum compact_result compact(void *self, const struct zonelist *list,
				   const struct request *rq, int order, int priority)
{
	(void)list;
	(void)rq;
	(void)order;
	(void)priority;
	((struct calls *)self)->compactions++;
	return COMPACT_SKIPPED;
}

static int take_tries(void *self, int order)
{
	(void)self;
	(void)order;
	return 0;
}

TEST(a_try_works_as_hard_as_its_flags_allow)
{
	static const struct {
		const char *policy;
		uint32_t gfp_flags;
		struct calls calls;
	} cases[] = {
		{"thp_numa:mode=thisnode", GFP_HUGE, {1, 2}},
		{"thp_numa:mode=spill", GFP_HUGE, {1, 2}},
		{"thp_numa:mode=local_then_spill", GFP_HUGE, {1, 3}},
		{"thp_numa:mode=local_then_spill_noretry", GFP_HUGE, {0, 2}},
		{"thp_numa:mode=local_then_spill", GFP_LIGHT, {0, 0}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calls calls = {0};
		const struct reclaim_ops ops = {
			.self = &calls,
			.direct = reclaim,
			.take_tries = take_tries,
			.compact = compact,
		};
		WORLD(w, world_new, cases[i].policy);

		w.toy.m->reclaim_ops = &ops;
		alloc(&w, NO_FRAME, ORDER, cases[i].gfp_flags | GFP_IO | GFP_LOCAL);
		if (cases[i].gfp_flags & GFP_DIRECT_RECLAIM)
			alloc(&w, NO_FRAME, ORDER, cases[i].gfp_flags | GFP_IO);
		check(calls.reclaims == cases[i].calls.reclaims);
		check(calls.compactions == cases[i].calls.compactions);
		check(w.serve.huge_requests.of[ORDER].asked == 1);
		check(count(&w, would_fail) == 0);
	}
}

TEST(other_requests_of_that_order_stay_as_they_are)
{
	static const uint32_t gfp_flags[] = {
		GFP_HUGE,                                         /* khugepaged since 6.0 */
		GFP_HUGE | GFP_THISNODE,                          /* khugepaged before 6.0 */
		GFP_HIGHMEM | GFP_MOVABLE | GFP_COMP | GFP_LOCAL, /* a file mapping */
	};

	WORLD(w, world_new, "thp_numa:mode=thisnode");
	for (size_t i = 0; i < sizeof(gfp_flags) / sizeof(gfp_flags[0]); i++)
		add_free(&w, (uint32_t)i * PAGES, ORDER);
	for (size_t i = 0; i < sizeof(gfp_flags) / sizeof(gfp_flags[0]); i++)
		alloc(&w, (uint32_t)i * PAGES, ORDER, gfp_flags[i]);
	check(count(&w, allocs) == 3);
	check(count(&w, thp_local) == 0);
}

TEST(zone_reclaim_is_for_requests_that_may_wait_and_their_own_node)
{
	static const struct {
		const char *policy;
		uint32_t gfp_flags;
		uint64_t reclaims;
	} cases[] = {
		{"zone_reclaim_mode", GFP_SINGLE | GFP_DIRECT_RECLAIM, 1},
		{"zone_reclaim_mode", GFP_SINGLE, 0},
		{"zone_reclaim_mode:mode=0", GFP_SINGLE | GFP_DIRECT_RECLAIM, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		WORLD(w, world_new, cases[i].policy);
		w.toy.m->zones[0].wmark[WMARK_LOW] = w.toy.m->zones[0].wmark[WMARK_HIGH] = 4;
		add_free(&w, 0, 2);
		add_free(&w, NODE_PAGES, 2);
		world_freed(&w, 2 * NODE_PAGES, 0);
		alloc(&w, 2 * NODE_PAGES, 0, cases[i].gfp_flags);
		check(page_map_place(&w.serve.pages, 2 * NODE_PAGES) == NODE_PAGES);
		check(w.toy.m->pcps[0].counters.node_reclaims == cases[i].reclaims);
		check(count(&w, node_reclaims) == cases[i].reclaims);
	}
}

TEST(zone_reclaim_skips_nodes_with_cpus_and_reaches_near_nodes_without)
{
	/* Node 2 is 30 away; node 1 has no CPU and is within the distance. */
	WORLD(w, world_new, "zone_reclaim_mode:distance=20");
	for (int node = 0; node < NR_NODES; node++)
		w.toy.m->zones[node].wmark[WMARK_LOW] = node == 2 ? 0 : 4;
	add_free(&w, 2 * NODE_PAGES, 2);
	world_freed(&w, 0, 0);
	alloc(&w, 0, 0, GFP_SINGLE | GFP_DIRECT_RECLAIM);
	check(w.toy.m->pcps[0].counters.node_reclaims == 1);
	check(w.toy.m->pcps[1].counters.node_reclaims == 1);
	check(w.toy.m->pcps[2].counters.node_reclaims == 0);
}
