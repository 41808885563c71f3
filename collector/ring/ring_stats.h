/* SPDX-License-Identifier: Apache-2.0 */
/* ring_stats.h - one CPU's counters, from per_cpu/cpuN/stats of a tracing instance. */
#pragma once

#include <stdint.h>

struct ring_stats {
	uint64_t entries;        /* events still in the ring */
	uint64_t overrun;        /* events overwritten before they were read */
	uint64_t commit_overrun; /* events lost to nested writers */
	uint64_t dropped;        /* events refused by a full ring */
	uint64_t read;           /* events read from the ring */
};

/* Read them; `instance` is a descriptor of the instance's directory. -errno. */
int ring_stats_read(int instance, int cpu, struct ring_stats *out);
