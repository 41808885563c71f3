// SPDX-License-Identifier: Apache-2.0
/*
 * Machines with another layout: each node cut into several nodes, or each zone into parts. Two
 * nodes, each with NORMAL (256 pages), node 0 also with DMA32 (64 pages); four CPUs. Pageblocks
 * of 16 pages, largest order 5.
 */
#include "policies/policies.h"
#include "check.h"
#include "toy.h"
#include "model/watermark.h"
#include "model/zonelist.h"

#include <errno.h>
#include <string.h>

enum { NR_CPUS = 4, DMA32_PAGES = 64, NORMAL_PAGES = 256 };

struct plan {
	struct policy_stack *stack;
	struct machine machine;
	struct zone_spec zones[UINT8_MAX];
	struct record_facts record;
	int nr;
	struct error err;
	int ret;
};

static struct zone_spec zone(int node, int type, uint64_t start, uint64_t pages)
{
	return (struct zone_spec){
		.node = (uint16_t)node,
		.type = (uint8_t)type,
		.start_pfn = start,
		.spanned = pages,
		.present = pages,
		.managed = pages,
		.wmark = {8, 16, 32},
	};
}

/* The layout that a policy makes of the two nodes, with a map of CPUs or NULL. */
static void plan_new_with(struct plan *p, const char *spec, const uint16_t *cpu_parts)
{
	static const uint16_t cpu_nodes[NR_CPUS] = {0, 0, 1, 1};
	static const uint8_t distances[] = {10, 20, 20, 10};
	struct policy *owner;

	*p = (struct plan){
		.machine = {.pageblock_order = 4,
			    .max_order = 5,
			    .nr_cpus = NR_CPUS,
			    .nr_nodes = 2,
			    .cpu_nodes = cpu_nodes,
			    .node_distances = distances,
			    .cpu_parts = cpu_parts},
		.zones = {zone(0, ZONE_DMA32, 0, DMA32_PAGES),
			  zone(0, ZONE_NORMAL, DMA32_PAGES, NORMAL_PAGES),
			  zone(1, ZONE_NORMAL, DMA32_PAGES + NORMAL_PAGES, NORMAL_PAGES)},
		.nr = 3,
	};
	check(!policy_stack_new(&p->stack, policies, NULL));
	check(!policy_stack_add(p->stack, spec, NULL));
	owner = p->stack->owner.layout;
	p->ret = owner->ops->layout(owner, &p->machine, p->zones, &p->nr, UINT8_MAX, &p->err);
}

static void plan_new(struct plan *p, const char *spec)
{
	plan_new_with(p, spec, NULL);
}

static void plan_free(struct plan *p)
{
	policy_stack_free(p->stack);
}

static struct model *built(struct plan *p)
{
	const struct kernel *row;
	struct model *m;

	check(!kernel_find(&row, "6.18", NULL));
	check(!model_new(&m, row, &p->machine, p->zones, p->nr, &p->err));
	m->policies = p->stack;
	m->record = &p->record;
	return m;
}

/* A list as "node.part:type ..." with D for DMA32 and N for NORMAL. */
static const char *list_text(const struct zonelist *list)
{
	static char text[256];
	size_t length = 0;

	text[0] = '\0';
	for (int i = 0; i < list->nr; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%d.%d%c",
					   i ? " " : "", list->zones[i]->node, list->zones[i]->part,
					   list->zones[i]->type == ZONE_NORMAL ? 'N' : 'D');
	return text;
}

TEST(parts_tile_the_zones_in_blocks_of_the_largest_order)
{
	uint64_t next = 0, managed = 0;

	SCOPED(plan, plan_free, p, plan_new, "split_zone:parts=3");
	check(!p.ret);
	for (int i = 0; i < p.nr; i++) {
		check(p.zones[i].start_pfn == next);
		check(p.zones[i].start_pfn % 32 == 0);
		next += p.zones[i].spanned;
		managed += p.zones[i].managed;
	}
	check(next == DMA32_PAGES + 2 * NORMAL_PAGES);
	check(managed == next);
	check(p.nr == 2 + 3 + 3); /* DMA32 has only two blocks */
}

TEST(a_part_has_its_share_of_the_watermarks)
{
	SCOPED(plan, plan_free, p, plan_new, "split_zone:parts=4");
	for (int i = 0; i < p.nr; i++) {
		if (p.zones[i].type != ZONE_NORMAL)
			continue;
		check(p.zones[i].wmark[WMARK_MIN] == 2);
		check(p.zones[i].wmark[WMARK_LOW] == 4);
		check(p.zones[i].wmark[WMARK_HIGH] == 8);
	}
}

TEST(one_part_changes_nothing)
{
	static const char *const specs[] = {"split_zone:parts=1", "fake_numa:nodes=1"};

	for (int i = 0; i < 2; i++) {
		struct plan p, plain;

		plan_new(&p, specs[i]);
		plan_new(&plain, "mainline");
		check(p.nr == plain.nr && !memcmp(p.zones, plain.zones, sizeof(p.zones)));
		check(p.machine.nr_nodes == 2);
		check(!memcmp(p.machine.cpu_nodes, plain.machine.cpu_nodes, 2 * NR_CPUS));
		plan_free(&p);
		plan_free(&plain);
	}
}

