/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcp.h - the per-CPU page lists: refill, free, drain, decay.
 *
 *   pcp.c        lists, allocs and refills; the end of a free
 *   pcp_size.c   how many pages a PCP holds and refills
 *   pcp_free.c   frees, and how many pages overflow
 *   pcp_drain.c  drains, drain_all, the vmstat tick
 */
#pragma once

#include "buddy.h"
#include "zone.h"

/* Number the lists that the row's PCPs have. */
void pcp_number_lists(struct model *m);

/* Batch and high of every PCP by the row's formulas (zone_batchsize, zone_highsize). */
void pcp_set_sizes(struct model *m, const struct zone *zone, int high_fraction);
/* The same for one PCP. */
void pcp_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int high_fraction);

/*
 * A block of rq->order from the running CPU's lists, after a refill if the list is empty; or
 * NO_FRAME.
 */
frame_nr pcp_alloc(struct model *m, struct zone *zone, const struct request *rq);

/*
 * Whether a request may refill its empty list. Since 7.1 a request with the right to the HIGHATOMIC
 * reserve goes to the buddy instead, after the refill was sized (__rmqueue_pcplist, 7.2).
 */
static inline bool pcp_refills(const struct model *m, const struct request *rq)
{
	return m->kernel->highatomic_refills || !(rq->flags & ALLOC_HIGHATOMIC);
}

/* Refill the empty list of a request. */
void pcp_refill(struct model *m, struct zone *zone, struct pcp *pcp, const struct request *rq);

/*
 * Free a block to the running CPU's lists, with a drain on overflow, or to the free lists if its
 * order or migratetype bypasses the PCP.
 */
void pcp_free(struct model *m, struct zone *zone, frame_nr head, int order,
	      const struct free_request *how);

/*
 * Put a block at the head or the tail of list (order, list_type) and count its pages.
 * `recorded` is the migratetype that the block drains to, where the row records one.
 */
void pcp_push_head(struct model *m, struct pcp *pcp, frame_nr head, int order, int list_type,
		   int recorded);
void pcp_push_tail(struct model *m, struct pcp *pcp, frame_nr head, int order, int list_type,
		   int recorded);

/*
 * Empty the PCPs of every CPU, one CPU after the other (drain_all_pages). Since 6.1 the running CPU
 * drains all PCPs; before, each CPU's worker drains its own.
 */
void pcp_drain_all(struct model *m);
/* The same for one zone's PCPs, as kcompactd drains after a run in vain. */
void pcp_drain_zone(struct model *m, struct zone *zone);

/*
 * Pages that drain_pages_zone takes off a PCP under one hold of the zone's lock: all, or since 6.12
 * batch << scale_max. Interrupts may run between two holds.
 */
static inline int pcp_piece(const struct model *m, const struct pcp *pcp)
{
	return m->kernel->drain_all_pieces ? pcp->batch << m->kernel->pcp_scale_max : pcp->count;
}

/*
 * Pages that an overflow of `pages` drains under one hold of the zone's lock, at least: entries are
 * drained whole. All or, since 6.19, a batch (free_frozen_page_commit, 7.2). Each piece begins at
 * the list of the free.
 */
static inline int pcp_overflow_piece(const struct model *m, const struct pcp *pcp, int pages)
{
	return m->kernel->overflow_pieces && pcp->batch > 0 ? pcp->batch : pages;
}

/* Run the drain that waits for the zone's lock, if any. */
void pcp_drain_put_off(struct model *m, struct zone *zone, struct pcp *pcp);

/*
 * Drain a used block that the record drained from the running CPU's PCP, which is not in the model.
 * `drains_on`: under the hold of the lock of the block before it.
 */
void pcp_drain_recorded(struct model *m, struct zone *zone, frame_nr head, int order,
			bool drains_on);

/* Drain `pages` under one hold of the zone's lock, as a step of emptying the PCP. */
void pcp_drain_piece(struct model *m, struct zone *zone, struct pcp *pcp, int pages);

