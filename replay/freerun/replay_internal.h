/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_internal.h - the state of one free run, shared by its files.
 *
 *   replay.c     the interface; the order of requests, inferred rows and reclaim events
 *   intervals.c  work by time: vmstat ticks, ends of intervals, samples
 */
#pragma once

#include "model/event_counts.h"
#include "replay.h"
#include "reclaim/reclaim_run.h"
#include "rewrite.h"
#include "run/fragmentation_sample.h"
#include "run/pcp_occupancy.h"
#include "run/run.h"
#include "serve.h"
#include "tape/snapshot.h"
#include "zone_lock_queue.h"

/* Tables that grow with every interval. */
enum { SERIES_COUNTER, SERIES_OCCUPANCY, SERIES_LOCK, SERIES_LOCK_WAIT, NR_SERIES };

struct replay {
	struct replay_config config;
	struct run run;
	struct model *model;        /* the model of `run`, once started */
	struct reclaim_run reclaim; /* R1 and R2 */

	struct requests requests;
	struct serve serve;
	struct variation variation;
	struct rewrites rewrites;

	bool *busy;          /* [cpu] its next tick may have work */
	bool recorded_ticks; /* the tape has the ticks; else a tick every tick_ns */
	uint64_t tick_ns, next_tick, next_look, interval_end;
	uint64_t quiet_intervals; /* without a row, but with ticks */
	struct pcp_occupancies occupancies;
	struct zone_lock_queues *zone_locks; /* NULL: zone locks are not modelled */
	struct zone_lock_ops zone_lock_ops;
	int next_stop; /* of the observer */

	struct events events;
	struct event_counts event_counts;
	struct output *series[NR_SERIES], *samples[NR_FRAGMENTATION_SAMPLE];
	struct output *event_count, *huge_request;
	struct output *end[NR_END];
	struct totals totals;
	struct wrong_page wrong_page;
};

/* Play what is due before `ts`: ticks, ends of intervals, samples. */
void intervals_advance(struct replay *r, uint64_t ts);

/*
 * End the interval: write its counters as rows, add them to the totals, and sample the state before
 * `ts`.
 */
void intervals_end(struct replay *r, uint64_t ts);
