// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * printed.bpf.c - reports by texts in the trace, for their form see input/printed_text.h:
 *
 * - report_free: frees that pass the per-CPU lists, of an order without a list, or of a page whose
 *   list is locked. A filter of ftrace runs after the record of the event was written, and takes it
 *   back. It sees no lock either.
 * - stamp_refill: the state of the PCP at the first event of a refill.
 * - stamp_steal: the same, where that event is a fallback.
 * - stamp_drain: the state of the PCP at the first event of a drain.
 * - stamp_search, stamp_source: the first blocks of the free lists that compaction has searched.
 *
 * Kernel facts, read in mm/page_alloc.c of 6.1, 6.12, 6.18 and 7.3:
 *
 * - A refill (rmqueue_bulk) happens only with an empty list (__rmqueue_pcplist), and its pages join
 *   the list after their event: at the first event the list is empty, at the others it is not.
 * - pcp->count rises after the refill. nr_pcp_alloc has set high and alloc_factor before (6.7 and
 *   later). A page that a fallback steals has no mm_page_alloc_zone_locked (6.10 and later).
 * - free_pcppages_bulk lowers pcp->count by each page before its event (5.18 and later), and the
 *   page is in NR_FREE_PAGES by then, unless its pageblock is isolated. A drain in batches (from
 *   6.19 on) or in steps (drain_pages_zone) is one run here, if nothing comes between.
 * - Of NR_FREE_PAGES, a refill takes each page before its event from 6.10 on, and all pages at its
 *   end before.
 * - Refills and drains hold the lock of their PCP (6.0 and later), with preemption off. Drains of
 *   another CPU's PCP (drain_pages_zone from drain_all_pages, page_alloc_cpu_dead) do not hold the
 *   lock of this CPU's. Before 6.0 each CPU drained its own.
 */
#include "snapshot_pcp.bpf.h"
#include "input/printed_text.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* In a section of its own, apart from the text of bpf_printk(). */
const volatile struct printed_constants constants SEC(".rodata.constants") = {0};

enum {
	FIRST_ORDER_WITHOUT = 4, /* PAGE_ALLOC_COSTLY_ORDER + 1; besides, huge pages have lists */
	NO_RUN = -1,             /* values of last_zone.count: no drain goes on, ... */
	REMOTE_RUN = -2,         /* ... or one of another CPU's PCP */
};

/* Arguments: page, order. */
SEC("raw_tp/mm_page_free")
int report_free(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 page = ctx->args[0];
	__u32 order = ctx->args[1];

	if (order < 64 && constants.listed >> order & 1 &&
	    !pcp_is_locked(find_last_zone(LAST_FREE, page, constants.vmemmap, constants.nr_zones)))
		return 0;
	bpf_printk("pagetape %x free %lx %x.", constants.token,
		   (page - constants.vmemmap) / bpf_core_type_size(struct page), order);
	return 0;
}

/*
 * Every member in `from` is one of the kernel's. For a struct that the kernel lacks, libbpf looks
 * at the types of modules, which only CAP_SYS_ADMIN may.
 */
#define READ(to, from) bpf_core_read(&(to), sizeof(to), &(from))

static __u32 zone_bits(const struct zone *zone)
{
	unsigned long flags = 0;
	__u32 bits = 0;

	READ(flags, zone->flags);
	if (flags >> bpf_core_enum_value(enum zone_flags, ZONE_BOOSTED_WATERMARK) & 1)
		bits |= STAMP_BOOSTED_WATERMARK;
	if (flags >> bpf_core_enum_value(enum zone_flags, ZONE_RECLAIM_ACTIVE) & 1)
		bits |= STAMP_RECLAIM_ACTIVE;
	if (bpf_core_enum_value_exists(enum zone_flags, ZONE_BELOW_HIGH)) {
		bits |= STAMP_HAS_BELOW_HIGH;
		if (flags >> bpf_core_enum_value(enum zone_flags, ZONE_BELOW_HIGH) & 1)
			bits |= STAMP_BELOW_HIGH;
	}
	return bits;
}

