/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - a free run: the requests of a tape, served by the model.
 *
 * Requests.  Of the recorded events only requests are read: alloc (order, migratetype, gfp flags,
 * CPU) and free. The model decides everything else: refills, drains, fallbacks, zones. The recorded
 * pfn is the key by which a free finds its allocation. It has two more uses. It gives the node of a
 * __GFP_THISNODE request, or of a thread under a memory policy (node_preference.h). It shows that a
 * page was on a PCP list at the start if the snapshot lacks those lists.
 *
 * Frees.  The kernel reports a free when it begins. For a page of a batch it reports free_batched
 * as well, when the free takes effect. A free waits for its free_batched if that follows within
 * REQUESTS_WINDOW requests, and takes effect at once otherwise. A free_batched without a free frees
 * the page by itself.
 *
 * Inferred rows (inferred.h), if loaded, are played as further requests. A page allocated before
 * its event is allocated at its inferred row; its event is written at the recorded place.
 *
 * Ticks.  A CPU runs its vmstat worker once a second while it is active or the worker has work
 * left. If the tape has events of the worker, it runs at those instead.
 *
 * Reclaim.  Without feedback (R0) pages are freed when the record freed them. Watermark boosts act
 * if the tape shows kswapd's passes, which remove them; otherwise boosts are only counted. During a
 * pass (reclaim_events.h) its zones limit their PCPs.
 *
 * Spans.  An exact snapshot is taken within the recording, so only the rows in `spans` are played.
 * Reclaim events before the first span have no effect.
 *
 * The same input gives the same output, byte for byte, for any division into batches.
 */
#pragma once

#include "model/event_counts.h"
#include "model/policy_effect.h"
#include "reclaim/reclaim_supply.h"
#include "rewrite.h"
#include "run/run.h"
#include "variation.h"

struct replay;

struct replay_config {
	struct run_config run;
	bool events; /* write the model's own events */
	enum reclaim_mode reclaim;
	/*
	 * Write fallbacks as rows and count all other events (event_counts.h); at the end, write no
	 * rows of pages and pageblocks.
	 */
	bool counted;
	struct recorder_threads recorder; /* borrowed until replay_free() */
	/* Move pages for requests that the record served: compact_for_record.h. */
	bool compacts_for_record;
	bool explains; /* find the first wrong page: slower */
	struct variation_config variation;
	const struct rewrite_rule *rewrites; /* borrowed until replay_free() */
	int nr_rewrites;
};

/* The first page that differs from the recorded one. */
struct wrong_page {
	bool known;
	uint64_t at, ts;        /* its row of event */
	uint64_t expected, got; /* pfn of the model, or UINT64_MAX for none, and of the record */
	uint16_t cpu;
	uint8_t order, migratetype;
};

/* The totals of a run. */
struct totals {
	uint64_t events;            /* rows fed */
	uint64_t requests;          /* allocs and frees among them */
	uint64_t recorded_failures; /* allocs that failed in the record: not replayed */
	const uint64_t *anomalies;  /* [NR_ANOMALY_KIND] */
	uint64_t rewritten, kept;   /* requests that a rule fits: see struct rewrites */
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

/* End the run: play the waiting requests and write the end state as snapshot 1. */
int replay_finish(struct replay *r, struct error *err);

/* A finished batch of any table, or NULL. Export or read it before the next call. */
struct batch *replay_read(struct replay *r);

const struct totals *replay_totals(const struct replay *r);

/*
 * After replay_finish(): the effect of the n-th policy of the run, mainline first. Returns its
 * spec, or NULL past the last policy. A policy that says nothing has an empty text.
 */
const char *replay_policy_effect(const struct replay *r, int n, struct policy_effect *effect);

/* The changes of the n-th kind so far: see variation_name(). */
uint64_t replay_drawn(const struct replay *r, int n);

/* The first wrong page so far. Only with config.explains. */
const struct wrong_page *replay_wrong_page(const struct replay *r);

/* Name and total of the n-th counter; a NULL name past the last. */
const char *counter_name(int n);
uint64_t counter_total(const struct totals *totals, int n);
