/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounds.h - how far validate looks for what explains an event, and why no farther.
 *
 * A bound keeps the work of one event small on any tape: a hostile one, or one that the model has
 * left. The largest searches also share the budget of may_search() (whereabouts.h). A search that
 * ends at its bound finds nothing, and the decision counts as missed.
 */
#pragma once

enum {
	/* Events of one CPU, from the event that is explained. */
	ALLOC_WITHIN = 128,      /* from a refill to its alloc: the zone's lock is held between */
	WORKER_WITHIN = 256,     /* from the start of the vmstat worker to its drain */
	LATE_WITHIN = 512,       /* to the late alloc of a page: interrupts may run between */
	RESUME_WITHIN = 4096,    /* to the next event of a preempted task: some time slices */
	INTERRUPT_WITHIN = 8192, /* of one interrupt: a softirq frees the pages of a packet queue */

	/* Events of all CPUs, in time order. */
	REMOTE_WITHIN = 256, /* to a drain by another CPU that begins while a free waits: 2 us */
	SOON = 256,          /* a drain of another list that is still the same drain */
	STAMP_WITHIN = 1024, /* to the stamp of the drain after one that did not come */
	PIECE_WITHIN = 4096, /* to the next piece of a drain: time slices of some CPUs */
	MOVES_WITHIN = 4096, /* to the next event of a task that moved to another CPU */

	/* Entries of a list. */
	FIRST_ENTRIES = 16, /* that an alloc or a fallback may have passed over: few leave unseen */
	PHANTOMS = 64,      /* that a drain or an empty list shows to be gone */
	DEPTH_MAX = 65536,  /* of a PCP list: more than `high` allows */

	/* Pages. */
	BURST_MAX = 8192, /* under one hold of the zone's lock: more than any batch */
	RUN_MAX = 8192,   /* contiguous ones that are freed together: 7.2 frees up to a folio */

	/* Searches of lists by all events together: may_search(). */
	SEARCH_PER_EVENT = 1 << 10, /* entries that an event adds to what searches may look at */
	SEARCH_MOST = 1 << 26,      /* the same, saved by earlier events */
};

/* Times, in ns. */
#define ATTEMPT_NS 2000ull    /* from a free's event to its try for the PCP's lock */
#define LOCK_NS    200000ull  /* from a zone's lock to the release of the PCP's lock */
#define PAUSE_NS   1000000ull /* a longer pause separates two drains of more than their `most` */