/* Words 1 to 3; returns the bits of what the kernel has. */
static __u32 pcp_words(const struct per_cpu_pages *pcp, __u32 drained, __u64 words[3])
{
	int count = 0, high = 0, high_min = 0, high_max = 0, batch = 0;
	short freed = 0;
	__u8 factor = 0, flags = 0;
	__u32 bits = STAMP_PCP;

	READ(count, pcp->count);
	READ(high, pcp->high);
	READ(batch, pcp->batch);
	if (bpf_core_field_exists(pcp->high_min)) {
		READ(high_min, pcp->high_min);
		READ(high_max, pcp->high_max);
		READ(freed, pcp->free_count);
		READ(factor, pcp->alloc_factor);
		READ(flags, pcp->flags);
		bits |= STAMP_HAS_HIGH_MIN;
	} else if (bpf_core_field_exists(pcp->free_factor)) {
		READ(freed, pcp->free_factor);
		bits |= STAMP_HAS_FREE_FACTOR;
	}
	words[0] = (__u64)(count + drained) << 32 | (__u32)high;
	words[1] = (__u64)high_min << 32 | (__u32)high_max;
	words[2] = (__u64)batch << 32 | (__u32)(__u16)freed << 16 | factor << 8 | flags;
	return bits;
}

/* `drained`: pages of the run that have left the PCP. */
static void stamp(const struct last_zone *last, __u32 kind, __u32 drained)
{
	const struct zone *zone = (void *)last->zone;
	const struct per_cpu_zonestat *stat = (void *)last->stat;
	const __u64 item = bpf_core_enum_value(enum zone_stat_item, NR_FREE_PAGES);
	__u64 words[3] = {}, marks[3] = {};
	__u32 bits = zone_bits(zone);
	unsigned long boost = 0;
	long free = 0;
	__u8 diff = 0;

	if (kind != STAMPED_REMOTE_DRAIN)
		bits |= pcp_words((void *)last->pcp, drained, words);
	bpf_core_read(marks, sizeof(marks), &zone->_watermark);
	READ(boost, zone->watermark_boost);
	bpf_probe_read_kernel(&free, sizeof(free), (void *)&zone->vm_stat + item * sizeof(free));
	bpf_probe_read_kernel(&diff, sizeof(diff), (void *)&stat->vm_stat_diff + item);
	bpf_printk("pagetape %x stamp %lx %lx %lx %lx %lx %lx %lx.", constants.token,
		   (__u64)bits << 32 | last->node << 16 | last->zone_number << 8 | kind, words[0],
		   words[1], words[2], (__u64)free << 8 | diff,
		   (__u64)boost << 32 | (__u32)marks[0], marks[1] << 32 | (__u32)marks[2]);
}

/* The place of a list in per_cpu_pages.lists (order_to_pindex); -1: none. */
static int list_of(__u32 order, __u32 type)
{
	const __u32 types = bpf_core_enum_value(enum migratetype, MIGRATE_PCPTYPES);
	const __u32 lists = bpf_core_field_size(struct per_cpu_pages, lists) /
			    bpf_core_type_size(struct list_head);

	/* Pages of CMA blocks go to the list of the request, which is movable. */
	if (bpf_core_enum_value_exists(enum migratetype, MIGRATE_CMA) &&
	    type == bpf_core_enum_value(enum migratetype, MIGRATE_CMA))
		type = bpf_core_enum_value(enum migratetype, MIGRATE_MOVABLE);
	if (type >= types)
		return -1;
	if (order < FIRST_ORDER_WITHOUT)
		return types * order + type;
	/* Two lists for huge pages, of which the second is movable; one in some older kernels. */
	return types * FIRST_ORDER_WITHOUT +
	       (lists > types * FIRST_ORDER_WITHOUT + 1 &&
		type == bpf_core_enum_value(enum migratetype, MIGRATE_MOVABLE));
}

/* Whether a refill or drain is of this CPU's PCP. */
static bool is_own(const struct last_zone *last)
{
	return !has_pcp_lock() || pcp_is_locked(last);
}

