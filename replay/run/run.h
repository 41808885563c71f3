/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the common part of every run over a tape: policies, start, spans, output lists.
 *
 *   run_init()    policies and kernel row; names are checked
 *   run_load()    rows of the first snapshot and of the other input tables
 *   run_start()   the model is ready
 *   run_feed()    batches of `event`; rows within the spans are played
 *   run_finish()  end of the tape
 *   run_read()    finished batches of every output list, at any time
 *
 * A free run (freerun/) and a validation (predict/) embed a struct run, and play the rows that
 * run_feed() hands them.
 */
#pragma once

#include "observer.h"
#include "policies/policies.h"
#include "tape/anomalies.h"
#include "tape/load.h"

/* Rows `first` to `end` - 1 of the table event. */
struct span {
	uint64_t first, end;
};

struct run_config {
	const struct kernel *kernel;
	const struct kernel *recorded; /* row of the tape's own kernel; NULL: as `kernel` */
	struct machine machine;        /* borrowed until run_free(), as are policies and spans */
	const char *const *policies;   /* specs */
	int nr_policies;
	const char *const *policy_libs; /* paths of shared objects: policy_lib.h */
	int nr_policy_libs;
	uint64_t interval_ns; /* length of one row's interval in the tables over time */
	uint64_t interval_ts; /* a free run begins an interval at this time; 0: at whole seconds */
	/* Rows to play, ascending; others are skipped. 0 spans: all rows. */
	const struct span *spans;
	size_t nr_spans;
	const struct run_observer *observer; /* borrowed until run_free(); NULL: none */
};

enum { RUN_OUTPUTS_MAX = 24 };

struct run {
	struct run_config config;
	struct policy_stack *policies;
	struct load load;
	struct model *model; /* the model of `load`, once started */
	bool started, finished;
	uint64_t rows;       /* of `event` fed */
	double loop_seconds; /* CPU time of the feed and finish calls */
	uint64_t nr_anomalies[NR_ANOMALY_KIND];
	struct anomalies anomalies;
	struct output *outputs[RUN_OUTPUTS_MAX]; /* in the order of run_read() */
	int nr_outputs;
};

/*
 * Set up a run. -EINVAL for spans out of order or an interval below 1 ms, errors of
 * policy_stack_add() and policy_stack_open(), or -ENOMEM. Call run_free() after an error as well.
 */
int run_init(struct run *run, const struct run_config *config, struct error *err);
void run_free(struct run *run);

/* Open an output list, which run_read() reads and run_free() frees. -ENOMEM. */
int run_output(struct run *run, struct output **out, const struct table *table, size_t rows,
	       struct error *err);

/* Load rows of one table: see load_rows(). -EINVAL after the first event. */
int run_load(struct run *run, const char *table, const struct ArrowSchema *schema,
	     const struct ArrowArray *array, struct error *err);

/* Complete the model and show it to the observer. Errors of load_complete(). */
int run_start(struct run *run, struct error *err);

/* Plays rows `first` to `end` - 1 of a batch. 0 or -errno. */
typedef int run_rows_fn(void *self, const struct event_columns *columns, size_t first, size_t end,
			struct error *err);

/*
 * Feed a batch of `event`, in tape order; `rows` gets its parts within the spans. -EINVAL after the
 * end; -ENOMEM if rows of an output list were lost.
 */
int run_feed(struct run *run, const struct event_columns *columns, size_t nr, run_rows_fn *rows,
	     void *self, struct error *err);

/* The row of `event` after the last played one. */
uint64_t run_end(const struct run *run);

/* End of the tape: the output lists may be read to their end. -EINVAL on a second call. */
int run_finish(struct run *run, struct error *err);

/* A finished batch of any output list, or NULL. Valid until the next call: export or read it first.
 */
struct batch *run_read(struct run *run);

/*
 * Play a reclaim event that is the same in both kinds of run: the begin of direct reclaim, a pass
 * of kswapd. False for vmstat ticks and ends of direct reclaim, which the caller plays.
 */
bool run_reclaim_event(struct run *run, const struct reclaim_event *event);
