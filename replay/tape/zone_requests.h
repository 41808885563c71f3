/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone_requests.h - the requests of a tape of the event set zone, for requests.h.
 *
 * Where PCP lists are the boundary, the requests are refills, drains, and frees past the lists. The
 * pages of a refill leave the free lists under one hold of the zone's lock. The first of them is
 * the request for all; it knows the number of the others, which follow it (waiting.more).
 */
#pragma once

#include "requests.h"

/* The latest events of a CPU; numbers of requests + 1, or 0. */
struct cpu_requests {
	uint64_t head;   /* the first page of its refill */
	uint64_t before; /* the same before the latest page became a head */
	uint64_t last;   /* the latest page of a refill, or of a drain */
};

struct zone_requests {
	struct cpu_requests *cpus; /* [cpu] */
	uint16_t *holders;         /* [zone] CPU that was the last to take its lock */
};

/* NULL, or arrays_error(): no memory. */
struct zone_requests *zone_requests_new(const struct model *m);

/*
 * Row i of a batch is an event of kind EVENT_KIND_FREE or above, on a CPU of the model and with
 * known pages. Fill in request `number`, of which moment, frame, order, kind and migratetype are
 * set. Returns false if the row is no request of its own: the fallback of a page.
 */
bool zone_request_read(struct requests *q, struct waiting *e, uint64_t number);
