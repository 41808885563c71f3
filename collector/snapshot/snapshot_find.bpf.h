/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_find.bpf.h - the programs that find the allocator's data: find_vmcoreinfo and find_zones
 * of snapshot.bpf.c. Included by that file, because linking BPF objects would need bpftool at build
 * time.
 */
#pragma once

#include "snapshot_maps.bpf.h"

/* --- find_vmcoreinfo: the kernel describes itself --- */

static long try_direct_map(__u32 i, void *unused)
{
	static const char name[] = "VMCOREINFO";
	struct {
		__u32 namesz, descsz, type;
		char name[sizeof(name)];
	} note;
	__u64 offset = (control.task >> 30 << 30) - ((__u64)i << 30);

	if (bpf_probe_read_kernel(&note, sizeof(note),
				  (void *)(offset + control.vmcoreinfo_paddr)) ||
	    note.namesz != sizeof(name))
		return 0;
	for (__u32 n = 0; n < sizeof(name); n++)
		if (note.name[n] != name[n])
			return 0;
	control.direct_map = offset;
	return 1;
}

/*
 * /sys/kernel/vmcoreinfo has the note's physical address. The direct map starts on a GiB
 * boundary below any task_struct (kernel_randomize_memory, 6.12): at the first such boundary
 * from which the note is visible.
 */
SEC("syscall")
int find_vmcoreinfo(void *ctx)
{
	control.task = bpf_get_current_task();
	bpf_loop(1 << 16, try_direct_map, NULL, 0);
	if (control.direct_map)
		bpf_probe_read_kernel(control.vmcoreinfo, sizeof(control.vmcoreinfo),
				      (void *)(control.direct_map + control.vmcoreinfo_paddr));
	return 0;
}

/* --- find_zones: the places and sizes of the allocator's state --- */

#define PLACE(field, type, member)                                                                 \
	if (bpf_core_field_exists(type, member)) {                                                 \
		(field).offset = bpf_core_field_offset(type, member);                              \
		(field).size = bpf_core_field_size(type, member);                                  \
	}

static void describe_kernel(struct kernel_layout *l)
{
	l->zone_size = bpf_core_type_size(struct zone);
	l->page_size = bpf_core_type_size(struct page);
	l->pcp_size = bpf_core_type_size(struct per_cpu_pages);
	l->zonestat_size = bpf_core_type_size(struct per_cpu_zonestat);
	l->free_area_size = bpf_core_type_size(struct free_area);
	l->page_lru = bpf_core_field_offset(struct page, lru);
	l->sleeping_locks = !bpf_core_field_exists(struct spinlock, rlock);
	l->zones_per_node = bpf_core_field_size(struct pglist_data, node_zones) /
			    bpf_core_type_size(struct zone);
	PLACE(l->free_list, struct free_area, free_list);
	PLACE(l->nr_free, struct free_area, nr_free);
	PLACE(l->vm_stat_diff, struct per_cpu_zonestat, vm_stat_diff);
	PLACE(l->stat_threshold, struct per_cpu_zonestat, stat_threshold);
#define PLACE_IN_ZONE(member) PLACE(l->zone.member, struct zone, member)
	SNAPSHOT_ZONE_FIELDS(PLACE_IN_ZONE)
#undef PLACE_IN_ZONE
#define PLACE_IN_PCP(member) PLACE(l->pcp.member, struct per_cpu_pages, member)
	SNAPSHOT_PCP_FIELDS(PLACE_IN_PCP)
#undef PLACE_IN_PCP
#define ENUMERATE(type, name)                                                                      \
	l->name##_ = -1;                                                                           \
	if (bpf_core_enum_value_exists(enum type, name))                                           \
		l->name##_ = bpf_core_enum_value(enum type, name);
	SNAPSHOT_ENUMERATORS(ENUMERATE)
#undef ENUMERATE
}

/* A CPU's per-cpu offset is the address of its copy minus the per-cpu pointer. */
static long find_percpu_offset(__u32 cpu, __u64 *pointer)
{
	volatile __u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);
	__u32 zero = 0;

	if (!offset)
		return 1;
	*offset = (__u64)bpf_map_lookup_percpu_elem(&probe, &zero, cpu);
	*offset -= *pointer;
	return 0;
}

static void find_percpu_offsets(void)
{
	__u32 zero = 0;
	/* Through memory, because the verifier forbids arithmetic on the address itself. */
	volatile __u64 *map = bpf_map_lookup_elem(&percpu_offset, &zero);
	__u64 pointer;

	if (!map)
		return;
	*map = (__u64)&probe;
	pointer = read_u64(*map + bpf_core_field_offset(struct bpf_array, pptrs));
	bpf_loop(control.nr_cpus, find_percpu_offset, &pointer, 0);
}

