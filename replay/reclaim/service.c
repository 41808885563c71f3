// SPDX-License-Identifier: Apache-2.0
#include "service.h"

#define WAKE_NS 50000ull

/* The index of the draw with its bits reversed: few draws spread over all quantiles. */
uint64_t service_draw_wake_ns(struct service *s)
{
	unsigned bits = s->drawn++ % SERVICE_ROWS, reversed = 0;

	if (!s->nr)
		return WAKE_NS;
	for (unsigned bit = 1; bit < SERVICE_ROWS; bit <<= 1) {
		reversed = reversed << 1 | (bits & 1);
		bits >>= 1;
	}
	return s->wake_ns[(int)reversed * s->nr / SERVICE_ROWS];
}
