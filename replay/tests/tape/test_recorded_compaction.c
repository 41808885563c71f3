// SPDX-License-Identifier: Apache-2.0
/*
 * The free lists after recorded compaction events, by the rules of mm/compaction.c of 6.18.
 */
#include "check.h"
#include "tape/recorded_compaction.h"
#include "toy.h"

#include <stdlib.h>

enum { PID = 7, PAGES = 128 };

struct run {
	struct toy toy;
	struct recorded_compactions c;
	int followed, lost, cuts;
	uint32_t taken; /* pages */
};

static void isolated(void *self, const struct compactor *task, uint32_t head, int order,
		     int migratetype)
{
	struct run *run = self;

	check(task->pid == PID && migratetype == MIGRATETYPE_MOVABLE);
	check(run->toy.m->frames[head].state == FRAME_USED);
	run->taken += 1u << order;
}

static void cut(void *self, const struct compactor *task, uint32_t first)
{
	struct run *run = self;

	check(task->pid == PID && run->toy.m->frames[first].state == FRAME_FREE);
	run->cuts++;
}

/* The pages that left their lists, by later events of the tape: 1, or -1. */
static int left(void *self, uint32_t head)
{
	(void)self;
	return head == 40 || head == 56 || head == 72 ? 1 : -1;
}

static void followed(void *self, struct zone *zone, uint64_t pages, bool exactly)
{
	struct run *run = self;

	check(zone == run->toy.zone && pages <= PAGES);
	run->followed += exactly;
	run->lost += !exactly;
}

static void follow(struct run *run, const struct recorded_compaction_row *row)
{
	struct recorded_compaction_row own = *row;

	own.pid = PID;
	recorded_compaction_follow(
		&run->c, run->toy.m, &own,
		&(struct recorded_compaction_sink){run, isolated, cut, left, followed});
}

static void new_run(struct run *run, const char *kernel, int pageblock_order, const char *blocks)
{
	*run = (struct run){0};
	toy_new(&run->toy, kernel, (struct toy_geometry){pageblock_order, 7, blocks, ZONE_DMA});
	recorded_compactions_new(&run->c, run->toy.m);
}

/* A direct request of `order` compacts 128 pages; the two scanners are at the ends. */
static void begin_on(struct run *run, const char *kernel, uint32_t gfp_flags, int pageblock_order,
		     const char *blocks, int order)
{
	new_run(run, kernel, pageblock_order, blocks);
	follow(run, &(struct recorded_compaction_row){
			    .kind = COMPACTION_KIND_TRY_TO_COMPACT_PAGES,
			    .gfp_flags = gfp_flags,
			    .order = (int8_t)order,
			    .priority = 2,
		    });
	follow(run, &(struct recorded_compaction_row){
			    .kind = COMPACTION_KIND_BEGIN,
			    .end_pfn = PAGES,
			    .free_pfn = PAGES - (1u << pageblock_order),
		    });
}

static void begin(struct run *run, int pageblock_order, const char *blocks, int order)
{
	begin_on(run, "6.18", GFP_MOVABLE, pageblock_order, blocks, order);
}

static void end(struct run *run)
{
	toy_free(&run->toy);
}

static void search(struct run *run, int64_t scanned, int64_t taken)
{
	follow(run, &(struct recorded_compaction_row){
			    .kind = COMPACTION_KIND_FAST_ISOLATE_FREEPAGES,
			    .start_pfn = 48,
			    .end_pfn = 112,
			    .nr_scanned = scanned,
			    .nr_taken = taken,
		    });
}

TEST(a_quick_search_takes_the_first_page_in_the_top_quarter_and_cuts_the_list)
{
	struct run run;

	begin(&run, 4, "MMMMMMMM", 4);
	toy_add_free(&run.toy, 8, 2, 'M');
	toy_add_free(&run.toy, 96, 2, 'M');
	toy_add_free(&run.toy, 20, 2, 'M');
	search(&run, 2 + 3, 4);
	check_text(toy_list(&run.toy, 2, 'M'), "20 8");
	check(run.taken == 4 && run.cuts == 1 && run.followed == 1);
	end(&run);
}

