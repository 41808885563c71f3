// SPDX-License-Identifier: Apache-2.0
/*
 * The zone that serves a request, on two nodes with a CPU and a zone of 8 pageblocks each. Node 0
 * has no free page except those freed to its CPU's list; node 1 has 1024.
 */
#include "short_tape.h"
#include "toy.h"

enum { BLOCK = 512, PAGES = 8 * BLOCK, ANY = 0, WRITE = GFP_WRITE };

static struct machine machine_of_blocks(void)
{
	struct machine machine = toy_two_nodes;

	machine.pageblock_order = 9;
	machine.max_order = 10;
	return machine;
}

static struct zone_spec zone_of(uint16_t node)
{
	return (struct zone_spec){.node = node,
				  .type = ZONE_NORMAL,
				  .start_pfn = node * PAGES,
				  .spanned = PAGES,
				  .present = PAGES,
				  .managed = PAGES,
				  .wmark = {8, 16, 32}};
}

TEST(a_write_request_skips_dirty_nodes_before_it_goes_below_the_low_watermark)
{
	static const struct {
		uint64_t dirty;
		uint32_t gfp_flags;
		int node;
	} cases[] = {{0, WRITE, 0}, {1, WRITE, 1}, {1, ANY, 0}, {2, WRITE, 0}, {3, WRITE, 0}};
	const struct zone_spec zones[] = {zone_of(0), zone_of(1)};
	const struct machine machine = machine_of_blocks();

	TOY(t, toy_new_machine, "6.18", &machine, zones, 2);
	for (int node = 0; node < 2; node++) {
		zone_forget_old(t.m, t.m->zones[node].start, 10);
		free_list_add(t.m, &t.m->zones[node], t.m->zones[node].start, 10,
			      MIGRATETYPE_MOVABLE, true);
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		t.m->record->dirty_nodes = cases[i].dirty;
		t.gfp_flags = cases[i].gfp_flags;
		check((int)toy_alloc(&t, 0, 'M') / PAGES == cases[i].node);
	}
}

/* All events, read twice as validate reads a tape. */
static void run_events(struct validate *v, const struct batch *events)
{
	struct arrow_rows rows;
	struct error err;

	arrow_rows_export(&rows, events);
	must(validate_preview(v, &rows.schema, &rows.array, &err), &err);
	must(validate_feed(v, &rows.schema, &rows.array, &err), &err);
	arrow_rows_release(&rows);
	must(validate_finish(v, &err), &err);
}

/* The start: a boost of node 1, a free block of node 0, and a wakeup of node 1's kswapd. */
struct start {
	uint64_t boost, kswapd_at; /* row */
	uint8_t order;
	uint32_t threshold; /* of the differences of the zones' counters; 0: these are exact */
};

/* A boost acts only on tapes with kswapd events. */
static void load_kswapd(struct validate *v, uint64_t at)
{
	struct batch *rows = toy_rows(&reclaim_table, 1);
	struct reclaim_columns *c = (struct reclaim_columns *)rows->slots;

	c->at[0] = at;
	c->kind[0] = RECLAIM_KIND_KSWAPD_WAKE;
	c->node[0] = 1;
	set_valid(c->node_valid, 0);
	validate_take(v, rows);
}

/* With a boost of node 1, node 0 has free pages too. */
static void load_state(struct validate *v, const struct start *start)
{
	bool boost = start->boost;
	struct batch *zones = toy_rows(&zone_table, 2);
	struct batch *blocks = toy_rows(&free_block_table, 1 + boost);
	struct zone_columns *z = (struct zone_columns *)zones->slots;
	struct free_block_columns *b = (struct free_block_columns *)blocks->slots;

	for (size_t i = 0; i < 2; i++) {
		const struct zone_spec spec = zone_of((uint16_t)i);

		z->node[i] = spec.node;
		z->zone[i] = spec.type;
		z->start_pfn[i] = spec.start_pfn;
		z->spanned[i] = z->present[i] = z->managed[i] = spec.spanned;
		z->wmark_min[i] = (uint64_t)spec.wmark[WMARK_MIN];
		z->wmark_low[i] = (uint64_t)spec.wmark[WMARK_LOW];
		z->wmark_high[i] = (uint64_t)spec.wmark[WMARK_HIGH];
	}
	z->boost[1] = start->boost;
	set_valid(z->boost_valid, 1);
	for (size_t i = 0; i < 2; i++) {
		z->stat_threshold[i] = start->threshold;
		set_valid(z->stat_threshold_valid, i);
	}
	for (size_t i = 0; i < blocks->nr; i++) {
		b->node[i] = i ? 0 : 1;
		b->zone[i] = ZONE_NORMAL;
		b->migratetype[i] = MIGRATETYPE_MOVABLE;
		b->page_order[i] = i ? start->order : 10;
		b->pfn[i] = i ? 0 : PAGES;
	}
	validate_take(v, zones);
	validate_take(v, blocks);
	if (boost)
		load_kswapd(v, start->kswapd_at);
}