struct pcp_sum {
	__u64 pcp; /* per-cpu pointer */
	__u64 pages;
};

static long add_pcp_count(__u32 cpu, struct pcp_sum *sum)
{
	__u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);
	int count = 0;

	if (offset)
		bpf_probe_read_kernel(&count, sizeof(count),
				      (void *)(sum->pcp + *offset +
					       bpf_core_field_offset(struct per_cpu_pages, count)));
	sum->pages += count > 0 ? count : 0;
	return 0;
}

/* Address of the struct mem_section of section `nr`, 0 for none (SPARSEMEM_EXTREME). */
static __u64 section_address(__u64 nr)
{
	const __u64 size = bpf_core_type_size(struct mem_section), per_root = PAGE_SIZE / size;
	__u64 root = read_u64(control.mem_section + nr / per_root * sizeof(void *));

	return root ? root + nr % per_root * size : 0;
}

/*
 * Its memory map, encoded so that with SPARSEMEM_VMEMMAP it is the struct page of pfn 0
 * (sparse_encode_mem_map, 6.12), plus flags below bit 12. 0 for a section without memory.
 */
static __u64 section_mem_map(__u64 section)
{
	return section ? read_u64(section +
				  bpf_core_field_offset(struct mem_section, section_mem_map)) >>
				 12 << 12
		       : 0;
}

static void find_zone(struct pglist_data *pgdat, __u32 node, __u32 index)
{
	struct zone *zone = (void *)pgdat + bpf_core_field_offset(struct pglist_data, node_zones) +
			    index * bpf_core_type_size(struct zone);
	const __u32 nr_orders =
		bpf_core_field_size(struct zone, free_area) / bpf_core_type_size(struct free_area);
	struct pcp_sum sum = {};
	__u32 z = control.nr_zones;
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);

	if (index < SNAPSHOT_MAX_ZONES_PER_NODE)
		bpf_probe_read_kernel_str(control.zone_name[index],
					  sizeof(control.zone_name[index]),
					  BPF_CORE_READ(zone, name));
	if (!place || !BPF_CORE_READ(zone, present_pages))
		return;
	place->address = (__u64)zone;
	place->pcp = (__u64)BPF_CORE_READ(zone, per_cpu_pageset);
	place->stat = (__u64)BPF_CORE_READ(zone, per_cpu_zonestats);
	place->start_pfn = BPF_CORE_READ(zone, zone_start_pfn);
	place->spanned = BPF_CORE_READ(zone, spanned_pages);
	place->first_deferred_pfn = ~0ull;
	if (bpf_core_field_exists(struct pglist_data, first_deferred_pfn))
		place->first_deferred_pfn = BPF_CORE_READ(pgdat, first_deferred_pfn);
	place->node = node;
	place->index = index;
	place->free_blocks = 0;
	for (__u32 order = 0; order < nr_orders && order < SNAPSHOT_MAX_ORDERS; order++)
		place->free_blocks +=
			read_u64((__u64)zone + bpf_core_field_offset(struct zone, free_area) +
				 order * bpf_core_type_size(struct free_area) +
				 bpf_core_field_offset(struct free_area, nr_free));
	sum.pcp = place->pcp;
	bpf_loop(control.nr_cpus, add_pcp_count, &sum, 0);
	control.pcp_pages += sum.pages;
	if (!control.vmemmap)
		control.vmemmap = section_mem_map(
			section_address(place->start_pfn >> (control.section_shift & 63)));
	control.nr_zones = z + 1;
}

static long find_node(__u32 node, void *unused)
{
	__u64 pgdat = control.node_data ? read_u64(control.node_data + node * sizeof(void *))
					: control.contig_page_data;
	const __u32 zones = bpf_core_field_size(struct pglist_data, node_zones) /
			    bpf_core_type_size(struct zone);

	for (__u32 i = 0; pgdat && i < zones && i < SNAPSHOT_MAX_ZONES_PER_NODE; i++)
		find_zone((struct pglist_data *)pgdat, node, i);
	return 0;
}

SEC("syscall")
int find_zones(void *ctx)
{
	describe_kernel(&control.layout);
	find_percpu_offsets();
	control.nr_zones = 0;
	control.pcp_pages = 0;
	control.vmemmap = 0;
	bpf_loop(control.nr_nodes, find_node, NULL, 0);
	return 0;
}
