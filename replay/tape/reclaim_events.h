/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_events.h - recorded activity beside the requests: vmstat ticks, direct reclaim, passes of
 * kswapd.
 *
 * All are in the reclaim table, whose rows name the row of `event` after them. A pass begins with
 * kswapd_wake. Its end has no event. The end is taken as 50 us after the task's last event before
 * kswapd sleeps or can be woken again; as 1 ms, if the tape lacks the rows of its reclaim. A pass
 * that runs at the start of the tape lasts until the nap before kswapd's sleep.
 */
#pragma once

#include "model/model.h"

struct reclaim_event {
	uint64_t at, ts;
	uint64_t last; /* at a begin of a pass: time of the last row of its task in the pass */
	enum {
		RECLAIM_EVENT_TICK,
		RECLAIM_EVENT_DIRECT_BEGIN, /* a task begins direct reclaim: no zone could serve its
					       request */
		RECLAIM_EVENT_DIRECT_END,   /* the task ends direct reclaim and tries again */
		RECLAIM_EVENT_KSWAPD_BEGIN,
		RECLAIM_EVENT_KSWAPD_SEEN,
		RECLAIM_EVENT_KSWAPD_END,
	} kind;
	int32_t pid;
	uint16_t where; /* CPU of a tick or task, node of a kswapd */
	uint8_t class_zone;
	bool progress; /* at the end of a direct reclaim: it freed pages */
	bool sleeps;   /* at an end: kswapd goes to sleep, and no row before showed it wakeable */
	uint8_t order; /* of the request, as are the flags */
	uint32_t gfp_flags;
};

/* The recorded kswapd of one node. */
struct kswapd_pass {
	bool known;
	int32_t pid;
	bool runs;          /* while rows are loaded: since before the first of its rows */
	size_t begun;       /* while rows are loaded: 1 + the row of the pass's begin, or 0 */
	uint64_t until;     /* end of the running pass if kswapd has no later event; 0: no pass */
	uint64_t called;    /* while rows are loaded: time of the call that wakes it, or 0 */
	bool awake;         /* between the begin of a pass and its sleep */
	uint8_t class_zone; /* while awake: the highest zone of its last pass */
	uint64_t nap;       /* while awake: from then on a call wakes it */
	bool boosted;       /* a boost of the model's own came while it was awake */
	bool freed;         /* in the running pass: its task had an event, mostly a free */
	bool for_boost;     /* the running pass began with a boost */
	int failures;       /* passes in a row that freed nothing */
	/*
	 * A pass for a boost that the model has and the record has not: reclaim_events_boosts().
	 * `own_begin` is 0 once it runs, `own_end` is 0 without such a pass.
	 */
	uint64_t own_begin, own_end;
};

/* Times of the recorded passes, in ns. */
struct pass_times {
	uint64_t nr_calls, nr_passes;
	uint64_t waits;   /* sum, from a call of a sleeping kswapd to its pass */
	uint64_t lengths; /* sum */
};

/* A task in direct reclaim, or after it until the alloc of its request. */
struct reclaiming {
	int32_t pid;
	uint8_t order;
	bool below_min; /* the model had no page for it either */
};
enum {
	RECLAIMING_MAX = 1024,
	RECLAIMED_MAX = 64
}; /* tasks at a time; a further task has order 0 */

struct reclaim_events {
	struct arrays *arrays; /* of the model */
	struct reclaim_event *rows;
	size_t nr, room, next;
	bool ticks;                  /* the tape has the vmstat worker's own events */
	struct kswapd_pass *kswapds; /* [node] */
	int nr_passes;               /* of kswapd, running */
	int nr_own_passes;           /* for boosts, running or to begin */
	struct pass_times times;
	bool direct_recorded; /* the tape has begins of direct reclaim */
	bool passes_traced;   /* the tape has rows of the reclaim of a kswapd */
	struct reclaiming reclaiming[RECLAIMING_MAX]; /* while rows are loaded */
	struct reclaiming reclaimed[RECLAIMED_MAX];
	int nr_reclaiming, nr_reclaimed;
};

/* For the nodes of a model. -ENOMEM. */
int reclaim_events_new(struct reclaim_events *a, const struct model *m, struct error *err);

/*
 * Store the rows of event row `first` and later that belong to a pass, a tick or direct reclaim. If
 * there are passes, which remove boosts, watermark boosts act.
 */
int reclaim_events_load(struct reclaim_events *a, struct model *m,
			const struct reclaim_columns *columns, size_t rows, uint64_t first,
			struct error *err);

/* The next reclaim event due before row `at` of `event`, or NULL. */
static inline const struct reclaim_event *reclaim_events_next(struct reclaim_events *a, uint64_t at)
{
	if (a->next == a->nr || a->rows[a->next].at > at)
		return NULL;
	return &a->rows[a->next++];
}

/* The row of `event` after the next vmstat tick of a CPU; UINT64_MAX without a tick. */
static inline uint64_t reclaim_events_next_tick(const struct reclaim_events *a, int cpu)
{
	for (size_t i = a->next; i < a->nr; i++)
		if (a->rows[i].kind == RECLAIM_EVENT_TICK && a->rows[i].where == cpu)
			return a->rows[i].at;
	return UINT64_MAX;
}

/* Begin, prolong or end a pass of kswapd at m->now. */
void reclaim_events_kswapd(struct reclaim_events *a, struct model *m,
			   const struct reclaim_event *reclaim_event);

/*
 * For a free run, at `ts`: passes of kswapd for boosts of the model's own. The kernel's kswapd is
 * woken by a boost and takes it away in one pass. The record has no such pass for a boost that only
 * the model has, and the boost would last until the next recorded pass, maybe for seconds. So if no
 * recorded pass begins soon, the model's kswapd makes a pass of its own, which waits and lasts as
 * long as the recorded ones on average and frees nothing. No boost wakes a kswapd that the record
 * shows hopeless (wakeup_kswapd, 5.10 to 7.2).
 */
void reclaim_events_boosts(struct reclaim_events *a, struct model *m, uint64_t ts);

/* A task begins direct reclaim; `below_min`: the model had no page for it either. */
void reclaim_events_direct_begin(struct reclaim_events *a, const struct reclaim_event *event,
				 bool below_min);
/* Whether a task reclaims at this time: a kswapd, or a task in direct reclaim. */
bool reclaim_events_reclaims(const struct reclaim_events *a, const struct model *m, int32_t pid);

/*
 * A task ends direct reclaim, which may give a hopeless kswapd new hope. Whether an alloc is the
 * request for which its task reclaimed; *below_min as at a begin, if not NULL.
 */
void reclaim_events_direct_end(struct reclaim_events *a, const struct model *m,
			       const struct reclaim_event *reclaim_event);
bool reclaim_events_take_reclaimed(struct reclaim_events *a, int32_t pid, int order,
				   bool *below_min);

/* An event of a task prolongs its own pass and ends passes without an event for 1 ms. */
void reclaim_events_seen(struct reclaim_events *a, struct model *m, int32_t pid, uint64_t ts);
