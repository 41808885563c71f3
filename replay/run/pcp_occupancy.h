/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcp_occupancy.h - how full the PCPs are, over time.
 *
 * A PCP hit costs nothing: the PCPs are read every OCCUPANCY_PERIOD_NS, and before every tick. Each
 * is assumed to have held since the last reading what it holds now.
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
void pcp_occupancies_free(struct pcp_occupancies *l);

/* Time begins. */
void pcp_occupancies_start(struct pcp_occupancies *l, uint64_t ts);

/* Read every PCP. */
void pcp_occupancies_look(struct pcp_occupancies *l, const struct model *m, uint64_t ts);

/* Read, and write the occupancy since the last call as rows of pcp_occupancy. */
void pcp_occupancies_write(struct pcp_occupancies *l, const struct model *m, uint64_t ts,
			   struct output *output);
