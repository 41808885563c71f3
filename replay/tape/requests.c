// SPDX-License-Identifier: Apache-2.0
#include "requests.h"

#include "zone_requests.h"
#include "model/memory.h"

#include <errno.h>
#include <string.h>

enum {
	HASH_BITS = 13, /* lists of waiting frees, one for each that may wait */
};

int requests_init(struct requests *q, const struct model *model, struct anomalies anomalies,
		  struct error *err)
{
	*q = (struct requests){.model = model, .zone = &model->zones[0], .anomalies = anomalies};
	q->ring = arrays_new(model->arrays, (size_t)REQUESTS_CHUNKS * REQUESTS_CHUNK,
			     sizeof(*q->ring));
	q->latest = arrays_new(model->arrays, 1u << HASH_BITS, sizeof(*q->latest));
	if (model->kernel->coalesced_frees)
		q->on_cpu = arrays_new(model->arrays, (size_t)model->nr_cpus, sizeof(*q->on_cpu));
	if (model->record->zone_events)
		q->zone_requests = zone_requests_new(model);
	if (arrays_error(model->arrays, err))
		return -ENOMEM;
	for (uint32_t i = 0; i < 1u << HASH_BITS; i++)
		q->latest[i] = (uint32_t)-REQUESTS_WINDOW; /* too old to wait */
	return 0;
}

static uint32_t *latest_free(const struct requests *q, frame_nr frame)
{
	return &q->latest[frame * 2654435761u >> (32 - HASH_BITS)];
}

/*
 * Request `number`, a free_batched, arrives: the latest waiting free of its page, or NULL.
 * Numbers are the low halves; a list ends with the first free too old to wait.
 */
static struct waiting *find_free(const struct requests *q, frame_nr frame, uint64_t number)
{
	uint32_t free = *latest_free(q, frame), age = 0;

	while ((uint32_t)number - free > age && (uint32_t)number - free < REQUESTS_WINDOW) {
		struct waiting *e;

		age = (uint32_t)number - free;
		e = requests_at(q, number - age);
		if (e->kind != EVENT_KIND_FREE)
			break;
		if (e->frame == frame && !e->batched)
			return e;
		free = e->older;
	}
	return NULL;
}

/* Request `number` arrives: it may continue the frees of contiguous pages by a task. */
static void join(struct requests *q, const struct waiting *e, uint64_t number)
{
	uint32_t *on_cpu = &q->on_cpu[e->moment.cpu], age = (uint32_t)number - (*on_cpu - 1);
	struct waiting *last =
		*on_cpu && age < REQUESTS_WINDOW ? requests_at(q, number - age) : NULL;

	*on_cpu = (uint32_t)number + 1;
	if (last && last->kind == EVENT_KIND_FREE && e->kind == EVENT_KIND_FREE && !last->order &&
	    !e->order && last->moment.pid == e->moment.pid && last->frame + 1 == e->frame)
		last->joins = true;
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
			      .order = VALUE_OR(c, page_order, i, 0),
			      .kind = kind,
			      .action = ANOMALY_ACTION_IGNORED,
		      });
}

/* The frame of a block of pages in one zone, or NO_FRAME. */
static inline __attribute__((always_inline)) uint32_t find_frame(struct requests *q, uint64_t pfn,
								 unsigned order)
{
	const struct zone *zone = q->zone;

	if (!zone_has(zone, pfn)) {
		zone = pfn_zone(q->model, pfn);
		if (!zone)
			return NO_FRAME;
		q->zone = zone;
	}
	pfn -= zone->start_pfn;
	return (zone->end - zone->start - pfn) >> order ? zone->start + (uint32_t)pfn : NO_FRAME;
}

/* Bitmap of the rows with a value, of 64. */
struct validity {
	uint64_t pfn, page_order, migratetype, gfp_flags;
};

/* Up to 64 rows of a batch, which begins at row `at` of `event`. */
struct rows {
	const struct event_columns *columns;
	const struct validity *valid;
	uint64_t at;
};

static uint64_t valid_rows(const uint8_t *bitmap, size_t first, size_t end)
{
	uint64_t bits = UINT64_MAX;
	size_t left = (end - first + 7) / 8;

	if (bitmap)
		memcpy(&bits, bitmap + first / 8, left < sizeof(bits) ? left : sizeof(bits));
	return bits;
}

