// SPDX-License-Identifier: Apache-2.0
#include "model_new.h"

#include "memory.h"
#include "pcp.h"
#include "vmstat_diff.h"
#include "zonelist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	CPUS_MOST = 8192,  /* CONFIG_NR_CPUS of x86-64 with MAXSMP */
	NODES_MOST = 1024, /* CONFIG_NODES_SHIFT 10 */
	/*
	 * Pages of the zones together: 128 GiB of 4 KiB, about 1 GiB of memory for a run. More if
	 * the tape has pageblocks of at least one in KNOWN_SHARE of them; the zones of a machine
	 * whose memory is plugged on demand span much that does not exist.
	 */
	PAGES_MOST = 1 << 25,
	KNOWN_SHARE = 8,
	PAGE_BYTES_LEAST = 4096,
	PAGE_BYTES_MOST = 1 << 20,
};

static const uint8_t pcp_list_counts[] = {
	[PCP_LISTS_1] = 1,   [PCP_LISTS_3] = 3,   [PCP_LISTS_15] = 15,
	[PCP_LISTS_13] = 13, [PCP_LISTS_14] = 14,
};

static int check_machine(const struct machine *machine, struct error *err)
{
	uint32_t page_bytes = machine_page_bytes(machine);
	int order = machine->pageblock_order;

	if (page_bytes < PAGE_BYTES_LEAST || page_bytes > PAGE_BYTES_MOST ||
	    page_bytes & (page_bytes - 1))
		return fail(err, EINVAL, "pages of %u bytes: a power of two in %d..%d is needed",
			    page_bytes, PAGE_BYTES_LEAST, PAGE_BYTES_MOST);
	if (machine->max_order < 1 || machine->max_order > MAX_PAGE_ORDER)
		return fail(err, EINVAL, "largest order %d is not in 1..%d", machine->max_order,
			    MAX_PAGE_ORDER);
	if (order < 1 || order > machine->max_order)
		return fail(err, EINVAL, "pageblock order %d is not in 1..%d", order,
			    machine->max_order);
	if (machine->nr_cpus < 1 || machine->nr_cpus > CPUS_MOST)
		return fail(err, EINVAL, "%d CPUs: there may be 1 to %d", machine->nr_cpus,
			    CPUS_MOST);
	if (machine->nr_nodes < 1 || machine->nr_nodes > NODES_MOST)
		return fail(err, EINVAL, "%d nodes: there may be 1 to %d", machine->nr_nodes,
			    NODES_MOST);
	for (int cpu = 0; cpu < machine->nr_cpus; cpu++)
		if (machine->cpu_nodes[cpu] >= machine->nr_nodes)
			return fail(err, EINVAL, "CPU %d is on node %d of %d", cpu,
				    machine->cpu_nodes[cpu], machine->nr_nodes);
	return 0;
}

static int check_zone(const struct machine *machine, const struct zone_spec *z, struct error *err)
{
	const int64_t most = 1ll << 52; /* pages of a 64-bit physical address space */

	if (z->node >= machine->nr_nodes || z->type >= NR_ZONE)
		return fail(err, EINVAL, "zone %d of node %d: there are %d nodes", z->type, z->node,
			    machine->nr_nodes);
	if (z->start_pfn > (uint64_t)most || z->spanned > (uint64_t)most ||
	    z->managed > z->spanned || z->present > z->spanned ||
	    z->nr_reserved_highatomic > (uint64_t)most)
		return fail(err, EINVAL,
			    "zone %d of node %d: pfn %llu, %llu and %llu of %llu pages", z->type,
			    z->node, (unsigned long long)z->start_pfn,
			    (unsigned long long)z->managed, (unsigned long long)z->present,
			    (unsigned long long)z->spanned);
	if (z->boost < 0 || z->boost > most)
		return fail(err, EINVAL, "zone %d of node %d: boost %lld", z->type, z->node,
			    (long long)z->boost);
	for (int w = 0; w < NR_WMARK; w++)
		if (z->wmark[w] < 0 || z->wmark[w] > most)
			return fail(err, EINVAL, "zone %d of node %d: watermark %lld", z->type,
				    z->node, (long long)z->wmark[w]);
	for (int type = 0; type < NR_ZONE; type++)
		if (z->lowmem_reserve[type] < 0 || z->lowmem_reserve[type] > most)
			return fail(err, EINVAL, "zone %d of node %d: lowmem_reserve %lld", z->type,
				    z->node, (long long)z->lowmem_reserve[type]);
	return 0;
}

static int check_pair(const struct zone_spec *a, const struct zone_spec *b, struct error *err)
{
	if (a->node != b->node)
		return 0;
	if (a->type == b->type && a->part == b->part)
		return fail(err, EEXIST, "zone %d of node %d comes twice", b->type, b->node);
	if (b->start_pfn < a->start_pfn + a->spanned && a->start_pfn < b->start_pfn + b->spanned)
		return fail(err, EINVAL, "zones %d and %d of node %d overlap", a->type, b->type,
			    b->node);
	return 0;
}

static int check_zones(const struct machine *machine, const struct zone_spec *zones, int nr_zones,
		       struct error *err)
{
	int ret = 0;

