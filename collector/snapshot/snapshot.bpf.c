// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * snapshot.bpf.c - copies of the page allocator's lists, made inside the kernel.
 *
 *   find_vmcoreinfo   once: the note that names a few data symbols
 *   find_zones        before each snapshot: zones, their layout, the number of entries of lists
 *
 * snapshot.c runs them. snapshot_find.bpf.h holds these two programs, snapshot_maps.bpf.h the
 * maps, snapshot_precopy.bpf.h the programs that copy the lists.
 */
#include "snapshot_find.bpf.h"
#include "snapshot_maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* --- copying --- */

static void copy_zone(struct zone_image *zi, __u64 address, bool after)
{
	const __u32 size = bpf_core_type_size(struct zone);

	if (size <= SNAPSHOT_MAX_ZONE_SIZE)
		bpf_probe_read_kernel(after ? zi->after : zi->before, size, (void *)address);
}

static void copy_pcp(struct pcp_image *pi, __u64 address, bool after)
{
	const __u32 size = bpf_core_type_size(struct per_cpu_pages);

	if (size <= SNAPSHOT_MAX_PCP_SIZE)
		bpf_probe_read_kernel(after ? pi->after : pi->before, size, (void *)address);
}

/* The copy of one PCP, with the CPU's counter differences. `i` counts (zone, cpu). */
static void copy_pcp_of(__u32 i, bool after)
{
	const __u32 stat_size = bpf_core_type_size(struct per_cpu_zonestat);
	__u32 cpu = i % control.nr_cpus, z = i / control.nr_cpus;
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	struct pcp_image *pi = bpf_map_lookup_elem(&pcps, &i);
	__u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);

	if (!pi || !place || !offset)
		return;
	copy_pcp(pi, place->pcp + *offset, after);
	if (!after && stat_size <= SNAPSHOT_MAX_STAT_SIZE)
		bpf_probe_read_kernel(pi->stat, stat_size, (void *)(place->stat + *offset));
}

struct bits_copy {
	__u64 first_nr;    /* section number */
	__u32 first_image; /* index in `sections` */
	bool after;
};

static long copy_section_bits(__u32 i, struct bits_copy *copy)
{
	__u32 image = copy->first_image + i;
	struct section_image *si = bpf_map_lookup_elem(&sections, &image);
	__u64 section = section_address(copy->first_nr + i), bits, bytes;

	if (!si)
		return 1;
	si->mem_map = section_mem_map(section);
	if (!si->mem_map)
		return 0;
	bits = read_u64(section + bpf_core_field_offset(struct mem_section, usage)) +
	       bpf_core_field_offset(struct mem_section_usage, pageblock_flags);
	bytes = control.section_bytes;
	if (bytes <= SNAPSHOT_MAX_BITS)
		bpf_probe_read_kernel(copy->after ? si->after : si->before, bytes, (void *)bits);
	return 0;
}

static void copy_bits(const struct zone_place *place, bool after)
{
	struct bits_copy copy = {
		.first_nr = place->start_pfn >> (control.section_shift & 63),
		.first_image = place->first_section,
		.after = after,
	};

	bpf_loop(place->nr_sections, copy_section_bits, &copy, 0);
}

enum { MAX_LOOPS = 8 << 20 }; /* limit of bpf_loop */

#include "snapshot_precopy.bpf.h"
