/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_walk.bpf.h - walks over lists that change meanwhile.
 *
 *   copy_list   one list from its head to its tail
 *   copy_ends   the new head and tail of each list, up to an untouched page of the image
 *
 * A step is right at its moment: an entry counts only if it is free, of the list's order, and
 * linked back to the entry before it. Otherwise the walk goes back to the last entry that still is.
 */
#pragma once

#include "snapshot_pages.bpf.h"

enum {
	HELD_ENTRIES = 1024, /* most entries of one walk from an end under the lock */
	ENDS_BACKS = 256,    /* contradictions after which such a walk gives up */
};

/* --- walks over lists that change --- */

struct live_walk {
	__u64 node, from, head; /* the next entry, the one before it, the list */
	__u64 start, end_pfn, deadline;
	__u64 known, beyond;
	__u32 first, used, room; /* in `nodes` */
	__u32 order;
	__u32 backs, max_backs;
	__u32 end;
	bool backward, free_list, strict, backing;
};

static __u64 ahead(const struct live_walk *w, const struct entry *entry)
{
	return w->backward ? entry->prev : entry->next;
}

/* The entry is a free block of the list's order, or none at all; the one before it is `from`. */
static bool belongs(const struct live_walk *w, const struct entry *entry, __u64 from)
{
	if (w->free_list != (entry->type == control.buddy_type) ||
	    (w->free_list && entry->order != w->order))
		return false;
	return (w->backward ? entry->next : entry->prev) == from;
}

static long contradiction(struct live_walk *w)
{
	w->backing = true;
	if (!w->strict && w->backs++ < w->max_backs)
		return 0;
	w->end = WALK_ASTRAY;
	return 1;
}

static __u64 pfn_of(__u64 node)
{
	return (node - bpf_core_field_offset(struct page, lru) - control.vmemmap) /
	       bpf_core_type_size(struct page);
}

/* Go back to the last visited entry that still is where it was, and on from there. */
CHECKED_ONCE int step_back(struct live_walk *w)
{
	__u64 *last, *before, from, pfn;
	struct page_bits *bits;
	struct entry entry;
	__u32 top, below;

	if (!w)
		return 1;
	top = w->used - 1;
	below = w->used - 2;
	if (w->used == w->first) {
		w->from = w->head;
		w->node = read_u64(w->head + (w->backward ? 8 : 0));
		w->backing = false;
		return 0;
	}
	last = bpf_map_lookup_elem(&nodes, &top);
	before = bpf_map_lookup_elem(&nodes, &below);
	if (!last || (w->used - w->first > 1 && !before))
		return 1;
	from = w->used - w->first > 1 ? *before : w->head;
	pfn = pfn_of(*last);
	bits = bits_of(pfn);
	if (!bits)
		return 1;
	if (!((bits->touched[0] | bits->touched[1]) >> (pfn & 63) & 1) &&
	    read_entry(*last, &entry) && belongs(w, &entry, from)) {
		w->from = *last;
		w->node = ahead(w, &entry);
		w->backing = false;
		return 0;
	}
	touch_bits(bits, pfn, 0);
	w->used--;
	return 0;
}

CHECKED_ONCE int visit(struct live_walk *w, __u64 pfn, __u64 *slot)
{
	struct page_bits *bits = bits_of(pfn);
	__u64 bit = 1ull << (pfn & 63), *in, *out;
	bool had, touched;
	struct entry entry;

	if (!w || !slot)
		return 1;
	if (!bits)
		return contradiction(w);
	in = w->free_list ? &bits->in_image : &bits->in_pcp;
	out = w->free_list ? &bits->in_pcp : &bits->in_image;
	had = *in & bit;
	touched = (bits->touched[0] | bits->touched[1]) & bit;
	if (had && !touched) {
		if (!read_entry(w->node, &entry) || !belongs(w, &entry, w->from))
			return contradiction(w);
		w->known = w->node;
		w->beyond = ahead(w, &entry);
		w->end = WALK_KNOWN;
		return 1;
	}
	__sync_fetch_and_or(in, bit);
	__sync_fetch_and_and(&bits->touched[0], ~bit);
	__sync_fetch_and_and(&bits->touched[1], ~bit);
	if (!read_entry(w->node, &entry) || !belongs(w, &entry, w->from)) {
		if (!had)
			__sync_fetch_and_and(in, ~bit);
		touch_bits(bits, pfn, 0); /* an event may have done so right before the bit went */
		return contradiction(w);
	}
	__sync_fetch_and_and(out, ~bit); /* a page is on one list only */
	*slot = w->node;
	w->used++;
	w->from = w->node;
	w->node = ahead(w, &entry);
	return 0;
}

