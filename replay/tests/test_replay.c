// SPDX-License-Identifier: Apache-2.0
/*
 * The event loop: what frees find, when they take effect, and what hostile tapes do.
 * The machine has 2 CPUs on 2 nodes, each with one NORMAL zone of 8 pageblocks of 512
 * pages; node 1's pages begin at pfn 4096. All of them are free at the start, but for
 * the first pageblock of each zone.
 */
#include "check.h"
#include "freerun/replay.h"
#include "toy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, ZONE_PAGES = 8 * BLOCK };

struct tape {
	struct replay *r;
	struct batch *events;
	uint64_t ts;
};

/* Hand a batch to replay_load() or replay_feed() as a consumer of Arrow gets it. */
static int hand_over(struct replay *r, struct batch *batch, bool feed, struct error *err)
{
	struct ArrowSchema schema;
	struct ArrowArray array;
	int ret;

	must(table_export_schema(batch->table, &schema, err), err);
	must(batch_export(batch, &array, err), err);
	ret = feed ? replay_feed(r, &schema, &array, err)
		   : replay_load(r, batch->table->name, &schema, &array, err);
	array.release(&array);
	schema.release(&schema);
	return ret;
}

static int load_zones_at(struct replay *r, uint64_t start_pfn, struct error *err)
{
	struct batch *batch = toy_rows(&zone_table, 2);
	struct zone_columns *c = (struct zone_columns *)batch->slots;
	int ret;

	for (uint16_t i = 0; i < 2; i++) {
		c->node[i] = i;
		c->zone[i] = ZONE_NORMAL;
		c->start_pfn[i] = start_pfn + i * ZONE_PAGES;
		c->spanned[i] = c->present[i] = c->managed[i] = ZONE_PAGES;
		c->wmark_min[i] = 8;
		c->wmark_low[i] = 16;
		c->wmark_high[i] = 32;
	}
	ret = hand_over(r, batch, false, err);
	batch_free(batch);
	return ret;
}

static int load_zones(struct replay *r, struct error *err)
{
	return load_zones_at(r, 0, err);
}

static int load_guess(struct replay *r, uint64_t pfn, int order, struct error *err)
{
	struct batch *batch = toy_rows(&block_guess_table, 1);
	struct block_guess_columns *c = (struct block_guess_columns *)batch->slots;
	int ret;

	c->zone[0] = ZONE_NORMAL;
	c->pfn[0] = pfn;
	c->page_order[0] = (uint8_t)order;
	ret = hand_over(r, batch, false, err);
	batch_free(batch);
	return ret;
}

static struct replay *new_replay(const char *kernel)
{
	static const uint16_t cpu_nodes[] = {0, 1};
	static const uint8_t distances[] = {10, 20, 20, 10};
	struct replay_config config = {
		.run.machine = {.pageblock_order = 9,
				.max_order = 10,
				.nr_cpus = 2,
				.nr_nodes = 2,
				.cpu_nodes = cpu_nodes,
				.node_distances = distances},
		.run.interval_ns = 1000000000,
		.events = true,
	};
	struct error err;
	struct replay *r;

	must(kernel_find(&config.run.kernel, kernel, &err), &err);
	must(replay_new(&r, &config, &err), &err);
	return r;
}

static void tape_new(struct tape *t, const char *kernel)
{
	struct error err;

	*t = (struct tape){.r = new_replay(kernel), .ts = 1000000000};
	must(batch_new(&t->events, &event_table, 1 << 16, &err), &err);
	batch_clear(t->events);
	must(load_zones(t->r, &err), &err);
	for (uint64_t pfn = 0; pfn < 2 * ZONE_PAGES; pfn += BLOCK)
		if (pfn % ZONE_PAGES)
			must(load_guess(t->r, pfn, 9, &err), &err);
}

static void tape_free(struct tape *t)
{
	replay_free(t->r);
	batch_free(t->events);
}

static void event(struct tape *t, int kind, int cpu, int64_t pfn, int order)
{
	struct event_columns *c = (struct event_columns *)t->events->slots;
	size_t i = t->events->nr++;

	c->ts[i] = t->ts += 1000;
	c->cpu[i] = (uint16_t)cpu;
	c->pid[i] = 1;
	c->kind[i] = (uint8_t)kind;
	c->flags[i] = 0;
	c->pfn[i] = (uint64_t)pfn;
	if (pfn >= 0)
		set_valid(c->pfn_valid, i);
	c->page_order[i] = (uint8_t)order;
	set_valid(c->page_order_valid, i);
	c->migratetype[i] = MIGRATETYPE_MOVABLE;
	set_valid(c->migratetype_valid, i);
	c->gfp_flags[i] = GFP_MOVABLE | GFP_HIGHMEM | GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM;
	set_valid(c->gfp_flags_valid, i);
}

