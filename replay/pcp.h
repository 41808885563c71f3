/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcp.h - the per-CPU page lists: refill, free, drain, decay.
 */
#pragma once

#include "zone.h"

/* Batch and high of every PCP by the row's formulas (zone_batchsize, zone_highsize). */
void pcp_set_sizes(struct model *m, const struct zone *zone, int high_fraction);

/* A block of rq->order off the running CPU's lists, refilled if need be; or NO_FRAME. */
uint32_t pcp_alloc(struct model *m, struct zone *zone, const struct request *rq);

/*
 * Free a block: onto the running CPU's lists, with the drain that may follow, or past
 * them if its order or migratetype is not for the PCP.
 */
void pcp_free(struct model *m, struct zone *zone, uint32_t head, int order);

/*
 * Put a block at the head or tail of list (order, list_type) and count its pages;
 * `recorded` is the migratetype it will be drained to, where the row records one.
 */
void pcp_push(struct model *m, struct pcp *pcp, uint32_t head, int order, int list_type,
	      int recorded, bool to_tail);

/*
 * Empty the PCPs of every CPU, one CPU after the other (drain_all_pages). The running
 * CPU does it since 6.1; before, each CPU's worker does it there.
 */
void pcp_drain_all(struct model *m);

/*
 * The vmstat worker of one CPU, once a second: shrink high, drain remote PCPs. Returns
 * whether it wants to run again even if the CPU does nothing (refresh_cpu_vm_stats).
 */
bool pcp_tick(struct model *m, int cpu);

/* List number to the order and migratetype of its entries. */
void pcp_list_of(const struct model *m, int list, int *order, int *migratetype);
