/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_pcp.bpf.h - the zone of a page, its PCP, and whether that is locked. A page whose PCP is
 * locked is freed to the free lists (free_frozen_pages, 6.x), and no other event shows it.
 */
#pragma once

#include "snapshot_image.h"
#include "snapshot_kernel.h"

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/*
 * Reads without the call of a helper, from 6.2 on: for what runs at each event. The verifier takes
 * the address for one of such a struct; a bad one reads as 0.
 */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;
#define READ_OFTEN(to, type, address, field)                                                       \
	do {                                                                                       \
		const type *const typed = (void *)(address);                                       \
                                                                                                   \
		if (bpf_rdonly_cast)                                                               \
			(to) = *(const typeof(to) *)&(                                             \
					(const type *)bpf_rdonly_cast(                             \
						typed, bpf_core_type_id_kernel(type)))             \
					->field;                                                   \
		else                                                                               \
			bpf_core_read(&(to), sizeof(to), &typed->field);                           \
	} while (0)

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

/*
 * The zone of a CPU's last page, and its parts of this CPU: the next page is mostly of the same.
 * One for frees, which an interrupt may cut, and one for events under the lock of the zone.
 */
struct last_zone {
	__u64 first, end; /* addresses of its struct pages */
	__u64 zone, pcp, stat;
	__u32 node, zone_number; /* as on a tape */
	int count;               /* printed.bpf.c: of the PCP, after the last page of a drain */
} __attribute__((aligned(64)));

/* Entry: CPU * NR_LAST + which. The verifier puts the look into such a map in line. */
enum last_which { LAST_FREE, LAST_STAMP };

MAPPED_ARRAY(last_zones, NR_LAST, struct last_zone);

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
	struct last_zone *found = search->found;

	if (!place || !offset)
		return 1;
	first = search->vmemmap + place->start_pfn * size;
	if (search->page - first >= place->spanned * size)
		return 0;
	*found = (struct last_zone){
		.first = first,
		.end = first + place->spanned * size,
		.zone = place->address,
		.pcp = place->pcp + *offset,
		.stat = place->stat + *offset,
		.node = place->node,
		.zone_number = place->number,
		.count = -1,
	};
	return 1;
}

static bool is_in(const struct last_zone *last, __u64 page)
{
	return page - last->first < last->end - last->first;
}

/* The zone of a page, given as the address of its struct page; NULL: unknown. */
static __always_inline struct last_zone *find_last_zone(enum last_which which, __u64 page,
							__u64 vmemmap, __u32 nr_zones)
{
	__u32 i = bpf_get_smp_processor_id() * NR_LAST + which;
	struct last_zone *last = bpf_map_lookup_elem(&last_zones, &i);

	if (last && !is_in(last, page)) {
		struct page_search search = {last, vmemmap, page};

		bpf_loop(nr_zones, is_zone_of, &search, 0);
		if (!is_in(last, page))
			return NULL;
	}
	return last;
}

/* Kernels up to 5.19 have no such lock. */
static bool has_pcp_lock(void)
{
	return bpf_core_field_exists(struct per_cpu_pages, lock);
}

/*
 * Whether the lock of this CPU's PCP of a zone is taken: by who works on it, or at a free mostly by
 * the task that the free interrupts.
 */
static bool pcp_is_locked(const struct last_zone *last)
{
	__u32 lock = 0;

	if (last && has_pcp_lock())
		READ_OFTEN(lock, struct per_cpu_pages, last->pcp, lock);
	return lock;
}
