/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score.h - how often the model was right, and what it had to be told.
 */
#pragma once

#include "model.h"
#include "output.h"
#include "steps.h"
#include "tables.h"

/* What the kernel decided: the enum of the tables exactness and miss. */
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

/* Where the model held a page: the enum of the table miss. */
enum place { PLACE_FREE, PLACE_PCP, PLACE_USED, PLACE_UNKNOWN };

struct tally {
	uint64_t nr, exact, unknown;
};

struct mended {
	uint64_t nr, pages;
};

/* What was scored in one zone. */
struct zone_score {
	struct tally decisions[NR_DECISIONS];
	struct mended repairs[NR_REPAIR_CAUSE];
};

struct score {
	const struct model *m;
	uint64_t interval_ns, interval_end;
	struct zone_score *zones; /* [zone] of the running interval */
	struct zone_score total;
	struct output *exactness, *repair, *miss;
	uint64_t misses;
};

/* One miss, for the table. */
struct miss {
	const struct step *step;
	const struct zone *zone;
	enum decision decision;
	int cause; /* REPAIR_CAUSE_* */
	int order, migratetype;
	uint64_t expected, got; /* NONE: nothing */
	enum place place;
};
#define NONE UINT64_MAX

int score_new(struct score *s, const struct model *m, uint64_t interval_ns, struct error *err);
void score_free(struct score *s);

/* Count a decision; a miss is counted by score_miss(). */
static inline void score(struct score *s, const struct zone *zone, enum decision decision,
			 enum verdict verdict)
{
	struct tally *tally = &s->zones[zone->number].decisions[decision];

	tally->nr++;
	tally->exact += verdict == EXACT;
	tally->unknown += verdict == UNKNOWN;
}

void score_miss(struct score *s, const struct miss *miss);
void score_repair(struct score *s, const struct zone *zone, int cause, uint64_t pages);

/* Time goes on: intervals that are over become rows. */
void score_advance(struct score *s, uint64_t ts);
void score_finish(struct score *s);

int score_error(const struct score *s, struct error *err);

/* A finished batch, or with `flush` the last ones, or NULL. */
struct batch *score_read(struct score *s, bool flush);
