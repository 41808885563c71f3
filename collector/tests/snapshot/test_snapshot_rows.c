// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "snapshot/snapshot_rows.h"
#include "tables.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* An invented kernel: one zone of one section from pfn 32768 on, two CPUs. */
enum { START = 32768, SPANNED = 32768, CPUS = 2, ORDERS = 11, TYPES = 5, PCP_LISTS = 14 };
enum { UNMOVABLE, MOVABLE, RECLAIMABLE, HIGHATOMIC, ISOLATE };

struct made_head {
	uint64_t next, prev;
};

struct made_zone {
	uint64_t _watermark[4], watermark_boost, nr_reserved_highatomic, nr_free_highatomic;
	int64_t lowmem_reserve[4];
	uint64_t zone_start_pfn, managed_pages, spanned_pages, present_pages;
	struct {
		struct made_head free_list[TYPES];
		uint64_t nr_free;
	} free_area[ORDERS];
	uint64_t flags;
	uint32_t lock;
	uint64_t vm_stat[3];
};

struct made_pcp {
	uint32_t lock, count, high, high_min, high_max, batch;
	uint8_t flags, alloc_factor, expire;
	int16_t free_count;
	struct made_head lists[PCP_LISTS];
};

struct made {
	struct control control;
	struct zone_place place;
	struct zone_image zone;
	struct pcp_image pcps[CPUS];
	struct section_image section;
	uint64_t nodes[64];
	uint8_t online[CPUS];
	struct snapshot_zone zones[1];
	struct snapshot_images images;
	struct snapshot_result result;
};

static const uint64_t vmemmap = 0xffffea0000000000, page_size = 64, lru = 8;

#define PLACE(type, member)                                                                        \
	((struct kernel_field){offsetof(type, member), sizeof(((type *)0)->member)})

static struct made_zone *zone_of(struct made *m)
{
	return (struct made_zone *)m->zone.before;
}

static struct made_pcp *pcp_of(struct made *m, int cpu)
{
	return (struct made_pcp *)m->pcps[cpu].before;
}

static uint64_t node_of(uint64_t pfn)
{
	return vmemmap + pfn * page_size + lru;
}

/* A quiet zone without free pages: all blocks MOVABLE, empty PCPs, a 6.18-like layout. */
static struct made *quiet_zone(void)
{
	struct made *m = calloc(1, sizeof(*m));
	struct kernel_layout *l = &m->control.layout;

	l->zone_size = sizeof(struct made_zone);
	l->page_size = page_size;
	l->page_lru = lru;
	l->pcp_size = sizeof(struct made_pcp);
	l->zones_per_node = 4;
	l->free_area_size = sizeof(zone_of(m)->free_area[0]);
	l->free_list = (struct kernel_field){0, TYPES * sizeof(struct made_head)};
	l->nr_free = (struct kernel_field){TYPES * sizeof(struct made_head), 8};
	l->vm_stat_diff = (struct kernel_field){0, 3};
	l->stat_threshold = (struct kernel_field){3, 1};
#define PLACE_IN_ZONE(member) l->zone.member = PLACE(struct made_zone, member);
	SNAPSHOT_ZONE_FIELDS(PLACE_IN_ZONE)
	l->pcp.lock = PLACE(struct made_pcp, lock);
	l->pcp.count = PLACE(struct made_pcp, count);
	l->pcp.high = PLACE(struct made_pcp, high);
	l->pcp.batch = PLACE(struct made_pcp, batch);
	l->pcp.alloc_factor = PLACE(struct made_pcp, alloc_factor);
	l->pcp.lists = PLACE(struct made_pcp, lists);
	l->MIGRATE_UNMOVABLE_ = UNMOVABLE;
	l->MIGRATE_MOVABLE_ = MOVABLE;
	l->MIGRATE_RECLAIMABLE_ = RECLAIMABLE;
	l->MIGRATE_HIGHATOMIC_ = HIGHATOMIC;
	l->MIGRATE_CMA_ = -1;
	l->MIGRATE_ISOLATE_ = ISOLATE;
	l->MIGRATE_PCPTYPES_ = 3;
	l->NR_FREE_CMA_PAGES_ = -1;
	l->NR_PAGEBLOCK_BITS_ = -1;
	l->__NR_PAGEBLOCK_BITS_ = 5;
	l->PB_migrate_isolate_ = 4;
	l->ZONE_BELOW_HIGH_ = 2;

