// SPDX-License-Identifier: Apache-2.0
/*
 * The start of a tape from its later events, on the machine of short_tape.h: two CPUs, one zone of
 * 8 pageblocks. The snapshot has free blocks by pfn, all pageblocks as MOVABLE by a guess, and 8
 * pages on each PCP. If a free block has another migratetype than UNMOVABLE, the snapshot also has
 * the numbers of free blocks by order and migratetype.
 */
#include "hindsight/hindsight.h"
#include "short_tape.h"
#include "toy.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, PAGES = 8 * BLOCK, ON_PCP = 8 };

/*
 * The rows of the start as text: "type.order:pfn" of free blocks, "cpu.type:pfn" of PCP pages, and
 * alloc_factor, free_count and free_factor of each PCP, "." where null; and expire.
 */
struct start {
	char free[512], pcp[2048], types[16], tuning[64], expire[16];
	int nr_counts; /* likely free_counts of CPU 0 */
	uint32_t counts[HINDSIGHT_COUNTS];
	struct hindsight_coverage coverage;
};

static struct variant {
	bool remote;      /* CPU 1 is on a node of its own */
	uint64_t tick_at; /* before this event, the vmstat worker of CPU 1 runs; 0: never */
	size_t nr_ticks;
} variant;

static void take(struct hindsight *h, struct batch *batch)
{
	struct arrow_rows rows;
	struct error err;

	arrow_rows_export(&rows, batch);
	must(hindsight_load(h, batch->table->name, &rows.schema, &rows.array, &err), &err);
	arrow_rows_release(&rows);
	batch_free(batch);
}

/* The number of free chunks by order, on the lists of their migratetypes. */
static void load_areas(struct hindsight *h, const struct chunk *chunks, size_t nr)
{
	static const uint8_t types[] = {UNMOVABLE, MOVABLE, MIGRATETYPE_RECLAIMABLE};
	struct batch *areas = toy_rows(&free_area_table, 3 * NR_PAGE_ORDERS);
	struct free_area_columns *a = (struct free_area_columns *)areas->slots;

	for (size_t i = 0; i < areas->nr; i++) {
		a->zone[i] = ZONE_NORMAL;
		a->page_order[i] = (uint8_t)(i / 3);
		a->migratetype[i] = types[i % 3];
		set_valid(a->migratetype_valid, i);
		for (size_t k = 0; k < nr; k++)
			a->nr_free[i] +=
				chunks[k].order == i / 3 && chunks[k].migratetype == types[i % 3];
	}
	take(h, areas);
}

static void load_ticks(struct hindsight *h)
{
	struct batch *rows = toy_rows(&reclaim_table, variant.nr_ticks);
	struct reclaim_columns *c = (struct reclaim_columns *)rows->slots;

	for (size_t i = 0; i < rows->nr; i++) {
		c->at[i] = variant.tick_at;
		c->cpu[i] = 1;
		c->kind[i] = RECLAIM_KIND_VMSTAT_UPDATE;
	}
	take(h, rows);
}

static void load_state(struct hindsight *h, const struct chunk *chunks, size_t nr)
{
	struct batch *zones = toy_rows(&zone_table, 1), *pcps = toy_rows(&pcp_table, 2);
	struct batch *blocks = toy_rows(&pageblock_table, PAGES / BLOCK);
	struct batch *guesses = toy_rows(&block_guess_table, nr);
	struct zone_columns *z = (struct zone_columns *)zones->slots;
	struct pcp_columns *p = (struct pcp_columns *)pcps->slots;
	struct pageblock_columns *b = (struct pageblock_columns *)blocks->slots;
	struct block_guess_columns *g = (struct block_guess_columns *)guesses->slots;

	z->zone[0] = ZONE_NORMAL;
	z->spanned[0] = z->present[0] = z->managed[0] = PAGES;
	z->wmark_min[0] = z->wmark_low[0] = z->wmark_high[0] = 8;
	for (uint16_t cpu = 0; cpu < 2; cpu++) {
		p->zone[cpu] = ZONE_NORMAL;
		p->cpu[cpu] = cpu;
		p->count[cpu] = ON_PCP;
		p->batch[cpu] = 4;
		p->high[cpu] = p->high_min[cpu] = p->high_max[cpu] = 64;
		set_valid(p->high_min_valid, cpu);
		set_valid(p->high_max_valid, cpu);
	}
	for (size_t i = 0; i < blocks->nr; i++) {
		b->zone[i] = ZONE_NORMAL;
		b->pfn[i] = i * BLOCK;
		b->migratetype[i] = MOVABLE;
	}
	for (size_t i = 0; i < nr; i++) {
		g->zone[i] = ZONE_NORMAL;
		g->page_order[i] = chunks[i].order;
		g->pfn[i] = chunks[i].pfn;
	}
	take(h, zones);
	take(h, pcps);
	take(h, blocks);
	take(h, guesses);
	if (variant.tick_at)
		load_ticks(h);
	for (size_t i = 0; i < nr; i++)
		if (chunks[i].migratetype) {
			load_areas(h, chunks, nr);
			break;
		}
}

