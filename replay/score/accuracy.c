// SPDX-License-Identifier: Apache-2.0
#include "accuracy.h"

#include "model/memory.h"

#include <string.h>

enum {
	ROWS = 1 << 12,
	MISS_ROWS = 1 << 20, /* most rows written; all misses are counted */
};

int accuracy_new(struct accuracy *s, struct run *run, struct error *err)
{
	int ret;

	s->m = run->model;
	s->interval_ns = run->config.interval_ns;
	s->zones = arrays_new(s->m->arrays, (size_t)s->m->nr_zones, sizeof(*s->zones));
	if (!s->zones)
		return arrays_error(s->m->arrays, err);
	ret = run_output(run, &s->exactness, &exactness_table, ROWS, err);
	ret = ret ?: run_output(run, &s->repair, &repair_table, ROWS, err);
	return ret ? ret : run_output(run, &s->miss, &miss_table, ROWS, err);
}

void accuracy_miss(struct accuracy *s, const struct miss *miss)
{
	struct miss_columns *columns;
	size_t i;

	accuracy_count(s, miss->zone, miss->decision, MISSED);
	if (s->misses++ >= MISS_ROWS)
		return;
	i = output_row(s->miss, &columns);
	columns->at[i] = miss->event->at;
	columns->ts[i] = miss->event->ts;
	columns->cpu[i] = miss->event->cpu;
	columns->node[i] = miss->zone->node;
	columns->zone[i] = miss->zone->type;
	columns->decision[i] = (uint8_t)miss->decision;
	columns->cause[i] = (uint8_t)miss->cause;
	columns->page_order[i] = (uint8_t)miss->order;
	SET_VALUE(columns, migratetype, i, (uint8_t)miss->migratetype);
	if (miss->expected != NONE)
		SET_VALUE(columns, expected, i, miss->expected);
	if (miss->got != NONE)
		SET_VALUE(columns, got, i, miss->got);
	columns->place[i] = (uint8_t)miss->place;
}

void accuracy_repair(struct accuracy *s, const struct zone *zone, int cause, uint64_t pages)
{
	struct repair_count *repair = &s->zones[zone->number].repairs[cause];

	repair->nr++;
	repair->pages += pages;
}

static void write_exactness(struct accuracy *s, const struct zone *zone, int decision,
			    const struct accuracy_count *count)
{
	struct exactness_columns *columns;
	size_t i = output_row(s->exactness, &columns);

	columns->ts[i] = s->interval_end - s->interval_ns;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->decision[i] = (uint8_t)decision;
	columns->nr[i] = count->nr;
	columns->exact[i] = count->exact;
	columns->unknown[i] = count->unknown;
}

static void write_repair(struct accuracy *s, const struct zone *zone, int cause,
			 const struct repair_count *repair)
{
	struct repair_columns *columns;
	size_t i = output_row(s->repair, &columns);

	columns->ts[i] = s->interval_end - s->interval_ns;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->cause[i] = (uint8_t)cause;
	columns->nr[i] = repair->nr;
	columns->pages[i] = repair->pages;
}

static void end_interval(struct accuracy *s)
{
	for (int z = 0; z < s->m->nr_zones; z++) {
		struct zone_accuracy *zone = &s->zones[z];

		for (int d = 0; d < NR_DECISIONS; d++) {
			const struct accuracy_count *count = &zone->decisions[d];

			if (count->nr)
				write_exactness(s, &s->m->zones[z], d, count);
			s->total.decisions[d].nr += count->nr;
			s->total.decisions[d].exact += count->exact;
			s->total.decisions[d].unknown += count->unknown;
		}
		for (int c = 0; c < NR_REPAIR_CAUSE; c++) {
			const struct repair_count *repair = &zone->repairs[c];

			if (repair->nr)
				write_repair(s, &s->m->zones[z], c, repair);
			s->total.repairs[c].nr += repair->nr;
			s->total.repairs[c].pages += repair->pages;
		}
		memset(zone, 0, sizeof(*zone));
	}
}

void accuracy_advance(struct accuracy *s, uint64_t ts)
{
	uint64_t begin = ts - ts % s->interval_ns;

	if (s->interval_end)
		end_interval(s);
	s->interval_end = begin + s->interval_ns;
}

void accuracy_finish(struct accuracy *s)
{
	if (s->interval_end)
		end_interval(s);
}