	m->control.nr_cpus = CPUS;
	m->control.nr_zones = 1;
	m->control.vmemmap = vmemmap;
	m->control.section_shift = 15;
	m->control.section_bytes = 64;
	strcpy(m->control.zone_name[2], "Normal");
	m->place = (struct zone_place){
		.start_pfn = START,
		.spanned = SPANNED,
		.first_deferred_pfn = UINT64_MAX,
		.index = 2,
		.nr_sections = 1,
	};
	zone_of(m)->zone_start_pfn = START;
	zone_of(m)->spanned_pages = SPANNED;
	m->section.mem_map = vmemmap;
	memset(m->section.before, MOVABLE, 64);
	for (int cpu = 0; cpu < CPUS; cpu++)
		m->online[cpu] = 1;
	m->images = (struct snapshot_images){
		.control = &m->control,
		.places = &m->place,
		.zones = &m->zone,
		.pcps = m->pcps,
		.sections = &m->section,
		.nodes = m->nodes,
		.online = m->online,
		.pageblock_order = 9,
		.thp_order = 9,
	};
	m->result.cut_order = 4;
	m->result.cut_ns = 1000;
	m->result.taken = true;
	return m;
}

static void append(struct made *m, struct list_image *list, uint64_t pfn)
{
	if (!list->nr)
		list->first = m->control.nr_nodes_used;
	m->nodes[m->control.nr_nodes_used++] = node_of(pfn);
	list->nr++;
}

/* Append a block to a free list, and count it wherever the kernel does. */
static void add_free(struct made *m, int order, int type, uint64_t pfn)
{
	append(m, &m->zone.list[order * SNAPSHOT_MAX_TYPES + type], pfn);
	zone_of(m)->free_area[order].nr_free++;
	zone_of(m)->vm_stat[0] += 1u << order;
}

/* The same in a PCP list. */
static void add_pcp_entry(struct made *m, int cpu, int list, int order, uint64_t pfn)
{
	append(m, &m->pcps[cpu].list[list], pfn);
	pcp_of(m, cpu)->count += 1u << order;
}

/* The second copies of the walks if nothing changed in between. */
static void nothing_moves(struct made *m)
{
	memcpy(m->zone.after, m->zone.before, sizeof(m->zone.after));
	memcpy(m->section.after, m->section.before, sizeof(m->section.after));
	for (int cpu = 0; cpu < CPUS; cpu++)
		memcpy(m->pcps[cpu].after, m->pcps[cpu].before, sizeof(m->pcps[cpu].after));
}

static struct batch *rows_of(struct made *m, const char *table)
{
	for (int t = 0; t < SNAPSHOT_TABLES; t++)
		if (!strcmp(m->result.tables[t]->table->name, table))
			return m->result.tables[t];
	return NULL;
}

#define ROWS(m, name) ((struct name##_columns *)rows_of(m, #name)->slots)

static int make_rows(struct made *m)
{
	return snapshot_rows(&m->images, 7, m->zones, &m->result, NULL);
}

static void forget(struct made *m)
{
	for (int t = 0; t < SNAPSHOT_TABLES; t++)
		batch_free(m->result.tables[t]);
	free(m);
}

TEST(free_blocks_come_in_list_order)
{
	struct made *m = quiet_zone();
	struct free_block_columns *row;

	add_free(m, 3, MOVABLE, START + 512);
	add_free(m, 3, MOVABLE, START + 64);
	add_free(m, 0, MOVABLE, START + 5);
	nothing_moves(m);
	check(make_rows(m) == 0);
	row = ROWS(m, free_block);
	check(rows_of(m, "free_block")->nr == 3);
	check(row->pfn[0] == START + 5 && row->page_order[0] == 0);
	check(row->pfn[1] == START + 512 && row->page_order[1] == 3);
	check(row->pfn[2] == START + 64 && row->migratetype[2] == MIGRATETYPE_MOVABLE);
	check(row->snapshot[2] == 7 && row->ts[2] == 1000 && row->zone[2] == ZONE_NORMAL);
	check(m->zones[0].free_blocks == 3);
	check(m->result.exact);
	forget(m);
}

