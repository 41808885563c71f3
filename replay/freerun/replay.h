/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - a free run: the requests of a tape, served by the model.
 *
 * Of the recorded events only requests are read: alloc (order, migratetype, gfp flags,
 * CPU) and free. Everything between them - refills, drains, fallbacks, zones - the
 * model decides, so that it can decide otherwise. The recorded pfn is the key by which
 * a free finds its allocation, and nothing else, with two exceptions: it names the
 * node that a __GFP_THISNODE request meant, or one of a thread that prefers the node it
 * lands on (node_preference.h), and it tells that a page was on a PCP list at
 * the start where the snapshot could not see those.
 *
 * Frees. The kernel reports a free when it begins, and for a page of a batch again, as
 * free_batched, when it takes effect. A free therefore waits for its free_batched if
 * one follows within the next WINDOW requests, and takes effect at once otherwise. A
 * free_batched without a free frees the page by itself.
 *
 * What no event told (inferred.h) is taken as further requests, if it is given. A page that
 * was allocated before its event came is allocated then, and its event written later.
 *
 * Ticks. Every CPU runs its vmstat worker as long as it did something or the worker has
 * not finished: once a second or, if the tape has the worker's own events, when those
 * say.
 *
 * Watermark boosts act if the tape shows kswapd's passes, which take them back; else
 * they are only counted. While a pass (see reclaim_event.h) lasts its zones keep their PCPs short.
 * Nothing else of reclaim is modelled: pages are freed when the
 * record freed them.
 *
 * An exact snapshot lies within the recording, so that only some rows are to be played:
 * `spans` says which. What the reclaim table tells of before the first of them is over.
 *
 * Same input, same output, byte for byte, however the input is cut into batches.
 */
#pragma once

#include "reclaim/reclaim_supply.h"
#include "run/run.h"

struct replay;

struct replay_config {
	struct run_config run;
	bool events; /* write the model's own events */
	enum reclaim_mode reclaim;
	bool counted; /* ... as rows only fallbacks, the rest in numbers: event_counts.h */
	/* The record compacts: so does the run for what it served, compact_for_record.h. */
	bool compacts_for_record;
	bool explains; /* find the first wrong page: slower */
};

/* The first page that is not the one the record has. */
struct wrong_page {
	bool known;
	uint64_t at, ts;        /* its row of event */
	uint64_t expected, got; /* the model's, or UINT64_MAX for none, and the record's */
	uint16_t cpu;
	uint8_t order, migratetype;
};

/* What a run adds up to. */
struct totals {
	uint64_t events;            /* rows fed */
	uint64_t requests;          /* of them allocs and frees */
	uint64_t recorded_failures; /* allocs that failed in the record: not replayed */
	const uint64_t *anomalies;  /* [NR_ANOMALY_KIND] */
	double loop_seconds;        /* of CPU time, in replay_feed() and replay_finish() */
	struct counters counters;
};

int replay_new(struct replay **out, const struct replay_config *config, struct error *err);
void replay_free(struct replay *r);

/* Rows of snapshot 0 of one table, and all of reclaim: see load_rows(). */
int replay_load(struct replay *r, const char *table, const struct ArrowSchema *schema,
		const struct ArrowArray *array, struct error *err);

/* A batch of `event`, in tape order. -ENODATA without a snapshot to begin from. */
int replay_feed(struct replay *r, const struct ArrowSchema *schema, const struct ArrowArray *array,
		struct error *err);

/* The same for columns at hand. */
int replay_feed_columns(struct replay *r, const struct event_columns *columns, size_t nr,
			struct error *err);

/* The tape is over: the waiting requests run, the end state is written as snapshot 1. */
int replay_finish(struct replay *r, struct error *err);

/* A finished batch of any table, or NULL. To be exported, or read, before the next call. */
struct batch *replay_read(struct replay *r);

const struct totals *replay_totals(const struct replay *r);

/* With config.explains: as far as the requests have run. */
const struct wrong_page *replay_wrong_page(const struct replay *r);

/* Name and total of the n-th counter; a NULL name past the last. */
const char *counter_name(int n);
uint64_t counter_total(const struct totals *totals, int n);

/* The model, once a snapshot is loaded: for tests. */
struct model *replay_model(struct replay *r);
