// SPDX-License-Identifier: Apache-2.0
#include "requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	NR_CHUNKS = REQUESTS_WINDOW / REQUESTS_CHUNK + 1,
	RECENT = 2 * REQUESTS_WINDOW, /* power of two */
	RECENT_PROBES = 8,
};

/* Request `number`, the low 32 bits, may be a free of `frame` that waits. */
struct recent {
	uint32_t frame, number;
};

int requests_init(struct requests *q, const struct model *model, struct anomalies anomalies,
		  struct error *err)
{
	*q = (struct requests){.model = model, .zone = &model->zones[0], .anomalies = anomalies};
	q->ring = calloc((size_t)NR_CHUNKS * REQUESTS_CHUNK, sizeof(*q->ring));
	q->recent = malloc(RECENT * sizeof(*q->recent));
	if (!q->ring || !q->recent) {
		requests_free(q);
		return fail(err, ENOMEM, "no memory for %d waiting requests", REQUESTS_WINDOW);
	}
	for (int i = 0; i < RECENT; i++)
		q->recent[i] = (struct recent){.frame = NO_FRAME};
	return 0;
}

void requests_free(struct requests *q)
{
	free(q->ring);
	free(q->recent);
	*q = (struct requests){0};
}

static struct waiting *request(const struct requests *q, uint64_t number)
{
	return &q->ring[number / REQUESTS_CHUNK % NR_CHUNKS * REQUESTS_CHUNK +
			number % REQUESTS_CHUNK];
}

/* Slot of `recent` where a search for a frame begins. */
static uint32_t recent_slot(uint32_t frame)
{
	return frame * 2654435761u >> 8 & (RECENT - 1);
}

/* Whether that free still waits when request `number` arrives. */
static bool still_waits(const struct recent *recent, uint64_t number)
{
	return (uint32_t)number - recent->number < REQUESTS_WINDOW && recent->frame != NO_FRAME;
}

/* Request `number`, a free, arrives. */
static void remember_free(struct requests *q, uint32_t frame, uint64_t number)
{
	uint32_t slot = recent_slot(frame);

	for (uint32_t i = 0; i < RECENT_PROBES; i++) {
		struct recent *recent = &q->recent[(slot + i) & (RECENT - 1)];

		if (recent->frame != frame && still_waits(recent, number))
			continue;
		*recent = (struct recent){frame, (uint32_t)number};
		return;
	}
}

/* Request `number`, a free_batched, arrives: the latest waiting free of its page, or NULL. */
static struct waiting *find_free(const struct requests *q, uint32_t frame, uint64_t number)
{
	uint32_t slot = recent_slot(frame);

	for (uint32_t i = 0; i < RECENT_PROBES; i++) {
		const struct recent *recent = &q->recent[(slot + i) & (RECENT - 1)];
		struct waiting *e;

		if (recent->frame != frame || !still_waits(recent, number))
			continue;
		e = request(q, number - ((uint32_t)number - recent->number));
		if (e->frame == frame && e->kind == EVENT_KIND_FREE && !e->batched)
			return e;
	}
	return NULL;
}

/* A row that cannot be a request. */
__attribute__((cold)) static void refuse(const struct requests *q, const struct event_columns *c,
					 uint64_t at, size_t i, int kind)
{
	const struct moment moment = {.ts = c->ts[i], .cpu = c->cpu[i]};

	anomalies_add(&q->anomalies,
		      &(struct anomaly){
			      .at = at + i,
			      .moment = &moment,
			      .pfn = is_valid(c->pfn_valid, i) ? (int64_t)c->pfn[i] : NO_PFN,
			      .order = is_valid(c->page_order_valid, i) ? c->page_order[i] : 0,
			      .kind = kind,
			      .action = ANOMALY_ACTION_IGNORED,
		      });
}