struct step {
	int cpu, kind;
	uint64_t pfn;
};

struct found {
	int kind;
	uint64_t at, event_row, pfn;
	uint32_t pages;
};
enum { FOUND_MOST = 8 };

/* The number of inferred rows that the events prove: single MOVABLE pages, 1 us apart. */
static size_t inferred_by(const struct step *rows, size_t nr, uint32_t gfp_flags,
			  struct start start, struct found *found)
{
	struct batch *events = toy_rows(&event_table, nr), *batch;
	struct event_columns *c = (struct event_columns *)events->slots;
	struct validate_config config = {
		.run.machine = machine_of_blocks(), .run.interval_ns = 1000000000, .nr_rows = nr};
	struct validate *v;
	struct error err;

	must(kernel_find(&config.run.kernel, "6.18", &err), &err);
	must(validate_new(&v, &config, &err), &err);
	load_state(v, &start);
	for (size_t i = 0; i < nr; i++) {
		c->ts[i] = 1000 * (i + 1);
		c->cpu[i] = (uint16_t)rows[i].cpu;
		c->kind[i] = (uint8_t)rows[i].kind;
		c->pfn[i] = rows[i].pfn;
		c->migratetype[i] = MIGRATETYPE_MOVABLE;
		c->gfp_flags[i] = gfp_flags | GFP_MOVABLE | GFP_HIGHMEM;
		set_valid(c->pfn_valid, i);
		set_valid(c->page_order_valid, i);
		set_valid(c->migratetype_valid, i);
		set_valid(c->gfp_flags_valid, i);
	}
	run_events(v, events);
	batch_free(events);
	nr = 0;
	while ((batch = validate_read(v))) {
		const struct inferred_columns *u = (const struct inferred_columns *)batch->slots;

		for (size_t r = 0; batch->table == &inferred_table && r < batch->nr; r++)
			if (nr < FOUND_MOST)
				found[nr++] = (struct found){u->kind[r], u->at[r], u->event_row[r],
							     u->pfn[r], u->pages[r]};
	}
	validate_free(v);
	return nr;
}

static const struct start unboosted = {0};

/* CPU 0 allocates on node 0 below its low watermark, although node 1 is above its own. */
static const struct step below[] = {
	{0, EVENT_KIND_FREE, 512},           {1, EVENT_KIND_FREE, PAGES + 2000},
	{1, EVENT_KIND_ALLOC, PAGES + 2000}, {0, EVENT_KIND_ALLOC, 512},
	{1, EVENT_KIND_FREE, PAGES + 2002},  {1, EVENT_KIND_ALLOC, PAGES + 2002},
};

TEST(a_page_out_of_turn_was_taken_at_the_last_event_of_its_cpu)
{
	struct found found[FOUND_MOST];

	check(inferred_by(below, sizeof(below) / sizeof(below[0]), ANY, unboosted, found) == 1);
	check(found[0].kind == INFERRED_KIND_EARLY_ALLOC && found[0].pfn == 512);
	check(found[0].at == 1 && found[0].event_row == 3);
}

TEST(a_node_that_a_write_skips_is_dirty_until_it_serves_a_write)
{
	struct found found[FOUND_MOST];

	check(inferred_by(below, sizeof(below) / sizeof(below[0]), WRITE, unboosted, found) == 2);
	check(found[0].kind == INFERRED_KIND_DIRTY && found[0].at == 3 && found[0].pfn == PAGES);
	check(found[1].kind == INFERRED_KIND_CLEAN && found[1].at == 5 && found[1].pfn == PAGES);
}