	if (nr_zones < 1 || nr_zones > UINT8_MAX)
		return fail(err, EINVAL, "%d populated zones", nr_zones);
	/* A frame's list has the number of its PCP, or one of the marks from ISOLATED on. */
	if ((uint64_t)nr_zones * (uint64_t)machine->nr_cpus > ISOLATED)
		return fail(err, E2BIG, "%d zones of %d CPUs are more PCPs than the model has",
			    nr_zones, machine->nr_cpus);
	for (int i = 0; i < nr_zones && !ret; i++) {
		ret = check_zone(machine, &zones[i], err);
		for (int j = 0; j < i && !ret; j++)
			ret = check_pair(&zones[j], &zones[i], err);
	}
	return ret;
}

/* Whether the memory for a run with these zones is bounded by what the tape has. */
static int check_pages(const struct machine *machine, const struct zone_spec *zones, int nr_zones,
		       struct error *err)
{
	uint64_t most = machine->known_pages * KNOWN_SHARE, pages = 0;

	for (int i = 0; i < nr_zones; i++)
		pages += zones[i].spanned;
	if (pages > PAGES_MOST && pages > most)
		return fail(err, E2BIG,
			    "the zones span %llu pages, but the tape has pageblocks of only %llu",
			    (unsigned long long)pages, (unsigned long long)machine->known_pages);
	return 0;
}

int machine_check(const struct machine *machine, const struct zone_spec *zones, int nr_zones,
		  struct error *err)
{
	int ret = check_machine(machine, err);

	ret = ret ?: check_zones(machine, zones, nr_zones, err);
	return ret ? ret : check_pages(machine, zones, nr_zones, err);
}

/* Place the zones one after the other; returns the frames that they need. */
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
 * Whether ALLOC_NOFRAGMENT of 5.1 to 6.18 applies to a zone: NORMAL zones with a DMA32 zone on
 * their node. On a machine of one node the kernel does not look for the DMA32 zone
 * (alloc_flags_nofragment with CONFIG_ZONE_DMA32).
 */
static bool nofragment_applies(const struct model *m, const struct zone *zone)
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
	list_nr heads = (uint32_t)nr_list_heads(m), head = m->nr_frames;

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

/* The frames of a zone's padding stay used. */
static void pad(struct model *m, uint32_t first, uint32_t end)
{
	for (frame_nr frame = first; frame < end; frame++) {
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

		for (frame_nr frame = zone->base; frame < end; frame += pages)
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

static void set_sizes(struct model *m, const struct machine *machine)
{
	m->pageblock_order = machine->pageblock_order;
	m->max_order = machine->max_order;
	m->page_bytes = machine_page_bytes(machine);
	m->nr_cpus = machine->nr_cpus;
	m->nr_nodes = machine->nr_nodes;
	m->cpu_nodes = machine->cpu_nodes;
	m->node_distances = machine->node_distances;
	m->node_parts = machine->node_parts ? machine->node_parts : 1;
	m->zone_parts = machine->zone_parts ? machine->zone_parts : 1;
	m->nr_pcp_lists =
		pcp_list_counts[m->kernel->pcp_lists] + (m->kernel->reserve_pcp >= RESERVE_PCP_OWN);
	pcp_number_lists(m);
}

static int alloc_zones(struct model *m, const struct zone_spec *zones, struct error *err)
{
	uint64_t frames;

	m->zones = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*m->zones));
	m->pcps = arrays_new(m->arrays, (size_t)m->nr_zones * (size_t)m->nr_cpus, sizeof(*m->pcps));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	frames = lay_out_zones(m, zones);
	if (frames + nr_list_heads(m) >= NO_FRAME)
		return fail(err, E2BIG, "%llu pages are more than the model has numbers for",
			    (unsigned long long)frames);
	m->nr_frames = (uint32_t)frames;
	m->frames = arrays_map(m->arrays, m->nr_frames + nr_list_heads(m), sizeof(*m->frames));
	m->blocks = arrays_new(m->arrays, m->nr_frames >> m->pageblock_order, sizeof(*m->blocks));
	return arrays_error(m->arrays, err);
}

int model_new(struct model **out, const struct kernel *kernel, const struct machine *machine,
	      const struct zone_spec *zones, int nr_zones, struct error *err)
{
	struct model *m;
	int ret;

	*out = NULL;
	ret = machine_check(machine, zones, nr_zones, err);
	if (ret)
		return ret;
	m = calloc(1, sizeof(*m));
	if (!m || !(m->arrays = calloc(1, sizeof(*m->arrays)))) {
		free(m);
		return fail(err, ENOMEM, "no memory for a model");
	}
	m->kernel = kernel;
	m->nr_zones = nr_zones;
	set_sizes(m, machine);
	ret = alloc_zones(m, zones, err);
	if (ret) {
		model_free(m);
		return ret;
	}
	m->tiers = machine->tiers;
	init_list_heads(m);
	init_blocks(m);
	for (int i = 0; i < nr_zones; i++) {
		vmstat_diff_init(m, &m->zones[i], zones[i].stat_threshold);
		m->zones[i].nofragment_applies = nofragment_applies(m, &m->zones[i]);
		m->has_highmem |= zones[i].type == ZONE_HIGHMEM;
		pcp_set_sizes(m, &m->zones[i], machine->pcp_high_fraction);
	}
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
	arrays_free(m->arrays);
	free(m->arrays);
	free(m);
}
