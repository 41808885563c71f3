// SPDX-License-Identifier: Apache-2.0
/* The model's kcompactd: proactive compaction, and runs after a wakeup. */
#include "check.h"

#include "model/memory.h"
#include "reclaim_machine.h"

#include "model/fragmentation.h"

#include <stdlib.h>

TEST(kcompactd_lowers_a_score_that_is_too_high_if_kswapd_is_off_the_cpu)
{
	RECLAIM_MACHINE(w, reclaim_machine_fragmented, "mainline:proactiveness=90", 8);
	record_scan(&w, (struct scan_row){.freed = 4 * BLOCK / 2, .compacts = true});
	/* Zone DMA has no free page, so its score is 0. */
	check(fragmentation_score_node(w.toy.m, 0) == 79);
	w.run.kswapds[0].state = KSWAPD_BALANCING;
	reclaim_run_until(&w.run, 50, 1 * MS);
	check(counters(&w, DMA)->proactive_compactions == 0);
	w.run.kswapds[0].state = KSWAPD_ASLEEP;
	reclaim_run_until(&w.run, 50, 600 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	check(counters(&w, DMA)->kcompactd_wakes == 0);
	check(normal_zone(&w)->nr_free[10][MIGRATETYPE_MOVABLE] == 2);
	/* The score is lower, but still too high: kcompactd runs again after 500 ms. */
	reclaim_run_until(&w.run, 50, 1100 * MS);
	check(counters(&w, DMA)->proactive_compactions == 2);
	check(normal_zone(&w)->nr_free[10][MIGRATETYPE_MOVABLE] == 4);
	reclaim_run_until(&w.run, 50, 5000 * MS);
	check(counters(&w, DMA)->proactive_compactions == 2);
}

TEST(failed_proactive_compaction_is_deferred_for_32_s)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", "mainline:proactiveness=90");
	make_free(&w, NORMAL, 2000, true);
	reclaim_machine_start(&w);
	reclaim_run_until(&w.run, 50, 1 * MS);
	reclaim_run_until(&w.run, 50, 31000 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	reclaim_run_until(&w.run, 50, 33000 * MS);
	check(counters(&w, DMA)->proactive_compactions == 2);
}

/* The record's kcompactd of the node checks every 500 ms until 3 s, and again from 20 s on. */
TEST(a_pause_ends_with_the_next_recorded_check)
{
	struct recorded_check *rows;
	const struct kcompactd *c;

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", "mainline:proactiveness=90");
	rows = arrays_new(w.toy.m->arrays, 8, sizeof(*rows));
	make_free(&w, NORMAL, 2000, true);
	for (uint64_t i = 0; i < 6; i++)
		rows[i] = (struct recorded_check){(i + 1) * 500 * MS, 0};
	rows[6] = (struct recorded_check){4000 * MS, 1};
	rows[7] = (struct recorded_check){20000 * MS, 0};
	w.run.checks = (struct recorded_checks){rows, 8, 8};
	reclaim_machine_start(&w);
	c = &w.run.kcompactds[0];
	reclaim_run_until(&w.run, 50, 1 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	reclaim_run_until(&w.run, 50, 3100 * MS);
	check(counters(&w, DMA)->proactive_compactions > 2);
	check(c->due == 20000 * MS);
}

/* Up to 5.14 a request without a wakeup does not wait for the end of the 32 s. */
TEST(kcompactd_of_5_10_checks_for_requests_while_it_leaves_out_proactive_runs)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "5.10", "mainline:proactiveness=90");
	make_free(&w, NORMAL, 2000, true);
	reclaim_machine_start(&w);
	reclaim_run_until(&w.run, 50, 1 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	w.run.kcompactds[0].order = 1;
	reclaim_run_until(&w.run, 50, 600 * MS);
	check(counters(&w, DMA)->kcompactd_wakes == 1);
	/* 64 checks with a score above the mark. */
	reclaim_run_until(&w.run, 50, 32400 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	reclaim_run_until(&w.run, 50, 33600 * MS);
	check(counters(&w, DMA)->proactive_compactions == 2);
}

TEST(kcompactd_of_5_10_checks_for_requests_also_without_proactiveness)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "5.10", "mainline:proactiveness=0");
	fragment_normal(&w, 1);
	reclaim_machine_start(&w);
	reclaim_run_until(&w.run, 50, 1 * MS);
	w.run.kcompactds[0].order = 9;
	reclaim_run_until(&w.run, 50, 600 * MS);
	check(counters(&w, DMA)->kcompactd_wakes == 1);
	check(counters(&w, DMA)->proactive_compactions == 0);
}

TEST(without_proactiveness_kcompactd_sleeps_until_it_is_woken)
{
	RECLAIM_MACHINE(w, reclaim_machine_fragmented, "mainline:proactiveness=0", 1);
	reclaim_run_until(&w.run, 50, 40000 * MS);
	check(w.run.kcompactds[0].due == UINT64_MAX);
	reclaim_run_wake_kcompactd(&w.run, 0, (struct kcompactd_wake){9, ZONE_NORMAL});
	reclaim_run_until(&w.run, 50, 41000 * MS);
	check(counters(&w, DMA)->kcompactd_wakes == 1);
	check(normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 1);
}

TEST(kcompactd_first_runs_when_it_did_on_the_record)
{
	struct first_step look = {.ts = 700 * MS};

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", "mainline:proactiveness=90");
	fragment_normal(&w, 8);
	w.run.first_checks = (struct first_steps){&look, 1, 1};
	w.run.compaction_recorded = true;
	reclaim_machine_start(&w);
	reclaim_run_until(&w.run, 50, 699 * MS);
	check(counters(&w, DMA)->proactive_compactions == 0);
	reclaim_run_until(&w.run, 50, 701 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
}

/* The record has compaction events, and none of kcompactd: it paused before the record began. */
TEST(kcompactd_without_a_recorded_check_pauses)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", "mainline:proactiveness=90");
	fragment_normal(&w, 8);
	w.run.compaction_recorded = true;
	reclaim_machine_start(&w);
	reclaim_run_until(&w.run, 50, 1 * MS);
	reclaim_run_until(&w.run, 50, 31000 * MS);
	check(counters(&w, DMA)->proactive_compactions == 0);
	reclaim_run_until(&w.run, 50, 33000 * MS);
	check(counters(&w, DMA)->proactive_compactions > 0);
}

/* drain_all_pages(zone): a page of zone DMA stays on its PCP list. */
TEST(a_failed_run_drains_the_lists_of_its_zone_alone)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", "mainline:proactiveness=0");
	make_free(&w, NORMAL, 4000, true);
	reclaim_machine_start(&w);
	for (int i = 0; i < 2; i++) {
		struct zone *zone = &w.toy.m->zones[i];
		struct pcp *pcp = &w.toy.m->pcps[i];

		pcp->batch = 4;
		pcp->high = pcp->high_min = pcp->high_max = 8;
		zone_free(w.toy.m, zone->start + 1, 0);
	}
	check(w.toy.m->pcps[DMA].count == 1 && w.toy.m->pcps[NORMAL].count == 1);
	reclaim_run_wake_kcompactd(&w.run, 0, (struct kcompactd_wake){9, ZONE_NORMAL});
	reclaim_run_until(&w.run, 50, 100 * MS);
	check(counters(&w, DMA)->kcompactd_wakes == 1);
	check(w.toy.m->pcps[DMA].count == 1 && w.toy.m->pcps[NORMAL].count == 0);
}
