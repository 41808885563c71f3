/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.h - the requests of a tape, waiting for their turn.
 *
 * Rows of `event` go in. Allocs, frees and free_batched come out in the same order, once everything
 * that may change their meaning was seen. The kernel reports a free when it begins and, for a page
 * of a batch, again as free_batched when it takes effect; so a free waits for WINDOW requests. Rows
 * that cannot be requests become anomalies. Other kinds of events are ignored.
 *
 * Requests come out in chunks, so that the memory for a whole chunk can be fetched before it is
 * needed. The result does not depend on how the rows were cut into batches.
 */
#pragma once

#include "anomalies.h"
#include "model/model.h"

enum {
	REQUESTS_CHUNK = 64,
	REQUESTS_WINDOW = 128 * REQUESTS_CHUNK,
};

/* 32 bytes: what the loop over millions of requests reads and writes. */
struct waiting {
	struct moment moment;
	uint32_t frame; /* of the recorded pfn; NO_FRAME if there is none */
	union {
		uint32_t gfp_flags; /* alloc */
		uint32_t older;     /* free: the one before it in its list */
	};
	uint32_t at;  /* row of `event`, low half; requests are less than 2^32 rows apart */
	uint8_t kind; /* EVENT_KIND_ALLOC, _FREE or _FREE_BATCHED */
	uint8_t order, migratetype;
	bool batched; /* free: takes effect later; free_batched: has its free */
};
_Static_assert(sizeof(struct waiting) == 32, "two to a cache line");

struct requests {
	const struct model *model;
	const struct zone *zone; /* of the last pfn: most likely of the next */
	struct anomalies anomalies;
	struct waiting *ring; /* the last REQUESTS_WINDOW and the chunk that is due */
	uint32_t *latest;     /* [hash of a frame] free, by its number; it heads a list */
	uint64_t arrived, done;
	uint64_t last_ts;
	uint64_t failures; /* of those that arrived: allocs that failed in the record */
};

/* Requests for `model`. -ENOMEM. */
int requests_init(struct requests *q, const struct model *model, struct anomalies anomalies,
		  struct error *err);
void requests_free(struct requests *q);

/*
 * Take rows `first` to `end` - 1, of which row 0 is row `at` of the table, until a chunk
 * may be due. Returns the row to go on with.
 */
size_t requests_read(struct requests *q, const struct event_columns *columns, uint64_t at,
		     size_t first, size_t end);

/*
 * The next requests whose turn it is, or, with `flush`, that still wait; returns how
 * many. They stay until rows are read again; `next` are the REQUESTS_CHUNK that come then,
 * as far as they are known.
 */
size_t requests_due(struct requests *q, bool flush, struct waiting **due, struct waiting **next);
