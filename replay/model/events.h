/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - the model's own events, in the form of the kernel's tracepoints.
 *
 * Rows go into batches of the table `event`. The model calls these functions where the kernel of
 * the row fires the tracepoint. With a NULL `events` they do nothing.
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

/* The events of one page that the model took off the free lists. */
struct prediction {
	bool zone_locked, fallback;
	int64_t pfn;     /* of zone_locked */
	int migratetype; /* of zone_locked */
	struct extfrag extfrag;
};

struct event_counts;

struct events {
	struct output *output;
	struct prediction *prediction;     /* instead of rows, if set */
	struct event_counts *event_counts; /* instead of rows of all but fallbacks, if set */
	uint64_t rows;                     /* written so far */
};

enum { NO_PFN = -1 }; /* a null pfn: nothing was found */

/* Whether rows are wanted. Inline, so that a run without events pays for this test only. */
static inline bool events_wanted(const struct events *e)
{
	return e && !e->prediction;
}

/* The functions below, called only if rows are wanted. */
void write_alloc(struct events *e, const struct moment *now, int64_t pfn, int order,
		 uint32_t gfp_flags, int migratetype);
void write_free(struct events *e, const struct moment *now, int64_t pfn, int order);
void write_free_batched(struct events *e, const struct moment *now, int64_t pfn);
void write_zone_locked(struct events *e, const struct moment *now, int64_t pfn, int order,
		       int migratetype, int refill);
void write_pcpu_drain(struct events *e, const struct moment *now, int64_t pfn, int order,
		      int migratetype);
void write_extfrag(struct events *e, const struct moment *now, const struct extfrag *extfrag);

static inline void events_alloc(struct events *e, const struct moment *now, int64_t pfn, int order,
				uint32_t gfp_flags, int migratetype)
{
	if (events_wanted(e))
		write_alloc(e, now, pfn, order, gfp_flags, migratetype);
}

static inline void events_free(struct events *e, const struct moment *now, int64_t pfn, int order)
{
	if (events_wanted(e))
		write_free(e, now, pfn, order);
}

static inline void events_free_batched(struct events *e, const struct moment *now, int64_t pfn)
{
	if (events_wanted(e))
		write_free_batched(e, now, pfn);
}

/* `refill` < 0 leaves percpu_refill null. */
static inline void events_zone_locked(struct events *e, const struct moment *now, int64_t pfn,
				      int order, int migratetype, int refill)
{
	if (events_wanted(e)) {
		write_zone_locked(e, now, pfn, order, migratetype, refill);
	} else if (e) {
		e->prediction->zone_locked = true;
		e->prediction->pfn = pfn;
		e->prediction->migratetype = migratetype;
	}
}

static inline void events_pcpu_drain(struct events *e, const struct moment *now, int64_t pfn,
				     int order, int migratetype)
{
	if (events_wanted(e))
		write_pcpu_drain(e, now, pfn, order, migratetype);
}

static inline void events_extfrag(struct events *e, const struct moment *now,
				  const struct extfrag *extfrag)
{
	if (events_wanted(e)) {
		write_extfrag(e, now, extfrag);
	} else if (e) {
		e->prediction->fallback = true;
		e->prediction->extfrag = *extfrag;
	}
}