static void play(struct hindsight *h, const struct row *events, size_t nr)
{
	struct batch *batch = event_rows(events, nr);
	struct arrow_rows rows;
	struct error err;

	arrow_rows_export(&rows, batch);
	must(hindsight_preview(h, batch->nr, &rows.schema, &rows.array, &err), &err);
	must(hindsight_feed(h, &rows.schema, &rows.array, &err), &err);
	must(hindsight_finish(h, &err), &err);
	arrow_rows_release(&rows);
	batch_free(batch);
}

static void add(char *text, size_t room, const char *format, int a, int b, unsigned long pfn)
{
	size_t used = strlen(text);

	snprintf(text + used, room - used, format, a, b, pfn);
}

static void add_number(char *text, size_t room, bool known, unsigned number)
{
	size_t used = strlen(text);

	snprintf(text + used, room - used, known ? " %u" : " .", number);
}

static void add_tuning(struct start *found, const struct pcp_columns *p, size_t i)
{
	size_t room = sizeof(found->tuning);

	add_number(found->tuning, room, is_valid(p->alloc_factor_valid, i), p->alloc_factor[i]);
	add_number(found->tuning, room, is_valid(p->free_count_valid, i), p->free_count[i]);
	add_number(found->tuning, room, is_valid(p->free_factor_valid, i), p->free_factor[i]);
	add_number(found->expire, sizeof(found->expire), is_valid(p->expire_valid, i),
		   p->expire[i]);
}

static struct start start_of(const char *kernel, const struct chunk *chunks, size_t nr_chunks,
			     const struct row *events, size_t nr_events)
{
	static const char letters[] = "UMRHCIV";
	const uint16_t cpu_nodes[] = {0, variant.remote};
	static const uint8_t distances[] = {10, 20, 20, 10};
	struct run_config config = {.machine = {.pageblock_order = 9,
						.max_order = 10,
						.page_bytes = 4096,
						.nr_cpus = 2,
						.nr_nodes = variant.remote ? 2 : 1,
						.cpu_nodes = cpu_nodes,
						.node_distances = distances},
				    .interval_ns = 1000000000};
	struct start found = {.free = ""};
	struct hindsight *h;
	struct batch *batch;
	struct error err;

	must(kernel_find(&config.kernel, kernel, &err), &err);
	must(hindsight_new(&h, &config, &err), &err);
	load_state(h, chunks, nr_chunks);
	play(h, events, nr_events);
	while ((batch = hindsight_read(h))) {
		const struct free_block_columns *f = (void *)batch->slots;
		const struct pcp_page_columns *p = (void *)batch->slots;
		const struct pageblock_columns *b = (void *)batch->slots;

		for (size_t i = 0; i < batch->nr; i++)
			if (batch->table == &free_block_table)
				add(found.free, sizeof(found.free), " %c%d:%lu",
				    letters[f->migratetype[i]], f->page_order[i], f->pfn[i]);
			else if (batch->table == &pcp_page_table)
				add(found.pcp, sizeof(found.pcp), " %d%c:%lu", p->cpu[i],
				    letters[p->migratetype[i]], p->pfn[i]);
			else if (batch->table == &pcp_table)
				add_tuning(&found, (void *)batch->slots, i);
			else if (batch->table == &pageblock_table)
				found.types[i] = b->guessed[i] ? '.' : letters[b->migratetype[i]];
	}
	found.coverage = *hindsight_coverage(h);
	found.nr_counts = hindsight_free_counts(h, 0, found.counts);
	check(hindsight_free_counts(h, 2, found.counts) == -1);
	hindsight_free(h);
	return found;
}
#define START(kernel, c, e) start_of(kernel, c, COUNT(c), e, COUNT(e))

