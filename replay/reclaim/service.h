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

struct service_row {
	uint64_t ns; /* duration */
};

struct service {
	struct service_row rows[SERVICE_ROWS];
	int nr;
	unsigned drawn;
};

struct services {
	struct service wake; /* per wakeup of a daemon, until it runs */
};

/* The next quantile; zeroes if the record has none. */
const struct service_row *service_draw(struct service *s);

/* Nanoseconds from the wakeup of a daemon until it runs; 50 us if the record has none. */
uint64_t services_draw_wake_ns(struct services *services);
