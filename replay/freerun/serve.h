/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - serves the requests of a tape from the model, one by one.
 *
 * A map (page_map.h) has the model's place of each recorded page. A free or an alloc that
 * contradicts the map is an anomaly.
 */
#pragma once

#include "tape/anomalies.h"
#include "tape/huge_requests.h"
#include "huge.h"
#include "tape/requests.h"
#include "alloc_batch.h"
#include "model/page_map.h"
#include "model/strays.h"
#include "tape/inferred.h"

enum {
	SERVE_EARLY_MAX = 256,   /* allocs that run early and wait for their event */
	SERVE_CAPTURED_MAX = 64, /* blocks that wait for their alloc */
};

/* Facts about the next request, from inferred rows and the reclaim table. */
struct request_facts {
	struct free_request free; /* facts of a free; pcp_locked is also used for an alloc */
	uint32_t landed_frame;    /* page of the next alloc, which asks the page's node first */
	bool reclaimed;           /* its task comes out of direct reclaim */
	uint32_t refill;          /* entries of its recorded refill; 0: the PCP decides */
};
extern const struct request_facts no_facts;

/* Recorded pages that are freed together, after the mm_page_free of the last one. */
struct contig_run {
	uint32_t first, pages; /* frames */
};

enum {
	SERVE_MIGRATIONS = 16, /* tasks of compaction at the same time; others are not followed */
	MIGRATION_TARGETS = 1024, /* free pages that one has taken */
};

/* A task of recorded compaction, and the free pages that it took for the pages that it moves. */
struct migration {
	int32_t pid;
	uint16_t zone;
	uint32_t block;    /* pageblock of the page that moved last, or NO_FRAME */
	uint32_t nr, used; /* targets; those that pages have moved to. nr 0: no task */
	uint32_t targets[MIGRATION_TARGETS]; /* recorded frames, in the order of their use */
};

/* A refill whose pages leave the model one by one. */
struct refill_rest {
	list_nr list;  /* of the PCP that holds the rest of its pages */
	uint32_t left; /* recorded pages to come */
};

struct rewrites;

struct serve {
	struct model *model;
	struct page_map pages;
	struct strays strays;                /* without lists if the run does not need it */
	struct alloc_batches *alloc_batches; /* NULL: every page is served by itself */
	struct huge *huge;                   /* NULL: huge pages are the recorded ones */
	struct huge_requests huge_requests;
	struct anomalies anomalies;
	struct request_facts request;
	bool compacts_for_record; /* when the record served a request that the model cannot */
	uint64_t at;              /* current row of `event` */
	uint64_t undone_at;       /* row of a free without an effect */
	uint64_t early[SERVE_EARLY_MAX]; /* rows of allocs that ran before their event */
	int nr_early;
	uint32_t captured[SERVE_CAPTURED_MAX]; /* recorded frames of blocks that were captured */
	int nr_captured;
	uint64_t nr_awaiting_alloc; /* pages taken without an event so far */
	struct migration migrations[SERVE_MIGRATIONS];
	int nr_migrations;
	struct refill_rest *refills;     /* [cpu] of a tape of the event set zone; else NULL */
	const struct rewrites *rewrites; /* NULL: the requests are the recorded ones */
	struct contig_run *runs;         /* [cpu] NULL: the row frees each page by itself */
};

/* Prepare to serve requests from `model`. -ENOMEM. */
int serve_init(struct serve *s, struct model *model, struct anomalies anomalies, struct error *err);

/* Run a request. model->now is its time. */
void serve_request(struct serve *s, struct waiting *e);

/* Play an inferred row; model->now takes over its CPU and thread. */
void serve_inferred(struct serve *s, const struct inferred *u);

/* Whether a used page of the model is part of a batch or group, which is freed as a whole. */
bool serve_is_freed_with_others(const struct serve *s, frame_nr page);