TEST(a_zone_that_serves_a_request_below_its_boosted_mark_has_no_boost)
{
	static const struct step requests[] = {
		{1, EVENT_KIND_FREE, PAGES + 2000}, {1, EVENT_KIND_ALLOC, PAGES + 2000},
		{1, EVENT_KIND_FREE, PAGES + 2002}, {1, EVENT_KIND_ALLOC, PAGES + 2002},
		{1, EVENT_KIND_FREE, PAGES + 2004}, {1, EVENT_KIND_ALLOC, PAGES + 2004},
		{1, EVENT_KIND_FREE, PAGES + 2006}, {1, EVENT_KIND_ALLOC, PAGES + 2006},
	};
	struct found found[FOUND_MOST];

	static const struct {
		struct start start;
		size_t nr; /* events */
		size_t inferred;
		uint64_t at;
	} cases[] = {
		/* Node 0 is above its low mark: the boost would have sent the requests there. */
		{{2000, 1000, 10, 0}, 4, 1, 3},
		/* 12 pages below the mark, so that it is not above it by 13. */
		{{1020, 1000, 10, 0}, 4, 1, 3},
		{{1020, 1000, 10, 6}, 4, 1, 3},
		/* A single one may come from the slow path. */
		{{2000, 1000, 10, 0}, 2, 0, 0},
		/* Both are below; node 0 is above its min mark, but only a pass ends a boost. */
		{{2000, 1000, 4, 0}, 8, 0, 0},
		{{2000, 0, 4, 0}, 8, 1, 1},
		/* Both are below their min marks: the request would have waited for reclaim. */
		{{2000, 0, 3, 0}, 8, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check(inferred_by(requests, cases[i].nr, ANY, cases[i].start, found) ==
		      cases[i].inferred);
		check(!cases[i].inferred || (found[0].kind == INFERRED_KIND_UNBOOSTED &&
					     found[0].at == cases[i].at && found[0].pfn == PAGES));
	}
}

TEST(a_zone_close_to_its_mark_shows_its_counter)
{
	/* CPU 1 and CPU 0 get pages of node 1. */
	static const struct step local[] = {{1, EVENT_KIND_FREE, PAGES + 2000},
					    {1, EVENT_KIND_ALLOC, PAGES + 2000}};
	static const struct step remote[] = {{0, EVENT_KIND_FREE, PAGES + 2000},
					     {0, EVENT_KIND_ALLOC, PAGES + 2000}};
	static const struct {
		const struct step *rows;
		struct start start;
		int kind;
		uint64_t pfn;
		uint32_t pages;
	} cases[] = {
		/* Node 1 is 12 pages below its boosted mark, and node 0 above its own. */
		{local, {1020, 1000, 10, 7}, INFERRED_KIND_COUNTED_MORE, PAGES, 13},
		/* Node 0 is 16 pages above its mark. */
		{remote, {1, 1000, 5, 8}, INFERRED_KIND_COUNTED_LESS, 0, 16},
		/* The differences of two CPUs cannot hide as many. */
		{remote, {1, 1000, 5, 7}, INFERRED_KIND_LANDED, PAGES + 2000, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct found found[FOUND_MOST];

		check(inferred_by(cases[i].rows, 2, ANY, cases[i].start, found) == 1);
		check(found[0].kind == cases[i].kind && found[0].at == 1);
		check(found[0].pfn == cases[i].pfn && found[0].pages == cases[i].pages);
	}
}

TEST(an_entry_left_the_list_after_a_newer_entry_came_and_left)
{
	static const struct step buried[] = {
		{1, EVENT_KIND_FREE, PAGES + 2000},
		{1, EVENT_KIND_FREE, PAGES + 2002},
		{0, EVENT_KIND_FREE, 512},
		{1, EVENT_KIND_FREE, PAGES + 2000},
	};
	struct found found[FOUND_MOST];

	check(inferred_by(buried, sizeof(buried) / sizeof(buried[0]), ANY, unboosted, found) == 1);
	check(found[0].kind == INFERRED_KIND_ALLOC && found[0].at == 3);
	check(found[0].pfn == PAGES + 2000);
}
