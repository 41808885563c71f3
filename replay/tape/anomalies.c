// SPDX-License-Identifier: Apache-2.0
#include "anomalies.h"

enum { MOST_ROWS = 1 << 20 };

void anomalies_add(const struct anomalies *a, const struct anomaly *anomaly)
{
	struct anomaly_columns *columns;
	size_t i;

	if (a->nr[anomaly->kind]++ >= MOST_ROWS)
		return;
	i = output_row(a->output, &columns);
	columns->at[i] = anomaly->at;
	columns->ts[i] = anomaly->moment->ts;
	columns->cpu[i] = anomaly->moment->cpu;
	columns->kind[i] = (uint8_t)anomaly->kind;
	columns->action[i] = (uint8_t)anomaly->action;
	if (anomaly->pfn == NO_PFN)
		return;
	SET_VALUE(columns, pfn, i, (uint64_t)anomaly->pfn);
	SET_VALUE(columns, page_order, i, (uint8_t)anomaly->order);
}