static void alloc(struct tape *t, int cpu, int64_t pfn, int order)
{
	event(t, EVENT_KIND_ALLOC, cpu, pfn, order);
}

static void free_(struct tape *t, int cpu, int64_t pfn, int order)
{
	event(t, EVENT_KIND_FREE, cpu, pfn, order);
}

static void free_batched(struct tape *t, int cpu, int64_t pfn)
{
	event(t, EVENT_KIND_FREE_BATCHED, cpu, pfn, 0);
}

/* Play what was written; the model has to be sound afterwards. */
static const struct totals *play(struct tape *t)
{
	struct error err = {""};
	const char *wrong;

	must(hand_over(t->r, t->events, true, &err), &err);
	must(replay_finish(t->r, &err), &err);
	wrong = model_check(replay_model(t->r));
	check_text(wrong ? wrong : "", "");
	return replay_totals(t->r);
}

static uint64_t anomalies(const struct totals *totals)
{
	uint64_t sum = 0;

	for (int i = 0; i < NR_ANOMALY_KIND; i++)
		sum += totals->anomalies[i];
	return sum;
}

/* Free and PCP pages of a zone. */
static uint64_t unused_pages(struct tape *t, int node)
{
	const struct model *m = replay_model(t->r);
	uint64_t pages = m->zones[node].nr_free_pages;

	for (int cpu = 0; cpu < 2; cpu++)
		pages += (uint64_t)zone_pcp(m, &m->zones[node], cpu)->count;
	return pages;
}

static void what_is_freed_is_what_was_allocated(void)
{
	for (const struct kernel *k = kernels; k->name; k++) {
		const struct totals *totals;
		struct tape t;

		tape_new(&t, k->name);
		/* The record used other pages than the model will. */
		for (int64_t i = 0; i < 100; i++)
			alloc(&t, 0, 2000 + i, 0);
		alloc(&t, 0, 3072, 9);
		for (int64_t i = 0; i < 100; i++)
			free_(&t, 1, 2000 + i, 0);
		free_(&t, 0, 3072, 9);
		totals = play(&t);
		check(totals->counters.allocs == 101 && totals->counters.frees == 101);
		check(totals->counters.alloc_pages == 612 && totals->counters.free_pages == 612);
		check(anomalies(totals) == 0);
		check(unused_pages(&t, 0) == ZONE_PAGES - BLOCK);
		tape_free(&t);
	}
}

/* The pfns of the model's allocs, from its own events. */
static int model_allocs(struct tape *t, uint64_t *pfns)
{
	struct batch *batch;
	int nr = 0;

	while ((batch = replay_read(t->r))) {
		const struct event_columns *c = (struct event_columns *)batch->slots;

		for (size_t i = 0; batch->table == &event_table && i < batch->nr; i++)
			if (c->kind[i] == EVENT_KIND_ALLOC)
				pfns[nr++] = c->pfn[i];
	}
	return nr;
}

static void a_batched_free_takes_effect_with_its_second_event(void)
{
	for (int batched = 0; batched < 2; batched++) {
		uint64_t pfns[3];
		struct tape t;

		tape_new(&t, "6.12.117");
		alloc(&t, 0, 1000, 0);
		free_(&t, 0, 1000, 0);
		alloc(&t, 0, 1001, 0);
		if (batched)
			free_batched(&t, 0, 1000);
		alloc(&t, 0, 1002, 0);
		play(&t);
		check(model_allocs(&t, pfns) == 3);
		/* The freed page is on top of the list: for the second alloc, or the third. */
		check(pfns[batched ? 2 : 1] == pfns[0]);
		tape_free(&t);
	}
}

static void a_lone_free_batched_is_a_free(void)
{
	const struct totals *totals;
	struct tape t;

	tape_new(&t, "6.18");
	alloc(&t, 0, 1000, 0);
	free_batched(&t, 0, 1000);
	free_batched(&t, 0, 1000);
	totals = play(&t);
	check(totals->counters.frees == 1);
	check(anomalies(totals) == 0);
	tape_free(&t);
}

