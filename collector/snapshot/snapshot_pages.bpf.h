/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_pages.bpf.h - pages of a precopied snapshot: the bits of the image, and what a struct
 * page says of itself. snapshot_precopy.bpf.h has the programs.
 */
#pragma once

#include "snapshot_maps.bpf.h"

/* --- pages and their bits --- */

static struct page_bits *bits_of(__u64 pfn)
{
	__u32 section = pfn >> (control.section_shift & 63), word;
	__u64 *first = bpf_map_lookup_elem(&section_bits, &section);

	if (!first || *first == SNAPSHOT_NO_SECTION)
		return NULL;
	word = *first + ((pfn & ((1ull << (control.section_shift & 63)) - 1)) >> 6);
	return bpf_map_lookup_elem(&page_bits, &word);
}

static void note_touch(__u64 pfn, __u32 flags)
{
	__u32 i = __sync_fetch_and_add(&control.nr_touches, 1);
	struct touch *touch = bpf_map_lookup_elem(&touches, &i);

	if (touch) {
		touch->pfn = pfn;
		touch->flags = flags;
	}
}

/* A page of the image may be somewhere else now. */
static void touch_bits(struct page_bits *bits, __u64 pfn, __u32 flags)
{
	__u64 bit = 1ull << (pfn & 63);

	/* Pages of PCPs need no second look: a walk from an end decides. */
	if ((!(__sync_fetch_and_or(&bits->touched[control.epoch & 1], bit) & bit) || flags) &&
	    bits->in_image & bit)
		note_touch(pfn, flags);
}

CHECKED_ONCE int touch(__u64 pfn, __u32 flags)
{
	struct page_bits *bits = bits_of(pfn);

	if (bits && (bits->in_image | bits->in_pcp) >> (pfn & 63) & 1)
		touch_bits(bits, pfn, flags);
	return 0;
}

struct entry {
	__u64 next, prev, order;
	__u32 type;
};

/* What a page says of itself; `node` is the address of its links. */
static bool read_entry(__u64 node, struct entry *entry)
{
	const __u32 lru = bpf_core_field_offset(struct page, lru),
		    order = bpf_core_field_offset(struct page, private),
		    type = bpf_core_field_offset(struct page, page_type);
	__u64 raw[SNAPSHOT_PAGE_BYTES / 8];

	if (lru > SNAPSHOT_PAGE_BYTES - 16 || order > SNAPSHOT_PAGE_BYTES - 8 ||
	    type > SNAPSHOT_PAGE_BYTES - 4 ||
	    bpf_probe_read_kernel(raw, sizeof(raw), (void *)(node - lru)))
		return false;
	entry->next = *(__u64 *)((__u8 *)raw + lru);
	entry->prev = *(__u64 *)((__u8 *)raw + lru + 8);
	entry->order = *(__u64 *)((__u8 *)raw + order);
	entry->type = *(__u32 *)((__u8 *)raw + type);
	return true;
}

static __u64 node_of(__u64 pfn)
{
	return control.vmemmap + pfn * bpf_core_type_size(struct page) +
	       bpf_core_field_offset(struct page, lru);
}

/* 1 + the order of the free block that starts at the page; 0: none does. */
CHECKED_ONCE __u32 free_block_at(__u64 pfn)
{
	struct entry entry;

	return read_entry(node_of(pfn), &entry) && entry.type == control.buddy_type
		       ? 1 + (__u32)entry.order
		       : 0;
}

/*
 * Kernels mark a free block in page_type, each in its own way: the value that the first entries
 * of most lists have. Their `private` is the order.
 */
static long vote(__u32 l, __u64 *zone)
{
	const __u32 area = bpf_core_type_size(struct free_area),
		    areas = bpf_core_field_size(struct zone, free_area),
		    types = bpf_core_field_size(struct free_area, free_list) /
			    sizeof(struct list_head);
	__u32 order = l / SNAPSHOT_MAX_TYPES, type = l % SNAPSHOT_MAX_TYPES;
	struct entry entry;
	__u64 head, node;

	if (order * area >= areas || type >= types)
		return 0;
	head = *zone + bpf_core_field_offset(struct zone, free_area) + order * area +
	       bpf_core_field_offset(struct free_area, free_list) + type * sizeof(struct list_head);
	node = read_u64(head);
	if (node == head || !read_entry(node, &entry) || entry.order != order)
		return 0;
	if (control.buddy_votes && entry.type != control.buddy_type) {
		control.buddy_votes--;
		return 0;
	}
	control.buddy_type = entry.type;
	control.buddy_votes++;
	return 0;
}

static long vote_in_zone(__u32 z, void *unused)
{
	struct zone_place *place = bpf_map_lookup_elem(&places, &z);
	__u64 zone = place ? place->address : 0;

	if (place)
		bpf_loop(SNAPSHOT_MAX_LISTS, vote, &zone, 0);
	return 0;
}

SEC("syscall")
int learn_buddy_type(void *ctx)
{
	control.page_fields = bpf_core_field_exists(struct page, private) &&
			      bpf_core_field_exists(struct page, page_type);
	control.buddy_votes = 0;
	bpf_loop(control.nr_zones, vote_in_zone, NULL, 0);
	return 0;
}