TEST(fake_nodes_follow_each_other_in_a_ring_and_the_other_socket_last)
{
	struct model *m;

	SCOPED(plan, plan_free, p, plan_new, "fake_numa:nodes=4");
	check(!p.ret && p.machine.nr_nodes == 8);
	m = built(&p);
	check_text(list_text(&m->fallback[0]), "0.0N 0.0D 1.0N 1.0D 2.0N 3.0N 4.0N 5.0N 6.0N 7.0N");
	check_text(list_text(&m->fallback[2]), "2.0N 3.0N 0.0N 0.0D 1.0N 1.0D 6.0N 7.0N 4.0N 5.0N");
	check_text(list_text(&m->thisnode[1]), "1.0N 1.0D");
	model_free(m);
}

TEST(a_cpu_belongs_to_the_fake_node_of_its_number_on_its_own_socket)
{
	SCOPED(plan, plan_free, p, plan_new, "fake_numa:nodes=2");
	check(p.machine.cpu_nodes[0] == 0);
	check(p.machine.cpu_nodes[1] == 1);
	check(p.machine.cpu_nodes[2] == 2);
	check(p.machine.cpu_nodes[3] == 3);
}

TEST(a_map_assigns_each_cpu_to_a_fake_node)
{
	static const uint16_t map[NR_CPUS] = {1, 1, 0, 1}, beyond[NR_CPUS] = {0, 1, 2, 0};
	struct plan p;

	plan_new_with(&p, "fake_numa:nodes=2", map);
	check(p.machine.cpu_nodes[0] == 1 && p.machine.cpu_nodes[1] == 1);
	check(p.machine.cpu_nodes[2] == 2 && p.machine.cpu_nodes[3] == 3);
	plan_free(&p);
	plan_new_with(&p, "fake_numa:nodes=2", beyond);
	check(p.ret == -EINVAL);
	check_text(p.err.msg, "fake_numa:nodes: CPU 2 is on part 2 of 2");
	plan_free(&p);
}

TEST(the_number_of_a_cpu_chooses_its_first_part)
{
	struct model *m;

	SCOPED(plan, plan_free, p, plan_new, "split_zone:parts=2");
	m = built(&p);
	check_text(list_text(&m->fallback[0]), "0.0N 0.1N 0.0D 0.1D 1.0N 1.1N");
	check_text(list_text(&m->fallback[1]), "0.1N 0.0N 0.1D 0.0D 1.1N 1.0N");
	check_text(list_text(&m->thisnode[3]), "1.1N 1.0N");
	zonelists_by_zone(m);
	check_text(list_text(&m->fallback[1]), "0.1N 0.0N 1.1N 1.0N 0.1D 0.0D");
	model_free(m);
}

static uint32_t alloc_on(struct model *m, int cpu)
{
	struct request rq = {.migratetype = MIGRATETYPE_MOVABLE, .class_zone = ZONE_NORMAL};

	m->now.cpu = (uint16_t)cpu;
	rq.node = m->cpu_nodes[cpu];
	return zone_alloc(m, &rq);
}

TEST(two_cpus_of_one_node_use_two_zone_locks)
{
	static const char *const specs[] = {"split_zone:parts=2", "fake_numa:nodes=2"};

	for (int i = 0; i < 2; i++) {
		struct plan p;
		struct model *m;

		plan_new(&p, specs[i]);
		m = built(&p);
		for (int z = 0; z < m->nr_zones; z++)
			for (uint32_t f = m->zones[z].start; f < m->zones[z].end; f += 32) {
				zone_forget_old(m, f, 5);
				free_list_add(m, &m->zones[z], f, 5, MIGRATETYPE_MOVABLE, true);
			}
		check(frame_zone(m, alloc_on(m, 0)) != frame_zone(m, alloc_on(m, 1)));
		check(frame_zone(m, alloc_on(m, 0))->type == ZONE_NORMAL);
		check_sound(m);
		model_free(m);
		plan_free(&p);
	}
}

TEST(another_part_is_no_lower_zone)
{
	struct model *m;
	uint32_t frame;

	SCOPED(plan, plan_free, p, plan_new, "split_zone:parts=2");
	m = built(&p);
	for (int z = 0; z < m->nr_zones; z++) {
		frame = m->zones[z].start;
		if (m->zones[z].node || m->zones[z].type != ZONE_NORMAL || !m->zones[z].part)
			continue;
		zone_forget_old(m, frame, 5);
		free_list_add(m, &m->zones[z], frame, 5, MIGRATETYPE_MOVABLE, true);
	}
	frame = alloc_on(m, 0);
	check(frame != NO_FRAME && frame_zone(m, frame)->part == 1);
	check(zone_counters(m, frame_zone(m, frame))->allocs == 1);
	check(zone_counters(m, frame_zone(m, frame))->lower_zone == 0);
	model_free(m);
}

TEST(kswapd_of_a_node_runs_on_all_nodes_made_of_it)
{
	struct model *m;

	SCOPED(plan, plan_free, p, plan_new, "fake_numa:nodes=2");
	m = built(&p);
	kswapd_begin(m, 1, ZONE_MOVABLE);
	for (int z = 0; z < m->nr_zones; z++)
		check(m->zones[z].reclaim_active == (m->zones[z].node >= 2));
	model_free(m);
}

TEST(too_many_parts_are_refused)
{
	SCOPED(plan, plan_free, p, plan_new, "fake_numa:nodes=64");
	check(p.ret == -E2BIG);
	check_text(p.err.msg,
		   "fake_numa:nodes: 2 nodes in 64 parts have distances of more than a byte");
}
