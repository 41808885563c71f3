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
	sprintf(text + strlen(text), " free %d counted %d",
		(int)t.zone->nr_free_pages + t.pcp->count, (int)zone_counted_free(t.zone));
	toy_free(&t);
	return text;
}

static const uint32_t every[NR_VARIATION] = {2000, 2000, 2000};

TEST(a_seed_always_gives_the_same_changes)
{
	char one[4096], other[4096];

	for (uint64_t seed = 1; seed < 20; seed++)
		check_text(state_after(seed, every, one), state_after(seed, every, other));
}

TEST(seeds_differ)
{
	char first[4096], text[4096];
	int differ = 0;

	state_after(1, every, first);
	for (uint64_t seed = 2; seed < 20; seed++)
		differ += strcmp(first, state_after(seed, every, text)) != 0;
	check(differ >= 17);
}

TEST(without_a_seed_nothing_changes)
{
	static const uint32_t none[NR_VARIATION];
	char plain[4096], text[4096];

	state_after(0, none, plain);
	check_text(state_after(0, every, text), plain);
	check_text(state_after(7, none, text), plain);
}

/* A list that no rule drains or refills. */
TEST(drains_and_refills_of_changes_are_not_counted)
{
	struct variation_config config = {.seed = 3, .changes = {[VARY_SIZED] = 100000}};
	int least = 64, most = 0, pages;
	struct variation v;
	struct error err;

	TOY(t, world_new);
	for (uint32_t pfn = 20; pfn < 28; pfn++)
		if (t.m->frames[pfn].state != FRAME_FREE && t.m->frames[pfn].state != FRAME_TAIL)
			toy_free_page(&t, pfn, 0);
	pages = (int)t.zone->nr_free_pages + t.pcp->count;
	must(start(&v, &t, &config, &err), &err);
	for (uint32_t row = 0; row < ROWS; row++) {
		struct waiting e = request(row);

		variation_run(&v, &e, row);
		least = t.pcp->count < least ? t.pcp->count : least;
		most = t.pcp->count > most ? t.pcp->count : most;
		check((int)t.zone->nr_free_pages + t.pcp->count == pages);
	}
	check(least < most);
	check(t.pcp->counters.drains == 0 && t.pcp->counters.drain_pages == 0);
	check(t.pcp->counters.refills == 0);
	check_sound(t.m);
}

struct sizes {
	int count, high, free_count, counted;
};

/* By how much the first change of a seed moves the sizes of the PCP and the counter of the zone. */
static struct sizes first_change(uint64_t seed, int kind)
{
	struct variation_config config = {.seed = seed};
	struct sizes change;
	struct variation v;
	struct error err;
	struct toy t;

	config.changes[kind] = 1000;
	world_new(&t);
	for (uint32_t pfn = 22; pfn < 26; pfn++)
		if (t.m->frames[pfn].state != FRAME_FREE && t.m->frames[pfn].state != FRAME_TAIL)
			toy_free_page(&t, pfn, 0);
	t.zone->stat_threshold = 8;
	t.pcp->high_min = 0;
	t.pcp->free_count = 10;
	change = (struct sizes){-t.pcp->count, -t.pcp->high, -t.pcp->free_count,
				-(int)zone_counted_free(t.zone) - t.pcp->count};
	must(start(&v, &t, &config, &err), &err);
	for (uint32_t row = 0; !v.nr_changes; row++) {
		struct waiting e = request(row);

		e.migratetype = MIGRATETYPE_MOVABLE;
		variation_run(&v, &e, row);
	}
	change.count += t.pcp->count;
	change.high += t.pcp->high;
	change.free_count += t.pcp->free_count;
	change.counted += (int)zone_counted_free(t.zone) + t.pcp->count;
	toy_free(&t);
	return change;
}

