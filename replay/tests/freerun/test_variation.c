// SPDX-License-Identifier: Apache-2.0
/* What makes members of an ensemble differ: small changes, drawn from a seed. */
#include "check.h"
#include "freerun/variation.h"
#include "toy.h"

#include "model/vmstat_diff.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 20000 };

/* A toy of 4 pageblocks with free pages of every type, and 2^k pages of them on the PCP. */
static void world_new(struct toy *t)
{
	toy_new(t, "6.18", toy_small("UMRM"));
	toy_pcp(t, 4, 16);
	for (uint32_t pfn = 0; pfn < 64; pfn += 4)
		toy_add_free(t, pfn, pfn % 8 ? 1 : 2, "UMRM"[pfn / 16]);
}

static uint64_t current; /* row */

static int start(struct variation *v, struct toy *t, const struct variation_config *config,
		 struct error *err)
{
	static struct inferred_rows none;
	struct variation_run run = {.model = t->m, .inferred = &none, .at = &current};

	return variation_start(v, &run, config, err);
}

/* An alloc of any page of the toy: the next row. */
static struct waiting request(uint32_t row)
{
	return (struct waiting){.frame = row % 64,
				.at = row,
				.kind = EVENT_KIND_ALLOC,
				.migratetype = (uint8_t)(row % 3)};
}

/* Run the changes of a seed, and describe the state at the end. */
static const char *state_after(uint64_t seed, const uint32_t changes[NR_VARIATION], char *text)
{
	struct variation_config config = {.seed = seed};
	struct variation v;
	struct error err;
	struct toy t;

	memcpy(config.changes, changes, sizeof(config.changes));
	world_new(&t);
	t.zone->stat_threshold = 8;
	must(start(&v, &t, &config, &err), &err);
	for (uint32_t row = 0; row < ROWS; row++) {
		struct waiting e = request(row);

		variation_run(&v, &e, row);
	}
	check_sound(t.m);
	*text = 0;
	for (int i = 0; i < 3; i++) {
		for (int order = 0; order <= 5; order++)
			strcat(strcat(text, toy_list(&t, order, "UMR"[i])), "/");
		strcat(strcat(text, toy_pcp_list(&t, 0, "UMR"[i])), ";");
	}
	sprintf(text + strlen(text), " free %d counted %d held %d",
		(int)t.zone->nr_free_pages + t.pcp->count, (int)zone_counted_free(t.zone),
		v.nr_held);
	toy_free(&t);
	return text;
}

static const uint32_t every[NR_VARIATION] = {2000, 2000, 2000, 2000};

static void a_seed_always_gives_the_same_changes(void)
{
	char one[4096], other[4096];

	for (uint64_t seed = 1; seed < 20; seed++)
		check_text(state_after(seed, every, one), state_after(seed, every, other));
}

static void seeds_differ(void)
{
	char first[4096], text[4096];
	int differ = 0;

	state_after(1, every, first);
	for (uint64_t seed = 2; seed < 20; seed++)
		differ += strcmp(first, state_after(seed, every, text)) != 0;
	check(differ >= 17);
}

static void without_a_seed_nothing_changes(void)
{
	static const uint32_t none[NR_VARIATION];
	char plain[4096], text[4096];

	state_after(0, none, plain);
	check_text(state_after(0, every, text), plain);
	check_text(state_after(7, none, text), plain);
}

static void held_pages_are_given_back(void)
{
	static const uint32_t held[NR_VARIATION] = {[VARY_HELD] = 5000};
	struct variation_config config = {.seed = 3};
	struct variation v;
	struct error err;
	struct toy t;
	int before, most = 0;

	memcpy(config.changes, held, sizeof(held));
	world_new(&t);
	before = (int)t.zone->nr_free_pages;
	must(start(&v, &t, &config, &err), &err);
	for (uint32_t row = 0; row < ROWS; row++) {
		struct waiting e = request(row);

		variation_run(&v, &e, row);
		most = v.nr_held > most ? v.nr_held : most;
		check((int)t.zone->nr_free_pages == before - v.nr_held);
	}
	check(most > 4 && most <= VARIATION_HELD_MAX);
	toy_end(&t);
}

/* A list that no rule drains. */
static void drains_of_changes_are_not_counted(void)
{
	static const uint32_t sized[NR_VARIATION] = {[VARY_SIZED] = 100000};
	struct variation_config config = {.seed = 3};
	struct variation v;
	struct error err;
	struct toy t;

	memcpy(config.changes, sized, sizeof(sized));
	world_new(&t);
	toy_free_page(&t, (uint32_t)toy_alloc(&t, 0, 'M'), 0);
	check(t.pcp->count == 4);
	must(start(&v, &t, &config, &err), &err);
	for (uint32_t row = 0; row < ROWS && t.pcp->count; row++) {
		struct waiting e = request(row);

		variation_run(&v, &e, row);
	}
	check(t.pcp->count == 0);
	check(t.pcp->counters.drains == 0 && t.pcp->counters.drain_pages == 0);
	toy_end(&t);
}

