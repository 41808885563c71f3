/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - durations of wakeups, drawn from the record.
 *
 * A service is a list of recorded quantiles (table service). Draws take the quantiles in a fixed
 * order: every run is the same, and the mean of a few consecutive draws is close to the mean of
 * all.
 */
#pragma once

#include <stdint.h>

enum { SERVICE_ROWS = 64 };

struct service {
	uint64_t wake_ns[SERVICE_ROWS]; /* per wakeup of a daemon, until it runs */
	int nr;
	unsigned drawn;
};

/* The next quantile of the time from a daemon's wakeup until it runs; 50 us without any. */
uint64_t service_draw_wake_ns(struct service *s);