static long advance(__u32 i, struct live_walk *w)
{
	__u64 offset = w->node - bpf_core_field_offset(struct page, lru) - control.vmemmap;
	__u64 pfn = offset / bpf_core_type_size(struct page), *slot;

	if (!(i & 15) && bpf_ktime_get_ns() > w->deadline) {
		w->end = WALK_LATE;
		return 1;
	}
	if (w->backing)
		return step_back(w) != 0;
	if (w->node == w->head) {
		w->end = WALK_WHOLE;
		return 1;
	}
	if (offset % bpf_core_type_size(struct page) || pfn < w->start || pfn >= w->end_pfn)
		return contradiction(w);
	slot = w->used < w->room ? bpf_map_lookup_elem(&nodes, &w->used) : NULL;
	if (!slot) {
		w->end = WALK_FULL;
		return 1;
	}
	return visit(w, pfn, slot) != 0;
}

/* --- lists of a zone and of a PCP --- */

struct live_lists {
	__u64 address; /* of the struct zone or per_cpu_pages */
	__u64 start, end_pfn, deadline;
	__u32 first_list; /* number of its list 0 in segments */
	__u32 list;       /* the next one */
	__u32 room;       /* most entries at an end */
	__u32 end;        /* enum walk_end: WALK_WHOLE until one does not end */
	bool is_pcp, strict;
};

/* Address of a list head in its struct; 0: no such list. */
static __u32 list_head_of(bool is_pcp, __u32 l)
{
	const __u32 area = bpf_core_type_size(struct free_area),
		    areas = bpf_core_field_size(struct zone, free_area),
		    types = bpf_core_field_size(struct free_area, free_list) /
			    sizeof(struct list_head),
		    pcp_lists = bpf_core_field_size(struct per_cpu_pages, lists) /
				sizeof(struct list_head);
	__u32 order = l / SNAPSHOT_MAX_TYPES, type = l % SNAPSHOT_MAX_TYPES;

	if (is_pcp)
		return l < pcp_lists ? bpf_core_field_offset(struct per_cpu_pages, lists) +
					       l * sizeof(struct list_head)
				     : 0;
	if (order * area >= areas || type >= types)
		return 0;
	return bpf_core_field_offset(struct zone, free_area) + order * area +
	       bpf_core_field_offset(struct free_area, free_list) + type * sizeof(struct list_head);
}

static bool find_lists(struct live_lists *lists, const struct precopy_args *args)
{
	__u32 z = args->zone, cpu = args->cpu;
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	__u64 *offset = bpf_map_lookup_elem(&percpu_offset, &cpu);

	if (!place || !offset)
		return false;
	lists->address = args->is_pcp ? place->pcp + *offset : place->address;
	lists->start = place->start_pfn;
	lists->end_pfn = place->start_pfn + place->spanned;
	lists->deadline = args->deadline_ns;
	lists->first_list =
		args->is_pcp ? snapshot_list_of_pcp(control.nr_zones, z * control.nr_cpus + cpu, 0)
			     : snapshot_list_of_zone(z, 0);
	lists->list = args->list;
	lists->room = args->used;
	lists->end = WALK_WHOLE;
	lists->is_pcp = args->is_pcp;
	lists->strict = args->strict;
	return true;
}

static void begin_walk(struct live_walk *w, const struct live_lists *lists, __u32 l, bool backward)
{
	__u64 head = lists->address + list_head_of(lists->is_pcp, l);

	*w = (struct live_walk){
		.head = head,
		.from = head,
		.node = read_u64(head + (backward ? 8 : 0)),
		.start = lists->start,
		.end_pfn = lists->end_pfn,
		.deadline = lists->deadline,
		.order = l / SNAPSHOT_MAX_TYPES,
		.backward = backward,
		.free_list = !lists->is_pcp,
		.strict = lists->strict,
		.max_backs = ENDS_BACKS,
		.end = WALK_LATE,
	};
}

