// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "policy.h"

#include <errno.h>
#include <stdlib.h>

struct unit {
	uint32_t opener; /* in units->open */
	uint16_t live;   /* pages asked for and not freed */
	bool open;       /* more pages of it may be asked for */
};

/* What one CPU's requests for one migratetype are served from. */
struct open_unit {
	uint64_t last_ts;
	uint32_t head; /* NO_FRAME: nothing */
	uint16_t asked, node;
	uint8_t class_zone;
};

struct units {
	int order;
	uint64_t gap_ns;
	struct unit *of;        /* [frame >> order] */
	struct open_unit *open; /* [cpu][migratetype] */
};

int units_new(struct units **out, const struct model *m, const struct alloc_unit *unit,
	      struct error *err)
{
	size_t nr_open = (size_t)m->nr_cpus * NR_MIGRATETYPE;
	struct units *u = calloc(1, sizeof(*u));

	*out = NULL;
	if (!u)
		return fail(err, ENOMEM, "no memory for allocation units");
	*u = (struct units){.order = unit->order, .gap_ns = unit->gap_ns};
	u->of = calloc((m->nr_frames >> u->order) + 1, sizeof(*u->of));
	u->open = calloc(nr_open, sizeof(*u->open));
	if (!u->of || !u->open) {
		units_free(u);
		return fail(err, ENOMEM, "no memory for the units of %u page frames", m->nr_frames);
	}
	for (size_t i = 0; i < nr_open; i++)
		u->open[i].head = NO_FRAME;
	*out = u;
	return 0;
}

void units_free(struct units *u)
{
	if (!u)
		return;
	free(u->of);
	free(u->open);
	free(u);
}

static struct unit *unit_of(const struct units *u, uint32_t page)
{
	return &u->of[page >> u->order];
}

/* No more pages of it will be asked for. */
static void close_unit(struct units *u, struct model *m, struct open_unit *open)
{
	struct zone *zone = frame_zone(m, open->head);

	zone_counters(m, zone)->unit_waste += (1u << u->order) - open->asked;
	unit_of(u, open->head)->open = false;
	open->head = NO_FRAME;
}

static bool goes_on(const struct units *u, const struct model *m, const struct open_unit *open,
		    const struct request *rq)
{
	return m->now.ts - open->last_ts <= u->gap_ns && open->asked < 1u << u->order &&
	       open->class_zone == rq->class_zone && open->node == rq->node;
}

uint32_t units_alloc(struct units *u, struct model *m, struct request *rq, int *order)
{
	uint32_t opener = (uint32_t)m->now.cpu * NR_MIGRATETYPE + rq->migratetype, head;
	struct open_unit *open = &u->open[opener];

	if (open->head != NO_FRAME && !goes_on(u, m, open, rq))
		close_unit(u, m, open);
	*order = -1;
	if (open->head == NO_FRAME) {
		struct request whole = *rq;

		whole.order = (uint8_t)u->order;
		whole.light = true;
		head = zone_alloc(m, &whole);
		*order = head == NO_FRAME ? 0 : u->order;
		if (head == NO_FRAME)
			return zone_alloc(m, rq);
		*open = (struct open_unit){
			.head = head, .node = rq->node, .class_zone = rq->class_zone};
		*unit_of(u, head) = (struct unit){.opener = opener, .open = true};
		zone_counters(m, frame_zone(m, head))->units++;
	}
	open->last_ts = m->now.ts;
	unit_of(u, open->head)->live++;
	return open->head + open->asked++;
}

bool units_have(const struct units *u, uint32_t page)
{
	return unit_of(u, page)->live;
}

uint32_t units_give_back(struct units *u, struct model *m, uint32_t page, int *order)
{
	struct unit *unit = unit_of(u, page);

	*order = u->order;
	if (--unit->live)
		return NO_FRAME;
	if (unit->open)
		close_unit(u, m, &u->open[unit->opener]);
	return page & ~((1u << u->order) - 1);
}
