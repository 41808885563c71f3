/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.h - a queue of the requests of a tape.
 *
 * Input: rows of `event`. Output: allocs, frees and free_batched in the same order, after all rows
 * that may change their meaning were read. The kernel reports a free when it begins and, for a page
 * of a batch, again as free_batched when it takes effect. So a free waits for REQUESTS_WINDOW
 * requests. Rows that cannot be requests become anomalies. Other kinds of events are ignored.
 *
 * Requests come out in chunks, so the memory of a whole chunk can be prefetched. The result does
 * not depend on the division of the rows into batches.
 *
 * Of a tape of the event set zone the requests are others: zone_requests.h.
 */
#pragma once

#include "anomalies.h"
#include "model/model.h"

enum {
	REQUESTS_CHUNK = 64,
	REQUESTS_WINDOW = 128 * REQUESTS_CHUNK,
	REQUESTS_CHUNKS = REQUESTS_WINDOW / REQUESTS_CHUNK + 1, /* of the ring */
};

/* 32 bytes, because the loop reads and writes it millions of times. */
struct waiting {
	struct moment moment;
	frame_nr frame; /* frame of the recorded pfn; NO_FRAME if the row has no pfn */
	union {
		uint32_t gfp_flags; /* alloc */
		uint32_t older;     /* free: the previous one in its list */
		uint32_t more;      /* first page of a refill: pages that follow it */
	};
	uint32_t at; /* low 32 bits of the row of `event`; requests are less than 2^32 rows apart */
	uint8_t kind; /* EVENT_KIND_ALLOC, _FREE, _FREE_BATCHED; _ALLOC_ZONE_LOCKED, _PCPU_DRAIN */
	uint8_t order, migratetype;
	bool batched : 1; /* free: takes effect later; free_batched: has its free */
	bool follows : 1; /* page of a refill or drain: not its first */
	/* free, if the row coalesces frees: the next request of the CPU is the task's free of the
	 * next page */
	bool joins : 1;
};
_Static_assert(sizeof(struct waiting) == 32, "two to a cache line");

struct requests {
	const struct model *model;
	const struct zone *zone; /* zone of the last pfn, most likely of the next as well */
	struct anomalies anomalies;
	struct waiting *ring; /* the last REQUESTS_WINDOW, and the due chunk */
	uint32_t *latest;     /* [hash of a frame] number of the free that heads the list */
	struct zone_requests *zone_requests; /* of the event set zone; else NULL */
	uint32_t *on_cpu; /* [cpu] number of its latest request, + 1; NULL: nothing joins */
	uint64_t arrived, done;
	uint64_t last_ts;
	uint64_t failures; /* arrived allocs that failed in the record */
};

/* Request `number`, one of those in the ring. */
static inline struct waiting *requests_at(const struct requests *q, uint64_t number)
{
	return &q->ring[number / REQUESTS_CHUNK % REQUESTS_CHUNKS * REQUESTS_CHUNK +
			number % REQUESTS_CHUNK];
}

/* A queue of requests for `model`. -ENOMEM. */
int requests_init(struct requests *q, const struct model *model, struct anomalies anomalies,
		  struct error *err);

/*
 * Take rows `first` to `end` - 1 of a batch, until a chunk may be due. Row 0 of the batch is row
 * `at` of the table. Returns the next row to take.
 */
size_t requests_read(struct requests *q, const struct event_columns *columns, uint64_t at,
		     size_t first, size_t end);

/*
 * The next due requests or, with `flush`, the ones still waiting; returns their number. They stay
 * valid until rows are read again. `next` has the REQUESTS_CHUNK requests after them, as far as
 * known.
 */
size_t requests_due(struct requests *q, bool flush, struct waiting **due, struct waiting **next);
