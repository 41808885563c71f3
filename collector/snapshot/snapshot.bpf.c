// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * snapshot.bpf.c - copies of the page allocator's lists, made inside the kernel.
 *
 *   find_vmcoreinfo   once: the note that names a few data symbols
 *   find_zones        before each snapshot: zones, their layout, the number of entries to walk
 *   cut               on mm_page_alloc_zone_locked: the instant of the snapshot
 *   unmarked_cut      the same if that tracepoint does not fire
 *   walk_own, walk_zones, walk_pcps
 *                     right after the cut: the other lists, on several CPUs at once
 *   piece             one list alone, for zones too large to walk at once
 *
 * snapshot.c runs them; snapshot.h explains why the result is exact. snapshot_find.bpf.h holds
 * the first two programs, snapshot_maps.bpf.h the maps, snapshot_precopy.bpf.h the programs of a
 * snapshot that copies the lists beforehand.
 */
#include "snapshot_find.bpf.h"
#include "snapshot_maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* --- copying and walking --- */

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
static bool copy_pcp_of(__u32 i, bool after)
{
	const __u32 stat_size = bpf_core_type_size(struct per_cpu_zonestat);
	__u32 cpu = i % control.nr_cpus, z = i / control.nr_cpus;
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	struct pcp_image *pi = bpf_map_lookup_elem(&pcps, &i);
	__u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);

	if (!pi || !place || !offset)
		return false;
	copy_pcp(pi, place->pcp + *offset, after);
	if (!after && stat_size <= SNAPSHOT_MAX_STAT_SIZE)
		bpf_probe_read_kernel(pi->stat, stat_size, (void *)(place->stat + *offset));
	return true;
}

struct bits_copy {
	__u64 first_nr;    /* section number */
	__u32 first_image; /* index in `sections` */
	bool after, late;
	__u64 deadline;
};

