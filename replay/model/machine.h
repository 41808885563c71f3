/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - the machine and the zones that a model is built from. A layout policy edits both.
 */
#pragma once

#include "model.h"

/* One zone, as the snapshot shows it. */
struct zone_spec {
	uint16_t node;
	uint16_t part; /* number of the part of a cut zone, see layout.h */
	uint8_t type;  /* ZONE_DMA ... */
	uint64_t start_pfn, spanned, present, managed;
	int64_t wmark[NR_WMARK];
	uint64_t wmark_promo; /* 0 if unknown */
	int64_t lowmem_reserve[NR_ZONE];
	int64_t boost;
	uint64_t nr_reserved_highatomic;
	uint32_t stat_threshold; /* 0: unknown */
	bool below_high, reclaim_active, boosted_watermark;
};

enum { DEFAULT_PAGE_BYTES = 4096 };

struct machine {
	int pageblock_order, max_order;
	uint32_t page_bytes; /* 0: DEFAULT_PAGE_BYTES */
	int nr_cpus, nr_nodes;
	const uint16_t *cpu_nodes;     /* [nr_cpus] */
	const uint8_t *node_distances; /* [nr_nodes][nr_nodes] */
	/* Pages of the pageblocks on the tape: zones that span much more are refused. */
	uint64_t known_pages;
	/* Bits of tape nodes below 64 whose kswapd has given up before the start; boosts stay. */
	uint64_t hopeless_nodes;
	int pcp_high_fraction;         /* vm.percpu_pagelist_high_fraction, 0: by watermark */
	bool tiers;                    /* kernel.numa_balancing & 2: memory tiering */
	bool recorded_defrag;          /* vm.defrag_mode of the recording */
	bool zone_events;              /* event set zone: see record_facts.h */
	uint8_t recorded_zone_reclaim; /* vm.zone_reclaim_mode of the recording */
	int node_parts;                /* model nodes per node of the tape; 0 means 1 */
	int zone_parts;                /* most parts of a zone; 0 means 1 */
	/* [nr_cpus] the part of the CPU's node that it prefers; NULL: by CPU number */
	const uint16_t *cpu_parts;
};

static inline uint32_t machine_page_bytes(const struct machine *machine)
{
	return machine->page_bytes ? machine->page_bytes : DEFAULT_PAGE_BYTES;
}
