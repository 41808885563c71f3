/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.h - run a function while nothing else runs on any CPU.
 *
 * One thread per CPU waits, asleep, at the highest real-time priority. In a meeting they spin, so
 * that only interrupts still run there. Without CAP_SYS_NICE (real-time priority) one thread does
 * all the work and holds no CPU.
 */
#pragma once

#include "error.h"

#include <stdbool.h>
#include <stdint.h>

struct freezer;

struct freezer_cpu {
	int cpu, node;
	int tid; /* pid of the thread pinned to it */
};

/* One thread for every CPU that this process may use. -ENOMEM, -EAGAIN. */
int freezer_new(struct freezer **out, struct error *err);
void freezer_free(struct freezer *f);

/* The CPUs; `nr` of them. */
const struct freezer_cpu *freezer_cpus(const struct freezer *f, int *nr);

enum { FREEZER_ROUNDS = 4, FREEZER_HOLDS = FREEZER_ROUNDS + 1 };

/* How long a thread held its CPU, and how much of that it really ran. */
struct freezer_hold {
	uint64_t ns,
		ran_ns; /* ran_ns: without time that a hypervisor took, where the kernel knows it */
};

/*
 * A meeting: all threads sleep until the same moment, so that each holds its CPU only for the
 * meeting itself. `nr` is the index of the thread's CPU in freezer_cpus().
 */
struct freezer_meeting {
	/* Each alone, in rounds shortly before; the last one is round 1. False: call it off. */
	bool (*prepare)(void *arg, int nr, int round);
	void (*arrive)(void *arg, int nr); /* each, before the cut */
	void (*cut)(void *arg);            /* the leader, once all have arrived */
	void (*beside)(void *arg, int nr); /* each: the leader after the cut, others beside it */
	void (*leave)(void *arg, int nr);  /* each, after the cut, before any CPU is released */
	void *arg;
	int rounds;         /* of `prepare`, at most FREEZER_ROUNDS */
	uint64_t round_ns;  /* from the begin of a round to the next one, or to the moment */
	uint64_t gather_ns; /* how long the first to arrive waits for the last */
	uint64_t limit_ns;  /* after the moment, all leave: those that still wait call it off */
};

/*
 * Hold a meeting that cpus[nr] leads. False: it was called off; `cut` may have run or not.
 * freezer_holds() has the holds of the last meeting.
 */
bool freezer_meet(struct freezer *f, int nr, const struct freezer_meeting *meeting);

/* FREEZER_HOLDS per CPU: of the meeting, and of each round of `prepare`; 0 ns: there was none. */
const struct freezer_hold *freezer_holds(const struct freezer *f);

/* Whether a meeting holds every CPU of freezer_cpus(): only with real-time priority. */
bool freezer_holds_all(const struct freezer *f);
