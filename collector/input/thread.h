/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - clocks, and threads without signals: these go to the threads of the calling program.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec at;

	clock_gettime(clock, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static inline uint64_t monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Start a thread, and destroy `attr`. Returns an errno. */
static inline int thread_start(pthread_t *thread, pthread_attr_t *attr, void *(*run)(void *),
			       void *arg)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(attr);
	return ret;
}