static void changes_wait_for_an_alloc(void)
{
	struct variation_config config = {.seed = 5, .changes = {1000000, 0, 0, 0}};
	struct waiting e = request(1);
	struct variation v;
	struct error err;
	struct toy t;

	world_new(&t);
	must(start(&v, &t, &config, &err), &err);
	e.kind = EVENT_KIND_FREE;
	variation_run(&v, &e, 100);
	check(v.nr_held == 0 && v.nr_changes == 0);
	e.kind = EVENT_KIND_ALLOC;
	variation_run(&v, &e, 101);
	check(v.nr_changes > 0);
	toy_end(&t);
}

static void a_moved_entry_is_last(void)
{
	struct variation_config config = {.seed = 1, .changes = {[VARY_MOVED] = 100}};
	struct variation v;
	struct error err;
	struct toy t;

	toy_new(&t, "6.18", toy_small("MM"));
	toy_add_free(&t, 0, 0, 'M');
	toy_add_free(&t, 2, 0, 'M');
	toy_add_free(&t, 4, 0, 'M');
	must(start(&v, &t, &config, &err), &err);
	for (uint32_t row = 0; row < 200000; row++) {
		struct waiting e = request(row);
		const char *list = toy_list(&t, 0, 'M');

		check(!strcmp(list, "0 2 4") || !strcmp(list, "2 4 0") || !strcmp(list, "4 0 2"));
		e.migratetype = MIGRATETYPE_MOVABLE;
		e.frame = 16;
		variation_run(&v, &e, row);
	}
	check(v.nr_changes > 5);
	toy_end(&t);
}

static void where_proc_alone_showed_the_lists_their_order_is_drawn(void)
{
	struct variation_config config = {.seed = 1, .changes = {0}};
	char first[256];
	int differ = 0;

	for (uint64_t seed = 1; seed < 20; seed++) {
		struct variation v;
		struct error err;
		struct toy t;

		toy_new(&t, "6.18", toy_small("MM"));
		for (uint32_t pfn = 0; pfn < 16; pfn += 2)
			toy_add_free(&t, pfn, 0, 'M');
		t.zone->guessed = true;
		config.seed = seed;
		must(start(&v, &t, &config, &err), &err);
		check(t.zone->nr_free[0][MIGRATETYPE_MOVABLE] == 8);
		if (seed == 1)
			strcpy(first, toy_list(&t, 0, 'M'));
		differ += strcmp(first, toy_list(&t, 0, 'M')) != 0;
		toy_end(&t);
	}
	check(differ >= 17);
}

static void an_alloc_takes_another_entry_at_the_rate_of_its_misses(void)
{
	enum { PAGES = 6, RATE = 50 };
	struct variation_config config = {.seed = 2, .flips = {[FLIP_ALLOC] = FLIPS_PER / RATE}};
	uint64_t changed = 0;
	struct variation v;
	struct error err;
	struct toy t;

	toy_new(&t, "6.18", toy_small("MM"));
	toy_pcp(&t, 4, 16);
	for (uint32_t pfn = 0; pfn < PAGES; pfn++)
		toy_free_page(&t, pfn, 0);
	must(start(&v, &t, &config, &err), &err);
	for (uint32_t row = 0; row < ROWS; row++) {
		struct waiting e = request(row);
		uint32_t list = pcp_list(t.m, t.pcp, 0, MIGRATETYPE_MOVABLE);
		uint32_t first = t.m->frames[list].next, second = t.m->frames[first].next;

		/* Every other row is no alloc. */
		e.kind = row % 2 ? EVENT_KIND_ALLOC : EVENT_KIND_FREE;
		e.migratetype = MIGRATETYPE_MOVABLE;
		e.frame = 16;
		variation_run(&v, &e, row);
		if (t.m->frames[list].next == first)
			continue;
		check(e.kind == EVENT_KIND_ALLOC);
		/* The others keep their order. */
		check(t.m->frames[t.m->frames[list].next].next == first);
		check(t.m->frames[first].next == second || t.m->frames[list].next == second);
		changed++;
	}
	check(t.pcp->count == PAGES);
	check(changed > ROWS / 2 / RATE * 8 / 10 && changed < ROWS / 2 / RATE * 12 / 10);
	check(changed == v.flips.drawn[FLIP_ALLOC]);
	toy_end(&t);
}

static void every_kind_of_change_has_a_name_and_a_number(void)
{
	struct variation_config config = {.seed = 1, .changes = {[VARY_MOVED] = 1000}};
	struct waiting e = request(1);
	struct variation v;
	struct error err;
	struct toy t;
	int nr = 0;

	world_new(&t);
	must(start(&v, &t, &config, &err), &err);
	variation_run(&v, &e, 5000);
	for (; variation_name(nr); nr++)
		check((variation_drawn(&v, nr) > 0) == !strcmp(variation_name(nr), "moved"));
	check(nr == NR_VARIATION + 1 + NR_FLIP);
	toy_end(&t);
}

int main(void)
{
	test(a_seed_always_gives_the_same_changes);
	test(seeds_differ);
	test(without_a_seed_nothing_changes);
	test(held_pages_are_given_back);
	test(drains_of_changes_are_not_counted);
	test(changes_wait_for_an_alloc);
	test(a_moved_entry_is_last);
	test(an_alloc_takes_another_entry_at_the_rate_of_its_misses);
	test(every_kind_of_change_has_a_name_and_a_number);
	test(where_proc_alone_showed_the_lists_their_order_is_drawn);
	return check_done();
}
