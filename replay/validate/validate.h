/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h - is the model true to the kernel? One event ahead, decision by decision.
 *
 * At every recorded decision - the page of an allocation, the page that left a free list, the size
 * of a refill, the victims of a drain, a fallback - the model predicts first, the prediction is
 * counted, and then the model takes over the record. So an error is counted where it is made, and
 * once.
 *
 * Activity without an event is inferred where the tape contradicts the model, and counted as a
 * repair with its cause (schemas/repair.toml). Three inputs are not predicted but taken from the
 * record, for no event holds what they depend on: whether the movable pages of a pageblock sufficed
 * to claim it, when a whole PCP is drained for reclaim, and the zone, which is that of the recorded
 * page.
 *
 * Without an exact snapshot the order of the free lists and the pages of the PCPs are unknown at
 * first. A decision that depends on them counts as unknown, until events have shown them.
 */
#pragma once

#include "accuracy.h"
#include "run/run.h"
#include "tape/event_window.h"

struct validate;
struct pending_miss;

enum checks { CHECKS_OFF, CHECKS_CHEAP, CHECKS_FULL };

/* Hooks to follow the findings; their functions may read validate_run.h. */
struct validate_observer {
	void *self;
	/* An event is about to be predicted, in a run that has a run_observer as well. */
	void (*event)(void *self, const struct validate *v, const struct window_event *event);
	/* The first miss, before the model takes over the record, and after it. */
	void (*missed)(void *self, const struct validate *v, const struct miss *miss);
	void (*repaired)(void *self, const struct validate *v);
	/* The first miss was none: the next one is the first. */
	void (*forgotten)(void *self);
};

struct validate_config {
	struct run_config run; /* interval_ns: grain of the tables exactness and repair */
	uint64_t nr_rows;      /* of `event`, if validate_preview() is to read them; else 0 */
	/* Invariants of the model: never, once an interval, after every event (very slow). */
	enum checks checks;
	const struct validate_observer *observer; /* borrowed until validate_free(); NULL: none */
};

struct validate_totals {
	uint64_t events;           /* rows fed */
	const uint64_t *anomalies; /* [NR_ANOMALY_KIND] */
	uint64_t alloc_inferred;   /* exact allocs that are exact only with inferred allocs before
				      them */
	double loop_seconds;
	struct zone_accuracy accuracy;
};

/* The first decision that was missed. */
struct divergence {
	bool known, repaired;
	const struct pending_miss *
		pending_miss; /* the pending miss that it is, which may prove to be none; or NULL */
	struct miss miss;     /* its event is `event` */
	struct window_event event;
};

/* How much of the end state is that of the end snapshot; see _replay.pyi. */
struct end_state_diff {
	bool known;
	uint64_t free_blocks, free_blocks_same, successor_same;
	uint64_t pcp_pages, pcp_pages_same;
	uint64_t pageblocks, pageblocks_same;
};

int validate_new(struct validate **out, const struct validate_config *config, struct error *err);
void validate_free(struct validate *v);

/* Load rows of one table: see load_rows(). */
int validate_load(struct validate *v, const char *table, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err);

/*
 * Before all of validate_feed(), and recommended: read the same batches of `event`, for facts that
 * show later than validate looks ahead. Rows beyond config.nr_rows are ignored.
 */
int validate_preview(struct validate *v, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err);

/* Feed a batch of `event`, in tape order. -EUCLEAN where an invariant does not hold. */
int validate_feed(struct validate *v, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err);
int validate_feed_columns(struct validate *v, const struct event_columns *columns, size_t nr,
			  struct error *err);
int validate_finish(struct validate *v, struct error *err);

/* After validate_finish(): rows of the end's exact snapshot: pageblock, free_block or pcp_page. */
int validate_compare_end(struct validate *v, const char *table, const struct ArrowSchema *schema,
			 const struct ArrowArray *array, struct error *err);

/* A finished batch of any output table, or NULL. */
struct batch *validate_read(struct validate *v);

const struct validate_totals *validate_totals(const struct validate *v);
const struct divergence *validate_divergence(const struct validate *v);
const struct end_state_diff *validate_end_state_diff(const struct validate *v);

/* The model: for tests. */
struct model *validate_model(struct validate *v);
