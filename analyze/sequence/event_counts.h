/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_counts.h - how many events of each kind and order each interval of time has.
 *
 * Every batch of events has rows of its own: an interval, kind and order may have several.
 */
#pragma once

#include "sequence.h"

/* page_order_valid is 0 before. */
struct event_count_rows {
	uint64_t *interval; /* (ts - start_ts) / interval_ns */
	uint8_t *kind;
	uint8_t *page_order;
	uint8_t *page_order_valid;
	uint64_t *events;
	uint64_t *with_page; /* of these, events with a pfn */
};

struct event_counts;

/* -ENOMEM. `interval_ns` > 0. */
int event_counts_new(struct event_counts **out, struct sequence_kinds kinds, uint64_t start_ts,
		     uint64_t interval_ns);
void event_counts_free(struct event_counts *counts);

/* The number of rows, at most one for each event. */
long event_counts_read(struct event_counts *counts, const struct sequence_events *events,
		       struct event_count_rows *rows);