TEST(changes_of_a_pair_of_seeds_are_mirrors)
{
	static const int kinds[] = {VARY_SIZED, VARY_COUNTED};
	int changed = 0;

	for (uint64_t seed = 1; seed < 400; seed += 2)
		for (int i = 0; i < 2; i++) {
			struct sizes one = first_change(seed, kinds[i]);
			struct sizes other = first_change(seed + 1, kinds[i]);

			check(one.count == -other.count && one.high == -other.high);
			check(one.free_count == -other.free_count);
			check(one.counted == -other.counted);
			changed += one.count || one.high || one.free_count || one.counted;
		}
	check(changed > 200);
}

TEST(changes_wait_for_an_alloc)
{
	struct variation_config config = {.seed = 5, .changes = {[VARY_COUNTED] = 1000000}};
	struct waiting e = request(1);
	struct variation v;
	struct error err;

	TOY(t, world_new);
	must(start(&v, &t, &config, &err), &err);
	e.kind = EVENT_KIND_FREE;
	variation_run(&v, &e, 100);
	check(v.nr_changes == 0);
	e.kind = EVENT_KIND_ALLOC;
	variation_run(&v, &e, 101);
	check(v.nr_changes > 0);
}

TEST(an_entry_moves_to_the_other_end)
{
	struct variation_config config = {.changes = {[VARY_MOVED] = 100}};
	int to_end = 0, to_begin = 0;

	for (config.seed = 1; config.seed <= 2; config.seed++) {
		struct variation v;
		struct error err;

		TOY(t, toy_new, "6.18", toy_small("MM"));
		for (uint32_t pfn = 0; pfn < 6; pfn += 2)
			toy_add_free(&t, pfn, 0, 'M');
		must(start(&v, &t, &config, &err), &err);
		for (uint32_t row = 0; row < 200000; row++) {
			frame_nr head = free_list(t.zone, 0, MIGRATETYPE_MOVABLE);
			frame_nr first = t.m->frames[head].next, last = t.m->frames[head].prev;
			struct waiting e = request(row);

			e.migratetype = MIGRATETYPE_MOVABLE;
			e.frame = 16;
			variation_run(&v, &e, row);
			to_end += t.m->frames[head].prev == first;
			to_begin += t.m->frames[head].next == last;
		}
		check(v.nr_changes > 5);
	}
	check(to_end > 3 && to_end == to_begin);
}

TEST(where_proc_alone_showed_the_lists_their_order_is_drawn)
{
	struct variation_config config = {.seed = 1, .changes = {0}};
	char first[256];
	int differ = 0;

	for (uint64_t seed = 1; seed < 20; seed++) {
		struct variation v;
		struct error err;

		TOY(t, toy_new, "6.18", toy_small("MM"));
		for (uint32_t pfn = 0; pfn < 16; pfn += 2)
			toy_add_free(&t, pfn, 0, 'M');
		t.zone->guessed = true;
		config.seed = seed;
		must(start(&v, &t, &config, &err), &err);
		check(t.zone->nr_free[0][MIGRATETYPE_MOVABLE] == 8);
		if (seed == 1)
			strcpy(first, toy_list(&t, 0, 'M'));
		differ += strcmp(first, toy_list(&t, 0, 'M')) != 0;
	}
	check(differ >= 17);
}

TEST(an_alloc_takes_another_entry_at_the_rate_of_its_misses)
{
	enum { PAGES = 6, RATE = 50 };
	struct variation_config config = {.seed = 2, .flips = {[FLIP_ALLOC] = FLIPS_PER / RATE}};
	uint64_t changed = 0;
	struct variation v;
	struct error err;

	TOY(t, toy_new, "6.18", toy_small("MM"));
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
}

TEST(every_kind_of_change_has_a_name_and_a_number)
{
	struct variation_config config = {.seed = 1, .changes = {[VARY_MOVED] = 1000}};
	struct waiting e = request(1);
	struct variation v;
	struct error err;
	int nr = 0;

	TOY(t, world_new);
	must(start(&v, &t, &config, &err), &err);
	variation_run(&v, &e, 5000);
	for (; variation_name(nr); nr++)
		check((variation_drawn(&v, nr) > 0) == !strcmp(variation_name(nr), "moved"));
	check(nr == NR_VARIATION + 1 + NR_FLIP);
}
