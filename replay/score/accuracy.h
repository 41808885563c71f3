/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accuracy.h - counts of the model's correct predictions, and of the corrections from the record.
 */
#pragma once

#include "model/force_state.h"
#include "run/run.h"
#include "tape/event_window.h"
#include "tables.h"

/* Decisions of the kernel, as in the tables exactness and miss. */
enum decision {
	DECISION_ALLOC,
	DECISION_ZONE_LOCKED,
	DECISION_REFILL_SIZE,
	DECISION_DRAIN,
	DECISION_DRAIN_SIZE,
	DECISION_EXTFRAG,
	NR_DECISIONS,
};

enum verdict { EXACT, MISSED, UNKNOWN };

struct accuracy_count {
	uint64_t nr, exact, unknown;
};

struct repair_count {
	uint64_t nr, pages;
};

/* The counts of one zone. */
struct zone_accuracy {
	struct accuracy_count decisions[NR_DECISIONS];
	struct repair_count repairs[NR_REPAIR_CAUSE];
};

struct accuracy {
	const struct model *m;
	uint64_t interval_ns, interval_end;
	struct zone_accuracy *zones; /* [zone] of the running interval */
	struct zone_accuracy total;
	struct output *exactness, *repair, *miss;
	uint64_t misses;
};

/* One miss, for the table. */
struct miss {
	const struct window_event *event;
	const struct zone *zone;
	enum decision decision;
	int cause; /* REPAIR_CAUSE_* */
	int order, migratetype;
	uint64_t expected, got; /* NONE: nothing */
	enum place place;
};
#define NONE UINT64_MAX

/* Counts for a started run; the tables become output lists of the run. -ENOMEM. */
int accuracy_new(struct accuracy *s, struct run *run, struct error *err);

/* Count a decision; accuracy_miss() counts a miss. */
static inline void accuracy_count(struct accuracy *s, const struct zone *zone,
				  enum decision decision, enum verdict verdict)
{
	struct accuracy_count *count = &s->zones[zone->number].decisions[decision];

	count->nr++;
	count->exact += verdict == EXACT;
	count->unknown += verdict == UNKNOWN;
}

void accuracy_miss(struct accuracy *s, const struct miss *miss);
void accuracy_repair(struct accuracy *s, const struct zone *zone, int cause, uint64_t pages);

/* Write rows for the intervals that end before `ts`. */
void accuracy_advance(struct accuracy *s, uint64_t ts);
void accuracy_finish(struct accuracy *s);
