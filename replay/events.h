/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - the model's own events, written as the kernel's tracepoints would be.
 *
 * Rows go into batches of the `event` table. The model calls these functions at the
 * places where the kernel row fires the tracepoint; with a NULL `events` they do
 * nothing.
 */
#pragma once

#include "output.h"
#include "tables.h"

#include <stdbool.h>
#include <stdint.h>

/* When and where: the first columns of every row. */
struct moment {
	uint64_t ts;
	int32_t pid;
	uint16_t cpu;
	uint8_t flags;
};

struct extfrag {
	int64_t pfn;
	int alloc_order, fallback_order;
	int alloc_migratetype, fallback_migratetype;
	bool change_ownership;
};

/* What the model told of one page it took off the free lists. */
struct told {
	bool zone_locked, fallback;
	int64_t pfn;     /* of zone_locked */
	int migratetype; /* of zone_locked */
	struct extfrag extfrag;
};

struct tally;

struct events {
	struct output *output;
	struct told *told;   /* instead of rows, if set */
	struct tally *tally; /* instead of rows of all but fallbacks, if set */
};

enum { NO_PFN = -1 }; /* a null pfn: nothing was found */

void events_alloc(struct events *e, const struct moment *now, int64_t pfn, int order,
		  uint32_t gfp_flags, int migratetype);
void events_free(struct events *e, const struct moment *now, int64_t pfn, int order);
void events_free_batched(struct events *e, const struct moment *now, int64_t pfn);
/* `refill` < 0 leaves percpu_refill null. */
void events_zone_locked(struct events *e, const struct moment *now, int64_t pfn, int order,
			int migratetype, int refill);
void events_pcpu_drain(struct events *e, const struct moment *now, int64_t pfn, int order,
		       int migratetype);

void events_extfrag(struct events *e, const struct moment *now, const struct extfrag *extfrag);