static void pages_are_freed_in_other_pieces_than_allocated(void)
{
	const struct totals *totals;
	struct tape t;

	tape_new(&t, "6.18");
	alloc(&t, 0, 1024, 3);
	free_(&t, 0, 1028, 2);
	free_(&t, 0, 1024, 0);
	free_(&t, 0, 1025, 0);
	free_(&t, 0, 1026, 1);
	totals = play(&t);
	check(totals->counters.frees == 4 && totals->counters.free_pages == 8);
	check(anomalies(totals) == 0);
	check(unused_pages(&t, 0) == ZONE_PAGES - BLOCK);
	tape_free(&t);
}

static void a_free_larger_than_its_allocs_goes_page_by_page(void)
{
	const struct totals *totals;
	struct tape t;

	tape_new(&t, "6.18");
	for (int64_t i = 0; i < 4; i++)
		alloc(&t, (int)(i % 2), 1024 + i, 0);
	free_(&t, 0, 1024, 2);
	totals = play(&t);
	check(totals->counters.free_pages == 4);
	check(anomalies(totals) == 1);
	check(totals->anomalies[ANOMALY_KIND_ORDER_MISMATCH] == 1);
	tape_free(&t);
}

static void pages_older_than_the_tape_are_freed_where_they_are(void)
{
	const struct totals *totals;
	struct tape t;

	tape_new(&t, "6.18");
	free_(&t, 0, 64, 3);
	free_(&t, 0, 100, 0);
	totals = play(&t);
	check(anomalies(totals) == 0);
	check(totals->counters.free_pages == 9);
	check(unused_pages(&t, 0) == ZONE_PAGES - BLOCK + 9);
	tape_free(&t);
}

static void contradictions_are_counted_by_kind(void)
{
	const struct totals *totals;
	struct tape t;

	tape_new(&t, "6.18");
	alloc(&t, 0, 1000, 0);
	alloc(&t, 0, 1000, 0); /* its free is missing */
	free_(&t, 0, 1000, 0);
	free_(&t, 0, 1000, 0);
	free_(&t, 0, 700, 0);     /* free at the start, never allocated */
	alloc(&t, 0, 10, 0);      /* used at the start, never freed */
	alloc(&t, 0, 1 << 20, 0); /* in no zone */
	free_(&t, 0, 8188, 3);    /* runs past the end of its zone */
	alloc(&t, 0, 1000, 11);
	alloc(&t, 2, 1000, 0);
	event(&t, 77, 0, 1000, 0);
	free_(&t, 0, -1, 0);
	alloc(&t, 0, -1, 0); /* failed in the record */
	totals = play(&t);
	check(totals->anomalies[ANOMALY_KIND_ALLOC_OF_USED] == 2);
	check(totals->anomalies[ANOMALY_KIND_FREE_OF_FREE] == 1);
	check(totals->anomalies[ANOMALY_KIND_FREE_UNKNOWN] == 1);
	check(totals->anomalies[ANOMALY_KIND_OUTSIDE_ZONES] == 2);
	check(totals->anomalies[ANOMALY_KIND_BAD_EVENT] == 4);
	check(anomalies(totals) == 10);
	check(totals->recorded_failures == 1);
	tape_free(&t);
}

static void a_machine_that_is_full_fails_requests_and_ignores_their_frees(void)
{
	const struct totals *totals;
	struct tape t;

	tape_new(&t, "6.18");
	for (int64_t i = 0; i < 9; i++)
		alloc(&t, 0, 512 * i, 9);
	for (int64_t i = 9; i < 16; i++)
		alloc(&t, 1, 512 * i, 9);
	for (int64_t i = 0; i < 16; i++)
		free_(&t, 0, 512 * i, 9);
	totals = play(&t);
	/* Two requests took the old pages of a zone, which so were free after all. */
	check(totals->counters.allocs == 16 - totals->anomalies[ANOMALY_KIND_NO_FREE_PAGE]);
	check(totals->counters.allocs == totals->counters.frees);
	check(totals->counters.failed == totals->anomalies[ANOMALY_KIND_NO_FREE_PAGE]);
	tape_free(&t);
}

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 33) % limit;
}

/* Any bytes at all in an event's columns. */
static void noise(struct tape *t, uint64_t *seed, int nr)
{
	struct event_columns *c = (struct event_columns *)t->events->slots;

	for (int n = 0; n < nr; n++) {
		uint32_t order = random_below(seed, 20);
		size_t i = t->events->nr;

		event(t, (int)random_below(seed, 8), (int)random_below(seed, 3),
		      random_below(seed, 2 * ZONE_PAGES + 500) - 100,
		      order < 10   ? 0
		      : order < 19 ? (int)order - 9
				   : 200);
		c->migratetype[i] = (uint8_t)random_below(seed, random_below(seed, 9) ? 3 : 256);
		c->gfp_flags[i] = random_below(seed, UINT32_MAX);
		if (!random_below(seed, 50))
			t->ts -= 500000;
		if (!random_below(seed, 50))
			t->ts += 3000000000;
	}
}

