// SPDX-License-Identifier: Apache-2.0
/*
 * The node that a thread's requests ask first: two nodes, each with a CPU and a zone NORMAL of four
 * pageblocks of 16 pages, half of them free. Node 1 begins at pfn 64.
 */
#include "check.h"
#include "toy.h"

#include "model/memory.h"
#include "tape/node_preference.h"

#include <errno.h>
#include <stdlib.h>

enum { ZONE_PAGES = 64, PID = 7 };

struct world {
	struct toy t;
	struct node_preference node_preference;
};

static void world_new_under(struct world *w, const char *kernel, const char *policy, int nr_nodes)
{
	static const uint16_t cpu_nodes[] = {0, 1}, one_node[] = {0, 0};
	static const uint8_t distances[] = {10, 20, 20, 10};
	const struct machine machine = {
		.pageblock_order = 4,
		.max_order = 5,
		.nr_cpus = 2,
		.nr_nodes = nr_nodes,
		.cpu_nodes = nr_nodes == 1 ? one_node : cpu_nodes,
		.node_distances = distances,
	};
	struct zone_spec zones[2] = {0};

	for (uint16_t i = 0; i < 2; i++)
		zones[i] = (struct zone_spec){.node = i,
					      .type = ZONE_NORMAL,
					      .start_pfn = i * ZONE_PAGES,
					      .spanned = ZONE_PAGES,
					      .present = ZONE_PAGES,
					      .managed = ZONE_PAGES,
					      .wmark = {4, 8, 16}};
	toy_new_machine_under(&w->t, kernel, policy, &machine, zones, nr_nodes);
	for (uint32_t pfn = 0; pfn < (uint32_t)nr_nodes * ZONE_PAGES; pfn += 32)
		toy_add_free(&w->t, pfn, 4, 'M');
	node_preference_new(&w->node_preference, w->t.m);
}

static void world_new(struct world *w, int nr_nodes)
{
	world_new_under(w, "6.18", NULL, nr_nodes);
}

static void world_free(struct world *w)
{
	toy_free(&w->t);
}

#define WORLD(name, make, ...) SCOPED(world, world_free, name, make, ##__VA_ARGS__)

/* `nr` requests of a thread on CPU 0 that a node served. */
static void see(struct world *w, int nr, uint32_t node, uint32_t gfp_flags, uint8_t flags)
{
	const struct window_event event = {
		.kind = EVENT_KIND_ALLOC,
		.pid = PID,
		.frame = w->t.m->zones[node].start + 20,
		.gfp_flags = GFP_MOVABLE | GFP_HIGHMEM | gfp_flags,
		.flags = flags,
		.migratetype = MIGRATETYPE_MOVABLE,
	};

	while (nr--)
		node_preference_see(&w->node_preference, w->t.m, &event);
}

static struct node_preference_count counted(const struct world *w)
{
	return w->node_preference.threads[PID];
}

/* The verdict on the one thread. */
static int verdict(const struct world *w)
{
	const struct preference_columns *c;
	struct output *out;
	struct batch *batch;
	int prefers;

	must(output_new(&out, &preference_table, 8, NULL), NULL);
	node_preference_write(&w->node_preference, out);
	batch = output_pop(out, true);
	check(batch && batch->nr == 1);
	c = (const struct preference_columns *)batch->slots;
	check(c->pid[0] == PID && c->requests[0] == counted(w).requests);
	check(c->remote[0] == counted(w).remote && c->unforced[0] == counted(w).unforced);
	prefers = c->preferred[0];
	output_free(out);
	return prefers;
}

TEST(a_thread_sent_away_from_a_node_with_memory_asks_where_it_lands)
{
	WORLD(w, world_new, 2);
	see(&w, 49, 0, 0, 0);
	see(&w, 1, 1, 0, 0);
	check(counted(&w).requests == 50 && counted(&w).unforced == 1);
	check(verdict(&w) == PREFERENCE_PREFERRED_CPU); /* the limit is more than 2 % */
	see(&w, 1, 1, 0, 0);
	check(counted(&w).requests == 51 && counted(&w).unforced == 2);
	check(verdict(&w) == PREFERENCE_PREFERRED_LANDED);
}

TEST(a_thread_sent_on_for_lack_of_memory_asks_the_cpus_node)
{
	WORLD(w, world_new, 2);
	w.t.m->zones[0].nr_free_pages = 16; /* the high watermark */
	see(&w, 10, 1, 0, 0);
	check(counted(&w).remote == 10 && counted(&w).unforced == 0);
	check(verdict(&w) == PREFERENCE_PREFERRED_CPU);
	w.t.m->zones[0].nr_free_pages = 17;
	see(&w, 1, 1, 0, 0);
	check(counted(&w).remote == 11 && counted(&w).unforced == 1);
	w.t.m->zones[0].nr_free_pages = 32;
}

