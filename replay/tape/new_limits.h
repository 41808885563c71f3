/* SPDX-License-Identifier: Apache-2.0 */
/*
 * new_limits.h - watermarks, sizes and reserves of zones that change while the tape is recorded.
 *
 * Memory that is plugged in, or a write to a sysctl, sets the watermarks of all zones anew, and the
 * PCPs get new limits (setup_per_zone_wmarks, zone_pcp_update, 5.14 to 6.18). A zone's pages are on
 * its tape from the start, because it spans the memory to come.
 *
 * A run with a policy for watermarks or PCPs follows too: the policy sees the new recorded limits.
 * Zones or nodes that a policy cut into parts keep their limits. Thresholds of vmstat_diff.h stay.
 */
#pragma once

#include "model/machine.h"
#include "tables.h"

struct load;

struct new_limit {
	uint64_t at; /* row of `event` before which it changes */
	int64_t value;
	uint8_t what;       /* NEW_LIMIT_WHAT_... */
	uint8_t zone;       /* in new_limits->zones; of a sysctl: any */
	uint8_t upper_zone; /* of a lowmem_reserve */
};

struct new_limits {
	struct zone_spec zones[UINT8_MAX]; /* as recorded up to `next`, without policies */
	int nr_zones;
	bool pcps_by_rule; /* the recorded PCPs have the sizes that the kernel row gives them */
	struct new_limit *rows;
	size_t nr, room, next;
};

/* Keep the recorded zones. Call it before a policy edits them. */
void new_limits_start(struct new_limits *limits, const struct zone_spec *zones, int nr);

/*
 * Load rows. A zone without pages at the start has no limits. -EINVAL for a value that no kernel
 * has, or rows out of order; -ENOMEM.
 */
int new_limits_load(struct new_limits *limits, struct arrays *arrays,
		    const struct new_limit_columns *columns, size_t rows, struct error *err);

/* The PCPs of the snapshot are loaded, and no policy has sized them yet. */
void new_limits_check_pcps(struct load *s);

/* Set the limits that changed before row `at` of `event`, at the moment m->now: load.h. */
void new_limits_set(struct load *s, uint64_t at);
