/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the requests of a tape, served by the model one by one.
 *
 * A map (page_map.h) says where the model put each recorded page. A free or an alloc that
 * contradicts the map is an anomaly.
 */
#pragma once

#include "tape/anomalies.h"
#include "huge.h"
#include "tape/requests.h"
#include "alloc_batch.h"
#include "model/page_map.h"
#include "tape/inferred.h"

enum {
	SERVE_EARLY_MAX = 256,   /* allocs that run early and wait for their event */
	SERVE_CAPTURED_MAX = 64, /* blocks that wait for their alloc */
};

/* Facts about the one request that comes next, from inferred rows and the reclaim table. */
struct request_facts {
	struct free_request free; /* pcp_locked holds for an alloc as well */
	uint32_t landed_frame;    /* recorded page of an alloc that asks the page's node first */
	bool reclaimed;           /* its task comes out of direct reclaim */
};
extern const struct request_facts no_facts;

struct serve {
	struct model *model;
	struct page_map pages;
	struct alloc_batches *alloc_batches; /* NULL: every page is served by itself */
	struct huge *huge;                   /* NULL: huge pages are where the record has them */
	struct anomalies anomalies;
	struct request_facts request;
	bool compacts_for_record;        /* for requests that the record served */
	uint64_t at;                     /* row of `event` that runs */
	uint64_t undone_at;              /* row of a free without an effect */
	uint64_t early[SERVE_EARLY_MAX]; /* rows of allocs that ran before their event */
	int nr_early;
	uint32_t captured[SERVE_CAPTURED_MAX]; /* recorded frames of blocks that were captured */
	int nr_captured;
	uint64_t nr_awaiting_alloc; /* pages taken without an event so far */
};

/* Requests of `model`. -ENOMEM. */
int serve_init(struct serve *s, struct model *model, struct anomalies anomalies, struct error *err);
void serve_free(struct serve *s);

/* Run a request at model->now, its moment. */
void serve_request(struct serve *s, struct waiting *e);

/* Play an inferred row at model->now, which takes over its CPU and thread. */
void serve_inferred(struct serve *s, const struct inferred *u);

/* Whether a used page of the model is freed only with others: it is of a batch or a group. */
bool serve_shares(const struct serve *s, uint32_t page);
