// SPDX-License-Identifier: Apache-2.0
#include "deferral.h"

enum { MAX_DEFER_SHIFT = 6 }; /* COMPACT_MAX_DEFER_SHIFT */

bool is_deferred(struct deferral *d, int order)
{
	int limit = 1 << d->shift;

	if (order < d->order_failed)
		return false;
	if (++d->considered >= limit) {
		d->considered = limit;
		return false;
	}
	return true;
}

bool is_restarting(const struct deferral *d, int order)
{
	return order >= d->order_failed && d->shift == MAX_DEFER_SHIFT &&
	       d->considered >= 1 << d->shift;
}

void defer(struct deferral *d, int order)
{
	d->considered = 0;
	d->shift += d->shift < MAX_DEFER_SHIFT;
	if (order < d->order_failed)
		d->order_failed = (uint8_t)order;
}

void defer_reset(struct deferral *d, int order, bool allocated)
{
	if (allocated) {
		d->considered = 0;
		d->shift = 0;
	}
	if (order >= d->order_failed)
		d->order_failed = (uint8_t)(order + 1);
}