static void keep_segment(const struct live_walk *w, __u32 list)
{
	__u32 i = __sync_fetch_and_add(&control.nr_segments, 1);
	struct segment *segment = bpf_map_lookup_elem(&segments, &i);

	if (!segment)
		return;
	segment->list = list;
	segment->first = w->first;
	segment->nr = w->used - w->first;
	segment->end = w->end;
	segment->backward = w->backward;
	segment->at_cut = w->strict;
	segment->known = w->known;
	segment->beyond = w->beyond;
}

static long take_back_one(__u32 i, struct live_walk *w)
{
	__u32 at = w->first + i;
	__u64 *node = bpf_map_lookup_elem(&nodes, &at);
	struct page_bits *bits = node ? bits_of(pfn_of(*node)) : NULL;

	if (bits)
		touch_bits(bits, pfn_of(*node), 0);
	return 0;
}

/* Entries of a walk that did not end are not in a row with the image: read them again some time. */
static void take_back(struct live_walk *w)
{
	bpf_loop(w->used - w->first, take_back_one, w, 0);
	w->used = w->first;
}

/*
 * From one end of the list to the image. 0: do not walk from the other end. Not static: the
 * verifier checks it once, not on every way to it.
 */
__attribute__((noinline)) int copy_end(struct live_lists *lists, __u32 l, bool backward)
{
	struct live_walk w;
	__u32 room;

	if (!lists)
		return 0;
	room = lists->room;
	if (room > MAX_LOOPS / 4)
		return 0;
	begin_walk(&w, lists, l, backward);
	if (w.node != w.head) {
		w.first = w.used = __sync_fetch_and_add(&control.nr_nodes_used, room);
		w.room = w.first + room;
		bpf_loop(4 * room, advance, &w, 0);
		if (w.end != WALK_WHOLE && w.end != WALK_KNOWN) {
			lists->end = w.end;
			if (!w.strict)
				take_back(&w);
		}
		/* Give the rest back, unless another CPU reserved more since. */
		__sync_val_compare_and_swap(&control.nr_nodes_used, w.room, w.used);
	} else {
		w.end = WALK_WHOLE;
	}
	/* Between cuts only new entries count: the image may have more at its ends than is true. */
	if (w.used != w.first || w.strict)
		keep_segment(&w, lists->first_list + l);
	return w.end == WALK_KNOWN;
}

static long copy_both_ends(__u32 i, struct live_lists *lists)
{
	__u32 l = lists->list;

	if (list_head_of(lists->is_pcp, l) && copy_end(lists, l, false))
		copy_end(lists, l, true);
	if (lists->end != WALK_WHOLE)
		return 1;
	lists->list = l + 1;
	return 0;
}

static void copy_all_ends(struct live_lists *lists)
{
	bpf_loop(lists->is_pcp ? SNAPSHOT_MAX_PCP_LISTS : SNAPSHOT_MAX_LISTS, copy_both_ends, lists,
		 0);
}

SEC("syscall")
int copy_ends(struct precopy_args *args)
{
	struct live_lists lists;

	args->end = WALK_NOT;
	if (!find_lists(&lists, args))
		return 0;
	copy_all_ends(&lists);
	args->end = lists.end;
	args->list = lists.list;
	return 0;
}

/* One list, in as many calls as it takes. */
SEC("syscall")
int copy_list(struct precopy_args *args)
{
	struct live_lists lists;
	struct live_walk w;

	args->end = WALK_WHOLE;
	if (!list_head_of(args->is_pcp, args->list) || !find_lists(&lists, args))
		return 0;
	begin_walk(&w, &lists, lists.list, false);
	w.first = args->first;
	w.used = args->used;
	w.backs = args->backs;
	w.room = control.max_nodes;
	w.max_backs = 1 << 16;
	w.backing = true; /* to where the last call ended */
	bpf_loop(MAX_LOOPS, advance, &w, 0);
	args->used = w.used;
	args->backs = w.backs;
	args->end = w.end;
	if (w.end != WALK_LATE)
		keep_segment(&w, lists.first_list + lists.list);
	return 0;
}
