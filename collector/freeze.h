/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.h - run a function on one CPU while nothing else runs on the others.
 *
 * One thread per CPU waits, asleep, at the highest real-time priority. During a
 * freeze they spin, so that only interrupts still run there. Without the right to
 * real-time priority (CAP_SYS_NICE) the function runs unaccompanied.
 */
#pragma once

#include "error.h"

struct freezer;

struct freezer_cpu {
	int cpu, node;
	int tid; /* of the thread pinned to it */
};

/* One thread for every CPU that this process may use. -ENOMEM, -EAGAIN. */
int freezer_new(struct freezer **out, struct error *err);
void freezer_free(struct freezer *f);

/* The CPUs; `nr` of them. */
const struct freezer_cpu *freezer_cpus(const struct freezer *f, int *nr);

/*
 * Run fn(arg) in the thread of cpus[nr] and return when it has returned. The others are held
 * for `limit_ms` at most, even if it has not. Returns how many were held, not counting fn's.
 */
int freezer_run(struct freezer *f, int nr, void (*fn)(void *arg), void *arg, int limit_ms);
