/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level.h - how full the PCPs are, over time.
 *
 * Nothing is called on a PCP hit: the PCPs are looked at every LEVEL_PERIOD_NS, and
 * before every tick. Since the last look each is taken to have held what it holds now.
 */
#pragma once

#include "model.h"
#include "output.h"

#define LEVEL_PERIOD_NS 10000000ull

struct level {
	uint64_t page_ns;
	uint32_t least, most;
};

struct levels {
	struct level *of; /* [pcp] */
	uint64_t begin, last;
};

/* For the PCPs of a model. -ENOMEM. */
int levels_new(struct levels *l, const struct model *m, struct error *err);
void levels_free(struct levels *l);

/* Time begins. */
void levels_start(struct levels *l, uint64_t ts);

/* Look at every PCP. */
void levels_look(struct levels *l, const struct model *m, uint64_t ts);

/* Look, and write what was seen since the last call as rows of pcp_level. */
void levels_write(struct levels *l, const struct model *m, uint64_t ts, struct output *output);