static long copy_section_bits(__u32 i, struct bits_copy *copy)
{
	__u32 image = copy->first_image + i;
	struct section_image *si = bpf_map_lookup_elem(&sections, &image);
	__u64 section = section_address(copy->first_nr + i), bits, bytes;

	if (!si)
		return 1;
	if (!(i & 15) && bpf_ktime_get_ns() > copy->deadline) {
		copy->late = true;
		return 1;
	}
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

/* False if the time ended before all were copied. */
static bool copy_bits(const struct zone_place *place, bool after, __u64 deadline)
{
	struct bits_copy copy = {
		.first_nr = place->start_pfn >> (control.section_shift & 63),
		.first_image = place->first_section,
		.after = after,
		.deadline = deadline,
	};

	bpf_loop(place->nr_sections, copy_section_bits, &copy, 0);
	return !copy.late;
}

enum { MAX_LOOPS = 8 << 20 }; /* limit of bpf_loop */

#include "snapshot_precopy.bpf.h"

struct list_walk {
	__u64 node, head, deadline;
	__u32 used; /* entries of `nodes` */
	__u32 end;
};

static long step(__u32 i, struct list_walk *w)
{
	__u64 *slot;

	if (w->node == w->head) {
		w->end = WALK_WHOLE;
		return 1;
	}
	slot = bpf_map_lookup_elem(&nodes, &w->used);
	if (!slot) {
		w->end = WALK_FULL;
		return 1;
	}
	if (!(i & 63) && bpf_ktime_get_ns() > w->deadline) {
		w->end = WALK_LATE;
		return 1;
	}
	*slot = w->node;
	w->used++;
	/* next is the first member of struct list_head */
	return bpf_probe_read_kernel(&w->node, sizeof(w->node), (void *)w->node) != 0;
}

/* A part of `nodes` for one walker alone: several CPUs walk at the same time. */
struct region {
	__u64 next, end;
};

/* Entries may be added between the copy of their counter and the walk. */
enum { REGION_SLACK = 64 };

static struct region reserve(__u64 entries)
{
	__u64 first;

	entries += REGION_SLACK;
	first = __sync_fetch_and_add(&control.nr_nodes_used, entries);
	return (struct region){first, first + entries};
}

/* Follow the list whose head is at `head` and was copied to `copy`. */
static void walk_list(struct list_image *list, __u64 head, const __u8 *copy, struct region *region,
		      __u64 deadline)
{
	__u64 room = region->end - region->next;
	struct list_walk w = {
		.node = *(const __u64 *)copy,
		.head = head,
		.deadline = deadline,
		.used = region->next,
		.end = WALK_ASTRAY,
	};

	list->first = w.used;
	bpf_loop(room < MAX_LOOPS ? room : MAX_LOOPS, step, &w, 0);
	list->nr = w.used - list->first;
	list->end = w.end;
	region->next = w.used;
}

struct zone_walk {
	struct zone_image *zi;
	__u64 address, deadline;
	struct region region;
};

static long walk_free_list(__u32 l, struct zone_walk *w)
{
	const __u32 area = bpf_core_type_size(struct free_area),
		    areas = bpf_core_field_size(struct zone, free_area),
		    types = bpf_core_field_size(struct free_area, free_list) /
			    sizeof(struct list_head);
	__u32 order = l / SNAPSHOT_MAX_TYPES, type = l % SNAPSHOT_MAX_TYPES;
	__u32 head = bpf_core_field_offset(struct zone, free_area) + order * area +
		     bpf_core_field_offset(struct free_area, free_list) +
		     type * sizeof(struct list_head);

	if (order * area >= areas || type >= types || l >= SNAPSHOT_MAX_LISTS ||
	    head > SNAPSHOT_MAX_ZONE_SIZE - sizeof(struct list_head))
		return 0;
	walk_list(&w->zi->list[l], w->address + head, &w->zi->before[head], &w->region,
		  w->deadline);
	return 0;
}

struct pcp_walk {
	struct pcp_image *pi;
	__u64 address, deadline;
	struct region region;
};

static int pcp_count(const struct pcp_image *pi)
{
	int count = *(const int *)(pi->before + bpf_core_field_offset(struct per_cpu_pages, count));

	return count > 0 ? count : 0;
}

static long walk_pcp_list(__u32 l, struct pcp_walk *w)
{
	const __u32 lists =
		bpf_core_field_size(struct per_cpu_pages, lists) / sizeof(struct list_head);
	__u32 head =
		bpf_core_field_offset(struct per_cpu_pages, lists) + l * sizeof(struct list_head);

	if (l >= lists || l >= SNAPSHOT_MAX_PCP_LISTS ||
	    head > SNAPSHOT_MAX_PCP_SIZE - sizeof(struct list_head))
		return 0;
	walk_list(&w->pi->list[l], w->address + head, &w->pi->before[head], &w->region,
		  w->deadline);
	return 0;
}

static __u64 free_blocks(const struct zone_image *zi)
{
	const __u32 area = bpf_core_type_size(struct free_area),
		    areas = bpf_core_field_size(struct zone, free_area);
	__u64 blocks = 0;

	for (__u32 order = 0; order < SNAPSHOT_MAX_ORDERS && order * area < areas; order++) {
		__u32 counter = bpf_core_field_offset(struct zone, free_area) + order * area +
				bpf_core_field_offset(struct free_area, nr_free);

		if (counter <= SNAPSHOT_MAX_ZONE_SIZE - 16)
			blocks += *(const __u64 *)&zi->before[counter];
	}
	return blocks;
}

/* Under the zone's lock nothing can change, and no second copies are needed. */
static void walk_zone(struct zone_image *zi, const struct zone_place *place, __u64 deadline,
		      bool locked)
{
	struct zone_walk w = {zi, place->address, deadline, reserve(free_blocks(zi))};
	bool in_time;

	zi->begin_ns = bpf_ktime_get_ns();
	in_time = copy_bits(place, false, deadline);
	if (in_time)
		bpf_loop(SNAPSHOT_MAX_LISTS, walk_free_list, &w, 0);
	if (in_time && !locked) {
		copy_zone(zi, place->address, true);
		in_time = copy_bits(place, true, deadline);
	}
	zi->end_ns = bpf_ktime_get_ns();
	zi->locked = locked;
	zi->walked = in_time;
}

/* Two threads may stand on one CPU if the other's went offline: the first one walks. */
static void walk_pcp(struct pcp_image *pi, __u64 address, __u64 deadline)
{
	struct pcp_walk w = {.pi = pi, .address = address, .deadline = deadline};

	if (__sync_val_compare_and_swap(&pi->walked, 0, 1))
		return;
	w.region = reserve(pcp_count(pi));
	pi->begin_ns = bpf_ktime_get_ns();
	bpf_loop(SNAPSHOT_MAX_PCP_LISTS, walk_pcp_list, &w, 0);
	copy_pcp(pi, address, true);
	pi->end_ns = bpf_ktime_get_ns();
}

/* --- cut: the instant that the snapshot shows --- */

static long copy_one_zone(__u32 z, void *unused)
{
	struct zone_image *zi = bpf_map_lookup_elem(&zones, &z);
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);

	if (!zi || !place)
		return 1;
	copy_zone(zi, place->address, false);
	return 0;
}

static long copy_one_pcp(__u32 i, void *unused)
{
	return !copy_pcp_of(i, false);
}

static void copy_all(void)
{
	bpf_loop(control.nr_zones, copy_one_zone, NULL, 0);
	bpf_loop(control.nr_zones * control.nr_cpus, copy_one_pcp, NULL, 0);
}

/*
 * The zone of the page: the page is in its span, and its lock is held. Spans of nodes may overlap,
 * and other zones' locks may be held, but in practice not both at once.
 */
