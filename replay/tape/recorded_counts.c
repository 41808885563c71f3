// SPDX-License-Identifier: Apache-2.0
#include "recorded_counts.h"

#include "huge_requests.h"
#include "tables.h"

#include <errno.h>
#include <stdlib.h>

enum { ROWS = 64, MOST_CPUS = 1 << 16 };

/* The flags that the report asks for in a request for a huge page, which is for MOVABLE. */
#define GFP_HUGE (GFP_HIGHMEM | GFP_COMP | GFP_NOMEMALLOC)

struct recorded_counts {
	struct recorded_counts_config config;
	struct event_counts counts;
	struct huge_requests huge;
	struct output *event_count, *huge_request;
	bool incomplete, written;
};

int recorded_counts_new(struct recorded_counts **out, const struct recorded_counts_config *config,
			struct error *err)
{
	struct recorded_counts *c = calloc(1, sizeof(*c));
	int ret;

	*out = NULL;
	if (!c)
		return fail(err, ENOMEM, "no memory for the counts of events");
	c->config = *config;
	ret = event_counts_init(&c->counts, MOST_CPUS, &config->recorder, err);
	ret = ret ?: output_new(&c->event_count, &event_count_table, ROWS, err);
	ret = ret ?: output_new(&c->huge_request, &huge_request_table, ROWS, err);
	if (ret) {
		recorded_counts_free(c);
		return ret;
	}
	*out = c;
	return 0;
}

void recorded_counts_free(struct recorded_counts *c)
{
	if (!c)
		return;
	event_counts_free(&c->counts);
	output_free(c->event_count);
	output_free(c->huge_request);
	free(c);
}

static bool is_for_huge_page(const struct event_columns *e, size_t i, int order)
{
	return order && order != NO_ORDER && is_valid(e->gfp_flags_valid, i) &&
	       (e->gfp_flags[i] & GFP_HUGE) == GFP_HUGE && is_valid(e->migratetype_valid, i) &&
	       e->migratetype[i] == MIGRATETYPE_MOVABLE;
}

static void count_row(struct recorded_counts *c, const struct event_columns *e, size_t i)
{
	struct moment now = {.ts = e->ts[i], .pid = e->pid[i], .cpu = e->cpu[i]};
	int order = VALUE_OR(e, page_order, i, NO_ORDER);
	bool has_page = is_valid(e->pfn_valid, i);

	if (order > NO_ORDER || (order == NO_ORDER && is_valid(e->page_order_valid, i)) ||
	    e->kind[i] >= NR_EVENT_KIND) {
		c->incomplete = true;
		return;
	}
	event_counts_add(&c->counts, e->kind[i], &now, order, has_page);
	if (e->kind[i] == EVENT_KIND_ALLOC && is_for_huge_page(e, i, order) &&
	    !is_followed(e->gfp_flags[i], has_page))
		huge_requests_count(&c->huge, order, has_page);
}

int recorded_counts_feed(struct recorded_counts *c, const struct ArrowSchema *schema,
			 const struct ArrowArray *array, uint64_t *fallbacks, struct error *err)
{
	struct event_columns e;
	size_t nr;
	int ret = table_read(&event_table, schema, array, &e, &nr, err);

	*fallbacks = 0;
	for (size_t i = 0; i < nr && !ret; i++) {
		if (e.kind[i] == EVENT_KIND_ALLOC_EXTFRAG)
			++*fallbacks;
		else if (e.ts[i] >= c->config.since && e.ts[i] <= c->config.until)
			count_row(c, &e, i);
	}
	return ret;
}

struct batch *recorded_counts_read(struct recorded_counts *c)
{
	if (!c->written) {
		event_counts_write(&c->counts, c->event_count);
		huge_requests_write(&c->huge, c->huge_request);
		c->written = true;
	}
	return output_pop(c->event_count, true) ?: output_pop(c->huge_request, true);
}

bool recorded_counts_complete(const struct recorded_counts *c)
{
	return !c->incomplete;
}
