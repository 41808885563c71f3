/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorded_counts.h - counts of recorded events, as a counted free run has those of the model's.
 *
 * The report `metrics` needs of most events only their numbers. A run over the recording counts
 * them here while it reads the events, so that the report need not read them again.
 */
#pragma once

#include "model/event_counts.h"

struct recorded_counts_config {
	uint64_t since, until;            /* ns: of the first and the last event that counts */
	struct recorder_threads recorder; /* borrowed */
};

struct recorded_counts;

/* -ENOMEM. */
int recorded_counts_new(struct recorded_counts **out, const struct recorded_counts_config *config,
			struct error *err);
void recorded_counts_free(struct recorded_counts *c);

/*
 * Count a batch of `event`. `fallbacks`: alloc_extfrag events of any time in it, which the report
 * needs as rows.
 */
int recorded_counts_feed(struct recorded_counts *c, const struct ArrowSchema *schema,
			 const struct ArrowArray *array, uint64_t *fallbacks, struct error *err);

/* After the last batch: a batch of event_count or huge_request, or NULL. */
struct batch *recorded_counts_read(struct recorded_counts *c);

/* Whether the counts have all events: not those of an order that no kernel has. */
bool recorded_counts_complete(const struct recorded_counts *c);
