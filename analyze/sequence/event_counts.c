/* SPDX-License-Identifier: Apache-2.0 */
/* event_counts.c - counts of events by interval, kind and order. */
#include "event_counts.h"

#include "batch.h"

#include <errno.h>
#include <stdlib.h>

enum { KINDS = 1 << 8, ORDERS = (1 << 8) + 1, NO_ORDER = ORDERS - 1 };

struct event_counts {
	struct sequence_kinds kinds;
	uint64_t start_ts, interval_ns;
	uint32_t row[KINDS][ORDERS]; /* of the interval at hand, + 1; 0: none */
};

int event_counts_new(struct event_counts **out, struct sequence_kinds kinds, uint64_t start_ts,
		     uint64_t interval_ns)
{
	struct event_counts *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->kinds = kinds;
	c->start_ts = start_ts;
	c->interval_ns = interval_ns;
	*out = c;
	return 0;
}

void event_counts_free(struct event_counts *c)
{
	free(c);
}

static uint32_t *row_of(struct event_counts *c, uint8_t kind, bool has_order, uint8_t order)
{
	return &c->row[kind][has_order ? order : NO_ORDER];
}

/* The next event of its kind and order begins a row. */
static void end_rows(struct event_counts *c, const struct event_count_rows *rows, size_t first,
		     size_t end)
{
	for (size_t i = first; i < end; i++)
		*row_of(c, rows->kind[i], is_valid(rows->page_order_valid, i),
			rows->page_order[i]) = 0;
}

long event_counts_read(struct event_counts *c, const struct sequence_events *e,
		       struct event_count_rows *rows)
{
	size_t nr = 0, first = 0; /* rows; the first one of the interval */
	uint64_t interval = 0, begin = 0;

	for (size_t i = 0; i < e->nr; i++) {
		uint16_t group = e->group[i];
		bool has_order = is_valid(e->page_order_valid, group);
		uint8_t order = has_order ? e->page_order[group] : 0;
		uint32_t *row;

		if (!is_in_span(&c->kinds, e->ts[i]))
			continue;
		if (!nr || e->ts[i] - begin >= c->interval_ns) {
			end_rows(c, rows, first, nr);
			first = nr;
			interval = (e->ts[i] - c->start_ts) / c->interval_ns;
			begin = c->start_ts + interval * c->interval_ns;
		}
		row = row_of(c, e->kind[group], has_order, order);
		if (!*row) {
			rows->interval[nr] = interval;
			rows->kind[nr] = e->kind[group];
			rows->page_order[nr] = order;
			if (has_order)
				set_valid(rows->page_order_valid, nr);
			rows->events[nr] = 0;
			rows->with_page[nr] = 0;
			*row = (uint32_t)++nr;
		}
		rows->events[*row - 1]++;
		rows->with_page[*row - 1] += is_valid(e->pfn_valid, i);
	}
	end_rows(c, rows, first, nr);
	return (long)nr;
}
