/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_precopy.bpf.h - the programs that bring the image of a precopied snapshot up to the cut.
 * Included by snapshot.bpf.c; snapshot_precopy.h explains the method.
 *
 *   copy_list, copy_ends   walks over lists (snapshot_walk.bpf.h)
 *   touch_*                on events: mark what they may have moved (snapshot_touch.bpf.h)
 *   settle                 look at the touched pages again
 *   recheck                look at all visited pages again
 *   cut_precopied          touch_*, and the instant of the snapshot
 *   copy_state             struct zone or struct per_cpu_pages, before and after
 *
 * A bit of `in_image` or `in_pcp` is set before the page is read, and a bit of `touched` is cleared
 * before: an event between marks the page again. All bits change atomically.
 */
#pragma once

#include "snapshot_touch.bpf.h"
#include "snapshot_walk.bpf.h"

/* --- settle: look at touched pages again --- */

struct settling {
	struct zone_place *place;
	__u64 deadline;
	__u32 until; /* entries of `touches` before this one */
};

/*
 * After a look at all ends, a page that was touched before it and not since is where the image
 * has it, if it is free at all: it can return only to an end, and no end has it.
 */
static long settle_one(__u32 i, struct settling *settling)
{
	struct zone_place *place = settling->place;
	__u32 nr = place->settled, now = control.epoch & 1;
	struct touch *touch = bpf_map_lookup_elem(&touches, &nr);
	struct page_bits *bits;
	__u64 bit;

	if (nr >= settling->until || !touch ||
	    (!(i & 15) && bpf_ktime_get_ns() > settling->deadline))
		return 1;
	place->settled++;
	if (touch->pfn < place->start_pfn || touch->pfn >= place->start_pfn + place->spanned)
		return 0;
	bit = 1ull << (touch->pfn & 63);
	bits = bits_of(touch->pfn);
	if (!bits || !(bits->in_image & bit))
		return 0;
	__sync_fetch_and_and(&bits->in_pcp, ~bit); /* to forget is always safe */
	if (touch->flags & TOUCH_AGAIN) {
		__sync_fetch_and_and(&bits->touched[!now], ~bit);
		__sync_fetch_and_or(&bits->touched[now], bit);
		note_touch(touch->pfn, 0);
	} else if (bits->touched[now] & bit) {
		/* Noted after touches_until, unless an event was late with its bit. */
		if (!(__sync_fetch_and_and(&bits->touched[!now], ~bit) & bit))
			note_touch(touch->pfn, 0);
	} else if (__sync_fetch_and_and(&bits->touched[!now], ~bit) & bit) {
		if (!free_block_at(touch->pfn))
			__sync_fetch_and_and(&bits->in_image, ~bit);
	}
	return 0;
}

/* The touched pages of one zone. */
SEC("syscall")
int settle(struct precopy_args *args)
{
	__u32 z = args->zone;
	struct settling settling = {bpf_map_lookup_elem(&places, &z), args->deadline_ns,
				    args->first};

	if (settling.place)
		bpf_loop(MAX_LOOPS, settle_one, &settling, 0);
	return 0;
}

static long recheck_one(__u32 i, struct precopy_args *args)
{
	__u64 *node = bpf_map_lookup_elem(&nodes, &args->used), pfn, bit;
	struct page_bits *bits;

	if (!node || args->used >= control.nr_nodes_used ||
	    (!(i & 15) && bpf_ktime_get_ns() > args->deadline_ns))
		return 1;
	args->used++;
	pfn = pfn_of(*node);
	bit = 1ull << (pfn & 63);
	bits = bits_of(pfn);
	if (bits && bits->in_image & bit && !free_block_at(pfn))
		__sync_fetch_and_and(&bits->in_image, ~bit);
	return 0;
}

/* Which visited pages are free blocks no more, even if no event said so? From `used` on. */
SEC("syscall")
int recheck(struct precopy_args *args)
{
	struct precopy_args copy = *args;

	bpf_loop(MAX_LOOPS, recheck_one, &copy, 0);
	args->used = copy.used;
	args->end = copy.used < control.nr_nodes_used ? WALK_LATE : WALK_WHOLE;
	return 0;
}

/* --- the cut --- */

struct final_look {
	__u64 start, end_pfn, deadline;
	__u64 first, end; /* entries of `touches` or `claims` */
	__u32 zone;
	bool late;
};

static long look_at_touched(__u32 i, struct final_look *look)
{
	__u32 nr = look->first + i;
	struct touch *touch = bpf_map_lookup_elem(&touches, &nr);

	if (!touch)
		return 1;
	if (!(i & 15) && bpf_ktime_get_ns() > look->deadline) {
		look->late = true;
		return 1;
	}
	if (touch->pfn >= look->start && touch->pfn < look->end_pfn)
		touch->state = free_block_at(touch->pfn);
	return 0;
}

