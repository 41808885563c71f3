/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_source.h - reads what a damaged file still gives. */
#pragma once

#include "decode/source.h"
#include "tables.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Read all items of a source: events are in order of time, and gaps are of CPUs. */
static inline void fuzz_read(struct source *s)
{
	uint64_t last = 0;
	struct item item;
	struct error err;

	while (source_read(s, 1000, &item, &err) == 1) {
		if (!strcmp(item.table->name, "event")) {
			struct event_columns columns;
			size_t nr;

			if (table_borrow(item.table, &item.array, &columns, &nr, &err))
				abort();
			for (size_t i = 0; i < nr; last = columns.ts[i++])
				assert(columns.ts[i] >= last);
		}
		item.array.release(&item.array);
	}
	for (size_t i = 0; i < s->nr_gaps; i++)
		assert(s->gaps[i].cpu >= 0 && s->gaps[i].cpu < DECODER_CPUS);
}
