// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include "buddy.h"
#include "vmstat_diff.h"
#include "memory.h"
#include "pcp.h"
#include "zone.h"
#include "zonelist.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t pcp_list_counts[] = {
	[PCP_LISTS_1] = 1,   [PCP_LISTS_3] = 3,   [PCP_LISTS_15] = 15,
	[PCP_LISTS_13] = 13, [PCP_LISTS_14] = 14,
};

static int check_machine(const struct machine *machine, struct error *err)
{
	int order = machine->pageblock_order;

	if (machine->max_order < 1 || machine->max_order > MAX_PAGE_ORDER)
		return fail(err, EINVAL, "largest order %d is not in 1..%d", machine->max_order,
			    MAX_PAGE_ORDER);
	if (order < 1 || order > machine->max_order)
		return fail(err, EINVAL, "pageblock order %d is not in 1..%d", order,
			    machine->max_order);
	if (machine->nr_cpus < 1 || machine->nr_cpus > UINT16_MAX)
		return fail(err, EINVAL, "%d CPUs", machine->nr_cpus);
	if (machine->nr_nodes < 1 || machine->nr_nodes > UINT16_MAX)
		return fail(err, EINVAL, "%d nodes", machine->nr_nodes);
	for (int cpu = 0; cpu < machine->nr_cpus; cpu++)
		if (machine->cpu_nodes[cpu] >= machine->nr_nodes)
			return fail(err, EINVAL, "CPU %d is on node %d of %d", cpu,
				    machine->cpu_nodes[cpu], machine->nr_nodes);
	return 0;
}

static int check_zones(const struct machine *machine, const struct zone_spec *zones, int nr_zones,
		       struct error *err)
{
	const int64_t most = 1ll << 52; /* pages of a 64-bit physical address space */

	if (nr_zones < 1 || nr_zones > UINT8_MAX)
		return fail(err, EINVAL, "%d populated zones", nr_zones);
	if ((uint64_t)nr_zones * (uint64_t)machine->nr_cpus > UINT16_MAX)
		return fail(err, E2BIG, "%d zones of %d CPUs are more PCPs than the model has",
			    nr_zones, machine->nr_cpus);
	for (int i = 0; i < nr_zones; i++) {
		const struct zone_spec *z = &zones[i];

		if (z->node >= machine->nr_nodes || z->type >= NR_ZONE)
			return fail(err, EINVAL, "zone %d of node %d: there are %d nodes", z->type,
				    z->node, machine->nr_nodes);
		if (z->start_pfn > (uint64_t)most || z->spanned > (uint64_t)most ||
		    z->managed > (uint64_t)most)
			return fail(err, EINVAL, "zone %d of node %d: pfn %llu, %llu of %llu pages",
				    z->type, z->node, (unsigned long long)z->start_pfn,
				    (unsigned long long)z->managed, (unsigned long long)z->spanned);
		if (z->boost < 0 || z->boost > most)
			return fail(err, EINVAL, "zone %d of node %d: boost %lld", z->type, z->node,
				    (long long)z->boost);
		for (int w = 0; w < NR_WMARK; w++)
			if (z->wmark[w] < 0 || z->wmark[w] > most)
				return fail(err, EINVAL, "zone %d of node %d: watermark %lld",
					    z->type, z->node, (long long)z->wmark[w]);
		for (int type = 0; type < NR_ZONE; type++)
			if (z->lowmem_reserve[type] < 0 || z->lowmem_reserve[type] > most)
				return fail(err, EINVAL, "zone %d of node %d: lowmem_reserve %lld",
					    z->type, z->node, (long long)z->lowmem_reserve[type]);
		for (int j = 0; j < i; j++)
			if (zones[j].node == z->node && zones[j].type == z->type &&
			    zones[j].part == z->part)
				return fail(err, EEXIST, "zone %d of node %d comes twice", z->type,
					    z->node);
			else if (z->start_pfn < zones[j].start_pfn + zones[j].spanned &&
				 zones[j].start_pfn < z->start_pfn + z->spanned &&
				 zones[j].node == z->node)
				return fail(err, EINVAL, "zones %d and %d of node %d overlap",
					    zones[j].type, z->type, z->node);
	}
	return 0;
}