TEST(an_entry_more_or_less_is_a_wrong_sum)
{
	struct made *m = quiet_zone();

	add_free(m, 2, MOVABLE, START + 8);
	zone_of(m)->free_area[2].nr_free++;
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(m->result.checks.list_sums == ORDERS);
	check(m->result.checks.list_sums_wrong == 1);
	check(!m->result.exact);
	forget(m);
}

TEST(a_free_page_in_a_block_of_another_type_is_wrong)
{
	struct made *m = quiet_zone();

	add_free(m, 10, MOVABLE, START + 1024); /* two blocks: the second one differs */
	add_free(m, 0, UNMOVABLE, START + 4096);
	m->section.before[3] = RECLAIMABLE;
	m->section.before[8] = UNMOVABLE;
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(m->result.checks.list_types == 2);
	check(m->result.checks.list_types_wrong == 1);
	forget(m);
}

TEST(blocks_whose_struct_pages_are_not_made_yet_have_no_rows)
{
	struct made *m = quiet_zone();

	m->place.first_deferred_pfn = START + 10 * 512;
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(rows_of(m, "pageblock")->nr == 10);
	check(ROWS(m, block_count)->nr_blocks[MIGRATETYPE_MOVABLE] == 10);
	forget(m);
}

TEST(an_isolated_block_keeps_its_type)
{
	struct made *m = quiet_zone();

	add_free(m, 9, ISOLATE, START + 512);
	zone_of(m)->vm_stat[0] = 0; /* isolated pages do not count as free */
	m->section.before[1] = RECLAIMABLE | 1 << 4;
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(m->result.exact);
	check(ROWS(m, pageblock)->migratetype[1] == MIGRATETYPE_RECLAIMABLE);
	check(ROWS(m, pageblock)->isolated[1] && is_valid(ROWS(m, pageblock)->isolated_valid, 1));
	check(!ROWS(m, pageblock)->isolated[0]);
	check(rows_of(m, "pageblock")->nr == 64);
	check(ROWS(m, block_count)->nr_blocks[MIGRATETYPE_ISOLATE] == 1);
	check(ROWS(m, block_count)->nr_blocks[MIGRATETYPE_MOVABLE] == 63);
	forget(m);
}

/* 6.1: four bits a block, no account of free HIGHATOMIC pages, the counter follows late. */
TEST(in_6_1_the_cut_leaves_the_counter_after_its_event)
{
	struct made *m = quiet_zone();

	m->control.layout.zone.nr_free_highatomic.size = 0;
	m->control.layout.PB_migrate_isolate_ = -1;
	m->control.layout.NR_PAGEBLOCK_BITS_ = 4;
	m->control.section_bytes = 32;
	memset(m->section.before, MOVABLE | UNMOVABLE << 4, 32);
	add_free(m, 0, RECLAIMABLE, START + 5); /* allowed there in a MOVABLE block */
	zone_of(m)->vm_stat[0] += 16;
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(m->result.exact);
	check(m->result.checks.list_types == 0);
	check(ROWS(m, zone)->free[0] == 1);
	check(!is_valid(ROWS(m, zone)->nr_free_highatomic_valid, 0));
	check(!is_valid(ROWS(m, pageblock)->isolated_valid, 0));
	check(ROWS(m, pageblock)->migratetype[0] == MIGRATETYPE_MOVABLE);
	check(ROWS(m, pageblock)->migratetype[1] == MIGRATETYPE_UNMOVABLE);
	forget(m);
}