TEST(a_page_of_the_upper_half_is_second_choice)
{
	struct run run;
	const struct compactor *task;

	begin(&run, 4, "MMMMMMMM", 4);
	toy_add_free(&run.toy, 8, 2, 'M');
	toy_add_free(&run.toy, 48, 2, 'M');
	toy_add_free(&run.toy, 56, 2, 'M');
	search(&run, 3 + 3, 4);
	check_text(toy_list(&run.toy, 2, 'M'), "8 48");
	/* The next search begins where this one did. */
	task = compactor_of(&run.c, PID);
	check(task->search_order == 3 && task->fail == 0 && run.followed == 1);
	end(&run);
}

TEST(a_search_in_vain_cuts_the_list_where_it_gave_up)
{
	struct run run;

	begin(&run, 4, "MMMMMMMM", 4);
	for (uint32_t pfn = 0; pfn < 24; pfn += 2)
		toy_add_free(&run.toy, pfn, 0, 'M');
	search(&run, 8, 0);
	check_text(toy_list(&run.toy, 0, 'M'), "8 10 12 14 16 18 20 22 0 2 4 6");
	check(run.taken == 0 && compactor_of(&run.c, PID)->fail == 1);
	end(&run);
}

TEST(an_unexplained_search_took_the_pages_that_left_their_list)
{
	struct run run;

	begin(&run, 4, "MMMMMMMM", 4);
	toy_add_free(&run.toy, 40, 2, 'M'); /* before the range */
	toy_add_free(&run.toy, 56, 2, 'M');
	toy_add_free(&run.toy, 96, 2, 'M');
	search(&run, 100, 4);
	check(run.followed == 0 && run.lost == 1 && run.taken == 4);
	check_text(toy_list(&run.toy, 2, 'M'), "96 40");
	end(&run);
}

static void scan(struct run *run, uint64_t end, int64_t scanned, int64_t taken)
{
	follow(run, &(struct recorded_compaction_row){
			    .kind = COMPACTION_KIND_ISOLATE_FREEPAGES,
			    .start_pfn = 64,
			    .end_pfn = end,
			    .nr_scanned = scanned,
			    .nr_taken = taken,
		    });
}

TEST(a_hasty_scan_takes_only_what_its_strides_meet)
{
	struct run run;

	begin(&run, 6, "MM", 4);
	toy_add_free(&run.toy, 70, 0, 'M');
	toy_add_free(&run.toy, 96, 0, 'M');
	scan(&run, 128, 2, 1);
	check_text(toy_list(&run.toy, 0, 'M'), "70");
	check(run.taken == 1 && run.followed == 1);
	end(&run);
}

TEST(a_thorough_scan_takes_every_free_page_of_its_range)
{
	struct run run;

	begin(&run, 6, "MM", 4);
	toy_add_free(&run.toy, 70, 0, 'M');
	toy_add_free(&run.toy, 96, 1, 'M');
	toy_add_free(&run.toy, 100, 0, 'M');
	scan(&run, 98, 34, 3);
	check_text(toy_list(&run.toy, 0, 'M'), "100");
	check(run.taken == 3 && run.followed == 1);
	end(&run);
}

TEST(blocks_that_a_search_for_sources_looked_at_go_to_the_tail)
{
	struct run run;

	begin(&run, 4, "MMMMMMMM", 5);
	toy_add_free(&run.toy, 72, 3, 'M');
	toy_add_free(&run.toy, 16, 3, 'M');
	toy_add_free(&run.toy, 40, 3, 'M');
	recorded_compaction_find_source(
		run.toy.m, compactor_of(&run.c, PID), 16,
		&(struct recorded_compaction_sink){&run, isolated, cut, left, followed});
	check_text(toy_list(&run.toy, 3, 'M'), "40 72 16");
	check(run.cuts == 1);
	end(&run);
}