static void noise_makes_anomalies_and_nothing_worse(void)
{
	for (const struct kernel *k = kernels; k->name; k++) {
		uint64_t seed = 88172645463325252ull;
		const struct totals *totals;
		struct tape t;

		tape_new(&t, k->name);
		noise(&t, &seed, 20000);
		totals = play(&t);
		check(totals->events == 20000);
		check(anomalies(totals) > 0);
		while (replay_read(t.r))
			;
		tape_free(&t);
	}
}

/* A sum over all rows the run wrote. */
static uint64_t fingerprint(struct replay *r)
{
	uint64_t hash = 14695981039346656037ull;
	struct batch *batch;

	while ((batch = replay_read(r))) {
		const struct table *table = batch->table;

		for (int c = 0; c < table->nr_columns; c++) {
			const struct column *column = &table->columns[c];
			const uint8_t *bytes = batch->slots[column->slot];
			const uint8_t *valid =
				column->nullable ? batch->slots[column->slot + 1] : NULL;

			for (size_t i = 0; i < batch->nr * column->width; i++)
				if (is_valid(valid, i / column->width))
					hash = (hash ^ bytes[i]) * 1099511628211ull;
		}
	}
	return hash;
}

static void the_cut_into_batches_does_not_matter(void)
{
	static const size_t cuts[] = {1 << 16, 1000, 64, 1};
	uint64_t first = 0;

	for (size_t n = 0; n < sizeof(cuts) / sizeof(cuts[0]); n++) {
		uint64_t seed = 88172645463325252ull, hash;
		struct error err = {""};
		struct event_columns all;
		struct tape t;

		tape_new(&t, "6.12.117");
		noise(&t, &seed, 6400);
		memcpy(&all, t.events->slots, sizeof(all));
		for (size_t at = 0; at < t.events->nr; at += cuts[n]) {
			size_t left = t.events->nr - at, nr = left < cuts[n] ? left : cuts[n];
			struct batch *piece = toy_rows(&event_table, nr);

			for (int c = 0; c < event_table.nr_columns; c++) {
				const struct column *column = &event_table.columns[c];
				const uint8_t *from = t.events->slots[column->slot];

				memcpy(piece->slots[column->slot], from + at * column->width,
				       nr * column->width);
				for (size_t i = 0; column->nullable && i < nr; i++)
					if (is_valid(t.events->slots[column->slot + 1], at + i))
						set_valid(piece->slots[column->slot + 1], i);
			}
			must(hand_over(t.r, piece, true, &err), &err);
			batch_free(piece);
		}
		must(replay_finish(t.r, &err), &err);
		hash = fingerprint(t.r);
		if (!n)
			first = hash;
		check(hash == first);
		tape_free(&t);
	}
}

static void a_tape_without_a_snapshot_is_refused(void)
{
	struct replay *r = new_replay("6.18");
	struct batch *none = toy_rows(&event_table, 0);
	struct error err = {""};

	check(hand_over(r, none, true, &err) == -ENODATA);
	check_text(err.msg, "no rows of zone: the tape has no snapshot to start from");
	must(load_zones(r, &err), &err);
	check(hand_over(r, none, true, &err) == -ENODATA);
	check_text(err.msg, "no rows of free_block or block_guess: the tape does not say which "
			    "pages were free at its start");
	batch_free(none);
	replay_free(r);
}

static void a_snapshot_that_contradicts_itself_is_refused(void)
{
	static const struct {
		uint64_t pfn;
		int order;
		const char *msg;
	} cases[] = {
		{1ull << 40, 0, "block_guess: pfn 1099511627776 is in no zone"},
		{600, 200, "block_guess: pfn 600 has order 200"},
		{601, 1, "block_guess: pfn 601 cannot begin a block of order 1"},
		{1030, 1, "block_guess: pfn 1030 of order 1 overlaps another block"},
		{1024, 0, "block_guess: pfn 1024 of order 0 overlaps another block"},
	};
	struct error err = {""};
	struct replay *r = new_replay("6.18");

	check(load_guess(r, 512, 9, &err) == -ENODATA);
	must(load_zones(r, &err), &err);
	must(load_guess(r, 1024, 3, &err), &err);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check(load_guess(r, cases[i].pfn, cases[i].order, &err) == -EINVAL);
		check_text(err.msg, cases[i].msg);
	}
	check(load_zones(r, &err) == -EINVAL);
	check_text(err.msg, "rows of zone must come before all others");
	replay_free(r);
}