static bool same(const char *found, const char *expected)
{
	if (strcmp(found, expected))
		printf("# found%s\n# expected%s\n", found, expected);
	return !strcmp(found, expected);
}

TEST(chunks_stand_in_the_order_in_which_they_left)
{
	static const struct chunk chunks[] = {{512, 3, 0}, {528, 3, 0}, {544, 3, 0}, {560, 0, 0}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 560, 0, MOVABLE), ALLOC(0, 560, 0, MOVABLE),
		ZONE_LOCKED(0, 544, 0, MOVABLE), ZONE_LOCKED(0, 545, 0, MOVABLE),
		ZONE_LOCKED(1, 512, 2, MOVABLE),
	};
	struct start start = START("6.18", chunks, events);

	check(same(start.free, " M0:560 M3:544 M3:512 M3:528"));
	check(start.coverage.free_blocks.nr == 4 && start.coverage.free_blocks.proven == 3);
	check(start.coverage.free_pages.nr == 25 && start.coverage.free_pages.proven == 17);
	check(start.coverage.contradictions == 0);
}

/* 513 is freed at row 1, drained at row 2 and merges with 512; then 528 is taken, behind 512. */
TEST(a_chunk_that_merges_stood_behind_those_that_left_before)
{
	static const struct chunk chunks[] = {{512, 0, 0}, {520, 0, 0}, {528, 0, 0}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 528, 0, MOVABLE),
		FREE(0, 513, 0),
		DRAIN(0, 513, 0, MOVABLE),
		ZONE_LOCKED(0, 520, 0, MOVABLE),
	};
	struct start start = START("6.18", chunks, events);

	check(same(start.free, " M0:528 M0:512 M0:520"));
}

/*
 * 512 merges at row 2. When it was freed, 514 may have been free: then the free put 512 to the tail
 * of its list. 528 merges in the same way, but beside used pages.
 */
TEST(a_chunk_whose_next_merge_was_near_stood_at_the_tail)
{
	static const struct chunk chunks[] = {
		{512, 0, 0}, {514, 1, 0}, {520, 0, 0}, {528, 0, 0}, {536, 0, 0}};
	static const struct row events[] = {
		FREE(0, 513, 0),
		FREE(0, 529, 0),
		DRAIN(0, 513, 0, MOVABLE),
		DRAIN(0, 529, 0, MOVABLE),
		ZONE_LOCKED(0, 520, 0, MOVABLE),
	};
	struct start start = START("6.18", chunks, events);

	check(same(start.free, " M0:528 M0:520 M0:536 M0:512 M1:514"));
}

TEST(first_events_correct_the_snapshot)
{
	static const struct chunk chunks[] = {{512, 2, 0}};
	static const struct row events[] = {
		FREE(0, 513, 0),                 /* not free at the start */
		ZONE_LOCKED(0, 521, 0, MOVABLE), /* free, with its buddy in the snapshot as used */
	};
	struct start start = START("6.18", chunks, events);

	check(same(start.free, " M0:521 M0:512 M1:514"));
	check(start.coverage.contradictions == 2);
}

