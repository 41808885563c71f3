/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h - compares the model with the kernel, decision by decision, one event ahead.
 *
 * At every recorded decision - the page of an allocation, the page that left a free list, the size
 * of a refill, the victims of a drain, a fallback - the model predicts first, the prediction is
 * counted, and then the model takes over the record. So each error counts once, at the decision
 * that caused it.
 *
 * Activity without an event is inferred where the tape contradicts the model, and counted as a
 * repair with its cause (schemas/repair.toml). Three inputs are taken from the record, because no
 * event shows their causes: whether a pageblock had enough movable pages for a claim, when a whole
 * PCP is drained for reclaim, and the zone of the recorded page.
 *
 * Without an exact snapshot the order of the free lists and the pages of the PCPs are unknown at
 * first. A decision that depends on them counts as unknown until events show them.
 */
#pragma once

#include "run/run.h"
#include "score/score.h"

struct validate;

enum checks { CHECKS_OFF, CHECKS_CHEAP, CHECKS_FULL };

struct validate_config {
	struct run_config run; /* interval_ns: grain of the tables exactness and repair */
	uint64_t nr_rows;      /* rows of `event` for validate_preview(); 0: no preview */
	/*
	 * When to check the model's invariants: never, once an interval, or after every event (very
	 * slow).
	 */
	enum checks checks;
	const struct validate_observer *observer; /* borrowed until validate_free(); NULL: none */
};

struct validate_totals {
	uint64_t events;           /* rows fed */
	const uint64_t *anomalies; /* [NR_ANOMALY_KIND] */
	uint64_t alloc_inferred;   /* exact allocs that need inferred allocs before them */
	double loop_seconds;
	struct zone_accuracy accuracy;
};

int validate_new(struct validate **out, const struct validate_config *config, struct error *err);
void validate_free(struct validate *v);

/* Load rows of one table: see load_rows(). */
int validate_load(struct validate *v, const char *table, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err);

/*
 * Read the same batches of `event` before validate_feed(), for facts that show after the end of the
 * window. Optional, recommended. Rows beyond config.nr_rows are ignored.
 */
int validate_preview(struct validate *v, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err);

/* Feed a batch of `event`, in tape order. -EUCLEAN if an invariant is broken. */
int validate_feed(struct validate *v, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err);
int validate_feed_columns(struct validate *v, const struct event_columns *columns, size_t nr,
			  struct error *err);
int validate_finish(struct validate *v, struct error *err);

/*
 * After validate_finish(): load rows of the exact end snapshot: pageblock, free_block or pcp_page.
 */
int validate_compare_end(struct validate *v, const char *table, const struct ArrowSchema *schema,
			 const struct ArrowArray *array, struct error *err);

/* A finished batch of any output table, or NULL. */
struct batch *validate_read(struct validate *v);

const struct validate_totals *validate_totals(const struct validate *v);
const struct divergence *validate_divergence(const struct validate *v);
const struct end_state_diff *validate_end_state_diff(const struct validate *v);
