// SPDX-License-Identifier: Apache-2.0
#include "alloc_batch.h"

#include "model/memory.h"
#include "model/policy.h"

#include <errno.h>

struct taken_batch {
	uint32_t opener; /* in alloc_batches->open */
	uint16_t live;   /* requested pages not freed */
	bool open;       /* open to further requests */
};

enum { LOOK_AT = 4096 }; /* most batches that one search for unused pages looks at */

/* The open batch of one CPU's requests for one migratetype. */
struct open_batch {
	uint64_t last_ts;
	frame_nr head; /* NO_FRAME: nothing */
	uint16_t asked, node;
	uint8_t class_zone;
};

struct alloc_batches {
	int order;
	uint64_t gap_ns;
	struct taken_batch *of;  /* [frame >> order] */
	struct open_batch *open; /* [cpu][migratetype] */
	uint64_t *used;          /* [frame / 64] a bit for each requested page of a batch */
	frame_nr *hand;          /* [zone] where the next search for unused pages begins */
};

int alloc_batches_new(struct alloc_batches **out, const struct model *m,
		      const struct alloc_batch *batch, struct error *err)
{
	size_t nr_open = (size_t)m->nr_cpus * NR_MIGRATETYPE;
	struct alloc_batches *u = arrays_new(m->arrays, 1, sizeof(*u));

	if (!u)
		return arrays_error(m->arrays, err);
	*u = (struct alloc_batches){.order = batch->order, .gap_ns = batch->gap_ns};
	u->of = arrays_new(m->arrays, (m->nr_frames >> u->order) + 1, sizeof(*u->of));
	u->open = arrays_new(m->arrays, nr_open, sizeof(*u->open));
	u->used = arrays_new(m->arrays, m->nr_frames / 64 + 1, sizeof(*u->used));
	u->hand = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*u->hand));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	for (size_t i = 0; i < nr_open; i++)
		u->open[i].head = NO_FRAME;
	*out = u;
	return 0;
}

static struct taken_batch *batch_of(const struct alloc_batches *u, frame_nr page)
{
	return &u->of[page >> u->order];
}

static void flip_used(struct alloc_batches *u, frame_nr page)
{
	u->used[page / 64] ^= 1ull << page % 64;
}

static bool is_used(const struct alloc_batches *u, frame_nr page)
{
	return u->used[page / 64] >> page % 64 & 1;
}

/* Close a batch to further requests. */
static void close_batch(struct alloc_batches *u, struct model *m, struct open_batch *open)
{
	struct zone *zone = frame_zone(m, open->head);

	zone_counters(m, zone)->alloc_batch_waste += (1u << u->order) - open->asked;
	batch_of(u, open->head)->open = false;
	open->head = NO_FRAME;
}

static bool goes_on(const struct alloc_batches *u, const struct model *m,
		    const struct open_batch *open, const struct request *rq)
{
	return m->now.ts - open->last_ts <= u->gap_ns && open->asked < 1u << u->order &&
	       open->class_zone == rq->class_zone && open->node == rq->node;
}

frame_nr alloc_batches_alloc(struct alloc_batches *u, struct model *m, struct request *rq,
			     int *order)
{
	uint32_t opener = (uint32_t)m->now.cpu * NR_MIGRATETYPE + rq->migratetype, head;
	struct open_batch *open = &u->open[opener];

	if (open->head != NO_FRAME && !goes_on(u, m, open, rq))
		close_batch(u, m, open);
	*order = -1;
	if (open->head == NO_FRAME) {
		struct request whole = *rq;

		whole.order = (uint8_t)u->order;
		whole.light = true;
		head = zone_alloc(m, &whole);
		*order = head == NO_FRAME ? 0 : u->order;
		if (head == NO_FRAME)
			return zone_alloc(m, rq);
		*open = (struct open_batch){
			.head = head, .node = rq->node, .class_zone = rq->class_zone};
		*batch_of(u, head) = (struct taken_batch){.opener = opener, .open = true};
		zone_counters(m, frame_zone(m, head))->alloc_batches++;
	}
	open->last_ts = m->now.ts;
	batch_of(u, open->head)->live++;
	flip_used(u, open->head + open->asked);
	return open->head + open->asked++;
}

bool alloc_batches_have(const struct alloc_batches *u, frame_nr page)
{
	return batch_of(u, page)->live;
}

frame_nr alloc_batches_give_back(struct alloc_batches *u, struct model *m, frame_nr page,
				 int *order)
{
	struct taken_batch *batch = batch_of(u, page);

	*order = u->order;
	flip_used(u, page);
	if (--batch->live)
		return NO_FRAME;
	if (batch->open)
		close_batch(u, m, &u->open[batch->opener]);
	return page & ~((1u << u->order) - 1);
}

int64_t alloc_batches_split(struct alloc_batches *u, struct model *m, frame_nr page)
{
	struct taken_batch *batch = batch_of(u, page);
	frame_nr head = page & ~((1u << u->order) - 1);
	int64_t freed = 0;

	if (batch->open)
		close_batch(u, m, &u->open[batch->opener]);
	for (frame_nr frame = head; frame < head + (1u << u->order); frame++) {
		block_carve(m, frame, 0);
		if (is_used(u, frame)) {
			flip_used(u, frame);
			continue;
		}
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, frame), 0);
		zone_free(m, frame, 0);
		freed++;
	}
	batch->live = 0;
	zone_counters(m, frame_zone(m, head))->alloc_batch_split += (uint64_t)freed;
	return freed;
}

void alloc_batches_move(struct alloc_batches *u, frame_nr from, frame_nr to)
{
	struct taken_batch *old = batch_of(u, from), *moved = batch_of(u, to);

	*moved = *old;
	*old = (struct taken_batch){0};
	if (moved->open)
		u->open[moved->opener].head = to;
	for (uint32_t i = 0; i < 1u << u->order; i++)
		if (is_used(u, from + i)) {
			flip_used(u, from + i);
			flip_used(u, to + i);
		}
}

int64_t alloc_batches_split_some(struct alloc_batches *u, struct model *m, const struct zone *zone,
				 int64_t pages)
{
	frame_nr *hand = &u->hand[zone->number];
	int64_t freed = 0;

	for (int looked = 0; looked < LOOK_AT && freed < pages; looked++) {
		const struct taken_batch *batch;

		if (*hand < zone->base || *hand >= zone->end)
			*hand = zone->base;
		batch = batch_of(u, *hand);
		if (batch->live && batch->live < 1u << u->order && !batch->open)
			freed += alloc_batches_split(u, m, *hand);
		*hand += 1u << u->order;
	}
	return freed;
}
