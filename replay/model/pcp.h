/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcp.h - the per-CPU page lists: refill, free, drain, decay.
 */
#pragma once

#include "buddy.h"
#include "zone.h"

/* Which lists the row's PCPs have. */
void pcp_number_lists(struct model *m);

/* Batch and high of every PCP by the row's formulas (zone_batchsize, zone_highsize). */
void pcp_set_sizes(struct model *m, const struct zone *zone, int high_fraction);
/* The same for one of them. */
void pcp_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int high_fraction);

/* A block of rq->order off the running CPU's lists, refilled if need be; or NO_FRAME. */
uint32_t pcp_alloc(struct model *m, struct zone *zone, const struct request *rq);

/* Refill the list of a request, which is empty. */
void pcp_refill(struct model *m, struct zone *zone, struct pcp *pcp, const struct request *rq);

/*
 * Free a block: onto the running CPU's lists, with the drain that may follow, or past
 * them if its order or migratetype is not for the PCP.
 */
void pcp_free(struct model *m, struct zone *zone, uint32_t head, int order,
	      const struct free_request *how);

/*
 * Put a block at the head or the tail of list (order, list_type) and count its pages.
 * `recorded` is the migratetype that the block drains to, where the row records one.
 */
void pcp_push_head(struct model *m, struct pcp *pcp, uint32_t head, int order, int list_type,
		   int recorded);
void pcp_push_tail(struct model *m, struct pcp *pcp, uint32_t head, int order, int list_type,
		   int recorded);

/*
 * Empty the PCPs of every CPU, one CPU after the other (drain_all_pages). The running
 * CPU does it since 6.1; before, each CPU's worker does it there.
 */
void pcp_drain_all(struct model *m);

/*
 * What drain_pages_zone takes off a PCP under one hold of the zone's lock: all, or since
 * 6.12 batch << scale_max pages. Interrupts may come between two of them.
 */
static inline int pcp_piece(const struct model *m, const struct pcp *pcp)
{
	return m->kernel->drain_all_pieces ? pcp->batch << m->kernel->pcp_scale_max : pcp->count;
}

/* The drain that a free asked for gets the zone's lock, if one waits for it. */
void pcp_drain_put_off(struct model *m, struct zone *zone, struct pcp *pcp);

/* Drain so many pages under one hold of the zone's lock, as if to empty the PCP. */
void pcp_drain_piece(struct model *m, struct zone *zone, struct pcp *pcp, int pages);

/*
 * The vmstat worker of one CPU, once a second: shrink high, drain remote PCPs. Returns
 * whether it wants to run again even if the CPU does nothing (refresh_cpu_vm_stats).
 */
bool pcp_tick(struct model *m, int cpu);

/*
 * The window of the above, for a driver that puts what was recorded between them.
 *
 *   pcp_first         the entry a request would get, or NO_FRAME: it needs a refill
 *   pcp_refill_size   the entries a refill asks for; adapts the PCP (nr_pcp_alloc)
 *   pcp_add_refilled  puts a page of a refill on its list, after the page `last` of it
 *   pcp_remove        takes an entry off its list
 *   pcp_takes         whether a free goes onto a PCP list
 *   pcp_commit        puts it there: the pages that overflow, to be drained from `list` on
 *   pcp_overflow      the same for a PCP that the page is on; adapts it (nr_pcp_free)
 *   pcp_committed     and after that drain
 *   pcp_decay         shrinks high: the pages beyond it, to be drained from list 0 on
 *   pcp_expire        whether a PCP of another node's zone, idle for 3 ticks, drains a batch
 */
uint32_t pcp_first(const struct model *m, const struct pcp *pcp, const struct request *rq);
int pcp_refill_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int order);
void pcp_add_refilled(struct model *m, struct pcp *pcp, const struct request *rq, uint32_t frame,
		      uint32_t last);
void pcp_remove(struct model *m, struct pcp *pcp, uint32_t head);
bool pcp_takes(const struct model *m, uint32_t head, int order);
int pcp_commit(struct model *m, struct zone *zone, uint32_t head, int order, int *list);
int pcp_overflow(const struct model *m, const struct zone *zone, struct pcp *pcp, int order);
void pcp_committed(const struct model *m, struct zone *zone);
int pcp_decay(const struct model *m, struct pcp *pcp);

enum pcp_expiry { PCP_STAYS, PCP_AGES, PCP_EXPIRES };
enum pcp_expiry pcp_expire(const struct model *m, const struct zone *zone, struct pcp *pcp);

/* A drain, entry by entry (free_pcppages_bulk): the next victim, or NO_FRAME; free it. */
struct pcp_drain {
	struct pcp *pcp;
	int left; /* pages */
	int list, quota;
	struct capture *capture; /* of the task that drains, or NULL */
};

void pcp_drain_begin(struct pcp_drain *d, const struct model *m, struct pcp *pcp, int pages,
		     int list);
uint32_t pcp_drain_next(struct pcp_drain *d, const struct model *m);
void pcp_drain_take(struct pcp_drain *d, struct model *m, struct zone *zone, uint32_t head);

/* The head of the list of an order, which goes through the PCP, and migratetype. */
static inline uint32_t pcp_list(const struct model *m, const struct pcp *pcp, int order,
				int migratetype)
{
	return pcp->heads + m->pcp_lists[order][migratetype];
}

/* List number to the order and migratetype of its entries. */
void pcp_list_of(const struct model *m, int list, int *order, int *migratetype);
