// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that the record got, and that the model makes by moving pages. Pageblocks are of 16 pages.
 */
#include "serve_world.h"

/* The record allocates 2^order pages of a type, with a right to reclaim, GFP_*. */
static void alloc_of(struct world *w, uint32_t pfn, int order, int migratetype, uint32_t reclaim)
{
	bool movable = migratetype == MIGRATETYPE_MOVABLE;

	serve_request(&w->serve, &(struct waiting){
					 .kind = EVENT_KIND_ALLOC,
					 .frame = pfn,
					 .order = (uint8_t)order,
					 .migratetype = (uint8_t)migratetype,
					 .gfp_flags = reclaim | (movable ? GFP_MOVABLE : 0),
				 });
	w->serve.at++;
}

static void alloc(struct world *w, uint32_t pfn, int order)
{
	alloc_of(w, pfn, order, MIGRATETYPE_MOVABLE, GFP_DIRECT_RECLAIM);
}

/* Requests for four single pages from pfn on. */
static void four_singles(struct world *w, uint32_t pfn)
{
	for (uint32_t i = 0; i < 4; i++)
		alloc(w, pfn + i, 0);
}

/* Three MOVABLE pageblocks: the first has 4 used pages, the second 6 free ones. */
static void in_pieces_under(struct world *w, const char *kernel, const char *policy)
{
	*w = (struct world){0};
	toy_new_under(&w->toy, kernel, policy, (struct toy_geometry){4, 5, "MMM", 0});
	world_begin(w);
	w->serve.compacts_for_record = true;
	world_freed(w, 32, 4);
	toy_add_free(&w->toy, 0, 2, 'M');
	four_singles(w, 32);
	toy_add_free(&w->toy, 4, 2, 'M');
	toy_add_free(&w->toy, 8, 3, 'M');
	toy_add_free(&w->toy, 16, 1, 'M');
	toy_add_free(&w->toy, 20, 2, 'M');
}

static void in_pieces(struct world *w)
{
	in_pieces_under(w, "6.18", "mainline");
}

