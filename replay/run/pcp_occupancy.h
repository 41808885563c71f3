/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcp_occupancy.h - pages on the PCPs over time.
 *
 * The PCPs are sampled every OCCUPANCY_PERIOD_NS and before every tick, so a PCP hit costs nothing.
 * Each sample counts for the time since the one before.
 */
#pragma once

#include "model/model.h"
#include "output.h"

#define OCCUPANCY_PERIOD_NS 10000000ull

struct level {
	uint64_t page_ns;
	uint32_t least, most;
};

struct pcp_occupancies {
	struct level *of; /* [pcp] */
	uint64_t begin, last;
};

/* For the PCPs of a model. -ENOMEM. */
int pcp_occupancies_new(struct pcp_occupancies *l, const struct model *m, struct error *err);

/* Start at `ts`. */
void pcp_occupancies_start(struct pcp_occupancies *l, uint64_t ts);

/* Read every PCP. */
void pcp_occupancies_look(struct pcp_occupancies *l, const struct model *m, uint64_t ts);

/* Sample, and write the occupancy since the last call as rows of pcp_occupancy. */
void pcp_occupancies_write(struct pcp_occupancies *l, const struct model *m, uint64_t ts,
			   struct output *output);
