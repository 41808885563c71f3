// SPDX-License-Identifier: Apache-2.0
#include "score.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROWS = 1 << 12,
	MISS_ROWS = 1 << 20, /* rows written; all are counted */
};

int score_new(struct score *s, const struct model *m, uint64_t interval_ns, struct error *err)
{
	int ret;

	s->m = m;
	s->interval_ns = interval_ns;
	s->zones = calloc((size_t)m->nr_zones, sizeof(*s->zones));
	if (!s->zones)
		return fail(err, ENOMEM, "no memory for %d zones", m->nr_zones);
	ret = output_new(&s->exactness, &exactness_table, ROWS, err);
	if (!ret)
		ret = output_new(&s->repair, &repair_table, ROWS, err);
	return ret ? ret : output_new(&s->miss, &miss_table, ROWS, err);
}

void score_free(struct score *s)
{
	free(s->zones);
	output_free(s->exactness);
	output_free(s->repair);
	output_free(s->miss);
}

#define SET(column, value)                                                                         \
	do {                                                                                       \
		columns->column[i] = (value);                                                      \
		set_valid(columns->column##_valid, i);                                             \
	} while (0)

void score_miss(struct score *s, const struct miss *miss)
{
	struct miss_columns *columns;
	size_t i;

	score(s, miss->zone, miss->decision, MISSED);
	if (s->misses++ >= MISS_ROWS)
		return;
	i = output_row(s->miss, &columns);
	if (!columns)
		return;
	columns->at[i] = miss->step->at;
	columns->ts[i] = miss->step->ts;
	columns->cpu[i] = miss->step->cpu;
	columns->node[i] = miss->zone->node;
	columns->zone[i] = miss->zone->type;
	columns->decision[i] = (uint8_t)miss->decision;
	columns->cause[i] = (uint8_t)miss->cause;
	columns->page_order[i] = (uint8_t)miss->order;
	SET(migratetype, (uint8_t)miss->migratetype);
	if (miss->expected != NONE)
		SET(expected, miss->expected);
	if (miss->got != NONE)
		SET(got, miss->got);
	columns->place[i] = (uint8_t)miss->place;
}

void score_repair(struct score *s, const struct zone *zone, int cause, uint64_t pages)
{
	struct mended *repair = &s->zones[zone->number].repairs[cause];

	repair->nr++;
	repair->pages += pages;
}

static void write_exactness(struct score *s, const struct zone *zone, int decision,
			    const struct tally *tally)
{
	struct exactness_columns *columns;
	size_t i = output_row(s->exactness, &columns);

	if (!columns)
		return;
	columns->ts[i] = s->interval_end - s->interval_ns;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->decision[i] = (uint8_t)decision;
	columns->nr[i] = tally->nr;
	columns->exact[i] = tally->exact;
	columns->unknown[i] = tally->unknown;
}

static void write_repair(struct score *s, const struct zone *zone, int cause,
			 const struct mended *repair)
{
	struct repair_columns *columns;
	size_t i = output_row(s->repair, &columns);

	if (!columns)
		return;
	columns->ts[i] = s->interval_end - s->interval_ns;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->cause[i] = (uint8_t)cause;
	columns->nr[i] = repair->nr;
	columns->pages[i] = repair->pages;
}

static void end_interval(struct score *s)
{
	for (int z = 0; z < s->m->nr_zones; z++) {
		struct zone_score *zone = &s->zones[z];

		for (int d = 0; d < NR_DECISIONS; d++) {
			const struct tally *tally = &zone->decisions[d];

			if (tally->nr)
				write_exactness(s, &s->m->zones[z], d, tally);
			s->total.decisions[d].nr += tally->nr;
			s->total.decisions[d].exact += tally->exact;
			s->total.decisions[d].unknown += tally->unknown;
		}
		for (int c = 0; c < NR_REPAIR_CAUSE; c++) {
			const struct mended *repair = &zone->repairs[c];

			if (repair->nr)
				write_repair(s, &s->m->zones[z], c, repair);
			s->total.repairs[c].nr += repair->nr;
			s->total.repairs[c].pages += repair->pages;
		}
		memset(zone, 0, sizeof(*zone));
	}
}

void score_advance(struct score *s, uint64_t ts)
{
	uint64_t begin = ts - ts % s->interval_ns;

	if (s->interval_end)
		end_interval(s);
	s->interval_end = begin + s->interval_ns;
}

void score_finish(struct score *s)
{
	if (s->interval_end)
		end_interval(s);
}

int score_error(const struct score *s, struct error *err)
{
	int ret = output_error(s->exactness, err);

	if (!ret)
		ret = output_error(s->repair, err);
	return ret ? ret : output_error(s->miss, err);
}

struct batch *score_read(struct score *s, bool flush)
{
	struct batch *batch = output_pop(s->exactness, flush);

	if (!batch)
		batch = output_pop(s->repair, flush);
	return batch ? batch : output_pop(s->miss, flush);
}