/* Place the zones one after the other; returns the frames they need. */
static uint64_t lay_out_zones(struct model *m, const struct zone_spec *specs)
{
	uint64_t align = 1ull << m->max_order, next = 0;

	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone_spec *spec = &specs[i];
		uint64_t base_pfn = spec->start_pfn & ~(align - 1);
		uint64_t end = spec->start_pfn - base_pfn + spec->spanned;
		struct zone *zone = &m->zones[i];

		*zone = (struct zone){
			.number = (uint16_t)i,
			.pcps = (uint32_t)(i * m->nr_cpus),
			.node = spec->node,
			.part = spec->part,
			.type = spec->type,
			.base = (uint32_t)next,
			.start = (uint32_t)(next + spec->start_pfn - base_pfn),
			.end = (uint32_t)(next + end),
			.base_pfn = base_pfn,
			.start_pfn = spec->start_pfn,
			.present = spec->present,
			.managed = spec->managed,
			.wmark_promo = spec->wmark_promo,
			.boost = spec->boost,
			.nr_reserved_highatomic = spec->nr_reserved_highatomic,
			.below_high = spec->below_high,
			.reclaim_active = spec->reclaim_active,
			.boosted_watermark = spec->boosted_watermark,
		};
		memcpy(zone->wmark, spec->wmark, sizeof(zone->wmark));
		memcpy(zone->lowmem_reserve, spec->lowmem_reserve, sizeof(zone->lowmem_reserve));
		next += (end + align - 1) & ~(align - 1);
		if (next > UINT32_MAX)
			break;
	}
	return next;
}

static uint64_t nr_list_heads(const struct model *m)
{
	uint64_t zones = (uint64_t)m->nr_zones;

	return zones * NR_PAGE_ORDERS * NR_MIGRATETYPE +
	       zones * (uint64_t)m->nr_cpus * (uint64_t)m->nr_pcp_lists;
}

/*
 * Where ALLOC_NOFRAGMENT of 5.1 to 6.18 has somewhere else to go (alloc_flags_nofragment
 * with CONFIG_ZONE_DMA32): from NORMAL to a DMA32 of its node; on one node it does not look.
 */
static bool has_lower(const struct model *m, const struct zone *zone)
{
	if (zone->type != ZONE_NORMAL)
		return false;
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == zone->node && m->zones[i].type == ZONE_DMA32 &&
		    m->zones[i].present)
			return true;
	return m->nr_nodes == 1;
}

static void init_list_heads(struct model *m)
{
	uint32_t heads = (uint32_t)nr_list_heads(m), head = m->nr_frames;

	for (uint32_t i = 0; i < heads; i++)
		m->frames[head + i].next = m->frames[head + i].prev = head + i;
	for (int i = 0; i < m->nr_zones; i++, head += NR_PAGE_ORDERS * NR_MIGRATETYPE)
		m->zones[i].heads = head;
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++, head += (uint32_t)m->nr_pcp_lists) {
		m->pcps[i].heads = head;
		m->pcps[i].number = (uint16_t)i;
		m->pcps[i].cpu = (uint16_t)(i % m->nr_cpus);
		m->pcps[i].zone = (uint16_t)(i / m->nr_cpus);
	}
}

/* Frames of a zone's padding. */
static void pad(struct model *m, uint32_t first, uint32_t end)
{
	for (uint32_t frame = first; frame < end; frame++) {
		m->frames[frame].state = FRAME_USED;
		frame_block(m, frame)->nr_old--;
		frame_block(m, frame)->old_movable--;
	}
}

static void init_blocks(struct model *m)
{
	uint16_t pages = (uint16_t)(1u << m->pageblock_order);

	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone *zone = &m->zones[i];
		uint32_t end = i + 1 < m->nr_zones ? m->zones[i + 1].base : m->nr_frames;

		for (uint32_t frame = zone->base; frame < end; frame += pages)
			*frame_block(m, frame) = (struct pageblock){
				.migratetype = MIGRATETYPE_MOVABLE,
				.zone = (uint8_t)i,
				.nr_old = pages,
				.old_movable = pages,
			};
		pad(m, zone->base, zone->start);
		pad(m, zone->end, end);
	}
}

