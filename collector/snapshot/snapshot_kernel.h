/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* snapshot_kernel.h - names of the kernel's types and fields that snapshot.bpf.c reads. */
#pragma once

#include <linux/types.h>

/* Only the fields that are read; libbpf finds their real offsets, and the lengths of arrays. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next, *prev;
};

struct page {
	struct list_head lru;
	unsigned long private;
	unsigned int page_type;
};

struct free_area {
	struct list_head free_list[6];
	unsigned long nr_free;
};

typedef struct {
	long counter;
} atomic_long_t;

struct raw_spinlock {
	int unused;
};

/* With PREEMPT_RT, a mutex has its place (spinlock_types.h). */
struct spinlock {
	struct raw_spinlock rlock;
};

struct per_cpu_pages {
	struct spinlock lock;
	int count, high, high_min, high_max, batch;
	__u8 flags, alloc_factor, expire;
	short free_factor, free_count;
	struct list_head lists[14];
};

struct per_cpu_zonestat {
	__s8 vm_stat_diff[1];
	__s8 stat_threshold;
};

struct zone {
	unsigned long _watermark[1];
	unsigned long watermark_boost, nr_reserved_highatomic, nr_free_highatomic;
	long lowmem_reserve[1];
	struct per_cpu_pages *per_cpu_pageset;
	struct per_cpu_zonestat *per_cpu_zonestats;
	unsigned long zone_start_pfn;
	atomic_long_t managed_pages;
	unsigned long spanned_pages, present_pages;
	const char *name;
	struct free_area free_area[11];
	unsigned long flags;
	struct spinlock lock;
	atomic_long_t vm_stat[4];
};

struct pglist_data {
	struct zone node_zones[1];
	unsigned long first_deferred_pfn;
};

struct mem_section_usage {
	unsigned long pageblock_flags[1];
};

struct mem_section {
	unsigned long section_mem_map;
	struct mem_section_usage *usage;
};

struct bpf_array {
	void *pptrs[1];
};

#pragma clang attribute pop

/* Enumerators are matched by name; the values here mean nothing. */
enum migratetype {
	MIGRATE_UNMOVABLE,
	MIGRATE_MOVABLE,
	MIGRATE_RECLAIMABLE,
	MIGRATE_HIGHATOMIC,
	MIGRATE_CMA,
	MIGRATE_ISOLATE,
	MIGRATE_PCPTYPES,
};
enum zone_flags { ZONE_BOOSTED_WATERMARK, ZONE_RECLAIM_ACTIVE, ZONE_BELOW_HIGH };
enum zone_stat_item { NR_FREE_PAGES, NR_FREE_CMA_PAGES };
enum pageblock_bits { PB_migrate_isolate, NR_PAGEBLOCK_BITS, __NR_PAGEBLOCK_BITS };
