// SPDX-License-Identifier: Apache-2.0
/* Compaction by an allocation. */
#include "check.h"
#include "reclaim_machine.h"

#include "model/reclaim_ops.h"
#include "model/zonelist.h"

static const uint32_t may_compact = GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM | GFP_IO;

static uint32_t ask(struct reclaim_machine *w, int order, int migratetype, uint32_t gfp_flags)
{
	struct request rq = {
		.gfp_flags = gfp_flags,
		.order = (uint8_t)order,
		.migratetype = (uint8_t)migratetype,
		.class_zone = ZONE_NORMAL,
	};

	return zone_alloc(w->toy.m, &rq);
}

TEST(a_costly_request_compacts_and_is_served)
{
	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 1);
	record_scan(&w, (struct scan_row){
				.ns = 3 * MS, .freed = BLOCK, .compacts = true, .direct = true});
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, may_compact) != NO_FRAME);
	check(counters(&w, DMA)->direct_compactions == 1);
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2);
	check(counters(&w, DMA)->modelled_stall_us == 3000);
}

TEST(requests_that_may_not_wait_or_do_io_do_not_compact)
{
	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 1);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, GFP_KSWAPD_RECLAIM | GFP_IO) == NO_FRAME);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, GFP_DIRECT_RECLAIM) == NO_FRAME);
	check(counters(&w, DMA)->direct_compactions == 0);
}

TEST(failed_compaction_is_deferred_for_requests_too)
{
	const uint32_t once = may_compact | GFP_NORETRY | GFP_THISNODE;

	/* Enough free pages, but no page that can move. */
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, 4000, true);
	reclaim_machine_start(&w);
	w.serve.at = 50;
	defer(&w.run.compaction.zones[NORMAL].deferral, 9);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, once) == NO_FRAME);
	check(counters(&w, DMA)->direct_compactions_deferred == 1);
	check(counters(&w, DMA)->direct_compactions == 0);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, once) == NO_FRAME);
	check(counters(&w, DMA)->direct_compactions == 1);
	/* A failed asynchronous run does not defer later ones. */
	check(w.run.compaction.zones[NORMAL].deferral.shift == 1);
}

/* The recorded run moved a page, in vain: an asynchronous one moves no more. */
TEST(a_run_for_a_request_has_no_budget_unless_it_failed_on_the_record)
{
	const struct request rq = {
		.gfp_flags = may_compact,
		.order = 9,
		.migratetype = MIGRATETYPE_MOVABLE,
		.class_zone = ZONE_NORMAL,
	};

	for (int priority = COMPACT_PRIO_SYNC_LIGHT; priority <= COMPACT_PRIO_ASYNC; priority++) {
		const struct scan_row row = {.freed = 1,
					     .compacts = true,
					     .direct = true,
					     .spent = true,
					     .class_zone = ZONE_NORMAL};
		const struct reclaim_ops *ops;
		bool sync = priority < COMPACT_PRIO_ASYNC;

		RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 1);
		record_scan(&w, row);
		ops = w.toy.m->reclaim_ops;
		check(ops->compact(ops->self, zonelist_of(w.toy.m, &rq), &rq, 9, priority) ==
		      (sync ? COMPACT_SUCCESS : COMPACT_COMPLETE));
		check(counters(&w, DMA)->compacted_pages == (sync ? BLOCK / 2 : 1));
	}
}
