/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone_lock.h - the hook of a run that models waits for zone locks.
 */
#pragma once

#include "model.h"

struct zone_lock_ops {
	void *self;
	/*
	 * Called when a CPU has taken the lock of a zone for ZONE_LOCK_KIND_* and moved `blocks`.
	 */
	void (*held)(void *self, const struct zone *zone, const struct moment *now, int kind,
		     uint64_t blocks);
};

/* The model took a zone lock; a no-op in a run that does not model the locks. */
static inline void zone_lock_held(const struct model *m, const struct zone *zone, int kind,
				  uint64_t blocks)
{
	if (m->zone_lock_ops)
		m->zone_lock_ops->held(m->zone_lock_ops->self, zone, &m->now, kind, blocks);
}