int model_new(struct model **out, const struct kernel *kernel, const struct machine *machine,
	      const struct zone_spec *zones, int nr_zones, struct error *err)
{
	uint64_t frames, bytes;
	struct model *m;
	int ret;

	*out = NULL;
	ret = check_machine(machine, err);
	if (!ret)
		ret = check_zones(machine, zones, nr_zones, err);
	if (ret)
		return ret;
	m = calloc(1, sizeof(*m));
	if (!m)
		return fail(err, ENOMEM, "no memory for a model");
	m->kernel = kernel;
	m->pageblock_order = machine->pageblock_order;
	m->max_order = machine->max_order;
	m->nr_zones = nr_zones;
	m->nr_cpus = machine->nr_cpus;
	m->nr_nodes = machine->nr_nodes;
	m->cpu_nodes = machine->cpu_nodes;
	m->nr_pcp_lists =
		pcp_list_counts[kernel->pcp_lists] + (kernel->reserve_pcp >= RESERVE_PCP_OWN);
	pcp_number_lists(m);
	m->node_parts = machine->node_parts ? machine->node_parts : 1;
	m->zone_parts = machine->zone_parts ? machine->zone_parts : 1;
	m->zones = calloc((size_t)nr_zones, sizeof(*m->zones));
	m->pcps = calloc((size_t)nr_zones * (size_t)m->nr_cpus, sizeof(*m->pcps));
	if (!m->zones || !m->pcps) {
		model_free(m);
		return fail(err, ENOMEM, "no memory for %d zones", nr_zones);
	}
	frames = lay_out_zones(m, zones);
	bytes = (frames + nr_list_heads(m)) * sizeof(*m->frames);
	if (frames + nr_list_heads(m) >= NO_FRAME) {
		model_free(m);
		return fail(err, E2BIG, "%llu pages are more than the model has numbers for",
			    (unsigned long long)frames);
	}
	m->nr_frames = (uint32_t)frames;
	m->frames = memory_new(bytes);
	m->blocks = calloc(m->nr_frames >> m->pageblock_order, sizeof(*m->blocks));
	if (!m->frames || !m->blocks) {
		model_free(m);
		return fail(err, ENOMEM, "no memory for %llu page frames",
			    (unsigned long long)frames);
	}
	init_list_heads(m);
	init_blocks(m);
	for (int i = 0; i < nr_zones; i++)
		vmstat_diff_init(m, &m->zones[i], zones[i].stat_threshold);
	for (int i = 0; i < nr_zones; i++)
		m->zones[i].has_lower = has_lower(m, &m->zones[i]);
	for (int i = 0; i < nr_zones; i++)
		pcp_set_sizes(m, &m->zones[i], machine->pcp_high_fraction);
	m->node_distances = machine->node_distances;
	ret = zonelists_new(m, err);
	if (ret) {
		model_free(m);
		return ret;
	}
	*out = m;
	return 0;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	zonelists_free(m);
	memory_free(m->frames, (m->nr_frames + nr_list_heads(m)) * sizeof(*m->frames));
	free(m->blocks);
	free(m->pcps);
	free(m->zones);
	free(m);
}

uint32_t block_head(const struct model *m, uint32_t frame)
{
	uint32_t head = frame;

	for (int order = 0; m->frames[head].state == FRAME_TAIL && order <= m->max_order; order++)
		head = frame & ~((1u << order) - 1);
	return head;
}

bool block_split(struct model *m, uint32_t head, int order)
{
	struct frame *f = m->frames;
	uint32_t block = head;

	if (f[head].state == FRAME_TAIL || f[head].order != order)
		block = block_head(m, head);
	assert(f[block].state == FRAME_USED || frame_is_live(f[block].state));
	if (head & ((1u << order) - 1) || f[block].order < order)
		return false;
	while (f[block].order > order) {
		int half = f[block].order - 1;
		uint32_t upper = block + (1u << half);

		f[upper].state = f[block].state;
		f[upper].list = f[block].list;
		f[upper].next = NO_FRAME;
		f[upper].order = f[block].order = (uint8_t)half;
		block = head < upper ? block : upper;
	}
	return true;
}

