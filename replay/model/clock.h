/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the CPU time of a loop.
 */
#pragma once

#include <time.h>

/* CPU time of this thread, in seconds; independent of other load on the machine. */
static inline double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