static long look_at_claimed(__u32 i, struct final_look *look)
{
	__u32 nr = look->first + i;
	struct claim *claim = bpf_map_lookup_elem(&claims, &nr);
	__u64 section, bit, address;
	__u8 byte = 0;

	if (!claim)
		return 1;
	if (!(i & 15) && bpf_ktime_get_ns() > look->deadline) {
		look->late = true;
		return 1;
	}
	if (claim->pfn < look->start || claim->pfn >= look->end_pfn)
		return 0;
	section = section_address(claim->pfn >> (control.section_shift & 63));
	bit = (claim->pfn & ((1ull << (control.section_shift & 63)) - 1)) >>
	      (control.pageblock_order & 63);
	bit *= control.block_bits;
	address = read_u64(section + bpf_core_field_offset(struct mem_section, usage)) +
		  bpf_core_field_offset(struct mem_section_usage, pageblock_flags) + bit / 8;
	bpf_probe_read_kernel(&byte, sizeof(byte), (void *)address);
	claim->bits = byte >> (bit & 7);
	claim->zone_at_cut = 1 + look->zone;
	return 0;
}

/* Touched pages and claimed pageblocks of one zone. Returns enum walk_end. */
CHECKED_ONCE __u32 look_at_zone(__u32 z, __u64 deadline)
{
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	struct final_look look;

	if (!place)
		return WALK_NOT;
	look = (struct final_look){
		.start = place->start_pfn,
		.end_pfn = place->start_pfn + place->spanned,
		.deadline = deadline,
		.first = place->settled,
		.zone = z,
	};
	bpf_loop(control.nr_touches - place->settled, look_at_touched, &look, 0);
	look.first = control.claims_from;
	bpf_loop(control.nr_claims - control.claims_from, look_at_claimed, &look, 0);
	return look.late ? WALK_LATE : WALK_WHOLE;
}

/* Everything of one zone that is not settled, while it cannot change. Returns enum walk_end. */
static __u32 finish_zone(__u32 z, __u64 deadline)
{
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	struct live_lists lists = {
		.deadline = deadline,
		.first_list = snapshot_list_of_zone(z, 0),
		.room = HELD_ENTRIES,
		.end = WALK_WHOLE,
		.strict = true,
	};

	if (!place)
		return WALK_NOT;
	lists.address = place->address;
	lists.start = place->start_pfn;
	lists.end_pfn = place->start_pfn + place->spanned;
	copy_all_ends(&lists);
	return lists.end == WALK_WHOLE ? look_at_zone(z, deadline) : lists.end;
}

static long copy_own_pcp(__u32 z, void *unused)
{
	__u32 i = z * control.nr_cpus + bpf_get_smp_processor_id();

	copy_pcp_of(i, false);
	return 0;
}

static long cut_zone_of_page(__u32 z, __u64 *deadline)
{
	struct zone_image *zi = bpf_map_lookup_elem(&zones, &z);
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	__u64 pfn = control.cut_pfn;

	if (!zi || !place)
		return 1;
	if (pfn < place->start_pfn || pfn >= place->start_pfn + place->spanned)
		return 0;
	copy_zone(zi, place->address, false);
	if (!*(int *)(zi->before + bpf_core_field_offset(struct zone, lock)))
		return 0;
	control.cut_zone = z;
	control.cut_end = finish_zone(z, *deadline);
	return 1;
}

/* Arguments: page, order, migratetype. Runs under the zone's lock, with interrupts off. */
SEC("tp_btf/mm_page_alloc_zone_locked")
int cut_precopied(__u64 *ctx)
{
	__u64 pfn = pfn_argument(ctx), deadline;

	touch_containing(pfn, ctx[1]);
	touch_split(pfn, ctx[1]);
	if (!control.armed_tid || control.armed_tid != (__u32)bpf_get_current_pid_tgid() ||
	    control.armed_order != (__u32)ctx[1])
		return 0;
	control.armed_tid = 0;
	control.cut_ns = bpf_ktime_get_ns();
	control.cut_cpu = bpf_get_smp_processor_id();
	control.cut_pfn = pfn;
	deadline = control.cut_ns + control.max_ns;
	if (deadline > control.deadline_ns)
		deadline = control.deadline_ns;
	bpf_loop(control.nr_zones, copy_own_pcp, NULL, 0);
	bpf_loop(control.nr_zones, cut_zone_of_page, &deadline, 0);
	control.cut_touches = control.nr_touches;
	control.cut_claims = control.nr_claims;
	control.cut_end_ns = bpf_ktime_get_ns();
	return 0;
}

/* One zone, while all CPUs are held. */
SEC("syscall")
int finish(struct precopy_args *args)
{
	args->end = finish_zone(args->zone, args->deadline_ns);
	return 0;
}

SEC("syscall")
int copy_state(struct precopy_args *args)
{
	__u32 z = args->zone;
	struct zone_image *zi = bpf_map_lookup_elem(&zones, &z);
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);

	if (args->is_pcp)
		copy_pcp_of(z * control.nr_cpus + args->cpu, args->after);
	else if (zi && place)
		copy_zone(zi, place->address, args->after);
	return 0;
}

/* The pageblocks' bits of one zone. */
SEC("syscall")
int copy_blocks(struct precopy_args *args)
{
	__u32 z = args->zone;
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);

	if (place)
		copy_bits(place, args->after);
	return 0;
}