/* Blocks tile the zone, agree with the free lists' counts, and are fully merged. */
static const char *check_blocks(const struct model *m, const struct zone *zone, uint64_t *free,
				uint64_t *pcp)
{
	const struct frame *f = m->frames;

	*free = *pcp = 0;
	for (uint32_t head = zone->base; head < zone->end;) {
		uint32_t pages = 1u << f[head].order, buddy = head ^ pages;

		if (f[head].state == FRAME_TAIL)
			return "a block begins with a tail";
		if (f[head].order > m->max_order || head & (pages - 1))
			return "a block is too large or not aligned";
		for (uint32_t i = 1; i < pages; i++)
			if (f[head + i].state != FRAME_TAIL)
				return "two blocks overlap";
		if (f[head].state == FRAME_OLD && pages != 1)
			return "an old page has an order";
		if (f[head].state == FRAME_PCP)
			*pcp += pages;
		if (f[head].state == FRAME_FREE) {
			*free += pages;
			if (f[head].order < m->pageblock_order && f[buddy].state == FRAME_FREE &&
			    f[buddy].order == f[head].order)
				return "two free buddies did not merge";
			if (m->kernel->drained_type == DRAINED_BLOCK &&
			    f[head].list != frame_block(m, head)->migratetype &&
			    !(m->kernel->reserve_leaks &&
			      frame_block(m, head)->migratetype == MIGRATETYPE_RESERVE))
				return "a free block is on a list of another migratetype";
		}
		head += pages;
	}
	return NULL;
}

static const char *check_free_lists(const struct model *m, const struct zone *zone, uint64_t free)
{
	uint64_t pages = 0;

	for (int order = 0; order < NR_PAGE_ORDERS; order++) {
		for (int type = 0; type < NR_MIGRATETYPE; type++) {
			uint32_t list = free_list(zone, order, type), nr = 0;

			for (uint32_t i = m->frames[list].next; i != list; i = m->frames[i].next) {
				const struct frame *f = &m->frames[i];

				if (f->state != FRAME_FREE || f->order != order ||
				    f->list != type || m->frames[f->next].prev != i)
					return "a free list holds a foreign block";
				if (++nr > zone->nr_free[order][type])
					return "nr_free is less than the list";
			}
			if (nr != zone->nr_free[order][type])
				return "nr_free is more than the list";
			pages += (uint64_t)nr << order;
		}
	}
	if (pages != zone->nr_free_pages)
		return "nr_free_pages is not the sum of the lists";
	return pages == free ? NULL : "a free block is on no list";
}

static const char *check_pcps(const struct model *m, const struct zone *zone, uint64_t pages)
{
	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		const struct pcp *pcp = zone_pcp(m, zone, cpu);
		int64_t count = 0;

		for (int list = 0; list < m->nr_pcp_lists; list++) {
			uint32_t head = pcp->heads + (uint32_t)list;

			for (uint32_t i = m->frames[head].next; i != head; i = m->frames[i].next) {
				if (m->frames[i].state != FRAME_PCP ||
				    &m->pcps[m->frames[i].list] != pcp ||
				    frame_zone(m, i) != zone ||
				    m->frames[m->frames[i].next].prev != i)
					return "a PCP list holds a foreign block";
				count += 1 << m->frames[i].order;
			}
		}
		if (count != pcp->count)
			return "a PCP's count is not that of its lists";
		pages -= (uint64_t)count;
	}
	return pages ? "a PCP block is on no list" : NULL;
}

static const char *check_block_counts(const struct model *m, const struct zone *zone)
{
	uint32_t block = 1u << m->pageblock_order;

	for (uint32_t start = zone->base; start < zone->end; start += block) {
		const struct pageblock *counted = frame_block(m, start);
		uint32_t old = 0, live[MIGRATETYPE_RECLAIMABLE + 1] = {0};

		for (uint32_t frame = start; frame < start + block; frame++) {
			enum frame_state state = m->frames[block_head(m, frame)].state;

			old += state == FRAME_OLD;
			if (frame_is_live(state))
				live[state - FRAME_USED_UNMOVABLE]++;
		}
		if (old != counted->nr_old)
			return "nr_old is wrong";
		if (counted->old_lru > old)
			return "more pages are on LRU lists than are old";
		for (int type = 0; type <= MIGRATETYPE_RECLAIMABLE; type++)
			if (live[type] != counted->nr_live[type])
				return "nr_live is wrong";
	}
	return NULL;
}

const char *model_check(const struct model *m)
{
	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone *zone = &m->zones[i];
		uint64_t free, pcp;
		const char *wrong = check_blocks(m, zone, &free, &pcp);

		if (!wrong)
			wrong = check_free_lists(m, zone, free);
		if (!wrong)
			wrong = check_pcps(m, zone, pcp);
		if (!wrong)
			wrong = check_block_counts(m, zone);
		if (wrong)
			return wrong;
	}
	return NULL;
}
