/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state_trace.h - the state of a run around one request, to compare with another run.
 *
 * As far as the tape shows, validate has the kernel's state. A free run may differ from that state
 * long before its first wrong page. A trace has the state around the wrong page in words and a
 * digest of the state before each request. Equal digests show how long the two runs were the same.
 */
#pragma once

#include "explain.h"
#include "run/observer.h"

/* Parts of the state, each with its own digest. */
enum {
	PART_FREE_LISTS, /* their lengths and ends */
	PART_PCP_LISTS,
	PART_TUNING, /* of the PCPs */
	PART_MARKS,  /* flags and boost of the zones */
	PART_COUNTS, /* differences of the zones' counters: vmstat_diff.h */
	NR_PARTS,
};

struct state_trace_config {
	uint64_t start;   /* first row of `event` with a digest */
	uint64_t first;   /* row before which the state is printed */
	uint64_t ran;     /* row after which it is printed again */
	uint64_t at;      /* row of the page's event, the last one with a digest */
	uint64_t lists;   /* row before which all lists are read; UINT64_MAX: none */
	uint64_t pfns[2]; /* recorded pfn of the page, and the model's or UINT64_MAX */
	uint16_t cpu;     /* of the request, like the next two */
	uint8_t order, migratetype;
};

enum { LOOK_ENTRIES = 4, NO_CPU = UINT16_MAX };

/* A list that is not empty: its length, and its first entries. */
struct list_look {
	uint64_t pfns[LOOK_ENTRIES]; /* UINT64_MAX behind the last */
	uint32_t nr;
	uint16_t node, cpu; /* NO_CPU: a free list */
	uint8_t zone, order, migratetype;
};

struct state_trace {
	struct state_trace_config config;
	struct scene scene;
	bool printed_before, printed_after;
	struct explanation event; /* that event and earlier ones of its CPU; only from validate */
	struct explanation before, after;
	size_t nr_lists, nr_digests;
	struct list_look *lists;
	uint32_t (*digests)[NR_PARTS]; /* [row - start]; zeros: no request */
};

/* -ENOMEM, or -EINVAL for rows that are not in order. */
int state_trace_new(struct state_trace **out, const struct state_trace_config *config,
		    struct error *err);
void state_trace_free(struct state_trace *w);

/*
 * The observer that fills the trace. It ends the run at the start if the machine lacks the
 * request's CPU or zone (-EINVAL), or for lack of memory (-ENOMEM).
 */
struct run_observer state_trace_observer(struct state_trace *w);