TEST(a_freed_block_of_the_wanted_order_is_captured)
{
	struct run run;
	struct compactor *task;

	begin(&run, 4, "MMMMMMMM", 2);
	task = compactor_of(&run.c, PID);
	run.toy.capture = &task->capture;
	toy_add_free(&run.toy, 64, 1, 'M');
	toy_free_one(&run.toy, 66, 1, 'M');
	check(task->capture.frame == 64);
	check_text(toy_list(&run.toy, 2, 'M'), "");
	/* A second block is not captured. */
	toy_free_one(&run.toy, 32, 2, 'M');
	check_text(toy_list(&run.toy, 2, 'M'), "32");
	end(&run);
}

/* `pages` were isolated, and begin to move. */
static void move_sources(struct run *run, int64_t pages)
{
	follow(run, &(struct recorded_compaction_row){.kind = COMPACTION_KIND_ISOLATE_MIGRATEPAGES,
						      .nr_taken = pages});
	follow(run, &(struct recorded_compaction_row){.kind = COMPACTION_KIND_MIGRATE_PAGES_START});
}

TEST(a_search_without_an_event_comes_before_the_first_page_moves)
{
	for (int traced = 0; traced < 2; traced++) {
		struct run run;

		begin(&run, 4, "MMMMMMMM", 4);
		run.c.searches_traced = traced;
		toy_add_free(&run.toy, 40, 2, 'M');
		toy_add_free(&run.toy, 56, 2, 'M');
		toy_add_free(&run.toy, 4, 2, 'M');
		/* 56 is the better one in the upper half; the list shows that it was taken. */
		move_sources(&run, 4);
		check_text(toy_list(&run.toy, 2, 'M'), traced ? "40 56 4" : "4 40");
		check(run.taken == (traced ? 0 : 4));
		end(&run);
	}
}

TEST(a_scan_around_the_found_chunk_shows_a_search_without_an_event)
{
	struct run run;
	struct compactor *task;

	begin(&run, 4, "MMMMMMMM", 4);
	task = compactor_of(&run.c, PID);
	task->sync = true;
	toy_add_free(&run.toy, 56, 2, 'M');
	toy_add_free(&run.toy, 52, 1, 'M');
	move_sources(&run, 6);
	/* The tape's next row was not a scan: the search waits. */
	check(run.taken == 0);
	task->linear = false;
	follow(&run, &(struct recorded_compaction_row){.kind = COMPACTION_KIND_ISOLATE_FREEPAGES,
						       .start_pfn = 48,
						       .end_pfn = 64,
						       .nr_scanned = 16,
						       .nr_taken = 2});
	check(run.taken == 6 && task->supply == 6 && !task->linear);
	check(task->free_pfn == PAGES - 16);
	follow(&run, &(struct recorded_compaction_row){.kind = COMPACTION_KIND_MIGRATE_PAGES});
	check(task->supply == 0 && task->sources == 0);
	end(&run);
}

TEST(a_search_without_an_event_comes_when_the_free_pages_are_used_up)
{
	struct run run;
	const struct recorded_compaction_sink own = {&run, isolated, cut, left, followed};

	begin(&run, 4, "MMMMMMMM", 4);
	toy_add_free(&run.toy, 72, 2, 'M');
	toy_add_free(&run.toy, 56, 2, 'M');
	/* Six pages of 0 to 5 move; 72 has room for four of them. */
	follow(&run, &(struct recorded_compaction_row){
			     .kind = COMPACTION_KIND_ISOLATE_MIGRATEPAGES,
			     .end_pfn = 6,
			     .nr_taken = 6,
		     });
	compactor_of(&run.c, PID)->direct = true;
	follow(&run,
	       &(struct recorded_compaction_row){.kind = COMPACTION_KIND_MIGRATE_PAGES_START});
	check(run.taken == 4);
	for (uint32_t source = 0; source < 3; source++)
		recorded_compaction_freed(&run.c, run.toy.m, PID, source, 0, &own);
	/* Of another task, or no source. */
	recorded_compaction_freed(&run.c, run.toy.m, PID + 1, 3, 0, &own);
	recorded_compaction_freed(&run.c, run.toy.m, PID, 6, 0, &own);
	check(run.taken == 4);
	recorded_compaction_freed(&run.c, run.toy.m, PID, 3, 0, &own);
	check(run.taken == 8);
	end(&run);
}