TEST(unfolded_deltas_count_as_free_pages)
{
	struct made *m = quiet_zone();

	add_free(m, 3, MOVABLE, START + 8);
	zone_of(m)->vm_stat[0] = 11;
	m->pcps[0].stat[0] = (uint8_t)-5;
	m->pcps[1].stat[0] = 2;
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(m->result.checks.free_counters == 1 && m->result.checks.free_counters_wrong == 0);
	check(ROWS(m, zone)->free[0] == 11);
	check(ROWS(m, pcp)->vm_stat_diff[0] == -5);
	check(ROWS(m, pcp)->vm_stat_diff[1] == 2);
	forget(m);
}

TEST(pcp_lists_have_their_orders_and_types)
{
	static const struct {
		int list;
		uint8_t order, type;
	} lists[] = {
		{0, 0, MIGRATETYPE_UNMOVABLE},    {4, 1, MIGRATETYPE_MOVABLE},
		{11, 3, MIGRATETYPE_RECLAIMABLE}, {12, 9, MIGRATETYPE_UNMOVABLE},
		{13, 9, MIGRATETYPE_MOVABLE},
	};
	struct made *m = quiet_zone();

	for (uint64_t i = 0; i < 5; i++)
		add_pcp_entry(m, 1, lists[i].list, lists[i].order, START + i * 512);
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(m->result.exact);
	check(m->result.checks.pcp_sums == CPUS);
	check(m->result.checks.pcp_types == 3); /* the two of order 9 share their lists */
	check(m->result.checks.pcp_types_differ == 2);
	check(rows_of(m, "pcp_page")->nr == 5);
	for (uint64_t i = 0; i < 5; i++) {
		check(ROWS(m, pcp_page)->cpu[i] == 1);
		check(ROWS(m, pcp_page)->pfn[i] == START + i * 512);
		check(ROWS(m, pcp_page)->page_order[i] == lists[i].order);
		check(ROWS(m, pcp_page)->migratetype[i] == lists[i].type);
	}
	check(ROWS(m, pcp)->count[1] == 1 + 2 + 8 + 512 + 512);
	check(is_valid(ROWS(m, pcp)->alloc_factor_valid, 1));
	check(!is_valid(ROWS(m, pcp)->free_factor_valid, 1));
	forget(m);
}

TEST(before_6_10_the_only_thp_list_is_movable)
{
	struct made *m = quiet_zone();

	m->control.layout.pcp.lists.size -= sizeof(struct made_head);
	add_pcp_entry(m, 0, 12, 9, START);
	nothing_moves(m);
	check(make_rows(m) == 0);
	check(ROWS(m, pcp_page)->page_order[0] == 9);
	check(ROWS(m, pcp_page)->migratetype[0] == MIGRATETYPE_MOVABLE);
	forget(m);
}

TEST(a_pcp_is_still_only_if_nothing_changed)
{
	struct made *m = quiet_zone();

	add_pcp_entry(m, 0, 0, 0, START + 1);
	nothing_moves(m);
	check(pcp_counters_still(&m->images, 0));
	((struct made_pcp *)m->pcps[0].after)->lists[0].next++;
	check(!pcp_counters_still(&m->images, 0));

	pcp_of(m, 1)->lock = 1;
	nothing_moves(m);
	check(!pcp_counters_still(&m->images, 1));
	free(m);
}

TEST(a_zone_is_still_only_if_nothing_changed)
{
	struct made *m = quiet_zone();

	nothing_moves(m);
	check(zone_counters_still(&m->images, 0));
	((struct made_zone *)m->zone.after)->free_area[3].free_list[MOVABLE].prev++;
	check(!zone_counters_still(&m->images, 0));

	nothing_moves(m);
	((struct made_zone *)m->zone.after)->lock = 1;
	check(!zone_counters_still(&m->images, 0));
	free(m);
}

TEST(what_was_not_taken_has_no_rows)
{
	struct made *m = quiet_zone();

	add_pcp_entry(m, 0, 1, 0, START + 64);
	add_free(m, 0, MOVABLE, START + 7);
	m->result.taken = false;
	check(make_rows(m) == 0);
	for (int t = 0; t < SNAPSHOT_TABLES; t++)
		check(m->result.tables[t]->nr == 0);
	check(m->zones[0].zone == ZONE_NORMAL && m->zones[0].free_blocks == 0);
	check(!m->result.exact);
	forget(m);
}