static void load_free_block(struct replay *r, uint64_t pfn, int order, int type)
{
	struct batch *batch = toy_rows(&free_block_table, 1);
	struct free_block_columns *c = (struct free_block_columns *)batch->slots;
	struct error err;

	c->zone[0] = ZONE_NORMAL;
	c->pfn[0] = pfn;
	c->page_order[0] = (uint8_t)order;
	c->migratetype[0] = (uint8_t)type;
	must(hand_over(r, batch, false, &err), &err);
	batch_free(batch);
}

static void load_pcp(struct replay *r, uint32_t count, uint64_t page)
{
	struct batch *pcp = toy_rows(&pcp_table, 1), *pages = toy_rows(&pcp_page_table, 1);
	struct pcp_columns *c = (struct pcp_columns *)pcp->slots;
	struct pcp_page_columns *p = (struct pcp_page_columns *)pages->slots;
	struct error err;

	c->zone[0] = p->zone[0] = ZONE_NORMAL;
	c->count[0] = count;
	c->high[0] = c->batch[0] = 63;
	p->pfn[0] = page;
	p->migratetype[0] = MIGRATETYPE_MOVABLE;
	must(hand_over(r, pcp, false, &err), &err);
	must(hand_over(r, pages, false, &err), &err);
	batch_free(pcp);
	batch_free(pages);
}

static void a_snapshot_may_be_exact_in_one_zone_and_a_guess_in_another(void)
{
	struct batch *none = toy_rows(&event_table, 0);
	struct replay *r = new_replay("6.8");
	const struct model *m;
	struct error err;

	must(load_zones(r, &err), &err);
	load_pcp(r, 3, 2 * BLOCK); /* two of its pages could not be read */
	load_free_block(r, 3 * BLOCK + 8, 3, MIGRATETYPE_UNMOVABLE);
	must(load_guess(r, ZONE_PAGES + 8, 3, &err), &err);
	must(hand_over(r, none, true, &err), &err);
	m = replay_model(r);
	/* All pageblocks are MOVABLE: the listed block stays on its list for all that. */
	check(m->zones[0].nr_free[3][MIGRATETYPE_UNMOVABLE] == 1);
	check(m->zones[1].nr_free[3][MIGRATETYPE_MOVABLE] == 1);
	check(m->zones[0].pcp_unseen == 2);
	batch_free(none);
	replay_free(r);
}

static void a_free_block_that_may_not_merge_keeps_its_place(void)
{
	struct replay *r = new_replay("6.8");
	const struct model *m;
	struct error err;
	uint32_t list;

	must(load_zones(r, &err), &err);
	load_free_block(r, 3 * BLOCK, 9, MIGRATETYPE_HIGHATOMIC);
	m = replay_model(r);
	m->blocks[3].migratetype = MIGRATETYPE_HIGHATOMIC;
	load_free_block(r, 7 * BLOCK, 9, MIGRATETYPE_MOVABLE);
	load_free_block(r, 2 * BLOCK, 9, MIGRATETYPE_MOVABLE);
	list = free_list(&m->zones[0], 9, MIGRATETYPE_MOVABLE);
	check(m->frames[list].next == 7 * BLOCK && m->frames[list].prev == 2 * BLOCK);
	replay_free(r);
}

static void thisnode_requests_stay_on_the_node_they_named(void)
{
	struct event_columns *c;
	uint64_t pfns[2];
	struct tape t;

	tape_new(&t, "6.18");
	c = (struct event_columns *)t.events->slots;
	alloc(&t, 0, 5000, 0);
	alloc(&t, 0, 5001, 0);
	c->gfp_flags[1] |= GFP_THISNODE;
	play(&t);
	check(model_allocs(&t, pfns) == 2);
	check(pfns[0] < ZONE_PAGES && pfns[1] >= ZONE_PAGES);
	tape_free(&t);
}

