/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_world.h - a toy whose requests are those of a record.
 */
#pragma once

#include "check.h"
#include "freerun/serve.h"
#include "toy.h"

struct world {
	struct toy toy;
	struct serve serve;
	uint64_t anomalies[NR_ANOMALY_KIND];
	struct output *output; /* rows of anomaly */
};

/* Once its toy is new: requests can be served, and pages may move. */
void world_begin(struct world *w);

/* The model's invariants hold at the end; the test that runs fails if they do not. */
static inline void world_free(struct world *w)
{
	const char *wrong = model_check(w->toy.m);

	check_text(wrong ? wrong : "", "");
	serve_free(&w->serve);
	output_free(w->output);
	toy_free(&w->toy);
}

/* In the record these pages were handed out and freed: what the model has there is not theirs. */
void freed(struct world *w, uint32_t pfn, int order);

/* The free of a recorded page. */
void free_(struct world *w, uint32_t pfn, int order);
