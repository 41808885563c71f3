/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_touch.bpf.h - programs on the events that move free blocks: they mark the pages of the
 * image that the event may have moved. Changes come before their events, but for mm_page_free.
 */
#pragma once

#include "snapshot_pages.bpf.h"

/* The blocks that contained the page, of this order or more. */
static void touch_containing(__u64 pfn, __u32 order)
{
	__u64 last = ~0ull;

	for (__u32 o = 0; o < SNAPSHOT_MAX_ORDERS; o++) {
		__u64 first = pfn >> o << o;

		if (o < order || first == last)
			continue;
		touch(first, 0);
		last = first;
	}
}

/* The free blocks that are left of a larger one, of which the first page was allocated. */
static void touch_split(__u64 pfn, __u32 order)
{
	for (__u32 o = 0; o < SNAPSHOT_MAX_ORDERS; o++) {
		if (o < order)
			continue;
		if (pfn >> o & 1 || free_block_at(pfn + (1ull << o)) != 1 + o)
			return;
		touch(pfn + (1ull << o), 0);
	}
}

/* The blocks that a block has merged with, which is free now. */
static void touch_merged(__u64 pfn, __u32 order)
{
	for (__u32 o = 0; o < SNAPSHOT_MAX_ORDERS; o++) {
		if (o < order)
			continue;
		pfn = pfn >> o << o;
		touch(pfn, 0);
		if (free_block_at(pfn) == 1 + o)
			return;
		touch(pfn ^ 1ull << o, 0);
	}
}

/* The blocks that a block may merge with. */
static void touch_buddies(__u64 pfn, __u32 order)
{
	for (__u32 o = 0; o < SNAPSHOT_MAX_ORDERS; o++) {
		if (o < order)
			continue;
		pfn = pfn >> o << o;
		touch(pfn, TOUCH_AGAIN);
		touch(pfn ^ 1ull << o, TOUCH_AGAIN);
	}
}

static long touch_page(__u32 i, __u64 *pfn)
{
	touch(*pfn + i, 0);
	return 0;
}

/* Up to 64 pages in one element of page_bits. */
static long touch_word(__u32 i, __u64 *first)
{
	__u64 pfn = *first + 64ull * i;
	struct page_bits *bits = bits_of(pfn);

	if (bits && (bits->in_image | bits->in_pcp))
		bpf_loop(64, touch_page, &pfn, 0);
	return 0;
}

static void touch_range(__u64 pfn, __u64 pages)
{
	__u64 first = pfn >> 6 << 6;

	bpf_loop((pages + 63) >> 6, touch_word, &first, 0);
}

/* The pfn of the first argument of a tracepoint, the address of a struct page. */
static __u64 pfn_argument(__u64 *ctx)
{
	__u64 page = 0;

	/* Through memory, because the verifier forbids arithmetic on the address itself. */
	bpf_probe_read_kernel(&page, sizeof(page), ctx);
	return (page - control.vmemmap) / bpf_core_type_size(struct page);
}

/*
 * Arguments: page, order. The page goes to a PCP, or, later, to the free lists: of an order that no
 * PCP holds, or because the PCP's lock is taken, mostly by the task that this free interrupts
 * (free_frozen_pages, 6.x); no other event shows it.
 */
SEC("tp_btf/mm_page_free")
int touch_freed(__u64 *ctx)
{
	__u64 pfn = pfn_argument(ctx);
	__u32 order = ctx[1];

	touch(pfn, 0);
	if ((order <= 3 || order == control.thp_order) &&
	    !pcp_is_locked(find_last_zone(LAST_FREE,
					  control.vmemmap + pfn * bpf_core_type_size(struct page),
					  control.vmemmap, control.nr_zones)))
		return 0;
	touch_buddies(pfn, order);
	return 0;
}

/* Arguments: page, order, migratetype. After the change, under the zone's lock. */
SEC("tp_btf/mm_page_pcpu_drain")
int touch_drained(__u64 *ctx)
{
	touch_merged(pfn_argument(ctx), ctx[1]);
	return 0;
}

/* Arguments: page, orders of allocation and of the block. After the change, under the lock. */
SEC("tp_btf/mm_page_alloc_extfrag")
int touch_claimed(__u64 *ctx)
{
	__u64 pfn = pfn_argument(ctx);
	__u32 order = ctx[2], i;
	struct claim *claim;

	if (order < control.pageblock_order)
		order = control.pageblock_order;
	if (order >= SNAPSHOT_MAX_ORDERS)
		return 0;
	touch_containing(pfn, 0);
	touch_range(pfn >> order << order, 1ull << order);
	for (__u32 n = 0; n < 1u << (SNAPSHOT_MAX_ORDERS - 9); n++) {
		__u64 block = (pfn >> order << order) + ((__u64)n << control.pageblock_order);

		if ((__u64)n << control.pageblock_order >= 1ull << order)
			break;
		i = __sync_fetch_and_add(&control.nr_claims, 1);
		claim = bpf_map_lookup_elem(&claims, &i);
		if (claim) {
			claim->pfn = block;
			claim->zone_at_cut = 0;
		}
	}
	return 0;
}

/* Arguments: first and last pfn, pages scanned, pages taken. After the change. */
SEC("tp_btf/mm_compaction_isolate_freepages")
int touch_isolated(__u64 *ctx)
{
	if (ctx[3] && ctx[1] > ctx[0])
		touch_range(ctx[0], ctx[1] - ctx[0] + 64);
	return 0;
}