static long walk_cut_zone(__u32 z, __u64 *deadline)
{
	struct zone_image *zi = bpf_map_lookup_elem(&zones, &z);
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	__u64 pfn = control.cut_pfn;

	if (!zi || !place)
		return 1;
	if (pfn < place->start_pfn || pfn >= place->start_pfn + place->spanned ||
	    !*(int *)(zi->before + bpf_core_field_offset(struct zone, lock)))
		return 0;
	control.cut_zone = z;
	if (bpf_ktime_get_ns() + free_blocks(zi) * control.node_ns <= *deadline)
		walk_zone(zi, place, *deadline, true);
	return 1;
}

/* A PCP of the current CPU, if there is time. */
static long walk_own_pcp(__u32 z, __u64 *deadline)
{
	__u32 cpu = bpf_get_smp_processor_id(), i = z * control.nr_cpus + cpu;
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	struct pcp_image *pi = bpf_map_lookup_elem(&pcps, &i);
	__u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);

	if (!pi || !place || !offset)
		return 1;
	if (!pi->walked && bpf_ktime_get_ns() + pcp_count(pi) * control.node_ns <= *deadline)
		walk_pcp(pi, place->pcp + *offset, *deadline);
	return 0;
}

/* Arguments: page, order, migratetype. Runs under the zone's lock, with interrupts off. */
SEC("tp_btf/mm_page_alloc_zone_locked")
int cut(__u64 *ctx)
{
	__u64 page = 0, deadline;

	if (!control.armed_tid || control.armed_tid != (__u32)bpf_get_current_pid_tgid() ||
	    control.armed_order != (__u32)ctx[1])
		return 0;
	control.armed_tid = 0;
	control.cut_ns = bpf_ktime_get_ns();
	control.cut_cpu = bpf_get_smp_processor_id();
	bpf_probe_read_kernel(&page, sizeof(page), ctx);
	control.cut_pfn = (page - control.vmemmap) / bpf_core_type_size(struct page);
	copy_all();
	deadline = control.cut_ns + control.max_ns;
	bpf_loop(control.nr_zones, walk_cut_zone, &deadline, 0);
	control.cut_end_ns = bpf_ktime_get_ns();
	return 0;
}

/* The cut without an allocation to mark it, and without any lock. */
SEC("syscall")
int unmarked_cut(void *ctx)
{
	control.cut_ns = bpf_ktime_get_ns();
	control.cut_cpu = bpf_get_smp_processor_id();
	copy_all();
	control.cut_end_ns = bpf_ktime_get_ns();
	return 0;
}

/* --- walk_*: the other lists; user space compares them with the copies of the cut --- */

static long walk_rest_of_zone(__u32 z, void *unused)
{
	struct zone_image *zi = bpf_map_lookup_elem(&zones, &z);
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);

	if (!zi || !place)
		return 1;
	if (!zi->walked &&
	    bpf_ktime_get_ns() + free_blocks(zi) * control.node_ns <= control.deadline_ns)
		walk_zone(zi, place, control.deadline_ns, false);
	return 0;
}

static long walk_rest_of_pcp(__u32 i, void *unused)
{
	__u32 cpu = i % control.nr_cpus, z = i / control.nr_cpus;
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	struct pcp_image *pi = bpf_map_lookup_elem(&pcps, &i);
	__u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);

	if (!pi || !place || !offset)
		return 1;
	if (!pi->walked &&
	    bpf_ktime_get_ns() + pcp_count(pi) * control.node_ns <= control.deadline_ns)
		walk_pcp(pi, place->pcp + *offset, control.deadline_ns);
	return 0;
}

/* All PCPs of the current CPU. */
SEC("syscall")
int walk_own(void *ctx)
{
	__u64 deadline = control.deadline_ns;

	bpf_loop(control.nr_zones, walk_own_pcp, &deadline, 0);
	return 0;
}

SEC("syscall")
int walk_zones(void *ctx)
{
	bpf_loop(control.nr_zones, walk_rest_of_zone, NULL, 0);
	return 0;
}

SEC("syscall")
int walk_pcps(void *ctx)
{
	bpf_loop(control.nr_zones * control.nr_cpus, walk_rest_of_pcp, NULL, 0);
	return 0;
}

/* --- piece: one list, copied and compared alone --- */

static void walk_piece_of_zone(__u32 z)
{
	struct zone_image *zi = bpf_map_lookup_elem(&zones, &z);
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	struct zone_walk w;

	if (!zi || !place)
		return;
	if (!control.piece_list)
		copy_bits(place, false, control.deadline_ns);
	copy_zone(zi, place->address, false);
	w = (struct zone_walk){zi, place->address, control.deadline_ns, reserve(free_blocks(zi))};
	walk_free_list(control.piece_list, &w);
	copy_zone(zi, place->address, true);
}

SEC("syscall")
int piece(void *ctx)
{
	walk_piece_of_zone(control.piece_zone);
	return 0;
}
