/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h - is the model true to the kernel? One step ahead, decision by decision.
 *
 * At every decision that the tape recorded - the page of an allocation, the page that
 * left a free list, the size of a refill, the victims of a drain, a fallback - the model
 * predicts first, is scored, and then takes over what was recorded. So an error is
 * counted where it is made, and once.
 *
 * What the kernel does without an event is inferred where the tape contradicts the
 * model, and counted as a repair with its cause (schemas/repair.toml). Two inputs are
 * not predicted but told, for no event holds what they depend on: whether the movable
 * pages of a pageblock sufficed to claim it, and when a whole PCP is drained for
 * reclaim. The zone is that of the recorded page.
 *
 * Without an exact snapshot the order of the free lists and the pages of the PCPs are
 * unknown at first; a decision that depends on them counts as unknown, until the events
 * have told.
 */
#pragma once

#include "model.h"
#include "replay.h"
#include "score.h"
#include "witness.h"

struct validate;
struct doubt;

enum checks { CHECKS_OFF, CHECKS_CHEAP, CHECKS_FULL };

struct validate_config {
	const struct kernel *kernel;
	struct machine machine; /* borrowed until validate_free(), as are policies and spans */
	const char *const *policies;
	int nr_policies;
	uint64_t interval_ns; /* grain of the tables exactness and repair */
	const struct span *spans;
	size_t nr_spans;
	uint64_t nr_rows; /* of event, where validate_preview() is to see them */
	/* Invariants of the model: never, once an interval, after every event (very slow). */
	enum checks checks;
	const struct witness_config *witness; /* borrowed until the first event; NULL: none */
};

struct validate_totals {
	uint64_t events; /* rows fed */
	uint64_t anomalies[NR_ANOMALY_KIND];
	uint64_t alloc_inferred; /* exact allocs that needed untraced ones to be inferred */
	double loop_seconds;
	struct zone_score score;
};

/* The first decision that was missed. */
struct divergence {
	bool known, told;
	const struct doubt *doubt; /* it may turn out to be none */
	struct miss miss;          /* its step is `step` */
	struct step step;
	struct story story; /* what led there, the state around it */
};

/* How far the end state agrees with the end snapshot; see _replay.pyi. */
struct agreement {
	bool known;
	uint64_t free_blocks, free_blocks_same, successor_same;
	uint64_t pcp_pages, pcp_pages_same;
	uint64_t pageblocks, pageblocks_same;
};

int validate_new(struct validate **out, const struct validate_config *config, struct error *err);
void validate_free(struct validate *v);

/* Rows of snapshot 0, see start_load(); and all of reclaim and compaction. */
int validate_load(struct validate *v, const char *table, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err);

/*
 * Before all of validate_feed(), and best done: the same batches of `event`, for what only
 * shows later than validate looks ahead. Rows beyond config.nr_rows are not kept.
 */
int validate_preview(struct validate *v, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err);

/* A batch of `event`, in tape order. -EUCLEAN where an invariant does not hold. */
int validate_feed(struct validate *v, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err);
int validate_feed_columns(struct validate *v, const struct event_columns *columns, size_t nr,
			  struct error *err);
int validate_finish(struct validate *v, struct error *err);

/* After that: rows of the end's exact snapshot: pageblock, free_block or pcp_page. */
int validate_compare_end(struct validate *v, const char *table, const struct ArrowSchema *schema,
			 const struct ArrowArray *array, struct error *err);

/* A finished batch of exactness, repair, miss or anomaly, or NULL. */
struct batch *validate_read(struct validate *v);

const struct validate_totals *validate_totals(const struct validate *v);
const struct divergence *validate_divergence(const struct validate *v);
const struct agreement *validate_agreement(const struct validate *v);

/* After validate_finish(): what the witness saw, or NULL. */
const struct witness *validate_witness(const struct validate *v);

/* The model: for tests. */
struct model *validate_model(struct validate *v);
