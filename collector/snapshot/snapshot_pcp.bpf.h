/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_pcp.bpf.h - whether the PCP that a freed page should go to is locked. Then the page goes
 * to the free lists (free_frozen_pages, 6.x), and no other event shows it.
 */
#pragma once

#include "snapshot_image.h"
#include "snapshot_kernel.h"

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* An array that user space maps; snapshot_load.c knows how many entries it needs. */
#define MAPPED_ARRAY(name, entries, entry)                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, entry);                                                              \
	} name SEC(".maps")

MAPPED_ARRAY(places, SNAPSHOT_MAX_ZONES, struct zone_place);
MAPPED_ARRAY(percpu_offset, 1, __u64);

struct freed_page {
	__u64 pfn;
	bool pcp_locked;
};

static long look_at_pcp(__u32 z, struct freed_page *freed)
{
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *offset;
	__u32 lock = 0;

	if (!place)
		return 1;
	if (freed->pfn < place->start_pfn || freed->pfn >= place->start_pfn + place->spanned)
		return 0;
	offset = bpf_map_lookup_elem(&percpu_offset, &cpu);
	if (!offset)
		return 1;
	bpf_probe_read_kernel(
		&lock, sizeof(lock),
		(void *)(place->pcp + *offset + bpf_core_field_offset(struct per_cpu_pages, lock)));
	freed->pcp_locked = lock;
	return 1;
}

/*
 * Whether the lock of this CPU's PCP is taken, mostly by the task that the free interrupts.
 * Kernels up to 5.19 have no such lock.
 */
static bool pcp_is_locked(__u64 pfn, __u32 nr_zones)
{
	struct freed_page freed = {pfn, false};

	if (bpf_core_field_exists(struct per_cpu_pages, lock))
		bpf_loop(nr_zones, look_at_pcp, &freed, 0);
	return freed.pcp_locked;
}
