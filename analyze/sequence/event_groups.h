/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_groups.h - counts of events by everything but time and place: one pass over a tape.
 *
 * Events with the same thread, CPU, kind, order, migratetype, gfp flags and so on are a group. A
 * recording has thousands of groups for millions of events.
 */
#pragma once

#include "sequence.h"

/* Which events count apart: a replay covers those from since to until, both included. */
struct event_groups_choice {
	uint64_t since;
	uint64_t until;
	uint8_t interrupt;       /* bits of `flags` */
	uint8_t extfrag;         /* index of the label of `kind` */
	const int32_t *recorder; /* threads, sorted; borrowed */
	size_t nr_recorder;
};

/* One row for each group; all bitmaps are 0 before. */
struct event_group_rows {
	uint8_t *played;       /* bitmap: since <= ts <= until */
	uint8_t *recorder;     /* bitmap: a thread of the recorder */
	uint8_t *in_interrupt; /* bitmap */
	uint8_t *kind;
	uint16_t *cpu;
	int32_t *pid;
	uint8_t *page_order;
	uint8_t *page_order_valid;
	uint8_t *migratetype;
	uint8_t *migratetype_valid;
	uint32_t *gfp_flags;
	uint8_t *gfp_flags_valid;
	uint8_t *percpu_refill; /* bitmap */
	uint8_t *percpu_refill_valid;
	uint8_t *fallback_order;
	uint8_t *fallback_order_valid;
	uint8_t *fallback_migratetype;
	uint8_t *fallback_migratetype_valid;
	uint8_t *change_ownership; /* bitmap */
	uint8_t *change_ownership_valid;
	uint64_t *events;
	uint64_t *without_page;
	uint64_t *runs;     /* events that begin a run of the report metrics; of played ones */
	uint64_t *first_ts; /* of the events without a page, */
	uint64_t *last_ts;  /* if there are some */
};

struct event_groups;

/* -ENOMEM. `most`: bytes for the groups. */
int event_groups_new(struct event_groups **out, struct sequence_kinds kinds,
		     struct event_groups_choice choice, size_t most);
void event_groups_free(struct event_groups *g);

/* -ENOMEM beyond `most`. */
int event_groups_read(struct event_groups *g, const struct sequence_events *events);

/* After the last batch: up to `nr` rows; 0 at the end. */
size_t event_groups_end(struct event_groups *g, size_t nr, struct event_group_rows *rows);
