/* SPDX-License-Identifier: Apache-2.0 */
/* anomalies.h - contradictions within a tape, or with the model: counts by kind, and rows. */
#pragma once

#include "model/events.h"

struct anomalies {
	struct output *output; /* rows of `anomaly` */
	uint64_t *nr; /* [NR_ANOMALY_KIND] all anomalies; the table has at most a million rows */
};

struct anomaly {
	uint64_t at; /* row of the input's `event` */
	const struct moment *moment;
	int64_t pfn; /* or NO_PFN; then `order` is not used */
	int order;
	int kind, action;
};

void anomalies_add(const struct anomalies *a, const struct anomaly *anomaly);
