/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wall_clock.h - when a trace began, for files that say it.
 */
#pragma once

#include <stdint.h>

/*
 * The wall clock at `ts`, ns since 1970, if `to_wall` (modulo 2^64) leads there from its clock; 0
 * if the result is none. Times of trace-cmd record --date and of perf record -k CLOCK_REALTIME are
 * of the wall clock: a clock that counts from the boot reaches them after 31 years (2001-09-09).
 */
static inline uint64_t wall_clock(uint64_t ts, uint64_t to_wall)
{
	const uint64_t since = 1000000000ULL * 1000000000ULL;

	return ts + to_wall >= since && ts + to_wall < INT64_MAX ? ts + to_wall : 0;
}
