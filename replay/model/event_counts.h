/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_counts.h - counts of the model's own events, instead of rows: table event_count.
 *
 * A run, as in the report `metrics`, is a series of alloc_zone_locked events of one CPU without an
 * alloc of that CPU between them, or of pcpu_drain events without a free.
 */
#pragma once

#include "model.h"
#include "output.h"

enum { NO_ORDER = NR_PAGE_ORDERS }; /* of free_batched */

struct event_counts {
	struct {
		uint64_t events, without_page, runs;
	} nr[NR_EVENT_COUNT_KIND][NR_PAGE_ORDERS + 1];
	bool *refilling, *draining; /* [cpu] a run of that kind is open */
};

/* -ENOMEM. */
int event_counts_init(struct event_counts *t, int nr_cpus, struct error *err);
void event_counts_free(struct event_counts *t);

/* One event; `kind` is EVENT_KIND_*, but not ALLOC_EXTFRAG. */
void event_counts_add(struct event_counts *t, int kind, int cpu, int order, bool has_page);

/* The rows of event_count. */
void event_counts_write(const struct event_counts *t, struct output *out);
