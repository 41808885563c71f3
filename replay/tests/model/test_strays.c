// SPDX-License-Identifier: Apache-2.0
/*
 * Exchanges of recorded pages that the model has in another zone. A machine of two nodes: zone
 * DMA32 of node 0 has pfns 0 to 31, zone NORMAL of node 0 32 to 63, zone NORMAL of node 1 64 to 95.
 */
#include "check.h"
#include "model/strays.h"
#include "model/zone.h"
#include "toy.h"

struct world {
	struct toy toy;
	struct page_map pages;
	struct strays strays;
};

static void begin(struct world *w)
{
	static const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_DMA32, 0),
						 TOY_ZONE(0, ZONE_NORMAL, 32),
						 TOY_ZONE(1, ZONE_NORMAL, 64)};
	struct error err;

	*w = (struct world){0};
	toy_new_machine(&w->toy, "6.18", &toy_two_nodes, zones, 3);
	must(page_map_new(&w->pages, w->toy.m, &err), &err);
	must(strays_new(&w->strays, &w->pages, &err), &err);
}

static void end(struct world *w)
{
	toy_free(&w->toy);
}

/* The record has a page at `recorded`, the model has it at `place`. */
static void place(struct world *w, uint32_t recorded, uint32_t at, int migratetype)
{
	zone_forget_old(w->toy.m, at, 0);
	zone_mark_live(w->toy.m, at, 0, migratetype);
	page_map_set(&w->pages, recorded, 0, at + 1, true);
	strays_note(&w->strays, recorded);
}

TEST(pages_exchange_their_places_only_if_one_is_to_be_elsewhere)
{
	static const struct {
		uint32_t at;    /* place of page 5 */
		uint32_t other; /* place of page 70, which the record has on node 1 */
		int class_zone, migratetype;
		uint32_t then; /* place of page 5 on node 0 */
	} cases[] = {
		{80, 40, ZONE_NORMAL, MIGRATETYPE_MOVABLE, 40},
		{80, 40, ZONE_DMA32, MIGRATETYPE_MOVABLE, 80}, /* no page up to DMA32 */
		{80, 8, ZONE_DMA32, MIGRATETYPE_MOVABLE, 8},
		{40, 8, ZONE_DMA32, MIGRATETYPE_MOVABLE, 8},      /* its own zone is too high */
		{40, 8, ZONE_NORMAL, MIGRATETYPE_MOVABLE, 40},    /* it is there */
		{80, 81, ZONE_NORMAL, MIGRATETYPE_MOVABLE, 80},   /* the other does not stray */
		{80, 40, ZONE_NORMAL, MIGRATETYPE_UNMOVABLE, 80}, /* not on an LRU list */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world w;

		begin(&w);
		place(&w, 70, cases[i].other, cases[i].migratetype);
		place(&w, 5, cases[i].at, MIGRATETYPE_MOVABLE);
		strays_exchange(&w.strays, 5, 0, cases[i].class_zone);
		check(page_map_place(&w.pages, 5) == cases[i].then);
		check(page_map_place(&w.pages, 70) ==
		      (cases[i].then == cases[i].at ? cases[i].other : cases[i].at));
		check_sound(w.toy.m);
		end(&w);
	}
}

TEST(the_oldest_stray_that_is_still_there_is_taken)
{
	struct world w;

	begin(&w);
	for (uint32_t i = 0; i < 3; i++)
		place(&w, 70 + i, 40 + i, MIGRATETYPE_MOVABLE);
	page_map_set(&w.pages, 70, 0, MAP_FREED, false);
	for (uint32_t i = 0; i < 3; i++)
		place(&w, 5 + i, 80 + i, MIGRATETYPE_MOVABLE);
	for (uint32_t i = 0; i < 3; i++)
		strays_exchange(&w.strays, 5 + i, 0, ZONE_NORMAL);
	check(page_map_place(&w.pages, 5) == 41);
	check(page_map_place(&w.pages, 6) == 42);
	check(page_map_place(&w.pages, 7) == 82);
	/* Both are where the record has them now, so neither strays. */
	check(page_map_place(&w.pages, 71) == 80 && page_map_place(&w.pages, 72) == 81);
	check(w.strays.next[71] == 71 && w.strays.next[72] == 72);
	end(&w);
}