TEST(pcp_lists_begin_with_the_allocated_and_end_with_the_drained)
{
	static const struct chunk chunks[] = {{512, 0, 0}};
	static const struct row events[] = {
		ALLOC(0, 700, 0, MOVABLE), DRAIN(0, 701, 0, MOVABLE),   DRAIN(0, 702, 0, MOVABLE),
		ALLOC(0, 703, 0, MOVABLE), ALLOC(1, 704, 0, UNMOVABLE), FREE(0, 705, 0),
		ALLOC(0, 705, 0, MOVABLE), /* put there by an event */
	};
	struct start start = START("6.18", chunks, events);

	/* The other 4 and 7 pages of the PCPs may be any used ones without an event. */
	check(same(start.pcp, " 0M:700 0M:703 0M:0 0M:1 0M:2 0M:3 0M:702 0M:701"
			      " 1U:704 1M:4 1M:5 1M:6 1M:7 1M:8 1M:9 1M:10"));
	check(start.coverage.pcp_pages.nr == 16 && start.coverage.pcp_pages.proven == 5);
}

/*
 * CPU 1 drains the PCPs of all CPUs: 8 pages of CPU 0, which a free shows for the first of them,
 * and then its own.
 */
TEST(the_cpus_of_a_drain_of_all_are_found)
{
	static const struct chunk chunks[] = {{512, 0, 0}};
	static const struct row events[] = {
		FREE(0, 600, 0),
		ALLOC(1, 800, 0, MOVABLE),
		DRAIN(1, 701, 0, MOVABLE, .run = 8, .step = 1),
		DRAIN(1, 600, 0, MOVABLE),
		DRAIN(1, 801, 0, MOVABLE),
		DRAIN(1, 802, 0, MOVABLE),
	};
	struct start start = START("6.18", chunks, events);

	check(!strncmp(start.pcp, " 0M:708 0M:707 0M:706 0M:705 0M:704 0M:703 0M:702 0M:701 1M:800",
		       63));
	check(strstr(start.pcp, " 1M:802 1M:801"));
}

/* A block that CPU 0 claims has no other event, since 6.10; so the drain of its page is its own. */
TEST(the_page_of_a_fallback_is_on_the_pcp)
{
	static const struct chunk chunks[] = {{512, 3, 0}, {1024, 0, 0}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 1024, 0, UNMOVABLE),
		ALLOC(0, 1024, 0, UNMOVABLE),
		EXTFRAG(0, 512, 0, 3, UNMOVABLE, MOVABLE),
		FREE(0, 700, 0),
		DRAIN(0, 512, 0, UNMOVABLE),
		DRAIN(0, 701, 0, MOVABLE),
	};
	struct start start = START("6.18", chunks, events);

	check(strstr(start.pcp, " 0M:701"));
}

/* CPU 1's own overflow, then a drain of all PCPs by another task there: it begins with CPU 0. */
TEST(the_drains_of_two_tasks_are_two)
{
	static const struct chunk chunks[] = {{512, 0, 0}};
	static const struct row events[] = {
		BY(1, 0, FREE, .pfn = 600),       BY(1, 1, FREE, .pfn = 601),
		BY(1, 1, PCPU_DRAIN, .pfn = 601), BY(1, 0, ALLOC, .pfn = 650),
		BY(1, 0, FREE, .pfn = 602),       BY(2, 1, PCPU_DRAIN, .pfn = 700),
		BY(2, 1, PCPU_DRAIN, .pfn = 600), BY(2, 1, PCPU_DRAIN, .pfn = 602),
	};
	struct start start = START("6.18", chunks, events);

	check(strstr(start.pcp, " 0M:700"));
	check(!strstr(start.pcp, " 1M:700"));
}

/* An overflow of CPU 0, as its first block shows, although 701 is on a list that seemed empty. */
TEST(an_overflow_is_no_drain_of_all)
{
	static const struct chunk chunks[] = {{512, 0, 0}, {1024, 0, 0}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 1024, 0, UNMOVABLE),
		ALLOC(0, 1024, 0, UNMOVABLE),
		ZONE_LOCKED(0, 512, 0, MOVABLE),
		ALLOC(0, 512, 0, MOVABLE),
		FREE(0, 600, 0),
		DRAIN(0, 600, 0, MOVABLE),
		DRAIN(0, 701, 0, UNMOVABLE),
		FREE(0, 601, 0),
	};
	struct start start = START("6.18", chunks, events);

	check(strstr(start.pcp, " 0U:701"));
}