TEST(requests_that_go_elsewhere_for_other_reasons_are_not_counted)
{
	WORLD(w, world_new, 2);
	see(&w, 5, 1, GFP_THISNODE, 0);
	see(&w, 5, 1, GFP_DMA, 0);
	see(&w, 5, 1, GFP_DMA32, 0);
	see(&w, 5, 1, 0, CONTEXT_SOFTIRQ);
	see(&w, 5, 1, 0, CONTEXT_HARDIRQ);
	check(counted(&w).requests == 0);
	see(&w, 1, 1, 0, CONTEXT_IRQS_OFF);
	check(counted(&w).requests == 1);
}

TEST(a_request_that_left_a_node_above_its_watermark_asked_another_first)
{
	struct window_event event = {.kind = EVENT_KIND_ALLOC,
				     .gfp_flags = GFP_MOVABLE | GFP_HIGHMEM,
				     .migratetype = MIGRATETYPE_MOVABLE};

	WORLD(w, world_new, 2);
	event.frame = w.t.m->zones[1].start + 20;
	check(node_preference_node(w.t.m, &event) == 1);
	event.flags = CONTEXT_SOFTIRQ;
	check(node_preference_node(w.t.m, &event) == 0);
	event.flags = 0;
	w.t.m->zones[0].nr_free_pages = 9;
	check(node_preference_node(w.t.m, &event) == 1);
	w.t.m->zones[0].nr_free_pages = 8; /* 8 is the low watermark: the request was sent on */
	check(node_preference_node(w.t.m, &event) == 0);
	event.gfp_flags |= GFP_THISNODE;
	check(node_preference_node(w.t.m, &event) == 1);
	w.t.m->zones[0].nr_free_pages = 32;
}

/* With vm.defrag_mode a request leaves a node rather than mix migratetypes there. */
TEST(a_request_that_may_not_mix_goes_elsewhere_from_a_node_of_other_types)
{
	struct window_event event = {.kind = EVENT_KIND_ALLOC};

	for (int defrag_mode = 0; defrag_mode < 2; defrag_mode++) {
		WORLD(w, world_new_under, "7.3", defrag_mode ? "mainline:defrag_mode=1" : NULL, 2);
		event.migratetype = MIGRATETYPE_UNMOVABLE;
		event.frame = w.t.m->zones[1].start + 20;
		check(node_preference_node(w.t.m, &event) == 1); /* a whole pageblock is free */
		for (uint32_t pfn = 0; pfn < ZONE_PAGES; pfn += 32) {
			free_list_del(w.t.m, w.t.zone, pfn);
			free_list_add(w.t.m, w.t.zone, pfn, 3, MIGRATETYPE_MOVABLE, true);
		}
		check(node_preference_node(w.t.m, &event) == !defrag_mode);
		event.migratetype = MIGRATETYPE_MOVABLE;
		check(node_preference_node(w.t.m, &event) == 1);
	}
}

/* Since 6.18 a first scan passes over nodes whose kswapd is awake. */
TEST(a_request_goes_elsewhere_while_kswapd_of_its_node_is_awake)
{
	static const struct {
		const char *kernel;
		bool awake;
		int asked;
	} cases[] = {{"6.17", true, 1}, {"6.18", true, 0}, {"6.18", false, 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct window_event event = {.kind = EVENT_KIND_ALLOC,
					     .gfp_flags = GFP_MOVABLE | GFP_HIGHMEM,
					     .migratetype = MIGRATETYPE_MOVABLE};

		WORLD(w, world_new_under, cases[i].kernel, NULL, 2);
		event.frame = w.t.m->zones[1].start + 20;
		w.t.m->zones[0].reclaim_active = cases[i].awake;
		check(node_preference_node(w.t.m, &event) == cases[i].asked);
	}
}

TEST(one_node_leaves_no_choice)
{
	WORLD(w, world_new, 1);
	see(&w, 5, 0, 0, 0);
	check(!w.node_preference.threads && w.node_preference.most == -1);
}

TEST(a_run_loads_the_threads_whose_requests_land_by_policy)
{
	struct batch *batch = toy_rows(&preference_table, 3);
	struct preference_columns *c = (struct preference_columns *)batch->slots;
	struct error err = {""};
	struct arrays arrays = {0};
	uint64_t *landed = NULL;

	check(!asks_where_it_lands(NULL, 5));
	for (int i = 0; i < 3; i++) {
		c->pid[i] = 5 + 64 * i;
		c->preferred[i] = i == 1 ? PREFERENCE_PREFERRED_LANDED : PREFERENCE_PREFERRED_CPU;
	}
	must(node_preference_load(&landed, &arrays, c, 3, &err), &err);
	check(!asks_where_it_lands(landed, 5) && asks_where_it_lands(landed, 69));
	check(!asks_where_it_lands(landed, 133) && !asks_where_it_lands(landed, -59));
	check(!asks_where_it_lands(landed, PIDS_MOST + 69));
	c->pid[2] = PIDS_MOST;
	check(node_preference_load(&landed, &arrays, c, 3, &err) == -EINVAL);
	check_text(err.msg, "preference: pid 4194304");
	arrays_free(&arrays);
	batch_free(batch);
}
