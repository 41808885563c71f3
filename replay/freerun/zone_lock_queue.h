/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone_lock_queue.h - queues of lock requests: how long CPUs wait for zone locks.
 *
 * Each zone lock is one FIFO server. A request arrives at the time of its recorded event, or when
 * the previous request of its CPU ends if that is later. So a CPU waits for other CPUs, never for
 * itself. The request then holds the lock for
 *
 *     fixed + blocks * per block
 *
 * with one pair of parameters for blocks taken from the buddy and one for blocks returned. A wait
 * does not delay the CPU's later requests. Bursts are therefore longer than recorded, and an
 * overload is shorter.
 *
 * `copies` overlays the tape's CPUs several times to model a larger machine. The n-th copy is n /
 * copies * 10 ms late.
 */
#pragma once

#include "model/zone_lock.h"
#include "output.h"

struct lock_costs; /* policy.h */
struct zone_lock_queues;

/* Locks for the zones and CPUs of a model. -ENOMEM. */
int zone_lock_queues_new(struct zone_lock_queues **out, const struct model *m,
			 const struct lock_costs *costs, struct error *err);

/* The hook for struct model. */
struct zone_lock_ops zone_lock_queues_ops(struct zone_lock_queues *l);

/* A CPU takes the lock of a zone for ZONE_LOCK_KIND_* and moves `blocks`. Call in order of time. */
void zone_lock_queues_request(struct zone_lock_queues *l, const struct zone *zone,
			      const struct moment *now, int kind, uint64_t blocks);

/* End of the requests: serve the ones of the copies that are still due. */
void zone_lock_queues_finish(struct zone_lock_queues *l);

/* Write the holds and waits since the last call as rows of zone_lock and lock_wait. */
void zone_lock_queues_write(struct zone_lock_queues *l, const struct model *m, uint64_t ts,
			    struct output *use, struct output *waits);