/*
 * The vmstat worker of one CPU, once a second: shrink high, drain remote PCPs. Returns whether the
 * worker must run again although the CPU is idle (refresh_cpu_vm_stats).
 */
bool pcp_tick(struct model *m, int cpu);

/*
 * The single steps of these functions, for a driver that compares each step with the record.
 *
 *   pcp_first         the entry for a request, or NO_FRAME if the list needs a refill
 *   pcp_refill_size   the number of entries of a refill; adapts the PCP (nr_pcp_alloc)
 *   pcp_refill_most   the most entries of a refill, whatever was allocated before
 *   pcp_add_refilled  put a page of a refill on its list, after `last`, the page before it
 *   pcp_remove        take an entry off its list
 *   pcp_takes         whether a free goes onto a PCP list
 *   pcp_commit        put a free on its list; returns the pages to drain, from `list` on
 *   pcp_overflow      the pages to drain after a free; adapts the PCP (nr_pcp_free)
 *   pcp_overflow_most the most pages that it drains, whatever was freed before
 *   pcp_committed     the end of a free, after its drain
 *   pcp_fold          the begin of a tick: fold the CPU's counters of the zone; a PCP idles anew
 *                     if they changed. Drains of the tick itself count in the next tick.
 *   pcp_idle_anew     restart the ticks of a PCP of another node's zone
 *   pcp_decay         shrink high; returns the pages to drain, from list 0 on
 *   pcp_expire        whether a PCP of another node's zone, idle for 3 ticks, drains a batch
 */
frame_nr pcp_first(const struct model *m, const struct pcp *pcp, const struct request *rq);
int pcp_refill_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int order);
int pcp_refill_most(const struct model *m, const struct pcp *pcp, int order);
void pcp_add_refilled(struct model *m, struct pcp *pcp, const struct request *rq, frame_nr frame,
		      uint32_t last);
void pcp_remove(struct model *m, struct pcp *pcp, frame_nr head);
bool pcp_takes(const struct model *m, frame_nr head, int order);
int pcp_commit(struct model *m, struct zone *zone, frame_nr head, int order, int *list);
int pcp_overflow(const struct model *m, const struct zone *zone, struct pcp *pcp, int order);
int pcp_overflow_most(const struct model *m, const struct pcp *pcp);
void pcp_committed(const struct model *m, struct zone *zone);
void pcp_fold(struct zone *zone, struct pcp *pcp);
void pcp_idle_anew(struct pcp *pcp);
int pcp_decay(const struct model *m, struct pcp *pcp);

enum pcp_expiry { PCP_STAYS, PCP_AGES, PCP_EXPIRES };
/* Ticks that a PCP of another node's zone may idle (refresh_cpu_vm_stats). */
enum { REMOTE_EXPIRE = 3 };
enum pcp_expiry pcp_expire(const struct model *m, const struct zone *zone, struct pcp *pcp);

/* A drain, entry by entry (free_pcppages_bulk): the next victim, or NO_FRAME, and its free. */
struct pcp_drain {
	struct pcp *pcp;
	int left;                /* pages */
	int list, quota;         /* current list; entries it still gives */
	struct capture *capture; /* of the draining task, or NULL */
};

void pcp_drain_begin(struct pcp_drain *d, const struct model *m, struct pcp *pcp, int pages,
		     int list);
frame_nr pcp_drain_next(struct pcp_drain *d, const struct model *m);
void pcp_drain_take(struct pcp_drain *d, struct model *m, struct zone *zone, frame_nr head);

/* The list head of an order (one that uses the PCP) and migratetype. */
static inline list_nr pcp_list(const struct model *m, const struct pcp *pcp, int order,
			       int migratetype)
{
	return pcp->heads + m->pcp_lists[order][migratetype];
}

/* The order and migratetype of the entries of a list. */
void pcp_list_of(const struct model *m, int list, int *order, int *migratetype);