/* The validity of row i's 64, which is the first of them or the first that is read. */
static void read_validity(struct validity *valid, const struct event_columns *c, size_t i,
			  size_t end)
{
	size_t first = i & ~(size_t)63;

	valid->pfn = valid_rows(c->pfn_valid, first, end);
	valid->page_order = valid_rows(c->page_order_valid, first, end);
	valid->migratetype = valid_rows(c->migratetype_valid, first, end);
	valid->gfp_flags = valid_rows(c->gfp_flags_valid, first, end);
}

/* Bits first to end - 1 of row `first`'s 64. */
static uint64_t bits_of(size_t first, size_t end)
{
	return UINT64_MAX >> (63 - (end - 1 - first)) << (first & 63);
}

/*
 * Whether rows `first` to `end` - 1, at most 64, are plain: each passes the tests of read_row()
 * that do not look at pages. Also false where a null hides a wild value.
 */
static bool are_plain(const struct requests *q, const struct event_columns *c,
		      const struct validity *valid, size_t first, size_t end)
{
	uint64_t wild = (c->ts[first] - q->last_ts) | c->ts[first], all = bits_of(first, end);
	uint8_t kind = 0, order = 0;
	uint16_t cpu = 0;

	for (size_t i = first + 1; i < end; i++)
		wild |= (c->ts[i] - c->ts[i - 1]) | c->ts[i];
	for (size_t i = first; i < end; i++)
		kind = c->kind[i] > kind ? c->kind[i] : kind;
	for (size_t i = first; i < end; i++)
		order = c->page_order[i] > order ? c->page_order[i] : order;
	for (size_t i = first; i < end; i++)
		cpu = c->cpu[i] > cpu ? c->cpu[i] : cpu;
	return !(wild >> 62) && kind < NR_EVENT_KIND && order <= q->model->max_order &&
	       cpu < q->model->nr_cpus && (valid->pfn & all) == all;
}

/*
 * Fill in request `number`; false, with an anomaly, if the row cannot be one. Plain copies come
 * first: gcc spills them if they follow the branches.
 */
static inline __attribute__((always_inline)) bool read_row(struct requests *q, struct waiting *e,
							   uint64_t number, const struct rows *rows,
							   size_t i, bool plain)
{
	const struct event_columns *c = rows->columns;
	const struct validity *valid = rows->valid;
	uint64_t at = rows->at;
	const struct model *m = q->model;
	unsigned kind = c->kind[i], row = i & 63;
	unsigned last = q->zone_requests ? EVENT_KIND_ALLOC_EXTFRAG : EVENT_KIND_FREE_BATCHED;
	unsigned order = valid->page_order >> row & 1 ? c->page_order[i] : 0;
	uint64_t ts = c->ts[i], pfn = plain || valid->pfn >> row & 1 ? c->pfn[i] : UINT64_MAX;
	frame_nr frame;

	e->moment.ts = ts;
	e->moment.pid = c->pid[i];
	e->moment.cpu = c->cpu[i];
	e->moment.flags = c->flags[i];
	e->gfp_flags = valid->gfp_flags >> row & 1 ? c->gfp_flags[i] : 0;
	e->at = (uint32_t)(at + i);
	e->kind = (uint8_t)kind;
	e->migratetype = valid->migratetype >> row & 1 ? c->migratetype[i] : NR_MIGRATETYPE;
	e->batched = e->follows = e->joins = false;
	if (kind == EVENT_KIND_ALLOC ? e->migratetype >= NR_MIGRATETYPE : pfn == UINT64_MAX) {
		refuse(q, c, at, i, ANOMALY_KIND_BAD_EVENT);
		return false;
	}
	if (!plain && ((kind > last) | (c->cpu[i] >= m->nr_cpus) |
		       (order > (unsigned)m->max_order) | (ts < q->last_ts) | (ts >> 62 != 0))) {
		refuse(q, c, at, i, ANOMALY_KIND_BAD_EVENT);
		return false;
	}
	q->last_ts = ts;
	frame = find_frame(q, pfn, order);
	if (frame == NO_FRAME) {
		if (pfn != UINT64_MAX) {
			refuse(q, c, at, i, ANOMALY_KIND_OUTSIDE_ZONES);
			return false;
		}
		q->failures++;
	}
	e->frame = frame;
	e->order = (uint8_t)order;
	if (kind == EVENT_KIND_FREE) {
		uint32_t *latest = latest_free(q, frame);

		e->older = *latest;
		*latest = (uint32_t)number;
	} else if (kind == EVENT_KIND_FREE_BATCHED) {
		struct waiting *first = find_free(q, frame, number);

		if (first) {
			first->batched = e->batched = true;
			e->order = first->order;
		}
	}
	if (q->on_cpu)
		join(q, e, number);
	return true;
}

