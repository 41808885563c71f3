/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_counts.h - counts of the model's own events, instead of rows: table event_count.
 *
 * Requests of the recorder's own threads count apart. They depend on the number of events that it
 * writes, so under another policy the record has a wrong number of them.
 *
 * A run, as in the report `metrics`, is a series of alloc_zone_locked events of one CPU without an
 * alloc of that CPU between them, or of pcpu_drain events without a free.
 */
#pragma once

#include "events.h"
#include "model.h"
#include "output.h"

enum { NO_ORDER = NR_PAGE_ORDERS }; /* of free_batched */

/* The recorder's threads. */
struct recorder_threads {
	const int32_t *pids; /* ascending */
	size_t nr;
};

/* The counts of one side: of the recorder, or of all others. */
struct side_counts {
	struct {
		uint64_t events, without_page, runs;
	} nr[NR_EVENT_COUNT_KIND][NR_PAGE_ORDERS + 1];
	bool *refilling, *draining; /* [cpu] a run of that kind is open */
};

struct event_counts {
	struct side_counts others, recorder;
	struct recorder_threads threads;
	int32_t last_pid;         /* the thread of the last event, ... */
	struct side_counts *last; /* ... and its side; NULL: no event yet */
};

/* `threads` is borrowed until event_counts_free(). -ENOMEM. */
int event_counts_init(struct event_counts *t, int nr_cpus, const struct recorder_threads *threads,
		      struct error *err);
void event_counts_free(struct event_counts *t);

/* One event; `kind` is EVENT_KIND_*, but not ALLOC_EXTFRAG. */
void event_counts_add(struct event_counts *t, int kind, const struct moment *now, int order,
		      bool has_page);

/* The rows of event_count. */
void event_counts_write(const struct event_counts *t, struct output *out);