static void requests_of_a_thread_under_a_memory_policy_prefer_the_node_they_landed_on(void)
{
	struct batch *told = toy_rows(&preference_table, 1);
	struct preference_columns *p = (struct preference_columns *)told->slots;
	struct event_columns *c;
	struct error err;
	uint64_t pfns[3];
	struct tape t;

	tape_new(&t, "6.18");
	p->pid[0] = 2;
	p->preferred[0] = PREFERENCE_PREFERRED_LANDED;
	must(hand_over(t.r, told, false, &err), &err);
	c = (struct event_columns *)t.events->slots;
	for (int i = 0; i < 3; i++)
		alloc(&t, 0, 5000 + i, 0);
	c->pid[1] = c->pid[2] = 2;
	c->flags[2] = CONTEXT_SOFTIRQ; /* not the thread's own */
	play(&t);
	check(model_allocs(&t, pfns) == 3);
	check(pfns[0] < ZONE_PAGES && pfns[1] >= ZONE_PAGES && pfns[2] < ZONE_PAGES);
	batch_free(told);
	tape_free(&t);
}

static void an_idle_pcp_decays_with_the_ticks(void)
{
	const struct totals *totals;
	struct tape t;

	tape_new(&t, "6.18");
	/* Grow high, then come back a minute later. */
	for (int64_t i = 0; i < 1500; i++)
		alloc(&t, 0, 1000 + i, 0);
	for (int64_t i = 0; i < 1500; i++)
		free_(&t, 0, 1000 + i, 0);
	t.ts += 60000000000;
	alloc(&t, 1, 1000, 0);
	totals = play(&t);
	check(totals->counters.decays > 0);
	check(replay_model(t.r)->pcps[0].high == replay_model(t.r)->pcps[0].high_min);
	check(replay_model(t.r)->pcps[0].count <= replay_model(t.r)->pcps[0].high);
	tape_free(&t);
}

static void an_idle_remote_pcp_empties_by_a_batch_every_three_ticks(void)
{
	struct pcp *pcp;
	struct tape t;

	tape_new(&t, "6.5");
	/* CPU 0 frees pages of node 1. */
	for (int64_t i = 0; i < 3; i++)
		free_(&t, 0, ZONE_PAGES + i, 0);
	t.ts += 8000000000;
	alloc(&t, 1, 2000, 0);
	pcp = zone_pcp(replay_model(t.r), &replay_model(t.r)->zones[1], 0);
	pcp->batch = 1;
	play(&t);
	check(pcp->count == 1);
	tape_free(&t);
}

static void a_cpu_without_events_decays_too(void)
{
	struct pcp *pcp;
	struct tape t;

	tape_new(&t, "6.18");
	pcp = zone_pcp(replay_model(t.r), &replay_model(t.r)->zones[0], 1);
	pcp->high_max = pcp->high = 1000;
	alloc(&t, 0, 2000, 0);
	t.ts += 60000000000;
	alloc(&t, 0, 2001, 0);
	play(&t);
	check(pcp->high == pcp->high_min);
	tape_free(&t);
}

enum { KSWAPD_PID = 50 };

/* One row of reclaim by node 0's kswapd, or about it, before row `at` of event. */
static void kswapd_row_at(struct tape *t, uint64_t at, int kind, uint64_t ts, int zone)
{
	struct batch *batch = toy_rows(&reclaim_table, 1);
	struct reclaim_columns *c = (struct reclaim_columns *)batch->slots;
	struct error err;

	c->at[0] = at;
	c->ts[0] = ts;
	c->pid[0] = KSWAPD_PID;
	c->kind[0] = (uint8_t)kind;
	c->node[0] = 0;
	set_valid(c->node_valid, 0);
	c->zone[0] = (uint8_t)zone;
	set_valid(c->zone_valid, 0);
	must(hand_over(t->r, batch, false, &err), &err);
	batch_free(batch);
}

static void kswapd_row(struct tape *t, int kind, uint64_t ts, int zone)
{
	kswapd_row_at(t, 0, kind, ts, zone);
}

static void a_pass_of_kswapd_lasts_as_long_as_it_is_seen(void)
{
	static const struct {
		int zone;      /* class zone of the pass */
		int nr_frees;  /* of kswapd, 0.5 ms apart */
		uint64_t idle; /* then until the last event, ns */
		int64_t boost; /* at the end */
		bool active;
	} cases[] = {
		{ZONE_NORMAL, 0, 500000, 512, true}, {ZONE_NORMAL, 0, 1500000, 0, false},
		{ZONE_NORMAL, 8, 500000, 512, true}, {ZONE_NORMAL, 8, 1500000, 0, false},
		{ZONE_DMA32, 0, 500000, 512, false}, {ZONE_DMA32, 0, 1500000, 512, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct model *m;
		struct tape t;

		tape_new(&t, "6.18");
		kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts, cases[i].zone);
		m = replay_model(t.r);
		m->zones[0].boost = m->zones[1].boost = 512;
		for (int n = 0; n < cases[i].nr_frees; n++) {
			t.ts += 499000;
			free_(&t, 0, n, 0);
			((struct event_columns *)t.events->slots)->pid[n] = KSWAPD_PID;
		}
		t.ts += cases[i].idle;
		alloc(&t, 0, 2000, 0);
		play(&t);
		check(m->zones[0].boost == cases[i].boost);
		check(m->zones[0].reclaim_active == cases[i].active);
		check(m->zones[1].boost == 512 && !m->zones[1].reclaim_active);
		tape_free(&t);
	}
}

