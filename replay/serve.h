/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the requests of a tape, served by the model one by one.
 *
 * The recorded pfn of an allocation is the key by which its free finds it: the map says
 * where the model put the page. What frees and allocs find that cannot be is an anomaly.
 */
#pragma once

#include "anomalies.h"
#include "huge.h"
#include "requests.h"
#include "unit.h"
#include "untold.h"

/*
 * map[frame] for the recorded pfn of that frame: where the model put it, as frame + 1,
 * or one of these.
 */
enum {
	MAP_UNSEEN = 0, /* no event yet */
	MAP_UNSERVED = UINT32_MAX - 1,
	MAP_FREED = UINT32_MAX,
};

enum {
	SERVE_EARLY_MAX = 256,   /* allocs that run early and wait for their event */
	SERVE_CAPTURED_MAX = 64, /* blocks that wait for their alloc */
};

struct serve {
	struct model *model;
	uint32_t *map;
	uint32_t *names;     /* [frame of a pageblock] for find_names() */
	uint32_t *owners;    /* [frame] the map the other way, once find_names() needed it */
	uint32_t *room;      /* for owners; NULL: pages of this run do not move */
	struct units *units; /* NULL: every page is served by itself */
	struct huge *huge;   /* NULL: huge pages are where the record has them */
	struct anomalies anomalies;
	bool makes_blocks;               /* for requests that the record served */
	uint64_t at;                     /* row of `event` that runs */
	uint64_t undone_at;              /* row of a free that gave nothing back */
	uint64_t early[SERVE_EARLY_MAX]; /* rows of allocs that have run before they were told */
	int nr_early;
	uint32_t captured[SERVE_CAPTURED_MAX]; /* recorded frames of blocks that were captured */
	int nr_captured;
	uint64_t nr_unheard; /* pages taken without an event so far */
};

/* Requests of `model`. -ENOMEM. */
int serve_init(struct serve *s, struct model *model, struct anomalies anomalies, struct error *err);
void serve_free(struct serve *s);

/* Before the first request: pages may move, so what is on them has to be found. -ENOMEM. */
int serve_moves_pages(struct serve *s, struct error *err);

/* Run a request at model->now, its moment. */
void serve_request(struct serve *s, struct waiting *e);

/* Run what no event told, at model->now, which takes over its CPU and thread. */
void serve_untold(struct serve *s, const struct untold *u);

/* Whether a used page of the model is freed only with others: it is of a unit or a group. */
bool serve_shares(const struct serve *s, uint32_t page);

/* Where the model has a recorded page, as its frame, or NO_FRAME. */
static inline uint32_t serve_place(const struct serve *s, uint32_t frame)
{
	uint32_t place = s->map[frame];

	return place != MAP_UNSEEN && place < MAP_UNSERVED ? place - 1 : NO_FRAME;
}
