/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failed_requests.h - recorded requests that got no page, until validate reaches their rows.
 *
 * Such a request tried every zone, and marked the ones below their high watermark: no PCP of those
 * grows. It has no page, so it is not in the window of events.
 */
#pragma once

#include "model/model.h"

struct failed_request {
	uint64_t at; /* row of `event` */
	uint32_t gfp_flags;
	uint16_t cpu;
	uint8_t order;
};

enum { FAILED_REQUESTS_MOST = 1024 }; /* that wait at a time; a further one runs the oldest early */

struct failed_requests {
	struct failed_request rows[FAILED_REQUESTS_MOST]; /* a ring */
	uint32_t first, nr;
};

/* Add a request; rows ascend. */
void failed_requests_add(struct failed_requests *failed, struct model *m,
			 const struct failed_request *request);
/* Run the requests before row `until`. */
void failed_requests_run(struct failed_requests *failed, struct model *m, uint64_t until);
