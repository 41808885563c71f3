/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - CPU time of the current thread.
 */
#pragma once

#include <time.h>

/* In seconds; other load on the machine does not count. */
static inline double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