/* The first list that a page was on has the type of the start; a claim changes it. */
TEST(lists_show_the_types_of_pageblocks)
{
	static const struct chunk chunks[] = {{512, 0, 0}, {1024, 9, 0}, {2048, 10, 0}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 512, 0, MIGRATETYPE_RECLAIMABLE),
		ZONE_LOCKED(0, 1024, 0, UNMOVABLE),
		EXTFRAG(0, 1024, 0, 9, UNMOVABLE, MOVABLE),
		ZONE_LOCKED(0, 1025, 0, UNMOVABLE),
		ZONE_LOCKED(0, 2048, 0, UNMOVABLE),
		EXTFRAG(0, 2048, 0, 10, UNMOVABLE, MOVABLE),
		ZONE_LOCKED(0, 2560, 0, UNMOVABLE),
		FREE(0, 3600, 0),
		DRAIN(0, 3600, 0, UNMOVABLE),
	};
	struct start start = START("6.18", chunks, events);

	check(same(start.types, ".RM.MM.U"));
	check(same(start.free, " R0:512 M9:1024 M10:2048"));
	check(start.coverage.pageblocks.nr == 8 && start.coverage.pageblocks.proven == 5);
}

/* CPU 0 frees a page, which halves alloc_factor; then a list is empty and gets four batches. */
TEST(the_first_refill_shows_the_alloc_factor)
{
	static const struct chunk chunks[] = {{512, 4, 0}};
	static const struct row first[] = {FREE(0, 600, 0), ALLOC(0, 600, 0, MOVABLE)};
	static const struct row last[] = {ALLOC(0, 512, 0, MOVABLE)};
	struct row events[19] = {first[0], first[1]};
	struct start start;

	for (uint32_t i = 0; i < 16; i++) {
		static const struct row one[] = {ZONE_LOCKED(0, 512, 0, MOVABLE)};

		events[2 + i] = one[0];
		events[2 + i].pfn += i;
	}
	events[18] = last[0];
	start = START("6.18", chunks, events);
	check(same(start.tuning, " 4 . . . . ."));
	start = START("6.1.192", chunks, events);
	check(same(start.tuning, " . . . . . ."));
}

/* Events of CPU 0, whose PCP has a batch of 4 and a high of 64. */
struct script {
	struct row rows[192];
	size_t nr;
	uint64_t pfn; /* of the next page */
};

static void add_events(struct script *s, int kind, int nr, int migratetype)
{
	for (int i = 0; i < nr; i++)
		s->rows[s->nr++] = (struct row){.kind = (uint8_t)kind,
						.pfn = s->pfn++,
						.migratetype = (uint8_t)migratetype};
}

/* Pages that no other event shows. */
static void frees(struct script *s, int nr)
{
	add_events(s, EVENT_KIND_FREE, nr, 0);
}

static void allocs(struct script *s, int nr)
{
	add_events(s, EVENT_KIND_ALLOC, nr, MOVABLE);
}

static void drains(struct script *s, int nr)
{
	add_events(s, EVENT_KIND_PCPU_DRAIN, nr, MOVABLE);
}

static void refills(struct script *s, int nr)
{
	add_events(s, EVENT_KIND_ALLOC_ZONE_LOCKED, nr, UNMOVABLE);
}

static struct start after(const char *kernel, const struct script *s)
{
	static const struct chunk chunks[] = {{512, 0, 0}};
	struct script ended = *s; /* the end of the tape may cut a drain short */

	frees(&ended, 1);
	return start_of(kernel, chunks, COUNT(chunks), ended.rows, ended.nr);
}

static bool shows(const char *kernel, const struct script *s, const char *tuning)
{
	return same(after(kernel, s).tuning, tuning);
}

/*
 * The first refill gets what fits into high. That is 20 pages, which each alloc_factor from 3 on
 * explains. When the PCP is nearly empty, a refill shows whether it was 3.
 */
TEST(a_later_refill_shows_what_the_first_does_not)
{
	struct script s = {.pfn = 1024}, other;

	for (int i = 0; i < 4; i++, s.pfn += 8)
		s.rows[s.nr++] = (struct row){.kind = EVENT_KIND_ALLOC_ZONE_LOCKED,
					      .pfn = s.pfn,
					      .order = 3,
					      .migratetype = MOVABLE};
	refills(&s, 20);
	allocs(&s, 52);
	other = s;
	refills(&s, 32);
	check(shows("6.18", &s, " 3 . . . . ."));
	refills(&other, 52); /* what fits now */
	check(shows("6.18", &other, " 4 . . . . ."));
}

