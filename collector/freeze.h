/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.h - run a function while nothing else runs on any CPU.
 *
 * One thread per CPU waits, asleep, at the highest real-time priority. During a freeze they spin,
 * so that only interrupts still run there. Without CAP_SYS_NICE (real-time priority) one thread
 * does all the work and holds no CPU.
 */
#pragma once

#include "error.h"

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

struct freezer_work {
	void (*first)(void *arg); /* first, by the leader while the others spin */
	void (*lead)(void *arg);  /* then by the leader, and ... */
	void (*each)(void *arg);  /* ... concurrently by each held CPU that starts in time */
	void *arg;
};

/*
 * Work with cpus[nr] as the leader. The others are held for `limit_ms` at most, even if the work
 * takes longer. A CPU that has not begun its part when the leader is done (a hypervisor may have
 * preempted it) skips it: the leader's part must cover that. Returns the number of CPUs held
 * besides the leader's.
 */
int freezer_run(struct freezer *f, int nr, const struct freezer_work *work, int limit_ms);
