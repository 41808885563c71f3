// SPDX-License-Identifier: Apache-2.0
#include "failed_requests.h"

#include "model/scan_effects.h"

static void run_first(struct failed_requests *failed, struct model *m)
{
	const struct failed_request *request = &failed->rows[failed->first];

	zone_mark_tried(m, request->cpu, request->gfp_flags, request->order);
	failed->first = (failed->first + 1) % FAILED_REQUESTS_MOST;
	failed->nr--;
}

void failed_requests_add(struct failed_requests *failed, struct model *m,
			 const struct failed_request *request)
{
	if (failed->nr == FAILED_REQUESTS_MOST)
		run_first(failed, m);
	failed->rows[(failed->first + failed->nr) % FAILED_REQUESTS_MOST] = *request;
	failed->nr++;
}

void failed_requests_run(struct failed_requests *failed, struct model *m, uint64_t until)
{
	while (failed->nr && failed->rows[failed->first].at < until)
		run_first(failed, m);
}