TEST(a_request_that_may_not_mix_gets_a_whole_block_since_7_2)
{
	static const struct {
		const char *kernel, *policy;
		int type;
		uint32_t reclaim;
		uint64_t moves, whole,
			smaller; /* pages moved; fallbacks by the size of the chunk */
	} cases[] = {
		{"7.3", "mainline:defrag_mode=1", MIGRATETYPE_UNMOVABLE, GFP_DIRECT_RECLAIM, 4, 1,
		 0},
		{"7.3", "mainline:defrag_mode=1", MIGRATETYPE_UNMOVABLE, 0, 4, 1, 0},
		{"7.3", "mainline:defrag_mode=1", MIGRATETYPE_UNMOVABLE, GFP_KSWAPD_RECLAIM, 0, 0,
		 1},
		{"7.3", "mainline:defrag_mode=1", MIGRATETYPE_MOVABLE, GFP_DIRECT_RECLAIM, 0, 0, 0},
		{"7.2", "mainline:defrag_mode=1", MIGRATETYPE_UNMOVABLE, GFP_DIRECT_RECLAIM, 4, 1,
		 0},
		{"7.1", "mainline:defrag_mode=1", MIGRATETYPE_UNMOVABLE, GFP_DIRECT_RECLAIM, 0, 0,
		 1},
		{"7.3", "mainline", MIGRATETYPE_UNMOVABLE, GFP_DIRECT_RECLAIM, 0, 0, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct counters *counters;

		WORLD(w, in_pieces_under, cases[i].kernel, cases[i].policy);
		alloc_of(&w, 40, 0, cases[i].type, cases[i].reclaim);
		check(page_map_place(&w.serve.pages, 40) != NO_FRAME);
		counters = &w.toy.pcp->counters;
		check(counters->block_moves == cases[i].moves);
		check(counters->fallback_whole == cases[i].whole);
		check(counters->fallback_claim + counters->fallback_steal == cases[i].smaller);
		check_sound(w.toy.m);
	}
}

TEST(a_block_that_the_record_got_is_made_by_moving_pages)
{
	WORLD(w, in_pieces);
	alloc(&w, 0, 4);
	check(page_map_place(&w.serve.pages, 0) == 0 && page_map_place(&w.serve.pages, 15) == 15);
	check(w.toy.zone->nr_free_pages == 2);
	check(w.anomalies[ANOMALY_KIND_NO_FREE_PAGE] == 0);
	check(w.toy.pcp->counters.blocks_made == 1 && w.toy.pcp->counters.block_moves == 4);
	/* The pages that moved are found at their new places. */
	for (uint32_t pfn = 32; pfn < 36; pfn++) {
		check(page_map_place(&w.serve.pages, pfn) >= 16 &&
		      page_map_place(&w.serve.pages, pfn) < 32);
		world_free_page(&w, pfn, 0);
	}
	world_free_page(&w, 0, 4);
	check(w.toy.zone->nr_free_pages + (uint32_t)w.toy.pcp->count == 22);
	check(w.anomalies[ANOMALY_KIND_FREE_UNKNOWN] == 0);
}

/* The record asks for a huge page, and gets it at `pfn` or not (NO_FRAME). */
static void ask_huge(struct world *w, uint32_t pfn, int order, uint32_t more)
{
	const uint32_t gfp = GFP_HIGHMEM | GFP_MOVABLE | GFP_COMP | GFP_NOMEMALLOC;

	serve_request(&w->serve, &(struct waiting){
					 .kind = EVENT_KIND_ALLOC,
					 .frame = pfn,
					 .order = (uint8_t)order,
					 .migratetype = MIGRATETYPE_MOVABLE,
					 .gfp_flags = gfp | more,
				 });
	w->serve.at++;
}

TEST(a_huge_page_counts_if_the_model_has_a_block_for_it)
{
	static const struct {
		uint32_t pfn; /* of the record */
		int order;
		uint32_t gfp;
		uint64_t got;
	} cases[] = {
		{NO_FRAME, 3, 0, 1}, /* failed on the tape; the model has a block of 8 */
		{NO_FRAME, 4, 0, 0},
		{NO_FRAME, 4, GFP_DIRECT_RECLAIM, 0}, /* it compacted on the tape in vain */
		{8, 3, 0, 1},
		{0, 4, GFP_DIRECT_RECLAIM, 1}, /* pages move, as compaction moves them */
		{0, 4, 0, 0},                  /* may not compact */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int order = cases[i].order;

		WORLD(w, in_pieces);
		ask_huge(&w, cases[i].pfn, order, cases[i].gfp);
		alloc(&w, 20, 1); /* no huge page */
		check(w.serve.huge_requests.of[order].asked == 1);
		check(w.serve.huge_requests.of[order].got == cases[i].got);
		check(!w.serve.huge_requests.of[1].asked);
		check_sound(w.toy.m);
	}
}

/*
 * Two zones of two pageblocks, in the order in which a request scans them NORMAL and DMA32. Each
 * has room for a block if one page moves.
 */
TEST(a_block_is_made_in_the_zone_where_the_record_got_it)
{
	static const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_DMA32, 0),
						 TOY_ZONE(0, ZONE_NORMAL, 32)};
	const struct machine machine = toy_machine(4, 5);

	for (uint32_t recorded = 0; recorded < 64; recorded += 32) {
		struct world w = {0};

		toy_new_machine(&w.toy, "6.18", &machine, zones, 2);
		world_begin(&w);
		w.serve.compacts_for_record = true;
		world_freed(&w, 0, 5);
		world_freed(&w, 32, 5);
		for (uint32_t start = 0; start < 64; start += 16)
			frame_block(w.toy.m, start)->migratetype = MIGRATETYPE_MOVABLE;
		for (uint32_t start = 0; start < 64; start += 32) {
			toy_add_free(&w.toy, start, 3, 'M');
			toy_add_free(&w.toy, start + 8, 2, 'M');
			toy_add_free(&w.toy, start + 16, 2, 'M');
			toy_movable(&w.toy, start, 4);
			frame_block(w.toy.m, start)->old_lru = 4;
		}
		alloc(&w, recorded, 4);
		check(page_map_place(&w.serve.pages, recorded) == recorded);
		check_sound(w.toy.m);
		world_free(&w);
	}
}

TEST(pages_that_cannot_move_keep_their_place)
{
	WORLD(w, in_pieces);
	zone_unmark_live(w.toy.m, page_map_place(&w.serve.pages, 33), 0);
	alloc(&w, 0, 4);
	check(page_map_place(&w.serve.pages, 0) == NO_FRAME);
	check(w.anomalies[ANOMALY_KIND_NO_FREE_PAGE] == 1);
	check(w.toy.pcp->counters.failed == 1 && w.toy.pcp->counters.blocks_made == 0);
}

TEST(nothing_moves_where_there_is_no_room_for_it)
{
	WORLD(w, world_new_small, "MM");
	w.serve.compacts_for_record = true;
	world_freed(&w, 16, 4);
	toy_add_free(&w.toy, 0, 2, 'M');
	four_singles(&w, 16);
	toy_add_free(&w.toy, 4, 2, 'M');
	alloc(&w, 0, 3);
	check(page_map_place(&w.serve.pages, 0) == NO_FRAME);
	check(page_map_place(&w.serve.pages, 16) < 4);
	check(w.toy.zone->nr_free_pages + (uint32_t)w.toy.pcp->count == 4);
}
