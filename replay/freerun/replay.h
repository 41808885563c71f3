/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - a free run: the requests of a tape, served by the model.
 *
 * Requests.  Of the recorded events only requests are read: alloc (order, migratetype, gfp flags,
 * CPU) and free. The model decides everything between them - refills, drains, fallbacks, zones - so
 * that it can decide otherwise. The recorded pfn is the key by which a free finds its allocation.
 * It is used for two things more: it names the node of a __GFP_THISNODE request, or of a thread
 * under a memory policy (node_preference.h); and it shows that a page was on a PCP list at the
 * start where the snapshot could not see those.
 *
 * Frees.  The kernel reports a free when it begins, and for a page of a batch again, as
 * free_batched, when it takes effect. A free therefore waits for its free_batched if one follows
 * within the next WINDOW requests, and takes effect at once otherwise. A free_batched without a
 * free frees the page by itself.
 *
 * Inferred rows (inferred.h), if they are loaded, are played as further requests. A page that was
 * allocated before its event is allocated then, and its event is written later.
 *
 * Ticks.  Every CPU runs its vmstat worker as long as it did something or the worker has not
 * finished: once a second or, if the tape has the worker's own events, when those say.
 *
 * Reclaim.  Without feedback (R0) pages are freed when the record freed them. Watermark boosts act
 * if the tape shows kswapd's passes, which take them back; else they are only counted. During a
 * pass (reclaim_events.h) its zones limit their PCPs.
 *
 * Spans.  An exact snapshot lies within the recording, so that only some rows are played: `spans`
 * names them. Reclaim events before the first of them are over.
 *
 * The same input gives the same output, byte for byte, however it is cut into batches.
 */
#pragma once

#include "reclaim/reclaim_supply.h"
#include "run/run.h"

struct replay;

struct replay_config {
	struct run_config run;
	bool events; /* write the model's own events */
	enum reclaim_mode reclaim;
	bool counted; /* of events only fallbacks as rows, the others as numbers: event_counts.h */
	/* Pages move for requests that the record served: compact_for_record.h. */
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

/* The sums of a run. */
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

/* Load rows of one table: see load_rows() and reclaim_run_load(). */
int replay_load(struct replay *r, const char *table, const struct ArrowSchema *schema,
		const struct ArrowArray *array, struct error *err);

/* Feed a batch of `event`, in tape order. -ENODATA without a snapshot to start from. */
int replay_feed(struct replay *r, const struct ArrowSchema *schema, const struct ArrowArray *array,
		struct error *err);

/* The same for columns in memory. */
int replay_feed_columns(struct replay *r, const struct event_columns *columns, size_t nr,
			struct error *err);

/* The tape is over: the waiting requests run, the end state is written as snapshot 1. */
int replay_finish(struct replay *r, struct error *err);

/* A finished batch of any table, or NULL. To be exported, or read, before the next call. */
struct batch *replay_read(struct replay *r);

const struct totals *replay_totals(const struct replay *r);

/* With config.explains: the first wrong page so far. */
const struct wrong_page *replay_wrong_page(const struct replay *r);

/* Name and total of the n-th counter; a NULL name past the last. */
const char *counter_name(int n);
uint64_t counter_total(const struct totals *totals, int n);

/* The model, once a snapshot is loaded: for tests. */
struct model *replay_model(struct replay *r);