static void a_pass_of_kswapd_lasts_until_its_last_row_however_quiet(void)
{
	for (int late = 0; late < 2; late++) {
		const struct model *m;
		struct tape t;

		tape_new(&t, "6.1.192");
		kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts, ZONE_NORMAL);
		kswapd_row_at(&t, 1, RECLAIM_KIND_SHRINK_SLAB_END, t.ts + (late ? 20000000 : 1000),
			      ZONE_NORMAL);
		m = replay_model(t.r);
		t.ts += 10000000;
		alloc(&t, 0, 2000, 0);
		play(&t);
		check(m->zones[0].reclaim_active == late);
		tape_free(&t);
	}
}

/* Direct reclaim of the task whose requests the tape has, before row `at` of event. */
static void reclaim_row(struct tape *t, uint64_t at, int kind, int order)
{
	struct batch *batch = toy_rows(&reclaim_table, 1);
	struct reclaim_columns *c = (struct reclaim_columns *)batch->slots;
	struct error err;

	c->at[0] = at;
	c->ts[0] = t->ts;
	c->pid[0] = 1;
	c->kind[0] = (uint8_t)kind;
	c->page_order[0] = (int8_t)order;
	set_valid(c->page_order_valid, 0);
	set_valid(c->gfp_flags_valid, 0);
	must(hand_over(t->r, batch, false, &err), &err);
	batch_free(batch);
}

