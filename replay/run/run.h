/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - what every run over a tape shares: policies, start, spans, output lists.
 *
 *   run_init()    policies and kernel row; names are checked
 *   run_load()    rows of the first snapshot, and of the other tables that a run reads
 *   run_start()   the model is ready
 *   run_feed()    batches of `event`; the spans of them are played
 *   run_finish()  the tape is over
 *   run_read()    finished batches of every output list, at any time
 *
 * A free run (freerun/) and a validation (validate/) embed a struct run, and play the rows that
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
	const struct kernel *recorded; /* row of the tape's own kernel; NULL: the same */
	struct machine machine;        /* borrowed until run_free(), as are policies and spans */
	const char *const *policies;   /* specs */
	int nr_policies;
	const char *const *policy_libs; /* paths of shared objects: policy_lib.h */
	int nr_policy_libs;
	uint64_t interval_ns; /* length of one row's interval in the tables over time */
	/* Rows to play, ascending; the rest is passed over. 0: all. */
	const struct span *spans;
	size_t nr_spans;
	const struct run_observer *observer; /* borrowed until run_free(); NULL: none */
};

enum { RUN_OUTPUTS_MAX = 24 };

struct run {
	struct run_config config;
	struct policy_stack *policies;
	struct load load;
	struct model *model; /* that of load, once started */
	bool started, finished;
	uint64_t rows;       /* of `event` fed */
	double loop_seconds; /* of CPU time, in the feed and finish calls */
	uint64_t nr_anomalies[NR_ANOMALY_KIND];
	struct anomalies anomalies;
	struct output *outputs[RUN_OUTPUTS_MAX]; /* in the order run_read() asks them */
	int nr_outputs;
};

/*
 * A run as `config` says. -EINVAL for spans that are not in order or an interval below 1 ms;
 * else as policy_stack_add() and policy_stack_open(), or -ENOMEM. After an error run_free() is
 * due as well.
 */
int run_init(struct run *run, const struct run_config *config, struct error *err);
void run_free(struct run *run);

/* Open an output list, which run_read() reads and run_free() frees. -ENOMEM. */
int run_output(struct run *run, struct output **out, const struct table *table, size_t rows,
	       struct error *err);

/* Load rows of one table: see load_rows(). -EINVAL after the first event. */
int run_load(struct run *run, const char *table, const struct ArrowSchema *schema,
	     const struct ArrowArray *array, struct error *err);

/* Complete the model and show it to the observer. As load_complete(). */
int run_start(struct run *run, struct error *err);

/* Plays rows `first` to `end` - 1 of a batch. 0 or -errno. */
typedef int run_rows_fn(void *self, const struct event_columns *columns, size_t first, size_t end,
			struct error *err);

/*
 * Feed a batch of `event`, in tape order: `rows` gets the parts of it that lie in the spans.
 * -EINVAL after the end; -ENOMEM if rows of an output list were lost.
 */
int run_feed(struct run *run, const struct event_columns *columns, size_t nr, run_rows_fn *rows,
	     void *self, struct error *err);

/* The row of `event` after the last one that is played. */
uint64_t run_end(const struct run *run);

/* The tape is over; the output lists may be read to their end. -EINVAL the second time. */
int run_finish(struct run *run, struct error *err);

/* -ENOMEM if rows of an output list were lost. */
int run_outputs_error(const struct run *run, struct error *err);

/* A finished batch of any output list, or NULL. To be exported, or read, before the next call. */
struct batch *run_read(struct run *run);

/*
 * Play a reclaim event at m->now, if both kinds of run play it alike: a task that begins direct
 * reclaim, a pass of kswapd. False for vmstat ticks and ends of direct reclaim, which the caller
 * plays.
 */
bool run_reclaim_event(struct run *run, const struct reclaim_event *event);
