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

/* The zone of the page that a CPU freed last: the next one is mostly of the same. */
struct last_zone {
	__u64 first, end; /* addresses of its struct pages */
	__u64 lock;       /* address of the lock of its PCP of this CPU */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct last_zone);
} last_zones SEC(".maps");

struct page_search {
	struct last_zone *found;
	__u64 vmemmap, page;
};

static long is_zone_of(__u32 z, struct page_search *search)
{
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);
	__u64 first, size = bpf_core_type_size(struct page);

	if (!place || !offset)
		return 1;
	first = search->vmemmap + place->start_pfn * size;
	if (search->page - first >= place->spanned * size)
		return 0;
	search->found->first = first;
	search->found->end = first + place->spanned * size;
	search->found->lock =
		place->pcp + *offset + bpf_core_field_offset(struct per_cpu_pages, lock);
	return 1;
}

/*
 * Whether the lock of this CPU's PCP for the page is taken, mostly by the task that the free
 * interrupts. `page` is the address of its struct page. Kernels up to 5.19 have no such lock.
 */
static bool pcp_is_locked(__u64 page, __u64 vmemmap, __u32 nr_zones)
{
	__u32 zero = 0, lock = 0;
	struct last_zone *last = bpf_map_lookup_elem(&last_zones, &zero);
	struct page_search search = {last, vmemmap, page};

	if (!last || !bpf_core_field_exists(struct per_cpu_pages, lock))
		return false;
	if (page - last->first >= last->end - last->first)
		bpf_loop(nr_zones, is_zone_of, &search, 0);
	bpf_probe_read_kernel(&lock, sizeof(lock), (void *)last->lock);
	return lock;
}