static void lists_are_drained_for_the_request_that_comes_out_of_reclaim(void)
{
	static const struct {
		uint64_t end; /* row before which reclaim is over */
		int order;    /* of the request for which it was */
		bool drained;
	} cases[] = {{1, 2, true}, {1, 1, false}, {3, 2, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model *m;
		struct tape t;

		tape_new(&t, "6.18");
		reclaim_row(&t, 0, RECLAIM_KIND_DIRECT_RECLAIM_BEGIN, cases[i].order);
		reclaim_row(&t, cases[i].end, RECLAIM_KIND_DIRECT_RECLAIM_END, 0);
		m = replay_model(t.r);
		for (int mark = WMARK_MIN; mark < NR_WMARK; mark++)
			m->zones[0].wmark[mark] = m->zones[1].wmark[mark] = ZONE_PAGES;
		free_(&t, 1, ZONE_PAGES + 5, 0);
		alloc(&t, 0, 2000, 2);
		play(&t);
		check(zone_pcp(m, &m->zones[1], 1)->count == !cases[i].drained);
		tape_free(&t);
	}
}

/* No event tells it: before row `at` node 0's zone was not below its high watermark. */
static void inferred_mark(struct tape *t, uint64_t at)
{
	struct batch *batch = toy_rows(&inferred_table, 1);
	struct inferred_columns *c = (struct inferred_columns *)batch->slots;
	struct error err;

	c->at[0] = at;
	c->ts[0] = t->ts;
	c->kind[0] = INFERRED_KIND_TUNED;
	c->pfn[0] = BLOCK;
	c->below_high[0] = false;
	set_valid(c->below_high_valid, 0);
	must(hand_over(t->r, batch, false, &err), &err);
	batch_free(batch);
}

static void what_no_event_told_keeps_its_turn_with_what_the_kernel_did_aside(void)
{
	static const struct {
		uint64_t reclaim_event, inferred; /* rows; the requests are rows 0 and 2 */
		bool marked;                      /* the reclaim_event was last */
	} cases[] = {{1, 1, false}, {2, 1, true}, {1, 2, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model *m;
		struct tape t;

		tape_new(&t, "6.18");
		m = replay_model(t.r);
		m->zones[0].wmark[WMARK_HIGH] = ZONE_PAGES;
		free_(&t, 1, ZONE_PAGES + 5, 0);
		event(&t, EVENT_KIND_PCPU_DRAIN, 1, ZONE_PAGES + 5, 0);
		free_(&t, 1, ZONE_PAGES + 6, 0);
		/* Direct reclaim begins: a request has found the zone low, and marked it. */
		reclaim_row(&t, cases[i].reclaim_event, RECLAIM_KIND_DIRECT_RECLAIM_BEGIN, 0);
		inferred_mark(&t, cases[i].inferred);
		play(&t);
		check(m->zones[0].below_high == cases[i].marked);
		tape_free(&t);
	}
}

static void a_request_that_failed_marks_the_zones_that_are_low(void)
{
	for (int low = 0; low < 2; low++) {
		struct model *m;
		struct tape t;

		tape_new(&t, "6.18");
		m = replay_model(t.r);
		if (low)
			m->zones[0].wmark[WMARK_HIGH] = ZONE_PAGES;
		alloc(&t, 0, -1, 0);
		play(&t);
		check(m->zones[0].below_high == low && !m->zones[1].below_high);
		tape_free(&t);
	}
}

static void a_recorded_boost_means_nothing_to_kernels_that_know_none(void)
{
	static const struct {
		const char *kernel;
		int64_t boost;
	} cases[] = {{"4.20", 0}, {"5.0", 512}, {"6.18", 512}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tape t;

		tape_new(&t, cases[i].kernel);
		kswapd_row(&t, RECLAIM_KIND_KSWAPD_SLEEP, t.ts, ZONE_NORMAL);
		kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts + 500, ZONE_NORMAL);
		replay_model(t.r)->zones[0].boost = 512;
		alloc(&t, 0, 2000, 0);
		play(&t);
		check(replay_model(t.r)->zones[0].boost == cases[i].boost);
		tape_free(&t);
	}
}

static void what_comes_after_the_last_event_happens_too(void)
{
	const struct model *m;
	struct tape t;

	tape_new(&t, "6.18");
	alloc(&t, 0, 2000, 0);
	kswapd_row(&t, RECLAIM_KIND_KSWAPD_WAKE, t.ts + 100, ZONE_NORMAL);
	kswapd_row(&t, RECLAIM_KIND_KSWAPD_SLEEP, t.ts + 200, ZONE_NORMAL);
	m = replay_model(t.r);
	m->zones[0].boost = 512;
	play(&t);
	check(m->zones[0].boost == 0);
	tape_free(&t);
}

static void the_reserve_of_2_6_begins_with_the_zone(void)
{
	struct replay *r = new_replay("2.6.32");
	const struct model *m;
	struct error err;

	must(load_zones_at(r, BLOCK / 2, &err), &err);
	must(load_guess(r, 2 * BLOCK, 9, &err), &err);
	m = replay_model(r);
	must(replay_finish(r, &err), &err);
	check(m->blocks[0].migratetype == MIGRATETYPE_RESERVE);
	check(m->blocks[1].migratetype == MIGRATETYPE_MOVABLE);
	replay_free(r);
}

int main(void)
{
	test(what_is_freed_is_what_was_allocated);
	test(a_batched_free_takes_effect_with_its_second_event);
	test(a_lone_free_batched_is_a_free);
	test(pages_are_freed_in_other_pieces_than_allocated);
	test(a_free_larger_than_its_allocs_goes_page_by_page);
	test(pages_older_than_the_tape_are_freed_where_they_are);
	test(contradictions_are_counted_by_kind);
	test(a_machine_that_is_full_fails_requests_and_ignores_their_frees);
	test(noise_makes_anomalies_and_nothing_worse);
	test(the_cut_into_batches_does_not_matter);
	test(a_tape_without_a_snapshot_is_refused);
	test(a_snapshot_that_contradicts_itself_is_refused);
	test(a_snapshot_may_be_exact_in_one_zone_and_a_guess_in_another);
	test(a_free_block_that_may_not_merge_keeps_its_place);
	test(thisnode_requests_stay_on_the_node_they_named);
	test(requests_of_a_thread_under_a_memory_policy_prefer_the_node_they_landed_on);
	test(an_idle_pcp_decays_with_the_ticks);
	test(an_idle_remote_pcp_empties_by_a_batch_every_three_ticks);
	test(a_cpu_without_events_decays_too);
	test(a_pass_of_kswapd_lasts_as_long_as_it_is_seen);
	test(a_pass_of_kswapd_lasts_until_its_last_row_however_quiet);
	test(what_no_event_told_keeps_its_turn_with_what_the_kernel_did_aside);
	test(a_request_that_failed_marks_the_zones_that_are_low);
	test(lists_are_drained_for_the_request_that_comes_out_of_reclaim);
	test(a_recorded_boost_means_nothing_to_kernels_that_know_none);
	test(what_comes_after_the_last_event_happens_too);
	test(the_reserve_of_2_6_begins_with_the_zone);
	return check_done();
}
