/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - what every run over a tape shares: its policies, its start, its spans, its output.
 *
 *   run_init()    policies and kernel row; names are checked
 *   run_load()    rows of the first snapshot and of the tables that a run reads besides
 *   run_start()   the model is ready
 *   run_feed()    batches of `event`, of which the spans are played
 *   run_finish()  the tape is over
 *   run_read()    finished batches of every output list, at any time
 *
 * free run (freerun/) and validate (validate/) embed a struct run and say what becomes of the
 * rows that are fed.
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
	uint64_t interval_ns; /* grain of the tables with one row an interval */
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

/* A list of rows that run_read() hands out; run_free() frees it. -ENOMEM. */
int run_output(struct run *run, struct output **out, const struct table *table, size_t rows,
	       struct error *err);

/* Rows of one table, before the first event: see load_rows(). -EINVAL after it. */
int run_load(struct run *run, const char *table, const struct ArrowSchema *schema,
	     const struct ArrowArray *array, struct error *err);

/* The model is ready, and the observer has seen it. As load_complete(). */
int run_start(struct run *run, struct error *err);

/* What a kind of run does with rows `first` to `end` - 1 of a batch. 0 or -errno. */
typedef int run_rows_fn(void *self, const struct event_columns *columns, size_t first, size_t end,
			struct error *err);

/*
 * A batch of `event`, in tape order: `rows` gets the parts of it that lie in the spans.
 * -EINVAL after the end; -ENOMEM if rows of an output list were lost.
 */
int run_feed(struct run *run, const struct event_columns *columns, size_t nr, run_rows_fn *rows,
	     void *self, struct error *err);

/* The row of `event` at which what is played of the tape is over. */
uint64_t run_end(const struct run *run);

/* The tape is over; what remains in the output lists may be read. -EINVAL the second time. */
int run_finish(struct run *run, struct error *err);

/* -ENOMEM if rows of an output list were lost. */
int run_outputs_error(const struct run *run, struct error *err);

/* A finished batch of any output list, or NULL. To be exported, or read, before the next call. */
struct batch *run_read(struct run *run);

/*
 * A row of the reclaim table, at m->now. True if it is played here: a task that begins direct
 * reclaim, a pass of kswapd; vmstat ticks and ends of direct reclaim are the caller's.
 */
bool run_reclaim_event(struct run *run, const struct reclaim_event *event);
