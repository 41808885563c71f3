/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorded_use.h - how the zones stood at the recorded requests (table recorded_use).
 *
 * A replay counts which of its requests found every zone below a watermark, and which zone served
 * them. This counts the same for the requests of the record, from the state that validate follows.
 * The kernel tests the watermarks before it takes pages (get_page_from_freelist, 5.10 to 7.2), but
 * an alloc comes after them in the tape: pages that the CPU took from a zone since its last request
 * count as free.
 *
 * A request that may reclaim is below min if its task began direct reclaim. A tape without such
 * rows shows that by the zones alone. In the kernel a request below min reclaims a cluster of pages
 * at least, which the next requests find; a replay counts so (owed.h). Requests that such a cluster
 * covers do not count here either.
 */
#pragma once

#include "output.h"
#include "model/zone.h"
#include "tape/event_window.h"
#include "tape/reclaim_events.h"

/* Pages that a CPU took under a zone lock since its last request. */
struct taken {
	const struct zone *zone; /* NULL: none */
	uint64_t pages;
	bool mixed; /* one of them was a fallback */
};

struct recorded_use {
	struct taken *taken; /* [cpu] */
	uint64_t allocs, lower_zone, remote_node, below_low, below_min;
	int64_t advance; /* pages that a reclaim of the last one below min would have freed */
};

/* Then arrays_error() of the model's. */
void recorded_use_new(struct recorded_use *use, const struct model *m);

/* See an event before it is played. */
void recorded_use_see(struct recorded_use *use, const struct model *m,
		      struct reclaim_events *reclaim_events, const struct window_event *event);

/* The row of the table at `ts`; none without allocs. */
void recorded_use_write(const struct recorded_use *use, struct output *output, uint64_t ts);