/*
 * Read rows of the same 64 of a tape of the event set zone. They are few, so they need no second
 * copy of the loop.
 */
static size_t read_zone_rows(struct requests *q, const struct rows *rows, size_t first, size_t end)
{
	const struct event_columns *c = rows->columns;
	const struct validity *valid = rows->valid;
	uint64_t number = q->arrived;

	for (size_t i = first; i < end; i++) {
		struct waiting *e = requests_at(q, number);
		unsigned kind = c->kind[i], row = i & 63;

		if (kind == EVENT_KIND_ALLOC || kind == EVENT_KIND_FREE_BATCHED)
			continue;
		/* Old kernels report a page that they did not find. */
		if (kind == EVENT_KIND_ALLOC_ZONE_LOCKED && !(valid->pfn >> row & 1))
			continue;
		if (kind < NR_EVENT_KIND && kind != EVENT_KIND_FREE &&
		    (!(valid->migratetype >> row & 1) || c->migratetype[i] >= NR_MIGRATETYPE)) {
			refuse(q, c, rows->at, i, ANOMALY_KIND_BAD_EVENT);
			continue;
		}
		if (read_row(q, e, number, rows, i, false) && zone_request_read(q, e, number))
			number++;
	}
	return number - q->arrived;
}

/* Read rows of the same 64; returns the number of requests. */
static inline __attribute__((always_inline)) size_t read_rows(struct requests *q,
							      const struct rows *rows, size_t first,
							      size_t end, bool plain)
{
	const struct event_columns *c = rows->columns;
	uint64_t number = q->arrived;
	struct waiting *e = requests_at(q, number);

	for (size_t i = first; i < end; i++) {
		if (c->kind[i] > EVENT_KIND_FREE_BATCHED && c->kind[i] < NR_EVENT_KIND)
			continue;
		if (!read_row(q, e, number, rows, i, plain))
			continue;
		number++;
		e++;
	}
	return number - q->arrived;
}

size_t requests_read(struct requests *q, const struct event_columns *columns, uint64_t at,
		     size_t first, size_t end)
{
	const struct event_columns c = *columns;
	struct validity valid;
	const struct rows rows = {&c, &valid, at};
	size_t room = REQUESTS_CHUNK - q->arrived % REQUESTS_CHUNK;

	while (first < end && room) {
		size_t stop = (first | 63) + 1, nr;

		stop = stop < end ? stop : end;
		stop = stop - first < room ? stop : first + room;
		read_validity(&valid, &c, first, end);
		/* Two copies of the loop: in the first the compiler knows that rows are plain. */
		if (q->zone_requests)
			nr = read_zone_rows(q, &rows, first, stop);
		else if (are_plain(q, &c, &valid, first, stop))
			nr = read_rows(q, &rows, first, stop, true);
		else
			nr = read_rows(q, &rows, first, stop, false);
		q->arrived += nr;
		room -= nr;
		first = stop;
	}
	return first;
}

size_t requests_due(struct requests *q, bool flush, struct waiting **due, struct waiting **next)
{
	uint64_t waiting = q->arrived - q->done;
	size_t nr = waiting < REQUESTS_CHUNK ? waiting : REQUESTS_CHUNK;

	if (!flush && waiting < REQUESTS_WINDOW + REQUESTS_CHUNK)
		return 0;
	*due = requests_at(q, q->done);
	*next = requests_at(q, q->done + REQUESTS_CHUNK);
	q->done += nr;
	return nr;
}
