/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone_lock_queue.h - how long CPUs wait for zone locks: the model's lock requests in queues.
 *
 * Each zone lock is one FIFO server. A request comes at the time of the recorded event that led to
 * it, or when its CPU is done with its request before, so that a CPU waits for others and never for
 * itself. It then holds the lock for
 *
 *     fixed + blocks * per block
 *
 * with one pair of numbers for taking blocks out of the buddy and one for giving them back. The
 * clocks of the CPUs do not move: a CPU that waited is not late for its next request, so that
 * bursts are longer than recorded and an overload is shorter.
 *
 * `copies` overlays the tape's CPUs several times, the n-th copy later by n / copies of 10 ms: more
 * CPUs than were recorded, doing the same.
 */
#pragma once

#include "model/zone_lock.h"
#include "output.h"

struct lock_costs; /* policy.h */
struct zone_lock_queues;

/* Locks for the zones and CPUs of a model. -ENOMEM. */
int zone_lock_queues_new(struct zone_lock_queues **out, const struct model *m,
			 const struct lock_costs *costs, struct error *err);
void zone_lock_queues_free(struct zone_lock_queues *l);

/* The hook for struct model. */
struct zone_lock_ops zone_lock_queues_ops(struct zone_lock_queues *l);

/* A CPU takes the lock of a zone for ZONE_LOCK_KIND_* and moves `blocks`; in order of time. */
void zone_lock_queues_request(struct zone_lock_queues *l, const struct zone *zone,
			      const struct moment *now, int kind, uint64_t blocks);

/* No more requests: serve those of the copies that are still to come. */
void zone_lock_queues_finish(struct zone_lock_queues *l);

/* Write the holds and waits since the last call as rows of zone_lock and lock_wait. */
void zone_lock_queues_write(struct zone_lock_queues *l, const struct model *m, uint64_t ts,
			    struct output *use, struct output *waits);
