// SPDX-License-Identifier: Apache-2.0
#include "service.h"

#define WAKE_NS 50000ull

/* The index of the draw with its bits reversed: few draws spread over all quantiles. */
const struct service_row *service_draw(struct service *s)
{
	unsigned bits = s->drawn++ % SERVICE_ROWS, reversed = 0;

	for (unsigned bit = 1; bit < SERVICE_ROWS; bit <<= 1) {
		reversed = reversed << 1 | (bits & 1);
		bits >>= 1;
	}
	return &s->rows[(int)reversed * s->nr / SERVICE_ROWS];
}

uint64_t services_draw_wake_ns(struct services *services)
{
	return services->wake.nr ? service_draw(&services->wake)->ns : WAKE_NS;
}
