// SPDX-License-Identifier: Apache-2.0
/* vm.defrag_mode: which free pages count for balance. */
#include "check.h"
#include "reclaim_machine.h"

#include "model/watermark.h"

TEST(defrag_mode_counts_whole_pageblocks_only)
{
	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", "defrag_mode");
	make_free(&w, NORMAL, 4000, true);
	check(zone_free_for(w.toy.m, &w.toy.m->zones[NORMAL], 0) == 4000);
	check(zone_free_for(w.toy.m, &w.toy.m->zones[NORMAL], 3) == 0);
	toy_add_free(&w.toy, w.toy.m->zones[NORMAL].start + 20 * BLOCK, 9, 'M');
	check(zone_free_for(w.toy.m, &w.toy.m->zones[NORMAL], 3) == BLOCK);
}