static __always_inline int refill(__u64 page, __u32 order, __u32 type)
{
	struct last_zone *last;
	const struct list_head *next = NULL;
	__u64 list;
	int index;

	if (order >= FIRST_ORDER_WITHOUT && order != constants.thp_order)
		return 0;
	last = find_last_zone(LAST_STAMP, page, constants.vmemmap, constants.nr_zones);
	index = list_of(order, type);
	if (!last || index < 0)
		return 0;
	list = last->pcp + bpf_core_field_offset(struct per_cpu_pages, lists) +
	       index * bpf_core_type_size(struct list_head);
	READ_OFTEN(next, struct list_head, list, next);
	if ((__u64)next != list || !is_own(last)) /* else it is the request's page, not a refill */
		return 0;
	last->count = NO_RUN;
	stamp(last, STAMPED_REFILL, 0);
	return 0;
}

/* Arguments: page, order, migratetype. */
SEC("raw_tp/mm_page_alloc_zone_locked")
int stamp_refill(struct bpf_raw_tracepoint_args *ctx)
{
	return refill(ctx->args[0], ctx->args[1], ctx->args[2]);
}

/* Arguments: page, alloc_order, fallback_order, alloc_migratetype. */
SEC("raw_tp/mm_page_alloc_extfrag")
int stamp_steal(struct bpf_raw_tracepoint_args *ctx)
{
	return refill(ctx->args[0], ctx->args[1], ctx->args[3]);
}

/* Arguments: page, order. */
SEC("raw_tp/mm_page_pcpu_drain")
int stamp_drain(struct bpf_raw_tracepoint_args *ctx)
{
	struct last_zone *last =
		find_last_zone(LAST_STAMP, ctx->args[0], constants.vmemmap, constants.nr_zones);
	__u32 pages = 1u << (ctx->args[1] & 31);
	int count = 0, before;

	if (!last)
		return 0;
	READ_OFTEN(count, struct per_cpu_pages, last->pcp, count);
	before = last->count;
	last->count = count;
	if (before == (int)(count + pages))
		return 0;
	if (is_own(last)) {
		stamp(last, STAMPED_DRAIN, pages);
		return 0;
	}
	last->count = REMOTE_RUN;
	if (before != REMOTE_RUN)
		stamp(last, STAMPED_REMOTE_DRAIN, 0);
	return 0;
}

/* The pfn of the first block of the MOVABLE free list of an order; all ones: none. */
static __u64 list_head(__u64 zone, __u32 order)
{
	const __u64 lists = bpf_core_field_offset(struct zone, free_area),
		    each = bpf_core_type_size(struct free_area),
		    entry = bpf_core_type_size(struct list_head);
	const __u64 list = zone + lists + order * each +
			   bpf_core_field_offset(struct free_area, free_list) +
			   bpf_core_enum_value(enum migratetype, MIGRATE_MOVABLE) * entry;
	__u64 next = 0;

	if (order * each < bpf_core_field_size(struct zone, free_area))
		bpf_probe_read_kernel(&next, sizeof(next), (void *)list);
	if (!next || next == list)
		return (__u32)-1;
	return (__u32)((next - bpf_core_field_offset(struct page, lru) - constants.vmemmap) /
		       bpf_core_type_size(struct page));
}

/* Arguments: the first pfn of what was searched. */
static __always_inline int stamp_heads(__u64 pfn)
{
	const __u64 page = constants.vmemmap + pfn * bpf_core_type_size(struct page);
	struct last_zone *last =
		find_last_zone(LAST_STAMP, page, constants.vmemmap, constants.nr_zones);
	__u64 word[HEADS_WORDS];

	if (!last)
		return 0;
	for (__u32 i = 0; i < HEADS_WORDS; i++)
		word[i] = list_head(last->zone, 2 * i + 1) << 32 | list_head(last->zone, 2 * i);
	bpf_printk("pagetape %x heads %lx %lx %lx %lx %lx %lx.", constants.token, word[0], word[1],
		   word[2], word[3], word[4], word[5]);
	return 0;
}

SEC("raw_tp/mm_compaction_fast_isolate_freepages")
int stamp_search(struct bpf_raw_tracepoint_args *ctx)
{
	return stamp_heads(ctx->args[0]);
}

SEC("raw_tp/mm_compaction_isolate_migratepages")
int stamp_source(struct bpf_raw_tracepoint_args *ctx)
{
	return stamp_heads(ctx->args[0]);
}