/* The frame of the recorded pfn; NO_FRAME, with an anomaly, if there is none. */
static uint32_t find_frame(struct requests *q, uint64_t pfn, int order)
{
	uint32_t frame;

	if (!zone_has(q->zone, pfn)) {
		const struct zone *zone = pfn_zone(q->model, pfn);

		if (!zone)
			return NO_FRAME;
		q->zone = zone;
	}
	frame = q->zone->base + (uint32_t)(pfn - q->zone->base_pfn);
	return q->zone->end - frame < 1u << order ? NO_FRAME : frame;
}

/* Fill in request `number`; false, with an anomaly, if the row cannot be one. */
static bool read_row(struct requests *q, struct waiting *e, uint64_t number,
		     const struct event_columns *c, uint64_t at, size_t i)
{
	const struct model *m = q->model;
	uint64_t pfn = is_valid(c->pfn_valid, i) ? c->pfn[i] : UINT64_MAX, ts = c->ts[i];
	unsigned kind = c->kind[i], cpu = c->cpu[i], order = 0, migratetype = 0;
	uint32_t gfp_flags = 0, frame = NO_FRAME;
	struct waiting *first = NULL;
	bool bad;

	if (kind != EVENT_KIND_FREE_BATCHED && is_valid(c->page_order_valid, i))
		order = c->page_order[i];
	if (kind == EVENT_KIND_ALLOC) {
		gfp_flags = is_valid(c->gfp_flags_valid, i) ? c->gfp_flags[i] : 0;
		migratetype = c->migratetype[i];
		bad = migratetype >= NR_MIGRATETYPE || !is_valid(c->migratetype_valid, i);
	} else {
		bad = kind > EVENT_KIND_FREE_BATCHED || pfn == UINT64_MAX;
	}
	bad |= cpu >= (unsigned)m->nr_cpus || order > (unsigned)m->max_order;
	if (bad || ts >> 62 || ts < q->last_ts) {
		refuse(q, c, at, i, ANOMALY_KIND_BAD_EVENT);
		return false;
	}
	q->last_ts = ts;
	if (pfn != UINT64_MAX) {
		frame = find_frame(q, pfn, (int)order);
		if (frame == NO_FRAME) {
			refuse(q, c, at, i, ANOMALY_KIND_OUTSIDE_ZONES);
			return false;
		}
	}
	q->failures += frame == NO_FRAME;
	if (kind == EVENT_KIND_FREE) {
		remember_free(q, frame, number);
	} else if (kind == EVENT_KIND_FREE_BATCHED) {
		first = find_free(q, frame, number);
		if (first) {
			first->batched = true;
			order = first->order;
		}
	}
	*e = (struct waiting){
		.moment = {ts, c->pid[i], (uint16_t)cpu, c->flags[i]},
		.frame = frame,
		.gfp_flags = gfp_flags,
		.at = (uint32_t)(at + i),
		.kind = (uint8_t)kind,
		.order = (uint8_t)order,
		.migratetype = (uint8_t)migratetype,
		.batched = first != NULL,
	};
	return true;
}

size_t requests_read(struct requests *q, const struct event_columns *columns, uint64_t at,
		     size_t first, size_t end)
{
	const struct event_columns c = *columns;
	uint64_t number = q->arrived, last = number - number % REQUESTS_CHUNK + REQUESTS_CHUNK;
	struct waiting *e = request(q, number);
	size_t i;

	for (i = first; i < end && number < last; i++) {
		if (c.kind[i] > EVENT_KIND_FREE_BATCHED && c.kind[i] < NR_EVENT_KIND)
			continue;
		if (!read_row(q, e, number, &c, at, i))
			continue;
		number++;
		e++;
	}
	q->arrived = number;
	return i;
}

size_t requests_due(struct requests *q, bool flush, struct waiting **due, struct waiting **next)
{
	uint64_t waiting = q->arrived - q->done;
	size_t nr = waiting < REQUESTS_CHUNK ? waiting : REQUESTS_CHUNK;

	if (!flush && waiting < REQUESTS_WINDOW + REQUESTS_CHUNK)
		return 0;
	*due = request(q, q->done);
	*next = request(q, q->done + REQUESTS_CHUNK);
	q->done += nr;
	return nr;
}