/* A free counts itself, then its overflow drains; an alloc before it halves what was counted. */
TEST(the_first_overflow_shows_the_frees_before)
{
	struct script s = {.pfn = 700};

	frees(&s, 2);
	allocs(&s, 1);
	frees(&s, 1);
	drains(&s, 5);
	check(shows("6.18", &s, " . 6 . . . .")); /* (6 or 7) + 2, halved, + 1 */
}

/* The first drains a batch, so free_count was at most 3; of these, the second shows one. */
TEST(overflows_show_free_count_together)
{
	struct script s = {.pfn = 700};
	struct start start;

	refills(&s, 16);
	frees(&s, 1);
	drains(&s, 4);
	check(shows("6.18", &s, " 2 0 . . . ."));
	start = after("6.18", &s);
	check(start.nr_counts == 3 && start.counts[0] == 0 && start.counts[1] == 2 &&
	      start.counts[2] == 1); /* halves of the limit of 128 */
	frees(&s, 6);
	drains(&s, 10);
	check(shows("6.18", &s, " 2 3 . . . ."));
}

/* A drain that leaves a batch shows only that free_count was not lower: its limit is likeliest. */
TEST(a_limited_overflow_shows_the_least_free_count)
{
	struct script s = {.pfn = 700};

	refills(&s, 64);
	frees(&s, 1);
	drains(&s, 69);
	check(shows("6.18", &s, " . 128 . . . ."));
	s.rows[s.nr++] =
		(struct row){.kind = EVENT_KIND_PCPU_DRAIN, .pfn = s.pfn, .migratetype = 1};
	check(shows("6.18", &s, " . . . . . .")); /* leaves less than a batch */
}

/* Three pages are freed as a batch. Its first page is on the PCP when the overflow comes. */
TEST(pages_of_a_batch_count_one_by_one)
{
	struct script s = {.pfn = 700};

	refills(&s, 16);
	frees(&s, 3);
	s.pfn -= 3;
	add_events(&s, EVENT_KIND_FREE_BATCHED, 1, 0);
	s.pfn += 2;
	drains(&s, 6);
	s.pfn = 717;
	add_events(&s, EVENT_KIND_FREE_BATCHED, 2, 0);
	check(shows("6.18", &s, " 2 5 . . . ."));
}

/* Up to 6.6 the PCP drains batch << free_factor. */
TEST(the_first_overflow_shows_the_free_factor)
{
	struct script s = {.pfn = 700};

	refills(&s, 16);
	allocs(&s, 1);
	frees(&s, 1);
	drains(&s, 8);
	check(shows("6.1.192", &s, " . . 2 . . .")); /* 4 << 1: 2 or 3 */
	s = (struct script){.pfn = 700};
	refills(&s, 16);
	frees(&s, 1);
	drains(&s, 12); /* 4 << 2, less what the limit of 16 during reclaim keeps */
	check(shows("6.1.192", &s, " . . 2 . . ."));
}

/* CPU 1 is on another node than the zone: the second tick drains its PCP. */
TEST(a_tick_that_drains_shows_the_ticks_left)
{
	static const struct chunk chunks[] = {{512, 0, 0}};
	static const struct row events[] = {
		ALLOC(0, 700, 0, MOVABLE),
		DRAIN(1, 701, 0, MOVABLE),
		DRAIN(1, 702, 0, MOVABLE),
	};

	variant = (struct variant){.remote = true, .tick_at = 1, .nr_ticks = 2};
	check(same(START("6.18", chunks, events).expire, " . 2"));
	variant.nr_ticks = 4; /* more than an idle PCP has left */
	check(same(START("6.18", chunks, events).expire, " . ."));
	variant = (struct variant){.tick_at = 1, .nr_ticks = 2};
	check(same(START("6.18", chunks, events).expire, " . ."));
	variant = (struct variant){0};
}