/* With defrag_mode an UNMOVABLE request of any order compacts a whole pageblock (7.2). */
TEST(the_order_of_a_promoted_request_is_open)
{
	static const struct {
		const char *kernel;
		int order, expected;
		uint32_t gfp_flags;
	} cases[] = {
		{"7.1", 4, 4, 0},
		{"7.2", 4, CAPTURE_ORDER_OPEN, 0},
		{"7.3", 4, CAPTURE_ORDER_OPEN, 0},
		{"7.2", 5, 5, 0},
		{"7.2", 4, 4, GFP_MOVABLE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run run;

		begin_on(&run, cases[i].kernel, cases[i].gfp_flags, 4, "MMMMMMMM", cases[i].order);
		run.toy.capture = &compactor_of(&run.c, PID)->capture;
		check(run.toy.capture->order == cases[i].expected);
		toy_free_one(&run.toy, 64, 4, 'M');
		check((run.toy.capture->frame == 64) == (cases[i].expected == 4));
		end(&run);
	}
}

/* compact_memory, after a direct compaction of the same task: no request gets its pages. */
TEST(a_run_of_whole_zones_is_for_no_request)
{
	struct run run;
	const struct compactor *task;

	begin(&run, 4, "MMMMMMMM", 4);
	task = compactor_of(&run.c, PID);
	check(task->direct && task->capture.order == 4);
	follow(&run,
	       &(struct recorded_compaction_row){.kind = COMPACTION_KIND_FINISHED, .order = 4});
	check(task->direct && task->capture.order == 4);
	follow(&run, &(struct recorded_compaction_row){.kind = COMPACTION_KIND_END});
	follow(&run, &(struct recorded_compaction_row){
			     .kind = COMPACTION_KIND_BEGIN,
			     .end_pfn = PAGES,
			     .free_pfn = PAGES - 16,
			     .sync = true,
		     });
	follow(&run, &(struct recorded_compaction_row){
			     .kind = COMPACTION_KIND_FINISHED,
			     .order = -1,
			     .status = 4,
		     });
	check(task->running && !task->direct && task->ignores_skips && task->order < 0);
	run.toy.capture = &compactor_of(&run.c, PID)->capture;
	toy_free_one(&run.toy, 64, 4, 'M');
	check(run.toy.capture->frame == NO_FRAME);
	end(&run);
}

/* The tape has no begin of a run of kcompactd, but a check of it has the zone and the order. */
TEST(a_run_that_began_before_the_tape_is_followed_from_its_next_check_on)
{
	static const struct {
		int16_t zone, status;
		bool runs;
	} cases[] = {{ZONE_DMA, 3, true},
		     {ZONE_DMA, 4, true},
		     {ZONE_DMA, 6, false},
		     {ZONE_NORMAL, 4, false},
		     {-1, 4, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run run;

		new_run(&run, "6.18", 4, "MMMMMMMM");
		toy_add_free(&run.toy, 8, 2, 'M');
		toy_add_free(&run.toy, 96, 2, 'M');
		toy_add_free(&run.toy, 20, 2, 'M');
		search(&run, 2 + 3, 4);
		check(!run.taken && !run.cuts);
		follow(&run, &(struct recorded_compaction_row){
				     .kind = COMPACTION_KIND_FINISHED,
				     .zone = cases[i].zone,
				     .order = 4,
				     .status = cases[i].status,
			     });
		check(compactor_of(&run.c, PID)->running == cases[i].runs);
		check_text(toy_list(&run.toy, 2, 'M'), "8 96 20");
		follow(&run, &(struct recorded_compaction_row){
				     .kind = COMPACTION_KIND_ISOLATE_MIGRATEPAGES,
				     .end_pfn = 16,
				     .nr_taken = 8,
			     });
		search(&run, 2 + 3, 4);
		check_text(toy_list(&run.toy, 2, 'M'), cases[i].runs ? "20 8" : "8 96 20");
		end(&run);
	}
}
