/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_facts.h - facts about the record that the model needs, and that are no state of the
 * allocator.
 *
 * The run owns them, and they outlive its model. Bit n is node n of the tape; nodes from 64 on
 * share the bits (tape_node() & 63).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct record_facts {
	/* of the machine at the start of the tape */
	uint64_t hopeless_nodes;   /* their kswapd has given up; only for nodes below 64 */
	bool defrag_mode;          /* vm.defrag_mode */
	uint8_t zone_reclaim_mode; /* vm.zone_reclaim_mode */

	/* of the tape */
	const uint64_t *landed; /* bit per pid: its requests ask first the node that served them;
				   NULL: none */
	bool drains_inferred;   /* drain_all is played from inferred rows (inferred.h) */
	bool boost_acts;        /* boosts raise watermarks; else they are only counted */
	/*
	 * Event set zone: PCP lists are the boundary of the tape. Their pages are used pages of the
	 * model, which refills take and drains give back; its own lists are empty.
	 */
	bool zone_events;
	bool fallback_first; /* the event of a fallback comes before that of its page */

	/* at the running event */
	uint64_t dirty_nodes;   /* see dirty_node() */
	uint64_t woken_nodes;   /* kswapd was woken, its pass is to begin */
	uint64_t boosted_nodes; /* a boost of the model's own woke kswapd */
};
