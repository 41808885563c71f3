// SPDX-License-Identifier: Apache-2.0
/* The recorded pages that the model's reclaim may take, each once and not too early. */
#include "check.h"

#include "model/memory.h"
#include "reclaim_machine.h"

#include "model/vmstat_diff.h"
#include "model/zonelist.h"

#include <stdlib.h>

TEST(unneeded_pages_are_saved_and_frees_of_queued_pages_are_withheld)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 1000, true);
	queue_pages(&w, 10, 5000 * MS);
	reclaim_machine_start(&w);
	check(!reclaim_supply_withholds(&w.run.supply, 99));
	for (uint64_t at = 100; at < 110; at++)
		check(reclaim_supply_withholds(&w.run.supply, at));
	w.serve.at = 120;
	w.toy.m->now.ts = 6000 * MS;
	check(reclaim_supply_take(&w.run.supply, 0, ZONE_NORMAL, 4) == 4);
	reclaim_supply_finish(&w.run.supply);
	check(counters(&w, NORMAL)->reclaim_saved_pages == 6);
	check(counters(&w, NORMAL)->early_reclaim_pages == 0);
}

TEST(a_queued_page_that_moves_is_found_behind_one_that_is_gone)
{
	uint32_t place;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	queue_pages(&w, 2, 5000 * MS);
	reclaim_machine_start(&w);
	w.run.supply.rows[0].taken = true;
	check(reclaim_supply_withholds(&w.run.supply, 100));
	check(reclaim_supply_withholds(&w.run.supply, 101));
	place = w.run.supply.rows[1].frame;
	reclaim_supply_moved(&w.run.supply, place, place - 1);
	check(w.run.supply.rows[1].frame == place - 1);
}

/* Compaction moves a page, and then from its new place, which the model does not know, again. */
TEST(a_page_that_moves_on_is_freed_once)
{
	frame_nr target;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	queue_pages(&w, 2, 5000 * MS);
	target = normal_zone(&w)->start;
	w.run.supply.rows[1].frame = target;
	w.run.supply.rows[0].moved = w.run.supply.rows[1].moved = true;
	reclaim_machine_start(&w);
	w.serve.pages.map[target] = MAP_FREED;
	check(reclaim_supply_withholds(&w.run.supply, 100));
	check(reclaim_supply_withholds(&w.run.supply, 101));
	check(reclaim_supply_frees_moved(&w.run.supply, target));
	check(!reclaim_supply_frees_moved(&w.run.supply, target));
}

TEST(a_page_is_not_reclaimed_before_it_is_allocated)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	queue_pages(&w, 2, 5000 * MS);
	w.run.supply.rows[0].since = 80;
	reclaim_machine_start(&w);
	w.serve.at = 50;
	check(reclaim_supply_take(&w.run.supply, 0, ZONE_NORMAL, 2) == 1);
	check(counters(&w, NORMAL)->reclaim_deficit_pages == 1);
	w.serve.at = 81;
	check(reclaim_supply_take(&w.run.supply, 0, ZONE_NORMAL, 1) == 1);
}

TEST(reclaim_takes_no_block_that_the_model_has_in_pieces)
{
	uint32_t frame, place;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	queue_pages(&w, 2, 5000 * MS);
	frame = pfn_frame(w.toy.m, NORMAL_PFN + 512);
	place = frame + 1024;
	/* Four recorded pages side by side, from single pages of the model; and not aligned. */
	for (uint32_t i = 0; i < 4; i++)
		page_map_set(&w.serve.pages, frame + i, 0, place + i + 1, true);
	zone_forget_old(w.toy.m, frame + 8, 3);
	page_map_set(&w.serve.pages, frame + 16, 1, frame + 9 + 1, true);
	w.run.supply.rows[0].frame = frame;
	w.run.supply.rows[0].order = 2;
	w.run.supply.rows[1].frame = frame + 16;
	w.run.supply.rows[1].order = 1;
	for (uint32_t i = 0; i < 4; i++)
		zone_forget_old(w.toy.m, place + i, 0);
	reclaim_machine_start(&w);
	w.serve.at = 50;
	check(!reclaim_supply_take(&w.run.supply, 0, ZONE_NORMAL, 8));
	check_sound(w.toy.m);
}

TEST(shrinkers_free_their_pages_in_a_pass_or_when_called)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	queue_pages(&w, 10, 5000 * MS);
	for (int i = 0; i < 10; i++)
		w.run.supply.rows[i].shrunk = true;
	reclaim_machine_start(&w);
	w.serve.at = 50;
	check(reclaim_supply_withholds(&w.run.supply, 100));
	check(reclaim_supply_take(&w.run.supply, 0, ZONE_NORMAL, 4) == 0);
	reclaim_supply_shrinks(&w.run.supply, 0, true);
	check(counters(&w, NORMAL)->reclaimed_pages == 0);
	check(reclaim_supply_withholds(&w.run.supply, 101));
	check(counters(&w, NORMAL)->reclaimed_pages == 1);
	check(reclaim_supply_shrunk(&w.run.supply, 0) == 1);
	check(reclaim_supply_shrunk(&w.run.supply, 0) == 0);
	reclaim_supply_shrinks(&w.run.supply, 0, false);
	for (uint64_t at = 102; at < 105; at++)
		check(reclaim_supply_withholds(&w.run.supply, at));
	check(counters(&w, NORMAL)->reclaimed_pages == 1);
	check(w.run.supply.waiting[NORMAL] == 9);
	check(reclaim_supply_shrink(&w.run.supply, 0, 3) == 3);
	check(reclaim_supply_shrink(&w.run.supply, 0, 3) == 1);
	check(counters(&w, NORMAL)->reclaimed_pages == 5);
	check(reclaim_supply_withholds(&w.run.supply, 105));
	reclaim_supply_finish(&w.run.supply);
	check(counters(&w, NORMAL)->reclaim_saved_pages == 1);
	check_sound(w.toy.m);
}

/* Pages 1 ms apart from 5 s on, none of them allocated yet: all are in use since row 80. */
TEST(what_direct_reclaim_owes_counts_as_free_until_the_queue_pays)
{
	const struct request rq = {.class_zone = ZONE_NORMAL};
	struct scan_row recorded = {.freed = 40, .direct = true};
	uint64_t listed;

	RECLAIM_MACHINE(w, reclaim_machine_short);
	for (size_t i = 0; i < w.run.supply.nr; i++)
		w.run.supply.rows[i].since = 80;
	w.run.pace.rows = arrays_new(w.toy.m->arrays, 1, sizeof(recorded));
	*w.run.pace.rows = recorded;
	w.run.pace.nr = w.run.pace.room = 1;
	listed = zone_listed_free(normal_zone(&w));
	check(!w.run.ops.direct(&w.run, zonelist_of(w.toy.m, &rq), &rq, 0));
	check(zone_counted_free(normal_zone(&w)) == listed + 40);
	w.serve.at = 81;
	check(reclaim_supply_take(&w.run.supply, 0, ZONE_NORMAL, 2) == 2);
	check(normal_zone(&w)->owed == 0);
	check(counters(&w, NORMAL)->reclaimed_pages == 42);
	check_sound(w.toy.m);
}
